package review

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/a-h/templ"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/typed"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/evidence"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

func presentCall(s *subject, who identity.Access, f format, how shown) Call {
	c := &s.call
	v := Call{
		ID: c.ID.String(), URL: present.CallURL(c.ID), Phase: string(c.Status), Live: !c.Status.Final(), State: s.hashState(),
		Status: present.StatusBadge(c.Status), Risk: s.risk.Badge, Notice: how.notice,
		Sentence:  presentSentence(c, s.names),
		Arguments: presentArguments(s, f, how.reveal),
		Native:    presentNative(s, f, how.reveal),
		Files:     presentFiles(c),
		Outcome:   presentOutcome(s),
		Timing:    presentTiming(c.Measures),
		Rules:     presentRules(c.Rules, s.conditions),
		Facts:     listFacts(s),
	}
	if s.definition != nil {
		v.Tool = present.Tool(*s.definition)
	}
	if s.approval != nil {
		v.Digest = s.approval.Digest.String()
		if v.Decision = present.Decision(*s.approval, s.names); v.Decision != nil {
			v.Decision.Who = s.identifyPerson(s.approval.DecidedBy)
		}
		if u := s.approval.UndoUntil; u != nil && u.After(s.now) && c.Status == call.Approved && s.approval.DecidedBy == who.Person.ID {
			left := present.Countdown(*u, s.now)
			v.Undo = &left
		}
		if s.approval.Status == approval.Pending {
			left := present.Countdown(s.approval.Deadline, s.now)
			v.Countdown = &left
			v.Warnings = listWarnings(s, v.Arguments)
			if s.accepted != nil {
				v.Accepted = present.Tool(*s.accepted)
			}
			if s.offered != nil {
				v.Offered = present.Tool(*s.offered)
			}
		}
	}
	v.Sentence.PrincipalWho = s.identifyPerson(c.PrincipalID)
	v.Actions = presentActions(s, who, v.Arguments, how)
	v.Actions.MayEdit = !c.GateOnly // its caller executes the arguments that it has
	v.Actions.MayRestore = s.editWaits() && !s.edited
	v.MayCancel = s.mayCancel(who)
	v.Resolve = c.Status == call.Unknown && c.Resolution == nil && who.Has(identity.Operator)
	return v
}

// presentFiles presents the files that were attached when the call was made. A reviewer's edit may have left some out.
func presentFiles(c *call.Call) []view.File {
	list := make([]view.File, 0, len(c.Files))
	for i := range c.Files {
		f := &c.Files[i]
		id := []byte(f.FileID.String())
		list = append(list, view.File{
			Name: f.Filename, Type: f.ContentType, Bytes: int(f.Size), SHA256: hex.EncodeToString(f.SHA256[:]),
			URL: present.CallURL(c.ID) + "/files/" + f.FileID.String(), Deleted: f.IsDeleted(), Dropped: bytes.Contains(c.Submitted, id) && !bytes.Contains(c.Arguments, id),
		})
	}
	return list
}

// sentenceForm returns the text that says which agent calls which tool.
func sentenceForm(status call.Status) func(agent, tool templ.Component) templ.Component {
	switch status {
	case call.Parked, call.NeedsConnection:
		return text.ReviewWants
	case call.Approved, call.Executing, call.Succeeded, call.Failed, call.Unknown:
		return text.ReviewCalled
	default: // it ended without being sent
		return text.ReviewWanted
	}
}

// presentActions returns the person's options. Approving is never offered for a call that was not shown completely.
func presentActions(s *subject, who identity.Access, arguments Arguments, how shown) Actions {
	if how.question > 0 || how.glass {
		how.draft, how.err, how.confirm = "", text.Message{}, how.confirm && !how.glass
	}
	a := Actions{Draft: how.draft, Error: how.err, Full: arguments.Full, Format: arguments.Format, Presets: listPresets()}
	if !s.isPending() {
		return a
	}
	a.Ballot = s.presentBallot()
	why, ok := s.mayDecide(who)
	switch {
	case !ok:
		a.Why = why
	case s.ownEdit && !s.edited:
		a.Kind, a.Why = ActionOwnEdit, text.ReviewOwnEdit()
		if !s.wrote {
			a.Why = text.ReviewEditorUnverified()
		}
	case s.proposing:
		a.Kind = ActionDecide
	case s.hasPolicies() && !s.edited && s.ownVote() != nil:
		a.Kind = ActionVoted
	case s.hasPolicies() && !s.isAsked():
		a.Kind, a.Why = ActionUnasked, text.VotesNotAsked()
	case arguments.Withheld:
		a.Kind = ActionReveal
	case arguments.Folded:
		a.Kind = ActionShowAll
	case !s.risk.Twice && !arguments.Alarming:
		a.Kind = ActionDecide
	case how.confirm:
		a.Kind = ActionConfirm
		if how.prove {
			a.ProveURL = login.ProveURL("/")
		}
		a.Question = text.ReviewReallyApprove(s.risk.Badge.Word)
		if arguments.Alarming {
			a.Question = text.ReviewReallyApprove(text.ReviewRedWarning())
		}
		a.Target, a.MoreTarget = s.chooseTarget()
	default:
		a.Kind = ActionStep
	}
	return a
}

