package ui_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// memberPage is the address of somebody's page.
func (w *world) memberPage(name string) string {
	w.t.Helper()
	return "/members/" + w.person(name).ID.String()
}

func TestMembersAreToldApart(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers", "payments")
	w.says(map[string]any{"name": "\u202eanna"}, "reviewers", "payments")
	w.visitor().signsInWith("/sign-in")
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get("/members")
	rows := page.find("member-row")
	first := rows.First().Text()
	if rows.Length() != 2 || !strings.Contains(page.text(), "4711 at "+w.idp.URL) || !strings.Contains(page.body, "U+202E") {
		t.Errorf("rows: %s", rows.Text())
	}
	if !strings.Contains(first, "olga") || !strings.Contains(rows.Last().Text(), "payments") || !strings.Contains(rows.Last().Text(), "reviewer") {
		t.Errorf("rows: %s", rows.Text())
	}
	if n := olga.get("/members?text=4711").find("member-row").Length(); n != 1 {
		t.Errorf("found %d", n)
	}
	if a := olga.get("/members?text=%25"); a.find("member-row").Length() != 0 || a.find("clear-all").AttrOr("href", "") != "/members" {
		t.Errorf("a percent sign finds %d", a.find("member-row").Length())
	}
	facts := olga.get(w.memberPage("4711")).text()
	for _, want := range []string{w.idp.URL, "4711", w.person("4711").ID.String(), "vera@example.com", "Signed in last"} {
		if !strings.Contains(facts, want) {
			t.Errorf("no %q in %q", want, facts)
		}
	}
	if a := olga.get("/members/" + uuid.NewString()); a.status != http.StatusNotFound {
		t.Errorf("nobody's page: %d", a.status)
	}
}

// tied reports whether a field says that it is wrong, and where that is explained.
func tied(form *goquery.Selection, name string) bool {
	field := form.Find("[name=" + name + "]")
	explained := false
	for id := range strings.FieldsSeq(field.AttrOr("aria-describedby", "")) {
		explained = explained || form.Find("#"+id+"[data-testid=form-error]").Length() == 1
	}
	return explained && field.AttrOr("aria-invalid", "") == "true"
}

func TestOperatorsGrantAndBlock(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	vera, olga := w.visitor(), w.signedIn("olga", identity.Operator)
	vera.signsInWith("/sign-in")
	page := w.memberPage("4711")
	if a := olga.post(page+"/grant", url.Values{"role": {"operator", "reviewer"}, "teams": {" refunds, payments ,"}}); a.status != http.StatusSeeOther {
		t.Fatalf("grant: %d %s", a.status, a.text())
	}
	m := w.person("4711")
	if len(m.GrantedRoles) != 2 || !slices.Equal(m.GrantedTeams, []string{"payments", "refunds"}) || vera.get("/members").status != http.StatusOK {
		t.Errorf("granted: %+v", m)
	}
	wrong := olga.post(page+"/grant", url.Values{"role": {"root"}, "teams": {"a, b\u202e"}})
	form := wrong.find("grant")
	if wrong.status != http.StatusUnprocessableEntity || form.Find("[data-testid=form-error]").Length() != 1 ||
		form.Find("[name=teams]").AttrOr("value", "") != "a, b\u202e" || !tied(form, "teams") || form.Find("[checked]").Length() != 0 {
		t.Errorf("wrong: %d %s", wrong.status, form.Text())
	}
	if a := olga.post(page+"/grant", url.Values{}); a.status != http.StatusSeeOther || vera.get("/members").status != http.StatusForbidden {
		t.Errorf("taken: %d", a.status)
	}
	if a := olga.post(page+"/block", url.Values{}); a.status != http.StatusOK || a.find("confirm-block").Length() != 1 || vera.get("/").status != http.StatusOK {
		t.Errorf("the first step: %d", a.status)
	}
	if a := olga.post(page+"/block", url.Values{"confirmed": {"1"}}); a.status != http.StatusSeeOther || vera.get("/").status == http.StatusOK {
		t.Errorf("blocked: %d", a.status)
	}
	if a := olga.post(page+"/unblock", nil); a.status != http.StatusSeeOther || vera.signsInWith("/sign-in").status != http.StatusSeeOther {
		t.Errorf("unblocked: %d", a.status)
	}
	if a := olga.post(w.memberPage("olga")+"/block", url.Values{"confirmed": {"1"}}); a.status != http.StatusConflict || !strings.Contains(a.find("notice").Text(), "Nobody blocks themself") {
		t.Errorf("oneself: %d", a.status)
	}
	if olga.get(w.memberPage("olga")).find("block-first").Length() != 0 {
		t.Error("blocking oneself is offered")
	}
}

