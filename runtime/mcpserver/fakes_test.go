package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// fakeCalls is a call service in memory. The tool's name determines the outcome of a call: "gated" parks, "slow" executes until
// the test finishes it, and other calls end at once with the outcome of the test.
type fakeCalls struct {
	fakeGate

	mu        sync.Mutex
	calls     map[uuid.UUID]*fakeCall
	order     []uuid.UUID
	delivered []uuid.UUID
	submitted []call.Submission
	traces    []telemetry.Handed // that each was submitted in
	submitErr error
	waitErr   error
	answerErr error
	outcome   func(sub call.Submission) call.Call // of calls that end at once
	arrived   chan uuid.UUID                      // gets each call that has to wait
}

type fakeCall struct {
	call.Call
	args      string
	done      chan struct{}
	questions []call.Question // that are open
	answers   map[int]call.Answer
	news      []func(call.Listener) // for each that waits
	changed   chan struct{}         // closed and replaced at each change
	cancel    bool                  // a cancellation was requested
	reviewing time.Time             // until when a reviewer decides about a question
}

// review sets the deadline of a reviewer's decision about a question; zero: it was decided.
func (f *fakeCalls) review(id uuid.UUID, until time.Time) {
	f.change(id, func(c *fakeCall) { c.Status, c.reviewing = call.Executing, until })
}

func (f *fakeCalls) WaitDeadline(_ context.Context, viewer call.Viewer, id uuid.UUID, status call.Status) (time.Time, error) {
	c, err := f.Get(context.Background(), viewer, id)
	switch {
	case err != nil || c.Status != status:
		return time.Time{}, err
	case status == call.Parked:
		return deadline, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[id].reviewing, nil
}

// ask adds a question of the call's server to its client.
func (f *fakeCalls) ask(id uuid.UUID, q call.Question) {
	f.change(id, func(c *fakeCall) { c.Status, c.questions = call.Executing, append(c.questions, q) })
}

// tell sends an event of a running call to its listeners.
func (f *fakeCalls) tell(id uuid.UUID, kind call.EventKind, params string) {
	f.change(id, func(c *fakeCall) {
		c.news = append(c.news, func(l call.Listener) {
			if l.Event != nil {
				l.Event(call.Event{CallID: id, Kind: kind, Params: json.RawMessage(params)})
			}
		})
	})
}

func (f *fakeCalls) change(id uuid.UUID, do func(*fakeCall)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.calls[id]
	do(c)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (f *fakeCalls) Questions(_ context.Context, viewer call.Viewer, id uuid.UUID) ([]call.Question, error) {
	if _, err := f.Get(context.Background(), viewer, id); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls[id].questions), nil
}

func (f *fakeCalls) Answer(_ context.Context, viewer call.Viewer, id uuid.UUID, number int, a call.Answer) error {
	if f.answerErr != nil {
		return f.answerErr
	}
	if _, err := f.Get(context.Background(), viewer, id); err != nil {
		return err
	}
	found := false
	f.change(id, func(c *fakeCall) {
		for i, q := range c.questions {
			if q.Number == number {
				found = true
				c.questions = slices.Delete(c.questions, i, i+1)
				c.answers[number] = a
				return
			}
		}
	})
	if !found {
		return call.ErrNotFound
	}
	return nil
}

func (f *fakeCalls) answer(id uuid.UUID, number int) (call.Answer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.calls[id].answers[number]
	return a, ok
}

func (f *fakeCalls) RequestCancel(_ context.Context, viewer call.Viewer, id uuid.UUID) error {
	if _, err := f.Get(context.Background(), viewer, id); err != nil {
		return err
	}
	f.change(id, func(c *fakeCall) { c.cancel = true })
	return nil
}

func newFakeCalls() *fakeCalls {
	return &fakeCalls{calls: map[uuid.UUID]*fakeCall{}, arrived: make(chan uuid.UUID, 100)}
}

var deadline = time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)

