package limit_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// world is a database with processes.
type world struct {
	t  *testing.T
	db *worldtest.DB
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, db: worldtest.NewDB(t)}
}

// newProcess returns a living process.
func (w *world) newProcess() (*limit.Service, uuid.UUID) {
	w.t.Helper()
	id := uuid.New()
	w.db.Exec(`INSERT INTO instances (id) VALUES ($1)`, id)
	s, err := limit.New(limit.Config{Pool: w.db.Pool(), Instance: id, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s, id
}

// admitOrRefuse returns the limit that a request exceeds; nil: it is admitted.
func (w *world) admitOrRefuse(s *limit.Service, agent uuid.UUID, l limit.Limits) (done func(), refused *limit.Exceeded) {
	w.t.Helper()
	done, err := s.Admit(w.t.Context(), agent, l)
	if err != nil && !errors.As(err, &refused) {
		w.t.Error(err)
	}
	return done, refused
}

// admitAtOnce sends n concurrent requests to the processes, and returns those that were admitted.
func (w *world) admitAtOnce(n int, agent uuid.UUID, l limit.Limits, processes ...*limit.Service) (let []func()) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if done, refused := w.admitOrRefuse(processes[i%len(processes)], agent, l); refused == nil {
				mu.Lock()
				defer mu.Unlock()
				let = append(let, done)
			}
		})
	}
	all.Wait()
	return let
}

func TestRateIsSharedByProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.newProcess()
	b, _ := w.newProcess()
	agent, limits := uuid.New(), limit.Limits{PerMinute: 2} // one per half minute, two at once
	if let := w.admitAtOnce(30, agent, limits, a, b); len(let) != 2 {
		t.Fatalf("%d were let in at once, not 2", len(let))
	}
	if _, refused := w.admitOrRefuse(a, uuid.New(), limits); refused != nil {
		t.Errorf("another agent: %v", refused)
	}
	for range 3 {
		_, refused := w.admitOrRefuse(b, agent, limits)
		if refused == nil || refused.Kind != limit.Rate || refused.Limit != 2 || refused.RetryAfter <= 0 || refused.RetryAfter > 30*time.Second {
			t.Fatalf("%+v", refused)
		}
		w.db.Exec(`UPDATE clock_offset SET value = value + $1 * interval '1 microsecond'`, refused.RetryAfter.Microseconds()+1)
		if let := w.admitAtOnce(6, agent, limits, a, b); len(let) != 1 {
			t.Fatalf("%d were let in after the time that was told, not 1", len(let))
		}
	}
	w.db.Exec(`UPDATE clock_offset SET value = value + interval '1 hour'`)
	if let := w.admitAtOnce(6, agent, limits, a, b); len(let) != 2 {
		t.Errorf("after an hour of rest %d were let in at once, not 2", len(let))
	}
}

func TestBurst(t *testing.T) {
	t.Parallel()
	for perMinute, want := range map[int]int{1: 1, 3: 3, 5: 5, 12: 5, 20: 5, 60: 15, 1000: 250} {
		if got := (limit.Limits{PerMinute: perMinute}).Burst(); got != want {
			t.Errorf("of %d a minute %d may come at once, not %d", perMinute, got, want)
		}
	}
}

func TestConcurrencyIsSharedByProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, dying := w.newProcess()
	b, _ := w.newProcess()
	agent, limits := uuid.New(), limit.Limits{Concurrency: 3}
	_, refused := w.admitOrRefuse(a, agent, limits) // of the crowd below either process may get all
	if refused != nil {
		t.Fatal(refused)
	}
	let := w.admitAtOnce(30, agent, limits, a, b)
	if len(let) != 2 {
		t.Fatalf("%d were let in beside the first, not 2", len(let))
	}
	if _, refused := w.admitOrRefuse(b, agent, limits); refused == nil || refused.Kind != limit.Concurrency || refused.RetryAfter != time.Second {
		t.Errorf("%+v", refused)
	}
	let[0]()
	let[0]() // ending it twice counts once
	if again := w.admitAtOnce(10, agent, limits, a, b); len(again) != 1 {
		t.Errorf("%d were let in after one had ended", len(again))
	}
	var held int
	if err := w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM agent_slots WHERE instance = $1`, dying).Scan(&held); err != nil || held == 0 {
		t.Fatalf("%d slots of the process, %v", held, err)
	}
	w.db.Exec(`DELETE FROM instances WHERE id = $1`, dying) // as another process does when it goes silent
	if freed := w.admitAtOnce(10, agent, limits, b); len(freed) != held {
		t.Errorf("%d were let in after a process had died that held %d", len(freed), held)
	}
	if _, err := a.Admit(t.Context(), uuid.New(), limits); err == nil {
		t.Error("a process that counts as dead still holds a slot")
	}
}

func TestRefusedRequestsCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.newProcess()
	agent, limits := uuid.New(), limit.Limits{PerMinute: 2, Concurrency: 1}
	done, refused := w.admitOrRefuse(s, agent, limits)
	if refused != nil {
		t.Fatal(refused)
	}
	for range 5 {
		if _, refused := w.admitOrRefuse(s, agent, limits); refused == nil || refused.Kind != limit.Concurrency {
			t.Fatalf("%+v", refused)
		}
	}
	done()
	if _, refused := w.admitOrRefuse(s, agent, limits); refused != nil {
		t.Errorf("a refused request counted against the rate: %v", refused)
	}
}

func TestSlotIsGivenBackLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s, _ := w.newProcess()
	agent, limits := uuid.New(), limit.Limits{Concurrency: 1}
	done, refused := w.admitOrRefuse(s, agent, limits)
	if refused != nil {
		t.Fatal(refused)
	}
	w.db.Exec(`ALTER TABLE agent_slots RENAME TO agent_slots_away`)
	done()
	w.db.Exec(`ALTER TABLE agent_slots_away RENAME TO agent_slots`)
	for { // until the test's deadline
		if _, refused := w.admitOrRefuse(s, agent, limits); refused == nil {
			return
		}
	}
}

func TestWithoutLimits(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t).Pool()
	s, err := limit.New(limit.Config{Pool: pool, Instance: uuid.New(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	pool.Close() // it is not asked
	done, err := s.Admit(t.Context(), uuid.New(), limit.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	done()
	if _, err := s.Admit(t.Context(), uuid.New(), limit.Limits{PerMinute: 1}); err == nil {
		t.Error("a request was admitted without a database")
	}
}

// deaf is a database connection that breaks after sending a commit, whose result is then unknown.
type deaf struct {
	net.Conn
	breaks    *atomic.Bool
	committed bool
}

func (c *deaf) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.committed = c.committed || bytes.Contains(b, []byte("commit")) && c.breaks.Load()
	return n, err
}

func (c *deaf) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.committed && err == nil {
		return 0, errors.Join(net.ErrClosed, c.Close()) // the server has answered, so it is done
	}
	return n, err
}

// A slot is released if the answer to its commit was lost.
func TestSlotThatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var breaks atomic.Bool
	cfg := w.db.Pool().Config()
	dial := cfg.ConnConfig.DialFunc
	cfg.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &deaf{Conn: conn, breaks: &breaks}, err
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	_, instance := w.newProcess()
	s, err := limit.New(limit.Config{Pool: pool, Instance: instance, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	agent, limits := uuid.New(), limit.Limits{Concurrency: 1}
	breaks.Store(true)
	if _, err := s.Admit(t.Context(), agent, limits); err == nil {
		t.Fatal("admitted without a known count")
	}
	breaks.Store(false)
	for held := 1; held > 0; { // until the test's time is over
		held = w.db.Count("agent_slots")
	}
	if _, refused := w.admitOrRefuse(s, agent, limits); refused != nil {
		t.Errorf("%v", refused)
	}
}
