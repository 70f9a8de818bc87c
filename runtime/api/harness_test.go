package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

// fakeSource stands for all skill servers. It asks a question if the caller can answer one.
type fakeSource struct{ runtimetest.Source }

const (
	writeTool = `{"name":"write","description":"Write <b>","inputSchema":{"type":"object"}}`
	otherTool = `{"name":"write","description":"Write something else","inputSchema":{"type":"object"}}`
)

// connectFailure is the failure of a request for no person to a skill with a connection for each person.
func connectFailure(server tool.Server) error {
	if server.PerUser && server.Principal == uuid.Nil {
		return &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "nobody is connected"}
	}
	return nil
}

func (f *fakeSource) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	if err := connectFailure(server); err != nil {
		return tool.Listing{}, err
	}
	return f.Source.List(ctx, server)
}

func (f *fakeSource) Call(ctx context.Context, server tool.Server, r tool.CallRequest) (tool.Result, error) {
	if r.Caller.Ask == nil {
		return f.Source.Call(ctx, server, r)
	}
	answers, err := r.Caller.Ask(ctx, []tool.Question{{Method: "elicitation/create", Params: json.RawMessage(`{"message":"which account?"}`)}})
	if err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + string(answers[0]) + `}`)}, nil
}

func (*fakeSource) Probe(_ context.Context, server tool.Server, step func(tool.Step)) error {
	if err := connectFailure(server); err != nil {
		return err
	}
	step(tool.Step{Name: "connect", Detail: "ok", Took: time.Millisecond})
	step(tool.Step{Name: "tools/list", Detail: "1 tool", Took: time.Millisecond})
	return nil
}

// world is the API over real services and a real database, with an agent "billing", a
// gated skill "files" and an auto-approved one "open".
type world struct {
	control   *dualcontrol.Service // off
	guards    *guarded.Service
	t         *testing.T
	db        *worldtest.DB
	source    *fakeSource
	registry  *runtimetest.Registry
	discovery *tool.Discovery
	agents    *agent.Service
	trials    *trial.Service
	catalog   *catalog.Service
	people    *identity.Service
	oauth     *oauthclient.Service
	notify    *notify.Service
	oncall    *oncall.Service
	callbacks *callback.Service
	billing   *agent.Agent
	*process

	// Credentials.
	operator, reviewer, both, key string
}

const bootstrap = "bootstrap-token-of-at-least-32-letters"

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, oracle(echoMessages))
}

// newWorldWith makes a world in which all agents have the model m.
func newWorldWith(t *testing.T, m model.Provider) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), source: &fakeSource{}, both: bootstrap}
	w.source.Offer(writeTool)
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"<ok> \u003c 9007199254740993"}]}`)}, nil
	})
	log, pool := slog.New(slog.DiscardHandler), w.db.Pool()
	box := runtimetest.NewBox(t)
	var err error
	w.guards, err = guarded.New(guarded.Config{
		Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alert: func(context.Context, pgx.Tx, guarded.Alert) error { return nil },
	})
	check(t, err)
	w.control, err = dualcontrol.New(dualcontrol.Config{
		Pool: w.db.Pool(), Box: box, MayBeOne: identity.MayBeOne,
		Operators: func(ctx context.Context, db postgres.Querier) ([]uuid.UUID, error) {
			return w.people.ListOperators(ctx, db)
		},
	})
	check(t, err)
	r := runtimetest.NewRegistry(t, runtimetest.Config{
		DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source, tool.Gate: host.Source{}},
		Agent: agent.Config{Box: box, Control: w.control, Stdio: tool.StdioPolicy{On: true, Allow: [][]string{{}}}},
	})
	w.registry, w.discovery, w.agents, w.catalog = r, r.Discovery, r.Agents, r.Catalog
	apis := httptool.New(httptool.Config{})
	t.Cleanup(apis.Close)
	w.trials, err = trial.New(trial.Config{Pool: pool, Agents: w.agents, Discovery: w.discovery, Box: box, Examiner: apis})
	check(t, err)
	w.people, err = identity.New(identity.Config{Pool: pool, BootstrapToken: bootstrap, Control: w.control, Logger: log, Now: time.Now})
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
		Waiting: func(context.Context, []uuid.UUID) (pending, unreviewed []uuid.UUID, err error) { return nil, nil, nil },
	})
	check(t, err)
	t.Cleanup(w.notify.Close)
	w.oncall = &oncall.Service{Pool: pool, Box: box, Logger: log, Now: time.Now, TrustedHosts: []string{"127.0.0.1"}}
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
	minute := agent.Duration(time.Minute)
	w.registry.ApplyTwoSkills(func(files *agent.SkillSpec) { files.ApprovalTimeout = &minute }, agent.AgentSpec{Name: "billing"})
	w.registry.Apply(agent.Spec{Agents: []agent.AgentSpec{{Name: "other"}}})
	w.billing, w.key = w.registry.Agent("billing"), w.newKey("billing")
	w.operator = w.createToken("olga", identity.Operator)
	w.reviewer = w.createToken("rita", identity.Reviewer)
}

func (w *world) createToken(name string, roles ...identity.Role) string {
	w.t.Helper()
	_, token, err := w.people.CreateToken(w.t.Context(), uuid.Nil, name, roles, []string{"billing"})
	check(w.t, err)
	return token
}

// newKey makes a key of an agent.
func (w *world) newKey(agentName string) string {
	w.t.Helper()
	_, key, err := w.agents.CreateKey(w.t.Context(), audit.System(), w.registry.Agent(agentName).ID)
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

// submitCall makes a call of billing, on behalf of a person or, with uuid.Nil, of none.
func (w *world) submitCall(name, arguments string, principal uuid.UUID) uuid.UUID {
	w.t.Helper()
	conversation, entry := w.registry.FindTool(w.billing, principal, name)
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	ticket, err := w.calls.Submit(w.t.Context(), call.Submission{
		Agent: w.billing, PrincipalID: principal, ConversationID: conversation, Entry: entry, Arguments: clean,
	})
	check(w.t, err)
	return ticket.ID
}

// parkCall makes a parked call.
func (w *world) parkCall(arguments string) uuid.UUID {
	w.t.Helper()
	return w.submitCall("files__write", arguments, uuid.Nil)
}

func (w *world) waitForEnd(id uuid.UUID) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	_, err := w.calls.Wait(ctx, id, call.Listener{})
	check(w.t, err)
}

// answer is a response of the API.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) send(method, path, token, body string) answer {
	w.t.Helper()
	return w.serve(w.newRequest(method, path, token, body))
}

func (w *world) serve(r *http.Request) answer {
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

func (w *world) newRequest(method, path, token, body string) *http.Request {
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
	return r
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

// wantStatus checks the status, and decodes the body.
func (a answer) wantStatus(t *testing.T, status int) map[string]any {
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

// wantProblem checks that the answer is a problem with this status and code.
func (a answer) wantProblem(t *testing.T, status int, code string) map[string]any {
	t.Helper()
	v := a.wantStatus(t, status)
	if got := a.header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("content type %q", got)
	}
	if v["code"] != code || v["status"] != json.Number(strconv.Itoa(status)) || v["detail"] == "" || v["title"] == "" {
		t.Errorf("want code %s: %s", code, a.body)
	}
	return v
}

func listItems(t *testing.T, v map[string]any) []any {
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
