// Package present turns domain values into texts, badges, URLs and view models that several audiences use.
// It reads no service but the risk of a tool.
package present

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// LastSent returns the fact about the last sent message.
func LastSent(at *time.Time) view.Fact {
	if at == nil {
		return view.Fact{Name: text.CallLastMessage(), Text: text.CallNoMessage()}
	}
	return view.Fact{Name: text.CallLastMessage(), Time: at}
}

// DisplayNames returns the names of people, with issuer and subject where they are not local.
func DisplayNames(people map[uuid.UUID]identity.Person) map[uuid.UUID]string {
	names := make(map[uuid.UUID]string, len(people))
	for id, person := range people {
		names[id] = person.Name
		if person.Issuer != identity.LocalIssuer || person.Subject != person.Name {
			names[id] += " (" + person.Subject + " at " + person.Issuer + ")"
		}
	}
	return names
}

// RowArguments is the number of arguments in the row of a call.
const RowArguments = 3

const urgent = time.Minute

// Countdown presents the time until a deadline.
func Countdown(deadline, now time.Time) view.Countdown {
	left := deadline.Sub(now)
	return view.Countdown{Deadline: deadline, Text: FormatDuration(left), Urgent: left < urgent}
}

// FormatAge returns how long ago something happened.
func FormatAge(since, now time.Time) text.Message {
	return text.MeasureAgo(FormatDuration(max(now.Sub(since), time.Second)))
}

// ShortID returns the end of an ID, which is random, to distinguish objects of the same name. It returns "" for uuid.Nil.
func ShortID(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	s := id.String()
	return "…" + s[len(s)-8:]
}

// Decision presents the decision on an approval, or nil if it is pending.
func Decision(a approval.Approval, names map[uuid.UUID]string) *view.Decision {
	d := view.Decision{Note: a.Note, By: PersonName(a.DecidedBy, names), Via: DescribeOrigin(a.DecidedVia)}
	switch a.Status {
	case approval.Pending:
		return nil
	case approval.Approved:
		d.Word, d.Level = text.CallStatusApproved(), view.Good
	case approval.Rejected:
		d.Word, d.Level = text.CallStatusRejected(), view.Danger
	case approval.Expired:
		d.Word, d.Level = text.CallStatusExpired(), view.Quiet
	case approval.Cancelled:
		d.Word, d.Level = text.CallStatusCancelled(), view.Quiet
	}
	d.At = a.Deadline
	if a.DecidedAt != nil {
		d.At = *a.DecidedAt
	}
	return &d
}

// PersonName returns the name of a person, or the ID if the name is unknown, or "" for uuid.Nil.
func PersonName(id uuid.UUID, names map[uuid.UUID]string) string {
	if id == uuid.Nil {
		return ""
	}
	if name := names[id]; name != "" {
		return name
	}
	return id.String()
}

// StatusBadge returns the badge of a call's status.
func StatusBadge(s call.Status) view.Badge {
	switch s {
	case call.Parked:
		return view.Badge{Word: text.CallStatusWaiting(), Icon: "expired", Level: view.Info}
	case call.NeedsConnection:
		return view.Badge{Word: text.CallStatusNeedsConnection(), Icon: "stale", Level: view.Warn}
	case call.Approved:
		return view.Badge{Word: text.CallStatusApproved(), Icon: "running", Level: view.Info}
	case call.Executing:
		return view.Badge{Word: text.CallStatusRunning(), Icon: "running", Level: view.Info}
	case call.Succeeded:
		return view.Badge{Word: text.CallStatusDone(), Icon: "good", Level: view.Good}
	case call.Failed:
		return view.Badge{Word: text.CallStatusFailed(), Icon: "failed", Level: view.Danger}
	case call.Rejected:
		return view.Badge{Word: text.CallStatusRejected(), Icon: "rejected", Level: view.Quiet}
	case call.Expired:
		return view.Badge{Word: text.CallStatusExpired(), Icon: "expired", Level: view.Quiet}
	case call.Cancelled:
		return view.Badge{Word: text.CallStatusCancelled(), Icon: "rejected", Level: view.Quiet}
	case call.Denied:
		return view.Badge{Word: text.CallStatusDenied(), Icon: "rejected", Level: view.Warn}
	case call.Invalid:
		return view.Badge{Word: text.CallStatusInvalid(), Icon: "failed", Level: view.Quiet}
	case call.Unknown:
		return view.Badge{Word: text.CallStatusUnknown(), Icon: "unknown", Level: view.Warn}
	}
	return view.Badge{Word: text.Literal(string(s)), Icon: "info", Level: view.Quiet}
}

