package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// protected is a skill server that requires a token, with its authorization server.
type protected struct {
	*httptest.Server
	closed atomic.Bool // the authorization server answers with errors
	others []string    // further authorization servers in the skill server's metadata
}

const accessToken, refreshToken, clientSecret = "4ccess-s3cret", "r3fresh-s3cret", "cl1ent-s3cret"

func newProtected(t *testing.T, others ...string) *protected {
	t.Helper()
	p := &protected{others: others}
	mux := http.NewServeMux()
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	answer := func(body any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if p.closed.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(body)
		}
	}
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", answer(map[string]any{
		"resource": p.URL + "/mcp", "authorization_servers": append([]string{p.URL}, others...), "scopes_supported": []string{"ledger.write"},
	}))
	mux.HandleFunc("/.well-known/oauth-authorization-server", answer(map[string]any{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
		"registration_endpoint": p.URL + "/register", "code_challenge_methods_supported": []string{"S256"},
		"response_types_supported": []string{"code"}, "authorization_response_iss_parameter_supported": true,
	}))
	mux.HandleFunc("/register", answer(map[string]any{"client_id": "c-1", "client_secret": clientSecret, "client_secret_expires_at": 0}))
	mux.HandleFunc("/token", answer(map[string]any{
		"access_token": accessToken, "token_type": "Bearer", "refresh_token": refreshToken, "expires_in": 3600, "scope": "ledger.read",
	}))
	return p
}

// protect registers a skill at the server.
func (w *world) protect(p *protected, name, connection string) *agent.Skill {
	w.t.Helper()
	skill, err := w.agents.CreateSkill(w.t.Context(), audit.System(), agent.SkillSpec{
		Name: name, Transport: tool.HTTP, URL: p.URL + "/mcp", Connection: connection,
	})
	check(w.t, err)
	_, err = w.agents.Assign(w.t.Context(), audit.System(), w.billing.ID, agent.AssignmentSpec{Skill: name}, nil)
	check(w.t, err)
	return skill
}

// begin requests the URL at which a person connects a skill.
func (w *world) begin(skill, token, body string) url.Values {
	w.t.Helper()
	v := w.post("skills/"+skill+"/connect", token, body).wantStatus(w.t, 200)
	address, err := url.Parse(fmt.Sprint(v["authorization_url"]))
	check(w.t, err)
	if !strings.HasSuffix(address.Path, "/authorize") || len(v) != 1 {
		w.t.Fatalf("got %v", v)
	}
	return address.Query()
}

// connect connects a skill as a person's browser does.
func (w *world) connect(p *protected, skill, token string) {
	w.t.Helper()
	asked := w.begin(skill, token, "")
	_, err := w.oauth.Callback(w.t.Context(), w.personID(token), url.Values{"state": asked["state"], "code": {"x"}, "iss": {p.URL}})
	check(w.t, err)
}

// listConnections lists the connections that a caller sees, and checks that they contain no secrets.
func (w *world) listConnections(token, query string) []map[string]any {
	w.t.Helper()
	got := w.get("connections"+query, token)
	for _, secret := range []string{accessToken, refreshToken, clientSecret} {
		if strings.Contains(got.body, secret) {
			w.t.Errorf("a secret is shown: %s", got.body)
		}
	}
	var list []map[string]any
	for _, item := range listItems(w.t, got.wantStatus(w.t, 200)) {
		c, _ := item.(map[string]any)
		list = append(list, c)
	}
	return list
}

// wantFields checks fields of an object.
func wantFields(t *testing.T, what string, got map[string]any, fields string) {
	t.Helper()
	var want map[string]json.RawMessage
	check(t, json.Unmarshal([]byte(fields), &want))
	for name, value := range want {
		text, err := json.Marshal(got[name])
		check(t, err)
		if string(text) != string(value) {
			t.Errorf("%s: %s is %s, want %s", what, name, text, value)
		}
	}
}

func TestSharedConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProtected(t)
	skill := w.protect(p, "ledger", "")
	w.post("skills/ledger/connect", w.reviewer, `{}`).wantProblem(t, 403, "forbidden")
	w.post("skills/nothing/connect", w.operator, `{}`).wantProblem(t, 404, "not_found")
	asked := w.begin(skill.ID.String(), w.operator, `{}`)
	if asked.Get("code_challenge_method") != "S256" || asked.Get("resource") != p.URL+"/mcp" || asked.Get("client_id") != "c-1" {
		t.Errorf("asked %v", asked)
	}
	wantFields(t, "begun", w.listConnections(w.operator, "")[0], `{"state":"needs_connection","person":null,"who_can_resolve":"an operator",
		"connected_at":null,"connected_by":null,"issuer":null,"scopes_granted":[]}`)
	w.connect(p, "ledger", w.operator)
	list := w.listConnections(w.operator, "?skill=ledger")
	wantFields(t, "connected", list[0], `{"skill":"ledger","state":"connected","person":null,"need":null,"reason":null,"who_can_resolve":null,
		"grant":"authorization_code","issuer":"`+p.URL+`","resource":"`+p.URL+`/mcp","client_id":"c-1","scopes_granted":["ledger.read"],
		"scopes_asked":["ledger.write"],"issuers":[],"renewable":true,"connected_by":"olga","error":null,"waiting_calls":0}`)
	if len(list) != 1 || list[0]["connected_at"] == nil || list[0]["expires_at"] == nil || list[0]["refreshed_at"] == nil {
		t.Errorf("got %v", list)
	}
	id := fmt.Sprint(list[0]["id"])
	if got := w.listConnections(w.operator, "?skill=files"); len(got) != 0 {
		t.Errorf("of another skill: %v", got)
	}
	w.get("connections?skill=nothing", w.operator).wantProblem(t, 404, "not_found")
	if got := w.listConnections(w.reviewer, ""); len(got) != 1 {
		t.Errorf("shared connections that a reviewer sees: %v", got)
	}
	w.get("connections/"+id, w.reviewer).wantStatus(t, 200)
	w.post("connections/"+id+"/disconnect", w.reviewer, "").wantProblem(t, 403, "forbidden")
	wantFields(t, "got", w.get("connections/"+id, w.operator).wantStatus(t, 200), `{"id":"`+id+`","state":"connected"}`)
	wantFields(t, "disconnected", w.post("connections/"+id+"/disconnect", w.operator, "").wantStatus(t, 200), `{"state":"needs_connection",
		"need":"reconnect","reason":"it was disconnected","who_can_resolve":"an operator","connected_at":null,"scopes_granted":[]}`)
	for _, nothing := range []string{uuid.NewString(), "x"} {
		w.get("connections/"+nothing, w.operator).wantProblem(t, 404, "not_found")
		w.post("connections/"+nothing+"/disconnect", w.operator, "").wantProblem(t, 404, "not_found")
	}
}

func TestOwnConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProtected(t)
	w.protect(p, "ledger", "per_user")
	vera, walt := w.createToken("vera", identity.Reviewer), w.createToken("walt", identity.Reviewer)
	w.connect(p, "ledger", vera)
	w.connect(p, "ledger", w.operator)
	own := w.listConnections(vera, "")
	if len(own) != 1 || len(w.listConnections(walt, "")) != 0 || len(w.listConnections(w.operator, "")) != 2 {
		t.Fatalf("vera sees %v", own)
	}
	veras, id := w.personID(vera), fmt.Sprint(own[0]["id"])
	wantMembers(t, "own", own[0], `{"state":"connected","person":{"id":"`+veras.String()+`","name":"vera"},"connected_by":"vera"}`)
	w.get("connections/"+id, walt).wantProblem(t, 404, "not_found")
	w.post("connections/"+id+"/disconnect", walt, "").wantProblem(t, 404, "not_found")
	wantFields(t, "still", w.get("connections/"+id, vera).wantStatus(t, 200), `{"state":"connected"}`)

	// The key of an old connection must not end the present shared connection.
	_, err := w.agents.UpdateSkill(t.Context(), audit.System(), w.skillID("ledger"), readPatch(t, `{"connection":"shared"}`))
	check(t, err)
	w.connect(p, "ledger", w.operator)
	w.post("connections/"+id+"/disconnect", vera, "").wantProblem(t, 409, "state_conflict")
	states := map[any]int{}
	for _, c := range w.listConnections(w.operator, "") {
		states[c["state"]]++
	}
	if states["connected"] != 3 {
		t.Errorf("states %v", states)
	}
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), w.skillID("ledger"), readPatch(t, `{"connection":"per_user"}`))
	check(t, err)
	wantFields(t, "ended by an operator", w.post("connections/"+id+"/disconnect", w.operator, "").wantStatus(t, 200),
		`{"state":"needs_connection","who_can_resolve":"vera"}`)
}

