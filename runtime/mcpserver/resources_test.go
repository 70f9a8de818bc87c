package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func formatRequest(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`
}

func TestListsOfWhatSkillsOffer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.others.lists = map[resource.Kind]resource.List{
		resource.Resources: {Entries: []resource.Entry{{Name: "x:1", Raw: json.RawMessage(`{"uri":"x:1","n":1.0}`)}}},
		resource.Templates: {Entries: []resource.Entry{{Name: "x:{n}", Raw: json.RawMessage(`{"uriTemplate":"x:{n}"}`)}}},
		resource.Prompts: {
			Entries:  []resource.Entry{{Name: "files__ask", Raw: json.RawMessage(`{"title":"T","name":"ask","x":[1.0]}`)}},
			Problems: []catalog.Problem{{Skill: "ledger", Kind: "transport", Error: "away"}},
		},
	}
	session := b.startSession()
	for method, want := range map[string]string{
		"resources/list":           `{"resources":[{"uri":"x:1","n":1.0}]}`,
		"resources/templates/list": `{"resourceTemplates":[{"uriTemplate":"x:{n}"}]}`,
		"prompts/list": `{"prompts":[{"title":"T","name":"files__ask","x":[1.0]}],` +
			`"_meta":{"dev.holdpoint/problems":[{"skill":"ledger","kind":"transport","error":"away"}]}}`,
	} {
		if got := b.post(formatRequest(method, ""), session...).body; got != `{"jsonrpc":"2.0","id":1,"result":`+want+`}` {
			t.Errorf("%s: %s", method, got)
		}
		body, headers := modernRequest(method, "")
		result := memberAt(decodeJSON(t, b.post(body, headers...).body), "result")
		if memberAt(result, "resultType") != "complete" || memberAt(result, "cacheScope") != "private" || memberAt(result, "ttlMs") == nil {
			t.Errorf("%s: %v", method, result)
		}
	}
}

func TestResultsPassAsTheyCame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session := b.startSession()
	const result = `{"contents":[{"uri":"x:1","text":"\u00e9\/","n":1.0}], "other" : null}`
	for method, params := range map[string]string{
		"resources/read":      `"uri":"x:1"`,
		"prompts/get":         `"name":"files__ask","arguments":{"a":"b"}`,
		"completion/complete": `"ref":{"type":"ref/prompt","name":"files__ask"},"argument":{"name":"a","value":"b"},"context":{"arguments":{"c":"d"}}`,
	} {
		b.others.setAnswer(result, nil)
		if got := b.post(formatRequest(method, params), session...).body; got != `{"jsonrpc":"2.0","id":1,"result":`+result+`}` {
			t.Errorf("%s: %s", method, got)
		}
	}
	if last := b.others.lastRequest(); last.who.Conversation.String() != session[1] {
		t.Errorf("the viewer was %v", last.who)
	}
}

func TestWhatIsAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.others.setAnswer(`{}`, nil)
	b.post(formatRequest("prompts/get", `"name":"files__ask","arguments":{"a":"b"}`))
	if last := b.others.lastRequest(); last.name != "files__ask" || last.arguments != `{"a":"b"}` || last.ask.Input {
		t.Errorf("%+v", last)
	}
	b.post(formatRequest("completion/complete", `"ref":{"type":"ref/resource","uri":"x:{n}"},"argument":{"name":"a","value":"b"}`))
	if last := b.others.lastRequest(); last.ref != (resource.Reference{Type: "ref/resource", URI: "x:{n}"}) ||
		string(last.ask.Members) != `"argument":{"name":"a","value":"b"}` {
		t.Errorf("%+v", last)
	}
	body, headers := modernRequest("resources/read", `"uri":"x:1","inputResponses":{"k":{"action":"accept"}},"requestState":"s\u0020t"`, "Mcp-Name", "x:1")
	body = strings.Replace(body, `clientCapabilities":{}`, `clientCapabilities":{"elicitation":{"form":{}},"extensions":{"x":{}}}`, 1)
	b.post(body, headers...)
	last := b.others.lastRequest()
	if string(last.ask.Members) != `"inputResponses":{"k":{"action":"accept"}},"requestState":"s\u0020t"` || !last.ask.Input ||
		string(last.ask.Caller.Capabilities) != `{"elicitation":{"form":{}}}` {
		t.Errorf("%+v", last)
	}
}

func TestCacheHints(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for result, want := range map[string]string{
		`{}`:                                    `{"resultType":"complete","cacheScope":"private","ttlMs":0}`,
		`{"contents":[]}`:                       `{"resultType":"complete","contents":[],"cacheScope":"private","ttlMs":0}`,
		`{"ttlMs":5,"cacheScope":"public"}`:     `{"resultType":"complete","ttlMs":5,"cacheScope":"private"}`,
		`{"cacheScope":"private","x":{}}`:       `{"resultType":"complete","cacheScope":"private","x":{},"ttlMs":0}`,
		`{"resultType":"complete","ttlMs":1}`:   `{"resultType":"complete","ttlMs":1,"cacheScope":"private"}`,
		`{"resultType":"input_required","a":1}`: `{"resultType":"input_required","a":1}`,
	} {
		b.others.setAnswer(result, nil)
		body, headers := modernRequest("resources/read", `"uri":"x:1"`, "Mcp-Name", "x:1")
		if got := b.post(body, headers...).body; got != `{"jsonrpc":"2.0","id":"m","result":`+want+`}` {
			t.Errorf("%s: %s", result, got)
		}
	}
}

func TestInputIsNothingForEarlierClients(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.others.setAnswer(`{"resultType":"input_required","inputRequests":{}}`, nil)
	v := decodeJSON(t, b.post(formatRequest("prompts/get", `"name":"p"`), b.startSession()...).body)
	if memberAt(v, "error", "code") != -32603.0 || memberAt(v, "error", "data", "code") != "input_required" {
		t.Errorf("%v", v)
	}
	b.others.setAnswer(`{"resultType":"riddle"}`, nil)
	v = decodeJSON(t, b.post(formatRequest("prompts/get", `"name":"p"`), b.startSession()...).body)
	if text, _ := memberAt(v, "error", "message").(string); memberAt(v, "error", "code") != -32603.0 || !strings.HasPrefix(text, "internal error ") {
		t.Errorf("%v", v)
	}
}

func TestErrorsOfSkills(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	session := b.startSession()
	rpcError := func(text string, stateless bool) error {
		return fmt.Errorf("read: %w", &resource.SkillError{Skill: "files", Stateless: stateless, Failure: &tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(text)}})
	}
	failure := func(f tool.Failure) error { return &resource.SkillError{Skill: "files", Failure: &f} }
	const away = `{"code":-32603,"message":"the server of skill files gave no answer that can be used: \"away\\u202e\"","data":{"code":"transport","skill":"files"}}`
	const connect = `{"code":-32603,"message":"skill files has to be connected before this can be had: \"ask Ann\"","data":{"code":"needs_connection","skill":"files"}}`
	for _, tc := range []struct {
		name         string
		err          error
		then, since  string // the error object, before 2026-07-28 and since
		modernStatus int
	}{
		{"as it came", rpcError(`{"code":-32000, "message":"no\u0021", "data":{"x":1.0}}`, false), `{"code":-32000, "message":"no\u0021", "data":{"x":1.0}}`, `{"code":-32000, "message":"no\u0021", "data":{"x":1.0}}`, 200},
		{"not found before", rpcError(`{"message":"m","code":-32002}`, false), `{"message":"m","code":-32002}`, `{"message":"m","code":-32602}`, 400},
		{"not found since", rpcError(`{"code":-32602,"message":"m"}`, true), `{"code":-32002,"message":"m"}`, `{"code":-32602,"message":"m"}`, 400},
		{"capability", rpcError(`{"code":-32021,"message":"m"}`, true), `{"code":-32021,"message":"m"}`, `{"code":-32021,"message":"m"}`, 400},
		{"away", failure(tool.Failure{Kind: tool.TransportFailure, Message: "away\u202e"}), away, away, 200},
		{"connect", failure(tool.Failure{Kind: tool.TransportFailure, Connect: &tool.Connect{Reason: "ask Ann"}}), connect, connect, 200},
	} {
		b.others.setAnswer("", tc.err)
		if got := b.post(formatRequest("resources/read", `"uri":"x:1"`), session...).body; got != `{"jsonrpc":"2.0","id":1,"error":`+tc.then+`}` {
			t.Errorf("%s: %s", tc.name, got)
		}
		body, headers := modernRequest("resources/read", `"uri":"x:1"`, "Mcp-Name", "x:1")
		got := b.post(body, headers...)
		if got.body != `{"jsonrpc":"2.0","id":"m","error":`+tc.since+`}` || got.status != tc.modernStatus {
			t.Errorf("%s: %d %s", tc.name, got.status, got.body)
		}
	}
}

func TestDenials(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.others.setAnswer("", resource.ErrDenied)
	v := decodeJSON(t, b.post(formatRequest("resources/read", `"uri":"secret:1"`)).body)
	want := map[string]any{"uri": "secret:1", "code": "resource_denied"}
	if diff := cmp.Diff(want, memberAt(v, "error", "data")); diff != "" || memberAt(v, "error", "code") != -32002.0 {
		t.Errorf("%v %s", v, diff)
	}
	body, headers := modernRequest("resources/read", `"uri":"secret:1"`, "Mcp-Name", "secret:1")
	a := b.post(body, headers...)
	if v = decodeJSON(t, a.body); a.status != http.StatusBadRequest || memberAt(v, "error", "code") != -32602.0 {
		t.Errorf("%d %v", a.status, v)
	}
	b.others.setAnswer("", resource.ErrUnknown)
	if v = decodeJSON(t, b.post(formatRequest("prompts/get", `"name":"p"`)).body); memberAt(v, "error", "code") != -32602.0 || memberAt(v, "error", "data", "code") != "not_found" {
		t.Errorf("%v", v)
	}
}

func TestBadRequestsAboutResources(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for params, want := range map[string]string{
		`resources/read ` + `"x":1`:                                                                 "/params/uri: must be a URI of 1 to 8192 bytes without control characters",
		`resources/read ` + `"uri":""`:                                                              "/params/uri: must be a URI of 1 to 8192 bytes without control characters",
		`resources/read ` + `"uri":1`:                                                               "/params/uri: must be a string",
		`resources/read ` + `"uri":"x:\u0000"`:                                                      "/params/uri: must be a URI of 1 to 8192 bytes without control characters",
		`resources/read ` + `"uri":"x:\n"`:                                                          "/params/uri: must be a URI of 1 to 8192 bytes without control characters",
		`resources/read ` + `"uri":"x:` + strings.Repeat("y", 8<<10) + `"`:                          "/params/uri: must be a URI of 1 to 8192 bytes without control characters",
		`prompts/get ` + `"arguments":{}`:                                                           "/params/name: missing",
		`prompts/get ` + `"name":"p","arguments":[]`:                                                "/params/arguments: must be an object",
		`completion/complete ` + `"argument":{}`:                                                    "/params/ref: must be an object with type, and name or uri",
		`completion/complete ` + `"argument":{},"ref":{"type":"ref/other"}`:                         "/params/ref: must be a ref/prompt with a name, or a ref/resource with a uri",
		`completion/complete ` + `"ref":{"type":"ref/prompt","name":"p"}`:                           "/params/argument: must be an object",
		`completion/complete ` + `"ref":{"type":"ref/prompt","name":"p"},"argument":{},"context":1`: "/params/context: must be an object",
	} {
		method, params, _ := strings.Cut(params, " ")
		v := decodeJSON(t, b.post(formatRequest(method, params)).body)
		if memberAt(v, "error", "code") != -32602.0 || memberAt(v, "error", "message") != want {
			t.Errorf("%s %.60s: %v", method, params, v)
		}
	}
	if last := b.others.lastRequest(); last.what != "" {
		t.Errorf("a request was sent: %+v", last)
	}
	b.others.setAnswer("{}", nil)
	if b.post(formatRequest("resources/read", `"uri":"x:\u202e"`)); b.others.lastRequest().name != "x:\u202e" {
		t.Error("a URI with a direction mark did not pass unchanged")
	}
}

func TestNamesInHeaders(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.others.setAnswer("{}", nil)
	for _, tc := range []struct {
		method, params, header string
		status                 int
	}{
		{"resources/read", `"uri":"x:1"`, "x:1", 200},
		{"resources/read", `"uri":"x:ü"`, "=?base64?eDrDvA==?=", 200},
		{"resources/read", `"uri":"x:1"`, "x:2", 400},
		{"resources/read", `"uri":"x:1"`, "", 400},
		{"prompts/get", `"name":"p"`, "p", 200},
		{"prompts/get", `"name":"p"`, "q", 400},
		{"resources/list", ``, "", 200},
	} {
		body, headers := modernRequest(tc.method, tc.params, "Mcp-Name", tc.header)
		a := b.post(body, headers...)
		if v := decodeJSON(t, a.body); a.status != tc.status || tc.status == 400 && memberAt(v, "error", "code") != -32020.0 {
			t.Errorf("%+v: %d %s", tc, a.status, a.body)
		}
	}
}
