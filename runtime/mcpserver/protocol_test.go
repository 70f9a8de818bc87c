package mcpserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLegacySession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for asked, want := range map[string]string{
		"2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2024-11-05": "2025-11-25", "2031-01-01": "2025-11-25",
	} {
		a := b.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + asked + `","capabilities":{"roots":{}},"clientInfo":{"name":"c"}}}`)
		v := decodeJSON(t, a.body)
		if got := memberAt(v, "result", "protocolVersion"); a.status != http.StatusOK || got != want {
			t.Errorf("requested %s: %d %v", asked, a.status, got)
		}
		if memberAt(v, "result", "capabilities", "tools") == nil || memberAt(v, "result", "serverInfo", "version") != "1.2.3" {
			t.Errorf("requested %s: %s", asked, a.body)
		}
		if got := string(b.agents.clients[len(b.agents.clients)-1]); got != `{"clientInfo":{"name":"c"},"capabilities":{"roots":{}}}` {
			t.Errorf("client: %s", got)
		}
	}
	session := b.startSession()
	for _, step := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"initialized", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, http.StatusAccepted, ""},
		{"response of a client", `{"jsonrpc":"2.0","id":1,"result":{}}`, http.StatusAccepted, ""},
		{"ping", `{"jsonrpc":"2.0","id":"p","method":"ping"}`, http.StatusOK, `{"jsonrpc":"2.0","id":"p","result":{}}`},
		{"call", callBody("7", "echo", `{ "a" : 1 }`), http.StatusOK, `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"{\"a\":1}"}]}}`},
		{"call without arguments", `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"files__echo"}}`, http.StatusOK, `{"jsonrpc":"2.0","id":8,"result":{"content":[{"type":"text","text":"{}"}]}}`},
		{"unknown method", `{"jsonrpc":"2.0","id":9,"method":"resources/other"}`, http.StatusOK, `{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"method not found: \"resources/other\""}}`},
		{"server/discover", `{"jsonrpc":"2.0","id":9,"method":"server/discover"}`, http.StatusOK, `{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"method not found: \"server/discover\""}}`},
		{"unknown tool", callBody("10", "nope", `{}`), http.StatusOK, `{"jsonrpc":"2.0","id":10,"error":{"code":-32602,"message":"unknown tool \"files__nope\"","data":{"code":"tool_not_found"}}}`},
		{"unknown cursor", `{"jsonrpc":"2.0","id":11,"method":"tools/list","params":{"cursor":"x"}}`, http.StatusOK, `{"jsonrpc":"2.0","id":11,"error":{"code":-32602,"message":"/params/cursor: unknown, or the list has changed: start again without a cursor"}}`},
	} {
		a := b.post(step.body, session...)
		if a.status != step.status || a.body != step.want {
			t.Errorf("%s: %d %s", step.name, a.status, a.body)
		}
	}
}

func TestSessionEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session := b.startSession()
	other := b.startSession()
	end := func(headers ...string) int {
		r := b.newRequest(t.Context(), "", headers...)
		r.Method = http.MethodDelete
		return b.sendRequest(r).status
	}
	if got := end(session...); got != http.StatusNoContent {
		t.Errorf("end: %d", got)
	}
	if got := end(session...); got != http.StatusNotFound {
		t.Errorf("end again: %d", got)
	}
	if got := end(); got != http.StatusMethodNotAllowed {
		t.Errorf("end nothing: %d", got)
	}
	ping := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	foreign := append([]string{"Authorization", "Bearer token-ann"}, other...)
	for name, headers := range map[string][]string{
		"ended":                  session,
		"another principal's":    foreign,
		"malformed":              {"Mcp-Session-Id", "x", "Mcp-Protocol-Version", "2025-11-25"},
		"unknown":                {"Mcp-Session-Id", "7a52e2a6-6a8a-4b8a-8f7e-0c52c4d1c0de"},
		"ended, of notification": session,
	} {
		body := ping
		if strings.Contains(name, "notification") {
			body = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		}
		if a := b.post(body, headers...); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if a := b.post(ping, other...); a.status != http.StatusOK {
		t.Errorf("the other session: %d %s", a.status, a.body)
	}
	if a := b.post(ping, "Mcp-Protocol-Version", "2025-06-18"); a.status != http.StatusBadRequest {
		t.Errorf("no session: %d %s", a.status, a.body)
	}
}

