package converse_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// An idempotency key that has expired is free again.
func TestAskWithExpiredKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = echoMessages
	first := w.askAgent(w.newQuestion("", "Once", "key"))
	w.waitForAnswer(first)
	w.moveClock("25 hours")
	again := w.askAgent(w.newQuestion("", "Another", "key"))
	if got, _ := w.waitForAnswer(again); again.ID == first.ID || got != "You said: Another" {
		t.Errorf("%+v answered %q", again, got)
	}
}

// An empty message is refused with a reason and stores nothing.
func TestAskWithEmptyMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.converse.Ask(t.Context(), w.newQuestion("", "  ", ""))
	if _, invalid := errors.AsType[*fault.InvalidError](err); !invalid {
		t.Errorf("asked nothing: %v", err)
	}
	var n int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM calls`).Scan(&n))
	if n != 0 {
		t.Errorf("%d calls are recorded", n)
	}
}

// An agent that is asked within its own context does not wait for itself.
func TestAgentAsksItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Asking.", "files__write", `{"n": 1}`), answerText("Deeper."), answerText("Done."))
	outer, inner := w.newQuestion("session:1", "Ask yourself.", ""), w.newQuestion("session:1", "What?", "")
	outer.Depth, inner.Depth = 1, 2
	ticket := w.askAgent(outer)
	waiting := w.waitForParked(1) // this call came in with the inner question
	c := w.askAgent(inner)
	if got, _ := w.waitForAnswer(c); got != "Deeper." {
		t.Errorf("answer %q", got)
	}
	w.decideCall(waiting[0], true, "")
	_, asked := w.waitForAnswer(ticket)
	id, err := w.converse.Answering(t.Context(), asked)
	check(t, err)
	fork, err := w.converse.Fork(t.Context(), w.newViewer(), audit.System(), id, 1, "")
	check(t, err)
	if fork.Depth != 1 {
		t.Errorf("the fork of a conversation of depth 1 has depth %d", fork.Depth)
	}
}

// After a turn broke off before its calls were submitted, a message may follow. The calls come later.
func TestResultsComeRightAfterTheirReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("Done."))
	id := w.beginConversation("Write.")
	waiting := w.waitForParked(1)
	w.waitForStatus(id, converse.Waiting)
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE loops SET status = 'running', submitted = false, attempts = 25, claimed_by = $2,
		leased_at = '-infinity' WHERE conversation_id = $1`, id, uuid.New())
	check(t, err)
	w.waitForStatus(id, converse.Idle)
	_, err = w.converse.Say(t.Context(), w.newViewer(), id, "Well?")
	check(t, err)
	w.waitForStatus(id, converse.Waiting)
	w.decideCall(waiting[0], true, "")
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, `user: Write.
assistant: Writing. [files__write]
call: files__write parked
notice: model_failed
user: Well?
call: files__write approved
call: files__write succeeded
told: A reviewer approved this call, and it was made as you wanted it.  done {"n":1}
assistant: Done.
`)
	fork, err := w.converse.Fork(t.Context(), w.newViewer(), audit.System(), id, 5, "And now?")
	check(t, err)
	w.waitForStatus(fork.ID, converse.Idle)
	if list := w.mind.lastRequest().Messages; !strings.Contains(joinTexts(toldParts(list)), "outcome of this call is unknown") {
		t.Errorf("the fork got %+v", list)
	}
}

// toldParts returns the parts of all results in the messages.
func toldParts(list []model.Message) (parts []model.Part) {
	for _, m := range list {
		for _, p := range m.Parts {
			if p.Result != nil {
				parts = append(parts, p.Result.Parts...)
			}
		}
	}
	return parts
}

// If a conversation has more images than a request can take, the oldest are left out.
func TestOldestImagesAreLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	picture := strings.Repeat("x", 5<<20)
	n := 0
	w.server.Answer(func(tool.CallRequest) (tool.Result, error) {
		n++
		return tool.Result{Raw: fmt.Appendf(nil, `{"content":[{"type":"image","mimeType":"image/png","data":%q}]}`,
			base64.StdEncoding.EncodeToString([]byte(strconv.Itoa(n) + picture)[:5<<20]))}, nil
	})
	var replies []*model.Response
	for range 5 {
		replies = append(replies, answerCalls("Looking.", "open__look", `{}`))
	}
	w.mind.think = answerInTurn(append(replies, answerText("Seen."))...)
	w.waitForStatus(w.beginConversation("Look."), converse.Idle)
	var shown []byte
	for _, p := range imagesOf(w.mind.lastRequest()) {
		shown = append(shown, p.Data[0])
	}
	if string(shown) != "2345" {
		t.Errorf("shown %q", shown)
	}
}

func imagesOf(r *model.Request) (images []*model.Image) {
	for _, p := range toldParts(r.Messages) {
		if p.Image != nil {
			images = append(images, p.Image)
		}
	}
	return images
}

// A stopping process does not take turns from others.
func TestStoppingProcessLeavesTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = echoMessages
	w.converse.Drain()
	id := w.beginConversation("Hello")
	eventually.Holds(t, "the turn's job is left", func() (left bool) {
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM river_job
			WHERE kind = 'converse_turn' AND metadata ->> 'snoozes' IS NOT NULL)`).Scan(&left))
		return left
	})
	other := w.start()
	w.stop()
	w.process = other
	t.Cleanup(other.stop)
	w.waitForStatus(id, converse.Idle)
	if n := w.mind.countRequests(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}
