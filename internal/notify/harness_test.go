package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// patience is how long a test waits for an event.
const patience = 3 * time.Minute

// eventuallyOr is [eventually.Holds] with details for a failure.
func eventuallyOr(t testing.TB, what string, holds func() bool, more func() string) {
	t.Helper()
	err := eventually.Poll(t.Context(), patience, func() error {
		if !holds() {
			return errors.New("it does not hold")
		}
		return nil
	})
	if err != nil {
		t.Fatalf("%s: not within %s\n%s", what, patience, more())
	}
}

// queue is the set of calls that wait for people.
type queue struct {
	mu         sync.Mutex
	waiting    []uuid.UUID
	unreviewed []uuid.UUID // one person approved them alone
}

func (q *queue) add(ids ...uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, ids...)
}

func (q *queue) remove(id uuid.UUID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	is := func(w uuid.UUID) bool { return w == id }
	q.waiting, q.unreviewed = slices.DeleteFunc(q.waiting, is), slices.DeleteFunc(q.unreviewed, is)
}

func (q *queue) Waiting(_ context.Context, calls []uuid.UUID) (pending, unreviewed []uuid.UUID, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, id := range calls {
		if slices.Contains(q.waiting, id) {
			pending = append(pending, id)
		}
		if slices.Contains(q.unreviewed, id) {
			unreviewed = append(unreviewed, id)
		}
	}
	return pending, unreviewed, nil
}

// breakGlass ends the wait of a call by one person's approval, which somebody has to review.
func (w *world) breakGlass(e notify.Event, by uuid.UUID) {
	w.t.Helper()
	w.queue.remove(e.CallID)
	w.queue.mu.Lock()
	w.queue.unreviewed = append(w.queue.unreviewed, e.CallID)
	w.queue.mu.Unlock()
	alone := e
	e.Kind = notify.Decided
	alone.Kind, alone.By, alone.Deadline, alone.Whole = notify.BrokeGlass, by, time.Time{}, true
	w.queueEvents(e, alone)
}

// world is a database with a process that sends notifications.
type world struct {
	t       testing.TB
	db      *worldtest.DB
	box     *secret.Box
	keyFile string
	people  *identity.Service
	queue   *queue
	logs    worldtest.Log
	notify  *notify.Service
	river   *river.Client[pgx.Tx]
	by      audit.Actor

	sessions map[uuid.UUID]uuid.UUID // by person
}

// gap is the minimum time between two messages in tests.
const gap = 300 * time.Millisecond

func newWorld(t testing.TB, configure ...func(*notify.Config)) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), queue: &queue{}, by: audit.System(), sessions: map[uuid.UUID]uuid.UUID{}}
	w.keyFile = filepath.Join(t.TempDir(), "key.json")
	var err error
	w.box, err = secret.Open(secret.Config{File: w.keyFile})
	check(t, err)
	log := w.logs.Logger(slog.LevelDebug)
	w.people, err = identity.New(identity.Config{
		Pool: w.db.Pool(), Logger: log, Now: time.Now,
		SessionsEnded: func(ctx context.Context, tx pgx.Tx, sessions []uuid.UUID) error {
			return w.notify.SessionsEnded(ctx, tx, sessions)
		},
	})
	check(t, err)
	t.Cleanup(w.people.Close)
	w.notify = w.newService(configure...)
	w.river = w.start(w.notify)
	return w
}