func (f *fakeCalls) Submit(ctx context.Context, sub call.Submission) (call.Ticket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.traces = append(f.traces, telemetry.ToHand(ctx))
	f.submitted = append(f.submitted, sub)
	if f.submitErr != nil {
		return call.Ticket{}, f.submitErr
	}
	gated := sub.Entry.Tool.Name == "gated"
	if gated {
		for _, id := range f.order {
			c := f.calls[id]
			if c.Tool == sub.Entry.Tool.Name && c.args == string(sub.Arguments) && c.AgentID == sub.Agent.ID && c.PrincipalID == sub.PrincipalID && !slices.Contains(f.delivered, id) {
				f.arrived <- id
				return call.Ticket{ID: id, Status: c.Status, Deadline: deadline, Gated: true, Attached: true}, nil
			}
		}
	}
	c := &fakeCall{
		args: string(sub.Arguments), done: make(chan struct{}), changed: make(chan struct{}), answers: map[int]call.Answer{},
	}
	c.Call = call.Call{
		ID: uuid.New(), AgentID: sub.Agent.ID, PrincipalID: sub.PrincipalID,
		Tool: sub.Entry.Tool.Name, ExposedName: sub.Entry.Name, Arguments: sub.Arguments, Gated: gated, Status: call.Executing,
	}
	f.calls[c.ID] = c
	f.order = append(f.order, c.ID)
	ticket := call.Ticket{ID: c.ID, Status: call.Executing, Gated: gated}
	switch {
	case gated:
		c.Status, ticket.Status, ticket.Deadline = call.Parked, call.Parked, deadline
		f.arrived <- c.ID
	case c.Tool == "slow":
		f.arrived <- c.ID
	default:
		f.end(c, f.outcome(sub))
		if c.Status == call.Invalid || c.Status == call.Denied {
			ticket.Status = c.Status
		}
	}
	return ticket, nil
}

func (f *fakeCalls) end(c *fakeCall, outcome call.Call) {
	c.Status, c.Code, c.Failure, c.Effect = outcome.Status, outcome.Code, outcome.Failure, outcome.Effect
	c.Message, c.Result, c.Resolution = outcome.Message, outcome.Result, outcome.Resolution
	if outcome.Arguments != nil {
		c.Arguments, c.Submitted = outcome.Arguments, outcome.Submitted
	}
	close(c.done)
}

func (f *fakeCalls) finishCall(id uuid.UUID, outcome call.Call) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.end(f.calls[id], outcome)
}

func (f *fakeCalls) Wait(ctx context.Context, id uuid.UUID, l call.Listener) (*call.Call, error) {
	heard := 0
	for {
		f.mu.Lock()
		c, err := f.calls[id], f.waitErr
		if err != nil {
			f.mu.Unlock()
			return nil, err
		}
		changed, open, news := c.changed, slices.Clone(c.questions), c.news[heard:]
		heard = len(c.news)
		reviewing := c.reviewing
		f.mu.Unlock()
		if l.Reviewing != nil {
			l.Reviewing(reviewing)
		}
		for _, tell := range news {
			tell(l)
		}
		if len(open) > 0 && l.Asked != nil {
			if err := l.Asked(open); err != nil {
				return nil, err
			}
		}
		select {
		case <-c.done:
			f.mu.Lock()
			defer f.mu.Unlock()
			return &c.Call, nil
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (f *fakeCalls) MarkDelivered(_ context.Context, id uuid.UUID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.delivered = append(f.delivered, id)
	return nil
}

func (f *fakeCalls) deliveries() []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.delivered)
}

func (f *fakeCalls) Get(_ context.Context, viewer call.Viewer, id uuid.UUID) (call.Call, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, ok := f.calls[id]
	if !ok || c.AgentID != viewer.AgentID || c.PrincipalID != viewer.PrincipalID {
		return call.Call{}, call.ErrNotFound
	}
	return c.Call, nil
}

// fakeAgents knows two agents, and keeps conversations in memory.
type fakeAgents struct {
	mu            sync.Mutex
	agents        map[string]*agent.Agent // by name
	keys          map[string]string       // to names
	catalog       *catalog.Catalog
	problems      []catalog.Problem
	conversations map[uuid.UUID]*catalog.Conversation
	clients       []json.RawMessage
	err           error
	looks         int          // of conversations
	look          func() error // the error of a read; nil: none
}

func newFakeAgents(t testing.TB, tools ...string) *fakeAgents {
	t.Helper()
	f := &fakeAgents{
		agents: map[string]*agent.Agent{
			"billing": {ID: uuid.New(), Name: "billing"},
			"other":   {ID: uuid.New(), Name: "other"},
		},
		keys:          map[string]string{"key-billing": "billing", "key-other": "other"},
		conversations: map[uuid.UUID]*catalog.Conversation{},
	}
	f.catalog = newCatalog(t, tools...)
	return f
}

func newCatalog(t testing.TB, tools ...string) *catalog.Catalog {
	t.Helper()
	entries := make([]catalog.Entry, len(tools))
	for i, definition := range tools {
		d, err := tool.ParseDefinition(json.RawMessage(definition))
		if err != nil {
			t.Fatal(err)
		}
		entries[i] = catalog.Entry{Name: "files__" + d.Name, Skill: "files", Tool: d}
	}
	return catalog.NewCatalog(entries)
}

// relist changes the catalog of all conversations, as an operator's change does.
func (f *fakeAgents) relist(to *catalog.Catalog, problems ...catalog.Problem) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.catalog, f.problems = to, problems
	for id, c := range f.conversations {
		changed := *c
		changed.Catalog, changed.Problems = to, problems
		f.conversations[id] = &changed
	}
}

