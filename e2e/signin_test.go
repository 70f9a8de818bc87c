package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/authserver"
	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

const clientSecret = "the-secret-of-holdpoint-at-the-provider"

// providers is a world with two real OpenID providers.
type providers struct {
	*world
	p                 *holdpoint.Process
	company, partners *authserver.Server
}

// newAgent creates a key as the bootstrap person, because the invited people here sign in with providers.
func (w *providers) newAgent(p *holdpoint.Process, name string) holdpoint.Agent {
	w.t.Helper()
	return holdpoint.Agent{URL: p.URL, Name: name, Key: w.newKey(p, "agent", "key", "create", name)}
}

func newProviders(t *testing.T) *providers {
	t.Helper()
	w := &providers{world: newWorld(t)}
	scopes := []string{"profile", "email", "groups"}
	w.company = authserver.Start(t, authserver.Config{Scopes: scopes}) // its userinfo endpoint has the claims
	w.partners = authserver.Start(t, authserver.Config{Scopes: scopes, ClaimsInIDToken: true, Path: "/partners"})
	config := writeFile(t, "oidc.yaml", fmt.Sprintf(`
- name: Company
  issuer: %s
  client_id: holdpoint
  client_secret_env: PROVIDER_SECRET
  scopes: [openid, profile, email, groups]
  roles: {reviewer: [tool-reviewers], operator: [platform]}
  teams: {prefix: team-}
- name: Partners
  issuer: %s
  client_id: gate
  default_roles: [reviewer]
`, w.company.Issuer, w.partners.Issuer))
	o := w.serverOptions()
	o.Port = holdpoint.FreePort(t)
	o.Args = append(o.Args, "--oidc-config", config)
	o.Env = append(o.Env, "PROVIDER_SECRET="+clientSecret)
	callback := fmt.Sprintf("http://127.0.0.1:%d/sign-in/callback", o.Port)
	w.company.AddClient(t, authserver.Client{ID: "holdpoint", Secret: clientSecret, RedirectURIs: []string{callback}, GrantTypes: []string{"authorization_code"}})
	w.partners.AddClient(t, authserver.Client{ID: "gate", RedirectURIs: []string{callback}, GrantTypes: []string{"authorization_code"}})
	w.company.SetPerson(t, "ada", map[string]any{"name": "Ada", "email": "ada@example.com", "groups": []string{"tool-reviewers", "team-payments"}})
	w.company.SetPerson(t, "olga", map[string]any{"name": "Olga", "groups": []string{"platform"}})
	w.company.SetPerson(t, "eve", map[string]any{"name": "<b>Eve</b>", "groups": []string{"visitors"}})
	w.partners.SetPerson(t, "ada", map[string]any{"name": "Ada"})
	w.p = program.Serve(t, o)
	t.Cleanup(func() {
		if log := w.p.Output(); strings.Contains(log, clientSecret) {
			t.Error("the log has the client's secret")
		}
	})
	return w
}

// signIn signs an account in through a provider, from the link on the page.
func (w *providers) signIn(page *browsertest.Page, provider, account string) {
	w.t.Helper()
	browsertest.Eval[bool](page, fmt.Sprintf(
		`([...document.querySelectorAll("[data-testid=sign-in-with]")].find(a => a.textContent.includes(%q)).id = "chosen", true)`, provider))
	page.ClickOn("#chosen")
	page.WaitFor("the provider to ask who it is", `document.querySelector("form#login") !== null`)
	browsertest.Eval[bool](page, fmt.Sprintf(`(document.querySelector("form#login input[name=account]").value = %q, true)`, account))
	page.ClickOn("form#login button")
	page.WaitFor("the provider to be done", `document.querySelector("form#consent, .brand") !== null`)
	if browsertest.Eval[bool](page, `document.querySelector("form#consent") !== null`) {
		page.ClickOn("form#consent button[data-testid=allow]")
		page.WaitFor("the way back", `document.querySelector(".brand") !== null`)
	}
}

func (w *providers) openBrowser() *browsertest.Page {
	w.t.Helper()
	page := browsertest.New(w.t, browsertest.Options{})
	page.Go(w.p.URL + "/sign-in")
	page.Wait("sign-in")
	return page
}

type member struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	Issuer       string   `json:"issuer"`
	Subject      string   `json:"subject"`
	ClaimedRoles []string `json:"claimed_roles"`
	ClaimedTeams []string `json:"claimed_teams"`
	Sessions     int      `json:"sessions"`
}

