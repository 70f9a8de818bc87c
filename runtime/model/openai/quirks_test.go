package openai_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func newProvider(t *testing.T, handler http.Handler) *openai.Provider {
	t.Helper()
	server := httptest.NewServer(handler)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		server.Close()
	})
	p, err := openai.New(openai.Config{BaseURL: server.URL + "/v1/", HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newRequest() *model.Request {
	return &model.Request{Model: "m1", Messages: []model.Message{{Role: model.User, Parts: []model.Part{model.TextPart("Go.")}}}}
}

// The provider understands servers that deviate from OpenAI's, and sends them messages in their own form.
func TestQuirks(t *testing.T) {
	t.Parallel()
	for what, q := range map[string]modelserver.Quirks{
		"none":                            {},
		"no usage":                        {NoUsage: true},
		"no ids":                          {NoIDs: true},
		"the same id":                     {SameIDs: true},
		"no index":                        {NoIndex: true},
		"no index, no ids":                {NoIndex: true, NoIDs: true},
		"index 0 for all":                 {ZeroIndex: true},
		"index 0 for all, whole, no ids":  {ZeroIndex: true, WholeCalls: true, NoIDs: true},
		"index 0 for all, whole, one id":  {ZeroIndex: true, WholeCalls: true, SameIDs: true},
		"no index, whole, one id":         {NoIndex: true, WholeCalls: true, SameIDs: true},
		"whole calls":                     {WholeCalls: true},
		"whole calls, no index, no ids":   {WholeCalls: true, NoIndex: true, NoIDs: true},
		"objects for arguments":           {ObjectArguments: true},
		"objects for arguments, no index": {ObjectArguments: true, NoIndex: true},
		"finish_reason stop":              {FinishStop: true},
		"null content, comments":          {NullContent: true, Comments: true},
		"no [DONE]":                       {NoDone: true},
		"no finish_reason":                {NoFinish: true},
	} {
		for _, whole := range []bool{false, true} {
			for _, text := range []string{"", "I look."} {
				calls := []modelserver.Call{{Name: "read", Arguments: `{"path":"a"}`}, {Name: "read", Arguments: `{"path":"b"}`}, {Name: "clock", Arguments: `{}`}}
				server := modelserver.New(modelserver.Sequence(
					modelserver.Answer{Text: text, Thinking: "Hm.", Calls: calls, Quirks: q, Whole: whole}, modelserver.Answer{Text: "Yes.", Quirks: q, Whole: whole}))
				p := newProvider(t, server)
				asked := newRequest()
				answer, err := p.Generate(t.Context(), asked, nil)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				checkCalls(t, what, answer, calls, text)
				results := model.Message{Role: model.User}
				for _, part := range answer.Parts {
					if part.Call != nil {
						results.Parts = append(results.Parts, model.Part{Result: &model.ToolResult{CallID: part.Call.ID, Parts: []model.Part{model.TextPart("ok")}}})
					}
				}
				asked.Messages = append(asked.Messages, model.Message{Role: model.Assistant, Parts: answer.Parts}, results)
				if last, err := p.Generate(t.Context(), asked, nil); err != nil || len(last.Parts) != 1 || last.Parts[0].Text.Text != "Yes." || last.Stop != model.StopEnd {
					t.Errorf("%s: %+v, %v, refused %q", what, last, err, server.Refusals())
				}
			}
		}
	}
}

func checkCalls(t *testing.T, what string, answer *model.Response, calls []modelserver.Call, text string) {
	t.Helper()
	ids, n, said := map[string]bool{}, 0, ""
	for _, part := range answer.Parts {
		switch {
		case part.Text != nil:
			said += part.Text.Text
		case part.Call != nil && n < len(calls):
			ids[part.Call.ID] = true
			if part.Call.Name != calls[n].Name || part.Call.Arguments != calls[n].Arguments {
				t.Errorf("%s: call %d is %+v", what, n, part.Call)
			}
			n++
		default:
			t.Errorf("%s: %+v", what, part)
		}
	}
	if n != len(calls) || len(ids) != n || ids[""] || said != text || answer.Stop != model.StopToolCalls {
		t.Errorf("%s: %+v: %d calls, ids %v, %q", what, answer, n, ids, said)
	}
}

// Chunks as servers were seen to send them.
func TestChunks(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		chunks []string
		text   string
		calls  string // name, space, arguments; one a line
		stop   model.StopReason
	}{
		"names that are repeated": {
			[]string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":"{\"p\""}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"read","arguments":":1}"}}]},"finish_reason":"tool_calls"}]}`,
			}, "", `read {"p":1}`, model.StopToolCalls,
		},
		"names in pieces": {
			[]string{
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"re"}}]}}]}`,
				`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"ad","arguments":null}}]},"finish_reason":"stop"}]}`,
			}, "", "read ", model.StopToolCalls,
		},
		"content in parts": {
			[]string{`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"Hi"}]},"finish_reason":"stop"}]}`}, "Hi", "", model.StopEnd,
		},
		"a refusal": {
			[]string{`{"choices":[{"index":0,"delta":{"refusal":"I will not."},"finish_reason":"stop"}]}`}, "I will not.", "", model.StopRefusal,
		},
		"another choice, NUL, unknown reasons": {
			[]string{
				`{"choices":[{"index":1,"delta":{"content":"other"}},{"index":0,"delta":{"content":"a\u0000b"},"finish_reason":"eos"}],"error":null}`, `{"id":"x"}`,
			}, "ab", "", model.StopEnd,
		},
	} {
		p := newProvider(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, chunk := range c.chunks {
				_, _ = w.Write([]byte("data:" + chunk + "\r\n\r\n"))
			}
		}))
		answer, err := p.Generate(t.Context(), newRequest(), nil)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		var text, calls []string
		for _, part := range answer.Parts {
			if part.Text != nil {
				text = append(text, part.Text.Text)
			} else {
				calls = append(calls, part.Call.Name+" "+part.Call.Arguments)
			}
		}
		if strings.Join(text, "|") != c.text || strings.Join(calls, "\n") != c.calls || answer.Stop != c.stop {
			t.Errorf("%s: %q, %q, %s", what, text, calls, answer.Stop)
		}
	}
}

