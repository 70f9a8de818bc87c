package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/protected"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

const machineSecret = "a-secret:with/odd+characters%"

// protectedWorld has an authorization server and a skill server that accepts its tokens.
type protectedWorld struct {
	*world
	as    *authserver.Server
	skill *protected.Server
}

func newProtectedWorld(t testing.TB, as authserver.Config, skill protected.Config) *protectedWorld {
	t.Helper()
	w := &protectedWorld{world: newWorld(t)}
	w.as = authserver.Start(t, as)
	skill.Issuer = w.as.Issuer
	w.skill = protected.Start(t, skill)
	w.as.AddResource(t, w.skill.URL, authserver.DefaultScopes...)
	w.args = []string{"--trusted-hosts", "127.0.0.1"} // the authorization server runs on this machine
	return w
}

// machineClient is a client that needs no person.
func machineClient() authserver.Client {
	return authserver.Client{ID: "holdpoint", Secret: machineSecret}
}

const machineGrant = `auto_approve: true
oauth: {grant: client_credentials, client_id: holdpoint, client_secret: "` + machineSecret + `"}
`

// recordNumber calls the tool that records a number, and expects success.
func recordNumber(t testing.TB, a holdpoint.Agent, n int) {
	t.Helper()
	answer, err := a.CallTool(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n))
	if err != nil {
		t.Fatal(err)
	}
	if !hasSucceeded(answer) {
		t.Fatalf("recording %d: %s", n, answer.Text())
	}
}

func hasSucceeded(a holdpoint.Answer) bool { return a.Error == nil && !a.Result.IsError }

// refusedWith calls the tool, and expects a failure with this text and no execution.
func refusedWith(t testing.TB, w *protectedWorld, a holdpoint.Agent, n int, gist string) {
	t.Helper()
	answer, err := a.CallTool(t.Context(), "counting__record", fmt.Sprintf(`{"n":%d}`, n))
	if err != nil {
		t.Fatal(err)
	}
	if text := answer.Text(); hasSucceeded(answer) || !strings.Contains(text, gist) || !strings.Contains(text, "not executed") {
		t.Fatalf("recording %d: %s; want a failure that says %q and that it was not executed", n, text, gist)
	}
	if w.skill.Count(strconv.Itoa(n)) != 0 {
		t.Errorf("%d was recorded", n)
	}
}

// TestMachineIsAuthorized: a protected server works once it is registered with its URL and a client.
func TestMachineIsAuthorized(t *testing.T) {
	t.Parallel()
	for _, stateless := range []bool{false, true} {
		t.Run(fmt.Sprintf("stateless=%t", stateless), func(t *testing.T) {
			t.Parallel()
			w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{Stateless: stateless})
			p := w.startServer()
			w.applyManifest(p, oneSkill(w.skill.URL, machineGrant))
			agent := w.newAgent(p, "worker")
			recordNumber(t, agent, 1)
			if got := w.skill.Subject("1"); got != "holdpoint" {
				t.Errorf("called on behalf of %q", got)
			}
			for _, r := range w.as.RequestsTo("/token") {
				if r.Form.Get("resource") != w.skill.URL {
					t.Errorf("a token was asked for the resource %q", r.Form.Get("resource"))
				}
			}
			if n := w.as.Granted("client_credentials"); n != 1 {
				t.Errorf("%d tokens were granted, want 1", n)
			}
		})
	}
}

// TestMoreScopeIsAskedFor: a tool needs more scopes than the server first requests.
func TestMoreScopeIsAskedFor(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, machineGrant))
	agent := w.newAgent(p, "worker")
	recordNumber(t, agent, 1)
	answer, err := agent.CallTool(t.Context(), "counting__write", `{"n":2}`)
	if err != nil {
		t.Fatal(err)
	}
	if !hasSucceeded(answer) || w.skill.Count("2") != 1 {
		t.Fatalf("write: %s; recorded %d times", answer.Text(), w.skill.Count("2"))
	}
	if got := strings.Fields(w.skill.Scope("2")); len(got) != 2 {
		t.Errorf("the scopes of the second token are %q, want both", got)
	}
	recordNumber(t, agent, 3)
	if n := w.as.Granted("client_credentials"); n != 2 {
		t.Errorf("%d tokens were granted, want 2", n)
	}
}