func (w *providers) findMember(issuer, subject string) member {
	w.t.Helper()
	list, err := holdpoint.List[member](w.t.Context(), operatorAPI(w.p), "people", "")
	if err != nil {
		w.t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(m member) bool { return m.Issuer == issuer && m.Subject == subject })
	if at < 0 {
		w.t.Fatalf("nobody is %s of %s among %+v", subject, issuer, list)
	}
	return list[at]
}

// TestSignInWithProviders: roles and teams come from groups. The same name at another issuer is another person.
func TestSignInWithProviders(t *testing.T) {
	t.Parallel()
	w := newProviders(t)
	ada := w.openBrowser()
	w.signIn(ada, "Company", "ada")
	ada.WaitText("person", "Ada")
	ada.WaitText("person", "reviewer")
	if browsertest.Eval[bool](ada, `document.querySelector('a[href="/members"]') !== null`) {
		t.Error("a reviewer is shown the members")
	}
	here := w.findMember(w.company.Issuer, "ada")
	if !slices.Equal(here.ClaimedRoles, []string{"reviewer"}) || !slices.Equal(here.ClaimedTeams, []string{"payments"}) || here.Sessions != 1 {
		t.Errorf("ada of the company: %+v", here)
	}
	var proved struct {
		Items []struct {
			AuthenticatedAt *time.Time `json:"authenticated_at"`
		} `json:"items"`
	}
	if err := operatorAPI(w.p).Do(t.Context(), http.MethodGet, "people/"+here.ID+"/sessions", nil, &proved); err != nil || len(proved.Items) != 1 || proved.Items[0].AuthenticatedAt == nil {
		t.Errorf("the provider was not asked when Ada proved who she is: %+v, %v", proved, err)
	}
	ada.Go(w.p.URL + "/members")
	ada.WaitText("message", "Not allowed")

	other := w.openBrowser()
	w.signIn(other, "Partners", "ada")
	other.WaitText("person", "Ada")
	if there := w.findMember(w.partners.Issuer, "ada"); there.ID == here.ID || there.Name != here.Name {
		t.Errorf("ada of the partners %+v, of the company %+v", there, here)
	}
	olga := w.openBrowser()
	w.signIn(olga, "Company", "olga")
	olga.WaitText("person", "operator")
	olga.Go(w.p.URL + "/members")
	olga.WaitText("members", w.partners.Issuer)

	eve := w.openBrowser()
	w.signIn(eve, "Company", "eve")
	eve.WaitText("refused-why", "no role")
	eve.WaitText("refused-name", "<b>Eve</b>")
	eve.Screenshot("no role")
	eve.Go(w.p.URL)
	eve.Wait("sign-in")
	for _, page := range []*browsertest.Page{ada, other, olga, eve} {
		for _, complaint := range page.Complaints() {
			if !strings.HasPrefix(complaint, "Failed to load resource") { // the provider has no icon, and eve gets 403
				t.Errorf("a page complained: %s", complaint)
			}
		}
	}
	for _, r := range w.company.RequestsTo("/auth") {
		if r.Method == http.MethodGet && (r.Query.Get("code_challenge_method") != "S256" || len(r.Query.Get("state")) < 20 || len(r.Query.Get("nonce")) < 20) {
			t.Errorf("authorization request %v", r.Query)
		}
	}
}

// TestAnswersOfAnotherFlowAreRefused: a changed authorization request signs no one in.
func TestAnswersOfAnotherFlowAreRefused(t *testing.T) {
	t.Parallel()
	w := newProviders(t)
	page := w.openBrowser()
	for _, changed := range []string{"nonce", "state"} {
		w.company.RewriteAuthorization(func(query url.Values) { query.Set(changed, "chosen-by-somebody-else") })
		page.Go(w.p.URL + "/sign-in")
		w.signIn(page, "Company", "ada")
		page.Wait("sign-in-refused")
		page.Screenshot("another " + changed)
		page.Go(w.p.URL)
		page.Wait("sign-in")
		// The provider still has a session, so continue in another browser.
		page = w.openBrowser()
	}
	w.company.RewriteAuthorization(func(query url.Values) { query.Set("code_challenge", strings.Repeat("A", 43)) })
	w.signIn(page, "Company", "ada")
	page.WaitText("refused-said", "invalid_grant")
	if n := w.company.Granted("authorization_code"); n != 1 { // only the wrong nonce got this far
		t.Errorf("%d codes were redeemed", n)
	}
	w.company.RewriteAuthorization(nil)
	w.signIn(w.openBrowser(), "Company", "ada")
	if m := w.findMember(w.company.Issuer, "ada"); m.Sessions != 1 {
		t.Errorf("ada: %+v", m)
	}
}

