package call_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

// newFigures returns a service that counts the calls of w.
func (w *world) newFigures() *figures.Service {
	w.t.Helper()
	service, err := figures.New(figures.Config{Pool: w.db.Pool(), Agents: w.agents})
	check(w.t, err)
	return service
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// A call appears in the figures at once. After its hour was counted, its row is no longer needed.
func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := w.newFigures()
	lastDays := func() string {
		found, err := counting.ReadInsights(t.Context(), figures.Query{})
		check(t, err)
		return fmt.Sprint(found.Calls.ByStatus)
	}
	succeed := func() uuid.UUID {
		ticket := w.submit("open__echo", `{}`)
		w.waitForEnd(ticket.ID)
		return ticket.ID
	}
	succeed()
	wantEqual(t, "now", lastDays(), "map[succeeded:1]")
	parked := w.submit("files__write", `{"n":1}`)
	w.db.MoveClock("3 hours")
	last := succeed()
	wantEqual(t, "three hours later", lastDays(), "map[parked:1 succeeded:2]")
	check(t, counting.Count(t.Context()))
	wantEqual(t, "the first is counted", lastDays(), "map[parked:1 succeeded:2]")
	w.db.Exec(`DELETE FROM calls WHERE status = 'succeeded' AND id <> $1`, last)
	wantEqual(t, "the first is gone", lastDays(), "map[parked:1 succeeded:2]")
	check(t, w.calls.Expire(t.Context(), parked.ID))
	wantEqual(t, "one has expired", lastDays(), "map[expired:1 succeeded:2]")
	check(t, counting.Count(t.Context()))
	wantEqual(t, "it is counted", lastDays(), "map[expired:1 succeeded:2]")
	w.db.Exec(`DELETE FROM calls WHERE id = $1`, parked.ID)
	wantEqual(t, "it is gone", lastDays(), "map[expired:1 succeeded:2]")
}

// Recovery and figures find a call whose id is older than the call, although no recent id leads to it.
func TestCallsWithOldIDsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := w.newFigures()
	w.waitForEnd(w.submit("open__echo", `{}`).ID)
	w.db.MoveClock("3 hours")
	check(t, counting.Count(t.Context()))
	sub := w.newSubmission("open__echo", `{}`)
	sub.ID = uuid.New()
	ticket, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	w.waitForEnd(ticket.ID)
	for _, when := range []string{"before", "after"} {
		found, err := counting.ReadInsights(t.Context(), figures.Query{})
		check(t, err)
		wantEqual(t, when+" it is counted", found.Calls.ByStatus[call.Succeeded], 2)
		w.db.MoveClock("6 hours")
		check(t, counting.Count(t.Context()))
	}
}

// Time to decide starts when the reviewer was free to look at the approval.
func TestDecisionsTakenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	takenUp := func(id uuid.UUID) (since string) {
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT CASE taken_up_at WHEN created_at THEN 'it came'
				WHEN (SELECT max(decided_at) FROM approvals o WHERE o.call_id <> a.call_id) THEN 'the decision before' ELSE 'when?' END
			FROM approvals a WHERE call_id = $1`, id).Scan(&since))
		return since
	}
	first, second := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`)
	w.db.MoveClock("20 seconds")
	check(t, w.decide(first.ID, true))
	wantEqual(t, "the first, since", takenUp(first.ID), "it came")
	w.db.MoveClock("25 seconds")
	check(t, w.decide(second.ID, false))
	wantEqual(t, "the second, since", takenUp(second.ID), "the decision before")
	third, fourth := w.submit("files__write", `{"n":3}`), w.submit("files__write", `{"n":4}`)
	w.db.MoveClock("30 seconds")
	check(t, w.decide(third.ID, true))
	wantEqual(t, "one that came later, since", takenUp(third.ID), "it came")
	// Decisions that are sent together do not follow one another.
	w.db.Exec(`UPDATE approvals SET decided_at = decided_at + interval '1 hour' WHERE call_id = $1`, third.ID)
	check(t, w.decide(fourth.ID, true))
	wantEqual(t, "one that was sent together with another, since", takenUp(fourth.ID), "it came")

	fifth := w.submit("files__write", `{"n":5}`)
	w.db.MoveClock("2 hours")
	check(t, w.calls.Expire(t.Context(), fifth.ID))
	var nobody bool
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT taken_up_at IS NULL FROM approvals WHERE call_id = $1`, fifth.ID).Scan(&nobody))
	wantEqual(t, "nobody took up what expired", nobody, true)
}
