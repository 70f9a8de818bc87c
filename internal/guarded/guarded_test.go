package guarded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/worldtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// world is a database with one agent, and the alerts that were raised.
type world struct {
	*guarded.Service

	t     testing.TB
	db    *worldtest.DB
	agent uuid.UUID

	mu     sync.Mutex
	alerts []guarded.Alert
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), agent: uuid.New()}
	w.db.Exec(`INSERT INTO agents (id, name, wait_budget_ms) VALUES ($1, 'laptop', 0)`, w.agent)
	var err error
	w.Service, err = guarded.New(guarded.Config{
		Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now, Grace: time.Nanosecond, Interval: 10 * time.Millisecond,
		Alert: func(_ context.Context, _ pgx.Tx, a guarded.Alert) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.alerts = append(w.alerts, a)
			return nil
		},
	})
	worldtest.Check(t, err)
	return w
}

// watch looks for silent guards until the test ends.
func (w *world) watch() {
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() { w.Watch(ctx) })
	w.t.Cleanup(func() {
		stop()
		watching.Wait()
	})
}

// told returns the alerts, such as "broken" and "holds, ended", with those that last.
func (w *world) told() (said []string, lasting int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var ids []uuid.UUID
	for _, a := range w.alerts {
		word := string(a.Guard.State)
		if a.Bypassed {
			word = "bypassed by " + a.Guard.BypassTool
		}
		if a.Ended {
			word += ", ended"
		}
		said, ids = append(said, word), append(ids, a.ID)
	}
	alerting, err := w.ListAlerting(w.t.Context(), ids)
	worldtest.Check(w.t, err)
	return said, len(alerting)
}

func (w *world) wantTold(lasting int, want ...string) {
	w.t.Helper()
	if got, last := w.told(); !slices.Equal(got, want) || last != lasting {
		w.t.Errorf("alerts %q, %d last; want %q, %d", got, last, want, lasting)
	}
}

func (w *world) only() guarded.Guard {
	w.t.Helper()
	list, err := w.List(w.t.Context(), w.agent)
	worldtest.Check(w.t, err)
	if len(list) != 1 {
		w.t.Fatalf("%d guards", len(list))
	}
	return list[0]
}

// newReport is what the watcher of a guard says that holds.
func newReport() guarded.Report {
	return guarded.Report{WatchKey: strings.Repeat("k", 32), Host: "claude-code", Machine: "m1", Scope: "machine", Version: "1", Files: []string{"/f"}, Every: 15 * time.Second}
}

// A guard that changes again and again, as an agent with its keys could report, does not fill the audit log and the chats.
func TestReportsOfChangesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	for i := range 40 {
		r := newReport()
		if i%2 == 1 {
			r.Problems = []string{"the hook is gone"}
		}
		err := w.Report(t.Context(), w.agent, id, r)
		if _, isRefused := errors.AsType[*fault.InvalidError](err); isRefused != (i >= 30 && i%2 == 0) || err != nil && !isRefused {
			t.Fatalf("report %d: %v", i, err)
		}
	}
	if said, lasting := w.told(); len(said) != 29 || lasting != 1 {
		t.Errorf("%d alerts, %d last", len(said), lasting)
	}
}

