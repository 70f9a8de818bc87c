package agent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const petstore = `{"openapi":"3.1.0","info":{"title":"pets","version":"1"},"paths":{}}`

func digestOf(document string) string {
	sum := sha256.Sum256([]byte(document))
	return hex.EncodeToString(sum[:])
}

func apiSpec() agent.SkillSpec {
	return agent.SkillSpec{
		Name: "pets", Transport: tool.OpenAPI,
		Tools: map[string]agent.ToolSettings{"listPets": {Select: ".items"}},
		APISpec: agent.APISpec{
			BaseURL: "https://pets.example/v1", Document: petstore, Preview: true,
			Include: []tool.OperationFilter{{Tag: "pets"}},
			Auth:    &agent.APIAuthSpec{Type: tool.APIKey, In: "header", Name: "X-Key", Secret: "sk-geheim"},
		},
	}
}

func TestAPISkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	skill, err := w.CreateSkill(ctx, operator, apiSpec())
	check(t, err)
	found, server, err := w.FreshSkill(ctx, skill.ID)
	check(t, err)
	if found.URL != "https://pets.example/v1" || found.API.Document != digestOf(petstore) || !found.API.Preview || found.API.Auth.Name != "X-Key" {
		t.Errorf("%+v, %+v", found, found.API)
	}
	if server.AuthSecret != "sk-geheim" || server.URL != found.URL || server.API.Select["listPets"] != ".items" || server.API.Include[0].Tag != "pets" {
		t.Errorf("%+v, %+v", server, server.API)
	}
	if document, err := w.Document(ctx, digestOf(petstore)); err != nil || string(document) != petstore {
		t.Errorf("%s, %v", document, err)
	}
	if n := w.db.Count(`skills s, audit_events e WHERE position('geheim' in s::text || e::text) > 0`); n != 0 {
		t.Error("the key is stored in clear")
	}
	same, err := w.UpdateSkill(ctx, operator, skill.ID, agent.SkillPatch{APIPatch: agent.APIPatch{
		Document: new(petstore), Auth: &agent.APIAuthSpec{Type: tool.APIKey, In: "header", Name: "X-Key"},
	}})
	if err != nil || same.Revision != skill.Revision {
		t.Errorf("nothing changed: %+v, %v", same, err)
	}
	_, server, err = w.FreshSkill(ctx, skill.ID)
	if err != nil || server.AuthSecret != "sk-geheim" {
		t.Errorf("a secret that the spec omits was lost: %v", err)
	}
	without, err := w.UpdateSkill(ctx, operator, skill.ID, agent.SkillPatch{APIPatch: agent.APIPatch{Auth: &agent.APIAuthSpec{}}})
	if err != nil || without.API.Auth != nil {
		t.Errorf("%+v, %v", without, err)
	}
}

// A base URL may have no path.
func TestBaseURLs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, url := range map[string]string{"none": "https://pets.example", "root": "https://pets.example/", "deep": "https://pets.example/a/b/", "port": "http://127.0.0.1:80"} {
		spec := apiSpec()
		spec.Name, spec.BaseURL = name, url
		if _, err := w.CreateSkill(t.Context(), operator, spec); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Equal documents are stored once, as long as a skill uses them.
func TestDocumentsAreKeptWhileUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	first, err := w.CreateSkill(ctx, operator, apiSpec())
	check(t, err)
	second := apiSpec()
	second.Name = "others"
	other, err := w.CreateSkill(ctx, operator, second)
	check(t, err)
	if n := w.db.Count("skill_documents"); n != 1 {
		t.Errorf("%d documents", n)
	}
	newer := strings.Replace(petstore, `"1"`, `"2"`, 1)
	changed, err := w.UpdateSkill(ctx, operator, first.ID, agent.SkillPatch{APIPatch: agent.APIPatch{Document: &newer}})
	if err != nil || changed.Revision != first.Revision+1 || changed.API.Document != digestOf(newer) {
		t.Errorf("%+v, %v", changed, err)
	}
	if n := w.db.Count("skill_documents"); n != 2 {
		t.Errorf("%d documents after one changed", n)
	}
	check(t, w.DeleteSkill(ctx, operator, other.ID))
	if _, err := w.Document(ctx, digestOf(petstore)); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("an unused document: %v", err)
	}
	spec := "https://pets.example/openapi.json"
	read, err := w.UpdateSkill(ctx, operator, first.ID, agent.SkillPatch{APIPatch: agent.APIPatch{Spec: &spec}})
	if err != nil || read.API.Spec != spec || read.API.Document != "" || w.db.Count("skill_documents") != 0 {
		t.Errorf("%+v, %v, %d documents", read.API, err, w.db.Count("skill_documents"))
	}
}

