package runtime

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// knownArgs are of a job that both versions know.
type knownArgs struct{}

func (knownArgs) Kind() string { return "known" }

type knownWorker struct {
	river.WorkerDefaults[knownArgs]
	worked chan struct{}
}

func (w *knownWorker) Work(context.Context, *river.Job[knownArgs]) error {
	w.worked <- struct{}{}
	return nil
}

// futureArgs are of a job that only the newer of two versions knows.
type futureArgs struct{}

func (futureArgs) Kind() string { return "future" }

type futureWorker struct {
	river.WorkerDefaults[futureArgs]
	worked chan struct{}
}

func (w *futureWorker) Work(context.Context, *river.Job[futureArgs]) error {
	w.worked <- struct{}{}
	return nil
}

// An older version's leader discards the job of a dead process, because it does not know the kind. The restored job waits for a
// newer process.
func TestJobsOutliveAnOlderVersion(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	future := &futureWorker{worked: make(chan struct{}, 1)}
	newer := river.NewWorkers()
	river.AddWorker(newer, future)
	queue, err := river.NewClient(riverpgxv5.New(db.Pool()), newQueueConfig(slog.New(slog.DiscardHandler), newer))
	if err != nil {
		t.Fatal(err)
	}
	inserted, err := queue.Insert(t.Context(), futureArgs{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		var state string
		if err := db.Pool().QueryRow(t.Context(), `SELECT state FROM river_job WHERE id = $1`, inserted.Job.ID).Scan(&state); err != nil {
			t.Fatal(err)
		}
		return state
	}
	_, err = db.Pool().Exec(t.Context(), `UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() - interval '1 day'`)
	if err != nil {
		t.Fatal(err)
	}
	known := &knownWorker{worked: make(chan struct{}, 1)}
	old := river.NewWorkers()
	river.AddWorker(old, known)
	older, err := river.NewClient(riverpgxv5.New(db.Pool()), newQueueConfig(slog.New(slog.DiscardHandler), old))
	if err != nil {
		t.Fatal(err)
	}
	start(t, older)
	for state() != "discarded" {
		if !pauseFor(t.Context()) {
			t.Fatalf("the job of an unknown kind is %s", state())
		}
	}
	if n, err := restoreDiscardedJobs(t.Context(), db.Pool()); n != 1 || err != nil {
		t.Fatalf("restored %d jobs: %v", n, err)
	}
	if _, err := older.Insert(t.Context(), knownArgs{}, nil); err != nil {
		t.Fatal(err)
	}
	<-known.worked // fetched after the other would be
	if s := state(); s != "available" {
		t.Fatalf("the restored job is %s", s)
	}
	start(t, queue)
	select {
	case <-future.worked:
	case <-t.Context().Done():
		t.Errorf("the restored job is %s", state())
	}
}

func start(t *testing.T, client interface {
	Start(ctx context.Context) error
	Stop(ctx context.Context) error
},
) {
	t.Helper()
	if err := client.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

func pauseFor(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}

// signalHandler signals each record.
type signalHandler struct {
	slog.Handler
	logged chan struct{}
}

func (h signalHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h signalHandler) Handle(context.Context, slog.Record) error {
	h.logged <- struct{}{}
	return nil
}

// A database that does not answer River within 10 s delays the start, and does not end the process.
func TestJobsStartOnASlowDatabase(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	worker := &knownWorker{worked: make(chan struct{}, 1)}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), newQueueConfig(slog.New(slog.DiscardHandler), workers))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The transaction is idle as long as the other side takes.
	if _, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE river_queue IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	log := signalHandler{slog.DiscardHandler, make(chan struct{}, startAttempts)}
	started := make(chan error, 1)
	go func() { started <- startJobs(t.Context(), context.WithoutCancel(t.Context()), client, slog.New(log)) }()
	<-log.logged // the first attempt has timed out
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	defer client.Stop(context.WithoutCancel(t.Context()))
	if _, err := client.Insert(t.Context(), knownArgs{}, nil); err != nil {
		t.Fatal(err)
	}
	<-worker.worked
}