// newService returns a service that is not started.
func (w *world) newService(configure ...func(*notify.Config)) *notify.Service {
	w.t.Helper()
	cfg := notify.Config{
		Pool: w.db.Pool(), Box: w.box, Identity: w.people, Now: time.Now, PublicURL: "https://gate.example/", Waiting: w.queue.Waiting,
		Logger: w.logs.Logger(slog.LevelInfo), Gap: gap, Timeout: patience,
		TrustedHosts: []string{"127.0.0.1"},
	}
	for _, f := range configure {
		f(&cfg)
	}
	s, err := notify.New(cfg)
	check(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// start runs jobs and handles notifications, as a process does.
func (w *world) start(s *notify.Service) *river.Client[pgx.Tx] {
	w.t.Helper()
	client := w.db.NewQueue(w.logs.Logger(slog.LevelWarn), uuid.New(), map[string]int{notify.JobQueue: 10}, s)
	s.Start(client)
	check(w.t, client.Start(context.Background()))
	stopListening := w.db.Handle(map[postgres.Channel]func(string){registry.Channel: func(string) { s.Invalidate() }}, s.Invalidate)
	w.t.Cleanup(func() {
		check(w.t, client.Stop(context.Background()))
		stopListening()
	})
	return client
}

// parkCalls makes events of newly pending calls.
func (w *world) parkCalls(n int, change ...func(*notify.Event)) []notify.Event {
	w.t.Helper()
	events := make([]notify.Event, n)
	for i := range events {
		id, err := uuid.NewV7()
		check(w.t, err)
		events[i] = notify.Event{
			Kind: notify.Parked, CallID: id, Agent: "billing", Skill: "files", Tool: "write_file",
			Deadline: time.Now().Add(5*time.Minute + time.Duration(i)*time.Second),
		}
		for _, f := range change {
			f(&events[i])
		}
		w.queue.add(id)
	}
	return events
}

// queueEvents queues events in a transaction, as package call does.
func (w *world) queueEvents(events ...notify.Event) {
	w.t.Helper()
	check(w.t, postgres.InTx(w.t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		return w.notify.Queue(w.t.Context(), tx, events)
	}))
}

// decide ends the wait of a call.
func (w *world) decide(e notify.Event) {
	w.t.Helper()
	w.queue.remove(e.CallID)
	e.Kind = notify.Decided
	w.queueEvents(e)
}

// unfinished returns jobs that have work to do.
const unfinished = `finalized_at IS NULL AND NOT (kind = 'notify_deliver' AND state = 'scheduled'
	AND NOT EXISTS (SELECT FROM notices n WHERE n.target_id = (args->>'target')::uuid AND n.sent_at IS NULL))`

// waitForIdle waits until no job is left.
func (w *world) waitForIdle() {
	w.t.Helper()
	eventuallyOr(w.t, "all jobs are finished", func() bool { return w.db.Count("river_job WHERE "+unfinished) == 0 }, func() string {
		var left string
		check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT string_agg(to_jsonb(j)::text, E'\n') FROM river_job j WHERE `+unfinished).Scan(&left))
		return left + "\n" + w.logs.String()
	})
}

func (w *world) createWebhook(url, team string) notify.Webhook {
	w.t.Helper()
	created, err := w.notify.CreateWebhook(w.t.Context(), w.by, notify.NewWebhook{
		Name: "w" + strings.ReplaceAll(uuid.NewString(), "-", ""), URL: url, Team: team,
	})
	check(w.t, err)
	return created
}

func (w *world) getWebhook(hook notify.Webhook) notify.Webhook {
	w.t.Helper()
	found, err := w.notify.Webhook(w.t.Context(), hook.Name)
	check(w.t, err)
	return found
}

// receiver is a chat or a push service.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []http.HandlerFunc // in order; later requests succeed
	requests []received
}

type received struct {
	at     time.Time
	path   string
	header http.Header
	body   []byte
}

// answerWhen gives an answer when the channel is closed.
func answerWhen(release <-chan struct{}, answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
			answer(w, r)
		case <-r.Context().Done():
		}
	}
}

// newReceiver returns a receiver that records requests.
func newReceiver(t testing.TB, answers ...http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{answers: answers}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	r.requests = append(r.requests, received{time.Now(), request.URL.Path, request.Header, body})
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	if len(r.answers) > 0 {
		answer, r.answers = r.answers[0], r.answers[1:]
	}
	r.mu.Unlock()
	answer(w, request)
}

func (r *receiver) listReceived() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// awaitMessages waits for n requests and returns them.
func (r *receiver) awaitMessages(t testing.TB, n int) []received {
	t.Helper()
	eventually.Holds(t, "the receiver is asked", func() bool { return len(r.listReceived()) >= n })
	return r.listReceived()
}

func answerStatus(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// message is a message as a chat gets it.
type message struct {
	Text   string `json:"text"`
	Blocks []struct {
		Type string `json:"type"`
		Text *struct {
			Type, Text string
		} `json:"text"`
		Elements []struct {
			Type, Text string
		} `json:"elements"`
	} `json:"blocks"`
}

func (r received) parseMessage(t testing.TB) message {
	t.Helper()
	var m message
	check(t, json.Unmarshal(r.body, &m))
	return m
}
