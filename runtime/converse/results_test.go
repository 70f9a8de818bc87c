package converse_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// toldAfter returns the first call's result as the model gets it.
func (w *world) toldAfter(name, arguments string, meanwhile func()) model.ToolResult {
	w.t.Helper()
	w.mind.think = answerInTurn(answerCalls("I do it.", name, arguments), answerText("Done."))
	id := w.beginConversation("Do it.")
	if meanwhile != nil {
		meanwhile()
	}
	w.waitForStatus(id, converse.Idle)
	told := lastResults(w.mind.lastRequest())
	if len(told) != 1 {
		w.t.Fatalf("the model got results of %d calls", len(told))
	}
	return told[0]
}

func wantResult(t *testing.T, r model.ToolResult, isError bool, parts ...string) {
	t.Helper()
	text := joinTexts(r.Parts)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("result %q, want it to contain %q", text, part)
		}
	}
	if r.IsError != isError {
		t.Errorf("error %v: %q", r.IsError, text)
	}
}

func TestResultsForTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	t.Run("hallucinated tool", func(t *testing.T) {
		wantResult(t, w.toldAfter("files__delete_everything", `{}`, nil), true, `There is no tool named "files__delete_everything"`, "not made")
	})
	t.Run("malformed arguments", func(t *testing.T) {
		wantResult(t, w.toldAfter("open__look", `{"a": `, nil), true, "cannot be read", "not made")
		wantResult(t, w.toldAfter("open__look", `{"a": 1, "a": 2}`, nil), true, "cannot be read", "not made")
		wantResult(t, w.toldAfter("open__look", `[1]`, nil), true, "must be a JSON object", "not made")
	})
	t.Run("invalid arguments", func(t *testing.T) {
		wantResult(t, w.toldAfter("files__write", `{"n": "one"}`, nil), true, "not valid", "/n", "not executed")
	})
	if got := w.server.Arguments(); len(got) != 0 {
		t.Fatalf("sent %v", got)
	}
	t.Run("no arguments", func(t *testing.T) {
		wantResult(t, w.toldAfter("open__look", "", nil), false, "done {}")
	})
	t.Run("edited", func(t *testing.T) {
		told := w.toldAfter("files__write", `{"n": 1}`, func() {
			waiting := w.waitForParked(1)[0]
			_, err := w.calls.Decide(w.t.Context(), call.Decision{
				CallID: waiting.Call.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer, Arguments: json.RawMessage(`{"n":7}`),
			})
			check(t, err)
		})
		wantResult(t, told, false, "approved this call with other arguments", `{"n":7}`, "done")
	})
	t.Run("tool error", func(t *testing.T) {
		w.server.Answer(func(tool.CallRequest) (tool.Result, error) {
			return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"no such thing"}],"isError":true}`), IsError: true}, nil
		})
		wantResult(t, w.toldAfter("open__look", `{}`, nil), true, "no such thing")
	})
	t.Run("unreachable", func(t *testing.T) {
		w.server.Answer(func(tool.CallRequest) (tool.Result, error) {
			return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "reset"}
		})
		wantResult(t, w.toldAfter("open__look", `{}`, nil), true, "may have been executed", "reset")
	})
	t.Run("JSON-RPC error", func(t *testing.T) {
		w.server.Answer(func(tool.CallRequest) (tool.Result, error) {
			return tool.Result{}, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "x", RPC: json.RawMessage(`{"code":-32000,"message":"busy"}`)}
		})
		wantResult(t, w.toldAfter("open__look", `{}`, nil), true, "busy")
	})
	t.Run("expired", func(t *testing.T) {
		told := w.toldAfter("files__write", `{"n": 3}`, func() {
			w.waitForParked(1)
			w.moveClock("2 hours")
		})
		wantResult(t, told, true, "No reviewer decided this call in time", "not executed")
	})
}

// moveClock advances the clock that deadlines use.
func (w *world) moveClock(interval string) {
	w.t.Helper()
	list, err := w.waitingIDs()
	check(w.t, err)
	_, err = w.db.Pool().Exec(w.t.Context(), `UPDATE clock_offset SET value = value + $1::interval`, interval)
	check(w.t, err)
	for _, id := range list {
		check(w.t, w.calls.Expire(w.t.Context(), id))
	}
}

func TestImagesReachTheModel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	picture := []byte("\x89PNG not really")
	w.server.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: fmt.Appendf(nil, `{"content":[{"type":"text","text":"see"},{"type":"image","mimeType":"image/png","data":%q},`+
			`{"type":"audio","mimeType":"audio/wav","data":"AAAA"},{"type":"resource","resource":{"uri":"file:///a.txt","text":"inside"}}]}`,
			base64.StdEncoding.EncodeToString(picture))}, nil
	})
	told := w.toldAfter("open__look", `{}`, nil)
	wantResult(t, told, false, "see", "[image 2: image/png", "[audio: audio/wav", "[resource file:///a.txt]\ninside")
	var images []*model.Image
	for _, p := range told.Parts {
		if p.Image != nil {
			images = append(images, p.Image)
		}
	}
	if len(images) != 1 || string(images[0].Data) != string(picture) || images[0].MediaType != "image/png" {
		t.Errorf("images %+v", images)
	}
	w.spec.Model.Images = new(bool)
	w.setLimits(agent.Limits{})
	told = w.toldAfter("open__look", `{}`, nil)
	if slices.ContainsFunc(told.Parts, func(p model.Part) bool { return p.Image != nil }) {
		t.Error("a model without vision got an image")
	}
}

func TestLongResultsAreReadInPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var long strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, "line %d ü\n", i)
	}
	w.server.Answer(func(tool.CallRequest) (tool.Result, error) { return textResult(long.String()), nil })
	var read strings.Builder
	w.mind.think = func(_ context.Context, r *model.Request, _ func(string)) (*model.Response, error) {
		told := lastResults(r)
		if len(told) == 0 {
			return answerCalls("", "open__look", `{}`), nil
		}
		text, note, more := strings.Cut(joinTexts(told[0].Parts), "\n\n[Page ")
		read.WriteString(text)
		if _, after, next := strings.Cut(note, "call holdpoint_read_result with "); more && next {
			arguments, _, _ := strings.Cut(after, ".]")
			return answerCalls("", "holdpoint_read_result", arguments), nil
		}
		return answerText("I read it all."), nil
	}
	id := w.beginConversation("Read.")
	w.waitForStatus(id, converse.Idle)
	if read.String() != long.String() {
		t.Errorf("read %d bytes of %d", read.Len(), long.Len())
	}
	if got := w.server.Arguments(); len(got) != 1 {
		t.Errorf("the call was made %d times", len(got))
	}
	// Results of another conversation do not count here.
	list, err := w.converse.Entries(t.Context(), w.newViewer(), id, 0, 10)
	check(t, err)
	foreign := list[1].Assistant.Calls[0].ID
	told := w.toldAfter("holdpoint_read_result", fmt.Sprintf(`{"result": %q, "page": 1}`, foreign), nil)
	wantResult(t, told, true, "no such result")
}
