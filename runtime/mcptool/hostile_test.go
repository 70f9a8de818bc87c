package mcptool_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// floodClient writes prefix and then 100 MB, and counts the bytes that the client accepts.
func floodClient(w io.Writer, prefix string, taken *atomic.Int64) {
	piece := []byte(strings.Repeat("x", 64<<10))
	if _, err := io.WriteString(w, prefix); err != nil {
		return
	}
	for range 100 << 20 / len(piece) {
		n, err := w.Write(piece)
		taken.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// manyMembers returns count members of an object, with distinct names.
func manyMembers(count int) string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf(`"m%d":0`, i)
	}
	return strings.Join(list, ",")
}

func TestHostileAnswersToACall(t *testing.T) {
	t.Parallel()
	body := func(contentType, text string) act { return answerStatus(200, contentType, text) }
	result := func(text string) act {
		return func(w http.ResponseWriter, _ *http.Request, m message) { writeAnswer(w, m, text) }
	}
	tests := map[string]struct {
		act    act
		kind   tool.FailureKind
		effect tool.Effect
		says   string
	}{
		"HTML":             {body("text/html", "<html>Welcome"), tool.ProtocolFailure, tool.EffectPossible, "text/html"},
		"no content type":  {body("", "hello"), tool.ProtocolFailure, tool.EffectPossible, "not MCP"},
		"broken JSON":      {body("application/json", `{"jsonrpc":"2.0","id":`), tool.ProtocolFailure, tool.EffectPossible, "not MCP"},
		"other JSON":       {body("application/json", `{"ok":true}`), tool.ProtocolFailure, tool.EffectPossible, "not MCP"},
		"a batch":          {body("application/json", `[]`), tool.ProtocolFailure, tool.EffectPossible, "not a JSON object"},
		"empty":            {body("application/json", ``), tool.ProtocolFailure, tool.EffectPossible, "not MCP"},
		"invalid UTF-8":    {body("application/json", "{\"jsonrpc\":\"2.0\",\"id\":1001,\"result\":{\"a\":\"\xff\"}}"), tool.ProtocolFailure, tool.EffectPossible, "UTF-8"},
		"two results":      {result(`{},"result":{}`), tool.ProtocolFailure, tool.EffectPossible, "twice"},
		"many members":     {result(`{},` + manyMembers(80_000)), tool.ProtocolFailure, tool.EffectPossible, "more than 1000 members"},
		"in the result":    {result(`{` + manyMembers(80_000) + `}`), tool.ProtocolFailure, tool.EffectPossible, "more than 1000 members"},
		"another id":       {body("application/json", `{"jsonrpc":"2.0","id":77,"result":{}}`), tool.ProtocolFailure, tool.EffectPossible, "another request"},
		"result no object": {result(`[1]`), tool.ProtocolFailure, tool.EffectPossible, "not a JSON object"},
		"isError no bool":  {result(`{"isError":"yes"}`), tool.ProtocolFailure, tool.EffectPossible, "isError"},
		"task":             {result(`{"resultType":"task","taskId":"t"}`), tool.ProtocolFailure, tool.EffectPossible, "task"},
		"input required":   {result(`{"resultType":"input_required","inputRequests":{}}`), tool.ProtocolFailure, tool.EffectPossible, "input"},
		"unknown type":     {result(`{"resultType":"poem\u202e"}`), tool.ProtocolFailure, tool.EffectPossible, `unknown type`},
		"202":              {answerStatus(202, "", ""), tool.ProtocolFailure, tool.EffectPossible, "without an answer"},
		"an event not MCP": {body("text/event-stream", "data: hello\n\n"), tool.ProtocolFailure, tool.EffectPossible, "not MCP"},
		"JSON-RPC error":   {rpcError(200, -32602, "no such tool"), tool.JSONRPCError, tool.EffectNone, "no such tool"},
		"400 JSON-RPC":     {rpcError(400, -32602, "bad \u0000 input"), tool.JSONRPCError, tool.EffectNone, "bad "},
		"404 with our id":  {rpcError(404, -32601, "no method"), tool.JSONRPCError, tool.EffectNone, "no method"},
		"400 in words":     {answerStatus(400, "text/plain", "go\u200baway"), tool.TransportFailure, tool.EffectNone, `go\u200baway`},
		"404 in words":     {answerStatus(404, "text/plain", "nothing here"), tool.TransportFailure, tool.EffectNone, "404"},
		"408":              {answerStatus(408, "", ""), tool.TransportFailure, tool.EffectPossible, "408"},
		"413":              {answerStatus(413, "", ""), tool.TransportFailure, tool.EffectNone, "413"},
		"429":              {answerStatus(429, "text/plain", "slow down"), tool.TransportFailure, tool.EffectNone, "slow down"},
		"502":              {answerStatus(502, "text/html", "<html>"), tool.TransportFailure, tool.EffectPossible, "502"},
		"redirect":         {redirectTo(307, "https://evil.example/mcp?secret=1"), tool.TransportFailure, tool.EffectNone, "https://evil.example,"},
		"redirect after":   {redirectTo(303, "/done"), tool.TransportFailure, tool.EffectPossible, "same origin"},
		"401":              {answerUnauthorized(401), tool.TransportFailure, tool.EffectNone, "401"},
		"403":              {answerUnauthorized(403), tool.TransportFailure, tool.EffectNone, "403"},
		"upgrade":          {answerStatus(101, "", ""), tool.ProtocolFailure, tool.EffectPossible, "101"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{at: map[string]act{"tools/call": test.act}}
			s := newSource(t, mcptool.Config{})
			f := failCall(withTimeout(t, 20*time.Second), t, s, httpSkill(upstream.serve(t).URL))
			if f.Kind != test.kind || f.Effect != test.effect || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if strings.Contains(f.Message, "secret") || strings.ContainsRune(f.Message, 0) || strings.ContainsRune(f.Message, '\u202e') {
				t.Errorf("message %q", f.Message)
			}
			if wantAuth := name == "401" || name == "403"; f.Unauthorized != wantAuth || (f.Challenge != "") != wantAuth {
				t.Errorf("unauthorized %t, challenge %q", f.Unauthorized, f.Challenge)
			}
			if (f.Kind == tool.JSONRPCError) != (f.RPC != nil) {
				t.Errorf("RPC %s", f.RPC)
			}
			if n := upstream.countRequests("tools/call"); n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

func rpcError(code, rpcCode int, text string) act {
	return func(w http.ResponseWriter, _ *http.Request, m message) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q,"data":{"n":1e400}}}`, m.ID, rpcCode, strings.ReplaceAll(text, "\x00", ""))
	}
}

func redirectTo(code int, location string) act {
	return func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("Location", location)
		w.WriteHeader(code)
	}
}

func answerUnauthorized(code int) act {
	return func(w http.ResponseWriter, _ *http.Request, _ message) {
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="https://x.example/.well-known/oauth-protected-resource", scope="a"`)
		w.WriteHeader(code)
	}
}

