package figures_test

import (
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/migrations"
)

// The migration adds calls that an earlier version counted to the counts by tool. It skips calls that have not ended or were not
// counted.
func TestMigrationCountsByTool(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	earlier := fstest.MapFS{}
	names, err := fs.Glob(migrations.FS, "*.sql")
	check(t, err)
	for _, name := range names {
		text, err := fs.ReadFile(migrations.FS, name)
		check(t, err)
		if name < "0014" {
			earlier[name] = &fstest.MapFile{Data: text}
		}
	}
	_, err = postgres.Migrate(t.Context(), db, earlier)
	check(t, err)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	agents, skill := []uuid.UUID{uuid.New(), uuid.New()}, uuid.New()
	insert := func(agent uuid.UUID, at time.Time, tool, status, code string) uuid.UUID {
		id := uuid.New()
		_, err := db.Pool().Exec(t.Context(), `INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, gated, status, tool, exposed_name, pin,
			arguments, code) VALUES ($1, $2, $3, 1, $4, false, $5, $6, 'x', sha256(''), '{}', nullif($7, ''))`, id, agent, skill, at, status, tool, code)
		check(t, err)
		return id
	}
	insert(agents[0], day.Add(10*time.Minute), "read", "succeeded", "")
	insert(agents[0], day.Add(50*time.Minute), "read", "succeeded", "")
	insert(agents[1], day.Add(50*time.Minute), "read", "failed", "transport")
	insert(agents[0], day.Add(23*time.Hour), "read", "succeeded", "")
	insert(agents[0], day.Add(23*time.Hour), "write", "rejected", "rejected")
	open := insert(agents[0], day.Add(time.Hour), "read", "parked", "")
	insert(agents[0], day.Add(25*time.Hour), "read", "succeeded", "") // not counted yet
	_, err = db.Pool().Exec(t.Context(), `INSERT INTO call_counting (counted_until) VALUES ($1)`, day.Add(24*time.Hour))
	check(t, err)
	_, err = db.Pool().Exec(t.Context(), `INSERT INTO call_stragglers VALUES ($1)`, open)
	check(t, err)

	_, err = postgres.Migrate(t.Context(), db, migrations.FS)
	check(t, err)
	name := map[uuid.UUID]string{agents[0]: "a", agents[1]: "b", uuid.Nil: "all"}
	rows, err := db.Pool().Query(t.Context(), `SELECT level, since, tool, agent_id, status, calls, '' FROM call_tool_counts
		UNION ALL SELECT level, since, tool, agent_id, status, calls, code || http_status || error_line FROM call_tool_errors`)
	check(t, err)
	got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		var level, calls int
		var since time.Time
		var tool, status, wrong string
		var agent uuid.UUID
		err := row.Scan(&level, &since, &tool, &agent, &status, &calls, &wrong)
		return fmt.Sprintf("%d +%s %s %s %s %d %s", level, since.Sub(day), tool, name[agent], status, calls, wrong), err
	})
	check(t, err)
	want := []string{
		"0 +0s read a succeeded 2 ", "0 +23h0m0s read a succeeded 1 ", "0 +23h0m0s write a rejected 1 ", "0 +0s read b failed 1 ",
		"1 +0s read a succeeded 3 ", "1 +0s write a rejected 1 ", "1 +0s read b failed 1 ",
		"2 +0s read all succeeded 3 ", "2 +0s write all rejected 1 ", "2 +0s read all failed 1 ",
		"0 +0s read b failed 1 transport0", "1 +0s read b failed 1 transport0", "2 +0s read all failed 1 transport0",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("counted\n%q\nwant\n%q", got, want)
	}
}