// listWarnings returns the notices that a reviewer has to read before deciding.
func listWarnings(s *subject, arguments Arguments) []view.Notice {
	var list []view.Notice
	add := func(level view.Level, title, words text.Message) {
		list = append(list, view.Notice{Level: level, Title: title, Text: words})
	}
	if c := &s.call; c.GateOnly {
		words := text.GateHelpUnknown()
		if host := present.ExecutedBy(c); host != "" {
			words = text.GateHelp(host)
		}
		add(view.Info, text.GateTitle(), words)
	}
	switch s.approval.Rule {
	case approval.RuleHighRisk:
		add(view.Warn, text.ReviewHighRisk(), text.ReviewHighRiskHelp())
	case approval.RuleDefinitionChanged:
		add(view.Danger, text.ReviewToolChanged(), text.ReviewToolChangedHelp(present.FormatAge(s.changed, s.now)))
	case approval.RuleNewTool:
		add(view.Warn, text.ReviewNewTool(), text.ReviewNewToolHelp())
	case approval.RuleFailed:
		add(view.Warn, text.ReviewRuleFailed(), text.ReviewRuleFailedHelp())
	case approval.RuleGated, approval.RuleParked:
	case approval.RuleAutoApproved, approval.RuleDisabled, approval.RuleToolGone, approval.RuleRefused, approval.RuleDenied, approval.RuleAllowed: // these park no calls
	}
	if !s.current {
		add(view.Warn, text.ReviewChangedSince(), text.ReviewChangedSinceHelp())
	}
	if found := arguments.Findings; found.IsAlarming() {
		add(view.Danger, text.ReviewLookClosely(), describeFindings(found))
	}
	if arguments.Withheld {
		title := text.ReviewValuesHidden()
		if s.unseen {
			title = text.ReviewRequestHidden()
		}
		add(view.Info, title, s.describeWithheld())
	}
	return list
}

// describeWithheld says that hidden values have to be revealed before an approval.
func (s *subject) describeWithheld() text.Message {
	first := text.ReviewRevealBefore(s.hidden)
	if s.unseen {
		return text.Join(" ", text.ReviewRequestHiddenHelp(), first)
	}
	return first
}

func describeFindings(f hostile.Findings) text.Message {
	var found []text.Message
	if f.Hidden > 0 {
		found = append(found, text.ReviewHiddenCharacters(f.Hidden))
	}
	if f.Suspect > 0 {
		found = append(found, text.ReviewLookAlikes(f.Suspect))
	}
	return text.Join(" ", found...)
}

