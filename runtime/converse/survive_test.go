package converse_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// If a process stops while the model runs, another process takes over the turn.
func TestAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := make(chan struct{})
	var once sync.Once
	w.mind.think = func(ctx context.Context, r *model.Request, _ func(string)) (*model.Response, error) {
		first := false
		once.Do(func() { first = true })
		if first {
			close(began)
			<-ctx.Done()
			return nil, &model.Error{Message: "broke off", Err: ctx.Err()}
		}
		if len(lastResults(r)) == 0 {
			return answerCalls("Writing.", "files__write", `{"n": 1}`), nil
		}
		return answerText("Done."), nil
	}
	id := w.beginConversation("Write.")
	<-began
	other := w.start()
	w.stop()
	w.process = other
	t.Cleanup(other.stop)
	third := w.start()
	t.Cleanup(third.stop)
	w.decideCall(w.waitForParked(1)[0], true, "")
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, `user: Write.
assistant: Writing. [files__write]
call: files__write parked
call: files__write approved
call: files__write succeeded
told: A reviewer approved this call, and it was made as you wanted it.  done {"n":1}
assistant: Done.
`)
	if n := len(w.server.Arguments()); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// A killed process's turn is taken over when its lease expires. Completed work is not repeated.
func TestKilledTurnIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`, "open__look", `{}`), answerText("Done."))
	id := w.beginConversation("Write.")
	waiting := w.waitForParked(1)
	w.waitForStatus(id, converse.Waiting)
	// As if the process had died right after it submitted the calls.
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE loops SET status = 'running', submitted = false, claimed_by = $2 WHERE conversation_id = $1`,
		id, uuid.New())
	check(t, err)
	w.waitForStatus(id, converse.Waiting)
	if got := w.waitForParked(1); got[0].Call.ID != waiting[0].Call.ID {
		t.Error("another call was made")
	}
	w.decideCall(waiting[0], true, "")
	w.waitForStatus(id, converse.Idle)
	if n := len(w.server.Arguments()); n != 2 {
		t.Errorf("%d calls were sent, want 2", n)
	}
	if n := w.mind.countRequests(); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
}

// A job that was lost before its turn began is replaced.
func TestLostJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerText("Hello."), answerText("Again."))
	id := w.beginConversation("Hello.")
	w.waitForStatus(id, converse.Idle)
	_, err := w.db.Pool().Exec(t.Context(), `WITH said AS (INSERT INTO loop_entries (conversation_id, seq, kind, data) VALUES ($1, 3, 'user', '{"text": "More."}'))
		UPDATE loops SET status = 'queued', seq = 3, step = step + 1, moved_at = holdpoint_now() - interval '1 minute'
		WHERE conversation_id = $1`, id) // the previous step's job is finished, and this step has none
	check(t, err)
	w.untilIt(id, "asked again", func(c *converse.Conversation) bool { return c.Turns == 2 && c.Status == converse.Idle })
}

// The scheduler finds calls whose end the conversation missed.
func TestMissedEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mind.think = answerInTurn(answerCalls("Looking.", "open__look", `{}`), answerText("Done."))
	id := w.beginConversation("Look.")
	w.waitForStatus(id, converse.Idle)
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("Done."))
	w.sendMessage(id, "Write.")
	waiting := w.waitForParked(1)
	_, err := w.db.Pool().Exec(t.Context(), `UPDATE calls SET status = 'cancelled', finished_at = holdpoint_now() WHERE id = $1`, waiting[0].Call.ID)
	check(t, err)
	_, err = w.db.Pool().Exec(t.Context(), `UPDATE loops SET moved_at = holdpoint_now() - interval '1 minute' WHERE conversation_id = $1`, id)
	check(t, err)
	w.untilIt(id, "done", func(c *converse.Conversation) bool { return c.Turns == 4 && c.Status == converse.Idle })
}

// A decision may take days.
func TestThreeDaysLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	days := agent.Duration(24 * 5 * 3600e9)
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), skill.ID, agent.SkillPatch{ApprovalTimeout: &days})
	check(t, err)
	w.agents.Invalidate()
	w.mind.think = answerInTurn(answerCalls("Writing.", "files__write", `{"n": 1}`), answerText("Done at last."))
	id := w.beginConversation("Write.")
	waiting := w.waitForParked(1)
	w.waitForStatus(id, converse.Waiting)
	w.moveClock("3 days")
	w.decideCall(waiting[0], true, "")
	w.waitForStatus(id, converse.Idle)
	w.wantStatus(id, `user: Write.
assistant: Writing. [files__write]
call: files__write parked
call: files__write approved
call: files__write succeeded
told: A reviewer approved this call, and it was made as you wanted it.  done {"n":1}
assistant: Done at last.
`)
}

// Calls of many conversations end at once, in batches that mix conversations.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.start()
	t.Cleanup(other.stop)
	w.mind.think = func(_ context.Context, r *model.Request, _ func(string)) (*model.Response, error) {
		if len(lastResults(r)) > 0 {
			return answerText("Done."), nil
		}
		r1, r2 := fmt.Sprintf(`{"n": %d}`, 1), `{}`
		return answerCalls("All.", "files__write", r1, "open__look", r2, "files__write", r1, "open__look", r2), nil
	}
	const n = 30
	ids := make([]uuid.UUID, n)
	for i := range ids {
		ids[i] = w.beginConversation("Go.")
	}
	list := w.waitForParked(2 * n)
	var deciding sync.WaitGroup
	for i, waiting := range list {
		deciding.Go(func() {
			p := w.process
			if i%2 == 0 {
				p = other
			}
			if _, err := p.calls.Decide(t.Context(), call.Decision{
				CallID: waiting.Call.ID, Approve: i%3 > 0, Digest: waiting.Approval.Digest.String(), By: w.reviewer,
			}); err != nil {
				t.Error(err)
			}
		})
	}
	deciding.Wait()
	for _, id := range ids {
		c := w.waitForStatus(id, converse.Idle)
		if c.OpenCalls != 0 || c.Turns != 2 {
			t.Errorf("the conversation is %+v", c)
		}
		w.transcript(id) // without gaps
	}
}