func (w *world) skillID(name string) uuid.UUID {
	w.t.Helper()
	skill, err := w.agents.SkillByName(w.t.Context(), name)
	check(w.t, err)
	return skill.ID
}

func readPatch(t *testing.T, text string) agent.SkillPatch {
	t.Helper()
	var p agent.SkillPatch
	check(t, json.Unmarshal([]byte(text), &p))
	return p
}

func TestLinkedPeopleShareAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProtected(t)
	w.protect(p, "ledger", "per_user")
	vera, second := w.createToken("vera", identity.Reviewer), w.createToken("vera at work", identity.Reviewer)
	w.connect(p, "ledger", vera)
	path := "people/" + w.personID(second).String() + "/link"
	linked := w.post(path, w.operator, fmt.Sprintf(`{"same_as":%q}`, w.personID(vera))).wantStatus(t, 200)
	link, _ := linked["link"].(map[string]any)
	wantMembers(t, "link", link, `{"same_as":{"id":"`+w.personID(vera).String()+`","name":"vera"},"by":"olga"}`)
	own := w.listConnections(second, "")
	if len(own) != 1 {
		t.Fatalf("got %v", own)
	}
	wantFields(t, "linked", own[0], `{"connected_by":"vera"}`)
	id := fmt.Sprint(own[0]["id"])
	w.get("connections/"+id, second).wantStatus(t, 200)
	w.send("DELETE", "/api/v1/"+path, w.operator, "").wantStatus(t, 204)
	w.get("connections/"+id, second).wantProblem(t, 404, "not_found")
	w.send("DELETE", "/api/v1/"+path, w.operator, "").wantProblem(t, 404, "not_found")
}

func TestPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	vera, walt := w.personID(w.createToken("vera", identity.Reviewer)), w.personID(w.createToken("walt", identity.Reviewer))
	for _, test := range []struct {
		person, same string
		status       int
		code         string
	}{
		{vera.String(), vera.String(), 422, "invalid_request"},
		{vera.String(), "vera", 422, "invalid_request"},
		{vera.String(), uuid.NewString(), 422, "invalid_request"},
		{uuid.NewString(), vera.String(), 404, "not_found"},
		{"x", vera.String(), 404, "not_found"},
	} {
		got := w.post("people/"+test.person+"/link", w.operator, fmt.Sprintf(`{"same_as":%q}`, test.same))
		got.wantProblem(t, test.status, test.code)
		if test.status == 422 && !strings.Contains(got.body, `"location":"body.same_as"`) {
			t.Errorf("got %s", got.body)
		}
	}
	w.post("people/"+vera.String()+"/link", w.operator, fmt.Sprintf(`{"same_as":%q}`, walt)).wantStatus(t, 200)
	w.post("people/"+walt.String()+"/link", w.operator, fmt.Sprintf(`{"same_as":%q}`, vera)).wantProblem(t, 422, "invalid_request")
	links := map[string]any{}
	cursor, pages := "", 0
	for more := true; more; pages++ {
		page := w.get("people?limit=2"+cursor, w.operator).wantStatus(t, 200)
		for _, item := range listItems(t, page) {
			person, _ := item.(map[string]any)
			links[fmt.Sprint(person["name"])] = person["link"]
		}
		var next string
		if next, more = page["next_cursor"].(string); more {
			cursor = "&cursor=" + next
		}
	}
	if len(links) != 4 || pages != 2 || links["vera"] == nil || links["walt"] != nil {
		t.Errorf("%d pages: %v", pages, links)
	}
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProtected(t, "https://other.example")
	w.protect(p, "ledger", "")
	needed := w.post("skills/ledger/connect", w.operator, `{}`).wantProblem(t, 409, "connection_needed")
	if detail := fmt.Sprint(needed["detail"]); !strings.Contains(detail, p.URL) || !strings.Contains(detail, "https://other.example") {
		t.Errorf("detail %s", detail)
	}
	w.begin("ledger", w.operator, fmt.Sprintf(`{"issuer":%q}`, p.URL))
	w.post("skills/ledger/connect", w.operator, `{"issuer":"https://elsewhere.example"}`).wantProblem(t, 502, "authorization_failed")
	w.post("skills/ledger/connect", w.operator, `{"issuer":"`+nul+`"}`).wantProblem(t, 422, "invalid_request")
	w.post("skills/ledger/connect", w.operator, `{"who":"me"}`).wantProblem(t, 422, "invalid_request")

	down := newProtected(t)
	w.protect(down, "away", "")
	down.closed.Store(true)
	failed := w.post("skills/away/connect", w.operator, "").wantProblem(t, 502, "authorization_failed")
	wantFields(t, "failing", w.listConnections(w.operator, "?skill=away")[0], `{"state":"failing","who_can_resolve":"an operator"}`)
	if detail := fmt.Sprint(failed["detail"]); !strings.Contains(detail, "503") {
		t.Errorf("detail %s", detail)
	}

	for name, spec := range map[string]agent.SkillSpec{
		"keyed":   {Transport: tool.HTTP, URL: p.URL + "/mcp", Headers: map[string]string{"authorization": "Bearer x"}},
		"machine": {Transport: tool.HTTP, URL: p.URL + "/mcp", OAuth: &agent.OAuthSpec{Grant: tool.ClientCredentials, ClientID: "c"}},
		"local":   {Transport: tool.Stdio, Command: []string{"true"}},
	} {
		spec.Name = name
		_, err := w.agents.CreateSkill(t.Context(), audit.System(), spec)
		check(t, err)
		w.post("skills/"+name+"/connect", w.operator, "").wantProblem(t, 409, "state_conflict")
		if got := w.listConnections(w.operator, "?skill="+name); len(got) != 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestCallsThatWaitForAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := newProtected(t)
	w.protect(p, "ledger", "per_user")
	vera := w.createToken("vera", identity.Reviewer)
	w.connect(p, "ledger", vera)
	w.source.Require(&tool.Connect{Reason: "nobody has connected this skill yet"})
	id := w.submitCall("ledger__write", `{"n":1}`, w.personID(vera))
	w.submitCall("ledger__write", `{"n":2}`, w.personID(vera))
	w.submitCall("files__write", `{"n":3}`, uuid.Nil)
	want := `{"status":"needs_connection","message":"nobody has connected this skill yet","skill":"ledger"}`
	one := w.get("calls/"+id.String(), vera).wantStatus(t, 200)
	wantFields(t, "call", one, want)
	listed := listItems(t, w.get("calls?agent=billing&status=needs_connection", w.operator).wantStatus(t, 200))
	if len(listed) != 3 {
		t.Fatalf("listed %v", listed)
	}
	for _, item := range append(listed, one) {
		c, _ := item.(map[string]any)
		if c["deadline"] == nil {
			t.Errorf("no deadline: %v", c)
		}
	}
	wantFields(t, "connection", w.listConnections(vera, "")[0], `{"waiting_calls":2}`)
	w.post("calls/"+id.String()+"/cancel", vera, "").wantStatus(t, 200)
	wantFields(t, "cancelled", w.get("calls/"+id.String(), vera).wantStatus(t, 200), `{"status":"cancelled","deadline":null}`)
	wantFields(t, "connection", w.listConnections(vera, "")[0], `{"waiting_calls":1}`)
}
