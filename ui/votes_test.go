package ui_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/duration"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/text"
)

// setPolicy stores the policy bank, of two of finance and one of compliance, or cfo alone, after change. The calls of the skill files need it.
func (w *world) setPolicy(change func(*policy.Spec)) {
	w.t.Helper()
	spec := policy.Spec{Name: "bank", Any: []policy.Alternative{
		{All: []policy.Line{{Count: 2, Teams: []string{"finance"}}, {Count: 1, Teams: []string{"compliance"}}}},
		{All: []policy.Line{{Count: 1, People: []string{"cfo"}}}},
	}}
	if change != nil {
		change(&spec)
	}
	_, err := w.agents.SetPolicy(w.t.Context(), audit.System(), spec, nil)
	check(w.t, err)
	_, err = w.agents.UpdateSkill(w.t.Context(), audit.System(), w.skillNamed("files").ID, agent.SkillPatch{Policy: new("bank")})
	check(w.t, err)
}

// setTeams makes a person a member of teams.
func (w *world) setTeams(name string, teams ...string) {
	w.t.Helper()
	w.db.Exec(`UPDATE people SET granted_teams = $2 WHERE name = $1`, name, append([]string{}, teams...))
	w.people.Invalidate()
}

func (w *world) reviewerOf(name string, teams ...string) *visitor {
	w.t.Helper()
	v := w.signedIn(name, identity.Reviewer)
	w.setTeams(name, teams...)
	return v
}

// words returns the text of an element with single spaces.
func (a *answer) words(testID string) string {
	return strings.Join(strings.Fields(a.find(testID).Text()), " ")
}

func TestVotesOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	ana, ben, kai, sam := w.reviewerOf("ana", "finance"), w.reviewerOf("ben", "finance"), w.reviewerOf("kai", "compliance"), w.reviewerOf("sam", "sales")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	other := w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)

	page := ana.get(callPath(id))
	if got := page.words("alternative"); got != "2 of finance: nobody yet; 1 of compliance: nobody yetor 1 of cfo: nobody yet" {
		t.Errorf("the page asks for %q", got)
	}
	if got := page.words("approve"); got != "Approve (1 of 3)" {
		t.Errorf("ana's button says %q", got)
	}
	unasked := sam.get(callPath(id))
	if unasked.find("approve").Length() != 0 || unasked.find("not-asked").Length() != 1 || unasked.find("reject").Length() != 1 {
		t.Errorf("sam, whom nobody asks, sees %s", unasked.text())
	}
	if a := sam.post(callPath(id)+"/approve", unasked.form("decide")); a.status != http.StatusForbidden || !strings.Contains(a.find("notice").First().Text(), "not recorded") {
		t.Errorf("sam approves: %d %s", a.status, a.text())
	}

	stale := page.form("decide")
	ana.post(callPath(id)+"/approve", stale).wantRedirect(callPath(id))
	voted := ana.get(callPath(id))
	if got := voted.find("notice").First().Text(); !strings.Contains(got, "Your approval is recorded") || !strings.Contains(got, "2 more are needed") {
		t.Errorf("after ana's vote: %s", got)
	}
	if voted.find("approve").Length() != 0 || voted.find("take-back").Length() != 1 || strings.Contains(voted.text(), "Approved by") || voted.find("next-call").Length() != 1 {
		t.Errorf("ana's page after the vote: %s", voted.text())
	}
	if got := voted.words("alternative"); !strings.HasPrefix(got, "2 of finance: ana (just now), 1 more; 1 of compliance: nobody yet") {
		t.Errorf("the progress is %q", got)
	}
	if a := ana.post(callPath(id)+"/approve", stale); a.status != http.StatusConflict || !strings.Contains(a.find("notice").First().Text(), "You have decided") {
		t.Errorf("ana votes twice: %d %s", a.status, a.text())
	}
	rows := ana.get("/")
	if got := rows.words("progress"); got != "0 of 3 approvals 1 of 3 approvals" {
		t.Errorf("the rows say %q", got)
	}
	if last := rows.find("row").Last(); last.AttrOr("data-call", "") != id.String() || !strings.Contains(last.Text(), "you voted") || rows.find("voted").Length() != 1 {
		t.Errorf("ana's queue: %s", rows.text())
	}
	if ben.get("/").find("voted").Length() != 0 {
		t.Error("ben's queue says that he voted")
	}
	if a := ana.get("/next"); a.header.Get("Location") != callPath(other) {
		t.Errorf("the next call is %s", a.header.Get("Location"))
	}

	ana.post(callPath(id)+"/undo", nil).wantRedirect(callPath(id))
	back := ana.get(callPath(id))
	if got := back.words("vote"); !strings.Contains(got, "does not count: it was taken back") || back.words("approve") != "Approve (1 of 3)" {
		t.Errorf("after the vote was taken back: %s", back.text())
	}
	if a := ana.post(callPath(id)+"/undo", nil); a.status != http.StatusConflict {
		t.Errorf("taken back twice: %d", a.status)
	}
	for _, one := range []struct {
		who   *visitor
		label string
	}{{ana, "Approve (1 of 3)"}, {kai, "Approve (2 of 3)"}, {ben, "Approve and send"}} {
		page := one.who.get(callPath(id))
		if got := page.words("approve"); got != one.label {
			t.Errorf("the button says %q, want %q", got, one.label)
		}
		one.who.post(callPath(id)+"/approve", page.form("decide")).wantRedirect(callPath(id))
	}
	if c := w.waitForEnd(id); c.Status != call.Succeeded {
		t.Errorf("the call is %s", c.Status)
	}
	if done := sam.get(callPath(id)); !strings.Contains(done.words("policy"), "met") || !strings.Contains(done.words("decision"), "Approved by ben") {
		t.Errorf("the page of the end: %s", done.text())
	}
}

