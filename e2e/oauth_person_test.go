package e2e_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/protected"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/failpoint"
)

// newPersonalWorld has an authorization server with consent and dynamic client registration.
func newPersonalWorld(t testing.TB, as authserver.Config, skill protected.Config) *protectedWorld {
	t.Helper()
	as.Registration = true
	return newProtectedWorld(t, as, skill)
}

// connectAs connects the skill "counting" through the API and the authorization server.
func (w *protectedWorld) connectAs(p *holdpoint.Process, token string, at *authserver.Person) {
	w.t.Helper()
	api := holdpoint.API{URL: p.URL, Token: token}
	var skill, begun struct {
		ID  string `json:"id"`
		URL string `json:"authorization_url"`
	}
	if err := api.Do(w.t.Context(), http.MethodGet, "skills/counting", nil, &skill); err != nil {
		w.t.Fatal(err)
	}
	if err := api.Do(w.t.Context(), http.MethodPost, "skills/"+skill.ID+"/connect", struct{}{}, &begun); err != nil {
		w.t.Fatal(err)
	}
	back, err := at.Authorize(w.t.Context(), begun.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	b := holdpoint.NewBrowser(w.t)
	b.Open(p.URL + "/sign-in")
	b.Press("sign-in-token", map[string]string{"token": token})
	back.Scheme, back.Host = "http", strings.TrimPrefix(p.URL, "http://") // any process accepts the response
	b.Open(back.String())
	if b.Status != http.StatusOK || !strings.Contains(b.Text(), "Connected.") {
		w.t.Fatalf("back in the dashboard: HTTP %d: %s", b.Status, b.Text())
	}
}

// TestPersonConnectsInTheBrowser uses a real browser and a real authorization server. The tools appear, and the waiting
// call is made.
func TestPersonConnectsInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newPersonalWorld(t, authserver.Config{}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, "auto_approve: true\n"))
	agent := w.newAgent(p, "worker")
	if _, err := agent.Request(t.Context(), "tools/list", "{}"); err != nil {
		t.Fatal(err)
	}
	awaitConnection(t, p, needsConnection("consent")) // without a reload

	page := browsertest.New(t, browsertest.Options{})
	page.Go(p.URL + "/sign-in")
	page.Type("token", bootstrapToken)
	page.Click("sign-in-token")
	page.Wait("queue")
	page.Go(p.URL + "/connections")
	page.Click("connect")
	page.WaitText("origin", w.as.Issuer)
	page.Click("continue")
	page.WaitFor("the page to sign in", `document.querySelector("form#login") !== null`)
	browsertest.Eval[bool](page, `(document.querySelector("form#login input[name=account]").value = "ada", true)`)
	page.ClickOn("form#login button")
	page.WaitFor("the page to consent", `document.querySelector("form#consent") !== null`)
	page.ClickOn("form#consent button[data-testid=allow]")
	page.WaitText("notice", "Connected.")

	c := awaitConnection(t, p, isConnected)
	if !c.Renewable || c.Issuer != w.as.Issuer {
		t.Errorf("connection %+v", c)
	}
	eventually.Succeeds(t, patience, "the skill's tools", func() error {
		answer, err := agent.Request(t.Context(), "tools/list", "{}")
		if err == nil && !strings.Contains(string(answer.Raw), "counting__record") {
			err = fmt.Errorf("tools: %.300s", answer.Raw)
		}
		return err
	})
	recordNumber(t, agent, 1)
	if got := w.skill.Subject("1"); got != "ada" {
		t.Errorf("called on behalf of %q", got)
	}
	for _, r := range w.as.Requests() {
		if r.Path == "/auth" && (r.Query.Get("resource") != w.skill.URL || r.Query.Get("code_challenge_method") != "S256") {
			t.Errorf("authorization request %v", r.Query)
		}
	}
}

// TestRefreshTokensRotate: each refresh token is used once, without affecting calls.
func TestRefreshTokensRotate(t *testing.T) {
	t.Parallel()
	w := newPersonalWorld(t, authserver.Config{}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, "auto_approve: true\n"))
	w.connectAs(p, bootstrapToken, w.as.NewPerson(t, "ada"))
	agent := w.newAgent(p, "worker")
	for n := 1; n <= 3; n++ {
		recordNumber(t, agent, n)
		w.skill.Refuse(w.as.Secrets()...)
	}
	used := map[string]bool{}
	for _, r := range w.as.RequestsTo("/token") {
		if r.GrantType() != "refresh_token" {
			continue
		}
		if r.Form.Get("resource") != w.skill.URL {
			t.Errorf("a refresh for the resource %q", r.Form.Get("resource"))
		}
		if used[r.Form.Get("refresh_token")] {
			t.Error("a refresh token was used twice")
		}
		used[r.Form.Get("refresh_token")] = true
	}
	if len(used) != 2 {
		t.Errorf("%d refreshes, want 2", len(used))
	}
}

