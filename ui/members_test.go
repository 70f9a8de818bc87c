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

// memberPage returns the address of a person's page.
func (w *world) memberPage(name string) string {
	w.t.Helper()
	return "/members/" + w.findPerson(name).ID.String()
}

func TestMembersAreToldApart(t *testing.T) {
	t.Parallel()
	w := withProvider(t, "reviewers", "payments")
	w.setClaims(map[string]any{"name": "\u202eanna"}, "reviewers", "payments")
	w.visitor().signsInWith("/sign-in")
	olga := w.signedIn("olga", identity.Operator)
	page := olga.get("/members")
	rows := page.find("member-row")
	first := rows.First().Text()
	if rows.Length() != 2 || !strings.Contains(page.text(), "4711 at "+w.idp.URL) || !strings.Contains(page.body, `\u202eanna`) || strings.Contains(page.body, "\u202e") {
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
	for _, want := range []string{w.idp.URL, "4711", w.findPerson("4711").ID.String(), "vera@example.com", "Last sign-in"} {
		if !strings.Contains(facts, want) {
			t.Errorf("no %q in %q", want, facts)
		}
	}
	if a := olga.get("/members/" + uuid.NewString()); a.status != http.StatusNotFound {
		t.Errorf("nobody's page: %d", a.status)
	}
}

// tied reports whether a field is marked invalid and refers to its error message.
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
	m := w.findPerson("4711")
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
	if a := olga.post(w.memberPage("olga")+"/block", url.Values{"confirmed": {"1"}}); a.status != http.StatusConflict || !strings.Contains(a.find("notice").Text(), "You cannot block yourself") {
		t.Errorf("oneself: %d", a.status)
	}
	if olga.get(w.memberPage("olga")).find("block-first").Length() != 0 {
		t.Error("blocking oneself is offered")
	}
}

// A stale page does not revert another operator's change.
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
	if m := w.findPerson("vera"); a.status != http.StatusConflict || len(m.GrantedRoles) != 1 || len(m.GrantedTeams) != 1 {
		t.Fatalf("stale: %d, %v %v", a.status, m.GrantedRoles, m.GrantedTeams)
	}
	if said := a.find("notice").Text(); !strings.Contains(said, "another operator changed this member") || !strings.Contains(said, "granted by operators: reviewer. Teams: payments.") {
		t.Errorf("told: %s", said)
	}
	kept := grantForm(a)
	if kept.Get("teams") != "payments, refunds" || len(kept["role"]) != 2 || !slices.Equal(kept["was-role"], []string{"reviewer"}) {
		t.Errorf("kept: %v", kept)
	}
	if a := otto.post(page+"/grant", kept); a.status != http.StatusSeeOther || len(w.findPerson("vera").GrantedRoles) != 2 || len(w.findPerson("vera").GrantedTeams) != 2 {
		t.Errorf("knowing it: %d %s", a.status, a.text())
	}
}

// grantForm returns the fields of the form of roles and teams.
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
	w.db.Exec(`UPDATE people SET granted_roles = '{operator}' WHERE subject = '4711'`)
	w.setClaims(nil, "others") // only the grant is left
	if a := only.signsInWith("/sign-in/again"); a.status != http.StatusSeeOther {
		t.Fatalf("again: %d %s", a.status, a.text())
	}
	a := only.post(page+"/grant", url.Values{})
	if a.status != http.StatusConflict || !strings.Contains(a.find("notice").Text(), "This would leave no operator") || only.get("/members").status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.find("notice").Text())
	}
}

func TestOperatorsEndSessionsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second, olga := w.signedIn("vera", identity.Reviewer), w.signedIn("vera", identity.Reviewer), w.signedIn("olga", identity.Operator)
	page := w.memberPage("vera")
	sessions, err := w.people.Sessions(t.Context(), w.findPerson("vera").ID)
	check(t, err)
	own, err := w.people.Sessions(t.Context(), w.findPerson("olga").ID)
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

// Members create their own tokens; a new member gets an invitation.
func TestOperatorsInviteAndMakeTheirOwnTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	w.signedIn("vera", identity.Reviewer)
	vera := w.memberPage("vera")
	if a := olga.get(vera); a.find("new-token").Length() != 0 {
		t.Error("a form for another person's token")
	}
	if a := olga.post(vera+"/tokens", url.Values{"role": {"reviewer"}}); a.status != http.StatusForbidden || w.findPerson("vera").Tokens != 0 {
		t.Errorf("a token for another person: %d %s", a.status, a.text())
	}
	if a := olga.post(w.memberPage("olga")+"/grant", url.Values{"role": {"reviewer", "operator"}}); a.status != http.StatusForbidden || len(w.findPerson("olga").GrantedRoles) != 0 {
		t.Errorf("a role for oneself: %d %s", a.status, a.text())
	}
	if a := olga.post(w.memberPage("olga")+"/tokens", url.Values{"role": {"reviewer"}}); a.status != http.StatusUnprocessableEntity || w.findPerson("olga").Tokens != 0 {
		t.Errorf("a token with a role that one lacks: %d %s", a.status, a.text())
	}
	made := olga.post(w.memberPage("olga")+"/tokens", url.Values{"role": {"operator"}, "agents": {"billing"}})
	access, err := w.people.Authenticate(t.Context(), made.find("secret").Text())
	if err != nil || access.Person.Name != "olga" || !slices.Equal(access.Agents, []string{"billing"}) {
		t.Errorf("%d %+v, %v", made.status, access, err)
	}
	wrong := olga.post("/members", url.Values{"person": {" tom"}, "role": {"reviewer"}})
	if wrong.status != http.StatusUnprocessableEntity || wrong.find("new-invitation").Find("[name=person]").AttrOr("value", "") != " tom" {
		t.Errorf("a bad name: %d %s", wrong.status, wrong.text())
	}
	link, err := url.Parse(olga.post("/members", url.Values{"person": {"tom"}, "role": {"reviewer"}}).find("secret").Text())
	check(t, err)
	if open := olga.get("/members").find("invitation"); open.Length() != 1 || !strings.Contains(open.Text(), "tom") {
		t.Errorf("open invitations: %s", open.Text())
	}
	guest := w.visitor()
	for range 2 { // viewing does not redeem the link
		if a := guest.get(link.RequestURI()); a.status != http.StatusOK || a.find("redeem").Length() != 1 {
			t.Fatalf("the invitation: %d %s", a.status, a.text())
		}
	}
	redeemed := guest.post("/invitation", url.Values{"key": {link.Query().Get("key")}})
	tom, err := w.people.Authenticate(t.Context(), redeemed.find("secret").Text())
	if err != nil || tom.Person.Name != "tom" || !tom.Has(identity.Reviewer) {
		t.Errorf("%d %+v, %v", redeemed.status, tom, err)
	}
	if a := guest.get(link.RequestURI()); a.status != http.StatusForbidden {
		t.Errorf("an invitation that was redeemed: %d", a.status)
	}
	if a := olga.get(w.memberPage("tom")); !strings.Contains(a.text(), "Invited by olga, not verified") {
		t.Errorf("the invited person: %s", a.text())
	}
}

