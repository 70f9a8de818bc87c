package converse_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// server records the trace context of each call.
type server struct {
	runtimetest.Source

	traceparents []string
}

func (f *server) Call(ctx context.Context, to tool.Server, r tool.CallRequest) (tool.Result, error) {
	f.Lock()
	f.traceparents = append(f.traceparents, telemetry.ToHand(ctx).Traceparent)
	f.Unlock()
	return f.Source.Call(ctx, to, r)
}

func textResult(text string) tool.Result {
	raw, _ := json.Marshal(map[string]any{"content": []map[string]string{{"type": "text", "text": text}}})
	return tool.Result{Raw: raw}
}

// mind is a model whose answers a test determines.
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

func (m *mind) lastRequest() *model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[len(m.requests)-1]
}

func (m *mind) countRequests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

// wellFormed checks the rules of all providers: roles alternate, and every call is answered in the next message.
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

// lastResults returns the call results in the last message of a request.
func lastResults(r *model.Request) []model.ToolResult {
	var list []model.ToolResult
	for _, p := range r.Messages[len(r.Messages)-1].Parts {
		if p.Result != nil {
			list = append(list, *p.Result)
		}
	}
	return list
}

func joinTexts(parts []model.Part) string {
	var all []string
	for _, p := range parts {
		if p.Text != nil {
			all = append(all, p.Text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// answerText returns an answer of text.
func answerText(text string) *model.Response {
	return &model.Response{
		Parts: []model.Part{model.TextPart(text)}, Stop: model.StopEnd, Usage: model.Usage{InputTokens: 10, OutputTokens: 5}, Model: "mind-1",
	}
}

// answerCalls returns an answer with calls, as pairs of name and arguments.
func answerCalls(text string, namesAndArguments ...string) *model.Response {
	r := answerText(text)
	r.Stop = model.StopToolCalls
	for i := 0; i < len(namesAndArguments); i += 2 {
		r.Parts = append(r.Parts, model.Part{Call: &model.ToolCall{
			ID: "c" + uuid.NewString()[:8], Name: namesAndArguments[i], Arguments: namesAndArguments[i+1],
		}})
	}
	return r
}

// answerInTurn answers requests in turn.
func answerInTurn(replies ...*model.Response) func(context.Context, *model.Request, func(string)) (*model.Response, error) {
	var mu sync.Mutex
	return func(context.Context, *model.Request, func(string)) (*model.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		if len(replies) == 0 {
			return answerText("I have nothing more to say."), nil
		}
		reply := replies[0]
		replies = replies[1:]
		return reply, nil
	}
}

// process is a set of services with its own lifetime.
type process struct {
	calls    *call.Service
	converse *converse.Service
	agents   *agent.Service
	registry *runtimetest.Registry
	stop     func()
}

// world is a database with an agent that has a model, a gated skill "files" and an auto-approved one "open".
type world struct {
	*process
	t        testing.TB
	db       *worldtest.DB
	server   *server
	mind     *mind
	agent    *agent.Agent
	reviewer uuid.UUID
	traces   *telemetry.Tracer
	box      *secret.Box
	spec     agent.AgentSpec
	blocked  atomic.Bool // the principal of every conversation
	turnTime time.Duration
}

func newWorld(t testing.TB) *world { return newTracedWorld(t, telemetry.Off()) }

func newTracedWorld(t testing.TB, traces *telemetry.Tracer) *world {
	t.Helper()
	w := &world{traces: traces}
	w.build(t)
	return w
}

// build adds the missing parts of a world.
func (w *world) build(t testing.TB) {
	t.Helper()
	w.t, w.db, w.server, w.mind, w.reviewer, w.box = t, worldtest.NewDB(t), &server{}, &mind{}, uuid.New(), runtimetest.NewBox(t)
	w.server.Offer(
		`{"name":"write","description":"Write","inputSchema":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}`,
		`{"name":"look","description":"Look","inputSchema":{"type":"object"}}`)
	w.server.Answer(func(r tool.CallRequest) (tool.Result, error) { return textResult("done " + string(r.Arguments)), nil })
	w.process = w.start()
	t.Cleanup(w.stop)
	hour := agent.Duration(time.Hour)
	w.spec = agent.AgentSpec{
		Name: "billing", Instructions: "You file invoices.", Model: &agent.ModelSpec{Provider: "openai", Name: "mind-1", InputPrice: 1, OutputPrice: 2},
		Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}},
	}
	w.registry.ApplyTwoSkills(func(files *agent.SkillSpec) { files.ApprovalTimeout = &hour }, w.spec)
	w.loadAgent()
}

func (w *world) loadAgent() {
	w.t.Helper()
	w.agents.Invalidate()
	w.agent = w.registry.Agent("billing")
}

// setLimits changes the agent's limits.
func (w *world) setLimits(l agent.Limits) {
	w.t.Helper()
	w.spec.Limits = &l
	w.registry.Apply(agent.Spec{Agents: []agent.AgentSpec{w.spec}})
	w.loadAgent()
}

// start starts another process on the same database.
func (w *world) start() *process {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	pool := w.db.Pool()
	r := runtimetest.NewRegistry(w.t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.server}, Agent: agent.Config{Box: w.box},
	})
	p := &process{registry: r, agents: r.Agents}
	var err error
	instance := uuid.New()
	p.calls, err = call.New(call.Config{
		Pool: pool, Agents: p.agents, Discovery: r.Discovery, Logger: log, Now: time.Now, Instance: instance, Traces: w.traces,
		Publish: func(b *pgx.Batch, condition string, list []call.Happening) error {
			return p.converse.Publish(b, condition, list)
		},
		CancelCarried: func(ctx context.Context, c *call.Call) error { return p.converse.CancelAsked(ctx, c) },
	})
	check(w.t, err)
	observer := model.NewObserver(w.traces, time.Now)
	p.converse, err = converse.New(converse.Config{
		Pool: pool, Agents: p.agents, Catalog: r.Catalog, Calls: p.calls, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)), Now: time.Now, Instance: instance,
		Provider: func(spec agent.ModelSpec) (model.Provider, error) {
			return observer.Observe(w.mind, spec.Provider, ""), nil
		}, ResultBytes: 1000,
		Blocked: func(context.Context, uuid.UUID) (bool, error) { return w.blocked.Load(), nil }, Traces: w.traces, TurnTime: w.turnTime,
	})
	check(w.t, err)
	client := w.db.NewQueue(log, instance, map[string]int{river.QueueDefault: 5, call.ExecuteQueue: 20, converse.JobQueue: 20}, p.calls, p.converse)
	ctx, cancel := context.WithCancel(context.Background())
	check(w.t, p.calls.Start(ctx, client))
	p.converse.Start(ctx, client)
	check(w.t, client.Start(ctx))
	stopListening := w.db.Handle(map[postgres.Channel]func(string){
		call.Channel: p.calls.HandleNotification, converse.Channel: p.converse.HandleNotification, registry.Channel: r.Invalidate,
	}, func() {
		p.calls.CatchUp()
		p.converse.CatchUp()
	})
	p.stop = sync.OnceFunc(func() {
		p.converse.Drain()
		check(w.t, client.Stop(context.Background()))
		p.converse.Close()
		check(w.t, p.calls.Stop(context.Background()))
		cancel()
		stopListening()
	})
	return p
}

