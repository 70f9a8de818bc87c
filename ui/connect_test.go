package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

func perUser() agent.SkillSpec { return agent.SkillSpec{Connection: agent.ConnectionPerUser} }

// signedInAs returns a visitor with a token, and their id.
func (w *world) signedInAs(name string, roles ...identity.Role) (*visitor, uuid.UUID) {
	w.t.Helper()
	_, token, err := w.people.CreateToken(w.t.Context(), uuid.Nil, name, roles, nil)
	check(w.t, err)
	access, err := w.people.Authenticate(w.t.Context(), token)
	check(w.t, err)
	v := w.visitor()
	if a := v.post("/sign-in", url.Values{"token": {token}}); a.status != http.StatusSeeOther {
		w.t.Fatalf("sign in: %d %s", a.status, a.text())
	}
	return v, access.Person.ID
}

func TestConnectASkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	olga, _ := w.signedInAs("olga", identity.Operator)
	page := olga.get("/skills/" + skill.ID.String())
	if page.find("connect").Length() != 1 || !strings.Contains(page.find("connection-state").Text(), "not been asked yet") {
		t.Fatalf("a skill that nobody asked: %s", page.text())
	}
	to := olga.begin(skill, nil)
	if !strings.HasPrefix(to.String(), as.url+"/authorize?") || to.Query().Get("redirect_uri") != w.server.URL+"/oauth/callback" {
		t.Fatalf("leads to %s", to)
	}
	a := olga.get(as.allowAccess(t, to))
	where := a.header.Get("Location")
	if a.status != http.StatusSeeOther || !strings.HasPrefix(where, "/connections/") {
		t.Fatalf("back: %d to %q %s", a.status, where, a.text())
	}
	page = olga.get(where)
	text := page.text()
	for _, says := range []string{
		"Connected.", "shared by all", "Connected until", "(it renews by itself)", "Connected by", "olga",
		"files:read files:write", as.url + "/mcp", "Last refresh",
	} {
		if !strings.Contains(text, says) {
			t.Errorf("the connection does not say %q: %s", says, text)
		}
	}
	for _, path := range []string{where, "/connections", "/skills/" + skill.ID.String()} {
		if body := olga.get(path).body; strings.Contains(body, "secret-") || strings.Contains(body, "code-1") {
			t.Errorf("%s shows a secret", path)
		}
	}
	if olga.get("/connections").find("connection").Length() != 1 || page.find("connect").Text() != "Reconnect" {
		t.Errorf("listed: %s", olga.get("/connections").text())
	}
}

func TestCallbackIsForWhoBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	olga, _ := w.signedInAs("olga", identity.Operator)
	otto, _ := w.signedInAs("otto", identity.Operator)
	back := as.allowAccess(t, olga.begin(skill, nil))

	for name, a := range map[string]*answer{
		"another person": otto.get(back), "no state": olga.get("/oauth/callback?code=x"), "wrong state": olga.get("/oauth/callback?code=x&state=y"),
	} {
		if a.status != http.StatusBadRequest || a.find("not-connected").Length() != 1 || strings.Contains(a.text(), "code-1") {
			t.Errorf("%s: %d %s", name, a.status, a.text())
		}
		if a.header.Get("Referrer-Policy") != "strict-origin" || !contentPolicy.MatchString(a.header.Get("Content-Security-Policy")) {
			t.Errorf("%s: headers %v", name, a.header)
		}
	}
	for _, dest := range []string{"iframe", "image", "empty"} {
		if a := olga.get(back, "Sec-Fetch-Dest", dest); a.status != http.StatusForbidden {
			t.Errorf("as %s: %d", dest, a.status)
		}
	}
	if a := olga.do(olga.request(http.MethodHead, back, "")); a.status != http.StatusForbidden {
		t.Errorf("HEAD: %d", a.status)
	}
	if a := olga.get(back, "Sec-Fetch-Dest", "document"); a.status != http.StatusSeeOther {
		t.Fatalf("who began: %d %s", a.status, a.text())
	}
	if a := olga.get(back); a.status != http.StatusBadRequest || !strings.Contains(a.text(), "Connect again") {
		t.Errorf("a second time: %d %s", a.status, a.text())
	}
}

func TestCallbackSignedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	_, token, err := w.people.CreateToken(t.Context(), uuid.Nil, "olga", []identity.Role{identity.Operator}, nil)
	check(t, err)
	olga := w.visitor()
	olga.post("/sign-in", url.Values{"token": {token}})
	back := as.allowAccess(t, olga.begin(skill, nil)) + "&more=" + strings.Repeat("x", 4000)
	olga.post("/sign-out", nil)
	a := olga.get(back)
	if a.status != http.StatusSeeOther || a.header.Get("Location") != "/sign-in?next="+url.QueryEscape(back) {
		t.Fatalf("signed out: %d to %q", a.status, a.header.Get("Location"))
	}
	form := olga.get(a.header.Get("Location")).form("sign-in")
	form.Set("token", token)
	a = olga.post("/sign-in", form)
	if a.header.Get("Location") != back {
		t.Fatalf("after signing in: %q", a.header.Get("Location"))
	}
	if a = olga.get(back); a.status != http.StatusSeeOther || !strings.HasSuffix(a.header.Get("Location"), "?done=connected") {
		t.Errorf("back: %d %s", a.status, a.text())
	}
}

func TestWhoMayConnectASharedSkill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	w.refuseRequest(skill, uuid.Nil)
	olga, _ := w.signedInAs("olga", identity.Operator)
	rita, _ := w.signedInAs("rita", identity.Reviewer)
	path := "/skills/" + skill.ID.String()
	page := rita.get(path)
	if page.find("connect").Length() != 0 || !strings.Contains(page.find("who").Text(), "An operator has to connect it.") {
		t.Errorf("a reviewer sees %s", page.text())
	}
	if a := rita.post(path+"/connect", nil); a.status != http.StatusForbidden || a.find("continue").Length() != 0 {
		t.Errorf("a reviewer connects: %d %s", a.status, a.text())
	}
	where := olga.get(as.allowAccess(t, olga.begin(skill, nil))).header.Get("Location")
	where, _, _ = strings.Cut(where, "?")
	if a := rita.get(where); a.status != http.StatusOK || a.find("disconnect").Length() != 0 || a.find("connect").Length() != 0 {
		t.Errorf("a reviewer sees of the connection: %d %s", a.status, a.text())
	}
	for _, form := range []url.Values{{}, {"confirmed": {"1"}}} {
		if a := rita.post(where+"/disconnect", form); a.status != http.StatusForbidden {
			t.Errorf("a reviewer disconnects: %d", a.status)
		}
	}
	step := olga.post(where+"/disconnect", nil)
	if step.status != http.StatusOK || step.find("confirm-disconnect").Length() != 1 || !strings.Contains(olga.get(where).text(), "Connected until") {
		t.Fatalf("the first step: %d %s", step.status, step.text())
	}
	a := olga.post(where+"/disconnect", step.form("confirm-disconnect"))
	if a.status != http.StatusSeeOther {
		t.Fatalf("disconnect: %d %s", a.status, a.text())
	}
	if text := olga.get(a.header.Get("Location")).text(); !strings.Contains(text, "Disconnected.") || !strings.Contains(text, "it was disconnected") {
		t.Errorf("disconnected: %s", text)
	}
	if a := olga.post(where+"/disconnect", url.Values{"confirmed": {"1"}}); a.status != http.StatusForbidden {
		t.Errorf("what is not connected is disconnected: %d", a.status)
	}
}

func TestWhoMayConnectTheirOwnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, perUser())
	olga, _ := w.signedInAs("olga", identity.Operator)
	rita, ritaID := w.signedInAs("rita", identity.Reviewer)
	ruth, _ := w.signedInAs("ruth", identity.Reviewer)
	path := "/skills/" + skill.ID.String()
	for _, v := range []*visitor{olga, rita, ruth} {
		for _, page := range []string{path, "/connections"} {
			if label := v.get(page).find("connect").Text(); label != "Connect your account" {
				t.Errorf("%s offers %q", page, label)
			}
		}
	}
	w.refuseRequest(skill, ritaID)
	where := rita.get(as.allowAccess(t, rita.begin(skill, nil))).header.Get("Location")
	where, _, _ = strings.Cut(where, "?")
	if text := rita.get(where).find("whose").Text(); strings.TrimSpace(text) != "your own" {
		t.Errorf("whose: %q", text)
	}
	for path, a := range map[string]*answer{
		"page": ruth.get(where), "first step": ruth.post(where+"/disconnect", nil),
		"disconnect": ruth.post(where+"/disconnect", url.Values{"confirmed": {"1"}}),
	} {
		if a.status != http.StatusNotFound {
			t.Errorf("another reviewer's %s: %d", path, a.status)
		}
	}
	if strings.Contains(ruth.get("/connections").text()+ruth.get(path).text(), "of rita") {
		t.Error("a reviewer sees another's connection")
	}
	card := olga.get(where)
	if card.find("connect").Length() != 0 || card.find("disconnect").Length() != 1 || !strings.Contains(card.find("whose").Text(), "of rita") {
		t.Errorf("an operator sees %s", card.text())
	}
	if a := olga.post(where+"/disconnect", url.Values{"confirmed": {"1"}}); a.status != http.StatusSeeOther {
		t.Errorf("an operator ends another's: %d", a.status)
	}
	if text := olga.get(where).find("who").Text(); strings.Join(strings.Fields(text), " ") != "Only rita can connect it: it is their own account." {
		t.Errorf("who can: %q", text)
	}
}

// A connection with outdated settings is not mistaken for the current one.
func TestLeftOverConnectionEndsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, perUser())
	rita, _ := w.signedInAs("rita", identity.Reviewer)
	olga, _ := w.signedInAs("olga", identity.Operator)
	own, _, _ := strings.Cut(rita.get(as.allowAccess(t, rita.begin(skill, nil))).header.Get("Location"), "?")
	w.registerGuarded(as, agent.SkillSpec{Connection: agent.ConnectionShared})
	shared, _, _ := strings.Cut(olga.get(as.allowAccess(t, olga.begin(skill, nil))).header.Get("Location"), "?")
	if page := rita.get(own); !strings.Contains(page.text(), "Left over") || page.find("disconnect").Length() != 0 {
		t.Errorf("left over: %s", page.text())
	}
	if a := rita.post(own+"/disconnect", url.Values{"confirmed": {"1"}}); a.status != http.StatusForbidden {
		t.Errorf("disconnect: %d", a.status)
	}
	if text := olga.get(shared).text(); !strings.Contains(text, "Connected until") {
		t.Errorf("the shared connection: %s", text)
	}
	w.registerGuarded(as, perUser())
	if page := olga.get(shared); !strings.Contains(page.text(), "Left over") || page.find("connect").Length() != 0 {
		t.Errorf("left over, shared: %s", page.text())
	}
	if a := olga.post(shared+"/disconnect", url.Values{"confirmed": {"1"}}); a.status != http.StatusSeeOther {
		t.Errorf("ending what is left over: %d", a.status)
	}
	if text := rita.get(own).text(); !strings.Contains(text, "Connected until") {
		t.Errorf("the person's own, in use again: %s", text)
	}
}