// The side-by-side page decides no calls that need several approvals.
func TestVotesAreGivenOnTheCallsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(func(s *policy.Spec) { s.Rejections = 2 })
	ana := w.reviewerOf("ana", "finance")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"two"}`)
	page := ana.get(callPath(id) + "/like")
	if page.find("verdict-approve").Length() != 0 || !strings.Contains(page.text(), "needs several approvals") {
		t.Errorf("the calls side by side: %s", page.text())
	}
	form := page.form("like-form")
	form.Set("call", id.String())
	form.Set("verdict."+id.String(), "reject")
	if a := ana.post(callPath(id)+"/like", form); a.status != http.StatusConflict || strings.Contains(a.text(), "1 rejected") {
		t.Errorf("rejected side by side: %d %s", a.status, a.text())
	}
	ana.post(callPath(id)+"/reject", ana.get(callPath(id)).form("decide")).wantRedirect(callPath(id))
	if a := ana.get(callPath(id)); !strings.Contains(a.find("notice").First().Text(), "1 more ends the call") || w.getApproval(id).Status != approval.Pending {
		t.Errorf("after one of two rejections: %s", a.text())
	}
}

func TestPolicyChangesBehindThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	ana, ben := w.reviewerOf("ana", "finance"), w.reviewerOf("ben", "finance")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	ana.post(callPath(id)+"/approve", ana.get(callPath(id)).form("decide"))
	open := ben.get(callPath(id)).form("decide")
	w.setPolicy(func(s *policy.Spec) { s.Any = []policy.Alternative{{All: []policy.Line{{Count: 2}}}} })
	refused := ben.post(callPath(id)+"/approve", open)
	if refused.status != http.StatusConflict || !strings.Contains(refused.find("notice").First().Text(), "The policy changed") {
		t.Errorf("a vote under the old policy: %d %s", refused.status, refused.text())
	}
	if got := refused.words("alternative"); got != "2 reviewers: nobody yet" || !strings.Contains(refused.words("vote"), "does not count") {
		t.Errorf("the page shows %q, %s", got, refused.words("vote"))
	}
	for _, v := range []*visitor{ana, ben} {
		v.post(callPath(id)+"/approve", v.get(callPath(id)).form("decide")).wantRedirect(callPath(id))
	}
	if c := w.waitForEnd(id); c.Status != call.Succeeded {
		t.Errorf("the call is %s", c.Status)
	}
}

func TestEditVoidsVotesOnAnOpenPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	ana, ben, kai := w.reviewerOf("ana", "finance"), w.reviewerOf("ben", "finance"), w.reviewerOf("kai", "compliance")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	ana.post(callPath(id)+"/approve", ana.get(callPath(id)).form("decide"))
	open := kai.get(callPath(id))
	state := open.find("call").AttrOr("data-state", "")
	renew := func() int { return kai.get(callPath(id)+"?known="+url.QueryEscape(state), "HX-Request", "true").status }
	if got := renew(); got != http.StatusNoContent {
		t.Errorf("a page that has not changed: %d", got)
	}
	preview := ben.preview(id, `{"filename":"two"}`)
	if !strings.Contains(preview.words("approve"), "Propose edit") {
		t.Errorf("ben's button: %s", preview.words("approve"))
	}
	ben.post(callPath(id)+"/approve", preview.form("decide")).wantRedirect(callPath(id))
	if got := renew(); got != http.StatusOK {
		t.Errorf("the open page after the edit: %d", got)
	}
	if a := kai.post(callPath(id)+"/approve", open.form("decide")); a.status != http.StatusConflict || !strings.Contains(a.text(), "the call changed") {
		t.Errorf("a vote on the old arguments: %d", a.status)
	}
	page := ana.get(callPath(id))
	if !strings.Contains(page.words("vote"), "it was about other arguments") || page.words("approve") != "Approve as edited (1 of 3)" || page.find("take-back").Length() != 0 {
		t.Errorf("the voter's page: %s", page.text())
	}
}

// An open page, the queue and the live signal change with each vote.
func TestVotesChangeOpenPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	ana, ben := w.reviewerOf("ana", "finance"), w.reviewerOf("ben", "finance")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	state := func() string { return ben.get(callPath(id)).find("call").AttrOr("data-state", "") }
	queue := func() string {
		s, err := approval.ReadVoteState(t.Context(), w.db.Pool())
		check(t, err)
		return s
	}
	seen := map[string]bool{state(): true}
	signals := map[string]bool{queue(): true}
	for step, do := range []func(){
		func() { ana.post(callPath(id)+"/approve", ana.get(callPath(id)).form("decide")) },
		func() { ana.post(callPath(id)+"/undo", nil) },
		func() { ana.post(callPath(id)+"/approve", ana.get(callPath(id)).form("decide")) },
		func() { // a change of the policy, which a vote finds
			open := ben.get(callPath(id)).form("decide")
			w.setPolicy(func(s *policy.Spec) { s.Any = s.Any[:1] })
			ben.post(callPath(id)+"/approve", open)
		},
	} {
		do()
		if seen[state()] || signals[queue()] {
			t.Errorf("step %d does not change the page or the signal", step)
		}
		seen[state()], signals[queue()] = true, true
	}
}

func TestBreakGlassOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	ana, sam := w.reviewerOf("ana", "finance"), w.reviewerOf("sam", "sales")
	refused := w.submit(uuid.Nil, "files__save_csv", `{"filename":"no"}`)
	form := sam.get(callPath(refused)).form("decide")
	form.Set("reason", "urgent")
	form.Set("confirmed", "1")
	if a := sam.post(callPath(refused)+"/break-glass", form); a.status != http.StatusForbidden || !strings.Contains(a.text(), "lets nobody approve alone") || sam.get(callPath(refused)).find("break-glass").Length() != 0 {
		t.Errorf("alone without the policy's leave: %d %s", a.status, a.text())
	}

	w.setPolicy(func(s *policy.Spec) { s.BreakGlass = true })
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"payday"}`)
	form = sam.get(callPath(id)).form("glass-form")
	if a := sam.post(callPath(id)+"/break-glass", form); a.status != http.StatusUnprocessableEntity || a.find("glass-error").Length() != 1 {
		t.Errorf("without a reason: %d %s", a.status, a.text())
	}
	form.Set("reason", "payroll is due")
	second := sam.post(callPath(id)+"/break-glass", form)
	if second.status != http.StatusOK || w.getApproval(id).Status != approval.Pending || !strings.Contains(second.words("glass-confirm"), "Really approve alone?") {
		t.Fatalf("the second step: %d %s", second.status, second.text())
	}
	form = second.form("glass-confirm")
	form.Set("confirmed", "1")
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at - interval '1 day'`)
	w.people.Invalidate()
	if a := sam.post(callPath(id)+"/break-glass", form); a.status != http.StatusUnauthorized || a.find("proof-wanted").Length() != 1 || a.form("kept-form").Get("reason") != "payroll is due" {
		t.Errorf("with an old sign-in: %d %s", a.status, a.text())
	}
	w.db.Exec(`UPDATE person_sessions SET authenticated_at = authenticated_at + interval '1 day'`)
	w.people.Invalidate()
	sam.post(callPath(id)+"/break-glass", form).wantRedirect(callPath(id))
	if c := w.waitForEnd(id); c.Status != call.Succeeded {
		t.Fatalf("the call is %s", c.Status)
	}

	own := sam.get(callPath(id))
	if !strings.Contains(own.words("glass"), "sam approved alone") || own.find("unreviewed").Length() != 1 || own.find("review-glass").Length() != 0 || own.find("own-glass").Length() != 1 {
		t.Errorf("the page of the one who approved alone: %s", own.words("glass"))
	}
	if a := sam.post(callPath(id)+"/review-glass", nil); a.status != http.StatusForbidden || !strings.Contains(a.find("notice").First().Text(), "Another person") {
		t.Errorf("their own review: %d %s", a.status, a.text())
	}
	for _, v := range []*visitor{ana, sam} {
		if got := v.get("/").words("alone-row"); !strings.Contains(got, "files: save_csv") || !strings.Contains(got, "sam approved alone") || !strings.Contains(got, "payroll is due") {
			t.Errorf("the queue shows %q", got)
		}
	}
	before, err := approval.ReadVoteState(t.Context(), w.db.Pool())
	check(t, err)
	form = ana.get(callPath(id)).form("review-glass")
	form.Set("note", "checked with payroll")
	ana.post(callPath(id)+"/review-glass", form).wantRedirect(callPath(id))
	if a := ana.get(callPath(id)); a.find("unreviewed").Length() != 0 || !strings.Contains(a.words("glass"), "Reviewed by ana") || !strings.Contains(a.words("glass"), "checked with payroll") {
		t.Errorf("after the review: %s", a.words("glass"))
	}
	if ana.get("/").find("alone").Length() != 0 {
		t.Error("the queue still asks for a review")
	}
	if after, err := approval.ReadVoteState(t.Context(), w.db.Pool()); err != nil || after == before {
		t.Errorf("the review does not change the signal: %v", err)
	}
	if a := w.reviewerOf("ben").post(callPath(id)+"/review-glass", form); a.status != http.StatusConflict {
		t.Errorf("a second review: %d", a.status)
	}
}

// signInAs opens the dashboard in a browser, as a member of teams.
func (w *world) signInAs(name string, teams ...string) *browsertest.Page {
	w.t.Helper()
	p := browsertest.New(w.t, browsertest.Options{})
	p.Go(w.server.URL + w.createLink(name, identity.Reviewer))
	p.Click("sign-in-link")
	p.Wait("queue")
	w.setTeams(name, teams...)
	return p
}

// Two of three members of finance approve. The third has the call on the screen, sees each vote, and finds it decided.
func TestVotesInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(func(s *policy.Spec) {
		s.Any = []policy.Alternative{{All: []policy.Line{{Count: 2, Teams: []string{"finance"}}}}}
	})
	ana, ben, cem := w.signInAs("ana", "finance"), w.signInAs("ben", "finance"), w.signInAs("cem", "finance")
	first := w.submit(uuid.Nil, "files__save_csv", `{"filename":"first"}`)
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"second"}`)
	for _, p := range []*browsertest.Page{ana, ben, cem} {
		p.Go(w.server.URL)
		p.WaitText("queue", "second")
		ready(p)
		p.Press("j")
		p.WaitText("approve", "Approve (1 of 2)")
		p.WaitFor("keys to work", armed)
	}
	ana.Press("a")
	ana.WaitText("arguments", "second") // the next call opens
	ana.WaitText("row", "you voted")
	cem.WaitText("votes", "ana")
	cem.WaitText("approve", "Approve and send")
	cem.WaitText("progress", "1 of 2 approvals")
	ben.WaitText("approve", "Approve and send")
	ben.WaitFor("keys to work", armed)
	ben.Press("a")
	ben.WaitText("arguments", "second")
	cem.WaitText("decision", "Approved by ben")
	if c := w.waitForEnd(first); c.Status != call.Succeeded {
		t.Errorf("the call is %s", c.Status)
	}
	cem.WaitFor("nothing to decide", `!document.querySelector("#decide")`)
	for _, p := range []*browsertest.Page{ana, ben, cem} {
		noComplaints(t, p)
	}
}