// A page that was opened before somebody else's change does not take that back.
func TestGrantsFromAStalePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("vera", identity.Reviewer)
	olga, otto := w.signedIn("olga", identity.Operator), w.signedIn("otto", identity.Operator)
	page := w.memberPage("vera")
	if a := olga.post(page+"/grant", url.Values{"role": {"operator", "reviewer"}, "teams": {"payments"}}); a.status != http.StatusSeeOther {
		t.Fatalf("grant: %d", a.status)
	}
	stale := grantForm(otto.get(page))
	now := grantForm(olga.get(page))
	now["role"] = []string{"reviewer"}
	if a := olga.post(page+"/grant", now); a.status != http.StatusSeeOther {
		t.Fatalf("take: %d %s", a.status, a.text())
	}
	stale.Set("teams", "payments, refunds")
	a := otto.post(page+"/grant", stale)
	if m := w.person("vera"); a.status != http.StatusConflict || len(m.GrantedRoles) != 1 || len(m.GrantedTeams) != 1 {
		t.Fatalf("stale: %d, %v %v", a.status, m.GrantedRoles, m.GrantedTeams)
	}
	if said := a.find("notice").Text(); !strings.Contains(said, "somebody else changed it") || !strings.Contains(said, "the roles: reviewer; and the teams: payments.") {
		t.Errorf("told: %s", said)
	}
	kept := grantForm(a)
	if kept.Get("teams") != "payments, refunds" || len(kept["role"]) != 2 || !slices.Equal(kept["was-role"], []string{"reviewer"}) {
		t.Errorf("kept: %v", kept)
	}
	if a := otto.post(page+"/grant", kept); a.status != http.StatusSeeOther || len(w.person("vera").GrantedRoles) != 2 || len(w.person("vera").GrantedTeams) != 2 {
		t.Errorf("knowing it: %d %s", a.status, a.text())
	}
}

// grantForm is what the form of roles and teams would send.
func grantForm(a *answer) url.Values {
	form := url.Values{}
	a.find("grant").Find("input").Each(func(_ int, s *goquery.Selection) {
		if _, checked := s.Attr("checked"); checked || s.AttrOr("type", "") != "checkbox" {
			form.Add(s.AttrOr("name", ""), s.AttrOr("value", ""))
		}
	})
	return form
}

func TestTheLastOperatorIsTold(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "platform")
	only := w.visitor()
	only.signsInWith("/sign-in")
	page := w.memberPage("4711")
	if a := only.post(page+"/grant", url.Values{"role": {"operator"}}); a.status != http.StatusSeeOther {
		t.Fatalf("grant: %d", a.status)
	}
	w.says(nil, "others") // only the grant is left
	if a := only.signsInWith("/sign-in/again"); a.status != http.StatusSeeOther {
		t.Fatalf("again: %d %s", a.status, a.text())
	}
	a := only.post(page+"/grant", url.Values{})
	if a.status != http.StatusConflict || !strings.Contains(a.find("notice").Text(), "Nobody would be left who is an operator") || only.get("/members").status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.find("notice").Text())
	}
}

func TestOperatorsEndSessionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second, olga := w.signedIn("vera", identity.Reviewer), w.signedIn("vera", identity.Reviewer), w.signedIn("olga", identity.Operator)
	page := w.memberPage("vera")
	sessions, err := w.people.Sessions(t.Context(), w.person("vera").ID)
	check(t, err)
	own, err := w.people.Sessions(t.Context(), w.person("olga").ID)
	check(t, err)
	if a := olga.post(page+"/end-session", url.Values{"session": {sessions[0].ID.String()}}); a.status != http.StatusSeeOther {
		t.Errorf("the second: %d", a.status)
	}
	for what, id := range map[string]string{"once more": sessions[0].ID.String(), "another person's": own[0].ID.String(), "nonsense": "x"} {
		if a := olga.post(page+"/end-session", url.Values{"session": {id}}); a.status != http.StatusNotFound || !strings.Contains(a.find("notice").Text(), "No such session.") {
			t.Errorf("%s: %d %s", what, a.status, a.text())
		}
	}
	if second.get("/").status == http.StatusOK || first.get("/").status != http.StatusOK || olga.get("/").status != http.StatusOK {
		t.Error("the wrong session ended")
	}
	if a := olga.post(page+"/sign-out", nil); a.status != http.StatusSeeOther || first.get("/").status == http.StatusOK {
		t.Errorf("all of them: %d", a.status)
	}
}

func TestOperatorsMakeAndRevokeTokens(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers")
	w.visitor().signsInWith("/sign-in")
	olga := w.signedIn("olga", identity.Operator)
	secretOf := func(a *answer) string {
		t.Helper()
		secret := a.find("secret").Text()
		if a.status != http.StatusOK || !strings.HasPrefix(secret, "hpp_") {
			t.Fatalf("%d %s", a.status, a.text())
		}
		return secret
	}
	made := secretOf(olga.post("/members", url.Values{"person": {"tom"}, "role": {"reviewer"}}))
	access, err := w.people.Authenticate(t.Context(), made)
	if err != nil || access.Person.Name != "tom" || len(access.Agents) != 0 {
		t.Errorf("%+v, %v", access, err)
	}
	if page := olga.get(w.memberPage("tom")); strings.Contains(page.body, made) {
		t.Error("the token is shown again")
	}
	page := w.memberPage("4711")
	access, err = w.people.Authenticate(t.Context(), secretOf(olga.post(page+"/tokens", url.Values{"role": {"reviewer", "operator"}, "agents": {"billing, clerk"}})))
	if err != nil || access.Person.ID != w.person("4711").ID || !slices.Equal(access.Agents, []string{"billing", "clerk"}) || len(access.Roles) != 2 {
		t.Errorf("%+v, %v", access, err)
	}
	for path, form := range map[string]url.Values{"/members": {"person": {" tom"}, "role": {"reviewer"}}, page + "/tokens": {"agents": {"billing"}}} {
		a := olga.post(path, form)
		if a.status != http.StatusUnprocessableEntity || a.find("new-token").Find("[data-testid=form-error]").Length() != 1 {
			t.Errorf("%s: %d %s", path, a.status, a.text())
		}
		for name := range form {
			if name != "role" && a.find("new-token").Find("[name="+name+"]").AttrOr("value", "") != form.Get(name) {
				t.Errorf("%s: %s is lost", path, name)
			}
		}
	}
	again := olga.post("/members", url.Values{"person": {"tom"}, "role": {"operator"}})
	if a := again.find("new-token"); again.status != http.StatusUnprocessableEntity || a.Find("[data-testid=known]").AttrOr("href", "") != w.memberPage("tom") ||
		a.Find("[name=person]").AttrOr("value", "") != "tom" || a.Find("[name=person]").AttrOr("aria-invalid", "") != "true" || w.person("tom").Tokens != 1 {
		t.Errorf("a name that somebody has: %d %s", again.status, again.text())
	}
	others, err := w.people.TokensOf(t.Context(), w.person("tom").ID)
	check(t, err)
	for what, id := range map[string]string{"another person's": others[0].ID.String(), "nobody's": uuid.NewString(), "nonsense": "x"} {
		if a := olga.post(page+"/revoke-token", url.Values{"token": {id}}); a.status != http.StatusNotFound || !strings.Contains(a.find("notice").Text(), "No such token.") {
			t.Errorf("%s: %d %s", what, a.status, a.text())
		}
	}
	if w.person("tom").Tokens != 1 {
		t.Error("another person's token was revoked")
	}
	token := olga.get(page).find("token").First().Find("input[name=token]").AttrOr("value", "")
	if a := olga.post(page+"/revoke-token", url.Values{"token": {token}}); a.status != http.StatusSeeOther || w.person("4711").Tokens != 0 {
		t.Errorf("revoke: %d, %d left", a.status, w.person("4711").Tokens)
	}
}

