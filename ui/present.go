package ui

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func callURL(id uuid.UUID) string { return "/calls/" + id.String() }

const rowArguments = 3

func presentRow(w *call.Waiting, d tool.Definition, risk risk, principal string, now time.Time) view.Row {
	c := &w.Call
	fields := hostile.Decisive(c.Arguments, rowArguments, briefOf(d))
	row := view.Row{
		ID: c.ID.String(), URL: callURL(c.ID), Digest: w.Approval.Digest.String(),
		Skill: c.Skill, Tool: c.Tool, Agent: c.Agent, Principal: principal,
		Risk: risk.badge, Decisive: fields.List, MoreArgs: fields.More,
		Countdown: countdown(w.Approval.Deadline, now), Team: w.Approval.Team,
	}
	if w.Approval.EscalatedAt != nil {
		row.Team = w.Approval.EscalateTo
		row.Warnings = append(row.Warnings, view.Badge{Word: "escalated", Icon: "bell", Level: view.Warn})
	}
	if c.PrincipalID != uuid.Nil && principal == "" {
		row.Principal = c.PrincipalID.String()
	}
	switch w.Approval.Rule {
	case approval.RuleDefinitionChanged:
		row.Warnings = append(row.Warnings, view.Badge{Word: "tool changed", Icon: "changed", Level: view.Danger})
	case approval.RuleNewTool:
		row.Warnings = append(row.Warnings, view.Badge{Word: "new tool", Icon: "new", Level: view.Warn})
	case approval.RuleGated, approval.RuleHighRisk: // the row's badge says so
	case approval.RuleAutoApproved, approval.RuleDisabled, approval.RuleToolGone, approval.RuleRefused: // these park nothing
	}
	if w.Approval.EditedBy != uuid.Nil {
		row.Warnings = append(row.Warnings, view.Badge{Word: "edit waits", Icon: "edit", Level: view.Info})
	}
	if c.Partial {
		row.Warnings = append(row.Warnings, view.Badge{Word: "large arguments", Icon: "hidden", Level: view.Warn})
	}
	if fields.Hidden > 0 {
		row.Warnings = append(row.Warnings, view.Badge{Word: "hidden characters", Icon: "hidden", Level: view.Danger})
	}
	if fields.Suspect > 0 {
		row.Warnings = append(row.Warnings, view.Badge{Word: "look-alike letters", Icon: "hidden", Level: view.Warn})
	}
	return row
}

const urgent = time.Minute

func countdown(deadline, now time.Time) view.Countdown {
	left := deadline.Sub(now)
	return view.Countdown{Deadline: deadline, Text: leftWords(left), Urgent: left < urgent}
}

// ago says how long something has been, in words.
func ago(since, now time.Time) string { return leftWords(max(now.Sub(since), time.Second)) + " ago" }

// shortID tells two of one name apart: ids are random at their end. Empty: nobody.
func shortID(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	text := id.String()
	return "…" + text[len(text)-8:]
}

// leftWords is written the same way by the dashboard's script.
func leftWords(left time.Duration) string {
	seconds := int((left + time.Second - 1) / time.Second)
	switch {
	case seconds <= 0:
		return "time is up"
	case seconds < 60:
		return fmt.Sprintf("%d s", seconds)
	case seconds < 3600:
		return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
	case seconds < 86400:
		return fmt.Sprintf("%d h %d min", seconds/3600, seconds%3600/60)
	}
	return fmt.Sprintf("%d d %d h", seconds/86400, seconds%86400/3600)
}

// presentDecision tells what became of an approval; nil while it waits.
func presentDecision(a approval.Approval, names map[uuid.UUID]string) *view.Decision {
	d := view.Decision{Note: a.Note, By: personName(a.DecidedBy, names), Via: originWords(a.DecidedVia)}
	switch a.Status {
	case approval.Pending:
		return nil
	case approval.Approved:
		d.Word, d.Level = "Approved", view.Good
	case approval.Rejected:
		d.Word, d.Level = "Rejected", view.Danger
	case approval.Expired:
		d.Word, d.Level = "Expired", view.Quiet
	case approval.Cancelled:
		d.Word, d.Level = "Cancelled", view.Quiet
	}
	d.At = a.Deadline
	if a.DecidedAt != nil {
		d.At = *a.DecidedAt
	}
	return &d
}

func personName(id uuid.UUID, names map[uuid.UUID]string) string {
	if id == uuid.Nil {
		return ""
	}
	if name := names[id]; name != "" {
		return name
	}
	return id.String()
}

// statusBadge says where a call stands, in a word.
func statusBadge(s call.Status) view.Badge {
	switch s {
	case call.Parked:
		return view.Badge{Word: "Waiting", Icon: "expired", Level: view.Info}
	case call.NeedsConnection:
		return view.Badge{Word: "Needs a connection", Icon: "stale", Level: view.Warn}
	case call.Approved:
		return view.Badge{Word: "Approved", Icon: "running", Level: view.Info}
	case call.Executing:
		return view.Badge{Word: "Running", Icon: "running", Level: view.Info}
	case call.Succeeded:
		return view.Badge{Word: "Done", Icon: "good", Level: view.Good}
	case call.Failed:
		return view.Badge{Word: "Failed", Icon: "failed", Level: view.Danger}
	case call.Rejected:
		return view.Badge{Word: "Rejected", Icon: "rejected", Level: view.Quiet}
	case call.Expired:
		return view.Badge{Word: "Expired", Icon: "expired", Level: view.Quiet}
	case call.Cancelled:
		return view.Badge{Word: "Cancelled", Icon: "rejected", Level: view.Quiet}
	case call.Denied:
		return view.Badge{Word: "Denied", Icon: "rejected", Level: view.Warn}
	case call.Invalid:
		return view.Badge{Word: "Invalid arguments", Icon: "failed", Level: view.Quiet}
	case call.Unknown:
		return view.Badge{Word: "Outcome unknown", Icon: "unknown", Level: view.Warn}
	}
	return view.Badge{Word: string(s), Icon: "info", Level: view.Quiet}
}