func listFacts(s *subject) []view.Fact {
	c := &s.call
	list := []view.Fact{
		{Name: text.ReviewFactCall(), Text: text.Literal(c.ID.String()), Code: true},
		{Name: text.ReviewFactAgent(), Text: text.ReviewFactNameWithID(c.Agent, c.AgentID.String())},
	}
	if c.PrincipalID != uuid.Nil {
		list = append(list, view.Fact{Name: text.ReviewFactOnBehalfOf(), Text: text.ReviewFactNameWithID(present.PersonName(c.PrincipalID, s.names), c.PrincipalID.String())})
	}
	list = append(list,
		view.Fact{Name: text.ReviewFactSkill(), Text: text.ReviewFactSkillRevision(c.Skill, c.SkillID.String(), strconv.FormatInt(c.SkillRevision, 10))},
		view.Fact{Name: text.ReviewFactCalledAs(), Text: text.Literal(c.ExposedName), Code: true},
		view.Fact{Name: text.ReviewFactToolPin(), Text: text.Literal(c.Pin.String()), Code: true},
	)
	if c.ContentDeletedAt != nil {
		list = append(list, view.Fact{Name: text.ReviewFactContentDeleted(), Time: c.ContentDeletedAt})
	} else if s.secrets.Count(c.Arguments) == 0 { // otherwise it would help to guess the hidden values
		sum := sha256.Sum256(c.Arguments)
		list = append(list, view.Fact{Name: text.ReviewFactArguments(), Text: text.Literal(hex.EncodeToString(sum[:])), Code: true})
	}
	list = append(list, view.Fact{Name: text.ReviewFactMade(), Time: &c.CreatedAt})
	list = append(list, listGateFacts(c)...)
	if c.ConversationID != uuid.Nil {
		list = append(list, view.Fact{Name: text.ReviewFactConversation(), Text: text.Literal(c.ConversationID.String()), URL: present.ConversationURL(c.ConversationID), Act: text.Literal("conversation")})
	}
	if s.approval != nil {
		list = append(list,
			view.Fact{Name: text.ReviewFactReason(), Text: present.DescribeRule(s.approval.Rule)},
			view.Fact{Name: text.ReviewFactDeadline(), Time: &s.approval.Deadline},
			view.Fact{Name: text.ReviewFactApprovedUntil(), Time: s.approval.ApprovedUntil},
			view.Fact{Name: text.ReviewFactDigest(), Text: text.Literal(s.approval.Digest.String()), Code: true},
		)
	}
	if c.FinishedAt != nil {
		list = append(list, view.Fact{Name: text.ReviewFactEnded(), Time: c.FinishedAt})
	}
	if c.DeliveredAt != nil {
		list = append(list, view.Fact{Name: text.ReviewFactDelivered(), Time: c.DeliveredAt})
	}
	return list
}

// listGateFacts returns what the caller of a gate-only call says about itself.
func listGateFacts(c *call.Call) []view.Fact {
	if !c.GateOnly {
		return nil
	}
	by := view.Fact{Name: text.GateFactHost(), Text: text.GateFactCaller()}
	if host := present.ExecutedBy(c); host != "" {
		by.Text = text.Literal(host)
	}
	list, origin := []view.Fact{by}, c.GateOrigin()
	subject := origin.Subject
	if subject == nil {
		subject = &call.GateSubject{}
	}
	for _, f := range []struct {
		name  text.Message
		value string
	}{
		{text.GateFactSubject(), strings.TrimSpace(subject.ID + " " + subject.Email)},
		{text.GateFactDirectory(), c.Binding().Directory},
		{text.GateFactSession(), origin.Session},
		{text.GateFactSubagent(), origin.Subagent},
		{text.GateFactVersion(), origin.Version},
	} {
		if f.value != "" {
			list = append(list, view.Fact{Name: f.name, Text: text.Literal(plain.Visible(f.value, maxGateFact)), Code: true})
		}
	}
	return list
}

const maxGateFact = 1000

// longTarget is the number of characters of the longest value that the second step repeats. Longer ones are read above it.
const longTarget = 300

// maxTarget is the number of arguments that the second step repeats at most, and maxRanked that of those it chooses from.
const (
	maxTarget = 10
	maxRanked = 100
)

// chooseTarget returns the arguments that the second step repeats, and the number of others: those with a red warning and the unusual ones first, then
// those that reveal most about the effect. Nothing is cut, because the reviewer confirms whole values.
func (s *subject) chooseTarget() (list []hostile.Field, more int) {
	found := hostile.Decisive(s.call.Arguments, maxRanked, hostile.Limits{Secrets: s.secrets})
	values := typed.RecognizeDocument(s.call.Arguments)
	ranks, odd := make(map[string]int, len(found.List)), 0
	for _, f := range found.List {
		entries := slices.DeleteFunc(slices.Clone(s.evidence), func(e evidence.Entry) bool { return e.Path != f.Pointer })
		switch {
		case isAlarming(map[string]typed.Value{f.Pointer: values[f.Pointer]}, entries):
			ranks[f.Pointer] = rankAlarming
		case evidence.CountUnusual(entries) > 0:
			ranks[f.Pointer] = rankUnusual
		default:
			ranks[f.Pointer] = rankUsual
			continue
		}
		odd++
	}
	slices.SortStableFunc(found.List, func(a, b hostile.Field) int { return ranks[a.Pointer] - ranks[b.Pointer] })
	n := min(len(found.List), max(present.RowArguments, min(odd, maxTarget)))
	return dropLong(found.List[:n]), found.More + len(found.List) - n
}

// dropLong returns the fields that the second step can repeat as a whole.
func dropLong(list []hostile.Field) []hostile.Field {
	return slices.DeleteFunc(list, func(f hostile.Field) bool {
		n := 0
		for _, p := range f.Value.Head {
			n += utf8.RuneCountInString(p.Text)
		}
		return n > longTarget
	})
}
