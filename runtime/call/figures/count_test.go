package figures_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// TestJobCounts: a started service counts periodically.
func TestJobCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insertCalls(t, []made{{at: "2026-03-02T09:10:00Z", status: call.Succeeded, skill: skillA, agent: agentA}})
	client := w.db.NewQueue(slog.New(slog.DiscardHandler), uuid.New(), map[string]int{river.QueueDefault: 1}, w.figures)
	done, cancel := client.Subscribe(river.EventKindJobCompleted)
	defer cancel()
	w.figures.Start(client)
	check(t, client.Start(context.WithoutCancel(t.Context())))
	defer func() { check(t, client.Stop(context.WithoutCancel(t.Context()))) }()
	select {
	case event := <-done:
		wantEqual(t, "the job", event.Job.Kind, "call_count")
	case <-time.After(3 * time.Minute):
		t.Fatal("no job has run")
	}
	var calls int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT sum(calls)::bigint FROM call_counts`).Scan(&calls))
	wantEqual(t, "counted calls", calls, 1)
}