func TestHugeAnswersAreNotRead(t *testing.T) {
	t.Parallel()
	heads := map[string]string{
		"application/json":  `{"jsonrpc":"2.0","id":1001,"result":{"s":"`,
		"text/event-stream": `data: {"jsonrpc":"2.0","id":1001,"result":{"s":"`,
		"text/html":         `<html>`,
	}
	for contentType, head := range heads {
		t.Run(contentType, func(t *testing.T) {
			t.Parallel()
			var taken atomic.Int64
			upstream := &script{at: map[string]act{"tools/call": func(w http.ResponseWriter, _ *http.Request, _ message) {
				w.Header().Set("Content-Type", contentType)
				floodClient(w, head, &taken)
			}}}
			s := newSource(t, mcptool.Config{Limits: mcptool.Limits{ResultBytes: 1 << 20}})
			skill := httpSkill(upstream.serve(t).URL)
			f := failCall(t.Context(), t, s, skill)
			if f.Kind != tool.ProtocolFailure || f.Effect != tool.EffectPossible || !strings.Contains(f.Message, "larger than 1048576 bytes") {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if len(f.Raw) == 0 {
				t.Error("the failure has no raw response")
			}
			if n := taken.Load(); n > 40<<20 { // more than the kernel's buffers hold
				t.Errorf("the client took %d bytes", n)
			}
			if n := upstream.countRequests("tools/call"); n != 1 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

func TestHostileConnecting(t *testing.T) {
	t.Parallel()
	var taken atomic.Int64
	t.Cleanup(func() {
		if n := taken.Load(); n > 80<<20 {
			t.Errorf("the client took %d bytes", n)
		}
	})
	tests := map[string]struct {
		at   map[string]act
		kind tool.FailureKind
		says string
	}{
		"hangs":                 {map[string]act{"server/discover": waitForClient, "initialize": waitForClient}, tool.TransportFailure, "time"},
		"only initialize hangs": {map[string]act{"initialize": waitForClient}, tool.TransportFailure, "time"},
		"closes":                {map[string]act{"server/discover": hangUp, "initialize": hangUp}, tool.TransportFailure, "connect"},
		"HTML":                  {map[string]act{"initialize": answerStatus(200, "text/html", "<html>")}, tool.ProtocolFailure, "text/html"},
		"500":                   {map[string]act{"initialize": answerStatus(500, "text/plain", "oops")}, tool.TransportFailure, "500"},
		"401":                   {map[string]act{"server/discover": answerUnauthorized(401), "initialize": answerUnauthorized(401)}, tool.TransportFailure, "401"},
		"redirect":              {map[string]act{"server/discover": redirectTo(308, "https://evil.example/"), "initialize": redirectTo(308, "https://evil.example/")}, tool.TransportFailure, "https://evil.example"},
		"JSON-RPC error":        {map[string]act{"initialize": rpcError(200, -32000, "full")}, tool.JSONRPCError, "full"},
		"unknown version": {map[string]act{"initialize": func(w http.ResponseWriter, _ *http.Request, m message) {
			writeAnswer(w, m, `{"protocolVersion":"1999-01-01","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
		}}, tool.ProtocolFailure, "initialize"},
		"100 MB": {map[string]act{"initialize": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.Header().Set("Content-Type", "application/json")
			floodClient(w, `{"a":"`, &taken)
		}}, tool.ProtocolFailure, "initialize"},
		"100 MB refusal": {map[string]act{"server/discover": func(w http.ResponseWriter, _ *http.Request, _ message) {
			w.WriteHeader(http.StatusBadRequest)
			floodClient(w, "", &taken)
		}, "initialize": answerStatus(400, "", "")}, tool.TransportFailure, "400"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{at: test.at}
			limits := mcptool.Limits{Connect: 20 * time.Second}
			if strings.Contains(name, "hangs") {
				limits.Connect = time.Second
			}
			s := newSource(t, mcptool.Config{Limits: limits})
			skill := httpSkill(upstream.serve(t).URL)
			f := failCall(t.Context(), t, s, skill)
			if f.Kind != test.kind || f.Effect != tool.EffectNone || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if wantAuth := name == "401"; f.Unauthorized != wantAuth || (f.Challenge != "") != wantAuth {
				t.Errorf("unauthorized %t, challenge %q", f.Unauthorized, f.Challenge)
			}
			if n := upstream.countRequests("tools/call"); n != 0 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

func TestDiscoverThatHangsLeavesTimeForInitialize(t *testing.T) {
	t.Parallel()
	upstream := &script{at: map[string]act{"server/discover": waitForClient}}
	s := newSource(t, mcptool.Config{Limits: mcptool.Limits{Connect: 8 * time.Second}})
	callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
}

func TestMetadataAddressIsNeverDialled(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{})
	f := failCall(t.Context(), t, s, httpSkill("http://169.254.169.254/mcp?key=secret"))
	if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone || !strings.Contains(f.Message, "never dialled") || strings.Contains(f.Message, "secret") {
		t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
	}
}

func TestUnusableURLs(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{})
	for _, url := range []string{"", "file:///etc/passwd", "http://", "ftp://x/", "::"} {
		f := failCall(t.Context(), t, s, httpSkill(url))
		if f.Kind != tool.TransportFailure || f.Effect != tool.EffectNone {
			t.Errorf("%q: got %s, effect %s: %s", url, f.Kind, f.Effect, f.Message)
		}
	}
}

// TestHangingSkillHoldsUpNoOther: a hanging skill delays neither connecting nor calling another.
func TestHangingSkillHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	hanging := []tool.Server{
		httpSkill((&script{at: map[string]act{"server/discover": waitForClient, "initialize": waitForClient}}).serve(t).URL),
		httpSkill((&script{at: map[string]act{"tools/call": waitForClient}}).serve(t).URL),
	}
	for _, skill := range hanging {
		go func() {
			_, _ = s.Call(ctx, skill, tool.CallRequest{Tool: "echo"})
			done <- struct{}{}
		}()
	}
	good := httpSkill((&script{}).serve(t).URL)
	for range 10 {
		callTool(t, s, good, "echo", `{}`)
	}
	cancel()
	<-done
	<-done
}
