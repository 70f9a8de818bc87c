package call_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// patience is the limit for a test that hangs, far above the time that a busy machine needs.
const patience = 3 * time.Minute

// fakeSource adds the requests of HTTP APIs to a skill server.
type fakeSource struct {
	runtimetest.Source

	traces []telemetry.Handed // the trace context of each call
	// outgoing, state and stateErr are the results of Outgoing and Before.
	outgoing func(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error)
	state    *tool.State
	stateErr error
	reads    int // number of calls of Before

	before    func()                // runs before a call is confirmed; nil: nothing
	confirmed func(began time.Time) // runs after it was confirmed, which began at a time; nil: nothing
}

var notConnected = &tool.Connect{Reason: "the skill is not connected yet"}

func (f *fakeSource) Call(ctx context.Context, server tool.Server, r tool.CallRequest) (tool.Result, error) {
	f.Lock()
	before, confirmed := f.before, f.confirmed
	f.Unlock()
	if before != nil {
		before()
	}
	began := time.Now()
	if err := r.Confirm(ctx); err != nil {
		return tool.Result{}, tool.NotConfirmed(err, "tools/call")
	}
	if confirmed != nil {
		confirmed(began)
	}
	f.Lock()
	f.traces = append(f.traces, telemetry.ToHand(ctx))
	f.Unlock()
	return f.Source.Call(ctx, server, r)
}

func (f *fakeSource) Outgoing(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error) {
	f.Lock()
	defer f.Unlock()
	return f.outgoing(server, r)
}

func (f *fakeSource) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	f.Lock()
	defer f.Unlock()
	f.reads++
	return f.state, f.stateErr
}

const (
	writeTool = `{"name":"write","description":"Write","inputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`
	echoTool  = `{"name":"echo","inputSchema":{"type":"object"}}`
)

// world is a running gate with one agent, a gated skill "files" and an auto-approved skill "open", both on one skill server.
type world struct {
	t         testing.TB
	db        *worldtest.DB
	source    *fakeSource
	registry  *runtimetest.Registry
	discovery *tool.Discovery
	agents    *agent.Service
	catalog   *catalog.Service
	files     *file.Service
	folder    string // where files are stored
	downloads *httptest.Server
	calls     *call.Service
	agent     *agent.Agent
	reviewer  uuid.UUID
	traces    *telemetry.Tracer // nil if there is none
	timeline  atomic.Uint32     // of the database, as the services see it
	configure []configuration
}

// configuration changes the configuration of each call service. A running service reads its fields, so a test must not change them.
type configuration func(w *world, c *call.Config)

func newWorld(t testing.TB, configure ...configuration) *world {
	t.Helper()
	return newTracedWorld(t, nil, configure...)
}

func newTracedWorld(t testing.TB, traces *telemetry.Tracer, configure ...configuration) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), source: &fakeSource{}, reviewer: uuid.New(), traces: traces, configure: configure}
	w.source.Offer(writeTool, echoTool)
	r := runtimetest.NewRegistry(t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source, tool.OpenAPI: w.source, tool.Gate: host.Source{}},
	})
	w.registry, w.discovery, w.agents, w.catalog = r, r.Discovery, r.Agents, r.Catalog
	w.startFiles()
	w.calls = w.start()
	w.registerSkills(time.Minute)
	return w
}

// startFiles starts the storage of files and a server for downloads.
func (w *world) startFiles() {
	w.t.Helper()
	w.folder = w.t.TempDir()
	mux := http.NewServeMux()
	w.downloads = httptest.NewServer(mux)
	var err error
	w.files, err = file.New(file.Config{
		Pool: w.db.Pool(), Bucket: runtimetest.NewBucket(w.t, w.folder), PublicURL: w.downloads.URL, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Open: func(ctx context.Context, id uuid.UUID) (bool, error) { return w.calls.CanDownload(ctx, id) },
	})
	check(w.t, err)
	w.files.Mount(mux)
	w.t.Cleanup(func() {
		w.downloads.Close()
		check(w.t, w.files.Close())
	})
}

// start runs a call service with its job queue and notifications.
func (w *world) start() *call.Service {
	w.t.Helper()
	return w.startOn(w.db.DB, false)
}

// startOn runs a call service that uses the connections of db.
func (w *world) startOn(db *postgres.DB, restored bool) *call.Service {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	c := call.Config{
		Pool: db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: log, Now: time.Now, Instance: uuid.New(), Files: w.files, Traces: w.traces,
		Restored: restored, Timeline: func() postgres.Timeline { return postgres.Timeline(w.timeline.Load()) },
	}
	for _, change := range w.configure {
		change(w, &c)
	}
	calls, err := call.New(c)
	check(w.t, err)
	own := w.db.At(db)
	client := own.NewQueue(log, calls.Instance, map[string]int{river.QueueDefault: 5, call.ExecuteQueue: 20}, calls)
	ctx, stop := context.WithCancel(context.Background())
	check(w.t, calls.Start(ctx, client))
	check(w.t, client.Start(ctx))
	stopListening := own.Handle(map[postgres.Channel]func(string){
		call.Channel: calls.HandleNotification, call.EventChannel: calls.HandleEvent, registry.Channel: w.registry.Invalidate,
	}, calls.CatchUp)
	w.t.Cleanup(func() {
		check(w.t, client.Stop(context.Background()))
		check(w.t, calls.Stop(context.Background()))
		stop()
		stopListening()
	})
	return calls
}

// registerSkills registers the skills and the agent. Approvals expire after the given time.
func (w *world) registerSkills(approvals time.Duration) {
	w.t.Helper()
	w.registerValid(approvals, 0)
}

// registerValid is register with a validity of decisions.
func (w *world) registerValid(approvals, validity time.Duration) {
	w.t.Helper()
	timeout, valid := agent.Duration(approvals), agent.Duration(validity)
	w.registry.ApplyTwoSkills(func(files *agent.SkillSpec) {
		files.ApprovalTimeout, files.ApprovalValidity = &timeout, &valid
	}, agent.AgentSpec{Name: "billing"})
	w.agent = w.registry.Agent("billing")
}

// newSubmission returns a call of a tool in a new conversation.
func (w *world) newSubmission(name, arguments string) call.Submission {
	w.t.Helper()
	conversation, entry := w.registry.FindTool(w.agent, uuid.Nil, name)
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	return call.Submission{Agent: w.agent, ConversationID: conversation, Entry: entry, Arguments: clean}
}

func (w *world) submit(name, arguments string) call.Ticket {
	w.t.Helper()
	ticket, err := w.calls.Submit(w.t.Context(), w.newSubmission(name, arguments))
	check(w.t, err)
	return ticket
}

func (w *world) decide(id uuid.UUID, approve bool) error {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	_, err = w.calls.Decide(w.t.Context(), call.Decision{
		CallID: id, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: "because", By: w.reviewer,
	})
	return err
}

func (w *world) waitForEnd(id uuid.UUID) call.Call {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c, err := w.calls.Wait(ctx, id, call.Listener{})
	check(w.t, err)
	return *c
}
