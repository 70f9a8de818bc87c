package ui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// apiSources serves the skill "shop" from a fake, and all other HTTP APIs from the real source.
type apiSources struct {
	*httptool.Source
	fake *fakeSource
}

func (s apiSources) of(server tool.Server) interface {
	tool.Source
	tool.Previewer
} {
	if server.Skill == "shop" {
		return s.fake
	}
	return s.Source
}

func (s apiSources) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	return s.of(server).List(ctx, server)
}

func (s apiSources) Call(ctx context.Context, server tool.Server, r tool.CallRequest) (tool.Result, error) {
	return s.of(server).Call(ctx, server, r)
}

func (s apiSources) Outgoing(server tool.Server, r tool.CallRequest) (*tool.Outgoing, error) {
	return s.of(server).Outgoing(server, r)
}

func (s apiSources) Before(ctx context.Context, server tool.Server, r tool.CallRequest) (*tool.State, error) {
	return s.of(server).Before(ctx, server, r)
}

func (s apiSources) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	return s.of(server).Ready(ctx, server)
}

func (s apiSources) Probe(ctx context.Context, server tool.Server, step func(tool.Step)) error {
	return s.of(server).Probe(ctx, server, step)
}

// stockDocument describes the API of a warehouse at a base URL, partly with hostile text.
func stockDocument(base string) string {
	return `{"openapi":"3.1.0","info":{"title":"Stock <b>of</b> the warehouse\u202e","version":"2"},"servers":[{"url":"` + base + `"}],
"components":{"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"X-Key"}}},
"paths":{
	"/items":{
		"get":{"operationId":"listItems","tags":["items"],"summary":"List what is in stock","parameters":[{"name":"shelf","in":"query","schema":{"type":"string"}}],
			"responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object","properties":{"items":{"type":"array","items":{"type":"string"}}}}}}}}},
		"post":{"operationId":"addItem","tags":["items"],"summary":"Put something into stock","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"name":{"type":"string"}}}}}}}},
	"/items/{id}":{
		"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],
		"get":{"operationId":"getItem","tags":["items"],"summary":"One item"},
		"delete":{"operationId":"deleteItem","tags":["items"],"summary":"Take an item away","deprecated":true}},
	"/doors":{"post":{"tags":["doors"],"summary":"Open the gates"}},
	"/broken":{"get":{"operationId":"broken","parameters":[{"$ref":"https://elsewhere.example/p.json"}]}}}}`
}

// stock is the server of a warehouse, with its document.
func stock(t *testing.T) (server *httptest.Server, document string) {
	t.Helper()
	mux := http.NewServeMux()
	server = httptest.NewServer(mux)
	t.Cleanup(server.Close)
	document = stockDocument(server.URL + "/v2")
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(document)) })
	mux.HandleFunc("GET /v2/items", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("X-Key") != "k3y" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"error":"who are you?"}`))
			return
		}
		answer, _ := json.Marshal(map[string]any{"items": []string{"<b>ladder</b>", "shelf " + r.URL.Query().Get("shelf")}})
		_, _ = w.Write(answer)
	})
	return server, document
}

func (w *world) drafts() (n int) {
	w.t.Helper()
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT count(*) FROM skill_drafts`).Scan(&n))
	return n
}

// wantRedirect returns the target of a redirect.
func (a *answer) wantRedirect(to string) string {
	a.t.Helper()
	at := a.header.Get("Location")
	if a.status != http.StatusSeeOther || !strings.Contains(at, to) {
		a.t.Fatalf("status %d, to %q, want %q: %s", a.status, at, to, a.text())
	}
	return at
}

// draftAPI starts to import the warehouse.
func (h *house) draftAPI() {
	h.t.Helper()
	_, document := stock(h.t)
	begin := func() string {
		return h.maren.post("/imports/new", url.Values{"name": {"stock"}, "document": {document}}).wantRedirect("/imports/")
	}
	h.draft, h.wrongDraft = begin(), begin()
	form := h.maren.get(h.draft + "/credentials").form("credentials-form")
	form.Set("auth.type", tool.APIKey)
	form.Set("auth.in", "header")
	form.Set("auth.secret", "k3y")
	h.maren.post(h.draft+"/credentials", form).wantRedirect("/try")
}

func TestImportStepByStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server, _ := stock(t)
	v := w.signedIn("Olga", identity.Operator)
	if n := v.get("/skills").find("new-import").Length(); n != 1 {
		t.Errorf("%d ways to add an HTTP API", n)
	}
	form := v.get("/imports/new").form("import-form")
	form.Set("name", "stock")
	form.Set("spec", server.URL+"/openapi.json")
	draft := v.post("/imports/new", form).wantRedirect("/imports/")

	page := v.get(draft)
	if page.status != 200 || page.find("operation").Length() != 5 || page.find("skipped").Length() != 1 {
		t.Fatalf("status %d, %d operations: %s", page.status, page.find("operation").Length(), page.text())
	}
	if strings.Contains(page.body, "<b>of</b>") || strings.Contains(page.body, "\u202e") {
		t.Error("the document's text is not made plain")
	}
	for _, want := range []string{"GET /items", "List what is in stock", "reads", "destructive", "deprecated", "input schema", "output schema", "elsewhere.example"} {
		if !strings.Contains(page.text(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// Choices on one page are kept while others are shown.
	form = page.form("import-form")
	form.Set("which", "chosen")
	form["operation"] = []string{"listItems"}
	form.Set("method", "DELETE")
	form.Set("do", "show")
	filtered := v.get(v.post(draft, form).wantRedirect("method=DELETE"))
	if n := filtered.find("operation").Length(); n != 1 {
		t.Errorf("%d operations are shown", n)
	}
	form = filtered.form("import-form")
	form["operation"] = []string{"deleteItem"}
	form.Set("do", "next")
	credentials := v.get(v.post(draft, form).wantRedirect("/credentials"))
	if !strings.Contains(credentials.text(), "key (apiKey header X-Key)") {
		t.Errorf("credentials: %s", credentials.text())
	}
	form = credentials.form("credentials-form")
	form.Set("auth.type", "api_key")
	form.Set("auth.in", "header")
	form.Set("auth.name", "X-Key")
	wrong := v.post(draft+"/credentials", form)
	if wrong.status != http.StatusUnprocessableEntity || !strings.Contains(wrong.find("problem-auth.secret").Text(), "is required") {
		t.Errorf("status %d: %s", wrong.status, wrong.text())
	}
	form.Set("auth.secret", "k3y")
	trial := v.get(v.post(draft+"/credentials", form).wantRedirect("/try"))
	if trial.find("trial-tool").Find("option").Length() != 1 || strings.Contains(trial.body, "k3y") {
		t.Fatalf("only listItems reads: %s", trial.text())
	}
	if len(w.exposed("stock")) != 0 || w.drafts() != 1 {
		t.Error("a draft is a skill")
	}
	trial = v.get(draft + "/try?tool=listItems")
	form = trial.form("trial-form")
	form.Set("f0", "7")
	form.Set("s0", "1")
	answered := v.post(draft+"/try", form)
	for _, want := range []string{"/v2/items?shelf=7", "X-Key", "hidden secret", "HTTP 200 OK", "shelf 7", "call: "} {
		if !strings.Contains(answered.text(), want) {
			t.Errorf("the answer does not say %q: %s", want, answered.text())
		}
	}
	if strings.Contains(answered.body, "<b>ladder</b>") || strings.Contains(answered.body, "k3y") {
		t.Error("the API's text is not made plain, or the secret is told")
	}
	made := v.post(draft+"/save", nil).wantRedirect("/skills/")
	if got := v.get(made); !strings.Contains(got.text(), "Registered") || !strings.Contains(got.text(), "listItems; deleteItem") {
		t.Errorf("%s", got.text())
	}
	skill := w.skillNamed("stock")
	if skill.AutoApprove || skill.API.Spec != server.URL+"/openapi.json" || skill.URL != server.URL+"/v2" || skill.API.Auth.Name != "X-Key" || w.drafts() != 0 {
		t.Errorf("%+v, %+v, %d drafts", skill, skill.API, w.drafts())
	}
	events := 0
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM audit_events WHERE action = 'skill.tried' AND data->>'tool' = 'listItems'`).Scan(&events))
	if events != 1 {
		t.Errorf("%d trials are recorded", events)
	}
}

// A document is uploaded or pasted, or replaced by a list of endpoints.
func TestImportOfDocumentsAndEndpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, document := stock(t)
	v := w.signedIn("Olga", identity.Operator)
	large := strings.Replace(document, `"openapi"`, `"x-padding":"`+strings.Repeat("x", 6<<20)+`","openapi"`, 1)
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	check(t, parts.WriteField("name", "uploaded"))
	file, err := parts.CreateFormFile("file", "stock.json")
	check(t, err)
	_, err = file.Write([]byte(large))
	check(t, err)
	check(t, parts.Close())
	draft := v.do(v.request(http.MethodPost, "/imports/new", body.String(), "Content-Type", parts.FormDataContentType(), "Sec-Fetch-Site", "same-origin")).wantRedirect("/imports/")
	form := v.get(draft).form("import-form")
	form["tags"] = []string{"doors"}
	form.Set("do", "next")
	form.Set("which", "chosen")
	v.post(draft, form).wantRedirect("/credentials")
	form = v.get(draft + "/credentials").form("credentials-form")
	form.Set("auth.type", "")
	v.post(draft+"/credentials", form).wantRedirect("/try")
	if got := v.get(draft + "/try"); got.find("none-reads").Length() != 1 {
		t.Errorf("%s", got.text())
	}
	v.post(draft+"/save", nil).wantRedirect("/skills/")
	skill := w.skillNamed("uploaded")
	if skill.DocumentSize != len(large) || len(skill.API.Include) != 1 || skill.API.Include[0].Tag != "doors" {
		t.Errorf("%d bytes, %+v", skill.DocumentSize, skill.API)
	}
	byHand := url.Values{"name": {"byhand"}, "base_url": {"http://127.0.0.1:1/v1"}, "endpoints": {"- name: get_weather\n  path: /weather/{city}\n"}}
	draft = v.post("/imports/new", byHand).wantRedirect("/credentials")
	draft = strings.TrimSuffix(draft, "/credentials")
	form = v.get(draft + "/credentials").form("credentials-form")
	form.Set("auth.type", "")
	v.post(draft+"/credentials", form).wantRedirect("/try")
	if got := v.get(draft + "/try?tool=get_weather"); got.find("trial-form").Length() != 1 {
		t.Errorf("%s", got.text())
	}
	failed := v.post(draft+"/try", url.Values{"tool": {"get_weather"}, "f0": {"Oslo"}})
	if !strings.Contains(failed.find("answer").Text(), "Failed") || !strings.Contains(failed.text(), "http://127.0.0.1:1/v1/weather/Oslo") {
		t.Errorf("%s", failed.text())
	}
	v.post(draft+"/drop", nil).wantRedirect("/skills?done=import-discarded")
	if n := w.drafts(); n != 0 {
		t.Errorf("%d drafts", n)
	}
}

// Choices are saved at once, even if another tab saves the import.
func TestImportKeepsEachChoice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("Olga", identity.Operator)
	_, document := stock(t)
	draft := v.post("/imports/new", url.Values{"name": {"stock"}, "document": {document}}).wantRedirect("/imports/")
	form := v.get(draft + "/credentials").form("credentials-form")
	form.Set("auth.type", "")
	v.post(draft+"/credentials", form).wantRedirect("/try")
	choose := func(do, which string, operations, tags []string) string {
		form := v.get(draft).form("import-form")
		form["operation"], form["tags"] = operations, tags
		form.Set("which", which)
		form.Set("do", do)
		return v.post(draft, form).wantRedirect("/imports/")
	}
	tools := func() string {
		var names []string
		for _, option := range v.get(draft + "/try").find("trial-tool").Find("option").EachIter() {
			names = append(names, option.Text())
		}
		return strings.Join(names, " ")
	}
	choose("next", "chosen", []string{"listItems", "getItem"}, nil)
	if got := tools(); got != "listItems getItem" {
		t.Errorf("chosen: %q", got)
	}
	choose("show", "chosen", []string{"getItem"}, nil)
	if got := tools(); got != "getItem" {
		t.Errorf("unticked, then others shown: %q", got)
	}
	choose("page:1", "chosen", []string{"listItems"}, nil)
	if got := tools(); got != "listItems" {
		t.Errorf("ticked, then another page: %q", got)
	}
	// None is different from all.
	choose("show", "chosen", nil, nil)
	if to := v.get(draft + "/try").wantRedirect("/imports/"); to != draft {
		t.Errorf("nothing is chosen, and tried: %s", to)
	}
	for _, path := range []string{"/try", "/save"} {
		if to := v.post(draft+path, url.Values{"tool": {"listItems"}, "json": {"{}"}}).wantRedirect("/imports/"); to != draft {
			t.Errorf("nothing is chosen, and %s goes to %s", path, to)
		}
	}
	// All can be chosen again while a tag is selected.
	choose("show", "chosen", nil, []string{"doors"})
	choose("show", "all", nil, []string{"doors"})
	if got := tools(); got != "listItems getItem" {
		t.Errorf("all, with a tag ticked: %q", got)
	}
	choose("show", "chosen", nil, []string{"doors"})
	v.post(draft+"/save", nil).wantRedirect("/skills/")
	if include := w.skillNamed("stock").API.Include; len(include) != 1 || include[0].Tag != "doors" {
		t.Errorf("%+v", include)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.signedIn("Olga", identity.Operator)
	_, document := stock(t)
	for _, test := range []struct {
		form  url.Values
		field string
	}{
		{url.Values{"name": {"stock"}}, "problem-spec"},
		{url.Values{"name": {"No Name"}, "document": {document}}, "problem-name"},
		{url.Values{"name": {"stock"}, "document": {"{}"}}, "problem-document"},
		{url.Values{"name": {"stock"}, "document": {`{"swagger":"2.0"}`}}, "problem-document"},
		{url.Values{"name": {"stock"}, "spec": {"http://169.254.169.254/openapi.json"}}, "problem-spec"},
		{url.Values{"name": {"stock"}, "spec": {"http://h/"}, "document": {document}}, "problem-document"},
		{url.Values{"name": {"stock"}, "base_url": {"http://h/"}, "endpoints": {"- {name: a, path: /, patth: x}"}}, "problem-endpoints"},
		{url.Values{"name": {"stock"}, "base_url": {"http://h/"}, "endpoints": {"- {name: a"}}, "problem-endpoints"},
		{url.Values{"name": {"stock"}, "document": {document}, "endpoints": {"- {name: a, path: /}"}}, "problem-endpoints"},
	} {
		got := v.post("/imports/new", test.form)
		if got.status != http.StatusUnprocessableEntity || got.find(test.field).Length() != 1 {
			t.Errorf("%.80v: status %d: %s", test.form, got.status, got.find("problems").Text())
		}
	}
	draft := v.post("/imports/new", url.Values{"name": {"stock"}, "document": {document}}).wantRedirect("/imports/")
	none := v.post(draft, url.Values{"which": {"chosen"}, "do": {"next"}, "base_url": {"http://h/"}})
	if none.status != http.StatusUnprocessableEntity || !strings.Contains(none.find("problems").Text(), "must be at least one operation") {
		t.Errorf("status %d: %s", none.status, none.text())
	}
	bad := v.post(draft, url.Values{"which": {"all"}, "do": {"next"}, "base_url": {"nowhere"}})
	if bad.status != http.StatusUnprocessableEntity || bad.find("problem-base_url").Length() != 1 {
		t.Errorf("status %d: %s", bad.status, bad.text())
	}
	if got := v.post(draft+"/try", url.Values{"tool": {"deleteItem"}, "json": {`{"id":"1"}`}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("status %d: %s", got.status, got.text())
	}
	// Another operator does not see it.
	other := w.signedIn("Oskar", identity.Operator)
	for _, path := range []string{draft, draft + "/credentials", draft + "/try", "/imports/" + uuid.NewString()} {
		if got := other.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
	if got := other.post(draft+"/save", nil); got.status != http.StatusNotFound {
		t.Errorf("status %d", got.status)
	}
}

// A skill of an HTTP API is edited in its form. A document replaces the URL, and the secret is kept.
func TestEditOfAnAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server, document := stock(t)
	v := w.signedIn("Olga", identity.Operator)
	made, err := w.agents.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{Name: "stock", Transport: tool.OpenAPI, APISpec: agent.APISpec{
		Spec: server.URL + "/openapi.json", BaseURL: server.URL + "/v2", Auth: &agent.APIAuthSpec{Type: tool.APIBearer, Secret: "k3y"},
	}})
	check(t, err)
	path := "/skills/" + made.ID.String() + "/edit"
	form := v.get(path).form("skill-form")
	form.Set("auth.type", tool.APIBearer)
	form.Set("resources", agent.ResourcesGated)
	form.Set("connection", agent.ConnectionShared)
	form.Set("include", "tag=items,method=GET\r\nnone=x")
	if got := v.post(path, form); got.status != http.StatusUnprocessableEntity || got.find("problem-include").Length() != 1 {
		t.Errorf("status %d: %s", got.status, got.text())
	}
	form.Set("include", "tag=items,method=GET\r\n\r\naddItem")
	form.Set("document", document)
	v.post(path, form).wantRedirect("done=saved")
	skill, reached, err := w.agents.FreshSkill(t.Context(), made.ID)
	check(t, err)
	if skill.API.Spec != "" || skill.DocumentSize != len(document) || len(skill.API.Include) != 2 || skill.API.Include[1].OperationID != "addItem" || reached.AuthSecret != "k3y" {
		t.Errorf("%+v, %d bytes, secret %q", skill.API, skill.DocumentSize, reached.AuthSecret)
	}
}
