package mcptool_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// answerPages answers tools/list with the page of each cursor.
func answerPages(page func(cursor string) string) map[string]act {
	return map[string]act{"tools/list": func(w http.ResponseWriter, _ *http.Request, m message) {
		var params struct{ Cursor string }
		_ = json.Unmarshal(m.Params, &params)
		writeAnswer(w, m, page(params.Cursor))
	}}
}

func manyTools(from, count int) string {
	list := make([]string, 0, count)
	for i := range count {
		list = append(list, fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, from+i))
	}
	return `"tools":[` + strings.Join(list, ",") + `]`
}

func TestAllPagesAreFollowed(t *testing.T) {
	t.Parallel()
	upstream := &script{at: answerPages(func(cursor string) string {
		switch cursor {
		case "":
			return `{` + manyTools(0, 3) + `,"nextCursor":"a\"b","ttlMs":5000}`
		case `a"b`:
			return `{` + manyTools(3, 2) + `,"nextCursor":"c","ttlMs":60000}`
		}
		return `{` + manyTools(5, 1) + `,"nextCursor":null}`
	})}
	s := newSource(t, mcptool.Config{})
	listing, err := s.List(t.Context(), httpSkill(upstream.serve(t).URL))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range listing.Tools {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "t0 t1 t2 t3 t4 t5" || listing.TTL == nil || *listing.TTL != 5*time.Second || listing.ProtocolVersion != "2025-11-25" {
		t.Errorf("tools %s, TTL %v, version %s", got, listing.TTL, listing.ProtocolVersion)
	}
}

// A TTL of zero differs from no TTL.
func TestTTL(t *testing.T) {
	t.Parallel()
	for member, want := range map[string]string{
		``: "none", `,"ttlMs":null`: "none", `,"ttlMs":-1`: "none", `,"ttlMs":"5"`: "none",
		`,"ttlMs":0`: "0s", `,"ttlMs":1.5`: "1.5ms", `,"ttlMs":1e300`: "24h0m0s",
	} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			upstream := &script{at: answerPages(func(string) string { return `{` + manyTools(0, 1) + member + `}` })}
			listing, err := newSource(t, mcptool.Config{}).List(t.Context(), httpSkill(upstream.serve(t).URL))
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if listing.TTL != nil {
				got = listing.TTL.String()
			}
			if got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestDefinitionsArriveByteForByte(t *testing.T) {
	t.Parallel()
	const definition = `{"name":"echo","inputSchema":{"type":"object","properties":{"n":{"maximum":9007199254740993,"default":1e400}}},"icons":[{"src":"<x>"}],"_meta":{"k":-0}}`
	upstream := &script{at: answerPages(func(string) string { return `{"tools":[ ` + definition + ` ]}` })}
	s := newSource(t, mcptool.Config{})
	listing, err := s.List(t.Context(), httpSkill(upstream.serve(t).URL))
	if err != nil || len(listing.Tools) != 1 {
		t.Fatal(listing, err)
	}
	if got := string(listing.Tools[0].Raw()); got != definition {
		t.Errorf("got %s", got)
	}
}

func TestUnusableToolsAreSkipped(t *testing.T) {
	t.Parallel()
	upstream := &script{at: answerPages(func(string) string {
		return `{"tools":[{"name":"good","inputSchema":{"type":"object"}},{"name":"good","inputSchema":{"type":"object","x":1}},
			{"name":"no schema"},{"inputSchema":{"type":"object"}},7,null]}`
	})}
	s := newSource(t, mcptool.Config{})
	listing, err := s.List(t.Context(), httpSkill(upstream.serve(t).URL))
	if err != nil {
		t.Fatal(err)
	}
	if len(listing.Tools) != 1 || len(listing.Skipped) != 5 {
		t.Fatalf("%d tools, skipped %v", len(listing.Tools), listing.Skipped)
	}
	for i, want := range []string{"good", "no schema", "", "", ""} {
		if got := listing.Skipped[i]; got.Name != want || got.Reason == "" {
			t.Errorf("skipped %d: %q because %q, want %q", i, got.Name, got.Reason, want)
		}
	}
}

func TestListsBeyondTheirBounds(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	small := mcptool.Limits{ListBytes: 8 << 16}
	tests := map[string]struct {
		at     map[string]act
		limits mcptool.Limits
		kind   tool.FailureKind
		says   string
	}{
		"10,000 tools":  {answerPages(func(string) string { return `{` + manyTools(0, 10_000) + `}` }), mcptool.Limits{}, tool.ProtocolFailure, "more than 1000 tools"},
		"same cursor":   {answerPages(func(string) string { return `{"tools":[],"nextCursor":"again"}` }), mcptool.Limits{}, tool.ProtocolFailure, `the same cursor twice, "again"`},
		"endless pages": {answerPages(func(string) string { return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n.Add(1)) }), mcptool.Limits{}, tool.ProtocolFailure, "more than 100 pages"},
		"too long":      {answerPages(func(string) string { return `{"tools":[],"x":"` + strings.Repeat("x", 9<<16) + `"}` }), small, tool.ProtocolFailure, "more than 524288 bytes"},
		"too long by and by": {answerPages(func(string) string {
			return fmt.Sprintf(`{"tools":[],"nextCursor":"%d","x":"%s"}`, n.Add(1), strings.Repeat("x", 3<<20))
		}), mcptool.Limits{}, tool.ProtocolFailure, "more than 8388608 bytes"},
		"hangs":            {map[string]act{"tools/list": waitForClient}, mcptool.Limits{List: 300 * time.Millisecond}, tool.TransportFailure, "time"},
		"connecting hangs": {map[string]act{"server/discover": waitForClient, "initialize": waitForClient}, mcptool.Limits{List: 300 * time.Millisecond}, tool.TransportFailure, "time"},
		"no list":          {answerPages(func(string) string { return `{"items":[]}` }), mcptool.Limits{}, tool.ProtocolFailure, "no tools"},
		"tools no list":    {answerPages(func(string) string { return `{"tools":{}}` }), mcptool.Limits{}, tool.ProtocolFailure, "not a list"},
		"cursor no string": {answerPages(func(string) string { return `{"tools":[],"nextCursor":7}` }), mcptool.Limits{}, tool.ProtocolFailure, "nextCursor"},
		"500":              {map[string]act{"tools/list": answerStatus(500, "", "")}, mcptool.Limits{}, tool.TransportFailure, "500"},
		"401":              {map[string]act{"tools/list": answerUnauthorized(401)}, mcptool.Limits{}, tool.TransportFailure, "401"},
		"no such method":   {map[string]act{"tools/list": rpcError(200, -32601, "no tools here")}, mcptool.Limits{}, tool.JSONRPCError, "no tools here"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := &script{at: test.at}
			s := newSource(t, mcptool.Config{Limits: test.limits})
			skill := httpSkill(upstream.serve(t).URL)
			listing, err := s.List(t.Context(), skill)
			if err == nil {
				t.Fatalf("%d tools", len(listing.Tools))
			}
			f := asFailure(t, err)
			if f.Kind != test.kind || f.Effect != tool.EffectNone || !strings.Contains(f.Message, test.says) {
				t.Errorf("got %s, effect %s: %s", f.Kind, f.Effect, f.Message)
			}
			if (name == "401") != f.Unauthorized {
				t.Errorf("unauthorized %t", f.Unauthorized)
			}
		})
	}
}

