package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
)

func TestIsUnavailable(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	proxy := faultproxy.Start(t, db.URL())
	one := openDB(t, postgres.Config{DatabaseURL: proxy.URL(), MaxConns: 1})
	away := map[string]error{}
	for _, code := range []string{"53300", "57P01", "57P02", "57P03", "25006", "08006"} {
		away[code] = fmt.Errorf("do it: %w", &pgconn.PgError{Code: code})
	}
	_, away["no such database"] = pgx.Connect(t.Context(), strings.Replace(db.URL(), "/hpt_", "/no_hpt_", 1))
	_, away["connection refused"] = pgx.Connect(t.Context(), "postgres://x@127.0.0.1:1/x")
	_, away["terminated"] = one.Pool().Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())")
	held := acquire(t, one)
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, away["no free connection"] = one.Pool().Acquire(short)
	proxy.CutAll()
	_, away["cut"] = held.Exec(t.Context(), "SELECT 1")
	_, away["closed"] = held.Exec(t.Context(), "SELECT 1")
	held.Release()
	held = acquire(t, one)
	rows, err := held.Query(t.Context(), "SELECT repeat('x', 1000) FROM generate_series(1, 100000)")
	if err != nil || !rows.Next() {
		t.Fatalf("no rows: %v", err)
	}
	proxy.CutAll()
	for rows.Next() { // until the end of what has arrived
		continue
	}
	away["cut while rows are read"] = rows.Err()
	held.Release()
	for name, err := range away {
		if !postgres.IsUnavailable(err) {
			t.Errorf("%s: %v is another error", name, err)
		}
	}
	_, wrong := db.Pool().Exec(t.Context(), "SELECT nothing")
	none := db.Pool().QueryRow(t.Context(), "SELECT 1 WHERE false").Scan(new(int))
	asked := &url.Error{Op: "Get", URL: "https://skill.test", Err: context.DeadlineExceeded}
	for _, err := range []error{nil, wrong, none, asked, io.EOF, context.Canceled, errors.New("another")} {
		if postgres.IsUnavailable(err) {
			t.Errorf("%v says that the database is unavailable", err)
		}
	}
}