// Secrets stay with the host that they were entered for.
func TestSecretsOfAPIsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill, err := w.CreateSkill(t.Context(), operator, apiSpec())
	check(t, err)
	elsewhere := agent.APIPatch{BaseURL: new("https://other.example/v1")}
	problems := func(patch agent.APIPatch) []string {
		_, err := w.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{APIPatch: patch})
		invalid, ok := errors.AsType[*fault.InvalidError](err)
		if !ok {
			return nil
		}
		var paths []string
		for _, p := range invalid.Fields {
			paths = append(paths, p.Name)
		}
		return paths
	}
	if got := problems(elsewhere); !slices.Equal(got, []string{"auth.secret"}) {
		t.Errorf("%v", got)
	}
	// Without a base URL, the document names the host, and a new document may name another.
	newer := strings.Replace(petstore, `"1"`, `"2"`, 1)
	if got := problems(agent.APIPatch{BaseURL: new(""), Document: &newer}); !slices.Equal(got, []string{"auth.secret"}) {
		t.Errorf("%v", got)
	}
	elsewhere.Auth = &agent.APIAuthSpec{Type: tool.APIBearer, Secret: "another"}
	if got := problems(elsewhere); got != nil {
		t.Errorf("%v", got)
	}
}

func TestDocumentIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start(agent.Config{CheckDocument: func([]byte) ([]string, error) { return nil, errors.New("is no OpenAPI document") }})
	_, err := w.CreateSkill(t.Context(), operator, apiSpec())
	invalid, ok := errors.AsType[*fault.InvalidError](err)
	if !ok || len(invalid.Fields) != 1 || invalid.Fields[0].Name != "document" {
		t.Errorf("%v", err)
	}
}

// Header values that cannot be sent to an HTTP API are refused. For MCP servers, tabs and non-ASCII letters are
// allowed.
func TestHeaderValuesOfAPIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		auth   *agent.APIAuthSpec
		header string
		want   []string // paths of refused fields
	}{
		"tab":              {header: "dry\trun", want: []string{"headers.X-Who"}},
		"no ASCII":         {header: "Zürich", want: []string{"headers.X-Who"}},
		"two lines":        {header: "a\r\nb", want: []string{"headers.X-Who"}},
		"bearer":           {auth: &agent.APIAuthSpec{Type: tool.APIBearer, Secret: "geheim-ü"}, want: []string{"auth.secret"}},
		"key in a header":  {auth: &agent.APIAuthSpec{Type: tool.APIKey, In: "header", Name: "X-Key", Secret: "a\tb"}, want: []string{"auth.secret"}},
		"spaces":           {header: "dry run", auth: &agent.APIAuthSpec{Type: tool.APIBearer, Secret: "a b"}},
		"password":         {auth: &agent.APIAuthSpec{Type: tool.APIBasic, Username: "u", Secret: "geheim-ü"}},
		"key in the query": {auth: &agent.APIAuthSpec{Type: tool.APIKey, In: "query", Name: "key", Secret: "geheim-ü"}},
		"key in a cookie":  {auth: &agent.APIAuthSpec{Type: tool.APIKey, In: "cookie", Name: "key", Secret: "geheim-ü"}},
	} {
		spec := apiSpec()
		spec.Name = "s" + strings.ToLower(strings.ReplaceAll(name, " ", "-"))
		spec.Auth = test.auth
		if test.header != "" {
			spec.Headers = map[string]string{"X-Who": test.header}
		}
		_, err := w.CreateSkill(t.Context(), operator, spec)
		var got []string
		if invalid, ok := errors.AsType[*fault.InvalidError](err); ok {
			for _, p := range invalid.Fields {
				got = append(got, p.Name)
			}
		} else {
			check(t, err)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: refused %v, want %v", name, got, test.want)
		}
	}
	_, err := w.CreateSkill(t.Context(), operator, agent.SkillSpec{
		Name: "server", Transport: tool.HTTP, URL: "https://mcp.example/", Headers: map[string]string{"X-Who": "Zürich\tWest"},
	})
	check(t, err)
}

// The origins in a document are stored with its skill.
func TestOriginsOfDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t).start(agent.Config{CheckDocument: func(document []byte) ([]string, error) {
		if strings.Contains(string(document), "elsewhere") {
			return []string{"https://elsewhere.example:443"}, nil
		}
		return []string{"https://pets.example:443"}, nil
	}})
	ctx := t.Context()
	created, err := w.CreateSkill(ctx, operator, apiSpec())
	check(t, err)
	elsewhere, preview, spec := petstore, true, "https://pets.example/openapi.json"
	elsewhere = strings.Replace(elsewhere, `"1"`, `"elsewhere"`, 1)
	for _, step := range []struct {
		patch agent.APIPatch
		want  string
	}{
		{agent.APIPatch{Preview: &preview}, "[https://pets.example:443]"},
		{agent.APIPatch{Document: &elsewhere}, "[https://elsewhere.example:443]"},
		{agent.APIPatch{Spec: &spec}, "[]"},
	} {
		_, err := w.UpdateSkill(ctx, operator, created.ID, agent.SkillPatch{APIPatch: step.patch})
		check(t, err)
		_, server, err := w.FreshSkill(ctx, created.ID)
		if err != nil || fmt.Sprint(server.API.Origins) != step.want {
			t.Errorf("%+v: %v, %v, want %s", step.patch, server.API.Origins, err, step.want)
		}
	}
}
