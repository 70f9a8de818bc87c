package call_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestTakeOver: an instance goes silent with one call in flight, one approved but unclaimed, and one parked.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	silent := uuid.New()
	inFlight, approved, parked := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`), w.submit("files__write", `{"n":3}`)
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = ANY($1)`, []uuid.UUID{inFlight.ID, approved.ID})
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2 WHERE id = $1`, inFlight.ID, silent)
	w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, approved.ID)
	w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES ($1, holdpoint_now() - interval '20 seconds')`, silent)
	if c := w.waitForEnd(inFlight.ID); c.Status != call.Unknown || c.Effect != tool.EffectPossible || c.Code != call.CodeOutcomeUnknown {
		t.Fatalf("the call in flight is %s, %s, %s", c.Status, c.Code, c.Effect)
	}
	if c := w.waitForEnd(approved.ID); c.Status != call.Succeeded {
		t.Fatalf("the approved call is %s: %s", c.Status, c.Message)
	}
	if c, err := w.calls.Get(t.Context(), call.Viewer{}, parked.ID); err != nil || c.Status != call.Parked {
		t.Fatalf("the parked call is %s, %v", c.Status, err)
	}
	if got := w.source.Arguments(); len(got) != 1 || got[0] != `{"n":2}` {
		t.Fatalf("arrived: %q", got)
	}
	resolution := call.Resolution{Outcome: call.ResolvedSucceeded, Note: "seen in the log", By: w.reviewer}
	c, err := w.calls.Resolve(t.Context(), inFlight.ID, resolution)
	check(t, err)
	if c.Resolution == nil || c.Resolution.Outcome != call.ResolvedSucceeded || c.Resolution.By != w.reviewer {
		t.Fatalf("resolution %+v", c.Resolution)
	}
	if _, err := w.calls.Resolve(t.Context(), inFlight.ID, resolution); !errors.Is(err, call.ErrState) {
		t.Fatalf("resolving twice: %v", err)
	}
}

// TestManyDeciders: approvals, rejections and expiries race; each call gets one outcome.
func TestManyDeciders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	const calls, deciders = 12, 6
	tickets := make([]call.Ticket, calls)
	for i := range tickets {
		tickets[i] = w.submit("files__write", fmt.Sprintf(`{"n":%d}`, i))
	}
	for i, ticket := range tickets {
		if i%3 == 0 {
			w.db.Exec(`UPDATE approvals SET deadline = holdpoint_now() + interval '5 milliseconds' WHERE call_id = $1`, ticket.ID)
		}
	}
	won := make([]map[bool]int, calls)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, ticket := range tickets {
		won[i] = map[bool]int{}
		for d := range deciders {
			wg.Go(func() {
				err := w.decide(ticket.ID, d%2 == 0)
				var conflict *approval.ConflictError
				if err != nil && !errors.As(err, &conflict) {
					t.Errorf("decide: %v", err)
				}
				if err == nil {
					mu.Lock()
					won[i][d%2 == 0]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	sent := 0
	for i, ticket := range tickets {
		c := w.waitForEnd(ticket.ID)
		approved, rejected := won[i][true], won[i][false]
		want := map[call.Status]bool{
			call.Succeeded: approved == 1 && rejected == 0,
			call.Rejected:  approved == 0 && rejected == 1,
			call.Expired:   approved == 0 && rejected == 0,
		}
		if !want[c.Status] {
			t.Errorf("call %d is %s after %d approvals and %d rejections", i, c.Status, approved, rejected)
		}
		sent += approved
	}
	if n := len(w.source.Arguments()); n != sent {
		t.Errorf("%d calls arrived, %d were approved", n, sent)
	}
}

// TestLateOutcome: the claim is taken away while the skill server works.
func TestLateOutcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submitLate(`status = 'unknown', finished_at = holdpoint_now()`)
	if late := w.waitForLate(ticket.ID); !strings.Contains(late, `"status":"succeeded"`) || !strings.Contains(late, "a secret") {
		t.Errorf("late outcome %s", late)
	}
	if got := w.db.Actions(ticket.ID); got != "call.allowed call.late_outcome" {
		t.Errorf("audit: %s", got)
	}
}

// TestLateOutcomeOfDeletedContent: meanwhile the content of the call was deleted by age, or with its person.
func TestLateOutcomeOfDeletedContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submitLate(`status = 'unknown', finished_at = holdpoint_now(), arguments = '{}', content_deleted_at = holdpoint_now()`)
	if late := w.waitForLate(ticket.ID); !strings.Contains(late, `"status":"succeeded"`) || strings.Contains(late, "a secret") {
		t.Errorf("late outcome %s", late)
	}
	if got := w.db.Actions(ticket.ID); got != "call.allowed call.late_outcome" {
		t.Errorf("audit: %s", got)
	}
}

// submitLate submits a call whose row changes while the skill server works.
func (w *world) submitLate(change string) call.Ticket {
	w.t.Helper()
	w.registerSkills(time.Hour)
	arrived, release := make(chan struct{}), make(chan struct{})
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		close(arrived)
		<-release
		return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"a secret \u0000"}]}`)}, nil
	})
	ticket := w.submit("open__echo", `{}`)
	<-arrived
	w.db.Exec(`UPDATE calls SET `+change+` WHERE id = $1`, ticket.ID)
	close(release)
	return ticket
}

// waitForLate waits for the late outcome of an unknown call.
func (w *world) waitForLate(id uuid.UUID) (late string) {
	w.t.Helper()
	eventually.Holds(w.t, "the late outcome to be stored", func() bool {
		c, err := w.calls.Get(w.t.Context(), call.Viewer{}, id)
		check(w.t, err)
		if c.Status != call.Unknown || len(c.Result) > 0 {
			w.t.Fatalf("a late outcome made the call %s", c.Status)
		}
		late = string(c.Late)
		return late != ""
	})
	return late
}

// TestPanicAfterSending: a call is never sent again after a panic.
func TestPanicAfterSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) { panic("hostile") })
	gated := w.submit("files__write", `{"n":1}`)
	check(t, w.decide(gated.ID, true))
	for _, ticket := range []call.Ticket{gated, w.submit("open__echo", `{}`)} {
		if c := w.waitForEnd(ticket.ID); c.Failure != tool.ProtocolFailure || c.Effect != tool.EffectPossible {
			t.Errorf("call ended as %s, %s, %s", c.Status, c.Failure, c.Effect)
		}
	}
	if n := len(w.source.Arguments()); n != 2 {
		t.Errorf("%d calls arrived, want 2", n)
	}
}

// TestSweep: the claim of a gone instance, and an approved call that lost its job.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	orphan, jobless := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`)
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() - interval '1 minute'`)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = gen_random_uuid(),
		claimed_at = holdpoint_now() - interval '1 minute' WHERE id = $1`, orphan.ID)
	w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, jobless.ID)
	w.start() // a process sweeps when it starts
	if c := w.waitForEnd(orphan.ID); c.Status != call.Unknown {
		t.Errorf("the orphan is %s", c.Status)
	}
	if c := w.waitForEnd(jobless.ID); c.Status != call.Succeeded {
		t.Errorf("the call without a job is %s", c.Status)
	}
}
