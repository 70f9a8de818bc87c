package call_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// crowd submits n distinct calls at the same time, distributed over the processes, and returns those that were parked.
// The others are over the limit.
func (w *world) crowd(n, from int, principal uuid.UUID, processes ...*call.Service) []uuid.UUID {
	w.t.Helper()
	base := w.newSubmission("files__write", `{"n":0}`)
	var mu sync.Mutex
	var parked []uuid.UUID
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			sub := base
			sub.Arguments, sub.PrincipalID = fmt.Appendf(nil, `{"n":%d}`, from+i), principal
			ticket, err := processes[i%len(processes)].Submit(w.t.Context(), sub)
			mu.Lock()
			defer mu.Unlock()
			if full := (*call.PendingError)(nil); errors.As(err, &full) {
				return
			}
			if err != nil || ticket.Status != call.Parked {
				w.t.Errorf("call %d: %+v, %v", i, ticket, err)
				return
			}
			parked = append(parked, ticket.ID)
		})
	}
	all.Wait()
	return parked
}

// TestPendingLimit: the limit is exact even if several processes accept calls at the same time.
func TestPendingLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent.Limits.Pending = 7
	other := w.start()
	parked := w.crowd(60, 0, uuid.Nil, w.calls, other)
	if len(parked) != 7 {
		t.Fatalf("%d calls wait, want 7", len(parked))
	}
	var recorded int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM calls`).Scan(&recorded))
	if recorded != 7 {
		t.Errorf("%d calls are recorded, want 7", recorded)
	}
	_, err := w.calls.Submit(t.Context(), w.newSubmission("files__write", `{"n":-1}`))
	if full := (*call.PendingError)(nil); !errors.As(err, &full) || *full != (call.PendingError{Waiting: 7, Limit: 7}) {
		t.Errorf("one more: %v", err)
	}
	// Repeats and auto-approved calls do not count.
	waiting, err := w.calls.Get(t.Context(), call.Viewer{AgentID: w.agent.ID}, parked[0])
	check(t, err)
	again, err := other.Submit(t.Context(), w.newSubmission("files__write", string(waiting.Arguments)))
	if err != nil || !again.Attached || again.ID != parked[0] {
		t.Errorf("a repeat: %+v, %v", again, err)
	}
	if c := w.waitForEnd(w.submit("open__write", `{"n":1}`).ID); c.Status != call.Succeeded {
		t.Errorf("an auto-approved call is %s", c.Status)
	}
	// Each principal has its own limit.
	if n := len(w.crowd(12, 0, uuid.New(), w.calls, other)); n != 7 {
		t.Errorf("%d calls of the other principal wait, want 7", n)
	}
	// A decision frees one place.
	check(t, w.decide(parked[0], false))
	w.waitForEnd(parked[0])
	if n := len(w.crowd(10, 100, uuid.Nil, w.calls, other)); n != 1 {
		t.Errorf("%d calls took one free place", n)
	}
}

// TestPendingLimitOfConnections: calls that wait for a connection count too.
func TestPendingLimitOfConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent.Limits.Pending = 2
	w.submit("files__write", `{"n":1}`)
	sub := w.newSubmission("files__write", `{"n":2}`)
	w.source.Require(notConnected)
	if ticket, err := w.calls.Submit(t.Context(), sub); err != nil || ticket.Status != call.NeedsConnection {
		t.Fatalf("%+v, %v", ticket, err)
	}
	sub.Arguments = []byte(`{"n":3}`)
	_, err := w.calls.Submit(t.Context(), sub)
	if full := (*call.PendingError)(nil); !errors.As(err, &full) || full.Waiting != 2 {
		t.Errorf("one more: %v", err)
	}
}

// TestPendingLimitOfAnAgent counts the calls for all principals.
func TestPendingLimitOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(`INSERT INTO approvals (call_id, agent_id, principal_id, skill_id, tool, digest, deadline, status, rule)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), gen_random_uuid(), 'write', '', 'infinity', 'pending', 'gated' FROM generate_series(1, 995)`, w.agent.ID)
	if n := len(w.crowd(20, 0, uuid.New(), w.calls)); n != 5 {
		t.Errorf("%d calls wait, want the last 5 of 1000", n)
	}
	_, err := w.calls.Submit(t.Context(), w.newSubmission("files__write", `{"n":-1}`))
	if full := (*call.PendingError)(nil); !errors.As(err, &full) || *full != (call.PendingError{Waiting: call.MaxPending, Limit: call.MaxPending, Total: true}) {
		t.Errorf("one more: %v", err)
	}
}

// TestHighPendingLimit: near a high limit, each process may exceed it by an eighth of the free places, plus as many in
// an open transaction.
func TestHighPendingLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agent.Limits.Pending = call.MaxPending + 200
	w.db.Exec(`INSERT INTO approvals (call_id, agent_id, skill_id, tool, digest, deadline, status, rule)
		SELECT gen_random_uuid(), $1, gen_random_uuid(), 'write', '', 'infinity', 'pending', 'gated' FROM generate_series(1, $2)`, w.agent.ID, call.MaxPending+160)
	other := w.start()
	if n := len(w.crowd(120, 0, uuid.Nil, w.calls, other)); n < 40 || n > 56 {
		t.Errorf("%d calls wait, want the last 40 of %d, and 16 more at most", n, w.agent.Limits.Pending)
	}
	_, err := w.calls.Submit(t.Context(), w.newSubmission("files__write", `{"n":-1}`))
	if full := (*call.PendingError)(nil); !errors.As(err, &full) || full.Limit != w.agent.Limits.Pending {
		t.Errorf("one more: %v", err)
	}
}