// beginConversation starts a conversation with a message.
func (w *world) beginConversation(message string) uuid.UUID {
	w.t.Helper()
	c, err := w.converse.Begin(w.t.Context(), converse.Opening{Agent: w.agent, Message: message})
	check(w.t, err)
	return c.ID
}

func (w *world) newViewer() converse.Viewer { return converse.Viewer{AgentID: w.agent.ID} }

// waitForStatus waits until a conversation has the status.
func (w *world) waitForStatus(id uuid.UUID, status converse.Status) converse.Conversation {
	w.t.Helper()
	return w.untilIt(id, string(status), func(c *converse.Conversation) bool { return c.Status == status })
}

func (w *world) untilIt(id uuid.UUID, what string, good func(*converse.Conversation) bool) converse.Conversation {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var found converse.Conversation
	err := w.converse.Follow(ctx, w.newViewer(), id, 0, func(e converse.Event) error {
		if e.Conversation != nil {
			found = *e.Conversation
			if good(&found) {
				return errEnough
			}
		}
		return nil
	})
	if err != errEnough { //nolint:errorlint // it is passed through as it is
		w.t.Fatalf("conversation %s is not %s: %+v: %v\n%s", id, what, found, err, w.transcript(id))
	}
	return found
}

var errEnough = errors.New("enough")

// transcript returns a short form of a conversation, one line per entry.
func (w *world) transcript(id uuid.UUID) string {
	w.t.Helper()
	list, err := w.converse.Entries(context.Background(), w.newViewer(), id, 0, 500)
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

// waitForParked waits for n calls that need a decision, and returns them.
func (w *world) waitForParked(n int) []call.Waiting {
	w.t.Helper()
	var list []call.Waiting
	eventually.Holds(w.t, fmt.Sprintf("%d parked calls", n), func() bool {
		var err error
		list, _, err = w.calls.ListQueue(w.t.Context(), approval.QueueFilter{Limit: 100})
		check(w.t, err)
		return len(list) == n
	})
	return list
}

func (w *world) decideCall(waiting call.Waiting, approve bool, note string) {
	w.t.Helper()
	_, err := w.calls.Decide(w.t.Context(), call.Decision{
		CallID: waiting.Call.ID, Approve: approve, Digest: waiting.Approval.Digest.String(), Note: note, By: w.reviewer,
	})
	check(w.t, err)
}

// patience is the limit for a test that hangs, far above the time that a busy machine needs.
const patience = 5 * time.Minute

// waitingIDs returns the calls that wait for a decision.
func (w *world) waitingIDs() ([]uuid.UUID, error) {
	list, _, err := w.calls.ListQueue(w.t.Context(), approval.QueueFilter{Limit: 100})
	ids := make([]uuid.UUID, len(list))
	for i := range list {
		ids[i] = list[i].Call.ID
	}
	return ids, err
}
