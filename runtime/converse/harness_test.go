package converse_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// server is a skill server at the seam.
type server struct {
	mu    sync.Mutex
	below []string // the trace context of each
	sent  []string // what was called with what, in order
	reply func(r tool.CallRequest) (tool.Result, error)
}

func (f *server) List(context.Context, tool.Server) (tool.Listing, error) {
	var l tool.Listing
	for _, text := range []string{
		`{"name":"write","description":"Write","inputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`,
		`{"name":"look","description":"Look","inputSchema":{"type":"object"}}`,
	} {
		d, err := tool.ParseDefinition(json.RawMessage(text))
		if err != nil {
			return l, &tool.Failure{Kind: tool.ProtocolFailure, Message: err.Error()}
		}
		l.Tools = append(l.Tools, d)
	}
	return l, nil
}

func (f *server) Call(ctx context.Context, _ tool.Server, r tool.CallRequest) (tool.Result, error) {
	f.mu.Lock()
	f.below = append(f.below, telemetry.ToHand(ctx).Traceparent)
	f.sent = append(f.sent, r.Tool+" "+string(r.Arguments))
	reply := f.reply
	f.mu.Unlock()
	if reply != nil {
		return reply(r)
	}
	return result("done " + string(r.Arguments)), nil
}

func result(text string) tool.Result {
	raw, _ := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}})
	return tool.Result{Raw: raw}
}

func (f *server) calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.sent)
}

func (f *server) answer(reply func(r tool.CallRequest) (tool.Result, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reply = reply
}

func (*server) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }
func (*server) Outgoing(tool.Server, tool.CallRequest) (*tool.Outgoing, error) {
	return nil, nil
}

func (*server) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	return nil, nil
}

func (*server) Forget(uuid.UUID)                                          {}
func (*server) Ready(context.Context, tool.Server) (*tool.Connect, error) { return nil, nil }

func (*server) Request(context.Context, tool.Server, tool.Request) (json.RawMessage, error) {
	return nil, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "not offered"}
}

func (*server) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{ProtocolVersion: "2025-11-25", Tools: true}, nil
}

// mind is a model that a test thinks for.
type mind struct {
	mu       sync.Mutex
	requests []*model.Request
	think    func(ctx context.Context, r *model.Request, say func(string)) (*model.Response, error)
}

func (m *mind) Generate(ctx context.Context, r *model.Request, sink func(model.Delta)) (*model.Response, error) {
	if err := wellFormed(r); err != nil {
		return nil, &model.Error{Status: 400, Message: err.Error()}
	}
	m.mu.Lock()
	m.requests = append(m.requests, r)
	think := m.think
	m.mu.Unlock()
	return think(ctx, r, func(text string) { sink(model.Delta{Text: text}) })
}

func (m *mind) last() *model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[len(m.requests)-1]
}

func (m *mind) asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

// wellFormed is what every provider insists on: roles alternate, and every call is answered in the next message.
func wellFormed(r *model.Request) error {
	var open []string
	for i, m := range r.Messages {
		if want := []model.Role{model.User, model.Assistant}[i%2]; m.Role != want {
			return fmt.Errorf("message %d is of %s", i, m.Role)
		}
		if len(m.Parts) == 0 {
			return fmt.Errorf("message %d is empty", i)
		}
		var results []string
		for _, p := range m.Parts {
			if p.Result != nil {
				results = append(results, p.Result.CallID)
			}
		}
		if !slices.Equal(results, open) {
			return fmt.Errorf("message %d answers %v, want %v", i, results, open)
		}
		open = nil
		for _, p := range m.Parts {
			if p.Call != nil {
				open = append(open, p.Call.ID)
			}
		}
	}
	if len(open) > 0 || len(r.Messages)%2 == 0 {
		return fmt.Errorf("the last of %d messages wants no answer", len(r.Messages))
	}
	return nil
}

// results are what the last message of a request tells of calls.
func results(r *model.Request) []model.ToolResult {
	var list []model.ToolResult
	for _, p := range r.Messages[len(r.Messages)-1].Parts {
		if p.Result != nil {
			list = append(list, *p.Result)
		}
	}
	return list
}

