package modelserver_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/modelserver"
)

// postRequest sends a request with the headers of its format.
func postRequest(t *testing.T, s *modelserver.Server, format, body string) (status int, answer string) {
	t.Helper()
	path := map[string]string{modelserver.OpenAI: "/v1/chat/completions", modelserver.Anthropic: "/v1/messages"}[format]
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("X-Api-Key", "k")
	r.Header.Set("Authorization", "Bearer k")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

const (
	callsA  = `{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	useA    = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]}`
	userA   = `{"role":"user","content":"hi"}`
	resultA = `{"role":"tool","tool_call_id":"a","content":"1"}`
	resultB = `{"role":"tool","tool_call_id":"b","content":"1"}`
	blockA  = `{"type":"tool_result","tool_use_id":"a"}`
	blockB  = `{"type":"tool_result","tool_use_id":"b","content":"1"}`
)

func openAIMessages(list ...string) string {
	return `{"model":"m","messages":[` + strings.Join(list, ",") + `]}`
}

func anthropicMessages(list ...string) string {
	return `{"model":"m","max_tokens":9,"messages":[` + strings.Join(list, ",") + `]}`
}

func blockMessage(role string, list ...string) string {
	return `{"role":"` + role + `","content":[` + strings.Join(list, ",") + `]}`
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ format, body, refusal string }{
		{modelserver.OpenAI, openAIMessages(userA), ""},
		{modelserver.OpenAI, openAIMessages(userA, callsA, resultB, resultA, userA), ""},
		{modelserver.OpenAI, `[]`, "parse the JSON"},
		{modelserver.OpenAI, `{"messages":[` + userA + `]}`, "model"},
		{modelserver.OpenAI, `{"model":"m","messages":[]}`, "empty array"},
		{modelserver.OpenAI, `{"model":"m","extra":1,"messages":[` + userA + `]}`, "Unrecognized request argument supplied: extra"},
		{modelserver.OpenAI, `{"model":"m","stream_options":{},"messages":[` + userA + `]}`, "only allowed when 'stream'"},
		{modelserver.OpenAI, `{"model":"m","max_tokens":0,"messages":[` + userA + `]}`, "max_tokens"},
		{modelserver.OpenAI, `{"model":"m","max_tokens":1,"max_completion_tokens":1,"messages":[` + userA + `]}`, "same time"},
		{modelserver.OpenAI, openAIMessages(userA, callsA, resultA), "did not have response messages: b"},
		{modelserver.OpenAI, openAIMessages(userA, callsA, resultA, userA), "did not have response messages: b"},
		{modelserver.OpenAI, openAIMessages(userA, callsA, resultA, resultA, resultB), "Duplicate response"},
		{modelserver.OpenAI, openAIMessages(userA, resultA), "preceding message"},
		{modelserver.OpenAI, openAIMessages(userA, `{"role":"assistant","content":null}`), "expected a string, got null"},
		{modelserver.OpenAI, openAIMessages(userA, strings.Replace(callsA, `"b"`, `"a"`, 1), resultA), "Duplicate tool call id"},
		{modelserver.OpenAI, openAIMessages(userA, strings.Replace(callsA, `"f"`, `"f f"`, 1)), "does not match pattern"},
		{modelserver.OpenAI, openAIMessages(userA, strings.Replace(callsA, `"{}"`, `"{"`, 1)), "must be JSON"},
		{modelserver.OpenAI, openAIMessages(userA, callsA, `{"role":"tool","tool_call_id":"a","content":[{"type":"image_url"}]}`), "text only"},
		{modelserver.OpenAI, openAIMessages(`{"role":"user","content":""}`), "empty string"},
		{modelserver.OpenAI, openAIMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/tiff;base64,AAAA"}}]}`), "unsupported image"},
		{modelserver.OpenAI, openAIMessages(`{"role":"robot","content":"hi"}`), "role"},
		{modelserver.OpenAI, `{"model":"m","messages":[` + userA + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]}`, "missing properties"},
		{modelserver.OpenAI, `{"model":"m","messages":[` + userA + `],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"nope"}}}}}]}`, "JSON schema is invalid"},
		{modelserver.OpenAI, `{"model":"m","messages":[` + userA + `],"tools":[{"type":"function","function":{"name":"f.g"}}]}`, "name does not match"},

		{modelserver.Anthropic, anthropicMessages(userA), ""},
		{modelserver.Anthropic, anthropicMessages(userA, useA, blockMessage("user", blockB, blockA, `{"type":"text","text":"so"}`)), ""},
		{modelserver.Anthropic, `{"model":"m","messages":[` + userA + `]}`, "max_tokens: Field required"},
		{modelserver.Anthropic, `{"max_tokens":1,"messages":[` + userA + `]}`, "model: Field required"},
		{modelserver.Anthropic, `{"model":"m","max_tokens":1,"extra":1,"messages":[` + userA + `]}`, "extra: Extra inputs are not permitted"},
		{modelserver.Anthropic, `{"model":"m","max_tokens":1,"system":[{"type":"text","text":""}],"messages":[` + userA + `]}`, "non-empty"},
		{modelserver.Anthropic, anthropicMessages(), "at least one message"},
		{modelserver.Anthropic, anthropicMessages(userA, userA), "alternate"},
		{modelserver.Anthropic, anthropicMessages(`{"role":"assistant","content":"hi"}`), "alternate"},
		{modelserver.Anthropic, anthropicMessages(userA, `{"role":"assistant","content":"hi"}`), "prefill"},
		{modelserver.Anthropic, anthropicMessages(`{"role":"user","content":" "}`), "non-empty"},
		{modelserver.Anthropic, anthropicMessages(blockMessage("user", `{"type":"text","text":"\n"}`)), "non-empty"},
		{modelserver.Anthropic, anthropicMessages(userA, useA, blockMessage("user", blockA)), "without `tool_result` blocks immediately after: b"},
		{modelserver.Anthropic, anthropicMessages(userA, useA, userA), "without `tool_result` blocks immediately after: a, b"},
		{modelserver.Anthropic, anthropicMessages(userA, useA, blockMessage("user", blockA, blockA, blockB)), "multiple `tool_result`"},
		{modelserver.Anthropic, anthropicMessages(blockMessage("user", blockA)), "unexpected `tool_use_id`"},
		{modelserver.Anthropic, anthropicMessages(userA, useA, blockMessage("user", `{"type":"text","text":"so"}`, blockA, blockB)), "must come first"},
		{modelserver.Anthropic, anthropicMessages(userA, strings.Replace(useA, `"input":{}`, `"input":"x"`, 1), blockMessage("user", blockA, blockB)), "valid dictionary"},
		{modelserver.Anthropic, anthropicMessages(userA, strings.Replace(useA, `"id":"a"`, `"id":"a.b"`, 1)), "should match pattern"},
		{modelserver.Anthropic, anthropicMessages(userA, blockMessage("assistant", `{"type":"thinking","thinking":"x","signature":"y"}`)), "Invalid `signature`"},
		{modelserver.Anthropic, anthropicMessages(userA, blockMessage("assistant", `{"type":"image"}`)), "does not belong"},
	} {
		s := modelserver.New(modelserver.Sequence(modelserver.Answer{Text: "ok"}))
		s.Key = "k"
		status, answer := postRequest(t, s, c.format, c.body)
		if c.refusal == "" {
			if status != 200 || len(s.Requests()) != 1 {
				t.Errorf("%s: %d %s", c.body, status, answer)
			}
			continue
		}
		var said struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(answer), &said); err != nil || status != 400 || said.Error.Type != "invalid_request_error" ||
			!strings.Contains(said.Error.Message, c.refusal) || (said.Type == "error") != (c.format == modelserver.Anthropic) || len(s.Refusals()) != 1 {
			t.Errorf("%s: %d %s, want %s", c.body, status, answer, c.refusal)
		}
	}
}

// eventNames returns the names of a stream's events in order, without repetitions.
func eventNames(stream string) string {
	var list []string
	for line := range strings.Lines(stream) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "event: ")
		if ok && (len(list) == 0 || list[len(list)-1] != name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

// Streams have the events of the real servers.
func TestStreams(t *testing.T) {
	t.Parallel()
	answer := modelserver.Answer{Text: "One moment, please.", Calls: []modelserver.Call{{Name: "f", Arguments: `{"a":"a longer text"}`}, {Name: "g"}}}
	s := modelserver.New(modelserver.Sequence(answer, answer, answer))
	_, stream := postRequest(t, s, modelserver.Anthropic, strings.Replace(anthropicMessages(userA), `"model"`, `"stream":true,"model"`, 1))
	const block = "content_block_start content_block_delta content_block_stop "
	if want := "message_start content_block_start ping content_block_delta content_block_stop " + block + block + "message_delta message_stop"; eventNames(stream) != want {
		t.Errorf("%s\n%s", eventNames(stream), stream)
	}
	for _, want := range []string{
		"event: message_start\ndata: {", `"stop_reason":"tool_use"`, `{"id":"call_1_1","input":{},"name":"f","type":"tool_use"}`, `{"partial_json":"{\"a\":\"a","type":"input_json_delta"}`,
	} {
		if !strings.Contains(stream, want) {
			t.Errorf("%s is not in\n%s", want, stream)
		}
	}
	_, stream = postRequest(t, s, modelserver.OpenAI, strings.Replace(openAIMessages(userA), `"model"`, `"stream":true,"stream_options":{"include_usage":true},"model"`, 1))
	for _, want := range []string{
		`"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null`, `{"function":{"arguments":"","name":"f"},"id":"call_2_1","index":0,"type":"function"}`,
		`{"function":{"arguments":"{\"a\":\"a"},"index":0}`, `"finish_reason":"tool_calls"`, `"choices":[],`, `"usage":null`,
	} {
		if !strings.Contains(stream, want) {
			t.Errorf("%s is not in\n%s", want, stream)
		}
	}
	if !strings.HasSuffix(stream, "data: [DONE]\n\n") {
		t.Errorf("the end is missing: %s", stream)
	}
	if _, stream = postRequest(t, s, modelserver.OpenAI, strings.Replace(openAIMessages(userA), `"model"`, `"stream":true,"model"`, 1)); strings.Contains(stream, "usage") {
		t.Errorf("usage, which was not asked for: %s", stream)
	}
	if status, text := postRequest(t, s, modelserver.OpenAI, openAIMessages(userA)); status != 400 || !strings.Contains(text, "no more than 3") {
		t.Errorf("after the last answer: %d %s", status, text)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	for _, format := range []string{modelserver.OpenAI, modelserver.Anthropic} {
		s := modelserver.New(modelserver.Sequence())
		s.Key = "another"
		if status, answer := postRequest(t, s, format, openAIMessages(userA)); status != 401 || !strings.Contains(answer, "Incorrect API key provided: k.") {
			t.Errorf("%d %s", status, answer)
		}
	}
}
