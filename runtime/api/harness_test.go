package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fakeSource is the skill servers: what they offer, and how they answer.
type fakeSource struct {
	mu    sync.Mutex
	tools []string
	reply func() (tool.Result, error)
	// missing is what somebody has to do before calls; nil: nothing.
	missing *tool.Connect
}

const (
	writeTool = `{"name":"write","description":"Write <b>","inputSchema":{"type":"object"}}`
	otherTool = `{"name":"write","description":"Write something else","inputSchema":{"type":"object"}}`
)

// unconnected is what is missing where each person has a connection of their own and nobody is named.
func unconnected(server tool.Server) error {
	if server.PerUser && server.Principal == uuid.Nil {
		return &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "nobody is connected"}
	}
	return nil
}

func (f *fakeSource) List(_ context.Context, server tool.Server) (tool.Listing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var l tool.Listing
	if err := unconnected(server); err != nil {
		return l, err
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
	f.mu.Lock()
	reply := f.reply
	f.mu.Unlock()
	if r.Caller.Ask != nil {
		answers, err := r.Caller.Ask(ctx, []tool.Question{{Method: "elicitation/create", Params: json.RawMessage(`{"message":"which account?"}`)}})
		if err != nil {
			return tool.Result{}, err
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + string(answers[0]) + `}`)}, nil
	}
	if reply != nil {
		return reply()
	}
	return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"<ok> \u003c 9007199254740993"}]}`)}, nil
}

func (*fakeSource) Probe(_ context.Context, server tool.Server, step func(tool.Step)) error {
	if err := unconnected(server); err != nil {
		return err
	}
	step(tool.Step{Name: "connect", Detail: "ok", Took: time.Millisecond})
	step(tool.Step{Name: "tools/list", Detail: "1 tool", Took: time.Millisecond})
	return nil
}

func (f *fakeSource) Ready(context.Context, tool.Server) (*tool.Connect, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing, nil
}

func (f *fakeSource) lack(missing *tool.Connect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missing = missing
}

func (*fakeSource) Outgoing(tool.Server, tool.CallRequest) (*tool.Outgoing, error) {
	return nil, nil
}

func (*fakeSource) Before(context.Context, tool.Server, tool.CallRequest) (*tool.State, error) {
	return nil, nil
}

func (*fakeSource) Forget(uuid.UUID) {}

func (*fakeSource) Request(context.Context, tool.Server, tool.Request) (json.RawMessage, error) {
	return nil, &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "not offered"}
}

func (*fakeSource) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{ProtocolVersion: "2025-11-25", Tools: true}, nil
}

func (f *fakeSource) offer(definitions ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tools = definitions
}

// world is the API over real services and a real database, with an agent "billing", a
// gated skill "files" and an auto-approved one "open".
type world struct {
	t         *testing.T
	db        *postgres.DB
	source    *fakeSource
	discovery *tool.Discovery
	agents    *agent.Service
	catalog   *catalog.Service
	people    *identity.Service
	oauth     *oauthclient.Service
	notify    *notify.Service
	callbacks *callback.Service
	billing   *agent.Agent
	*process

	// Credentials.
	operator, reviewer, both, key string
}

const bootstrap = "bootstrap-token-of-at-least-32-letters"

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, oracle(echoes))
}

// newWorldWith is one in which agents' models are m.
func newWorldWith(t *testing.T, m model.Provider) *world {
	t.Helper()
	w := &world{t: t, db: postgrestest.New(t), source: &fakeSource{tools: []string{writeTool}}, both: bootstrap}
	log, pool := slog.New(slog.DiscardHandler), w.db.Pool()
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	w.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: pool, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source},
		Listed: agent.RecordListing, Logger: log, Now: time.Now,
	})
	check(t, err)
	t.Cleanup(w.discovery.Close)
	apis := httptool.New(httptool.Config{})
	t.Cleanup(apis.Close)
	w.agents, err = agent.New(agent.Config{Pool: pool, Discovery: w.discovery, Box: box, Logger: log, Now: time.Now, Examiner: apis, Stdio: tool.StdioPolicy{On: true, Allow: [][]string{{}}}})
	check(t, err)
	t.Cleanup(w.agents.Close)
	w.catalog, err = catalog.New(catalog.Config{Pool: pool, Agents: w.agents, Discovery: w.discovery, Logger: log, Now: time.Now})
	check(t, err)
	t.Cleanup(w.catalog.Close)
	w.people, err = identity.New(identity.Config{Pool: pool, BootstrapToken: bootstrap, Logger: log, Now: time.Now})
	check(t, err)
	t.Cleanup(w.people.Close)
	w.oauth, err = oauthclient.New(oauthclient.Config{
		Pool: pool, Box: box, Identity: w.people, Logger: log, Now: time.Now, PublicURL: "https://holdpoint.test", Target: w.target,
	})
	check(t, err)
	t.Cleanup(w.oauth.Close)
	w.notify, err = notify.New(notify.Config{
		TrustedHosts: []string{"127.0.0.1"},
		Pool:         pool, Box: box, Identity: w.people, Logger: log, Now: time.Now, PublicURL: "https://holdpoint.test",
		Waiting: func(context.Context, []uuid.UUID) ([]uuid.UUID, error) { return nil, nil },
	})
	check(t, err)
	t.Cleanup(w.notify.Close)
	w.callbacks, err = callback.New(callback.Config{Pool: pool, Box: box, Logger: log, Now: time.Now, TrustedHosts: []string{"127.0.0.1"}})
	check(t, err)
	t.Cleanup(w.callbacks.Close)
	w.process = w.start(m)
	w.register()
	return w
}

// target finds a skill's server, as the assembler does.
func (w *world) target(ctx context.Context, key oauthclient.Key) (oauthclient.Target, error) {
	_, server, err := w.agents.FreshSkill(ctx, key.SkillID)
	return skillauth.Target(server.For(key.Principal)), err
}

func (w *world) register() {
	w.t.Helper()
	ctx, minute := w.t.Context(), agent.Duration(time.Minute)
	_, err := w.agents.Apply(ctx, audit.System(), agent.Spec{
		Skills: []agent.SkillSpec{
			{Name: "files", Transport: tool.HTTP, URL: "http://127.0.0.1:1/files", ApprovalTimeout: &minute},
			{Name: "open", Transport: tool.HTTP, URL: "http://127.0.0.1:1/open", AutoApprove: true},
		},
		Agents: []agent.AgentSpec{
			{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}, {Skill: "open"}}},
			{Name: "other"},
		},
	}, false)
	check(w.t, err)
	w.billing, err = w.agents.AgentByName(ctx, "billing")
	check(w.t, err)
	_, w.key, err = w.agents.CreateKey(ctx, audit.System(), w.billing.ID)
	check(w.t, err)
	w.operator = w.token("olga", identity.Operator)
	w.reviewer = w.token("rita", identity.Reviewer)
}

func (w *world) token(name string, roles ...identity.Role) string {
	w.t.Helper()
	_, token, err := w.people.CreateToken(w.t.Context(), uuid.Nil, name, roles, []string{"billing"})
	check(w.t, err)
	return token
}

// otherKey is the key of another agent.
func (w *world) otherKey() string {
	w.t.Helper()
	other, err := w.agents.AgentByName(w.t.Context(), "other")
	check(w.t, err)
	_, key, err := w.agents.CreateKey(w.t.Context(), audit.System(), other.ID)
	check(w.t, err)
	return key
}

// personID is the id of the person of a token.
func (w *world) personID(token string) uuid.UUID {
	w.t.Helper()
	access, err := w.people.Authenticate(w.t.Context(), token)
	check(w.t, err)
	return access.Person.ID
}

// submit makes a call as billing does, on behalf of a person or nobody.
func (w *world) submit(name, arguments string, principal uuid.UUID) uuid.UUID {
	w.t.Helper()
	ctx := w.t.Context()
	c, err := w.catalog.StartConversation(ctx, w.billing, principal, "2025-11-25", nil)
	check(w.t, err)
	entry, ok := c.Catalog.Lookup(name)
	if !ok {
		w.t.Fatalf("no tool %s; problems: %v", name, c.Problems)
	}
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	ticket, err := w.calls.Submit(ctx, call.Submission{
		Agent: w.billing, PrincipalID: principal, ConversationID: c.ID, Entry: entry, Arguments: clean,
	})
	check(w.t, err)
	return ticket.ID
}

// park makes a call that waits for a decision.
func (w *world) park(arguments string) uuid.UUID {
	w.t.Helper()
	return w.submit("files__write", arguments, uuid.Nil)
}

func (w *world) wait(id uuid.UUID) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	_, err := w.calls.Wait(ctx, id, call.Listener{})
	check(w.t, err)
}

// answer is what the API said.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) send(method, path, token, body string) answer {
	w.t.Helper()
	var content io.Reader
	if body != "" {
		content = bytes.NewReader([]byte(body))
	}
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, content)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

// sendRaw puts content of some media type, without a credential.
func (w *world) sendRaw(path, content, media string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPut, path, strings.NewReader(content))
	r.Header.Set("Content-Type", media)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

func (w *world) get(path, token string) answer {
	return w.send(http.MethodGet, "/api/v1/"+path, token, "")
}

func (w *world) post(path, token, body string) answer {
	return w.send(http.MethodPost, "/api/v1/"+path, token, body)
}

// want checks the status, and decodes the body.
func (a answer) want(t *testing.T, status int) map[string]any {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	var v map[string]any
	if a.body != "" {
		decoder := json.NewDecoder(strings.NewReader(a.body))
		decoder.UseNumber()
		if err := decoder.Decode(&v); err != nil {
			t.Fatalf("%v: %s", err, a.body)
		}
	}
	return v
}

// problem checks that the answer is a problem with this status and code.
func (a answer) problem(t *testing.T, status int, code string) map[string]any {
	t.Helper()
	v := a.want(t, status)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if v["code"] != code || v["status"] != json.Number(strconv.Itoa(status)) || v["detail"] == "" || v["title"] == "" {
		t.Errorf("want code %s: %s", code, a.body)
	}
	return v
}

func items(t *testing.T, v map[string]any) []any {
	t.Helper()
	list, ok := v["items"].([]any)
	if !ok {
		t.Fatalf("items are %v", v["items"])
	}
	if _, ok := v["next_cursor"]; !ok {
		t.Error("next_cursor is missing")
	}
	return list
}

func (w *world) sendHeaders(t *testing.T, path string, header http.Header) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for name, values := range header {
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

// sendAs posts a body of some media type as an operator.
func (w *world) sendAs(media, path, body string) answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, "/api/v1/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", media)
	r.Header.Set("Authorization", "Bearer "+w.operator)
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}