func TestBareClient(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.post(callBody("1", "echo", `{}`), "Accept", "*/*", "Content-Type", "application/x-www-form-urlencoded")
	if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	if a.header.Get("Holdpoint-Call") == "" {
		t.Error("no Holdpoint-Call header")
	}
	if got := b.agents.names(); len(got) != 1 || !strings.HasPrefix(got[0], "day:20") {
		t.Errorf("conversations %q", got)
	}
	a = b.post(callBody("1", "echo", `{}`), "Accept", "text/event-stream")
	if want := "event: message\ndata: {"; a.header.Get("Content-Type") != "text/event-stream" || !strings.Contains(a.body, want) {
		t.Errorf("stream only: %v %s", a.header, a.body)
	}
	if a = b.post(callBody("1", "echo", `{}`), "Accept", "text/html"); a.status != http.StatusNotAcceptable {
		t.Errorf("html: %d", a.status)
	}
	if a = b.post(callBody("1", "echo", `{}`), "Content-Type", "text/plain"); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("plain text: %d", a.status)
	}
	r := b.newRequest(t.Context(), "")
	r.Method = http.MethodGet
	if a = b.sendRequest(r); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "POST, DELETE" {
		t.Errorf("get: %d %v", a.status, a.header)
	}
}

func TestModern(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body, headers := modernRequest("server/discover", "")
	v := decodeJSON(t, b.post(body, headers...).body)
	want := map[string]any{
		"resultType": "complete", "ttlMs": 3600000.0, "cacheScope": "private",
		"supportedVersions": []any{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"},
		"capabilities": map[string]any{
			"tools": map[string]any{"listChanged": true}, "logging": map[string]any{},
			"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
			"resources":  map[string]any{"subscribe": true, "listChanged": true}, "prompts": map[string]any{"listChanged": true}, "completions": map[string]any{},
		},
		"instructions": memberAt(v, "result", "instructions"),
		"_meta": map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{
			"name": "holdpoint", "version": "1.2.3",
		}},
	}
	if diff := cmp.Diff(want, memberAt(v, "result")); diff != "" {
		t.Error(diff)
	}
	body, headers = modernRequest("tools/list", "")
	v = decodeJSON(t, b.post(body, headers...).body)
	if memberAt(v, "result", "resultType") != "complete" || memberAt(v, "result", "cacheScope") != "private" || memberAt(v, "result", "ttlMs") != 60000.0 {
		t.Errorf("tools/list: %v", v)
	}
	body, headers = modernRequest("tools/call", `"name":"files__echo"`, "Mcp-Name", "files__echo")
	if got, want := b.post(body, headers...).body, `{"jsonrpc":"2.0","id":"m","result":{"resultType":"complete","content":[{"type":"text","text":"{}"}]}}`; got != want {
		t.Errorf("tools/call: %s", got)
	}
	body, _ = modernRequest("tools/list", "")
	named := strings.Replace(body, `"_meta":{`, `"_meta":{"dev.holdpoint/conversation":"mine",`, 1)
	b.post(named, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list")
	if got := strings.Join(b.agents.names(), " "); !strings.Contains(got, "mine") || !strings.Contains(got, "day:") {
		t.Errorf("conversations %s", got)
	}
}

func TestModernFaults(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := func(method, params, meta string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{` + meta + `}}}`
	}
	version := `"io.modelcontextprotocol/protocolVersion":"2026-07-28"`
	whole := version + `,"io.modelcontextprotocol/clientCapabilities":{}`
	h := func(method string, more ...string) []string {
		return append([]string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}, more...)
	}
	echo := `"name":"files__echo",`
	for _, c := range []struct {
		name, body string
		headers    []string
		status     int
		code       float64
	}{
		{"no version header", body("tools/list", "", whole), []string{"Mcp-Method", "tools/list"}, 400, -32020},
		{"another version header", body("tools/list", "", whole), []string{"Mcp-Protocol-Version", "2025-11-25", "Mcp-Method", "tools/list"}, 400, -32020},
		{"unsupported version", body("tools/list", "", strings.Replace(whole, "2026-07-28", "1900-01-01", 1)), []string{"Mcp-Protocol-Version", "1900-01-01", "Mcp-Method", "tools/list"}, 400, -32022},
		{"unsupported header", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{"Mcp-Protocol-Version", "2024-01-01"}, 400, -32022},
		{"no _meta", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, h("tools/list"), 400, -32602},
		{"no capabilities", body("tools/list", "", version), h("tools/list"), 400, -32602},
		{"capabilities of a wrong type", body("tools/list", "", version+`,"io.modelcontextprotocol/clientCapabilities":1`), h("tools/list"), 400, -32602},
		{"no method header", body("tools/list", "", whole), []string{"Mcp-Protocol-Version", "2026-07-28"}, 400, -32020},
		{"another method header", body("tools/list", "", whole), h("tools/call"), 400, -32020},
		{"no name header", body("tools/call", echo, whole), h("tools/call"), 400, -32020},
		{"another name header", body("tools/call", echo, whole), h("tools/call", "Mcp-Name", "x"), 400, -32020},
		{"malformed name header", body("tools/call", echo, whole), h("tools/call", "Mcp-Name", "=?base64?!?="), 400, -32020},
		{"unknown method", body("nope", "", whole), h("nope"), 404, -32601},
		{"initialize", body("initialize", "", whole), h("initialize"), 404, -32601},
		{"ping", body("ping", "", whole), h("ping"), 404, -32601},
		{"unknown tool", body("tools/call", `"name":"x",`, whole), h("tools/call", "Mcp-Name", "x"), 400, -32602},
		{"conversation with control characters", body("tools/list", "", whole+`,"dev.holdpoint/conversation":"a\u0000"`), h("tools/list"), 400, -32602},
	} {
		a := b.post(c.body, c.headers...)
		if got := memberAt(decodeJSON(t, a.body), "error", "code"); a.status != c.status || got != c.code {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
		if strings.HasPrefix(c.name, "unsupported") && memberAt(decodeJSON(t, a.body), "error", "data", "supported", 0) != "2026-07-28" {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
	a := b.post(body("tools/call", echo, whole), h("tools/call", "Mcp-Name", "=?base64?ZmlsZXNfX2VjaG8=?=")...)
	if a.status != http.StatusOK {
		t.Errorf("encoded name: %d %s", a.status, a.body)
	}
}

func TestParamHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		name, arguments string
		headers         []string
		status          int
	}{
		{"nothing", `{}`, nil, 200},
		{"null", `{"region":null}`, nil, 200},
		{"both", `{"region":"eu","in":{"n":42}}`, []string{"Mcp-Param-Region", "eu", "Mcp-Param-N", "42.0"}, 200},
		{"encoded", `{"region":"ü"}`, []string{"Mcp-Param-Region", "=?base64?w7w=?="}, 200},
		{"missing header", `{"region":"eu"}`, nil, 400},
		{"missing argument", `{}`, []string{"Mcp-Param-Region", "eu"}, 400},
		{"other value", `{"region":"eu"}`, []string{"Mcp-Param-Region", "us"}, 400},
		{"other number", `{"in":{"n":42}}`, []string{"Mcp-Param-N", "43"}, 400},
	} {
		body, headers := modernRequest("tools/call", `"name":"files__head","arguments":`+c.arguments, append([]string{"Mcp-Name", "files__head"}, c.headers...)...)
		if a := b.post(body, headers...); a.status != c.status {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
}

func TestDoor(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session := b.startSession()
	deep := strings.Repeat(`{"a":`, 600) + "1" + strings.Repeat("}", 600)
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"empty", ``, 400, `"id":null,"error":{"code":-32700,"message":"the message must be JSON: it ends too early"}`},
		{"cut off", `{"jsonrpc":"2.0","id":5,"method`, 400, `"id":5,"error":{"code":-32700`},
		{"garbage", `hello`, 400, `-32700`},
		{"two values", `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, 400, `-32700,"message":"the message must be one JSON value"`},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400, `-32600,"message":"batches are not supported`},
		{"string", `"x"`, 400, `-32600,"message":"the message must be a JSON object"`},
		{"no version", `{"id":1,"method":"ping"}`, 400, `"id":1,"error":{"code":-32600,"message":"/jsonrpc`},
		{"no method", `{"jsonrpc":"2.0","id":1}`, 400, `"id":1,"error":{"code":-32600,"message":"/method`},
		{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400, `-32600,"message":"/id`},
		{"fractional id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400, `-32600,"message":"/id`},
		{"params of a wrong type", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[1]}`, 200, `-32602,"message":"/params: must be an object"`},
		{"name of a wrong type", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":7},"id":3}`, 200, `"id":3,"error":{"code":-32602,"message":"/params/name: must be a string"`},
		{"duplicate in the envelope", `{"jsonrpc":"2.0","method":"ping","method":"tools/call","id":3}`, 400, `"id":3,"error":{"code":-32600,"message":"/method: duplicate`},
		{"duplicate in params", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a","name":"b"},"id":3}`, 200, `"id":3,"error":{"code":-32602,"message":"/params/name: duplicate`},
		{"duplicate, escaped", callBody("4", "echo", `{"x":{"a":1,"\u0061":2}}`), 200, `"id":4,"error":{"code":-32602,"message":"/params/arguments/x/a: duplicate`},
		{"invalid UTF-8", callBody("4", "echo", "{\"x\":\"\xff\"}"), 400, `"id":4,"error":{"code":-32700,"message":"/params/arguments/x: invalid UTF-8`},
		{"lone surrogate", callBody("4", "echo", `{"x":"\ud800"}`), 400, `"id":4,"error":{"code":-32700,"message":"/params/arguments/x: invalid`},
		{"deep", callBody("4", "echo", deep), 200, `must be nested at most`},
		{"array", callBody("4", "echo", `[1]`), 200, `"error":{"code":-32602,"message":"/params/arguments: must be a JSON object","data":{"pointer":"/params/arguments"}}`},
		{"exponent", callBody("4", "echo", `{"n":[1e99999]}`), 200, `"data":{"pointer":"/params/arguments/n/0"}`},
	} {
		a := b.post(c.body, session...)
		if a.status != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s", c.name, a.status, a.body)
		}
	}
	if n := len(b.calls.submitted); n != 0 {
		t.Errorf("%d calls came in", n)
	}
}

func TestBodyLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := callBody("1", "echo", `{"x":"`+strings.Repeat("x", 4<<20)+`"}`)
	announced, streamed := b.newRequest(t.Context(), body), b.newRequest(t.Context(), body)
	streamed.ContentLength = -1
	for name, r := range map[string]*http.Request{"announced": announced, "streamed": streamed} {
		if a := b.sendRequest(r); a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	streamed = b.newRequest(t.Context(), callBody("1", "echo", `{}`))
	streamed.ContentLength = -1
	if a := b.sendRequest(streamed); a.status != http.StatusOK {
		t.Errorf("streamed: %d %s", a.status, a.body)
	}
}

func TestExactArguments(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session := b.startSession()
	arguments := `{"big":9007199254740993,"e":1e400,"z":-0,"s":"\u00e4\/","d":[[[[{}]]]]}`
	b.post(callBody("1", "echo", arguments), session...)
	if got := string(b.calls.submitted[0].Arguments); got != arguments {
		t.Errorf("submitted %s", got)
	}
}
