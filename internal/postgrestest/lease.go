package postgrestest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	maxLeases   = 200
	leaseLimit  = 3 * time.Minute // includes initializing, starting and migrating
	returnLimit = 3 * time.Minute
)

// New lends the test a migrated, empty database until it ends. The database's clock is reset.
func New(tb testing.TB) *postgres.DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), leaseLimit)
	defer cancel()
	tmpl, err := findTemplate(ctx)
	if err != nil {
		tb.Fatalf("lend a database: %v", err)
	}
	holder, name, err := tmpl.leaseDatabase(ctx)
	if err != nil {
		tb.Fatalf("lend a database: %v", err)
	}
	db, err := openEmptied(ctx, tmpl.server.databaseURL(name))
	if err != nil {
		hangUp(tb, holder)
		tb.Fatalf("lend a database: %v", err)
	}
	tb.Cleanup(func() {
		closeDB(tb, db)
		hangUp(tb, holder) // releases the lease
	})
	return db
}

// Empty makes a database without any table, and drops it when the test ends.
func Empty(tb testing.TB) *postgres.DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), leaseLimit)
	defer cancel()
	server, err := findServer(ctx)
	if err != nil {
		tb.Fatalf("make a database: %v", err)
	}
	conn, number, err := server.takeNumber(ctx, emptyKey)
	if err != nil {
		tb.Fatalf("make a database: %v", err)
	}
	name := fmt.Sprintf("hpt_empty_%d", number)
	if err := execAll(ctx, conn, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)",
		"CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		hangUp(tb, conn)
		tb.Fatalf("make a database: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), returnLimit)
		defer cancel()
		if _, err := conn.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop a database: %v", err)
		}
		hangUp(tb, conn)
	})
	db, err := postgres.Open(ctx, postgres.Config{DatabaseURL: server.databaseURL(name)})
	if err != nil {
		tb.Fatalf("make a database: %v", err)
	}
	tb.Cleanup(func() { closeDB(tb, db) })
	return db
}

func closeDB(tb testing.TB, db *postgres.DB) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), returnLimit)
	defer cancel()
	if err := db.Close(ctx); err != nil {
		tb.Errorf("return a database: %v (is a connection still in use?)", err)
	}
}

func hangUp(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), returnLimit)
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		tb.Errorf("return a database: %v", err)
	}
}

// openEmptied opens a database and deletes all rows of its last user. It ends other connections, for example of a program
// that outlived its test.
func openEmptied(ctx context.Context, databaseURL string) (*postgres.DB, error) {
	db, err := postgres.Open(ctx, postgres.Config{DatabaseURL: databaseURL, Tracer: tracer{}})
	if err != nil {
		return nil, fmt.Errorf("open it: %w", err)
	}
	_, err = db.Pool().Exec(ctx, `
		DO $$
		DECLARE
			name   regclass;
			filled boolean;
			names  text[] := '{}';
		BEGIN
			PERFORM pg_terminate_backend(pid, 5000) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend';
			FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
				AND relname NOT IN ('schema_migrations', 'river_migration', 'clock_offset')
			LOOP
				EXECUTE format('SELECT EXISTS (SELECT FROM %s)', name) INTO filled;
				IF filled THEN
					names := names || name::text;
				END IF;
			END LOOP;
			IF names <> '{}' THEN
				EXECUTE 'TRUNCATE ' || array_to_string(names, ', ') || ' RESTART IDENTITY CASCADE';
			END IF;
			IF to_regclass('clock_offset') IS NOT NULL THEN
				UPDATE clock_offset SET value = '0' WHERE value <> '0';
			END IF;
		END $$`)
	if err != nil {
		return nil, fmt.Errorf("empty it: %w", joinClose(ctx, err, db))
	}
	return db, nil
}