// TestRevokedGrant: a revoked consent is requested again. The call waits for it and then resumes.
func TestRevokedGrant(t *testing.T) {
	t.Parallel()
	w := newPersonalWorld(t, authserver.Config{}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, ""))
	w.connectAs(p, bootstrapToken, w.as.NewPerson(t, "ada"))
	agent := w.newAgent(p, "worker")
	answer, err := agent.CallTool(t.Context(), "counting__record", `{"n":1}`)
	if err != nil || !answer.Pending() {
		t.Fatalf("%v %s", err, answer.Text())
	}
	id := answer.Call().ID
	waiting, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	w.skill.Refuse(w.as.Secrets()...)
	for _, r := range w.as.RequestsTo("/token") { // of the registered client
		w.as.Revoke(t, clientOf(r))
	}
	if err := operatorAPI(p).Approve(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	awaitCall(t, operatorAPI(p), id, hasStatus("needs_connection"))
	awaitConnection(t, p, needsConnection("reconnect"))
	w.connectAs(p, bootstrapToken, w.as.NewPerson(t, "ada"))
	awaitCall(t, operatorAPI(p), id, hasStatus("succeeded"))
	if n := w.skill.Count("1"); n != 1 {
		t.Errorf("executed %d times", n)
	}
}

// clientOf returns the client of a token request.
func clientOf(r authserver.Request) string {
	if id := r.Form.Get("client_id"); id != "" {
		return id
	}
	request := http.Request{Header: r.Header}
	id, _, _ := request.BasicAuth()
	id, _ = url.QueryUnescape(id)
	return id
}

// TestPeopleConnectForThemselves: with personal connections, each person's calls use their own account. An agent
// without a principal has none.
func TestPeopleConnectForThemselves(t *testing.T) {
	t.Parallel()
	w := newPersonalWorld(t, authserver.Config{}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, "auto_approve: true\nconnection: per_user\n"))
	bare := w.newAgent(p, "worker")
	for i, name := range []string{"ada", "bob"} {
		token := w.invitePerson(p, name, "reviewer", "--agents", "worker")
		agent := bare
		agent.Key = token
		w.connectAs(p, token, w.as.NewPerson(t, name+"-there"))
		n := i + 1
		eventually.Succeeds(t, patience, "the tools of "+name, func() error {
			answer, err := agent.CallTool(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n))
			if err == nil && !hasSucceeded(answer) {
				err = fmt.Errorf("%v %s", answer.Error, answer.Text())
			}
			return err
		})
		if got := w.skill.Subject(strconv.Itoa(n)); got != name+"-there" {
			t.Errorf("%s's call was made on behalf of %q", name, got)
		}
	}
	answer, err := bare.CallTool(t.Context(), "counting__record", `{"n":3}`)
	if err != nil || answer.Call().Status != "denied" || answer.Call().Code != "no_principal" {
		t.Errorf("the bare agent's call: %v, %+v, %s", err, answer.Call(), answer.Text())
	}
}

