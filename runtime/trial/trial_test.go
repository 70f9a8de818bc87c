package trial_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

const petstore = `{"openapi":"3.1.0","info":{"title":"pets","version":"1"},"paths":{}}`

func digestOf(document string) string {
	sum := sha256.Sum256([]byte(document))
	return hex.EncodeToString(sum[:])
}

func apiSpec() agent.SkillSpec {
	return agent.SkillSpec{
		Name: "pets", Transport: tool.OpenAPI,
		APISpec: agent.APISpec{
			BaseURL: "https://pets.example/v1", Document: petstore,
			Auth: &agent.APIAuthSpec{Type: tool.APIKey, In: "header", Name: "X-Key", Secret: "sk-geheim"},
		},
	}
}

// apiSource is an API with a tool that reads and one that writes. It needs the skill's document.
type apiSource struct {
	tool.Source
	tool.Previewer
	document func(context.Context, string) ([]byte, error)
	called   []tool.CallRequest
	sent     []tool.Server
}

func (s *apiSource) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	if _, err := s.document(ctx, server.API.Document); err != nil {
		return tool.Listing{}, &tool.Failure{Kind: tool.ProtocolFailure, Message: "no document"}
	}
	return runtimetest.ParseTools(
		`{"name":"getPet","inputSchema":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}`,
		`{"name":"deletePet","inputSchema":{"type":"object"}}`)
}

func (*apiSource) Forget(uuid.UUID) {}

func (s *apiSource) Outgoing(server tool.Server, request tool.CallRequest) (*tool.Outgoing, error) {
	if request.Definition == nil {
		return nil, errors.New("no definition")
	}
	method := "GET"
	if request.Tool == "deletePet" {
		method = "DELETE"
	}
	return &tool.Outgoing{Method: method, URL: server.URL + "/pets"}, nil
}

func (s *apiSource) Call(_ context.Context, server tool.Server, request tool.CallRequest) (tool.Result, error) {
	s.called, s.sent = append(s.called, request), append(s.sent, server)
	return tool.Result{Raw: json.RawMessage(`{"content":[]}`), Exchange: tool.Exchange{Status: 200}}, nil
}

