package approval_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
)

func TestEscalationAsText(t *testing.T) {
	t.Parallel()
	steps := []approval.EscalationStep{
		{After: "2m", Teams: []string{"payments"}, People: []string{"ann@example.com"}},
		{After: "50%", Teams: []string{"duty", "leads"}},
	}
	text := approval.FormatEscalation(steps)
	if want := "2m: payments, person:ann@example.com\n50%: duty, leads"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	for _, form := range []string{text, " 2m : payments,person: ann@example.com ; ; 50%:duty,  leads\n"} {
		if got, err := approval.ParseEscalation(form); err != nil || !reflect.DeepEqual(got, steps) {
			t.Errorf("%q: %+v, %v", form, got, err)
		}
	}
	if _, err := approval.ParseEscalation("2m: a\nlater"); err == nil || err.Error() != "step 2 must have the form 2m: team, person:ann@example.com" {
		t.Errorf("no colon: %v", err)
	}
}

func TestEscalationIsChecked(t *testing.T) {
	t.Parallel()
	team := []string{"duty"}
	for want, steps := range map[string][]approval.EscalationStep{
		"":              {{After: "1s", Teams: team}, {After: "99.5%", People: team}},
		"[0].after":     {{After: "", Teams: team}},
		"[1].after":     {{After: "1m", Teams: team}, {After: "100%", Teams: team}},
		"[0].after ":    {{After: "NaN%", Teams: team}},
		"[0].after  ":   {{After: "-2m", Teams: team}},
		"[0]":           {{After: "1m"}},
		"[0].teams[1]":  {{After: "1m", Teams: []string{"a", "b, c"}}},
		"[0].people[0]": {{After: "1m", People: []string{"person:a"}}},
		" ":             make([]approval.EscalationStep, 11),
	} {
		var paths []string
		approval.CheckEscalation(steps, func(path, _ string) { paths = append(paths, path) })
		if len(paths) == 0 != (want == "") || len(paths) > 0 && paths[0] != strings.TrimSpace(want) {
			t.Errorf("%+v: wrong are %q, want %q", steps, paths, want)
		}
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	minutes := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }
	newApproval := func() approval.Approval {
		return approval.Approval{
			Status: approval.Pending, CreatedAt: began, AskedAt: began, Deadline: minutes(20),
			Escalation: []approval.EscalationStep{{After: "25%", Teams: []string{"a"}}, {After: "4m", Teams: []string{"b"}}, {After: "50%", Teams: []string{"c"}}, {After: "1h", Teams: []string{"d"}}},
		}
	}
	plan := func(a approval.Approval) string {
		var list []string
		for _, s := range a.Plan() {
			list = append(list, fmt.Sprintf("%s %s %t", s.At.Sub(began), strings.Join(s.Teams, " "), s.Taken))
		}
		return strings.Join(list, ", ")
	}
	a := newApproval()
	if got := plan(a); got != "5m0s a false, 5m0s b false, 10m0s c false, 1h0m0s d false" { // no step comes before an earlier one
		t.Error(got)
	}
	if due := a.DueSteps(minutes(5)); len(due) != 2 {
		t.Errorf("due: %+v", due)
	}
	a.EscalatedTimes = []time.Time{minutes(5), minutes(6)}
	a.Deadline, a.Extended = minutes(40), 20*time.Minute // an extension moves shares that were not taken
	if got := plan(a); got != "5m0s a true, 6m0s b true, 20m0s c false, 1h0m0s d false" {
		t.Error(got)
	}
	if at, more := a.NextStep(); !more || !at.Equal(minutes(20)) {
		t.Errorf("next at %s", at)
	}
	if due := a.DueSteps(minutes(40)); due != nil {
		t.Errorf("after the deadline: %+v", due)
	}
	a = newApproval()
	a.AskedAt, a.Deadline = minutes(30), minutes(50) // asked again
	if got := plan(a); got != "35m0s a false, 35m0s b false, 40m0s c false, 1h30m0s d false" {
		t.Error(got)
	}
	a = approval.Approval{Status: approval.Pending, CreatedAt: began, AskedAt: began, Deadline: minutes(20), EscalateTo: "duty"}
	if got := plan(a); got != "10m0s duty false" {
		t.Error(got)
	}
	a.EscalatedAt = new(minutes(11)) // by a process of an earlier version
	if got := plan(a); got != "11m0s duty true" || len(a.DueSteps(minutes(12))) != 0 {
		t.Error(got)
	}
	a.AskedPeople = []uuid.UUID{uuid.New()}
	if !a.Asks([]string{"duty"}) || a.Asks([]string{"x"}, uuid.New()) || !a.Asks(nil, a.AskedPeople[0]) {
		t.Error("asked are the team and the person")
	}
}
