package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestOldConnections: once a promoted server was found, no pool goes on using connections from before.
func TestOldConnections(t *testing.T) {
	t.Parallel()
	db := openDB(t, postgres.Config{DatabaseURL: postgrestest.New(t).URL()})
	further, err := pgxpool.NewWithConfig(t.Context(), db.SessionConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer further.Close()
	pools := []*pgxpool.Pool{db.Pool(), further}
	for _, pool := range pools {
		if err := pool.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	db.NotePromotion()
	for _, pool := range pools {
		if err := pool.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "stop the old primary") {
			t.Errorf("a connection to the old primary is used: %v", err)
		}
	}
}