// world is a database and a service whose skills of transport openapi use an apiSource.
type world struct {
	*trial.Service
	t      *testing.T
	db     *worldtest.DB
	agents *agent.Service
	api    *apiSource
	person uuid.UUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), api: &apiSource{}, person: uuid.New()}
	r := runtimetest.NewRegistry(t, runtimetest.Config{DB: w.db, Sources: map[tool.Transport]tool.Source{tool.OpenAPI: w.api}})
	w.agents = r.Agents
	var err error
	w.Service, err = trial.New(trial.Config{Pool: w.db.Pool(), Agents: w.agents, Discovery: r.Discovery, Box: r.Box})
	check(t, err)
	w.api.document = w.Document
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'test', $2, 'Olga')`, w.person, w.person.String())
	return w
}

func TestTry(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	api, ctx, by := w.api, t.Context(), audit.Person(w.person)
	skill, err := w.agents.CreateSkill(ctx, audit.System(), apiSpec())
	check(t, err)
	draft := apiSpec()
	draft.Name, draft.Document = "draft", strings.Replace(petstore, "pets", "others", 1)
	trials := map[string]func(trial.Request) (*trial.Response, error){
		"registered": func(r trial.Request) (*trial.Response, error) { return w.Try(ctx, by, skill.ID, r) },
		"draft":      func(r trial.Request) (*trial.Response, error) { return w.TryDraft(ctx, by, draft, r) },
	}
	for name, try := range trials {
		t.Run(name, func(t *testing.T) {
			api.called, api.sent = nil, nil
			for _, test := range []struct{ tool, arguments, wrong string }{
				{"getPet", `{}`, "arguments"},
				{"getPet", `{"id":"x"}`, "arguments"},
				{"getPet", `nonsense`, "arguments"},
				{"deletePet", `{}`, "tool"},
			} {
				_, err := try(trial.Request{Tool: test.tool, Arguments: json.RawMessage(test.arguments)})
				if invalid, ok := errors.AsType[*fault.InvalidError](err); !ok || invalid.Fields[0].Name != test.wrong {
					t.Errorf("%s %s: %v", test.tool, test.arguments, err)
				}
			}
			if _, err := try(trial.Request{Tool: "nothing", Arguments: json.RawMessage(`{}`)}); !errors.Is(err, tool.ErrNotFound) {
				t.Errorf("unknown tool: %v", err)
			}
			if before := w.db.Count("audit_events WHERE action = 'skill.tried' AND data->>'name' = '" + map[string]string{"registered": "pets", "draft": "draft"}[name] + "'"); before != 0 || len(api.called) != 0 {
				t.Fatalf("%d refused trials are recorded, and %d calls were sent", before, len(api.called))
			}
			tried, err := try(trial.Request{Tool: "getPet", Arguments: json.RawMessage(`{"id":7}`)})
			if err != nil || tried.Failure != nil || tried.Request.Method != http.MethodGet || tried.Result.Exchange.Status != 200 {
				t.Fatalf("%+v, %v", tried, err)
			}
			if len(api.called) != 1 || string(api.called[0].Arguments) != `{"id":7}` || api.sent[0].AuthSecret != "sk-geheim" {
				t.Errorf("%+v", api.called)
			}
		})
	}
	if n := w.db.Count(`audit_events WHERE action = 'skill.tried' AND actor_id = '` + w.person.String() + `' AND data->>'tool' = 'getPet'`); n != 2 {
		t.Errorf("%d trials are recorded", n)
	}
	if n := w.db.Count("skills"); n != 1 {
		t.Errorf("%d skills: a draft was registered", n)
	}
	if _, err := w.Document(ctx, digestOf(draft.Document)); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("the draft's document is still there: %v", err)
	}
}

func TestOnlyAPIsAreTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	spec := apiSpec()
	spec.Auth, spec.OAuth = nil, &agent.OAuthSpec{Grant: "authorization_code"}
	for path, spec := range map[string]agent.SkillSpec{
		"oauth":     spec,
		"transport": {Name: "a", Transport: tool.HTTP, URL: "http://h/"},
	} {
		_, err := w.TryDraft(t.Context(), audit.Person(w.person), spec, trial.Request{Tool: "getPet", Arguments: json.RawMessage(`{}`)})
		if invalid, ok := errors.AsType[*fault.InvalidError](err); !ok || invalid.Fields[0].Name != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, person := t.Context(), w.person
	d := &trial.Draft{Spec: apiSpec(), Notes: json.RawMessage(`{"step":2}`)}
	check(t, w.SaveDraft(ctx, person, d))
	found, err := w.Draft(ctx, person, d.ID)
	if err != nil || found.Spec.Auth.Secret != "sk-geheim" || found.Spec.Document != petstore || string(found.Notes) != `{"step":2}` {
		t.Fatalf("%+v, %v", found, err)
	}
	if n := w.db.Count("skill_drafts d WHERE position('geheim' in d::text) > 0 OR position('geheim' in encode(d.spec, 'escape')) > 0"); n != 0 {
		t.Error("a secret is stored in clear")
	}
	found.Spec.Document, found.Spec.Auth.Secret = "other", "new"
	check(t, w.SaveDraft(ctx, person, found))
	if again, err := w.Draft(ctx, person, d.ID); err != nil || again.Spec.Document != "other" || again.Spec.Auth.Secret != "new" {
		t.Errorf("%+v, %v", again, err)
	}
	stranger := uuid.New()
	if _, err := w.Draft(ctx, stranger, d.ID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("another person: %v", err)
	}
	if err := w.SaveDraft(ctx, stranger, found); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("another person saves: %v", err)
	}
	_, err = w.db.Pool().Exec(ctx, `UPDATE skill_drafts SET updated_at = holdpoint_now() - interval '3 hours'`)
	check(t, err)
	if _, err := w.Draft(ctx, person, d.ID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("an expired draft: %v", err)
	}
	for range 7 {
		check(t, w.SaveDraft(ctx, person, &trial.Draft{Spec: apiSpec()}))
	}
	if n := w.db.Count("skill_drafts"); n != 5 {
		t.Errorf("%d drafts", n)
	}
	last := &trial.Draft{Spec: apiSpec()}
	check(t, w.SaveDraft(ctx, person, last))
	check(t, w.DeleteDraft(ctx, person, last.ID))
	if n := w.db.Count("skill_drafts"); n != 4 {
		t.Errorf("%d drafts after one was deleted", n)
	}
}