// A guard is registered, watched, broken, mended and removed. People are alerted once for each, until it ends.
func TestReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	send := func(change func(*guarded.Report)) {
		t.Helper()
		r := newReport()
		change(&r)
		worldtest.Check(t, w.Report(t.Context(), w.agent, id, r))
	}
	holds := func(*guarded.Report) {}
	breaks := func(r *guarded.Report) { r.Problems = []string{"the hook is gone"} }
	send(func(r *guarded.Report) { r.Every = 0 })
	if g := w.only(); g.State != guarded.Unwatched || g.WatchedAt != nil || !slices.Equal(g.Files, []string{"/f"}) {
		t.Errorf("installed: %+v", g)
	}
	send(holds)
	send(holds)
	if g := w.only(); g.State != guarded.Holds || g.WatchedAt == nil || !g.SeenAt().Equal(*g.WatchedAt) {
		t.Errorf("watched: %+v", g)
	}
	w.wantTold(0)
	send(breaks)
	send(breaks)
	if g := w.only(); g.State != guarded.Broken || !slices.Equal(g.Problems, []string{"the hook is gone"}) {
		t.Errorf("broken: %+v", g)
	}
	w.wantTold(1, "broken")
	send(holds)
	w.wantTold(0, "broken", "holds, ended")
	send(breaks)
	send(func(r *guarded.Report) { r.Removed = true })
	w.wantTold(1, "broken", "holds, ended", "broken", "removed, ended", "removed")
	worldtest.Check(t, w.Forget(t.Context(), audit.System(), id))
	w.wantTold(0, "broken", "holds, ended", "broken", "removed, ended", "removed", "removed, ended")
	send(func(r *guarded.Report) { r.Removed = true }) // its watcher did not know yet
	if list, err := w.List(t.Context(), uuid.Nil); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := w.Forget(t.Context(), audit.System(), id); !errors.Is(err, guarded.ErrNotFound) {
		t.Error(err)
	}
	if got, want := w.db.Actions(id), "guard.registered guard.holds guard.broken guard.holds guard.broken guard.removed guard.forgotten"; got != want {
		t.Errorf("audited %s, want %s", got, want)
	}
}

// If the reports of a guard end, people are alerted. It is the database's clock that counts. A broken guard stays broken.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, broken := uuid.New(), uuid.New()
	r := newReport()
	worldtest.Check(t, w.Report(t.Context(), w.agent, id, r))
	r.Problems = []string{"altered"}
	worldtest.Check(t, w.Report(t.Context(), w.agent, broken, r))
	w.db.MoveClock("44 seconds")
	worldtest.Check(t, w.Report(t.Context(), w.agent, id, newReport())) // in time
	w.db.MoveClock("60 seconds")
	w.watch()
	eventually.Holds(t, "an alert", func() bool {
		said, lasting := w.told()
		return slices.Equal(said, []string{"broken", "silent"}) && lasting == 2
	})
	worldtest.Check(t, w.Report(t.Context(), w.agent, id, newReport()))
	w.wantTold(1, "broken", "silent", "holds, ended")
	if got, want := w.db.Actions(id), "guard.registered guard.holds guard.silent guard.holds"; got != want {
		t.Errorf("audited %s, want %s", got, want)
	}
}

// A process that could not reach the database for a while calls no guard silent at once.
func TestNoSilenceAfterAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Grace = time.Hour
	worldtest.Check(t, w.Report(t.Context(), w.agent, uuid.New(), newReport()))
	w.db.MoveClock("10 minutes")
	w.watch()
	other := newWorld(t) // as many searches as it takes to find one elsewhere
	worldtest.Check(t, other.Report(t.Context(), other.agent, uuid.New(), newReport()))
	other.db.MoveClock("10 minutes")
	other.watch()
	eventually.Holds(t, "an alert", func() bool { said, _ := other.told(); return len(said) == 1 })
	w.wantTold(0)
}

// Calls that ran without a release are counted. Each minute has one event, and people are alerted once in a while.
func TestBypass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	if err := w.NoteBypass(t.Context(), w.agent, id, "Bash"); !errors.Is(err, guarded.ErrNotFound) {
		t.Error(err)
	}
	worldtest.Check(t, w.Report(t.Context(), w.agent, id, newReport()))
	worldtest.Check(t, w.NoteBypass(t.Context(), w.agent, id, "Bash"))
	const more = 40
	for range more {
		worldtest.Check(t, w.NoteBypass(t.Context(), w.agent, id, "Edit"))
	}
	w.wantTold(1, "bypassed by Bash")
	minutes := w.db.Count(`audit_events WHERE action = 'guard.bypassed'`)
	if minutes == 0 || minutes > more/2 {
		t.Errorf("%d events about %d calls: want one a minute", minutes, more+1)
	}
	w.db.MoveClock("11 minutes")
	worldtest.Check(t, w.NoteBypass(t.Context(), w.agent, id, "Write"))
	w.wantTold(1, "bypassed by Bash", "bypassed by Write")
	if g := w.only(); g.Bypasses != more+2 || g.BypassTool != "Write" || g.BypassedAt == nil {
		t.Errorf("%+v", g)
	}
	if n := w.db.Count(`audit_events WHERE action = 'guard.bypassed'`); n != minutes+1 {
		t.Errorf("%d events after another minute, and %d before", n, minutes)
	}
	if n := w.db.Count(`audit_events WHERE data->>'tool' = 'Write' AND data->>'bypasses' = '42'`); n != 1 {
		t.Errorf("%d events with the number of all calls", n)
	}
	w.db.MoveClock("25 hours")
	w.wantTold(0, "bypassed by Bash", "bypassed by Write")
}

