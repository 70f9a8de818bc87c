package ui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// A person names a substitute, whose queue then has the calls of the person's team.
func TestSubstitute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, anaID := w.signedInAs("ana", identity.Reviewer)
	ben, benID := w.signedInAs("ben", identity.Reviewer)
	olga, olgaID := w.signedInAs("olga", identity.Operator)
	w.db.Exec(`UPDATE people SET granted_teams = '{pay}' WHERE id = $1`, anaID)
	w.db.Exec(`UPDATE skills SET team = 'pay' WHERE name = 'files'`)
	w.people.Invalidate()
	w.agents.Invalidate()
	w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	if ana.get("/settings").find("to-teams").Length() != 1 || ben.get("/").doc.Find(".team.own").Length() != 0 || ana.get("/").doc.Find(".team.own").Length() != 1 {
		t.Error("the queue of the team is not ana's")
	}
	until := time.Now().Add(24 * time.Hour).UTC().Format("2006-01-02T15:04")
	for field, form := range map[string]url.Values{
		"until":      {"substitute": {benID.String()}, "until": {""}},
		"from":       {"substitute": {benID.String()}, "from": {"2026-02-30"}, "until": {until}},
		"substitute": {"substitute": {olgaID.String()}, "until": {until}},
	} {
		a := ana.post("/teams/absences", form)
		if a.status != http.StatusUnprocessableEntity || a.find("wrong-"+field).Length() != 1 || a.find("field-substitute").Find("[selected]").Length() == 0 && field != "substitute" {
			t.Errorf("%s: %d, %s", field, a.status, a.find("new-absence").Text())
		}
	}
	// The form of people who are no operators names no other person.
	if a := ana.post("/teams/absences", url.Values{"person": {benID.String()}, "substitute": {benID.String()}, "until": {until}}); a.header.Get("Location") != "/teams?done=absence-set" {
		t.Fatalf("%d %s", a.status, a.text())
	}
	page := ben.get("/teams")
	if text := page.find("absence").Text(); !strings.Contains(text, "ana") || !strings.Contains(text, "ben") || page.find("end-absence").Length() != 0 {
		t.Errorf("%s", text)
	}
	if text := page.find("members").Text(); !strings.Contains(text, "ben for ana, who is away until") {
		t.Errorf("%s", text)
	}
	if ben.get("/").doc.Find(".team.own").Length() != 1 {
		t.Error("the substitute's queue does not have the team's call first")
	}
	end := ana.get("/teams").find("absence").Find("form").AttrOr("action", "")
	if a := ben.post(end, nil); a.status != http.StatusNotFound {
		t.Errorf("ben ended it: %d", a.status)
	}
	if a := ana.post(end, nil); a.header.Get("Location") != "/teams?done=absence-ended" || ana.get("/teams").find("absence").Length() != 0 {
		t.Errorf("%d %s", a.status, a.text())
	}

	// Members delegate their team; ben is in none.
	delegation := url.Values{"team": {"pay"}, "to": {benID.String()}, "ends": {until}}
	if ben.get("/teams").find("new-delegation").Length() != 0 || ben.post("/teams/delegations", delegation).find("form-error").Length() != 0 {
		t.Error("ben may delegate")
	}
	if a := ana.post("/teams/delegations", delegation); a.header.Get("Location") != "/teams?done=delegated" {
		t.Fatalf("%d %s", a.status, a.text())
	}
	page = olga.get("/teams")
	if text := page.find("members").Text(); !strings.Contains(text, "ben, delegated until") {
		t.Errorf("%s", text)
	}
	if text := page.words("delegation"); !strings.HasPrefix(text, "pay: ben until") || !strings.Contains(text, ", by ana") {
		t.Errorf("the delegation is %q", text)
	}
	if a := olga.post(page.find("delegation").Find("form").AttrOr("action", ""), nil); a.header.Get("Location") != "/teams?done=delegation-ended" {
		t.Errorf("%d %s", a.status, a.text())
	}
	log := olga.get("/audit").doc.Text()
	for _, sentence := range []string{"set an absence of", "ended an absence of", "delegated a team to", "ended a delegation to"} {
		if !strings.Contains(log, sentence) {
			t.Errorf("the audit log does not say %q", sentence)
		}
	}
}

