package ui_test

import (
	"bufio"
	"context"
	"maps"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/providertest"
)

// withProvider returns a world with an identity provider that gives these claims to everyone.
func withProvider(t *testing.T, groups ...string) *world {
	t.Helper()
	idp := providertest.New("holdpoint", "s3cret")
	t.Cleanup(idp.Close)
	w := newWorldWith(t, idp, nil)
	w.setClaims(nil, groups...)
	return w
}

// setClaims sets the claims that the provider gives.
func (w *world) setClaims(claims map[string]any, groups ...string) {
	all := map[string]any{"name": "Vera", "email": "vera@example.com", "groups": groups}
	maps.Copy(all, claims)
	w.idp.Lie(providertest.Lies{Claims: all})
}

func (w *world) providerAt(publicURL string) *provider.Provider {
	w.t.Helper()
	p, err := provider.New(provider.Config{
		Name: "Company", Issuer: w.idp.URL, ClientID: w.idp.ClientID, ClientSecret: w.idp.ClientSecret, Session: 2 * time.Hour,
		Roles: map[identity.Role][]string{identity.Reviewer: {"reviewers"}, identity.Operator: {"platform"}},
	}, provider.Surroundings{PublicURL: publicURL, Now: time.Now})
	check(w.t, err)
	w.t.Cleanup(p.Close)
	return p
}

// there follows the redirect to the provider, and returns the path to which the provider redirects the browser.
func (v *visitor) there(to string) (back string) {
	v.w.t.Helper()
	r, err := http.NewRequestWithContext(v.w.t.Context(), http.MethodGet, to, nil)
	check(v.w.t, err)
	a := v.do(r)
	back, ok := strings.CutPrefix(a.header.Get("Location"), v.w.server.URL)
	if !ok {
		v.w.t.Fatalf("the provider answers %d and sends to %q", a.status, a.header.Get("Location"))
	}
	return back
}