// TestKilledBetweenRefreshAndCommit: the new tokens are lost with the process, and the old refresh token is used up.
// The connection shows that. Calls resume after a person connects.
func TestKilledBetweenRefreshAndCommit(t *testing.T) {
	t.Parallel()
	w := newPersonalWorld(t, authserver.Config{}, protected.Config{})
	steady := w.startServer()
	w.applyManifest(steady, oneSkill(w.skill.URL, "auto_approve: true\n"))
	w.connectAs(steady, bootstrapToken, w.as.NewPerson(t, "ada"))
	agent := w.newAgent(steady, "worker")
	recordNumber(t, agent, 1)

	doomed := w.serveArmed(failpoint.RefreshBeforeCommit)
	w.skill.Refuse(w.as.Secrets()...)
	there := agent
	there.URL = doomed.URL
	before := w.as.Granted("refresh_token")
	if _, err := there.CallTool(t.Context(), "counting__record", `{"n":2}`); err == nil {
		t.Error("the process that was to die answered")
	}
	doomed.AwaitKilled(t)
	if n := w.as.Granted("refresh_token") - before; n != 1 {
		t.Fatalf("%d refreshes before the death", n)
	}
	answer, err := agent.CallTool(t.Context(), "counting__record", `{"n":3}`)
	if err != nil || !answer.Pending() {
		t.Fatalf("%v, %s; want a call that waits", err, answer.Text())
	}
	id := answer.Call().ID
	awaitConnection(t, steady, needsConnection("reconnect"))
	w.connectAs(steady, bootstrapToken, w.as.NewPerson(t, "ada"))
	awaitCall(t, operatorAPI(steady), id, hasStatus("succeeded"))

	// The killed process's call was not sent, and is not lost.
	list, err := holdpoint.List[holdpoint.Call](t.Context(), operatorAPI(steady), "calls", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if argumentN(c.Arguments) == "2" {
			awaitCall(t, operatorAPI(steady), c.ID, func(c holdpoint.Call) error {
				if !c.Final() {
					return fmt.Errorf("status %s", c.Status)
				}
				return nil
			})
		}
	}
	if n := w.skill.Count("2"); n != 0 {
		t.Errorf("the dead process's call was executed %d times", n)
	}
}

// TestNothingSecretIsKeptInClear: neither the database nor the log contains a token or secret.
func TestNothingSecretIsKeptInClear(t *testing.T) {
	t.Parallel()
	w := newPersonalWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, "auto_approve: true\n"))
	w.connectAs(p, bootstrapToken, w.as.NewPerson(t, "ada"))
	agent := w.newAgent(p, "worker")
	recordNumber(t, agent, 1)
	w.skill.Refuse(w.as.Secrets()...)
	recordNumber(t, agent, 2)
	w.applyManifest(p, oneSkill(w.skill.URL, machineGrant))
	w.skill.Refuse(w.as.Secrets()...)
	recordNumber(t, agent, 3)
	w.as.AnswerTokenRequests(http.StatusBadRequest, "application/json",
		`{"error":"invalid_client","error_description":"no, holdpoint"}`)
	w.skill.Refuse(w.as.Secrets()...)
	refusedWith(t, w, agent, 4, "invalid_client")
	w.as.MendTokenEndpoint()
	if err := operatorAPI(p).Do(t.Context(), http.MethodPost, "connections/"+awaitConnection(t, p, func(connection) error { return nil }).ID+"/disconnect", struct{}{}, nil); err != nil {
		t.Fatal(err)
	}

	secrets := append(w.as.Secrets(), machineSecret)
	for _, r := range w.as.Requests() {
		for _, name := range []string{"code", "code_verifier", "client_secret", "refresh_token", "client_assertion", "token"} {
			if value := r.Form.Get(name); value != "" {
				secrets = append(secrets, value)
			}
		}
	}
	if len(secrets) < 8 {
		t.Fatalf("only %d secrets to look for", len(secrets))
	}
	places := map[string]string{"the log": p.Output(), "the database": dumpDatabase(t, w.directURL())}
	for _, path := range []string{"connections", "skills", "calls", "audit", "conversations"} {
		var body any
		if err := operatorAPI(p).Do(t.Context(), http.MethodGet, path, nil, &body); err == nil {
			places["/api/v1/"+path] = fmt.Sprint(body)
		}
	}
	for name, text := range places {
		if len(text) < 200 {
			t.Errorf("%s has %d bytes only", name, len(text))
		}
		for _, secret := range secrets {
			// bytea columns are dumped in hexadecimal.
			if strings.Contains(text, secret) || strings.Contains(text, hex.EncodeToString([]byte(secret))) {
				t.Errorf("%s has the secret %.12s…", name, secret)
			}
		}
	}
}

// dumpDatabase returns the whole database as text.
func dumpDatabase(t testing.TB, databaseURL string) string {
	t.Helper()
	program, err := exec.LookPath("pg_dump")
	if err != nil {
		matches, _ := os.ReadDir("/usr/lib/postgresql")
		for _, m := range matches {
			program = "/usr/lib/postgresql/" + m.Name() + "/bin/pg_dump"
		}
	}
	out, err := exec.CommandContext(t.Context(), program, "--dbname="+databaseURL, "--inserts").Output()
	if err != nil {
		t.Fatalf("pg_dump: %v", err)
	}
	return string(out)
}