// TestOwnKey: Holdpoint signs with its own key, which the authorization server fetches from its public URL.
func TestOwnKey(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{}, protected.Config{})
	p := w.startServer()
	w.as.AddClient(t, authserver.Client{ID: "signer", AuthMethod: "private_key_jwt", JWKSURI: p.URL + "/oauth/jwks.json"})
	w.applyManifest(p, oneSkill(w.skill.URL, "auto_approve: true\noauth: {grant: client_credentials, client_id: signer}\n"))
	recordNumber(t, w.newAgent(p, "worker"), 1)
	requests := w.as.RequestsTo("/token")
	last := requests[len(requests)-1]
	if last.Form.Get("client_assertion") == "" || last.Form.Get("client_secret") != "" {
		t.Errorf("the client authenticated itself by %v", last.Form)
	}
}

// TestAuthorizationServerMisbehaves: each fault is reported clearly, and nothing is executed. After the fault the skill
// works again.
func TestAuthorizationServerMisbehaves(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, machineGrant))
	agent := w.newAgent(p, "worker")
	recordNumber(t, agent, 1)
	revoke := func() { w.skill.Refuse(w.as.Secrets()...) }

	revoke()
	w.as.AnswerTokenRequests(http.StatusOK, "text/html", "<html>Welcome</html>")
	refusedWith(t, w, agent, 2, "not a token response")
	w.as.AnswerTokenRequests(http.StatusInternalServerError, "text/plain", "oops")
	refusedWith(t, w, agent, 3, "HTTP 500")
	w.as.AnswerTokenRequests(http.StatusBadRequest, "application/json", `{"error":"invalid_target","error_description":"no such resource"}`)
	refusedWith(t, w, agent, 4, "invalid_target (no such resource)")
	w.as.MendTokenEndpoint()
	recordNumber(t, agent, 5)

	revoke()
	w.as.Stop()
	refusedWith(t, w, agent, 6, "connection refused")
	w.as.Restart(t)
	recordNumber(t, agent, 7)
}

// TestSlowAuthorizationServer: a call waits for a limited time. Tokens that arrive later are used.
func TestSlowAuthorizationServer(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{})
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, machineGrant+"call_timeout: 8s\n"))
	agent := w.newAgent(p, "worker")
	recordNumber(t, agent, 1)
	w.skill.Refuse(w.as.Secrets()...)
	hold := w.as.HoldTokenResponses()
	refusedWith(t, w, agent, 2, "time ran out")
	hold.Await(t, 1)
	hold.Release()
	recordNumber(t, agent, 3)
	if n := w.as.Granted("client_credentials"); n != 2 {
		t.Errorf("%d tokens were granted, want 2: the one whose call had given up was not lost", n)
	}
}

// TestWrongResource: the authorization server does not know the skill's server, or issues tokens for another.
func TestWrongResource(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{})
	other := protected.Start(t, protected.Config{Issuer: w.as.Issuer})
	p := w.startServer()
	w.applyManifest(p, fmt.Sprintf(`skills:
  - {name: good, transport: http, url: %q, auto_approve: true, oauth: {grant: client_credentials, client_id: holdpoint, client_secret: %q}}
  - {name: unknown, transport: http, url: %q, auto_approve: true, oauth: {grant: client_credentials, client_id: holdpoint, client_secret: %q}}
agents: [{name: worker, skills: [good, unknown]}]
`, w.skill.URL, machineSecret, other.URL, machineSecret))
	agent := w.newAgent(p, "worker")
	answer, err := agent.CallTool(t.Context(), "good__record", `{"n":1}`)
	if err != nil || !hasSucceeded(answer) {
		t.Fatalf("good: %v, %s", err, answer.Text())
	}
	answer, err = agent.CallTool(t.Context(), "unknown__record", `{"n":1}`)
	if err == nil && hasSucceeded(answer) {
		t.Fatalf("unknown: %s", answer.Text())
	}
	list := newCLI(p, bootstrapToken).Must(t, "skill", "list", "--json")
	if !strings.Contains(list, "invalid_target") {
		t.Errorf("the list of skills does not say why:\n%s", list)
	}
	// The other server must not get tokens of the first one.
	for _, seen := range other.Authorizations() {
		t.Errorf("the other server got %q", seen)
	}
}

