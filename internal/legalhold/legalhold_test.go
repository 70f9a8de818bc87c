package legalhold_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/worldtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// TestLiftWaitsForDeletions: a deletion that began under a hold keeps what the hold covers. Lifted is called when it has ended.
func TestLiftWaitsForDeletions(t *testing.T) {
	t.Parallel()
	db := worldtest.NewDB(t)
	var deleting, tooEarly bool
	holds := &legalhold.Service{Pool: db.Pool(), Lifted: func(context.Context, pgx.Tx) error {
		tooEarly = deleting
		return nil
	}}
	now := time.Now()
	hold, err := holds.Set(t.Context(), audit.System(), legalhold.Hold{From: &now, Reason: "case 1"})
	check(t, err)
	lifted := make(chan error, 1)
	check(t, postgres.InTx(t.Context(), db.Pool(), func(tx pgx.Tx) error {
		if held, err := legalhold.Guard(t.Context(), tx); err != nil || !held {
			t.Errorf("held %t, %v", held, err)
		}
		deleting = true
		go func() {
			_, err := holds.Lift(t.Context(), audit.System(), hold.ID, "over")
			lifted <- err
		}()
		eventually.Holds(t, "the hold to be lifted, or to wait", func() bool {
			var waits bool
			check(t, db.Pool().QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waits))
			return waits || len(lifted) > 0
		})
		deleting = false
		return nil
	}))
	check(t, <-lifted)
	if tooEarly {
		t.Error("the hold was lifted during a deletion")
	}
}
