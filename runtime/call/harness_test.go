package call_test

import (
	"context"
	"encoding/json"
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
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"
	"gocloud.dev/blob/fileblob"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// fakeSource is a skill server at the seam: the tests are about what is sent, and how often.
type fakeSource struct {
	mu    sync.Mutex
	tools []string           // definitions
	sent  []string           // arguments of calls, as they arrived
	below []telemetry.Handed // the trace context of each
	reply func(r tool.CallRequest) (tool.Result, error)
	// missing is what somebody has to do before the server can be used.
	missing *tool.Connect
	// Of HTTP APIs: the request that goes out, and what is there before.
	outgoing func(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error)
	state    *tool.State
	stateErr error
	looks    int
	// refuses is what List answers instead of tools.
	refuses *tool.Failure
}

func (f *fakeSource) failList(failure *tool.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuses = failure
}

// connected says whether the server can be used.
func (f *fakeSource) connected(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = nil
	if !yes {
		f.missing = &tool.Connect{Reason: "nobody has connected this skill yet"}
	}
}

func (f *fakeSource) List(context.Context, tool.Server) (tool.Listing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var l tool.Listing
	if f.refuses != nil {
		return l, f.refuses
	}
	for _, text := range f.tools {
		d, err := tool.ParseDefinition(json.RawMessage(text))
		if err != nil {
			return l, &tool.Failure{Kind: tool.ProtocolFailure, Message: err.Error()}
		}
		l.Tools = append(l.Tools, d)
	}
	return l, nil
}

func (f *fakeSource) Call(ctx context.Context, _ tool.Server, r tool.CallRequest) (tool.Result, error) {
	if err := r.Confirm(ctx); err != nil {
		return tool.Result{}, tool.NotConfirmed(err, "tools/call")
	}
	f.mu.Lock()
	f.sent = append(f.sent, string(r.Arguments))
	f.below = append(f.below, telemetry.ToHand(ctx))
	reply := f.reply
	f.mu.Unlock()
	if reply != nil {
		return reply(r)
	}
	return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"ok"}]}`)}, nil
}

func (*fakeSource) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }

func (f *fakeSource) Outgoing(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outgoing(server, r)
}

func (f *fakeSource) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	return f.state, f.stateErr
}

func (*fakeSource) Forget(uuid.UUID) {}

func (*fakeSource) Request(context.Context, tool.Server, tool.Request) (json.RawMessage, error) {
	return nil, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "not offered"}
}

func (*fakeSource) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{ProtocolVersion: "2025-11-25", Tools: true}, nil
}

func (f *fakeSource) Ready(context.Context, tool.Server) (*tool.Connect, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing, nil
}

func (f *fakeSource) setTools(definitions ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tools = definitions
}

func (f *fakeSource) arrivals() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.sent...)
}

const (
	writeTool = `{"name":"write","description":"Write","inputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`
	echoTool  = `{"name":"echo","inputSchema":{"type":"object"}}`
)

// world is a running gate with one agent, a gated skill "files" and an
// auto-approved skill "open", both on one fake server.
type world struct {
	t         testing.TB
	db        *postgres.DB
	source    *fakeSource
	discovery *tool.Discovery
	agents    *agent.Service
	catalog   *catalog.Service
	files     *file.Service
	folder    string // where files are stored
	downloads *httptest.Server
	calls     *call.Service
	agent     *agent.Agent
	reviewer  uuid.UUID
	traces    *telemetry.Tracer // nil: none
}

func newWorld(t testing.TB) *world { return newTracedWorld(t, nil) }

func newTracedWorld(t testing.TB, traces *telemetry.Tracer) *world {
	t.Helper()
	w := &world{t: t, db: postgrestest.New(t), source: &fakeSource{tools: []string{writeTool, echoTool}}, reviewer: uuid.New(), traces: traces}
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	log := slog.New(slog.DiscardHandler)
	w.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: w.db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source, tool.OpenAPI: w.source},
		Listed: agent.RecordListing, Logger: log, Now: time.Now,
	})
	check(t, err)
	w.agents, err = agent.New(agent.Config{Pool: w.db.Pool(), Discovery: w.discovery, Box: box, Logger: log, Now: time.Now})
	check(t, err)
	w.catalog, err = catalog.New(catalog.Config{Pool: w.db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: log, Now: time.Now})
	check(t, err)
	w.startFiles(log)
	w.calls = w.start(log)
	t.Cleanup(func() {
		w.catalog.Close()
		w.agents.Close()
		w.discovery.Close()
	})
	w.register(time.Minute)
	return w
}