// DescribeRule says why a call needs a decision.
func DescribeRule(rule approval.Rule) text.Message {
	switch rule {
	case approval.RuleGated:
		return text.CallRuleGated()
	case approval.RuleHighRisk:
		return text.CallRuleHighRisk()
	case approval.RuleDefinitionChanged:
		return text.CallRuleDefinitionChanged()
	case approval.RuleNewTool:
		return text.CallRuleNewTool()
	case approval.RuleParked:
		return text.CallRuleParked()
	case approval.RuleFailed:
		return text.CallRuleFailed()
	case approval.RuleAutoApproved, approval.RuleDisabled, approval.RuleToolGone, approval.RuleRefused, approval.RuleDenied, approval.RuleAllowed: // these park no calls
	}
	return text.Literal(string(rule))
}

// RoleList lists roles. Without one, it is the zero value.
func RoleList(roles []identity.Role) text.Message {
	list := make([]text.Message, len(roles))
	for i, role := range roles {
		switch role {
		case identity.Reviewer:
			list[i] = text.MemberReviewer()
		case identity.Operator:
			list[i] = text.MemberOperator()
		default:
			list[i] = text.Literal(string(role))
		}
	}
	return text.Join(", ", list...)
}

// Beside returns the limits of the text beside a call that needs a decision.
func Beside() hostile.Limits {
	l := hostile.Folded()
	l.Lines, l.Runes, l.HeadLines, l.HeadRunes, l.TailLines, l.TailRunes = 12, 900, 7, 600, 3, 200
	return l
}

// DescribeQuestion describes a question by the server of a call.
func DescribeQuestion(q *call.AskedQuestion) text.Message {
	switch {
	case q.IsURL():
		return text.CallAsksForURL()
	case q.Method == "elicitation/create":
		return text.CallAsksForInput()
	case q.Method == "sampling/createMessage":
		return text.CallAsksModel()
	case q.Method == "roots/list":
		return text.CallAsksForRoots()
	}
	return text.CallAsksSomething()
}

// ToolsWords counts the assigned tools of a skill.
func ToolsWords(only []string) text.Message {
	if only == nil {
		return text.AssignmentAllTools()
	}
	return text.AssignmentSomeTools(len(only))
}

// OptionalDurationWords returns "" for no duration.
func OptionalDurationWords(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return DurationWords(d)
}

// DurationWords writes a duration as in settings: "5m", not "5m0s".
func DurationWords(d time.Duration) string {
	return agent.Duration(d).String()
}

// descriptionShown bounds the beginning of a description in a list, in bytes.
const descriptionShown = 160

// Beginning returns the first line of a text, bounded.
func Beginning(value string) string {
	line, _, more := strings.Cut(strings.TrimSpace(value), "\n")
	if len(line) > descriptionShown {
		line, more = strings.ToValidUTF8(line[:descriptionShown], ""), true
	}
	if more {
		line += " …"
	}
	return line
}

// DescribeOrigin returns the credential and the address of an actor, or no text if they are unknown.
func DescribeOrigin(o audit.Origin) text.Message {
	var credential, address text.Message
	if kind := nameCredential(o.Credential.Kind); !kind.IsZero() {
		credential = text.OriginCredential(kind)
		if o.Credential.ID != "" {
			credential = text.OriginCredentialID(kind, view.Printable(o.Credential.ID))
		}
	}
	if o.Address != "" {
		address = text.OriginAddress(o.Address)
	}
	return text.Join(" ", credential, address)
}

func nameCredential(kind string) text.Message {
	switch kind {
	case audit.PersonalToken:
		return text.OriginPersonalToken()
	case audit.BootstrapToken:
		return text.OriginBootstrapToken()
	case audit.BrowserSession:
		return text.OriginBrowserSession()
	case audit.AgentKey:
		return text.OriginAgentKey()
	case audit.AccessToken:
		return text.OriginAccessToken()
	case audit.Invitation:
		return text.OriginInvitation()
	case audit.SignInLink:
		return text.OriginSignInLink()
	}
	return text.Message{}
}

// StepNames names the teams and people of a step of an escalation.
func StepNames(s approval.EscalationStep) string {
	return strings.Join(slices.Concat(s.Teams, s.People), ", ")
}

// EscalationNames names the teams and people that calls are escalated to, in the order of the steps.
func EscalationNames(escalateTo string, steps []approval.EscalationStep) string {
	if len(steps) == 0 {
		return escalateTo
	}
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = StepNames(s)
	}
	return strings.Join(names, "; ")
}

// DescribeShortage says which line of a policy too few people can meet, and what to do.
func DescribeShortage(one *policy.Shortage) text.Message {
	return text.VotesShortage(one.Policy, view.Printable(one.Line.String()), one.Able)
}
