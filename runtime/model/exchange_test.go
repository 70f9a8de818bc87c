package model_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/anthropic"
)

var picture = model.Part{Image: &model.Image{MediaType: "image/png", Data: []byte("\x89PNG…")}}

func newTool(text string) model.Tool {
	return model.Tool{Name: "files__write", Description: "Writes.", Schema: json.RawMessage(text)}
}

// The server gets a conversation with parallel calls, pictures, an error and thinking exactly as it was sent.
func TestConversation(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		w := newWorld(t, format, modelserver.Sequence(
			modelserver.Answer{Thinking: "Two files, then. <&>", Text: "I write both, überall.", Calls: []modelserver.Call{
				{ID: "toolu_a", Name: "files__write", Arguments: `{"path":"a <b>","n":1.50}`}, {ID: "toolu_b", Name: "files__write", Arguments: `{"path":"b"}`}, {ID: "toolu_c", Name: "clock"},
			}},
			modelserver.Answer{Text: "Done.", Usage: modelserver.Usage{Input: 100, Cached: 60, Output: 7}},
		))
		first := newRequest("Write two files.")
		first.Instructions, first.MaxTokens = "You write files.", 900
		first.Tools = []model.Tool{newTool(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`), {Name: "clock", Schema: json.RawMessage(`{"type":"object"}`)}}
		answer, h := w.mustAsk(first)
		if textOf(answer) != "I write both, überall." || answer.Stop != model.StopToolCalls || h.deltas < 3 || h.restarts != 0 {
			t.Errorf("answered %+v in %d pieces", answer, h.deltas)
		}
		want := []model.ToolCall{{ID: "toolu_a", Name: "files__write", Arguments: `{"path":"a <b>","n":1.50}`}, {ID: "toolu_b", Name: "files__write", Arguments: `{"path":"b"}`}, {ID: "toolu_c", Name: "clock"}}
		if calls := callsOf(answer); !slices.Equal(calls, want) {
			t.Errorf("calls %+v", calls)
		}
		if answer.Usage.InputTokens == 0 || answer.Usage.OutputTokens == 0 || answer.Model != "m1" || answer.ID == "" {
			t.Errorf("answer %+v", answer)
		}
		second := continueRequest(first, answer,
			model.TextPart("Look at these, too."), picture,
			newResult("toolu_b", model.TextPart("written"), picture),
			model.Part{Result: &model.ToolResult{CallID: "toolu_a", IsError: true, Parts: []model.Part{model.TextPart("disk full")}}},
			newResult("toolu_c"))
		done, _ := w.mustAsk(second)
		if textOf(done) != "Done." || done.Stop != model.StopEnd || done.Usage != (model.Usage{InputTokens: 100, CachedInputTokens: 60, OutputTokens: 7}) {
			t.Errorf("answered %+v", done)
		}
		checkSeen(t, w)
	})
}

// checkSeen compares the server's view of TestConversation with it.
func checkSeen(t *testing.T, w *world) {
	t.Helper()
	requests := w.server.Requests()
	if len(requests) != 2 || len(w.server.Refusals()) > 0 {
		t.Fatalf("%d requests, refused %q", len(requests), w.server.Refusals())
	}
	r := requests[1]
	if r.System != "You write files." || r.MaxTokens != 900 || r.Model != "m1" || len(r.Tools) != 2 || !r.Stream || r.Header.Get("User-Agent") != "holdpoint" {
		t.Errorf("request %+v", r)
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "X-Stainless") || name == "Traceparent" {
			t.Errorf("header %s", name)
		}
	}
	assistant := r.Messages[1]
	if assistant.Text != "I write both, überall." || len(assistant.Calls) != 3 || assistant.Calls[0].Arguments != `{"path":"a <b>","n":1.50}` || assistant.Calls[2].Arguments != "{}" {
		t.Errorf("assistant %+v", assistant)
	}
	results := r.Messages[2].Results
	if len(results) != 3 || results[0].CallID != "toolu_b" || !strings.Contains(results[1].Text, "disk full") || results[2].Text == "" {
		t.Fatalf("results %+v", results)
	}
	last := r.Last()
	if w.format == modelserver.Anthropic {
		if !slices.Equal(results[0].Images, []string{"image/png"}) || !results[1].IsError || len(last.Images) != 1 || !last.Cached {
			t.Errorf("results %+v, said %+v", results, last)
		}
		if !slices.Equal(assistant.Thinking, []string{"Two files, then. <&>"}) {
			t.Errorf("thinking %q", assistant.Thinking)
		}
		return
	}
	if !strings.HasPrefix(results[1].Text, "Error: ") || len(last.Images) != 2 || !strings.Contains(last.Text, "toolu_b (files__write)") || !strings.HasSuffix(last.Text, "Look at these, too.\n") {
		t.Errorf("results %+v, said %+v", results, last)
	}
}

// Invented names and arguments are passed on as they are, and the server accepts them back.
func TestInventedCalls(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		long := strings.Repeat("n", 80)
		calls := []modelserver.Call{
			{Name: "no.such tool", Arguments: `{"a": tru`}, {Name: long, Arguments: `[1,2]`}, {Name: "files__write", Arguments: `"text"`}, {Name: "files__write", Arguments: "null"},
		}
		w := newWorld(t, format, modelserver.Sequence(modelserver.Answer{Calls: calls}, modelserver.Answer{Text: "Sorry."}))
		request := newRequest("Go.")
		answer, _ := w.mustAsk(request)
		var results []model.Part
		for i, call := range callsOf(answer) {
			if call.Name != calls[i].Name || call.Arguments != calls[i].Arguments {
				t.Errorf("got %+v, want %+v", call, calls[i])
			}
			results = append(results, newResult(call.ID, model.TextPart("There is no such tool.")))
		}
		w.mustAsk(continueRequest(request, answer, results...))
		back := w.server.Requests()[1].Messages[1].Calls
		if len(back) != 4 || back[0].Name != "no_such_tool" || !strings.Contains(back[0].Arguments, `{\"a\": tru`) || back[1].Name != long[:64] {
			t.Errorf("given back %+v", back)
		}
	})
}

func TestStops(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		write := modelserver.Call{Name: "files__write", Arguments: `{"path":"a"}`}
		for stop, c := range map[string]struct {
			answer modelserver.Answer
			want   model.StopReason
			calls  int
		}{
			"end":                 {modelserver.Answer{Text: "Yes."}, model.StopEnd, 0},
			"nothing":             {modelserver.Answer{}, model.StopEnd, 0},
			"cut":                 {modelserver.Answer{Text: "It is", Stop: modelserver.StopMaxTokens}, model.StopMaxTokens, 0},
			"refused":             {modelserver.Answer{Text: "No", Stop: modelserver.StopRefusal}, model.StopRefusal, 0},
			"ended with calls":    {modelserver.Answer{Calls: []modelserver.Call{write}, Stop: modelserver.StopEnd}, model.StopToolCalls, 1},
			"cut in a call":       {modelserver.Answer{Calls: []modelserver.Call{write, {Name: "files__write", Arguments: `{"path":`}}, Stop: modelserver.StopMaxTokens}, model.StopMaxTokens, 1},
			"cut after a call":    {modelserver.Answer{Calls: []modelserver.Call{write, write}, Stop: modelserver.StopMaxTokens}, model.StopMaxTokens, 2},
			"cut before a call's": {modelserver.Answer{Calls: []modelserver.Call{write, {Name: "files__write"}}, Stop: modelserver.StopMaxTokens}, model.StopMaxTokens, 1},
		} {
			for _, whole := range []bool{false, true} {
				if whole && strings.HasPrefix(stop, "cut ") && format == modelserver.Anthropic {
					continue // invalid JSON cannot be part of an answer that comes at once
				}
				c.answer.Whole = whole
				w := newWorld(t, format, modelserver.Sequence(c.answer))
				answer, _ := w.mustAsk(newRequest("Go."))
				if answer.Stop != c.want || len(callsOf(answer)) != c.calls || textOf(answer) != c.answer.Text {
					t.Errorf("%s: %+v", stop, answer)
				}
			}
		}
	})
}

