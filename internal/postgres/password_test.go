package postgres_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// connect connects without the password.
func connect(t *testing.T, db *postgres.DB) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), "host="+db.SocketDirs()[0]+" port=5432 user=holdpoint dbname=holdpoint password=guessed")
	if err == nil {
		err = conn.Close(t.Context())
	}
	return err
}

// TestClusterWantsPassword: opening a cluster adds a password even if its socket was open to everyone.
func TestClusterWantsPassword(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	refused := func(db *postgres.DB) {
		t.Helper()
		if err := connect(t, db); err == nil || !strings.Contains(err.Error(), "password authentication failed") {
			t.Errorf("without the password: %v", err)
		}
	}
	db := openDB(t, postgres.Config{DataDir: dir})
	refused(db)
	file := filepath.Join(dir, "postgres", "password")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the password's file: %v, %v", info, err)
	}
	hba := filepath.Join(dir, "postgres", "data", "pg_hba.conf")
	trust := func() {
		t.Helper()
		if err := os.WriteFile(hba, []byte("local all all trust\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A running cluster, started by an older version that was killed.
	trust()
	if _, err := db.Pool().Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	other := openDB(t, postgres.Config{DataDir: dir})
	refused(other)
	closeDB(t, other)
	// The process that wrote the file was killed before its reload.
	demanding, err := os.ReadFile(hba)
	if err != nil {
		t.Fatal(err)
	}
	trust()
	if _, err := db.Pool().Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	for connect(t, db) != nil { // until the file is loaded
		runtime.Gosched()
	}
	if err := os.WriteFile(hba, demanding, 0o600); err != nil {
		t.Fatal(err)
	}
	other = openDB(t, postgres.Config{DataDir: dir})
	refused(other)
	closeDB(t, other)
	closeDB(t, db)
	// A stopped cluster
	trust()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	refused(openDB(t, postgres.Config{DataDir: dir}))
}