// One person approves alone, without the people whom the policy asks, and another reviews that.
func TestBreakGlassInTheBrowser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(func(s *policy.Spec) { s.BreakGlass = true })
	sam, ana, kai := w.signInAs("sam", "sales"), w.signInAs("ana", "finance"), w.signInAs("kai", "compliance")
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"payday"}`)
	sam.Go(w.server.URL + callPath(id))
	sam.WaitText("not-asked", "does not ask for your approval")
	sam.ClickOn("[data-testid=break-glass] summary")
	sam.ClickOn("#glass-reason")
	sam.Press("payroll is due")
	sam.Click("glass-next")
	sam.WaitText("glass-confirm", "Really approve alone?")
	sam.Click("glass-yes")
	sam.WaitText("glass", "sam approved alone")
	if c := w.waitForEnd(id); c.Status != call.Succeeded {
		t.Errorf("the call is %s", c.Status)
	}
	// Those who were skipped see it on the open page, and it stays until somebody else has reviewed it.
	ana.WaitText("alone-row", "payroll is due")
	kai.WaitText("alone-row", "sam approved alone")
	sam.Go(w.server.URL)
	sam.WaitText("alone-row", "payroll is due")
	ana.ClickOn("[data-testid=alone-row] a")
	ana.Wait("review-glass")
	ana.WaitFor("buttons to work", armed)
	ana.Click("glass-note")
	ana.Press("checked")
	ana.Click("review-glass-send")
	ana.WaitText("glass", "Reviewed by ana")
	for _, p := range []*browsertest.Page{kai, sam} {
		p.WaitGone("alone-row")
	}
	for _, p := range []*browsertest.Page{sam, ana, kai} {
		noComplaints(t, p)
	}
}

// A call whose policy the present reviewers cannot meet says so, in the queue and on its page.
func TestPolicyThatNobodyCanMeet(t *testing.T) {
	t.Parallel()
	var able atomic.Pointer[[]uuid.UUID]
	able.Store(&[]uuid.UUID{})
	w := newWorldWith(t, nil, func(context.Context, *approval.Approval) ([]uuid.UUID, error) { return *able.Load(), nil })
	w.setPolicy(nil)
	ana := w.reviewerOf("ana", "finance")
	w.reviewerOf("ben", "finance")
	able.Store(&[]uuid.UUID{w.personCalled("ana"), w.personCalled("ben")})
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"one"}`)
	if got := ana.get("/").words("row"); !strings.Contains(got, "cannot be met") {
		t.Errorf("the row: %s", got)
	}
	if got := ana.get(callPath(id)).words("shortage"); !strings.Contains(got, "No reviewers can meet this policy. Policy bank asks for 1 of compliance, and 0 reviewers could approve for that.") {
		t.Errorf("the page: %q", got)
	}
	w.reviewerOf("kai", "compliance")
	able.Store(&[]uuid.UUID{w.personCalled("ana"), w.personCalled("ben"), w.personCalled("kai")})
	if ana.get("/").find("row").Length() != 1 || strings.Contains(ana.get("/").words("row"), "cannot be met") || ana.get(callPath(id)).find("shortage").Length() != 0 {
		t.Error("it can be met now")
	}
}

