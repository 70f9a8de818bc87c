package ui

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func presentCall(s *subject, who identity.Access, f format, how shown) view.Call {
	c := &s.call
	v := view.Call{
		ID: c.ID.String(), URL: callURL(c.ID), Phase: string(c.Status), Live: !c.Status.Final(), State: s.state(),
		Status: statusBadge(c.Status), Risk: s.risk.badge, Notice: how.notice,
		Sentence:  sentence(c, s.names),
		Arguments: presentArguments(s, f, how.reveal),
		Files:     presentFiles(c),
		Outcome:   presentOutcome(s),
		Timing:    presentTiming(c.Measures),
		Facts:     facts(s),
	}
	if s.definition != nil {
		v.Tool = presentTool(*s.definition)
	}
	if s.approval != nil {
		v.Digest = s.approval.Digest.String()
		if v.Decision = presentDecision(*s.approval, s.names); v.Decision != nil {
			v.Decision.Who = s.who(s.approval.DecidedBy)
		}
		if s.approval.Status == approval.Pending {
			left := countdown(s.approval.Deadline, s.pulse.Now)
			v.Countdown = &left
			v.Warnings = warnings(s, v.Arguments)
			if s.accepted != nil {
				v.Accepted = presentTool(*s.accepted)
			}
			if s.offered != nil {
				v.Offered = presentTool(*s.offered)
			}
		}
	}
	v.Sentence.PrincipalWho = s.who(c.PrincipalID)
	v.Actions = actions(s, who, v.Arguments, how)
	v.Actions.MayRestore = s.editWaits() && !s.edited
	v.MayCancel = s.mayCancel(who)
	v.Resolve = c.Status == call.Unknown && c.Resolution == nil && who.Has(identity.Operator)
	return v
}

// presentFiles are what was attached when the call was made. One that a reviewer left out is named no more in what is sent.
func presentFiles(c *call.Call) []view.File {
	list := make([]view.File, 0, len(c.Files))
	for i := range c.Files {
		f := &c.Files[i]
		id := []byte(f.FileID.String())
		list = append(list, view.File{
			Name: f.Filename, Type: f.ContentType, Bytes: int(f.Size), SHA256: hex.EncodeToString(f.SHA256[:]),
			URL: callURL(c.ID) + "/files/" + f.FileID.String(), Dropped: bytes.Contains(c.Submitted, id) && !bytes.Contains(c.Arguments, id),
		})
	}
	return list
}

func verb(status call.Status) string {
	switch status {
	case call.Parked, call.NeedsConnection:
		return "wants"
	case call.Approved, call.Executing, call.Succeeded, call.Failed, call.Unknown:
		return "called"
	default: // it ended unsent
		return "wanted"
	}
}

// actions are what the person may do. Approving is never offered for what was
// not shown.
func actions(s *subject, who identity.Access, arguments view.Arguments, how shown) view.Actions {
	if how.question > 0 {
		how.draft, how.err = "", ""
	}
	a := view.Actions{Draft: how.draft, Error: how.err, Full: arguments.Full, Format: arguments.Format, Presets: presets()}
	if s.approval == nil || s.approval.Status != approval.Pending {
		return a
	}
	why, ok := s.mayDecide(who)
	switch {
	case !ok:
		a.Why = why
	case s.ownEdit && !s.edited:
		a.Kind, a.Why = view.ActionOwnEdit, "You wrote this edit, so another reviewer has to approve it."
		if !s.wrote {
			a.Why = "Nobody verified that you and the editor are two people, so another reviewer has to approve this edit."
		}
	case s.proposing:
		a.Kind = view.ActionDecide
	case arguments.Withheld > 0:
		a.Kind = view.ActionReveal
	case arguments.Folded:
		a.Kind = view.ActionShowAll
	case !s.risk.twice:
		a.Kind = view.ActionDecide
	case how.confirm:
		a.Kind = view.ActionConfirm
		if how.prove {
			a.ProveURL = login.ProveURL("/")
		}
		a.Question = s.risk.badge.Word + ": really approve?"
		target := hostile.Decisive(s.call.Arguments, rowArguments, s.brief())
		a.Target, a.MoreTarget = target.List, target.More
	default:
		a.Kind = view.ActionStep
	}
	return a
}

// warnings are what must be known before deciding, in plain words.
func warnings(s *subject, arguments view.Arguments) []view.Notice {
	var list []view.Notice
	add := func(level view.Level, title, text string) {
		list = append(list, view.Notice{Level: level, Title: title, Text: text})
	}
	switch s.approval.Rule {
	case approval.RuleHighRisk:
		add(view.Warn, "High risk.", "An operator marked this tool, so that every call of it is looked at.")
	case approval.RuleDefinitionChanged:
		add(view.Danger, "The tool changed.", "Its server began to describe it differently "+ago(s.changed, s.pulse.Now)+
			", and no operator accepted that yet. Compare the two descriptions below.")
	case approval.RuleNewTool:
		add(view.Warn, "New tool.", "Its server began to offer it after the skill was set up, and no operator accepted it yet.")
	case approval.RuleGated:
	case approval.RuleAutoApproved, approval.RuleDisabled, approval.RuleToolGone, approval.RuleRefused: // these park nothing
	}
	if !s.current {
		add(view.Warn, "Changed since.", "The server does not offer the tool as it was when this call was made. "+
			"While that is so the call cannot be approved: it would not be sent.")
	}
	if found := arguments.Findings; found.Hidden > 0 || found.Suspect > 0 {
		add(view.Danger, "Look closely.", findingWords(found))
	}
	if arguments.Withheld > 0 {
		title := "More is hidden than a secret."
		if s.unseen {
			title = "The request is hidden."
		}
		add(view.Danger, title, s.withheldWords(arguments.Withheld)+" Have it shown before you approve, which is recorded.")
	}
	return list
}

