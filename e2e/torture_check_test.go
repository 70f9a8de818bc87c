package e2e_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// tortured is a call in the database.
type tortured struct {
	ID         string
	Status     string
	Code       string
	Effect     string
	Message    string
	Gated      bool
	Tool       string
	Skill      string
	Revision   int64
	Arguments  string
	Result     int // in bytes; zero: none
	Late       int
	Approval   string // status; empty: none
	ApprovedAt *time.Time
	Story      string // actions of the audit events
}

const torturedSQL = `SELECT c.id::text, c.status, coalesce(c.code, ''), coalesce(c.effect, ''), coalesce(c.message, ''), c.gated, c.tool,
		s.name, c.skill_revision, convert_from(c.arguments, 'UTF8'), coalesce(octet_length(c.result), 0), coalesce(octet_length(c.late::text), 0),
		coalesce(a.status, ''), a.decided_at,
		(SELECT string_agg(action, ' ' ORDER BY e.id) FROM audit_events e WHERE e.subject_id = c.id)
	FROM calls c JOIN skills s ON s.id = c.skill_id LEFT JOIN approvals a ON a.call_id = c.id ORDER BY c.id`

// awaitEnds returns all calls once they have ended with stored answers, or the time is up.
func (s *torture) awaitEnds() map[string]tortured {
	calls := map[string]tortured{}
	err := eventually.Poll(s.t.Context(), patience, func() error {
		list, err := s.readCalls()
		if err != nil {
			return err
		}
		unfinished := 0
		for _, c := range list {
			calls[c.ID] = c
			if isOpen(c.Status) || s.isDropped(c) {
				unfinished++
			}
		}
		if unfinished > 0 {
			_ = pause.For(s.t.Context(), time.Second)
			return fmt.Errorf("%d calls have not ended, or their results are not stored", unfinished)
		}
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
	return calls
}

func isOpen(status string) bool {
	return status == "needs_connection" || status == "parked" || status == "approved" || status == "executing"
}

func (s *torture) readCalls() (list []tortured, err error) {
	err = s.askDatabase(func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, torturedSQL)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tortured])
		return err
	})
	return list, err
}

// isDropped reports whether the server answered a call and the answer was not stored.
func (s *torture) isDropped(c tortured) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.arrivals[c.ID] {
		least := 1
		if a.large {
			least = largeResult
		}
		if a.answered && max(c.Result, c.Late) < least {
			return true
		}
	}
	return false
}

// checkCalls compares the database with all outside observations.
func (s *torture) checkCalls(calls map[string]tortured) {
	for _, c := range calls {
		s.checkArrivals(c)
		s.checkTold(c)
		if story := auditOf(c); !story.MatchString(c.Story) {
			s.reportViolationf("audit differs", "%s: the audit says %q, want %s", c, c.Story, story)
		}
		if isOpen(c.Status) {
			s.reportViolationf("lost", "%s has not ended", c)
		} else if s.isDropped(c) {
			s.reportViolationf("results dropped", "%s was answered, and its result is not stored: %d bytes, late %d", c, c.Result, c.Late)
		}
	}
	for _, id := range sortedKeys(s.arrivals) {
		if _, ok := calls[id]; !ok {
			s.reportViolationf("lost", "call %q arrived, and is not in the database", id)
		}
	}
	for _, id := range sortedKeys(s.told) {
		if _, ok := calls[id]; !ok {
			s.reportViolationf("lost", "call %s was told to its client, and is not in the database", id)
		}
	}
	for _, id := range sortedKeys(s.decided) {
		if _, ok := calls[id]; !ok {
			s.reportViolationf("lost", "call %s was decided, and is not in the database", id)
		}
	}
	if len(calls) == 0 {
		s.t.Error("no call was made")
	}
}

func (c tortured) String() string {
	return fmt.Sprintf("call %s (%s__%s %s, %s %s: %s)", c.ID, c.Skill, c.Tool, c.Arguments, c.Status, c.Code, c.Message)
}