// A server that refuses a member gets the other form, and later requests begin with that form.
func TestDialects(t *testing.T) {
	t.Parallel()
	asked := 0
	server := modelserver.New(func(r *modelserver.Request) modelserver.Answer {
		asked++
		body := string(r.Body)
		switch {
		case strings.Contains(body, "stream_options"):
			return modelserver.Answer{Fault: modelserver.Fault{Status: 422, Message: "stream_options: Extra inputs are not permitted"}}
		case strings.Contains(body, `"max_tokens"`):
			return modelserver.Answer{Fault: modelserver.Fault{Status: 400, Message: "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}
		}
		return modelserver.Answer{Text: "Yes."}
	})
	p := newProvider(t, server)
	for _, want := range []int{3, 4} {
		r := newRequest()
		r.MaxTokens = 50
		if _, err := p.Generate(t.Context(), r, nil); err != nil || asked != want || server.Requests()[asked-1].MaxTokens != 50 {
			t.Errorf("asked %d times, %v", asked, err)
		}
	}
	server = modelserver.New(func(*modelserver.Request) modelserver.Answer {
		return modelserver.Answer{Fault: modelserver.Fault{Status: 400, Message: "max_tokens is odd"}}
	})
	if _, err := newProvider(t, server).Generate(t.Context(), newRequest(), nil); err == nil || len(server.Requests()) != 2 {
		t.Errorf("%v after %d requests", err, len(server.Requests()))
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, cfg := range []openai.Config{{}, {HTTPClient: &http.Client{}, BaseURL: "no URL"}, {HTTPClient: &http.Client{}, BaseURL: "http://h:x/"}} {
		if p, err := openai.New(cfg); err == nil {
			t.Errorf("%+v: %v", cfg, p)
		}
	}
}