func (s *subject) withheldWords(n int) string {
	if s.unseen {
		return "Secrets among the arguments are hidden, and with them the very request: a value that is called a secret may change more of it than that value."
	}
	if n == 1 {
		return "A value whose name, or the tool’s schema, says secret is long, has several lines or is part of something larger: it may be what the call really does."
	}
	return fmt.Sprintf("%d values whose names, or the tool’s schema, say secret are long, have several lines or are parts of something larger: "+
		"they may be what the call really does.", n)
}

func findingWords(f hostile.Findings) string {
	var words []string
	switch {
	case f.Hidden == 1:
		words = append(words, "The arguments hold a hidden character; it is shown as a chip like U+202E.")
	case f.Hidden > 1:
		words = append(words, fmt.Sprintf("The arguments hold %d hidden characters; each is shown as a chip like U+202E.", f.Hidden))
	}
	switch {
	case f.Suspect == 1:
		words = append(words, "One word may not be what it looks like; it is underlined.")
	case f.Suspect > 1:
		words = append(words, fmt.Sprintf("%d words may not be what they look like; they are underlined.", f.Suspect))
	}
	return strings.Join(words, " ")
}

// pinShown is how much of a pin tells two definitions apart at a glance; the details have all of it.
const pinShown = 16

func presentTool(d tool.Definition) *view.Tool {
	t := view.Tool{Title: d.Title, Hints: hints(d), Pin: d.Pin().String()[:pinShown]}
	if d.Description != "" {
		t.Description = folded([]byte(d.Description))
	}
	if schema, err := hostile.ReadPretty(d.InputSchema, hostile.Folded()); err == nil {
		t.Schema = &schema
	} else {
		raw := hostile.Fold(string(d.InputSchema), hostile.Folded())
		t.SchemaRaw = &raw
	}
	return &t
}

// printable is text for the title of a window, where no chip can stand.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !plain.IsVisible(r) {
			return '�'
		}
		return r
	}, text)
}

func facts(s *subject) []view.Fact {
	c := &s.call
	list := []view.Fact{
		{Name: "Call", Text: c.ID.String(), Code: true},
		{Name: "Agent", Text: c.Agent + " (" + c.AgentID.String() + ")"},
	}
	if c.PrincipalID != uuid.Nil {
		list = append(list, view.Fact{Name: "On behalf of", Text: personName(c.PrincipalID, s.names) + " (" + c.PrincipalID.String() + ")"})
	}
	list = append(list,
		view.Fact{Name: "Skill", Text: fmt.Sprintf("%s (%s), revision %d", c.Skill, c.SkillID, c.SkillRevision)},
		view.Fact{Name: "Called as", Text: c.ExposedName, Code: true},
		view.Fact{Name: "Tool pin", Text: c.Pin.String(), Code: true},
	)
	if s.secrets().Count(c.Arguments) == 0 { // else whoever knows the rest could try what is hidden
		sum := sha256.Sum256(c.Arguments)
		list = append(list, view.Fact{Name: "Arguments, SHA-256", Text: hex.EncodeToString(sum[:]), Code: true})
	}
	list = append(list, view.Fact{Name: "Made", Time: &c.CreatedAt})
	if c.ConversationID != uuid.Nil {
		list = append(list, view.Fact{Name: "Conversation", Text: c.ConversationID.String(), URL: conversationURL(c.ConversationID), Act: "conversation"})
	}
	if s.approval != nil {
		list = append(list,
			view.Fact{Name: "Why it waits", Text: ruleWords(s.approval.Rule)},
			view.Fact{Name: "Deadline", Time: &s.approval.Deadline},
			view.Fact{Name: "Approval valid until", Time: s.approval.ApprovedUntil},
			view.Fact{Name: "Digest", Text: s.approval.Digest.String(), Code: true},
		)
	}
	if c.FinishedAt != nil {
		list = append(list, view.Fact{Name: "Ended", Time: c.FinishedAt})
	}
	if c.DeliveredAt != nil {
		list = append(list, view.Fact{Name: "Told the agent", Time: c.DeliveredAt})
	}
	return list
}

func ruleWords(rule approval.Rule) string {
	switch rule {
	case approval.RuleGated:
		return "calls of this skill need an approval"
	case approval.RuleHighRisk:
		return "an operator marked the tool as high risk"
	case approval.RuleDefinitionChanged:
		return "the tool's definition changed"
	case approval.RuleNewTool:
		return "the tool is new"
	case approval.RuleAutoApproved, approval.RuleDisabled, approval.RuleToolGone, approval.RuleRefused: // these park nothing
	}
	return string(rule)
}