// Answers without a stream are parsed.
func TestWholeAnswers(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		w := newWorld(t, format, modelserver.Sequence(modelserver.Answer{
			Whole: true, Thinking: "Hm.", Text: "One moment.", Calls: []modelserver.Call{{ID: "a1", Name: "clock"}, {ID: "a2", Name: "files__write", Arguments: `{"path":"a"}`}},
		}, modelserver.Answer{Whole: true, Text: "Noon."}))
		request := newRequest("What time is it?")
		answer, h := w.mustAsk(request)
		if want := []model.ToolCall{{ID: "a1", Name: "clock"}, {ID: "a2", Name: "files__write", Arguments: `{"path":"a"}`}}; !slices.Equal(callsOf(answer), want) || answer.Stop != model.StopToolCalls || h.deltas != 1 {
			t.Errorf("answered %+v", answer)
		}
		if next, _ := w.mustAsk(continueRequest(request, answer, newResult("a1", model.TextPart("12:00")), newResult("a2", model.TextPart("ok")))); textOf(next) != "Noon." || next.Usage.OutputTokens == 0 {
			t.Errorf("answered %+v", next)
		}
	})
}

// Ids of calls are unique in a conversation, even if the server's are not.
func TestCallIDs(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		same := modelserver.Answer{Calls: []modelserver.Call{{ID: "call_0", Name: "clock"}, {ID: "call_0", Name: "clock"}}}
		w := newWorld(t, format, modelserver.Sequence(same, same))
		request := newRequest("Go.")
		first, _ := w.mustAsk(request)
		ids := map[string]bool{}
		var results []model.Part
		for _, call := range callsOf(first) {
			ids[call.ID] = true
			results = append(results, newResult(call.ID))
		}
		second, _ := w.mustAsk(continueRequest(request, first, results...))
		for _, call := range callsOf(second) {
			ids[call.ID] = true
		}
		if len(ids) != 4 || !ids["call_0"] || ids[""] {
			t.Errorf("ids %v", ids)
		}
	})
}

