package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// apiSource is an API with a tool that reads and one that writes. It has to find its document.
type apiSource struct {
	source
	document func(context.Context, string) ([]byte, error)
	called   []tool.CallRequest
	sent     []tool.Server
}

func (s *apiSource) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	var listing tool.Listing
	if _, err := s.document(ctx, server.API.Document); err != nil {
		return listing, &tool.Failure{Kind: tool.ProtocolFailure, Message: "no document"}
	}
	for _, text := range []string{
		`{"name":"getPet","inputSchema":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}}`,
		`{"name":"deletePet","inputSchema":{"type":"object"}}`,
	} {
		d, err := tool.ParseDefinition(json.RawMessage(text))
		if err != nil {
			return listing, err
		}
		listing.Tools = append(listing.Tools, d)
	}
	return listing, nil
}

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

// trialWorld is one whose skills of transport openapi are an apiSource.
func trialWorld(t *testing.T) (*world, *apiSource, uuid.UUID) {
	t.Helper()
	api := &apiSource{}
	w := &world{t: t, db: postgrestest.New(t)}
	var err error
	w.discovery, err = tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: w.db.Pool(), Sources: map[tool.Transport]tool.Source{tool.OpenAPI: api},
		Listed: agent.RecordListing, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	check(t, err)
	t.Cleanup(w.discovery.Close)
	box, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	w.Service, err = agent.New(agent.Config{Pool: w.db.Pool(), Discovery: w.discovery, Box: box, Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	check(t, err)
	t.Cleanup(w.Close)
	api.document = w.Document
	person := uuid.New()
	_, err = w.db.Pool().Exec(t.Context(), `INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'test', $2, 'Olga')`, person, person.String())
	check(t, err)
	return w, api, person
}

func TestTry(t *testing.T) {
	t.Parallel()
	w, api, person := trialWorld(t)
	ctx, by := t.Context(), audit.Person(person)
	skill, err := w.CreateSkill(ctx, operator, apiSpec())
	check(t, err)
	draft := apiSpec()
	draft.Name, draft.Document = "draft", strings.Replace(petstore, "pets", "others", 1)
	trials := map[string]func(agent.Trial) (*agent.Tried, error){
		"registered": func(trial agent.Trial) (*agent.Tried, error) { return w.Try(ctx, by, skill.ID, trial) },
		"draft":      func(trial agent.Trial) (*agent.Tried, error) { return w.TryDraft(ctx, by, draft, trial) },
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
				_, err := try(agent.Trial{Tool: test.tool, Arguments: json.RawMessage(test.arguments)})
				if invalid, ok := errors.AsType[*agent.InvalidError](err); !ok || invalid.Problems[0].Path != test.wrong {
					t.Errorf("%s %s: %v", test.tool, test.arguments, err)
				}
			}
			if _, err := try(agent.Trial{Tool: "nothing", Arguments: json.RawMessage(`{}`)}); !errors.Is(err, tool.ErrNotFound) {
				t.Errorf("unknown tool: %v", err)
			}
			if before := w.count("audit_events WHERE action = 'skill.tried' AND data->>'name' = '" + map[string]string{"registered": "pets", "draft": "draft"}[name] + "'"); before != 0 || len(api.called) != 0 {
				t.Fatalf("%d trials are recorded of %d calls that must not be", before, len(api.called))
			}
			tried, err := try(agent.Trial{Tool: "getPet", Arguments: json.RawMessage(`{"id":7}`)})
			if err != nil || tried.Failure != nil || tried.Request.Method != http.MethodGet || tried.Result.Exchange.Status != 200 {
				t.Fatalf("%+v, %v", tried, err)
			}
			if len(api.called) != 1 || string(api.called[0].Arguments) != `{"id":7}` || api.sent[0].AuthSecret != "sk-geheim" {
				t.Errorf("%+v", api.called)
			}
		})
	}
	if n := w.count(`audit_events WHERE action = 'skill.tried' AND actor_id = '` + person.String() + `' AND data->>'tool' = 'getPet'`); n != 2 {
		t.Errorf("%d trials are recorded", n)
	}
	if n := w.count("skills"); n != 1 {
		t.Errorf("%d skills: a draft is none", n)
	}
	if _, err := w.Document(ctx, digestOf(draft.Document)); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("the draft's document is still there: %v", err)
	}
}

func TestOnlyAPIsAreTried(t *testing.T) {
	t.Parallel()
	w, _, person := trialWorld(t)
	spec := apiSpec()
	spec.Auth, spec.OAuth = nil, &agent.OAuthSpec{Grant: "authorization_code"}
	for path, spec := range map[string]agent.SkillSpec{
		"oauth":     spec,
		"transport": {Name: "a", Transport: tool.HTTP, URL: "http://h/"},
	} {
		_, err := w.TryDraft(t.Context(), audit.Person(person), spec, agent.Trial{Tool: "getPet", Arguments: json.RawMessage(`{}`)})
		if invalid, ok := errors.AsType[*agent.InvalidError](err); !ok || invalid.Problems[0].Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestDrafts(t *testing.T) {
	t.Parallel()
	w, _, person := trialWorld(t)
	ctx := t.Context()
	d := &agent.Draft{Spec: apiSpec(), Notes: json.RawMessage(`{"step":2}`)}
	check(t, w.SaveDraft(ctx, person, d))
	found, err := w.Draft(ctx, person, d.ID)
	if err != nil || found.Spec.Auth.Secret != "sk-geheim" || found.Spec.Document != petstore || string(found.Notes) != `{"step":2}` {
		t.Fatalf("%+v, %v", found, err)
	}
	if n := w.count("skill_drafts d WHERE position('geheim' in d::text) > 0 OR position('geheim' in encode(d.spec, 'escape')) > 0"); n != 0 {
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
		t.Errorf("an old one: %v", err)
	}
	for range 7 {
		check(t, w.SaveDraft(ctx, person, &agent.Draft{Spec: apiSpec()}))
	}
	if n := w.count("skill_drafts"); n != 5 {
		t.Errorf("%d drafts", n)
	}
	last := &agent.Draft{Spec: apiSpec()}
	check(t, w.SaveDraft(ctx, person, last))
	check(t, w.DropDraft(ctx, person, last.ID))
	if n := w.count("skill_drafts"); n != 4 {
		t.Errorf("%d drafts after one was dropped", n)
	}
}
