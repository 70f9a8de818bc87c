package postgrestest_test

import (
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func TestNewLendsMigratedDatabase(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	var people int
	if err := db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM people").Scan(&people); err != nil {
		t.Fatal(err)
	}
	if people != 0 {
		t.Errorf("%d people in a database just lent", people)
	}
}

func TestNewEmptiesWhatAnotherTestLeft(t *testing.T) {
	for round := range 3 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			db := postgrestest.New(t)
			var events int
			var shifted bool
			err := db.Pool().QueryRow(t.Context(),
				`SELECT (SELECT count(*) FROM audit_events), holdpoint_now() > clock_timestamp() + interval '1 minute'`).
				Scan(&events, &shifted)
			if err != nil || events != 0 || shifted {
				t.Errorf("events %d, shifted %v, error %v; want none of them", events, shifted, err)
			}
			for _, statement := range []string{
				`INSERT INTO audit_events (subject_id, actor_kind, action) VALUES (gen_random_uuid(), 'test', 'test')`,
				`UPDATE clock_offset SET value = '1 hour'`,
			} {
				if _, err := db.Pool().Exec(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestNewLendsEachDatabaseOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 5 {
		var name string
		if err := postgrestest.New(t).Pool().QueryRow(t.Context(), "SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		if seen[name] {
			t.Errorf("%s is lent twice", name)
		}
		seen[name] = true
	}
}

func TestEmptyHasNoTables(t *testing.T) {
	t.Parallel()
	db := postgrestest.Empty(t)
	var tables int
	err := db.Pool().QueryRow(t.Context(),
		"SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables)
	if err != nil || tables != 0 {
		t.Errorf("tables %d, error %v; want none", tables, err)
	}
}