func texts(parts []model.Part) string {
	var all []string
	for _, p := range parts {
		if p.Text != nil {
			all = append(all, p.Text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// says is an answer of text.
func says(text string) *model.Response {
	return &model.Response{
		Parts: []model.Part{model.TextPart(text)}, Stop: model.StopEnd, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}, Model: "mind-1",
	}
}

// wants is an answer that wants calls: name, arguments, name, arguments.
func wants(text string, namesAndArguments ...string) *model.Response {
	r := says(text)
	r.Stop = model.StopToolCalls
	for i := 0; i < len(namesAndArguments); i += 2 {
		r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{
			ID: "c" + uuid.NewString()[:8], Name: namesAndArguments[i], Arguments: namesAndArguments[i+1],
		}})
	}
	return r
}

// script answers one request after the other.
func script(replies ...*model.Response) func(context.Context, *model.Request, func(string)) (*model.Response, error) {
	var mu sync.Mutex
	return func(context.Context, *model.Request, func(string)) (*model.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(replies) == 0 {
			return says("I have nothing more to say."), nil
		}
		reply := replies[0]
		replies = replies[1:]
		return reply, nil
	}
}

// process is one process: its services, and how it ends.
type process struct {
	calls    *call.Service
	converse *converse.Service
	agents   *agent.Service
	catalog  *catalog.Service
	stop     func()
}

// world is a database with an agent that has a model, a gated skill "files" and an auto-approved one "open".
type world struct {
	*process
	t        testing.TB
	db       *postgres.DB
	server   *server
	mind     *mind
	agent    *agent.Agent
	reviewer uuid.UUID
	traces   *telemetry.Tracer
	box      *secret.Box
	spec     agent.AgentSpec
	blocked  atomic.Bool // whoever a conversation is held for
	turnTime time.Duration
}

func newWorld(t testing.TB) *world { return newTracedWorld(t, telemetry.Off()) }

func newTracedWorld(t testing.TB, traces *telemetry.Tracer) *world {
	t.Helper()
	w := &world{traces: traces}
	w.build(t)
	return w
}

// build makes what a world lacks.
func (w *world) build(t testing.TB) {
	t.Helper()
	w.t, w.db, w.server, w.mind, w.reviewer = t, postgrestest.New(t), &server{}, &mind{}, uuid.New()
	var err error
	w.box, err = secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	w.process = w.start()
	t.Cleanup(w.stop)
	hour := agent.Duration(time.Hour)
	w.spec = agent.AgentSpec{
		Name: "billing", Instructions: "You file invoices.", Model: &agent.ModelSpec{Provider: "openai", Name: "mind-1", InputPrice: 1, OutputPrice: 2},
		Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}},
	}
	_, err = w.agents.Apply(t.Context(), audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/files", ApprovalTimeout: &hour},
			{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open", AutoApprove: true},
		},
		Agents: []agent.AgentSpec{w.spec},
	}, false)
	check(t, err)
	w.load()
}

func (w *world) load() {
	w.t.Helper()
	var err error
	w.agents.Invalidate()
	w.agent, err = w.agents.AgentByName(w.t.Context(), "billing")
	check(w.t, err)
}

// limit changes what conversations may do.
func (w *world) limit(l agent.Limits) {
	w.t.Helper()
	w.spec.Limits = &l
	_, err := w.agents.Apply(w.t.Context(), audit.System(), agent.Spec{Agents: []agent.AgentSpec{w.spec}}, false)
	check(w.t, err)
	w.load()
}

// start is another process on the same database.
func (w *world) start() *process {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	pool := w.db.Pool()
	p := &process{}
	discovery, err := tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: pool, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.server}, Listed: agent.RecordListing, Logger: log, Now: time.Now,
	})
	check(w.t, err)
	p.agents, err = agent.New(agent.Config{Pool: pool, Discovery: discovery, Box: w.box, Logger: log, Now: time.Now})
	check(w.t, err)
	p.catalog, err = catalog.New(catalog.Config{Pool: pool, Agents: p.agents, Discovery: discovery, Logger: log, Now: time.Now})
	check(w.t, err)
	instance := uuid.New()
	p.calls, err = call.New(call.Config{
		Pool: pool, Agents: p.agents, Discovery: discovery, Logger: log, Now: time.Now, Instance: instance, Traces: w.traces,
		Publish: func(b *pgx.Batch, condition string, list []call.Happening) error {
			return p.converse.Publish(b, condition, list)
		},
		CancelCarried: func(ctx context.Context, c *call.Call) error { return p.converse.CancelAsked(ctx, c) },
	})
	check(w.t, err)
	observer := model.NewObserver(w.traces, time.Now)
	p.converse, err = converse.New(converse.Config{
		Pool: pool, Agents: p.agents, Catalog: p.catalog, Calls: p.calls, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Now: time.Now, Instance: instance,
		Provider: func(spec agent.ModelSpec) (model.Provider, error) {
			return observer.Observe(w.mind, spec.Provider, ""), nil
		}, ResultBytes: 1000,
		Blocked: func(context.Context, uuid.UUID) (bool, error) { return w.blocked.Load(), nil }, Traces: w.traces, TurnTime: w.turnTime,
	})
	check(w.t, err)
	workers := river.NewWorkers()
	p.calls.AddWorkers(workers)
	p.converse.AddWorkers(workers)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		ID: instance.String(), Logger: log, Workers: workers, FetchCooldown: time.Millisecond, FetchPollInterval: 50 * time.Millisecond,
		Queues: map[string]river.QueueConfig{
			river.QueueDefault: {MaxWorkers: 5}, call.ExecuteQueue: {MaxWorkers: 20}, converse.JobQueue: {MaxWorkers: 20},
		},
	})
	check(w.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	check(w.t, p.calls.Start(ctx, client))
	p.converse.Start(ctx, client)
	check(w.t, client.Start(ctx))
	var listening sync.WaitGroup
	listening.Go(func() {
		w.db.Listen(ctx, []string{call.Channel, registry.Channel, converse.Channel}, func(channel, payload string) {
			switch channel {
			case call.Channel:
				p.calls.HandleNotification(payload)
			case converse.Channel:
				p.converse.HandleNotification(payload)
			default:
				discovery.Invalidate()
				p.agents.Invalidate()
			}
		}, func() {
			p.calls.CatchUp()
			p.converse.CatchUp()
		})
	})
	p.stop = sync.OnceFunc(func() {
		p.converse.Drain()
		check(w.t, client.Stop(context.Background()))
		p.converse.Close()
		check(w.t, p.calls.Stop(context.Background()))
		cancel()
		listening.Wait()
		p.catalog.Close()
		p.agents.Close()
		discovery.Close()
	})
	return p
}

