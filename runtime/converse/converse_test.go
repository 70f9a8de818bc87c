package converse_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/converse"
)

func TestAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerText("Hello to you."))
	id := w.beginConversation("Hello?")
	c := w.waitForStatus(id, converse.Idle)
	want := "user: Hello?\nassistant: Hello to you.\n"
	if got := w.transcript(id); got != want {
		t.Errorf("transcript\n%s, want\n%s", got, want)
	}
	if c.Turns != 1 || c.InputTokens != 10 || c.OutputTokens != 5 || c.Cost != 20.0/1e6 {
		t.Errorf("counted %+v", c)
	}
	r := w.mind.lastRequest()
	if r.Model != "mind-1" || !strings.HasPrefix(r.Instructions, "You file invoices.\n\n") || len(r.Tools) != 5 {
		t.Errorf("asked %+v", r)
	}
}

func TestParkedCallsResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(
		answerCalls("I look first.", "open__look", `{"a": 1}`, "files__write", `{"n": 1}`, "files__write", `{"n": 2}`),
		answerText("All done."))
	id := w.beginConversation("Write.")
	w.waitForStatus(id, converse.Waiting)
	list := w.waitForParked(2)
	w.decideCall(list[0], false, "not today")
	w.decideCall(list[1], true, "")
	w.waitForStatus(id, converse.Idle)
	told := lastResults(w.mind.lastRequest())
	if len(told) != 3 || told[0].IsError || joinTexts(told[0].Parts) != `done {"a":1}` {
		t.Fatalf("results in the request: %+v", told)
	}
	rejected, approved := told[1], told[2]
	if !rejected.IsError || !strings.Contains(joinTexts(rejected.Parts), `rejected by a reviewer`) || !strings.Contains(joinTexts(rejected.Parts), "not today") {
		t.Errorf("of the rejected: %+v", rejected)
	}
	if approved.IsError || !strings.Contains(joinTexts(approved.Parts), "A reviewer approved this call") || !strings.Contains(joinTexts(approved.Parts), `done {"n":2}`) {
		t.Errorf("of the approved: %+v", approved)
	}
	if got := strings.Join(w.server.Arguments(), "; "); got != `{"a":1}; {"n":2}` {
		t.Errorf("sent %s", got)
	}
	t.Log(w.transcript(id))
}
