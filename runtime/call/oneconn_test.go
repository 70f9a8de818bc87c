package call_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// leaveOne takes all connections of the pool but one. Code that holds it and waits for a second one blocks until the
// test gives the others back and fails.
func (w *world) leaveOne() {
	w.t.Helper()
	var taken []*pgxpool.Conn
	for {
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		c, err := w.db.Pool().Acquire(ctx)
		cancel()
		if err != nil { // the service holds the rest permanently
			break
		}
		taken = append(taken, c)
	}
	if len(taken) < 2 {
		w.t.Fatalf("only %d connections could be acquired", len(taken))
	}
	taken[0].Release()
	release := sync.OnceFunc(func() {
		for _, c := range taken[1:] {
			c.Release()
		}
	})
	late := time.AfterFunc(patience, func() {
		w.t.Error("a goroutine holds a connection and waits for a second one")
		release()
	})
	w.t.Cleanup(func() {
		late.Stop()
		release()
	})
}

// Transactions that each wait for a second connection would deadlock under load.
func TestTransactionsTakeOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world, c *call.Config) {
		c.Attend = func(context.Context, pgx.Tx, []call.Attention) error { return nil }
		c.ListDeciders = func(ctx context.Context, _ *approval.Approval) ([]uuid.UUID, error) { // reads from the database, as a role does that is not cached
			_, err := w.db.Pool().Exec(ctx, `SELECT 1`)
			return []uuid.UUID{w.reviewer}, err
		}
	})
	found, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	team, second := "payments", "duty"
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{Team: &team, EscalateTo: &second})
	check(t, err)
	w.submit("files__write", `{"n":0}`) // warms the caches
	w.leaveOne()

	approved, rejected, waiting := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`), w.submit("files__write", `{"n":3}`)
	check(t, w.decide(approved.ID, true))
	check(t, w.decide(rejected.ID, false))
	for id, want := range map[uuid.UUID]call.Status{approved.ID: call.Succeeded, rejected.ID: call.Rejected} {
		if c := w.waitForEnd(id); c.Status != want {
			t.Errorf("the call is %s, want %s", c.Status, want)
		}
	}
	_, err = w.calls.Extend(t.Context(), waiting.ID, w.reviewer)
	check(t, err)
	w.db.MoveClock("61 seconds") // more than half of the two minutes
	_, err = w.db.Pool().Exec(t.Context(), `UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'call_escalation'`)
	check(t, err)
	for deadline := time.Now().Add(patience); ; {
		a, err := w.calls.GetApproval(t.Context(), waiting.ID)
		check(t, err)
		if a.Approval.EscalatedAt != nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the second team was never asked")
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // polling interval
	}
	_, err = w.calls.Cancel(t.Context(), call.Viewer{}, w.reviewer, waiting.ID)
	check(t, err)
	if c := w.waitForEnd(waiting.ID); c.Status != call.Cancelled {
		t.Errorf("the call is %s, want cancelled", c.Status)
	}
}

// PostgreSQL caches the plans of statements on many rows. Without that, each call pays for planning.
func TestPlansAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit("open__echo", `{"n":0}`)
	w.leaveOne()
	const runs = 8 // PostgreSQL plans the first five executions anew
	readConnection := func() (pid int) {
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT pg_backend_pid()`).Scan(&pid))
		return pid
	}
	// The pool may replace its connection, whose plans are then lost.
	for n, used := 0, 0; used == 0 || readConnection() != used; {
		used = readConnection()
		for range runs {
			arguments := fmt.Sprintf(`{"n":%d}`, n)
			n++
			w.waitForEnd(w.submit("open__echo", arguments).ID)
			gated := w.submit("files__write", arguments)
			check(t, w.decide(gated.ID, true))
			w.waitForEnd(gated.ID)
		}
	}
	kept := 0
	rows, err := w.db.Pool().Query(t.Context(), `SELECT statement, generic_plans FROM pg_prepared_statements
		WHERE statement ~ 'FROM\s+(unnest\(|\(SELECT \$)' AND statement ~ 'INSERT|UPDATE' AND custom_plans + generic_plans >= $1`, runs)
	check(t, err)
	var statement string
	var generic int
	_, err = pgx.ForEachRow(rows, []any{&statement, &generic}, func() error {
		if kept++; generic == 0 {
			t.Errorf("planned anew each time: %s", statement)
		}
		return nil
	})
	check(t, err)
	if kept < 5 { // insert a call and its approval, decide, claim it, finish it
		t.Errorf("only %d statements are cached", kept)
	}
}