// followSignIn signs in through the provider from a link on a page.
func (v *visitor) followSignIn(link string) *answer {
	v.w.t.Helper()
	a := v.get(link, "Sec-Fetch-Site", "same-origin")
	if !strings.HasPrefix(a.header.Get("Location"), v.w.idp.URL+"/authorize?") {
		v.w.t.Fatalf("%s: %d to %q: %s", link, a.status, a.header.Get("Location"), a.text())
	}
	return v.get(v.there(a.header.Get("Location")), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document")
}

func (v *visitor) signsInWith(page string) *answer {
	v.w.t.Helper()
	return v.followSignIn(v.get(page).find("sign-in-with").AttrOr("href", "no link"))
}

func TestProviderSignsIn(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers", "payments")
	v := w.visitor()
	before := v.get("/calls?status=failed").header.Get("Location")
	a := v.signsInWith(before)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/calls?status=failed" {
		t.Fatalf("%d to %q: %s", a.status, a.header.Get("Location"), a.text())
	}
	you := v.get("/settings").find("you").Text()
	for _, want := range []string{"Vera", "vera@example.com", w.idp.URL, "4711", "reviewer", "payments"} {
		if !strings.Contains(you, want) {
			t.Errorf("no %q in %q", want, you)
		}
	}
	if a := v.get("/members"); a.status == http.StatusOK {
		t.Error("a reviewer sees the members")
	}
	// The ID token is also used for the skills that the provider manages.
	if got := <-w.vouched; !strings.HasPrefix(got, w.idp.URL+" ") {
		t.Errorf("asked what %s manages", got)
	}
	var life float64
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT extract(epoch FROM expires_at - created_at) FROM person_sessions`).Scan(&life))
	if math.Abs(life-(2*time.Hour).Seconds()) > 1 {
		t.Errorf("the session lasts %v s", life)
	}
}

func TestRolesFollowTheGroups(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers", "platform")
	v, other := w.visitor(), w.visitor()
	v.signsInWith("/sign-in")
	if roles := v.get("/").find("person").Text(); !strings.Contains(roles, "operator, reviewer") {
		t.Errorf("roles: %q", roles)
	}
	w.setClaims(nil, "platform")
	other.signsInWith("/sign-in")
	if roles := v.get("/").find("person").Text(); strings.Contains(roles, "reviewer") {
		t.Errorf("the first session keeps what the provider no longer says: %q", roles)
	}
}

func TestWithoutARoleNobodyGetsIn(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "others")
	w.setClaims(map[string]any{"name": "<b>Vera\u202e</b>"}, "others")
	v := w.visitor()
	a := v.signsInWith("/sign-in")
	if a.status != http.StatusForbidden || !strings.Contains(a.text(), "no role") || !strings.Contains(a.text(), "4711") ||
		a.find("refused-name").Find("b").Length() != 0 || !strings.Contains(a.body, "U+202E") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if v.get("/").status == http.StatusOK {
		t.Error("somebody without a role is signed in")
	}
	olga := w.signedIn("olga", identity.Operator)
	if olga.get("/").status != http.StatusOK {
		t.Fatal("the operator is not signed in")
	}
	person := w.findPerson("4711")
	_, err := w.people.ChangeMember(t.Context(), audit.System(), person.ID, identity.MemberChange{Roles: &[]identity.Role{identity.Reviewer}})
	check(t, err)
	if a := v.signsInWith("/sign-in"); a.status != http.StatusSeeOther || v.get("/").status != http.StatusOK {
		t.Errorf("with a role of an operator: %d", a.status)
	}
	blocked := true
	_, err = w.people.ChangeMember(t.Context(), audit.System(), person.ID, identity.MemberChange{Blocked: &blocked})
	check(t, err)
	if a := v.signsInWith("/sign-in"); a.status != http.StatusForbidden || !strings.Contains(a.text(), "blocked") {
		t.Errorf("blocked: %d %s", a.status, a.text())
	}
}

// The provider's response is valid once, in the browser that started the sign-in, while that is pending.
func TestAnswersBelongToABrowser(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	v, attacker := w.visitor(), w.visitor()
	begin := func(v *visitor) (back string) {
		t.Helper()
		return v.there(v.get("/sign-in/start?provider=Company").header.Get("Location"))
	}
	refused := func(what string, v *visitor, back string, header ...string) {
		t.Helper()
		a := v.get(back, header...)
		if a.status < 400 || a.find("sign-in-refused").Length() != 1 || a.header.Get("Referrer-Policy") != "strict-origin" {
			t.Errorf("%s: %d %s", what, a.status, a.text())
		}
		if v.get("/").status == http.StatusOK {
			t.Errorf("%s: signed in", what)
		}
	}
	refused("another's answer", v, begin(attacker))
	back := begin(v)
	refused("in a frame", v, back, "Sec-Fetch-Dest", "iframe")
	for name, value := range map[string]string{"state": "", "iss": "https://evil.example", "code": ""} {
		u, err := url.Parse(begin(v))
		check(t, err)
		query := u.Query()
		query.Set(name, value)
		u.RawQuery = query.Encode()
		refused("another "+name, v, u.String())
	}
	refused("nothing at all", v, "/sign-in/callback")
	if a := v.get(back); a.status != http.StatusSeeOther {
		t.Fatalf("the first answer: %d %s", a.status, a.text())
	}
	v.post("/sign-out", nil)
	refused("the same answer again", v, back)
	if n := len(w.idp.Redeemed()); n != 1 {
		t.Errorf("%d codes were redeemed", n)
	}
	late := begin(v)
	w.db.Exec(`UPDATE sessions SET expiry = now() - interval '1 second'`)
	refused("too late", v, late)
}

func TestOtherSitesDoNotBeginASignIn(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Purpose", "prefetch"}} {
		a := w.visitor().get("/sign-in/start?provider=Company&next=/calls", header...)
		if a.header.Get("Location") != "/sign-in?next=%2Fcalls" || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%v: %q, cookie %q", header, a.header.Get("Location"), a.header.Get("Set-Cookie"))
		}
	}
	if a := w.visitor().get("/sign-in/start?provider=nobody"); a.status != http.StatusNotFound {
		t.Errorf("an unknown provider: %d", a.status)
	}
}

func TestProviderRefusesAndIsAway(t *testing.T) {
	t.Parallel()
	w := withProvider(t)
	w.idp.Lie(providertest.Lies{Answer: func(v url.Values) {
		v.Del("code")
		v.Set("error", "access_denied")
		v.Set("error_description", "<script>no\u200b</script>")
	}})
	v := w.visitor()
	a := v.signsInWith("/sign-in?next=/calls")
	said := a.find("refused-said")
	if a.status != http.StatusUnauthorized || !strings.Contains(said.Text(), "access_denied: <script>no") || said.Find("script").Length() != 0 ||
		!strings.Contains(said.Text(), "U+200B") {
		t.Errorf("%d %s", a.status, a.body)
	}
	other := withProvider(t, "reviewers")
	other.idp.Hide(true)
	v = other.visitor()
	a = v.get(v.get("/sign-in").find("sign-in-with").AttrOr("href", ""))
	if a.status != http.StatusBadGateway || !strings.Contains(a.text(), "Company is unavailable") {
		t.Errorf("away: %d %s", a.status, a.text())
	}
	if a := v.get("/sign-in"); a.find("provider-down").Length() != 1 || a.find("token").Length() != 1 {
		t.Errorf("the sign-in page: %s", a.text())
	}
	other.idp.Hide(false)
	if a := v.signsInWith("/sign-in"); a.status != http.StatusSeeOther {
		t.Errorf("back: %d %s", a.status, a.text())
	}
}

// sessionOf returns the browser's session cookie.
func (v *visitor) sessionOf() string {
	v.w.t.Helper()
	server, err := url.Parse(v.w.server.URL)
	check(v.w.t, err)
	for _, cookie := range v.client.Jar.Cookies(server) {
		if cookie.Name == "holdpoint" {
			return cookie.Value
		}
	}
	return ""
}

func (w *world) authenticated(person string) (at time.Time, sessions int) {
	w.t.Helper()
	found, err := w.people.Sessions(w.t.Context(), w.findPerson(person).ID)
	check(w.t, err)
	if len(found) == 0 {
		return time.Time{}, 0
	}
	return found[0].AuthenticatedAt, len(found)
}

func TestProvingAgainWithTheProvider(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	v := w.visitor()
	v.signsInWith("/sign-in")
	w.db.Exec(`UPDATE clock_offset SET value = '1 hour'`)
	before, _ := w.authenticated("4711")
	cookie := v.sessionOf()

	w.idp.Lie(providertest.Lies{Claims: map[string]any{"name": "Mallory", "sub": "4712", "groups": []string{"platform", "reviewers"}}})
	a := v.signsInWith("/sign-in/again?next=/calls/x")
	if at, _ := w.authenticated("4711"); a.status != http.StatusForbidden || !strings.Contains(a.text(), "different person") || !at.Equal(before) || v.sessionOf() != cookie {
		t.Errorf("another person: %d %s", a.status, a.text())
	}
	w.idp.Lie(providertest.Lies{Claims: map[string]any{"name": "Vera", "groups": []string{"reviewers"}}, IDToken: func(c map[string]any) {
		c["auth_time"] = time.Now().Add(-time.Hour).Unix()
	}})
	a = v.signsInWith("/sign-in/again?next=/calls/x")
	if at, _ := w.authenticated("4711"); a.status != http.StatusUnauthorized || !strings.Contains(a.text(), "did not ask you to sign in again") || !at.Equal(before) {
		t.Errorf("an old proof: %d %s", a.status, a.text())
	}
	if v.get("/").status != http.StatusOK {
		t.Fatal("the session is over")
	}
	w.setClaims(nil, "reviewers")
	a = v.signsInWith("/sign-in/again?next=/calls/x")
	at, sessions := w.authenticated("4711") // the provider has whole seconds
	if a.header.Get("Location") != "/calls/x" || at.Sub(before).Round(time.Minute) < time.Hour || sessions != 1 || v.sessionOf() == cookie || v.get("/").status != http.StatusOK {
		t.Errorf("%d to %q, authenticated at %v, before %v, %d sessions", a.status, a.header.Get("Location"), at, before, sessions)
	}
}

// A provider with an old session signs a person in without asking. This is not a recent sign-in, in a new session or
// the old one.
func TestSigningInIsNoNewProof(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	w.marksHighRisk("files", "save_csv")
	morning := time.Now().Add(-8 * time.Hour).Unix()
	for name, tell := range map[string]func(claims map[string]any){
		"an old proof":   func(c map[string]any) { c["auth_time"] = morning },
		"an unknown one": func(c map[string]any) { delete(c, "auth_time") },
	} {
		w.idp.Lie(providertest.Lies{Claims: map[string]any{"name": "Vera", "groups": []string{"reviewers"}}, IDToken: tell})
		v := w.visitor()
		v.signsInWith("/sign-in")
		id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"`+name+`"}`)
		form := v.get(callPath(id)).form("decide")
		form.Set("confirmed", "1")
		a := v.post(callPath(id)+"/approve", form)
		again, err := url.Parse(a.header.Get("Location"))
		check(t, err)
		if again.Path != "/sign-in/again" || w.getApproval(id).Status != approval.Pending {
			t.Fatalf("%s: approved at once: %d to %q, %s", name, a.status, again, w.getApproval(id).Status)
		}
		a = v.followSignIn("/sign-in/start?provider=Company&next=" + url.QueryEscape(callPath(id))) // without asking again
		if a.header.Get("Location") != callPath(id) {
			t.Fatalf("%s: signed in: %d to %q", name, a.status, a.header.Get("Location"))
		}
		form = v.get(callPath(id)).form("decide")
		form.Set("confirmed", "1")
		if a := v.post(callPath(id)+"/approve", form); w.getApproval(id).Status != approval.Pending {
			t.Errorf("%s: approved after an ordinary sign-in: %d", name, a.status)
		}
		w.setClaims(nil, "reviewers")
		if a := v.signsInWith(again.String()); a.header.Get("Location") != callPath(id) {
			t.Fatalf("%s: proved: %d %s", name, a.status, a.text())
		}
		form = v.get(callPath(id)).form("decide")
		form.Set("confirmed", "1")
		if a := v.post(callPath(id)+"/approve", form); w.getApproval(id).Status != approval.Approved {
			t.Errorf("%s: not approved after a proof: %d %s", name, a.status, a.text())
		}
		w.waitForEnd(id)
	}
}

