package callback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
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
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// patience is how long a test waits for an event.
const patience = time.Minute

const writeTool = `{"name":"write","inputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`

// world is a running gate with two agents, a gated skill "files" and an auto-approved one "open".
type world struct {
	t         testing.TB
	db        *worldtest.DB
	box       *secret.Box
	keyFile   string
	logs      worldtest.Log
	registry  *runtimetest.Registry
	agents    *agent.Service
	calls     *call.Service
	callbacks *callback.Service
	billing   *agent.Agent
	support   *agent.Agent
	operator  uuid.UUID
}

func newWorld(t testing.TB, configure ...func(*callback.Config)) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), operator: uuid.New(), keyFile: filepath.Join(t.TempDir(), "key.json")}
	var err error
	w.box, err = secret.Open(secret.Config{File: w.keyFile})
	check(t, err)
	w.callbacks = w.service(time.Now, configure...)
	skills := &runtimetest.Source{}
	skills.Offer(writeTool)
	skills.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"the-result"}]}`)}, nil
	})
	w.registry = runtimetest.NewRegistry(t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: skills}, Logger: w.logs.Logger(slog.LevelDebug),
		Agent: agent.Config{Box: w.box, AgentDeleted: w.callbacks.Removed},
	})
	w.agents = w.registry.Agents
	w.start()
	w.registry.ApplyTwoSkills(nil, agent.AgentSpec{Name: "billing"}, agent.AgentSpec{Name: "support"})
	w.billing, w.support = w.registry.Agent("billing"), w.registry.Agent("support")
	return w
}

// shortenTimeout gives receivers little time.
func shortenTimeout(c *callback.Config) { c.Timeout = 500 * time.Millisecond }

// service makes a service that is not started.
func (w *world) service(now func() time.Time, configure ...func(*callback.Config)) *callback.Service {
	w.t.Helper()
	cfg := callback.Config{Pool: w.db.Pool(), Box: w.box, Logger: w.logs.Logger(slog.LevelDebug), Now: now, Timeout: patience, TrustedHosts: []string{"127.0.0.1"}}
	for _, f := range configure {
		f(&cfg)
	}
	s, err := callback.New(cfg)
	check(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// start runs calls, callbacks, jobs and notifications, as a process does.
func (w *world) start() {
	w.t.Helper()
	var err error
	w.calls, err = call.New(call.Config{
		Pool: w.db.Pool(), Agents: w.agents, Discovery: w.registry.Discovery, Logger: w.logs.Logger(slog.LevelDebug), Now: time.Now, Instance: uuid.New(),
		Publish: w.callbacks.Publish,
	})
	check(w.t, err)
	client := w.db.NewQueue(w.logs.Logger(slog.LevelWarn), w.calls.Instance,
		map[string]int{river.QueueDefault: 5, call.ExecuteQueue: 20, callback.JobQueue: 10}, w.calls, w.callbacks)
	ctx, stop := context.WithCancel(context.Background())
	check(w.t, w.calls.Start(ctx, client))
	w.callbacks.Start(ctx, client)
	check(w.t, client.Start(ctx))
	stopListening := w.db.Handle(map[postgres.Channel]func(string){
		call.Channel:     w.calls.HandleNotification,
		callback.Channel: func(string) { w.callbacks.HandleNotification() },
		registry.Channel: func(payload string) {
			w.registry.Invalidate(payload)
			w.callbacks.Invalidate()
		},
	}, w.calls.CatchUp)
	w.t.Cleanup(func() {
		check(w.t, client.Stop(context.Background()))
		check(w.t, w.calls.Stop(context.Background()))
		stop()
		stopListening()
	})
}

// createCallback adds a callback and returns its secret.
func (w *world) createCallback(a *agent.Agent, name, url string) string {
	w.t.Helper()
	_, secretText, err := w.callbacks.Create(w.t.Context(), audit.Person(w.operator), a, callback.NewCallback{Name: name, URL: url})
	check(w.t, err)
	return secretText
}

func (w *world) submitCall(a *agent.Agent, name, arguments string) call.Ticket {
	w.t.Helper()
	conversation, entry := w.registry.FindTool(a, uuid.Nil, name)
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	ticket, err := w.calls.Submit(w.t.Context(), call.Submission{Agent: a, ConversationID: conversation, Entry: entry, Arguments: clean})
	check(w.t, err)
	return ticket
}

func (w *world) decide(id uuid.UUID, approve bool) {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	_, err = w.calls.Decide(w.t.Context(), call.Decision{
		CallID: id, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: "the-reason", By: w.operator,
	})
	check(w.t, err)
}

func (w *world) text(sql string, args ...any) (text string) {
	w.t.Helper()
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), sql, args...).Scan(&text))
	return text
}

func (w *world) getState(a *agent.Agent, name string) callback.Callback {
	w.t.Helper()
	c, err := w.callbacks.Callback(w.t.Context(), a.ID, name)
	check(w.t, err)
	return c
}

// listDeliveries returns all messages to a callback, the newest first.
func (w *world) listDeliveries(a *agent.Agent, name string) []callback.Delivery {
	w.t.Helper()
	found, _, err := w.callbacks.Deliveries(w.t.Context(), w.getState(a, name).ID, 0, 0)
	check(w.t, err)
	return found
}

// makeRetriesDue makes this number of jobs that wait for a retry due.
func (w *world) makeRetriesDue(n int) {
	w.t.Helper()
	eventually.Holds(w.t, "messages wait to be tried again", func() bool {
		return n == w.db.Count(`river_job
			WHERE kind = 'callback_deliver' AND state IN ('retryable', 'available', 'scheduled') AND errors IS NOT NULL`)
	})
	w.db.Exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'callback_deliver' AND state = 'retryable'`)
}

// inTx runs f in a transaction.
func (w *world) inTx(f func(tx pgx.Tx) error) {
	w.t.Helper()
	check(w.t, postgres.InTx(w.t.Context(), w.db.Pool(), f))
}

// endpoint is a receiver of callbacks.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	answer   int
	header   http.Header // of responses
	requests []received
}

type received struct {
	header http.Header
	body   []byte
}

func newEndpoint(t testing.TB) *endpoint {
	t.Helper()
	e := &endpoint{answer: http.StatusNoContent, header: http.Header{}}
	e.Server = httptest.NewServer(e)
	t.Cleanup(e.Close)
	return e
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, received{r.Header, body})
	maps.Copy(w.Header(), e.header)
	w.WriteHeader(e.answer)
}

// answerWith sets the answer to later requests.
func (e *endpoint) answerWith(status int, header ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer, e.header = status, http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		e.header.Set(header[i], header[i+1])
	}
}

func (e *endpoint) listReceived() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// awaitMessages waits for n requests and returns them.
func (e *endpoint) awaitMessages(t testing.TB, n int) []received {
	t.Helper()
	eventually.Holds(t, "the endpoint is asked", func() bool { return len(e.listReceived()) >= n })
	return e.listReceived()
}

func (r received) payload(t testing.TB) callback.Payload {
	t.Helper()
	var p callback.Payload
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.DisallowUnknownFields()
	check(t, decoder.Decode(&p))
	return p
}

// eventsOf returns types and statuses in requests about a call, sorted, since no order is promised.
func eventsOf(t testing.TB, requests []received, id uuid.UUID) []string {
	t.Helper()
	var lines []string
	for _, r := range requests {
		if p := r.payload(t); p.Data.CallID != nil && *p.Data.CallID == id {
			lines = append(lines, strings.TrimSpace(string(p.Type)+" "+p.Data.Status+" "+p.Data.Code))
		}
	}
	slices.Sort(lines)
	return lines
}