func TestOnCallCalendar(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signedIn("ana", identity.Reviewer)
	olga := w.signedIn("olga", identity.Operator)
	calendar := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		form := func(d time.Duration) string { return time.Now().Add(d).UTC().Format("20060102T150405Z") }
		fmt.Fprint(rw, "BEGIN:VCALENDAR\r\n")
		for i, who := range []string{"Ana", "Somebody <else>"} {
			fmt.Fprintf(rw, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:%s\r\nDTSTART:%s\r\nDTEND:%s\r\nEND:VEVENT\r\n", i, who, form(-time.Hour), form(time.Hour))
		}
		fmt.Fprint(rw, "END:VCALENDAR\r\n")
	}))
	defer calendar.Close()
	if a := olga.post("/teams/schedules", url.Values{"name": {"pay/eu"}, "url": {"ftp://x/hushhush"}}); a.status != http.StatusUnprocessableEntity || a.find("wrong-url").Length() != 1 || strings.Contains(a.text(), "hushhush") {
		t.Errorf("%d %s", a.status, a.find("new-schedule").Text())
	}
	if a := olga.post("/teams/schedules", url.Values{"name": {"pay/eu"}, "url": {calendar.URL + "/hushhush"}}); a.header.Get("Location") != "/teams?done=schedule-set" {
		t.Fatalf("%d %s", a.status, a.text())
	}
	team := olga.get("/teams").find("team")
	if text := team.Text(); !strings.Contains(text, "On call: ana until") || !strings.Contains(text, "The calendar names Somebody <else> until") || strings.Contains(text, "hushhush") {
		t.Errorf("%s", text)
	}
	calendar.Close()
	forms := team.Find("form")
	if a := olga.post(forms.First().AttrOr("action", ""), nil); a.header.Get("Location") != "/teams?done=schedule-fetched" {
		t.Errorf("%d %s", a.status, a.text())
	}
	if text := olga.get("/teams").find("schedule-error").Text(); !strings.Contains(text, "cannot be read since") || !strings.Contains(text, "could not be reached") {
		t.Errorf("%s", text)
	}
	if a := olga.post(forms.Last().AttrOr("action", ""), nil); a.header.Get("Location") != "/teams?done=schedule-deleted" || olga.get("/teams").find("team").Length() != 0 {
		t.Errorf("%d %s", a.status, a.text())
	}
	if log := olga.get("/audit?action=schedule").doc.Text(); !strings.Contains(log, "set the on-call calendar of team pay/eu") {
		t.Error("the audit log does not name the team")
	}
}

// The page of a call shows the steps of its escalation.
func TestEscalationIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga, ana := w.signedIn("olga", identity.Operator), w.signedIn("ana", identity.Reviewer)
	skill, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	edit := "/skills/" + skill.ID.String() + "/edit"
	form := olga.get(edit).form("skill-form")
	form.Set("escalation", "soon: duty")
	if a := olga.post(edit, form); a.status != http.StatusUnprocessableEntity || !strings.Contains(a.text(), "must be a time such as 2m") {
		t.Errorf("%d %s", a.status, a.text())
	}
	form.Set("escalation", "10s: duty\n50%: leads, person:ann@example.com")
	if a := olga.post(edit, form); a.status != http.StatusSeeOther {
		t.Fatalf("%d %s", a.status, a.text())
	}
	if got := olga.get(edit).form("skill-form").Get("escalation"); got != "10s: duty\n50%: leads, person:ann@example.com" {
		t.Errorf("%q", got)
	}
	if text := olga.get("/skills/" + skill.ID.String()).find("teams").Text(); !strings.Contains(text, "duty; leads, ann@example.com") {
		t.Errorf("%q", text)
	}
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"a"}`)
	text := ana.get(callPath(id)).find("escalation").Text()
	if !strings.Contains(text, "duty will be asked") || !strings.Contains(text, "leads, ann@example.com will be asked") {
		t.Errorf("%q", text)
	}
	w.db.Exec(`UPDATE approvals SET escalated_at = holdpoint_now(), escalated_times = ARRAY[holdpoint_now()], asked_teams = '{duty}' WHERE call_id = $1`, id)
	if text := ana.get(callPath(id)).find("escalation").Text(); !strings.Contains(text, "duty was asked") {
		t.Errorf("%q", text)
	}
	if text := ana.get("/").text(); !strings.Contains(text, "escalated") || !strings.Contains(text, "duty") {
		t.Errorf("%q", text)
	}
}