// A question of a hook is noted, but not each one.
func TestAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	worldtest.Check(t, w.Report(t.Context(), w.agent, id, newReport()))
	w.db.MoveClock("10 minutes")
	w.NoteAsked(t.Context(), uuid.New(), uuid.New()) // of no guard
	w.NoteAsked(t.Context(), w.agent, id)
	first := w.only()
	if first.AskedAt == nil || !first.SeenAt().Equal(*first.AskedAt) {
		t.Errorf("%+v", first)
	}
	w.db.MoveClock("10 seconds")
	w.NoteAsked(t.Context(), w.agent, id)
	if again := w.only(); !again.AskedAt.Equal(*first.AskedAt) {
		t.Errorf("noted at %s and %s", first.AskedAt, again.AskedAt)
	}
}

// Nobody reports about a guard without its watch key, and no other agent does.
func TestForgedReports(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, other := uuid.New(), uuid.New()
	w.db.Exec(`INSERT INTO agents (id, name, wait_budget_ms) VALUES ($1, 'other', 0)`, other)
	r := newReport()
	r.Problems = []string{"gone"}
	worldtest.Check(t, w.Report(t.Context(), w.agent, id, r))
	forged := newReport()
	if err := w.Report(t.Context(), other, id, forged); !errors.Is(err, guarded.ErrNotFound) {
		t.Error(err)
	}
	forged.WatchKey = strings.Repeat("x", 32)
	if err := w.Report(t.Context(), w.agent, id, forged); !errors.Is(err, guarded.ErrWatchKey) {
		t.Error(err)
	}
	if g := w.only(); g.State != guarded.Broken {
		t.Errorf("%+v", g)
	}
}

func TestReportsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for field, change := range map[string]func(*guarded.Report){
		"watch_key":   func(r *guarded.Report) { r.WatchKey = "short" },
		"host":        func(r *guarded.Report) { r.Host = "" },
		"machine":     func(r *guarded.Report) { r.Machine = "a\nb" },
		"version":     func(r *guarded.Report) { r.Version = strings.Repeat("1", 300) },
		"scope":       func(r *guarded.Report) { r.Scope = "all" },
		"every":       func(r *guarded.Report) { r.Every = 2 * time.Hour },
		"files":       func(r *guarded.Report) { r.Files = make([]string, 11) },
		"problems[0]": func(r *guarded.Report) { r.Problems = []string{"a\x00"} },
	} {
		r := newReport()
		change(&r)
		invalid, ok := errors.AsType[*fault.InvalidError](w.Report(t.Context(), w.agent, uuid.New(), r))
		if !ok || invalid.Fields[0].Name != field {
			t.Errorf("%s: %v", field, invalid)
		}
	}
	w.db.Exec(`INSERT INTO guarded_hosts (id, agent_id, watch_key_hash, host, machine, scope, version, files, state)
		SELECT gen_random_uuid(), $1, '', 'h', 'm', 'user', '1', '{}', 'holds' FROM generate_series(1, 200)`, w.agent)
	invalid, ok := errors.AsType[*fault.InvalidError](w.Report(t.Context(), w.agent, uuid.New(), newReport()))
	if !ok || invalid.Fields[0].Name != "id" {
		t.Errorf("the 201st guard: %v", invalid)
	}
	if counts, err := w.Count(t.Context()); err != nil || fmt.Sprint(counts) != "map[holds:200]" {
		t.Errorf("%v, %v", counts, err)
	}
}
