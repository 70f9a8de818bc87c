package mcptool_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/mcptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// awkwardArguments returns arguments that decoding and encoding would change.
func awkwardArguments() map[string]string {
	return map[string]string{
		"big integer":    `{"n":9007199254740993}`,
		"huge exponent":  `{"n":1e400,"m":-0,"k":1.0,"e":1E+2}`,
		"member order":   `{"z":1,"a":2,"m":{"y":1,"b":2}}`,
		"html":           `{"s":"<script>&amp;</script>"}`,
		"line separator": "{\"s\":\"a\u2028b\u2029c\"}",
		"escapes":        `{"s":"\u003c\/\u00e9\ud83d\ude00 \u0000"}`,
		"unicode":        "{\"s\":\"ﬁ é 😀 \u202e\"}",
		"deep":           `{"d":` + strings.Repeat("[", 900) + strings.Repeat("]", 900) + `}`,
		"empty":          `{}`,
		"long":           `{"s":"` + strings.Repeat("x", 200_000) + `"}`,
	}
}

func TestArgumentsAreSentByteForByte(t *testing.T) {
	t.Parallel()
	upstream := &script{}
	skill := httpSkill(upstream.serve(t).URL)
	s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	child := childSkill(t, "mirror")
	for name, arguments := range awkwardArguments() {
		callTool(t, s, skill, "echo", arguments)
		var got struct {
			Arguments json.RawMessage `json:"arguments"`
		}
		if err := json.Unmarshal(upstream.lastRequest("tools/call").Params, &got); err != nil {
			t.Fatal(err)
		}
		if string(got.Arguments) != arguments {
			t.Errorf("%s over HTTP: sent %.200s, got %.200s", name, arguments, got.Arguments)
		}
		if !bytes.Contains(upstream.lastRequest("tools/call").body, []byte(`"arguments":`+arguments+`}`)) {
			t.Errorf("%s over HTTP: body %.300s", name, upstream.lastRequest("tools/call").body)
		}
		if got := textOf(t, callTool(t, s, child, "mirror", arguments)); got != arguments {
			t.Errorf("%s over stdio: sent %.200s, got %.200s", name, arguments, got)
		}
	}
}

func TestModernRequestsCarryWhatTheRevisionWants(t *testing.T) {
	t.Parallel()
	upstream := &script{at: map[string]func(http.ResponseWriter, *http.Request, message){
		"server/discover": func(w http.ResponseWriter, _ *http.Request, m message) {
			writeAnswer(w, m, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"public"}`)
		},
	}}
	skill := httpSkill(upstream.serve(t).URL)
	skill.Headers = map[string]string{"X-Team": "blue", "Mcp-Method": "forged", "Authorization": "Bearer t"}
	s := newSource(t, mcptool.Config{Version: "9.9"})
	definition, err := tool.ParseDefinition(json.RawMessage(`{"name":"größe","inputSchema":{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},
		"count":{"type":"integer","x-mcp-header":"Count"},
		"big":{"type":"integer","x-mcp-header":"Big"},
		"deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},
		"none":{"type":"string","x-mcp-header":"None"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	arguments := `{"region":"Zürich","count":42,"big":9007199254740993,"deep":{"flag":true},"none":null}`
	if _, err := s.Call(t.Context(), skill, tool.CallRequest{CallID: uuid.New(), Tool: "größe", Arguments: json.RawMessage(arguments), Definition: &definition}); err != nil {
		t.Fatal(err)
	}
	got := upstream.lastRequest("tools/call")
	want := map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?Z3LDtsOfZQ==?=",
		"Mcp-Param-Region": "=?base64?WsO8cmljaA==?=", "Mcp-Param-Count": "42", "Mcp-Param-Flag": "true",
		"Mcp-Param-Big": "", "Mcp-Param-None": "", "X-Team": "blue", "Authorization": "Bearer t", "Mcp-Session-Id": "",
	}
	for name, value := range want {
		if got.header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.header.Get(name), value)
		}
	}
	params := `"params":{"name":"größe","arguments":` + arguments + `,"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"holdpoint","version":"9.9"},` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}`
	if !strings.HasSuffix(string(got.body), params) {
		t.Errorf("body %s\nwant …%s", got.body, params)
	}
}

// unusualResults returns answers that a typed client would change.
func unusualResults() map[string]string {
	return map[string]string{
		"unknown members": `{"content":[{"type":"text","text":"x","future":{"a":[1e400]}}],"_meta":{"k":9007199254740993},"structuredContent":{"n":-0,"m":1.10},"extra":null}`,
		"every content":   `{"content":[{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"x:y","name":"n"},{"type":"resource","resource":{"uri":"x:y","text":"<&>"}},{"type":"hologram"}]}`,
		"white space":     "{ \"content\" : [ ] ,\t\"structuredContent\" : [ 1 , 2 ] }",
		"lone surrogate":  `{"content":[{"type":"text","text":"\ud83d"}]}`,
		"repeated inner":  `{"content":[],"structuredContent":{"a":1,"a":2}}`,
		"complete":        `{"resultType":"complete","content":[]}`,
		"long":            `{"content":[{"type":"text","text":"` + strings.Repeat("y", 300_000) + `"}]}`,
	}
}

func TestResultsArriveByteForByte(t *testing.T) {
	t.Parallel()
	ways := map[string]func(http.ResponseWriter, message, string){
		"JSON": writeAnswer,
		"SSE": func(w http.ResponseWriter, m message, result string) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_, _ = fmt.Fprintf(w, ": hello\r\n\r\nevent: message\r\nid: 1\r\ndata: %s\r\n\r\n", answerText(m, result))
		},
		"SSE without an end": func(w http.ResponseWriter, m message, result string) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "data:%s", answerText(m, result))
		},
	}
	for way, write := range ways {
		for name, result := range unusualResults() {
			t.Run(way+"/"+name, func(t *testing.T) {
				t.Parallel()
				upstream := &script{at: map[string]func(http.ResponseWriter, *http.Request, message){
					"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) { write(w, m, result) },
				}}
				s := newSource(t, mcptool.Config{})
				got := callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
				if string(got.Raw) != result {
					t.Errorf("got %.300s", got.Raw)
				}
			})
		}
	}
}

func TestResultsArriveByteForByteOverStdio(t *testing.T) {
	t.Parallel()
	s := newSource(t, mcptool.Config{DataDir: t.TempDir()})
	skill := childSkill(t, "mirror")
	for name, result := range unusualResults() {
		if got := callTool(t, s, skill, "verbatim", result); string(got.Raw) != result {
			t.Errorf("%s: got %.300s", name, got.Raw)
		}
	}
}

func TestToolErrorIsAResult(t *testing.T) {
	t.Parallel()
	const result = `{"isError":true,"content":[{"type":"text","text":"no"}]}`
	upstream := &script{at: map[string]func(http.ResponseWriter, *http.Request, message){
		"tools/call": func(w http.ResponseWriter, _ *http.Request, m message) { writeAnswer(w, m, result) },
	}}
	s := newSource(t, mcptool.Config{})
	got := callTool(t, s, httpSkill(upstream.serve(t).URL), "echo", `{}`)
	if !got.IsError || string(got.Raw) != result {
		t.Errorf("got %t %s", got.IsError, got.Raw)
	}
}
