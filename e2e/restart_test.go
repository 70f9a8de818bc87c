package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// TestStoppedInFlight: after Ctrl-C the call in flight ends, and its agent gets the outcome from the next process.
func TestStoppedInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	first := w.startServer()
	w.applyManifest(first, oneSkill(counting.URL, ""))
	agent := newStubborn(w.newAgent(first, "worker"), first)
	done := inFlight(t, agent, counting, true)
	first.Signal(t, syscall.SIGINT)
	eventually.Succeeds(t, patience, "the server begins to stop", func() error {
		if first.Ready() == nil {
			return errors.New("it still takes requests")
		}
		return nil
	})
	counting.Release()
	if err := first.AwaitEnd(t); err != nil {
		t.Errorf("after Ctrl-C: %v", err)
	}
	agent.addServer(w.startServer())
	wantEnd(t, agent, <-done, expectation{"succeeded", 1}, counting)
}

// TestFirstStartTogether: processes that start together on an empty database agree on one migration and one key for
// secrets.
func TestFirstStartTogether(t *testing.T) {
	t.Parallel()
	w := &world{t: t, databaseURL: postgrestest.Empty(t).URL(), dataDir: t.TempDir()}
	w.usePooler()
	var together []*holdpoint.Process
	for range 3 {
		together = append(together, program.Start(t, w.serverOptions()))
	}
	for _, p := range together {
		p.AwaitReady(t)
	}
	server := (&skill.Raw{}).Serve(t)
	w.applyManifest(together[0], oneSkill(server.URL, "auto_approve: true\nheaders: {X-Team: a-secret-of-the-team}\n"))
	key := w.newAgent(together[0], "worker")
	for i, p := range together {
		key.URL = p.URL
		if answer, err := key.CallTool(t.Context(), "counting__record", `{"n":1}`); err != nil || answer.Text() != "recorded 1" {
			t.Errorf("process %d answers %s, %v", i, answer.Raw, err)
		}
	}
	if sent := server.Header("1", "X-Team"); sent != "a-secret-of-the-team" {
		t.Errorf("the skill server got X-Team: %q", sent)
	}
}

// TestSecretsStaySecret: a skill server gets only its operator's headers. The log, API and database do not show them.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := (&skill.Raw{}).Serve(t)
	p := w.startServer()
	c := newCLI(p, bootstrapToken)
	c.Env = []string{"TEAM_TOKEN=a-secret-of-the-team"}
	c.Must(t, "apply", "-f", writeFile(t, "holdpoint.yaml",
		oneSkill(server.URL, "auto_approve: true\nheaders: {X-Team: {env: TEAM_TOKEN}}\n")))
	agent := w.newAgent(p, "worker")
	agent.Header = http.Header{"X-Team": {"forged"}, "X-Org-Id": {"forged"}, "Cookie": {"forged=1"}, "X-Forwarded-User": {"forged"}}
	if answer, err := agent.CallTool(t.Context(), "counting__record", `{"n":1}`); err != nil || answer.Text() != "recorded 1" {
		t.Fatalf("the agent was told %s, %v", answer.Raw, err)
	}
	for name, want := range map[string]string{
		"X-Team": "a-secret-of-the-team", "Authorization": "", "X-Org-Id": "", "Cookie": "", "X-Forwarded-User": "",
	} {
		if sent := server.Header("1", name); sent != want {
			t.Errorf("the skill server got %s: %q, want %q", name, sent, want)
		}
	}
	shown := everyThing(t, p)
	for name, secret := range map[string]string{
		"the skill's header": "a-secret-of-the-team", "the agent's key": agent.Key, "the bootstrap token": bootstrapToken,
	} {
		if strings.Contains(p.Output(), secret) {
			t.Errorf("the log shows %s", name)
		}
		if strings.Contains(shown, secret) {
			t.Errorf("the API shows %s", name)
		}
		if table := w.tableWith(secret); table != "" {
			t.Errorf("the table %s has %s in the clear", table, name)
		}
	}
}

// TestConversationsShareAListing: many sessions cause one listing at the skill server.
func TestConversationsShareAListing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lists := skill.NewLedger()
	server := (&skill.Raw{List: listCounted(lists)}).Serve(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(server.URL, ""))
	agent := w.newAgent(p, "worker")
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { newSession(t, agent) })
	}
	all.Wait()
	if n := lists.Count("list"); n != 1 {
		t.Errorf("50 sessions cost %d listings, want 1", n)
	}
}

func listCounted(lists *skill.Ledger) func(http.ResponseWriter, *skill.Request) {
	return func(w http.ResponseWriter, r *skill.Request) {
		lists.Record("list")
		r.Answer(w, `{"tools":[`+skill.RecordTool+`]}`)
	}
}

// tableWith returns a table that contains the text, or "".
func (w *world) tableWith(text string) string {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.directURL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(w.t.Context())
	rows, err := conn.Query(w.t.Context(), `SELECT relname::text FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')`)
	if err != nil {
		w.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.t.Fatal(err)
	}
	for _, table := range tables {
		var found bool
		// The text form of bytea is hexadecimal, so search for that too.
		err := conn.QueryRow(w.t.Context(), `SELECT EXISTS (SELECT FROM `+pgx.Identifier{table}.Sanitize()+` AS r
			WHERE r::text LIKE '%' || $1::text || '%' OR r::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%')`,
			text).Scan(&found)
		if err != nil {
			w.t.Fatalf("look into %s: %v", table, err)
		}
		if found {
			return table
		}
	}
	return ""
}

// TestReadinessNamesWhatIsStuck: the database answers but accepts no writes.
func TestReadinessNamesWhatIsStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.startServer()
	counting := skill.NewCounting(t)
	w.applyManifest(p, oneSkill(counting.URL, "auto_approve: true\n"))
	agent := w.newAgent(p, "worker")
	counting.Hold()
	var calls sync.WaitGroup
	call := func(n int) {
		calls.Go(func() {
			if _, err := agent.CallTool(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n)); err != nil {
				t.Error(err)
			}
		})
	}
	call(1)
	eventually.Succeeds(t, patience, "the call at its server", func() error {
		if counting.Count("1") == 0 {
			return errors.New("not there yet")
		}
		return nil
	})
	conn, err := pgx.Connect(t.Context(), w.directURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), `BEGIN; LOCK TABLE instances, calls IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	counting.Release()
	call(2)
	ready := func(status int, names ...string) {
		t.Helper()
		eventually.Succeeds(t, patience, fmt.Sprintf("readiness %d", status), func() error {
			response, err := http.Get(p.URL + "/readyz")
			if err != nil {
				return err
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err == nil && response.StatusCode != status {
				err = fmt.Errorf("%s: %s", response.Status, text)
			}
			for _, name := range names {
				if !strings.Contains(string(text), name) {
					err = errors.Join(err, fmt.Errorf("%s is not in %q", name, text))
				}
			}
			return err
		})
	}
	ready(http.StatusServiceUnavailable, "recording of calls", "writing of outcomes", "heartbeat")
	if _, err := conn.Exec(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK)
	calls.Wait()
	if counting.Count("1") != 1 || counting.Count("2") != 1 {
		t.Errorf("the calls arrived %d and %d times", counting.Count("1"), counting.Count("2"))
	}
}