// begin starts a conversation with a message.
func (w *world) begin(message string) uuid.UUID {
	w.t.Helper()
	c, err := w.converse.Begin(w.t.Context(), converse.Opening{Agent: w.agent, Message: message})
	check(w.t, err)
	return c.ID
}

func (w *world) viewer() converse.Viewer { return converse.Viewer{AgentID: w.agent.ID} }

// until follows a conversation until it stands so.
func (w *world) until(id uuid.UUID, status converse.Status) converse.Conversation {
	w.t.Helper()
	return w.untilIt(id, string(status), func(c *converse.Conversation) bool { return c.Status == status })
}

func (w *world) untilIt(id uuid.UUID, what string, good func(*converse.Conversation) bool) converse.Conversation {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var found converse.Conversation
	err := w.converse.Follow(ctx, w.viewer(), id, 0, func(e converse.Event) error {
		if e.Conversation != nil {
			found = *e.Conversation
			if good(&found) {
				return errEnough
			}
		}
		return nil
	})
	if err != errEnough { //nolint:errorlint // it is passed through as it is
		w.t.Fatalf("conversation %s is not %s but %+v: %v\n%s", id, what, found, err, w.transcript(id))
	}
	return found
}

var errEnough = errors.New("enough")

// transcript is a conversation in short, a line an entry.
func (w *world) transcript(id uuid.UUID) string {
	w.t.Helper()
	list, err := w.converse.Entries(context.Background(), w.viewer(), id, 0, 500)
	check(w.t, err)
	var b strings.Builder
	for i, e := range list {
		if e.Seq != int64(i+1) {
			w.t.Errorf("entry %d has number %d", i+1, e.Seq)
		}
		switch e.Kind {
		case converse.KindUser:
			fmt.Fprintf(&b, "user: %s\n", e.User.Text)
		case converse.KindAssistant:
			fmt.Fprintf(&b, "assistant: %s", e.Assistant.Text())
			for _, c := range e.Assistant.Calls {
				fmt.Fprintf(&b, " [%s]", c.Name)
			}
			b.WriteString("\n")
		case converse.KindTools:
			for _, r := range e.Tools.Results {
				fmt.Fprintf(&b, "told: %s\n", strings.ReplaceAll(r.Text, "\n", " "))
			}
		case converse.KindCall:
			fmt.Fprintf(&b, "call: %s %s\n", e.Call.Tool, e.Call.Status)
		case converse.KindNotice:
			fmt.Fprintf(&b, "notice: %s\n", e.Notice.Code)
		}
	}
	return b.String()
}

// parked waits for as many calls that want a decision.
func (w *world) parked(n int) []call.Waiting {
	w.t.Helper()
	var list []call.Waiting
	eventually.Holds(w.t, fmt.Sprintf("%d parked calls", n), func() bool {
		var err error
		list, _, err = w.calls.Queue(w.t.Context(), approval.QueueFilter{Limit: 100})
		check(w.t, err)
		return len(list) == n
	})
	return list
}

func (w *world) decide(waiting call.Waiting, approve bool, note string) {
	w.t.Helper()
	_, err := w.calls.Decide(w.t.Context(), call.Decision{
		CallID: waiting.Call.ID, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: note, By: w.reviewer,
	})
	check(w.t, err)
}

// patience ends a test that hangs. It is far above what a machine under heavy load takes.
const patience = 5 * time.Minute

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// waitingIDs are the calls that wait for a decision.
func (w *world) waitingIDs() ([]uuid.UUID, error) {
	list, _, err := w.calls.Queue(w.t.Context(), approval.QueueFilter{Limit: 100})
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].Call.ID
	}
	return ids, err
}