func TestToolsWithInvalidHeadersAreLeftOut(t *testing.T) {
	t.Parallel()
	schema := func(property string) string {
		return `{"type":"object","properties":{"a":` + property + `,"b":{"type":"string","x-mcp-header":"Taken"}}}`
	}
	upstream := &script{at: map[string]act{
		"server/discover": func(w http.ResponseWriter, _ *http.Request, m message) {
			writeAnswer(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`)
		},
		"tools/list": func(w http.ResponseWriter, _ *http.Request, m message) {
			writeAnswer(w, m, `{"resultType":"complete","tools":[
				{"name":"good","inputSchema":`+schema(`{"type":"integer","x-mcp-header":"A"}`)+`},
				{"name":"object","inputSchema":`+schema(`{"type":"object","x-mcp-header":"A"}`)+`},
				{"name":"space","inputSchema":`+schema(`{"type":"string","x-mcp-header":"A B"}`)+`},
				{"name":"empty","inputSchema":`+schema(`{"type":"string","x-mcp-header":""}`)+`},
				{"name":"twice","inputSchema":`+schema(`{"type":"string","x-mcp-header":"taken"}`)+`}]}`)
		},
	}}
	s := newSource(t, mcptool.Config{})
	listing, err := s.List(t.Context(), httpSkill(upstream.serve(t).URL))
	if err != nil {
		t.Fatal(err)
	}
	if len(listing.Tools) != 1 || len(listing.Skipped) != 4 {
		t.Errorf("tools %d, skipped %v", len(listing.Tools), listing.Skipped)
	}
}
