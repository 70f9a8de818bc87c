package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// EscalationStep asks more teams and people about a call that has waited for a time.
type EscalationStep struct {
	After  string   `json:"after" doc:"When the step is taken: a time since people were asked, such as 2m, or a share of the time to decide, such as 50%." manifest:"required"`
	Teams  []string `json:"teams,omitempty" doc:"The teams that are asked. All members are notified, whoever is on call." otherwise:"none"`
	People []string `json:"people,omitempty" doc:"The people who are asked: their e-mail addresses, names or ids." otherwise:"none"`
}

// MaxSteps is the maximum number of steps of an escalation.
const MaxSteps = 10

const (
	maxStepNames = 20
	maxStepName  = 256 // bytes
	maxStepAfter = 720 * time.Hour
	halfTime     = "50%"
	personPrefix = "person:" // of people in the text form
)

// errAfter is the rule for [EscalationStep.After].
var errAfter = errors.New("must be a time such as 2m, or a share of the time to decide such as 50%")

// parseAfter returns a time or a share in percent.
func parseAfter(text string) (after time.Duration, percent float64, err error) {
	if share, isShare := strings.CutSuffix(text, "%"); isShare {
		percent, err = strconv.ParseFloat(share, 64)
		if err != nil || !(percent > 0 && percent < 100) { // also refuses NaN
			return 0, 0, errAfter
		}
		return 0, percent, nil
	}
	if after, err = time.ParseDuration(text); err != nil || after < time.Second || after > maxStepAfter {
		return 0, 0, errAfter
	}
	return after, 0, nil
}

// CheckEscalation validates steps. The error function gets the path of a field below the list, such as "[0].after", and what it must be.
func CheckEscalation(steps []EscalationStep, report func(path, expected string)) {
	if len(steps) > MaxSteps {
		report("", fmt.Sprintf("must be at most %d steps", MaxSteps))
	}
	for i, s := range steps {
		at := "[" + strconv.Itoa(i) + "]"
		if _, _, err := parseAfter(s.After); err != nil {
			report(at+".after", err.Error())
		}
		if n := len(s.Teams) + len(s.People); n == 0 || n > maxStepNames {
			report(at, fmt.Sprintf("must name 1 to %d teams and people", maxStepNames))
		}
		for field, names := range map[string][]string{".teams": s.Teams, ".people": s.People} {
			for j, name := range names {
				if !isStepName(name) {
					report(at+field+"["+strconv.Itoa(j)+"]", fmt.Sprintf(
						"must be 1 to %d bytes of printable text without commas, semicolons and spaces at its ends, and not begin with %s", maxStepName, personPrefix))
				}
			}
		}
	}
}

// isStepName reports whether the text form of a step can have a name.
func isStepName(name string) bool {
	return name != "" && len(name) <= maxStepName && utf8.ValidString(name) && strings.TrimSpace(name) == name && !strings.ContainsAny(name, ",;") &&
		!strings.HasPrefix(name, personPrefix) && !strings.ContainsFunc(name, func(r rune) bool { return !plain.IsVisible(r) })
}

// ParseEscalation reads the text form of steps, one in a line, or separated by semicolons:
//
//	2m: payments, person:ann@example.com
//	50%: duty
//
// [CheckEscalation] validates the result.
func ParseEscalation(text string) ([]EscalationStep, error) {
	var steps []EscalationStep
	for line := range strings.SplitSeq(strings.ReplaceAll(text, ";", "\n"), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		after, names, found := strings.Cut(line, ":")
		if !found {
			return nil, fmt.Errorf("step %d must have the form 2m: team, person:ann@example.com", len(steps)+1)
		}
		s := EscalationStep{After: strings.TrimSpace(after)}
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(name)
			if person, isPerson := strings.CutPrefix(name, personPrefix); isPerson {
				s.People = append(s.People, strings.TrimSpace(person))
			} else {
				s.Teams = append(s.Teams, name)
			}
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// FormatEscalation returns the text form of steps, one in a line.
func FormatEscalation(steps []EscalationStep) string {
	lines := make([]string, len(steps))
	for i, s := range steps {
		names := slices.Clone(s.Teams)
		for _, person := range s.People {
			names = append(names, personPrefix+person)
		}
		lines[i] = s.After + ": " + strings.Join(names, ", ")
	}
	return strings.Join(lines, "\n")
}

// PlannedStep is a step of an approval's escalation, with its time.
type PlannedStep struct {
	EscalationStep

	At    time.Time // when it is or was due
	Taken bool
}

// Plan returns the steps of the approval's escalation. Shares count with the present deadline, so an extension moves steps that were not
// taken yet. No step comes before an earlier one.
func (a *Approval) Plan() []PlannedStep {
	steps := a.Escalation
	if len(steps) == 0 && a.EscalateTo != "" {
		steps = []EscalationStep{{After: halfTime, Teams: []string{a.EscalateTo}}}
	}
	began := a.AskedAt
	plan := make([]PlannedStep, len(steps))
	var last time.Time
	for i, s := range steps {
		after, percent, _ := parseAfter(s.After) // it was validated
		if percent > 0 {
			after = time.Duration(float64(a.Deadline.Sub(began)) * percent / 100)
		}
		at := began.Add(after)
		if at.Before(last) {
			at = last
		}
		plan[i] = PlannedStep{EscalationStep: s, At: at}
		switch {
		case i < len(a.EscalatedTimes):
			plan[i].Taken, plan[i].At = true, a.EscalatedTimes[i]
		case i == 0 && a.EscalatedAt != nil: // a process of an earlier version took it
			plan[i].Taken, plan[i].At = true, *a.EscalatedAt
		}
		last = plan[i].At
	}
	return plan
}

// NextStep returns the time of the first step that was not taken, or false if there is none.
func (a *Approval) NextStep() (time.Time, bool) {
	for _, s := range a.Plan() {
		if !s.Taken {
			return s.At, true
		}
	}
	return time.Time{}, false
}

// DueSteps returns the steps of a pending approval that are due and were not taken.
func (a *Approval) DueSteps(now time.Time) []EscalationStep {
	var due []EscalationStep
	if a.Status != Pending || !a.Deadline.After(now) {
		return nil
	}
	for _, s := range a.Plan() {
		if !s.Taken && !s.At.After(now) {
			due = append(due, s.EscalationStep)
		}
	}
	return due
}

// TakeSteps records that further steps of a pending approval are taken. people are those whom they name. The caller holds the row's lock;
// see [Lock].
func TakeSteps(ctx context.Context, tx pgx.Tx, a Approval, steps []EscalationStep, people []uuid.UUID, now time.Time) (Approval, error) {
	times, teams, asked := slices.Clone(a.EscalatedTimes), slices.Clone(a.AskedTeams), slices.Concat(a.AskedPeople, people)
	if len(times) == 0 && a.EscalatedAt != nil { // a process of an earlier version took the first step
		times, teams = append(times, *a.EscalatedAt), append(teams, a.EscalateTo)
	}
	for _, s := range steps {
		times, teams = append(times, now), append(teams, s.Teams...)
	}
	slices.Sort(teams)
	return updatePending(ctx, tx, a, "escalate", `escalated_at = coalesce(escalated_at, $5), escalated_times = $2, asked_teams = $3, asked_people = $4`,
		times, slices.Compact(teams), asked, now)
}
