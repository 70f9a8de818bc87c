package postgres_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/migrations"
)

func sqlFiles(content map[string]string) fs.FS {
	files := fstest.MapFS{}
	for name, sql := range content {
		files[name] = &fstest.MapFile{Data: []byte(sql)}
	}
	return files
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	applied, err := postgres.Migrate(t.Context(), db, migrations.FS)
	if err != nil {
		t.Fatal(err)
	}
	sets := map[string]int{}
	for _, a := range applied {
		sets[a.Set]++
	}
	if sets["river"] == 0 || sets["holdpoint"] == 0 {
		t.Errorf("applied %v", applied)
	}
	if applied, err = postgres.Migrate(t.Context(), db, migrations.FS); err != nil || len(applied) != 0 {
		t.Errorf("the second time %v, %v", applied, err)
	}
}

func TestMigrateContinues(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	first := map[string]string{"0001_a.sql": "CREATE TABLE a (id int)"}
	if _, err := postgres.Migrate(t.Context(), db, sqlFiles(first)); err != nil {
		t.Fatal(err)
	}
	second := map[string]string{"0001_a.sql": first["0001_a.sql"], "0002_b_c.sql": "CREATE TABLE b (id int); CREATE TABLE c (id int)"}
	applied, err := postgres.Migrate(t.Context(), db, sqlFiles(second))
	if err != nil || len(applied) != 1 || applied[0] != (postgres.Applied{Set: "holdpoint", Version: 2, Name: "b_c"}) {
		t.Errorf("%v, %v", applied, err)
	}
	if _, err := postgres.Migrate(t.Context(), db, sqlFiles(first)); !errors.Is(err, postgres.ErrSchemaNewer) {
		t.Errorf("an older program: %v", err)
	}
	second["0001_a.sql"] += " -- changed"
	if _, err := postgres.Migrate(t.Context(), db, sqlFiles(second)); err == nil || !strings.Contains(err.Error(), "0001_a.sql was changed") {
		t.Errorf("a changed file: %v", err)
	}
}

// TestMigrateWaitsBriefly: other sessions wait behind a statement that waits for a lock of a table, unless it is CONCURRENTLY.
func TestMigrateWaitsBriefly(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	const note = "INSERT INTO seen VALUES (current_setting('lock_timeout'))"
	_, err := postgres.Migrate(t.Context(), db, sqlFiles(map[string]string{
		"0001_a.sql": "CREATE TABLE seen (lock_timeout text);" + note,
		"0002_b.sql": "-- no transaction\n" + note + ";\nCREATE INDEX CONCURRENTLY one ON seen (lock_timeout);\n" + note + ";\n",
		"0003_c.sql": note,
	}))
	if err != nil {
		t.Fatal(err)
	}
	var all, limited int
	err = db.Pool().QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE lock_timeout <> '0') FROM seen").Scan(&all, &limited)
	if err != nil || all != 4 || limited != 4 {
		t.Errorf("%d of %d statements have a limit, %v", limited, all, err)
	}
}

func TestMigrateKeepsWhatWentWell(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	files := map[string]string{
		"0001_good.sql": "CREATE TABLE good (id int)",
		"0002_bad.sql":  "CREATE TABLE half (id int);\n-- ü\nCREATE TABLE bad (id nonsense)",
		"0003_next.sql": "CREATE TABLE next (id int)",
	}
	applied, err := postgres.Migrate(t.Context(), db, sqlFiles(files))
	if err == nil || !strings.Contains(err.Error(), "0002_bad.sql: line 3: ") {
		t.Errorf("error %v; want it to name file and line", err)
	}
	if len(applied) == 0 || applied[len(applied)-1].Name != "good" {
		t.Errorf("applied %v", applied)
	}
	var good, half bool
	err = db.Pool().QueryRow(t.Context(), "SELECT to_regclass('good') IS NOT NULL, to_regclass('half') IS NOT NULL").Scan(&good, &half)
	if err != nil || !good || half {
		t.Errorf("good %v, half %v, error %v", good, half, err)
	}
	files["0002_bad.sql"] = "CREATE TABLE half (id int)"
	if applied, err = postgres.Migrate(t.Context(), db, sqlFiles(files)); err != nil || len(applied) != 2 {
		t.Errorf("after the repair %v, %v", applied, err)
	}
}

func TestMigrateRefusesUnorderedFiles(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	for _, name := range []string{"0002_first.sql", "1_first.sql", "0001-first.sql", "0000_first.sql"} {
		if _, err := postgres.Migrate(t.Context(), db, sqlFiles(map[string]string{name: ""})); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
}

func TestConcurrentMigrate(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	var all sync.WaitGroup
	var applied atomic.Int32
	for range 8 {
		all.Go(func() {
			done, err := postgres.Migrate(t.Context(), db, migrations.FS)
			if err != nil {
				t.Error(err)
			}
			if len(done) > 0 {
				applied.Add(1)
			}
		})
	}
	all.Wait()
	if got := applied.Load(); got != 1 {
		t.Errorf("%d of them migrated, want 1", got)
	}
}

func TestConcurrentMigrateOfProcesses(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	const processes = 3
	children := make(chan *member, processes)
	var all sync.WaitGroup
	for range processes {
		all.Go(func() { children <- startMember(t, os.Args[0], dir, nil) })
	}
	all.Wait()
	close(children)
	migrated := 0
	for child := range children {
		if child.applied > 0 {
			migrated++
		}
		child.leave(t)
	}
	if migrated != 1 {
		t.Errorf("%d processes migrated, want 1", migrated)
	}
}
