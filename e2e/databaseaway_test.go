package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestDatabaseAway: while the database is away, each surface says so: it can be tried again, and is no internal error.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.databaseURL, w.sessionURL = postgrestest.Empty(t).URL(), "" // no other test gets it, even if this one is killed
	server := w.startServer()
	w.applyManifest(server, "agents:\n  - {name: clerk}\n")
	agent := w.newAgent(server, "clerk")
	open := w.closeDatabase()
	for _, c := range []struct{ method, path, header, value, want string }{
		{"GET", "/api/v1/calls", "Authorization", "Bearer " + bootstrapToken, `"code":"database_unavailable"`},
		{"POST", "/api/v1/approvals/" + uuid.NewString() + "/approve", "Authorization", "Bearer " + bootstrapToken, `"code":"database_unavailable"`},
		{"GET", "/audit", "Cookie", "holdpoint=" + strings.Repeat("x", 43), "session could not be read"},
	} {
		eventually.Succeeds(t, time.Minute, c.method+" "+c.path+" to answer 503", func() error {
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(`{"digest":"`+strings.Repeat("0", 64)+`"}`))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			request.Header.Set(c.header, c.value)
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err == nil && (response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || !strings.Contains(string(body), c.want)) {
				err = fmt.Errorf("%d, Retry-After %q: %s", response.StatusCode, response.Header.Get("Retry-After"), body)
			}
			return err
		})
	}
	// The endpoint answers 503 if it cannot identify the agent; if it remembers the key, a JSON-RPC error.
	answer, err := agent.Await(t.Context(), uuid.NewString())
	isAnswered := err == nil && answer.Error != nil && strings.Contains(string(answer.Error.Data), "database_unavailable")
	if !isAnswered && (err == nil || !strings.Contains(err.Error(), "HTTP 503")) {
		t.Errorf("an agent got %s, %+v, %v", answer.Raw, answer.Error, err)
	}
	open()
	eventually.Succeeds(t, patience, "the API to answer again", func() error {
		return operatorAPI(server).Do(t.Context(), "GET", "calls", nil, nil)
	})
}

// closeDatabase ends all connections to the database, and lets it refuse new ones until open is called.
func (w *world) closeDatabase() (open func()) {
	w.t.Helper()
	own, err := url.Parse(w.directURL())
	if err != nil {
		w.t.Fatal(err)
	}
	name := strings.TrimPrefix(own.Path, "/")
	own.Path = "/postgres"
	exec := func(sql string) {
		w.t.Helper()
		ctx := context.WithoutCancel(w.t.Context())
		conn, err := pgx.Connect(ctx, own.String())
		if err != nil {
			w.t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, sql); err != nil {
			w.t.Fatal(err)
		}
	}
	allow := func() { exec("ALTER DATABASE " + pgx.Identifier{name}.Sanitize() + " ALLOW_CONNECTIONS true") }
	exec("ALTER DATABASE " + pgx.Identifier{name}.Sanitize() + " ALLOW_CONNECTIONS false")
	exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
	return allow
}
