package resource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/resource"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a skill's scripted server, with answers by method, or by method and name or cursor ("resources/read x:1").
type server struct {
	caps    tool.Capabilities
	answers map[string]string
	errs    map[string]*tool.Failure
}

// world is an agent with skills, their fake servers, and a database.
type world struct {
	t        testing.TB
	db       *postgres.DB
	service  *resource.Service
	who      resource.Who
	at       atomic.Int64
	mu       sync.Mutex
	offers   []catalog.Offer
	servers  map[string]*server
	sent     []string // "skill method name params"
	requests []tool.Request
	returned map[string][]string // by URI, the skills whose calls returned it in the conversation
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		t: t, db: postgrestest.New(t), servers: map[string]*server{}, returned: map[string][]string{},
		who: resource.Who{AgentID: uuid.New(), Conversation: uuid.New()},
	}
	var err error
	w.service, err = resource.New(resource.Config{
		Catalog: w, Sources: w, Upstream: w, Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return time.Unix(0, w.at.Load()) }, Returned: w.findReturned,
	})
	check(t, err)
	t.Cleanup(w.service.Close)
	return w
}

// addSkill adds a skill with its server, and applies change.
func (w *world) addSkill(name string, change ...func(*catalog.Offer)) *server {
	o := catalog.Offer{
		Skill: &agent.Skill{ID: uuid.New(), Name: name, SkillSettings: agent.SkillSettings{CallTimeout: time.Minute}}, Prefix: name, Open: true,
		Server: tool.Server{Skill: name, Revision: 1, Transport: tool.HTTP},
	}
	for _, f := range change {
		f(&o)
	}
	w.offers = append(w.offers, o)
	s := &server{
		caps:    tool.Capabilities{ProtocolVersion: "2025-11-25", Resources: true, Prompts: true, Completions: true},
		answers: map[string]string{}, errs: map[string]*tool.Failure{},
	}
	for _, kind := range []resource.Kind{resource.Resources, resource.Templates, resource.Prompts} {
		s.answers[kind.Method()] = `{"` + kind.Member() + `":[]}`
	}
	w.servers[name] = s
	return s
}

func setGated(o *catalog.Offer)     { o.Open = false }
func removePrefix(o *catalog.Offer) { o.Prefix = "" }

func (w *world) Offers(_ context.Context, agentID, principal uuid.UUID) ([]catalog.Offer, error) {
	if agentID != w.who.AgentID || principal != w.who.Principal {
		return nil, agent.ErrNotFound
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.offers), nil
}

func (w *world) findReturned(_ context.Context, who resource.Who, uri string) (skills []uuid.UUID, err error) {
	if who != w.who {
		return nil, nil
	}
	for _, name := range w.returned[uri] {
		for _, o := range w.offers {
			if o.Skill.Name == name {
				skills = append(skills, o.Skill.ID)
			}
		}
	}
	return skills, nil
}

func (w *world) Subscribe(_ context.Context, to tool.Server, uri string) error {
	return w.subscribing(to, "subscribe", uri)
}

func (w *world) Unsubscribe(_ context.Context, to tool.Server, uri string) {
	_ = w.subscribing(to, "unsubscribe", uri)
}

func (w *world) subscribing(to tool.Server, what, uri string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, to.Skill+" "+what+" "+uri)
	for _, key := range []string{what + " " + uri, what} {
		if failure := w.servers[to.Skill].errs[key]; failure != nil {
			return failure
		}
	}
	return nil
}

func (w *world) Source(transport tool.Transport) (tool.Source, error) {
	if transport.IsAPI() {
		return apiSource{}, nil
	}
	return source{w}, nil
}

// apiSource is a source without the optional interfaces.
type apiSource struct{ tool.Source }

// source is the source of all skills over MCP. It only serves requests.
type source struct{ w *world }

func (s source) Request(_ context.Context, to tool.Server, r tool.Request) (json.RawMessage, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.sent = append(s.w.sent, strings.TrimSpace(fmt.Sprintf("%s %s %s", to.Skill, r.Method, r.Params)))
	s.w.requests = append(s.w.requests, r)
	server := s.w.servers[to.Skill]
	key := r.Method
	var params struct{ Cursor string }
	if json.Unmarshal(r.Params, &params) == nil && params.Cursor != "" {
		key += " " + params.Cursor
	}
	for _, key := range []string{key + " " + r.Name, key} {
		if failure := server.errs[key]; failure != nil {
			return nil, failure
		}
		if answer, ok := server.answers[key]; ok {
			return json.RawMessage(answer), nil
		}
	}
	return nil, &tool.Failure{Kind: tool.JSONRPCError, RPC: json.RawMessage(`{"code":-32002,"message":"not here"}`)}
}

func (s source) Capabilities(_ context.Context, to tool.Server) (tool.Capabilities, error) {
	return s.w.servers[to.Skill].caps, nil
}

func (source) List(context.Context, tool.Server) (tool.Listing, error) { panic("unused") }
func (source) Call(context.Context, tool.Server, tool.CallRequest) (tool.Result, error) {
	panic("unused")
}
func (source) Probe(context.Context, tool.Server, func(tool.Step)) error { panic("unused") }
func (source) Ready(context.Context, tool.Server) (*tool.Connect, error) { panic("unused") }
func (source) Forget(uuid.UUID)                                          { panic("unused") }

// takeRequests returns and clears the sent requests.
func (w *world) takeRequests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

// list renders a list: names, then problems.
func (w *world) list(kind resource.Kind) string {
	w.t.Helper()
	list, err := w.service.List(w.t.Context(), w.who, kind)
	check(w.t, err)
	var shown []string
	for _, e := range list.Entries {
		shown = append(shown, e.Name)
	}
	for _, p := range list.Problems {
		shown = append(shown, "("+p.Skill+" "+p.Kind+")")
	}
	return strings.Join(shown, " ")
}

func (w *world) read(uri string) (string, error) {
	raw, err := w.service.Read(w.t.Context(), w.who, uri, resource.Ask{})
	return string(raw), err
}

// auditEvents returns the conversation's audit events, oldest first.
func (w *world) auditEvents() []string {
	w.t.Helper()
	events, err := audit.List(w.t.Context(), w.db.Pool(), audit.Filter{Subject: w.who.Conversation})
	check(w.t, err)
	var shown []string
	for _, e := range slices.Backward(events) {
		var data map[string]any
		check(w.t, json.NewDecoder(bytes.NewReader(e.Raw)).Decode(&data))
		name := data["uri"]
		if name == nil {
			name = data["prompt"]
		}
		shown = append(shown, fmt.Sprintf("%s %s %v %v", e.Actor.Kind, e.Action, data["skill"], name))
	}
	return shown
}

func newFailure(kind tool.FailureKind, message string) *tool.Failure {
	return &tool.Failure{Kind: kind, Effect: tool.EffectNone, Message: message}
}