// Forms as powerful as a token need a recent sign-in and keep the input.
func TestWhatEqualsATokenTakesAProof(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator, identity.Reviewer)
	w.signedIn("vera", identity.Reviewer)
	skill, agent := "/skills/"+w.skillNamed("open").ID.String(), "/agents/"+w.agent.ID.String()
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 hour'`)
	vera := w.memberPage("vera")
	for path, typed := range map[string]url.Values{
		"/members":                       {"person": {"tom & <b>"}, "role": {"reviewer", "operator"}},
		w.memberPage("olga") + "/tokens": {"agents": {"billing, clerk"}},
		"/settings/tokens":               {"role": {"reviewer"}},
		vera + "/grant":                  {"role": {"operator"}, "teams": {"a, b"}},
		vera + "/link":                   {"same_as": {w.findPerson("olga").ID.String()}},
		vera + "/unlink":                 {},
		skill + "/edit":                  {"auto_approve": {"on"}, "headers-value": {"s3cret"}},
		"/skills/new":                    {"name": {"x"}},
		"/agents/new":                    {"name": {"x"}},
		agent + "/edit":                  {"auto_end": {"on"}},
		agent + "/assign":                {"scope": {"all"}},
		agent + "/callbacks":             {"url": {"https://hooks.example"}},
	} {
		a := olga.post(path, typed)
		kept := a.find("kept-form")
		if a.status != http.StatusUnauthorized || kept.AttrOr("action", "") != path || a.find("prove").Length() != 1 {
			t.Errorf("%s: %d %s", path, a.status, a.text())
		}
		for name, values := range typed {
			if kept.Find("[name='"+name+"']").Length() != len(values) || kept.Find("[name='"+name+"']").AttrOr("value", "") != values[0] {
				t.Errorf("%s: %s is lost", path, name)
			}
		}
	}
	if m := w.findPerson("vera"); len(m.GrantedRoles) != 0 {
		t.Errorf("granted %v", m.GrantedRoles)
	}
	if a := olga.post("/sign-in", olga.get(w.createLink("olga", identity.Operator)).form("sign-in")); a.status != http.StatusSeeOther {
		t.Fatalf("a new link: %d", a.status)
	}
	if a := olga.post(vera+"/grant", url.Values{"role": {"operator"}}); a.status != http.StatusSeeOther || len(w.findPerson("vera").GrantedRoles) != 1 {
		t.Errorf("proved: %d %s", a.status, a.text())
	}
}

func TestOperatorsLinkPeople(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("vera", identity.Reviewer)
	w.signedIn("vera at work", identity.Reviewer)
	olga := w.signedIn("olga", identity.Operator)
	vera, work := w.findPerson("vera at work").ID, w.findPerson("olga").ID
	page := "/members/" + vera.String()
	for _, wrong := range []string{"", "vera", vera.String(), uuid.NewString()} {
		a := olga.post(page+"/link", url.Values{"same_as": {wrong}})
		if a.status != http.StatusUnprocessableEntity || a.find("same").Find("[data-testid=form-error]").Length() != 1 || !tied(a.find("same"), "same_as") || a.find("same-as").AttrOr("value", "") != wrong {
			t.Errorf("%q: %d %s", wrong, a.status, a.find("same").Text())
		}
	}
	own := url.Values{"same_as": {" " + work.String() + " "}}
	if a := olga.post(page+"/link", own); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("same").Text(), "You cannot link yourself") {
		t.Errorf("link oneself: %d", a.status)
	}
	other := w.signedIn("omar", identity.Operator)
	if a := other.post(page+"/link", own); a.status != http.StatusSeeOther {
		t.Fatalf("link: %d %s", a.status, a.text())
	}
	if same, err := w.people.SameAs(t.Context(), vera); err != nil || same != work {
		t.Errorf("same as %s, %v", same, err)
	}
	if !strings.Contains(olga.get(page).find("same").Text(), "olga") {
		t.Error("the link is not shown")
	}
	if a := olga.post(page+"/unlink", nil); a.status != http.StatusForbidden || !strings.Contains(a.find("notice").Text(), "You cannot unlink yourself") {
		t.Errorf("unlink oneself: %d", a.status)
	}
	if a := other.post(page+"/unlink", nil); a.status != http.StatusSeeOther || other.get(page).find("same-as").Length() != 1 {
		t.Errorf("unlink: %d", a.status)
	}
}