// A conversation continues with another provider: opaque data is left out, and ids are adapted.
func TestAnotherProvider(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		w := newWorld(t, format, modelserver.Sequence(modelserver.Answer{Text: "I see."}))
		request := newRequest("Go.")
		answer := &model.Response{Parts: []model.Part{
			{Opaque: &model.Opaque{Provider: "another", Value: json.RawMessage(`{"type":"thinking"}`)}},
			{Call: &model.ToolCall{ID: "functions.clock:0", Name: "clock"}},
		}}
		next := continueRequest(request, answer, newResult("functions.clock:0", model.TextPart("12:00")))
		next.Messages = append(next.Messages,
			model.Message{Role: model.Assistant, Parts: []model.Part{{Opaque: &model.Opaque{Provider: "another", Value: json.RawMessage(`{}`)}}, model.TextPart("")}},
			model.Message{Role: model.User, Parts: []model.Part{model.TextPart(" ")}},
			model.Message{Role: model.User, Parts: []model.Part{model.TextPart("And now?")}})
		w.mustAsk(next)
		seen := w.server.Requests()[0]
		if seen.Messages[1].Calls[0].ID != seen.Messages[2].Results[0].CallID || !strings.Contains(seen.Last().Text, "And now?") {
			t.Errorf("seen %+v", seen.Messages)
		}
	})
}

// Schemas are adapted to the servers' rules; lost parts are described in words.
func TestSchemas(t *testing.T) {
	testFormats(t, func(t *testing.T, format string) {
		for text, want := range map[string]struct{ schema, description string }{
			`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"a":{"type":"number","maximum":1.10}},"required":["a"],"additionalProperties":false}`: {
				`{"additionalProperties":false,"properties":{"a":{"maximum":1.10,"type":"number"}},"required":["a"],"type":"object"}`, "Writes.",
			},
			`{}`:               {`{"properties":{},"type":"object"}`, "Writes."},
			``:                 {`{"properties":{},"type":"object"}`, "Writes."},
			`[]`:               {`{"properties":{},"type":"object"}`, "Writes."},
			`{"type":"array"}`: {`{"properties":{},"type":"object"}`, "Writes."},
			`{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"properties":null}`: {
				`{"properties":{},"type":"object"}`, `Its arguments must also match this JSON Schema: {"oneOf":[{"required":["a"]},{"required":["b"]}]}`,
			},
		} {
			w := newWorld(t, format, modelserver.Sequence(modelserver.Answer{Text: "Yes."}))
			request := newRequest("Go.")
			request.Tools = []model.Tool{newTool(text)}
			w.mustAsk(request)
			tool := w.server.Requests()[0].Tools[0]
			if got, _ := json.Marshal(tool.Schema); string(got) != want.schema || !strings.Contains(tool.Description, want.description) {
				t.Errorf("%s: %s, %q", text, got, tool.Description)
			}
		}
	})
}

// The repeated parts of each request are marked for caching.
func TestCaching(t *testing.T) {
	t.Parallel()
	w := newWorld(t, modelserver.Anthropic, modelserver.Sequence(modelserver.Answer{Text: "a"}, modelserver.Answer{Text: "b"}))
	request := newRequest("Go.")
	request.Tools = []model.Tool{{Name: "a"}, {Name: "b"}}
	w.mustAsk(request)
	request.Instructions = "Be kind."
	w.mustAsk(request)
	plain, instructed := w.server.Requests()[0], w.server.Requests()[1]
	if plain.Tools[0].Cached || !plain.Tools[1].Cached || !plain.Last().Cached || plain.MaxTokens != anthropic.DefaultMaxTokens {
		t.Errorf("without instructions: %+v", plain)
	}
	if instructed.Tools[1].Cached || !instructed.Last().Cached || strings.Count(string(instructed.Body), "cache_control") != 2 {
		t.Errorf("with instructions: %s", instructed.Body)
	}
}
