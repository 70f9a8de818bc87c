package model_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// fixedServer has one answer to all requests.
type fixedServer struct {
	kind string
	text []byte
}

// RoundTrip implements [http.RoundTripper].
func (s *fixedServer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.kind}}, Body: io.NopCloser(bytes.NewReader(s.text)), Request: r,
	}, nil
}

// Any bytes of a server result in an error, or in an answer that can be sent back.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{
		`{"choices":[{"index":0,"delta":{"content":"a","tool_calls":[{"index":-5,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"function":null}]},"finish_reason":"length"}],"usage":{"prompt_tokens":-1}}`,
		`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":-9223372036854775807,"prompt_tokens_details":{"cached_tokens":-1}}}`,
		`{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":9223372036854775807,"cache_creation_input_tokens":9,"cache_read_input_tokens":-5,"output_tokens":-7}}`,
		`{"error":{"message":1}}`,
		`{"type":"message_start","message":{"id":"m","content":[{"type":"thinking"}]}}` + "\n\ndata: " + `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"x"}}` + "\n\ndata: " + `{"type":"message_stop"}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"","name":"\u0000","input":null}}` + "\n\ndata: " + `{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
		`{"type":"content_block_delta","index":-1,"delta":{"type":"input_json_delta","partial_json":"{"}}`,
		`{"type":"message","content":[{"type":"tool_use","input":[]}],"stop_reason":"max_tokens"}`,
		`[DONE]`, "", "null", "\xff\x00",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, format := range formats {
			for kind, body := range map[string][]byte{"text/event-stream": append([]byte("data: "), append(text, "\n\n"...)...), "application/json": text} {
				w := &world{t: t, format: format, client: &http.Client{Transport: &fixedServer{kind, body}}}
				w.provider = w.newProvider("http://models.test", "")
				asked := newRequest("Go.")
				answer, err := w.provider.Generate(t.Context(), asked, func(model.Delta) {})
				if err != nil {
					if _, ok := errors.AsType[*model.Error](err); !ok {
						t.Fatalf("%T: %v", err, err)
					}
					continue
				}
				if u := answer.Usage; u.InputTokens < 0 || u.CachedInputTokens < 0 || u.CachedInputTokens > u.InputTokens || u.OutputTokens < 0 || u.InputTokens+u.OutputTokens > 1<<41 {
					t.Fatalf("usage %+v", u)
				}
				checkContinuation(t, format, asked, answer)
			}
		}
	})
}

// checkContinuation continues a conversation after an answer, which a strict server must accept.
func checkContinuation(t *testing.T, format string, asked *model.Request, answer *model.Response) {
	t.Helper()
	ids := map[string]bool{}
	var results []model.Part
	for _, part := range answer.Parts {
		if part.Opaque != nil {
			return // unsigned parts are not judged
		}
		if part.Text != nil && (part.Text.Text == "" || strings.Contains(part.Text.Text, "\x00")) {
			t.Fatalf("text %q", part.Text.Text)
		}
		if part.Call != nil {
			if part.Call.ID == "" || ids[part.Call.ID] {
				t.Fatalf("id %q", part.Call.ID)
			}
			ids[part.Call.ID] = true
			results = append(results, newResult(part.Call.ID))
		}
	}
	w := newWorld(t, format, modelserver.Sequence(modelserver.Answer{Text: "Yes."}))
	w.mustAsk(continueRequest(asked, answer, results...))
}