// fail makes all methods return an error; nil: none.
func (f *fakeAgents) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// revoke makes a key invalid.
func (f *fakeAgents) revoke(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.keys, key)
}

// setRead makes reads of conversations return the error of look.
func (f *fakeAgents) setRead(look func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.look = look
}

// takeReads returns the number of reads of conversations since its last call.
func (f *fakeAgents) takeReads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.looks
	f.looks = 0
	return n
}

// countRead counts a read of a conversation.
func (f *fakeAgents) countRead() error {
	f.looks++
	if f.err != nil {
		return f.err
	}
	if f.look != nil {
		return f.look()
	}
	return nil
}

func (f *fakeAgents) Authenticate(_ context.Context, key string) (*agent.Agent, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if name, ok := f.keys[key]; ok {
		return f.agents[name], nil
	}
	return nil, agent.ErrUnauthenticated
}

func (f *fakeAgents) AgentByName(_ context.Context, name string) (*agent.Agent, error) {
	if a, ok := f.agents[name]; ok {
		return a, nil
	}
	return nil, fmt.Errorf("agent %s: %w", name, agent.ErrNotFound)
}

func (f *fakeAgents) StartConversation(_ context.Context, a *agent.Agent, principal uuid.UUID, version string, client json.RawMessage) (*catalog.Conversation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.start(a, principal, "", version, client), nil
}

func (f *fakeAgents) start(a *agent.Agent, principal uuid.UUID, name, version string, client json.RawMessage) *catalog.Conversation {
	for _, c := range f.conversations {
		if name != "" && c.Name == name && c.AgentID == a.ID && c.PrincipalID == principal {
			return c
		}
	}
	c := &catalog.Conversation{
		ID: uuid.New(), AgentID: a.ID, PrincipalID: principal, Name: name,
		Catalog: f.catalog, Problems: f.problems, ProtocolVersion: version,
	}
	var said struct{ Capabilities json.RawMessage }
	if json.Unmarshal(client, &said) == nil {
		c.Capabilities = said.Capabilities
	}
	f.conversations[c.ID] = c
	f.clients = append(f.clients, client)
	return c
}

func (f *fakeAgents) NamedConversation(_ context.Context, a *agent.Agent, principal uuid.UUID, name, version string, client json.RawMessage) (*catalog.Conversation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return nil, f.err
	}
	if err := f.countRead(); err != nil {
		return nil, err
	}
	return f.start(a, principal, name, version, client), nil
}

func (f *fakeAgents) Conversation(_ context.Context, agentID, principal, id uuid.UUID) (*catalog.Conversation, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.countRead(); err != nil {
		return nil, err
	}
	c, ok := f.conversations[id]
	if !ok || c.AgentID != agentID || c.PrincipalID != principal || c.EndedAt != nil {
		return nil, fmt.Errorf("conversation %s: %w", id, agent.ErrNotFound)
	}
	return c, nil
}

func (f *fakeAgents) EndConversation(ctx context.Context, agentID, principal, id uuid.UUID) error {
	c, err := f.Conversation(ctx, agentID, principal, id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	ended := *c
	ended.EndedAt = &now
	f.conversations[id] = &ended
	return nil
}

func (f *fakeAgents) SetLogLevel(ctx context.Context, agentID, principal, id uuid.UUID, level string) error {
	c, err := f.Conversation(ctx, agentID, principal, id)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := *c
	changed.LogLevel = level
	f.conversations[id] = &changed
	return nil
}

func (f *fakeAgents) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for _, c := range f.conversations {
		names = append(names, c.Name)
	}
	return names
}

// fakeIdentity knows people by their tokens. People of other issuers have an access by their subject.
type fakeIdentity map[string]identity.Access

func (f fakeIdentity) Vouched(_ context.Context, claims identity.Claims) (uuid.UUID, error) {
	if claims.Subject == "blocked" {
		return uuid.Nil, identity.ErrBlocked
	}
	return f[claims.Issuer+" "+claims.Subject].Person.ID, nil
}

func (f fakeIdentity) Authenticate(_ context.Context, token string) (identity.Access, error) {
	if access, ok := f[token]; ok {
		return access, nil
	}
	return identity.Access{}, identity.ErrUnauthenticated
}