// startFiles serves what agents attach.
func (w *world) startFiles(log *slog.Logger) {
	w.t.Helper()
	w.folder = w.t.TempDir()
	bucket, err := fileblob.OpenBucket(w.folder, &fileblob.Options{Metadata: fileblob.MetadataDontWrite, NoTempDir: true})
	check(w.t, err)
	mux := http.NewServeMux()
	w.downloads = httptest.NewServer(mux)
	w.files, err = file.New(file.Config{
		Pool: w.db.Pool(), Bucket: bucket, PublicURL: w.downloads.URL, Logger: log, Now: time.Now,
		Open: func(ctx context.Context, id uuid.UUID) (bool, error) { return w.calls.FilesOpen(ctx, id) },
	})
	check(w.t, err)
	w.files.Mount(mux)
	w.t.Cleanup(func() {
		w.downloads.Close()
		check(w.t, w.files.Close())
	})
}

// start runs a call service with its job queue and notifications.
func (w *world) start(log *slog.Logger) *call.Service {
	w.t.Helper()
	return w.startOn(w.db, log, false)
}

// startOn runs a call service whose own connections are db's.
func (w *world) startOn(db *postgres.DB, log *slog.Logger, restored bool) *call.Service {
	w.t.Helper()
	calls, err := call.New(call.Config{
		Pool: db.Pool(), Agents: w.agents, Discovery: w.discovery, Logger: log, Now: time.Now, Instance: uuid.New(), Files: w.files, Traces: w.traces,
		Restored: restored,
	})
	check(w.t, err)
	workers := river.NewWorkers()
	calls.AddWorkers(workers)
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{
		ID: calls.Instance.String(), Logger: log, Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 5}, call.ExecuteQueue: {MaxWorkers: 20}},
	})
	check(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	check(w.t, calls.Start(ctx, client))
	check(w.t, client.Start(ctx))
	var listening sync.WaitGroup
	listening.Go(func() {
		db.Listen(ctx, []string{call.Channel, call.EventChannel, registry.Channel}, func(channel, payload string) {
			switch channel {
			case call.Channel:
				calls.HandleNotification(payload)
				return
			case call.EventChannel:
				calls.HandleEvent(payload)
				return
			}
			w.discovery.Invalidate()
			w.agents.Invalidate()
		}, calls.CatchUp)
	})
	w.t.Cleanup(func() {
		check(w.t, client.Stop(context.Background()))
		check(w.t, calls.Stop(context.Background()))
		stop()
		listening.Wait()
	})
	return calls
}

// register makes the skills and the agent; approvals last so long.
func (w *world) register(approvals time.Duration) {
	w.t.Helper()
	w.registerValid(approvals, 0)
}

// registerValid is register, with how long approvals count after their decisions.
func (w *world) registerValid(approvals, validity time.Duration) {
	w.t.Helper()
	limit, valid := agent.Duration(approvals), agent.Duration(validity)
	_, err := w.agents.Apply(w.t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/files", ApprovalTimeout: &limit, ApprovalValidity: &valid},
			{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open", AutoApprove: true},
		},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}}}},
	}, false)
	check(w.t, err)
	w.agent, err = w.agents.AgentByName(w.t.Context(), "billing")
	check(w.t, err)
}

// submission is a call of a tool as a fresh conversation would make it.
func (w *world) submission(name, arguments string) call.Submission {
	w.t.Helper()
	c, err := w.catalog.StartConversation(w.t.Context(), w.agent, uuid.Nil, "2025-11-25", nil)
	check(w.t, err)
	entry, ok := c.Catalog.Lookup(name)
	if !ok {
		w.t.Fatalf("no tool %s in the catalogue; problems: %v", name, c.Problems)
	}
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	return call.Submission{Agent: w.agent, ConversationID: c.ID, Entry: entry, Arguments: clean}
}

func (w *world) submit(name, arguments string) call.Ticket {
	w.t.Helper()
	ticket, err := w.calls.Submit(w.t.Context(), w.submission(name, arguments))
	check(w.t, err)
	return ticket
}

func (w *world) decide(id uuid.UUID, approve bool) error {
	w.t.Helper()
	waiting, err := w.calls.Approval(w.t.Context(), id)
	check(w.t, err)
	_, err = w.calls.Decide(w.t.Context(), call.Decision{
		CallID: id, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: "because", By: w.reviewer,
	})
	return err
}

func (w *world) wait(id uuid.UUID) call.Call {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	c, err := w.calls.Wait(ctx, id, call.Listener{})
	check(w.t, err)
	return c
}

// moveClock adds to the database's clock.
func (w *world) moveClock(by string) {
	w.t.Helper()
	_, err := w.db.Pool().Exec(w.t.Context(), `UPDATE clock_offset SET value = $1::text::interval`, by)
	check(w.t, err)
}

func (w *world) actions(id uuid.UUID) string {
	w.t.Helper()
	events, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: id})
	check(w.t, err)
	var text strings.Builder
	for _, e := range slices.Backward(events) {
		text.WriteString(e.Action + " ")
	}
	return text.String()
}

func (w *world) setStatus(sql string, args ...any) {
	w.t.Helper()
	_, err := w.db.Pool().Exec(w.t.Context(), sql, args...)
	check(w.t, err)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
