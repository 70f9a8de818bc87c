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

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestDatabaseAway: while the database is unavailable, each surface says so: it can be tried again, and is no internal error.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newOwnWorld(t)
	server := w.startServer()
	w.applyManifest(server, "agents:\n  - {name: clerk}\n")
	agent := w.newAgent(server, "clerk")
	open := w.closeDatabase()
	for _, c := range []struct{ method, path, header, value, want string }{
		{"GET", "/api/v1/calls", "Authorization", "Bearer " + bootstrapToken, `"code":"database_unavailable"`},
		{"POST", "/api/v1/approvals/" + uuid.NewString() + "/approve", "Authorization", "Bearer " + bootstrapToken, `"code":"database_unavailable"`},
		{"GET", "/audit", "Cookie", "holdpoint=" + strings.Repeat("x", 43), "<h1>Datenbank nicht erreichbar</h1>"},
	} {
		eventually.Succeeds(t, time.Minute, c.method+" "+c.path+" to answer 503", func() error {
			request, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(`{"digest":"`+strings.Repeat("0", 64)+`"}`))
			if err != nil {
				return err
			}
			request.Header.Set("Content-Type", "application/json")
			request.Header.Set("Accept", "application/json, text/event-stream")
			request.Header.Set("Accept-Language", "de")
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

// TestDatabaseAwayOnTheDesk: while the database is unavailable, the desk keeps the call, the list and the typed reason, and says that an
// action may not have arrived. It recovers by itself.
func TestDatabaseAwayOnTheDesk(t *testing.T) {
	t.Parallel()
	w := newJourneyIn(newOwnWorld(t), "approval_timeout: 1h\n")
	first, second := w.parkCall("record", 1, "the first"), w.parkCall("record", 2, "the second")
	ada := w.openReviewer(t, "ada", browsertest.Options{})
	ada.expectStatus(http.StatusServiceUnavailable)
	ada.openCall(first)
	ada.fillField("#reason", "as agreed")
	open := w.closeDatabase()
	ada.Click("approve")
	ada.WaitFor("the warning", `!document.querySelector("#unsent").hidden`)
	if got := ada.Text("unsent"); !strings.Contains(got, "may not have arrived") {
		t.Errorf("the page says %q", got)
	}
	isKept := fmt.Sprintf(`document.querySelector("#call").dataset.call === %q && document.querySelectorAll("#rows > .row").length === 2`, first.CallID)
	if !browsertest.Eval[bool](ada.Page, isKept) || ada.fieldValue("#reason") != "as agreed" {
		t.Errorf("the desk did not stay as it was: %s", ada.Text("queue"))
	}
	ada.ClickOn("#row-" + second.CallID + " a")
	ada.WaitFor("the warning about updates", `!document.querySelector("#stale").hidden`)
	if !browsertest.Eval[bool](ada.Page, isKept) {
		t.Errorf("the desk did not stay as it was: %s", ada.Text("queue"))
	}
	open()
	ada.awaitCall(second)
	ada.WaitFor("updates", `document.querySelector("#stale").hidden`)
	ada.openCall(first)
	if got := ada.fieldValue("#reason"); got != "as agreed" {
		t.Errorf("the reason is %q", got)
	}
	ada.Click("approve")
	ada.WaitFor("the approval", `document.querySelector("#call").dataset.phase !== "parked" && document.querySelector("#unsent").hidden`)
	w.checkDecided(first.ID, "approved")
}

// newOwnWorld returns a world whose database no other test gets, even if this one is killed.
func newOwnWorld(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	w.databaseURL, w.sessionURL = postgrestest.Empty(t).URL(), ""
	return w
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