func TestAuthorizationServerIsChosen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	as.set(func(as *authServer) { as.issuers = []string{"/one", "/two"} })
	skill := w.registerGuarded(as, agent.SkillSpec{})
	olga, _ := w.signedInAs("olga", identity.Operator)
	path := "/skills/" + skill.ID.String()
	asked := olga.post(path+"/connect", nil) // the choice of issuers was not known yet
	if asked.find("choose").Length() != 1 || asked.find("connect").Length() != 2 || !strings.Contains(asked.text(), as.url+"/two") {
		t.Fatalf("no choice: %d %s", asked.status, asked.text())
	}
	w.refuseRequest(skill, uuid.Nil)
	card := olga.get(path)
	if card.find("connect").Length() != 2 || card.find("connect").Last().AttrOr("value", "") != as.url+"/two" {
		t.Fatalf("the skill's page: %s", card.text())
	}
	to := olga.begin(skill, url.Values{"issuer": {as.url + "/two"}})
	if to.Query().Get("at") != as.url+"/two" {
		t.Errorf("leads to %s", to)
	}
	olga.get(as.allowAccess(t, to))
	if text := olga.get(path).text(); !strings.Contains(text, "Connected until") || !strings.Contains(text, as.url+"/two") {
		t.Fatalf("connected: %s", text)
	}
	if to := olga.begin(skill, nil); to.Query().Get("at") != as.url+"/two" {
		t.Errorf("connecting again leads to %s", to)
	}
	if a := olga.post(path+"/connect", url.Values{"issuer": {"https://evil.example"}}); a.status != http.StatusUnprocessableEntity || a.find("continue").Length() != 0 {
		t.Errorf("an authorization server that nobody named: %d %s", a.status, a.text())
	}
}

func TestHostileAuthorizationServer(t *testing.T) {
	t.Parallel()
	const evil = "<img src=x onerror=alert(1)>\u202e раyment"
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	olga, _ := w.signedInAs("olga", identity.Operator)
	path := "/skills/" + skill.ID.String()
	plain := func(name string, a *answer) {
		t.Helper()
		if a.doc.Find("main img, main script").Length() != 0 {
			t.Errorf("%s: text became markup", name)
		}
		if strings.ContainsRune(a.body, '\u202e') {
			t.Errorf("%s: a character turns the text around", name)
		}
		a.doc.Find("a[href], form[action]").Each(func(_ int, s *goquery.Selection) {
			for _, attribute := range []string{"href", "action"} {
				if value := s.AttrOr(attribute, ""); strings.HasPrefix(strings.ToLower(strings.TrimSpace(value)), "javascript:") {
					t.Errorf("%s: leads to %q", name, value)
				}
			}
		})
	}
	for name, change := range map[string]map[string]any{
		"script":  {"authorization_endpoint": "javascript:alert(1)//x"},
		"data":    {"authorization_endpoint": "data:text/html,<script>alert(1)</script>"},
		"no http": {"authorization_endpoint": "http://evil.example/authorize"},
		"login":   {"authorization_endpoint": as.url[:7] + "bank.example@" + as.url[7:] + "/authorize"},
		"no PKCE": {"code_challenge_methods_supported": []string{evil}},
	} {
		as.set(func(as *authServer) { as.change = change })
		a := olga.post(path+"/connect", nil)
		if a.status != http.StatusUnprocessableEntity || a.find("continue").Length() != 0 || a.find("not-connected").Length() != 1 {
			t.Errorf("%s: %d %s", name, a.status, a.text())
		}
		plain(name, a)
		shown := olga.get(path)
		if shown.find("error").Length() != 1 {
			t.Errorf("%s: the skill's page says nothing: %s", name, shown.text())
		}
		plain(name, shown)
	}
	as.set(func(as *authServer) {
		as.change = nil
		as.scopes = []string{"<b>all</b>"}
		as.refuse = url.Values{"error": {"access_denied"}, "error_description": {evil}}
	})
	leave := olga.post(path+"/connect", nil)
	plain("leaving", leave)
	if !strings.Contains(leave.text(), "<b>all</b>") || leave.find("leave").Find("b:contains(all)").Length() != 0 {
		t.Errorf("leaving: %s", leave.find("leave").Text())
	}
	to, err := url.Parse(leave.find("continue").AttrOr("href", ""))
	check(t, err)
	a := olga.get(as.allowAccess(t, to))
	if a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "access_denied") || !strings.Contains(a.text(), skill.Name) {
		t.Errorf("refused: %d %s", a.status, a.text())
	}
	plain("refused", a)
	plain("afterwards", olga.get("/connections"))
}

func TestCallWaitsForAConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, perUser())
	rita, ritaID := w.signedInAs("rita", identity.Reviewer)
	ruth, _ := w.signedInAs("ruth", identity.Reviewer, identity.Operator)
	w.refuseRequest(skill, ritaID)
	id := w.submit(ritaID, "guarded__save_csv", `{"filename":"x"}`)

	for _, page := range []string{"/", callPath(id)} {
		mine, theirs := rita.get(page), ruth.get(page)
		if text := mine.find("wait").Text(); !strings.Contains(text, "asks for a connection, and there is none yet") || !strings.Contains(text, "It needs your own account.") {
			t.Errorf("%s: %s", page, text)
		}
		if link := mine.find("to-connect").AttrOr("href", ""); link != "/skills/"+skill.ID.String() {
			t.Errorf("%s: the link leads to %q", page, link)
		}
		if text := strings.Join(strings.Fields(theirs.find("who").Text()), " "); text != "Only rita can connect it: it is their own account." || theirs.find("to-connect").Length() != 0 {
			t.Errorf("%s: to another it says %q", page, text)
		}
		if mine.find("countdown").Length() != 1 {
			t.Errorf("%s: no countdown", page)
		}
	}
	if page := rita.get(callPath(id)); !strings.Contains(page.find("state").Text(), "Needs a connection") || page.find("decide").Length() != 0 {
		t.Errorf("state: %s", page.text())
	}
	if text := rita.get("/connections").find("waiting").Text(); !strings.Contains(text, "guarded: save_csv") || !strings.Contains(text, "1 call waits for it") {
		t.Errorf("the connection says %q", text)
	}
	if text := rita.get("/calls?status=needs_connection").find("log-row").Text(); !strings.Contains(text, "Needs a connection") {
		t.Errorf("the log says %q", text)
	}
	w.db.Exec(`UPDATE clock_offset SET value = interval '1 hour'`)
	if c := w.waitForEnd(id); c.Status != call.Expired {
		t.Fatalf("the call is %s", c.Status)
	}
	if text := rita.get(callPath(id)).find("outcome").Text(); !strings.Contains(text, "the skill was not connected in time") {
		t.Errorf("expired: %s", text)
	}
	if rita.get("/").find("waits").Length() != 0 {
		t.Error("an expired call waits in the queue")
	}
	nobody := w.submit(uuid.Nil, "guarded__save_csv", `{"filename":"x"}`)
	if text := rita.get(callPath(nobody)).find("outcome").Text(); !strings.Contains(text, "the call was not made on behalf of a person") {
		t.Errorf("on nobody's behalf: %s", text)
	}
}

// TestSignInElsewhere: metadata may send a person to another site than the one that gets the token. The page warns
// before they leave.
func TestSignInElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	as := newAuthServer(t)
	skill := w.registerGuarded(as, agent.SkillSpec{})
	olga, _ := w.signedInAs("olga", identity.Operator)
	leave := olga.post("/skills/"+skill.ID.String()+"/connect", nil)
	if leave.find("issuer").Text() != as.url || leave.find("elsewhere").Length() != 0 {
		t.Errorf("to its own site: %s", leave.text())
	}
	as.set(func(as *authServer) {
		as.change = map[string]any{"authorization_endpoint": "https://well-known.example/authorize"}
	})
	leave = olga.post("/skills/"+skill.ID.String()+"/connect", nil)
	if !strings.Contains(leave.find("origin").Text(), "https://well-known.example") || strings.TrimSpace(leave.find("issuer").Text()) != as.url ||
		leave.find("elsewhere").Length() != 1 {
		t.Errorf("to another site: %s", leave.text())
	}
}
