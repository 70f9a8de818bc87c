package runtime_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime"
)

// A start that is interrupted on its way leaves nothing that goes on to use the database.
func TestInterruptedStartStops(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	keyset, err := secret.NewKeyset()
	if err != nil {
		t.Fatal(err)
	}
	box, err := secret.Open(secret.Config{Keyset: keyset})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := runtime.New(runtime.Config{
		DB: db, Box: box, Logger: slog.New(slog.DiscardHandler), Now: time.Now, PublicURL: "http://localhost", DataDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	for _, statement := range []string{"SET LOCAL idle_in_transaction_session_timeout = 0", "LOCK TABLE instances IN ACCESS EXCLUSIVE MODE"} {
		if _, err := tx.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := make(chan error, 1)
	go func() { started <- rt.Start(ctx) }()
	eventually.Holds(t, "the first heartbeat waits", func() bool {
		var waits bool
		err := tx.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'instances'::regclass AND NOT granted)").Scan(&waits)
		return err == nil && waits
	})
	cancel()
	if err := <-started; err == nil {
		t.Fatal("it has started")
	}
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(stacks.Bytes(), []byte("runEnqueueing")) {
		t.Error("callbacks are still sent")
	}
}