// TestProviderThatIsDown: the server starts, reports the unavailable provider, and allows sign-ins once it is back.
func TestProviderThatIsDown(t *testing.T) {
	t.Parallel()
	w := newProviders(t)
	w.company.Stop()
	page := w.openBrowser()
	browsertest.Eval[bool](page, `(document.querySelector("[data-testid=sign-in-with]").id = "chosen", true)`)
	page.ClickOn("#chosen")
	page.WaitText("refused-why", "Company is unavailable")
	page.Go(w.p.URL + "/sign-in")
	page.Wait("provider-down")
	page.Screenshot("down")
	w.company.Restart(t)
	w.signIn(page, "Company", "ada")
	page.WaitText("person", "Ada")
}

// TestHighRiskTakesANewProof: the provider asks for a new sign-in. Another person's sign-in there does not count. The
// typed text is kept.
func TestHighRiskTakesANewProof(t *testing.T) {
	t.Parallel()
	w := newProviders(t)
	server := skill.NewCounting(t)
	w.applyManifest(w.p, oneSkill(server.URL, "approval_timeout: 5h\ntools: {record: {risk: high}}\n"))
	agent := w.newAgent(w.p, "worker")
	made := make(chan error, 1)
	go func() {
		_, err := agent.Request(t.Context(), "tools/call", `{"name":"counting__record","arguments":{"n":1}}`)
		made <- err
	}()
	parked, err := pendingFor(t.Context(), "1", w.p)
	if err != nil {
		t.Fatal(err)
	}
	page := w.openBrowser()
	w.signIn(page, "Company", "ada")
	page.Wait("queue")
	w.moveClock("1 hour")
	page.Go(w.p.URL + "/calls/" + parked.CallID)
	page.Wait("decide")
	page.Type("reason", "as agreed with Olga")
	page.WaitFor("buttons to work", armed)
	page.Click("approve")
	page.WaitFor("the next step", `document.querySelector("[data-testid=confirm], [data-testid=sign-in-again]") !== null`)
	if page.Count("confirm") > 0 {
		page.WaitFor("buttons to work", armed)
		page.Click("approve")
	}
	page.WaitText("sign-in-again", "Ada")
	page.Screenshot("again")
	w.signIn(page, "Company", "olga")
	page.WaitText("sign-in-refused", "different person")

	page.Go(w.p.URL + "/calls/" + parked.CallID)
	page.WaitText("person", "Ada")
	page.Wait("decide")
	page.Go(w.p.URL + "/sign-in/again?next=" + url.QueryEscape("/calls/"+parked.CallID))
	w.signIn(page, "Company", "ada")
	page.Wait("decide")
	page.WaitFor("the draft", `document.querySelector("#reason").value === "as agreed with Olga"`)
	page.WaitFor("buttons to work", armed)
	page.Click("approve")
	page.WaitFor("the next step", `document.querySelector("[data-testid=confirm], [data-testid=outcome]") !== null`)
	if page.Count("confirm") > 0 {
		page.WaitFor("buttons to work", armed)
		page.Click("approve")
	}
	page.Wait("outcome")
	if err := <-made; err != nil {
		t.Error(err)
	}
	again := slices.DeleteFunc(w.company.RequestsTo("/auth"), func(r authserver.Request) bool { return r.Query.Get("max_age") != "0" })
	if len(again) != 2 {
		t.Errorf("the provider was asked %d times to ask again", len(again))
	}
	if m := w.findMember(w.company.Issuer, "ada"); m.Sessions != 1 {
		t.Errorf("ada: %+v", m)
	}
}

// TestSignOutEverywhere: the other browser is sent to the sign-in page.
func TestSignOutEverywhere(t *testing.T) {
	t.Parallel()
	w := newProviders(t)
	here, there := w.openBrowser(), w.openBrowser()
	w.signIn(here, "Company", "ada")
	w.signIn(there, "Company", "ada")
	there.WaitFor("the other browser to hear of changes", `document.documentElement.hasAttribute("data-live")`)
	here.Go(w.p.URL + "/settings")
	here.WaitFor("both sessions", `document.querySelectorAll("[data-testid=session]").length === 2`)
	here.Click("sign-out-everywhere")
	here.Wait("sign-in")
	there.Wait("sign-in")
	there.Go(w.p.URL + "/calls")
	there.Wait("sign-in")
	eventually.Succeeds(t, patience, "no session is left", func() error {
		if m := w.findMember(w.company.Issuer, "ada"); m.Sessions != 0 {
			return fmt.Errorf("%d sessions", m.Sessions)
		}
		return nil
	})
}
