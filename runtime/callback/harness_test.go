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
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// server is a skill server at the seam, with one tool.
type server struct{ tool.Source }

const writeTool = `{"name":"write","inputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`

func (server) List(context.Context, tool.Server) (tool.Listing, error) {
	d, err := tool.ParseDefinition(json.RawMessage(writeTool))
	return tool.Listing{Tools: []tool.Definition{d}}, err
}

func (server) Call(context.Context, tool.Server, tool.CallRequest) (tool.Result, error) {
	return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"the-result"}]}`)}, nil
}

func (server) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }
func (server) Outgoing(tool.Server, tool.CallRequest) (*tool.Outgoing, error) {
	return nil, nil
}

func (server) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	return nil, nil
}

func (server) Forget(uuid.UUID)                                          {}
func (server) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }

// logs keeps everything that is logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// world is a running gate with two agents, a gated skill "files" and an auto-approved one "open".
type world struct {
	t         testing.TB
	db        *postgres.DB
	box       *secret.Box
	keyFile   string
	logs      *logs
	discovery *tool.Discovery
	agents    *agent.Service
	catalog   *catalog.Service
	calls     *call.Service
	callbacks *callback.Service
	billing   *agent.Agent
	support   *agent.Agent
	operator  uuid.UUID
}

func newWorld(t testing.TB, configure ...func(*callback.Config)) *world {
	t.Helper()
	w := &world{t: t, db: postgrestest.New(t), logs: &logs{}, operator: uuid.New()}
	var err error
	w.keyFile = filepath.Join(t.TempDir(), "key.json")
	w.box, err = secret.Open(secret.Config{File: w.keyFile})
	check(t, err)
	log := w.log(slog.LevelDebug)
	w.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: w.db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: server{}},
		Listed: agent.RecordListing, Logger: log, Now: time.Now,
	})
	check(t, err)
	w.callbacks = w.service(time.Now, configure...)
	w.agents, err = agent.New(agent.Config{
		Pool: w.db.Pool(), Discovery: w.discovery, Box: w.box, Logger: log, Now: time.Now, AgentDeleted: w.callbacks.Removed,
	})
	check(t, err)
	w.catalog, err = catalog.New(catalog.Config{Pool: w.db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: log, Now: time.Now})
	check(t, err)
	t.Cleanup(func() {
		w.catalog.Close()
		w.agents.Close()
		w.discovery.Close()
	})
	w.start()
	w.register()
	return w
}

func (w *world) log(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: level}))
}

// hasty gives a receiver little time.
func hasty(c *callback.Config) { c.Timeout = 500 * time.Millisecond }

// service is one that is not started.
func (w *world) service(now func() time.Time, configure ...func(*callback.Config)) *callback.Service {
	w.t.Helper()
	cfg := callback.Config{Pool: w.db.Pool(), Box: w.box, Logger: w.log(slog.LevelDebug), Now: now, Timeout: patience, TrustedHosts: []string{"127.0.0.1"}}
	for _, f := range configure {
		f(&cfg)
	}
	s, err := callback.New(cfg)
	check(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// start runs what a process runs: calls, callbacks, jobs, notifications.
func (w *world) start() {
	w.t.Helper()
	var err error
	w.calls, err = call.New(call.Config{
		Pool: w.db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: w.log(slog.LevelDebug), Now: time.Now, Instance: uuid.New(),
		Publish: w.callbacks.Publish,
	})
	check(w.t, err)
	workers := river.NewWorkers()
	w.calls.AddWorkers(workers)
	w.callbacks.AddWorkers(workers)
	client, err := river.NewClient(riverpgxv5.New(w.db.Pool()), &river.Config{
		Logger: w.log(slog.LevelWarn), Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: 5}, call.ExecuteQueue: {MaxWorkers: 20}, callback.JobQueue: {MaxWorkers: 10},
		},
	})
	check(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	check(w.t, w.calls.Start(ctx, client))
	w.callbacks.Start(ctx, client)
	check(w.t, client.Start(ctx))
	var listening sync.WaitGroup
	listening.Go(func() {
		w.db.Listen(ctx, []string{call.Channel, callback.Channel, registry.Channel}, func(channel, payload string) {
			switch channel {
			case call.Channel:
				w.calls.HandleNotification(payload)
			case callback.Channel:
				w.callbacks.HandleNotification()
			default:
				w.discovery.Invalidate()
				w.agents.Invalidate()
				w.callbacks.Invalidate()
			}
		}, w.calls.CatchUp)
	})
	w.t.Cleanup(func() {
		check(w.t, client.Stop(context.Background()))
		check(w.t, w.calls.Stop(context.Background()))
		stop()
		listening.Wait()
	})
}

func (w *world) register() {
	w.t.Helper()
	assigned := &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}}
	_, err := w.agents.Apply(w.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/files"},
			{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open", AutoApprove: true},
		},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: assigned}, {Name: "support", Skills: assigned}},
	}, false)
	check(w.t, err)
	w.billing, err = w.agents.AgentByName(w.t.Context(), "billing")
	check(w.t, err)
	w.support, err = w.agents.AgentByName(w.t.Context(), "support")
	check(w.t, err)
}

// create adds a callback, and returns its secret.
func (w *world) create(a *agent.Agent, name, url string) string {
	w.t.Helper()
	_, secretText, err := w.callbacks.Create(w.t.Context(), audit.Person(w.operator), a, callback.NewCallback{Name: name, URL: url})
	check(w.t, err)
	return secretText
}

func (w *world) submit(a *agent.Agent, name, arguments string) call.Ticket {
	w.t.Helper()
	c, err := w.catalog.StartConversation(w.t.Context(), a, uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	entry, ok := c.Catalog.Lookup(name)
	if !ok {
		w.t.Fatalf("no tool %s in the catalogue; problems: %v", name, c.Problems)
	}
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	ticket, err := w.calls.Submit(w.t.Context(), call.Submission{Agent: a, ConversationID: c.ID, Entry: entry, Arguments: clean})
	check(w.t, err)
	return ticket
}

func (w *world) decide(id uuid.UUID, approve bool) {
	w.t.Helper()
	waiting, err := w.calls.Approval(w.t.Context(), id)
	check(w.t, err)
	_, err = w.calls.Decide(w.t.Context(), call.Decision{
		CallID: id, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: "the-reason", By: w.operator,
	})
	check(w.t, err)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.db.Pool().Exec(w.t.Context(), sql, args...)
	check(w.t, err)
}

func (w *world) text(sql string, args ...any) (text string) {
	w.t.Helper()
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), sql, args...).Scan(&text))
	return text
}

func (w *world) state(a *agent.Agent, name string) callback.Callback {
	w.t.Helper()
	c, err := w.callbacks.Callback(w.t.Context(), a.ID, name)
	check(w.t, err)
	return c
}

// deliveries are all of a callback, the newest first.
func (w *world) deliveries(a *agent.Agent, name string) []callback.Delivery {
	w.t.Helper()
	found, _, err := w.callbacks.Deliveries(w.t.Context(), w.state(a, name).ID, 0, 0)
	check(w.t, err)
	return found
}

// retry makes the jobs that wait to be tried again due. It waits until there are as many.
func (w *world) retry(n int) {
	w.t.Helper()
	eventually.Holds(w.t, "messages wait to be tried again", func() bool {
		var waiting int
		check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT count(*) FROM river_job
			WHERE kind = 'callback_deliver' AND state IN ('retryable', 'available', 'scheduled') AND errors IS NOT NULL`).Scan(&waiting))
		return waiting == n
	})
	w.exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'callback_deliver' AND state = 'retryable'`)
}

// actions are the audit events about a subject, oldest first.
func (w *world) actions(subject uuid.UUID) string {
	w.t.Helper()
	events, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: subject})
	check(w.t, err)
	var actions []string
	for _, e := range slices.Backward(events) {
		actions = append(actions, e.Action)
	}
	return strings.Join(actions, " ")
}

// inTx runs f in a transaction.
func (w *world) inTx(f func(tx pgx.Tx) error) {
	w.t.Helper()
	check(w.t, postgres.InTx(w.t.Context(), w.db.Pool(), f))
}

// endpoint is another system's.
type endpoint struct {
	*httptest.Server
	mu       sync.Mutex
	answer   int
	header   http.Header // of answers
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

// answers says how it answers from now on.
func (e *endpoint) answers(status int, header ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer, e.header = status, http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		e.header.Set(header[i], header[i+1])
	}
}

func (e *endpoint) all() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.requests)
}

// await returns the first n requests, once they are there.
func (e *endpoint) await(t testing.TB, n int) []received {
	t.Helper()
	eventually.Holds(t, "the endpoint is asked", func() bool { return len(e.all()) >= n })
	return e.all()
}

func (r received) payload(t testing.TB) callback.Payload {
	t.Helper()
	var p callback.Payload
	decoder := json.NewDecoder(bytes.NewReader(r.body))
	decoder.DisallowUnknownFields()
	check(t, decoder.Decode(&p))
	return p
}

// about are what requests say of a call: types and statuses, in alphabetical order, since none is promised.
func about(t testing.TB, requests []received, id uuid.UUID) []string {
	t.Helper()
	var lines []string
	for _, r := range requests {
		if p := r.payload(t); p.Data.CallID != nil && *p.Data.CallID == id {
			lines = append(lines, strings.TrimSpace(p.Type+" "+p.Data.Status+" "+p.Data.Code))
		}
	}
	slices.Sort(lines)
	return lines
}