func TestSettingsSayHowOldAProofIs(t *testing.T) {
	t.Parallel()
	w := withProvider(t)
	w.idp.Lie(providertest.Lies{Claims: map[string]any{"groups": []string{"reviewers"}}, IDToken: func(c map[string]any) { delete(c, "auth_time") }})
	v := w.visitor()
	v.signsInWith("/sign-in")
	if said := v.get("/settings").find("session").Text(); !strings.Contains(said, "the provider does not say when") {
		t.Errorf("unknown: %s", said)
	}
	w.setClaims(nil, "reviewers")
	v.followSignIn("/sign-in/start?provider=Company")
	if said := v.get("/settings").find("session").Text(); strings.Contains(said, "erified") {
		t.Errorf("just now: %s", said)
	}
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = created_at - interval '8 hours'`)
	if said := v.get("/settings").find("session").Text(); !strings.Contains(said, "Identity verified") {
		t.Errorf("this morning: %s", said)
	}
}

func TestProvingAgainWithAToken(t *testing.T) {
	t.Parallel()
	w := withProvider(t)
	create := func(name string) string {
		t.Helper()
		_, token, err := w.people.CreateToken(t.Context(), uuid.Nil, name, []identity.Role{identity.Reviewer}, nil)
		check(t, err)
		return token
	}
	bob, ana := create("bob"), create("ana")
	v := w.visitor()
	if a := v.get("/sign-in/again?next=/calls/x"); a.header.Get("Location") != "/sign-in?next=%2Fcalls%2Fx" {
		t.Errorf("signed out: %q", a.header.Get("Location"))
	}
	v.post("/sign-in", url.Values{"token": {bob}})
	w.db.Exec(`UPDATE clock_offset SET value = '1 hour'`)
	before, _ := w.authenticated("bob")
	cookie := v.sessionOf()
	form := v.get("/sign-in/again?next=/calls/x").form("sign-in-again")
	for name, wrong := range map[string]string{"nothing": "", "another person's": ana} {
		form.Set("token", wrong)
		a := v.post("/sign-in/again", form)
		if at, _ := w.authenticated("bob"); a.status != http.StatusUnauthorized || a.find("sign-in-error").Length() != 1 || !at.Equal(before) || v.sessionOf() != cookie {
			t.Errorf("%s: %d %s", name, a.status, a.text())
		}
	}
	form.Set("token", create("bob"))
	a := v.post("/sign-in/again", form)
	at, sessions := w.authenticated("bob")
	if a.header.Get("Location") != "/calls/x" || at.Sub(before) < time.Hour || sessions != 1 || v.sessionOf() == cookie || v.get("/").status != http.StatusOK {
		t.Errorf("%d to %q, at %v, before %v, %d sessions", a.status, a.header.Get("Location"), at, before, sessions)
	}
	// A new link also proves a recent sign-in, and returns to the page.
	v.get("/sign-in/again?next=/calls/y")
	if a := v.post("/sign-in", v.get(w.createLink("bob", identity.Reviewer)).form("sign-in")); a.header.Get("Location") != "/calls/y" {
		t.Errorf("by link: to %q", a.header.Get("Location"))
	}
	if _, sessions := w.authenticated("bob"); sessions != 1 {
		t.Errorf("%d sessions of one browser", sessions)
	}
}

// A stream ends with its session, before its next check.
func TestStreamsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	v, other := w.visitor(), w.visitor()
	v.signsInWith("/sign-in")
	other.signsInWith("/sign-in")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // sooner than the stream's own check
	defer cancel()
	response, err := v.client.Do(v.request(http.MethodGet, "/events", "").WithContext(ctx))
	check(t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && !strings.Contains(lines.Text(), "event: pulse") {
		continue
	}
	_, err = w.people.EndSessions(t.Context(), audit.System(), w.findPerson("4711").ID, uuid.Nil)
	check(t, err)
	ended := false
	for lines.Scan() {
		ended = ended || lines.Text() == "event: end"
	}
	if err := lines.Err(); err != nil || !ended {
		t.Errorf("the stream ended with %v, told: %v", err, ended)
	}
	if v.get("/").status == http.StatusOK || other.get("/").status == http.StatusOK {
		t.Error("a session goes on")
	}
}