func (s *torture) checkArrivals(c tortured) {
	arrivals := s.arrivals[c.ID]
	if len(arrivals) > 1 {
		s.reportViolationf("sent twice", "%s arrived %d times", c, len(arrivals))
	}
	for _, a := range arrivals {
		switch {
		case c.Gated && c.Approval != "approved":
			s.reportViolationf("sent unapproved", "%s arrived, and its approval is %s", c, c.Approval)
		case c.Gated && a.at.Before(*c.ApprovedAt):
			s.reportViolationf("sent unapproved", "%s arrived at %s, before its approval at %s", c, a.at, c.ApprovedAt)
		case !c.Gated && c.Skill != "direct":
			s.reportViolationf("sent unapproved", "%s arrived, and nobody was asked", c)
		case a.arguments != c.Arguments:
			s.reportViolationf("sent unapproved", "%s arrived with other arguments: %s", c, a.arguments)
		case c.Skill == "changing" && a.path != s.urls[c.Revision]:
			s.reportViolationf("sent unapproved", "%s arrived at %s, approved was %s", c, a.path, s.urls[c.Revision])
		}
		if c.Status != "succeeded" && c.Status != "unknown" && c.Effect != "possible" {
			s.reportViolationf("told never sent", "%s arrived, and its effect is %q", c, c.Effect)
		}
	}
	if c.Status == "succeeded" && len(arrivals) == 0 {
		s.reportViolationf("lost", "%s never arrived", c)
	}
}

// checkTold compares the call with the answers to its client and its reviewers.
func (s *torture) checkTold(c tortured) {
	for t := range s.told[c.ID] {
		if t.status != c.Status || t.effect != c.Effect {
			s.reportViolationf("told wrong", "%s with effect %q: its client was told %s with effect %q", c, c.Effect, t.status, t.effect)
		}
	}
	for outcome := range s.decided[c.ID] {
		if outcome != c.Approval {
			s.reportViolationf("decisions lost", "%s: a reviewer was told that it is %s; it is %s", c, outcome, c.Approval)
		}
	}
}

// auditOf returns the expected actions of a call that ended in this way.
func auditOf(c tortured) *regexp.Regexp {
	const claims = `(call\.executing call\.given_back )*`
	story := `call\.allowed call\.` + c.Status
	switch {
	case c.Status == "rejected":
		story = `call\.parked approval\.rejected`
	case c.Gated && (c.Status == "succeeded" || c.Status == "unknown"):
		story = `call\.parked approval\.approved ` + claims + `call\.executing call\.` + c.Status
	case c.Gated: // a difference from the approval is found before the claim, or after the call was released
		story = `call\.parked approval\.approved ` + claims + `(call\.executing )?call\.` + c.Status
	}
	if c.Late > 0 {
		story += ` call\.late_outcome`
	}
	return regexp.MustCompile("^" + story + "$")
}

// violationKinds lists all checks, in the order of the table.
func violationKinds() []string {
	return []string{
		"sent twice", "sent unapproved", "told never sent", "lost", "results dropped", "decisions lost", "told wrong", "audit differs",
		"not recovered",
	}
}

// printTable prints the actions and their results.
func (s *torture) printTable(calls map[string]tortured, duration time.Duration) {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	outcomes, arrived, large := map[string]int{}, 0, 0
	for _, c := range calls {
		outcome := c.Status
		if c.Code != "" && c.Code != c.Status {
			outcome += " (" + c.Code + ")"
		}
		outcomes[outcome]++
		for _, a := range s.arrivals[c.ID] {
			arrived++
			if a.large {
				large++
			}
		}
	}
	fmt.Fprintf(table, "TORTURE of %s\t\n\nFAULT\tTIMES\n", duration)
	for _, kind := range sortedKeys(s.faults) {
		fmt.Fprintf(table, "%s\t%d\n", kind, s.faults[kind])
	}
	fmt.Fprint(table, "\nCALL\tCALLS\n")
	for _, outcome := range sortedKeys(outcomes) {
		fmt.Fprintf(table, "%s\t%d\n", outcome, outcomes[outcome])
	}
	fmt.Fprintf(table, "all\t%d\narrived at their server\t%d\nwith a result of 14 MiB\t%d\ndecisions answered\t%d\nrevisions of a skill\t%d\n",
		len(calls), arrived, large, s.decisions, len(s.urls))
	fmt.Fprint(table, "\nVIOLATION\tTIMES\n")
	for _, kind := range violationKinds() {
		fmt.Fprintf(table, "%s\t%d\n", kind, len(s.violations[kind]))
	}
	fmt.Fprint(table, "\nPROCESS\tIN ORDER AFTER\n")
	for i, name := range processNames {
		fmt.Fprintf(table, "%s\t%s\n", name, s.recovered[i].Round(10*time.Millisecond))
	}
	_ = table.Flush() // writing to a builder cannot fail
	fmt.Fprintln(os.Stdout, b.String())
}