// TestWrongAudience: a skill server refuses tokens for another server.
func TestWrongAudience(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{Path: "/a/mcp"})
	origin := strings.TrimSuffix(w.skill.URL, "/a/mcp")
	w.as.AddResource(t, origin, authserver.DefaultScopes...)
	w.skill.Behave(protected.Behaviour{Resource: origin}) // its metadata and its check disagree
	p := w.startServer()
	w.applyManifest(p, oneSkill(w.skill.URL, strings.Replace(machineGrant, "oauth: {", "oauth: {trust_origin: true, ", 1)))
	agent := w.newAgent(p, "worker")
	if _, err := agent.Request(t.Context(), "tools/list", "{}"); err != nil {
		t.Fatal(err)
	}
	awaitConnection(t, p, func(c connection) error {
		if !strings.Contains(c.Error, "refuses the tokens") {
			return fmt.Errorf("error %q, want one that says that its tokens are refused", c.Error)
		}
		return nil
	})
	if _, err := agent.CallTool(t.Context(), "counting__record", `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	if w.skill.Count("1") != 0 {
		t.Error("the call was let in")
	}
}

// TestOneRenewal: fifty calls at two processes find an expired token, which is renewed once.
func TestOneRenewal(t *testing.T) {
	t.Parallel()
	w := newProtectedWorld(t, authserver.Config{Clients: []authserver.Client{machineClient()}}, protected.Config{})
	first := w.startServer()
	second := w.startServer()
	w.applyManifest(first, oneSkill(w.skill.URL, machineGrant))
	one := w.newAgent(first, "worker")
	two := one
	two.URL = second.URL
	recordNumber(t, one, 1)
	recordNumber(t, two, 2)
	before := w.as.Granted("client_credentials")
	w.skill.Refuse(w.as.Secrets()...)
	var calls sync.WaitGroup
	failures := make(chan string, 50)
	for i := range 50 {
		agent := one
		if i%2 == 1 {
			agent = two
		}
		calls.Go(func() {
			answer, err := agent.CallTool(context.WithoutCancel(t.Context()), "counting__record", fmt.Sprintf(`{"n":%d}`, 100+i))
			if err != nil || !hasSucceeded(answer) {
				failures <- fmt.Sprintf("call %d: %v %s", i, err, answer.Text())
			}
		})
	}
	calls.Wait()
	close(failures)
	for failure := range failures {
		t.Error(failure)
	}
	if n := w.as.Granted("client_credentials") - before; n != 1 {
		t.Errorf("%d tokens were granted for 50 calls, want 1", n)
	}
	for i := range 50 {
		if n := w.skill.Count(strconv.Itoa(100 + i)); n != 1 {
			t.Errorf("call %d was executed %d times", i, n)
		}
	}
}

// awaitConnection waits until the only connection meets the condition.
func awaitConnection(t testing.TB, p *holdpoint.Process, wanted func(connection) error) connection {
	t.Helper()
	var found connection
	eventually.Succeeds(t, patience, "the connection", func() error {
		list, err := holdpoint.List[connection](t.Context(), operatorAPI(p), "connections", "")
		if err != nil {
			return err
		}
		if len(list) != 1 {
			return fmt.Errorf("%d connections", len(list))
		}
		found = list[0]
		return wanted(found)
	})
	return found
}

// connection is a connection of the API.
type connection struct {
	ID            string   `json:"id"`
	State         string   `json:"state"`
	Need          string   `json:"need"`
	Reason        string   `json:"reason"`
	Issuer        string   `json:"issuer"`
	ScopesGranted []string `json:"scopes_granted"`
	Renewable     bool     `json:"renewable"`
	Error         string   `json:"error"`
}

func isConnected(c connection) error {
	if c.State != "connected" {
		return fmt.Errorf("state %s (%s): %s %s", c.State, c.Need, c.Reason, c.Error)
	}
	return nil
}

func needsConnection(what string) func(connection) error {
	return func(c connection) error {
		if c.Need != what {
			return fmt.Errorf("state %s, need %q: %s %s; want %q", c.State, c.Need, c.Reason, c.Error, what)
		}
		return nil
	}
}