// A token would be a way round the proof that calls of high risk take: whoever signed in long ago proves who they are
// before they make one, and finds what they had typed.
func TestTokensTakeAProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator, identity.Reviewer)
	w.signedIn("vera", identity.Reviewer)
	w.exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	for path, page := range map[string]string{"/members": "/members", w.memberPage("olga") + "/tokens": w.memberPage("olga")} {
		typed := url.Values{"role": {"reviewer", "operator"}, "agents": {"billing, clerk"}}
		if path == "/members" {
			typed.Set("person", "tom & <b>")
		}
		a := olga.post(path, typed)
		again, err := url.Parse(a.header.Get("Location"))
		check(t, err)
		if again.Path != "/sign-in/again" || a.find("secret").Length() != 0 {
			t.Fatalf("%s: %d to %q %s", path, a.status, again, a.text())
		}
		next := again.Query().Get("next")
		back := olga.get(next)
		if to, err := url.Parse(next); err != nil || to.Path != page || back.find("unsent-token").Length() != 1 {
			t.Errorf("%s: comes back to %q: %s", path, next, back.text())
		}
		form := back.find("new-token")
		for name, want := range typed {
			if name != "role" && form.Find("[name="+name+"]").AttrOr("value", "") != want[0] || form.Find("[name=role][checked]").Length() != 2 {
				t.Errorf("%s: %s is lost", path, name)
			}
		}
		if action := form.AttrOr("action", ""); !strings.HasPrefix(action, path) {
			t.Errorf("%s: the form leads to %q", path, action)
		}
	}
	var made int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM person_tokens`).Scan(&made))
	if made != 0 {
		t.Fatalf("%d tokens were made", made)
	}
	if a := olga.post("/sign-in", olga.get(w.link("olga", identity.Operator)).form("sign-in")); a.status != http.StatusSeeOther {
		t.Fatalf("a new link: %d", a.status)
	}
	if a := olga.post("/members", url.Values{"person": {"tom"}, "role": {"reviewer"}}); a.status != http.StatusOK || a.find("secret").Length() != 1 {
		t.Errorf("proved: %d %s", a.status, a.text())
	}
}

func TestOperatorsLinkPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("vera", identity.Reviewer)
	w.signedIn("vera at work", identity.Reviewer)
	olga := w.signedIn("olga", identity.Operator)
	vera, work := w.person("vera at work").ID, w.person("olga").ID
	page := "/members/" + vera.String()
	for _, wrong := range []string{"", "vera", vera.String(), uuid.NewString()} {
		a := olga.post(page+"/link", url.Values{"same_as": {wrong}})
		if a.status != http.StatusUnprocessableEntity || a.find("same").Find("[data-testid=form-error]").Length() != 1 || !tied(a.find("same"), "same_as") || a.find("same-as").AttrOr("value", "") != wrong {
			t.Errorf("%q: %d %s", wrong, a.status, a.find("same").Text())
		}
	}
	if a := olga.post(page+"/link", url.Values{"same_as": {" " + work.String() + " "}}); a.status != http.StatusSeeOther {
		t.Fatalf("link: %d %s", a.status, a.text())
	}
	if same, err := w.people.SameAs(t.Context(), vera); err != nil || same != work {
		t.Errorf("same as %s, %v", same, err)
	}
	if !strings.Contains(olga.get(page).find("same").Text(), "olga") {
		t.Error("the link is not shown")
	}
	if a := olga.post(page+"/unlink", nil); a.status != http.StatusSeeOther || olga.get(page).find("same-as").Length() != 1 {
		t.Errorf("unlink: %d", a.status)
	}
}