// The list of policies reads what uses them at once.
func TestPoliciesTakeFewRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	w.setPolicy(nil)
	olga.get("/policies") // warms the caches
	_, one := olga.recordRoundTrips("/policies", 0)
	for i := range 5 {
		spec := policy.Spec{Name: "p" + strconv.Itoa(i), Any: []policy.Alternative{{All: []policy.Line{{Count: 1}}}}}
		_, err := w.agents.SetPolicy(t.Context(), audit.System(), spec, nil)
		check(t, err)
		w.setRule(rule.Spec{Name: "r" + strconv.Itoa(i), Skills: []string{"files"}, Effect: rule.Park, Policy: spec.Name})
	}
	if a := olga.get("/policies"); a.find("policy-row").Length() != 6 || a.find("used-by").Length() != 6 {
		t.Fatalf("the list: %s", a.text())
	}
	if _, six := olga.recordRoundTrips("/policies", len(one)); len(six) > len(one) {
		t.Errorf("%d round trips for one policy, %d for six:\n%s", len(one), len(six), strings.Join(six, "\n---\n"))
	}
}

// Errors in the forms of policies, grants and duties are in the language of the reader.
func TestErrorsOfPoliciesAreTranslated(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		"must be 1 to 20 (line 2, part 1, count)":    "muss zwischen 1 und 20 liegen (Zeile 2, Teil 1, count)",
		"must have 1 to 10 alternatives":             "muss 1 bis 10 Alternativen haben",
		"must have 1 to 10 lines (line 3)":           "muss 1 bis 10 Teile haben (Zeile 3)",
		"must be one value":                          "muss ein Wert sein",
		"must be in the future, and after the start": "muss in der Zukunft und nach dem Anfang liegen",
	} {
		if got := text.Fault(said).In(text.WithLanguage(t.Context(), "de")); got != want {
			t.Errorf("%q in German: %q, want %q", said, got, want)
		}
	}
	var said []string
	for _, alternatives := range []string{"two of a", "2", "2 of", `1 of "a`, `1 of a "b"`, "1 of a and 1 of b", "1 of a,"} {
		_, invalid := policy.ParseAlternatives(alternatives)
		said = append(said, invalid[0].Expected)
	}
	spec := policy.Spec{Name: "p", Any: []policy.Alternative{{All: []policy.Line{{Count: 30, Teams: []string{" "}}, {Count: 2, People: []string{"a"}}}}, {}}, Rejections: -1, ApprovalTimeout: new(duration.Text)}
	for _, f := range spec.Check() {
		said = append(said, f.Expected)
	}
	for _, kind := range grant.Kinds() {
		for _, f := range grant.Check([]grant.Matcher{{Argument: "/a", Kind: kind, Values: []json.RawMessage{[]byte(`""`), []byte(`{"a":1,"a":2}`)}}, {Argument: "/b", Kind: kind}}) {
			said = append(said, f.Expected)
		}
	}
	for _, language := range []string{"de", "ja"} {
		for _, one := range said {
			if got := text.Fault(one).In(text.WithLanguage(t.Context(), language)); got == one {
				t.Errorf("%q stays English in %s", one, language)
			}
		}
	}
}

func TestPolicyPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga, rita := w.signedIn("olga", identity.Operator), w.signedIn("rita", identity.Reviewer)
	if a := olga.get("/policies"); a.find("empty").Length() != 1 || a.find("new-policy").Length() != 1 {
		t.Errorf("the empty list: %s", a.text())
	}
	form := olga.get("/policies/new").form("policy-form")
	for typed, problem := range map[string]string{
		"":                       "must have 1 to 10 alternatives",
		"1 of a\ntwo of finance": `line 2 has "two" where a number of people must be`,
		"1 of a\n99 of b":        "must be 1 to 20 (line 2, part 1, count)",
		"2 of cfo@example.com":   "must be at most the number of people that the line names (line 1, part 1, count)",
	} {
		form.Set("name", "bank")
		form.Set("any", typed)
		a := olga.post("/policies/new", form)
		if got := a.find("problem-any").Text(); a.status != http.StatusUnprocessableEntity || !strings.Contains(got, problem) || a.find("policy-form").Find("textarea").Text() != typed {
			t.Errorf("%q: %d %q", typed, a.status, got)
		}
	}
	form.Set("any", "2 of finance, 1 of compliance\n1 of person cfo")
	form.Set("approval_timeout", "soon")
	if a := olga.post("/policies/new", form); a.find("problem-approval_timeout").Length() != 1 || a.find("problem-any").Length() != 0 {
		t.Errorf("a wrong time: %s", a.text())
	}
	form.Set("approval_timeout", "2h")
	page := olga.get(olga.post("/policies/new", form).wantRedirect("/policies/named/bank"))
	if got := page.words("needs"); got != "2 of finance, 1 of complianceor 1 of person cfo" || page.find("unmeetable").Length() != 1 || !strings.Contains(page.text(), "2h") {
		t.Errorf("the policy: %s", page.text())
	}
	if a := olga.post("/policies/new", form); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.find("problem-name").Text(), "is taken") {
		t.Errorf("the same name again: %d %s", a.status, a.text())
	}
	w.signedIn("cfo", identity.Reviewer)
	if a := olga.get("/policies/named/bank"); a.find("unmeetable").Length() != 0 {
		t.Error("the policy can be met now")
	}

	// Both roles read; only operators change.
	for path, has := range map[string]string{"/policies": "policy-row", "/policies/named/bank": "version"} {
		if a := rita.get(path); a.find(has).Length() != 1 || a.doc.Find(`main a[href$="/edit"], main form, main a[href="/policies/new"]`).Length() != 0 {
			t.Errorf("%s for a reviewer: %s", path, a.text())
		}
	}
	if a := olga.get("/policies/named/none"); a.status != http.StatusNotFound || !strings.Contains(a.text(), "no such policy") {
		t.Errorf("no policy: %d %s", a.status, a.text())
	}

	// Two operators change it at once.
	const edit = "/policies/named/bank/edit"
	first, second := olga.get(edit).form("policy-form"), olga.get(edit).form("policy-form")
	if first.Get("any") != "2 of finance, 1 of compliance\n1 of person cfo" || first.Get("approval_timeout") != "2h0m0s" && first.Get("approval_timeout") != "2h" {
		t.Errorf("the form has %v", first)
	}
	first.Set("any", "2 reviewers")
	first.Set("break_glass", "on")
	olga.post(edit, first).wantRedirect("/policies/named/bank")
	second.Set("any", "3 reviewers")
	late := olga.post(edit, second)
	if late.status != http.StatusConflict || !strings.Contains(late.find("now-any").Text(), "2 reviewers") {
		t.Errorf("a late change: %d %s", late.status, late.text())
	}
	page = olga.get("/policies/named/bank")
	if got := page.find("version").First().Text(); page.find("version").Length() != 2 || !strings.Contains(got, "2 reviewers") || !strings.Contains(got, "break_glass") {
		t.Errorf("the versions: %s", got)
	}

	// What uses it holds it.
	rule := olga.get("/rules/new").ruleForm(url.Values{"name": {"big"}, "effect": {"park"}, "policy": {"bank"}, "when": {""}})
	olga.post("/rules/new", rule).wantRedirect("/rules/named/big")
	olga.post("/rules/named/big/edit", olga.get("/rules/named/big/edit").ruleForm(url.Values{"mode": {"off"}})).wantRedirect("done=saved")
	if got := w.rule("big"); got.Policy != "bank" {
		t.Errorf("after another change, the rule has the policy %q", got.Policy)
	}
	files := w.skillNamed("files")
	w.relist(files)
	path := "/skills/" + files.ID.String()
	olga.post(path+"/edit", olga.get(path+"/edit").fillForm("skill-form", url.Values{"policy": {"bank"}})).wantRedirect(path)
	tool := olga.get(path+"/tools?tool=save_csv").fillForm("tool-form", url.Values{"policy": {"bank"}})
	olga.post(path+"/tools", tool).wantRedirect("done=saved")
	page = olga.get("/policies/named/bank")
	if got := page.find("used-by").Text(); got != "rule bigskill filestool save_csv of skill files" {
		t.Errorf("it is used by %q", got)
	}
	refused := olga.post("/policies/named/bank/delete", nil)
	if refused.status != http.StatusConflict || !strings.Contains(refused.find("notice").First().Text(), "rule big, skill files, tool save_csv of skill files") {
		t.Errorf("deleted in use: %d %s", refused.status, refused.text())
	}
	for _, one := range page.find("used-by").EachIter() {
		if a := olga.get(one.AttrOr("href", "")); a.status != http.StatusOK {
			t.Errorf("the link to %s: %d", one.Text(), a.status)
		}
	}
	if olga.get("/audit").doc.Find(`a[href="/policies/named/bank"]`).Length() == 0 {
		t.Error("the audit log does not link to the policy")
	}

	olga.post("/rules/named/big/delete", nil)
	olga.post(path+"/tools", olga.get(path+"/tools?tool=save_csv").fillForm("tool-form", url.Values{"policy": {""}})).wantRedirect("done=saved")
	olga.post(path+"/edit", olga.get(path+"/edit").fillForm("skill-form", url.Values{"policy": {""}})).wantRedirect(path)
	gone := olga.get(olga.post("/policies/named/bank/delete", nil).wantRedirect("/policies"))
	if !strings.Contains(gone.text(), "Policy deleted") || gone.find("policy-row").Length() != 0 {
		t.Errorf("after the deletion: %s", gone.text())
	}
	page = olga.get("/policies/named/bank")
	restore := page.find("restore").Last().AttrOr("href", "")
	again := olga.get(restore).form("policy-form")
	if again.Get("any") != "2 of finance, 1 of compliance\n1 of person cfo" {
		t.Errorf("the restored form has %v", again)
	}
	olga.post(edit, again).wantRedirect("done=saved")
}
