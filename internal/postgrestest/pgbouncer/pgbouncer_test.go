package pgbouncer_test

import (
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/pgbouncer"
)

// A PgBouncer that crashes is back soon, at the same address.
func TestCrashedPoolerIsStartedAgain(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	b := pgbouncer.Start(t, db.URL(), nil)
	ask := func() error {
		conn, err := pgx.Connect(t.Context(), b.URL(db.URL()))
		if err != nil {
			return err
		}
		defer conn.Close(t.Context())
		return conn.Ping(t.Context())
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	before := b.PID()
	if err := syscall.Kill(before, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually.Holds(t, "another program after "+strconv.Itoa(before), func() bool { return b.PID() != before })
	eventually.Holds(t, "an answer", func() bool { return ask() == nil })
}
