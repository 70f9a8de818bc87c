package shell

import (
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// doneParameter names in an address the action that led there.
const doneParameter = "done"

// ChangeProposed is the value of the page of a change that was just proposed.
const ChangeProposed = "proposed"

// Done is an action whose notice any page can show. Pages whose notice depends on their object have more values of the parameter.
type Done string

// The actions.
const (
	ThemeSaved         Done = "theme-saved"
	ChoiceSaved        Done = "choice-saved"
	SessionEnded       Done = "session-ended"
	SessionsEnded      Done = "sessions-ended"
	TokenRevoked       Done = "token-revoked"
	InvitationRevoked  Done = "invitation-revoked"
	RolesSaved         Done = "roles-saved"
	PersonBlocked      Done = "blocked"
	PersonUnblocked    Done = "unblocked"
	PersonLinked       Done = "linked"
	PersonUnlinked     Done = "unlinked"
	BrowserRemoved     Done = "browser-removed"
	WebhookCreated     Done = "webhook-created"
	WebhookDeleted     Done = "webhook-deleted"
	HoldSet            Done = "hold-set"
	HoldLifted         Done = "hold-lifted"
	ViewSaved          Done = "view-saved"
	ViewDeleted        Done = "view-deleted"
	SkillDeleted       Done = "skill-deleted"
	AgentDeleted       Done = "agent-deleted"
	RuleDeleted        Done = "rule-deleted"
	PolicyDeleted      Done = "policy-deleted"
	GrantRevoked       Done = "grant-revoked"
	GrantConfirmed     Done = "grant-confirmed"
	PlanApproved       Done = "plan-approved"
	PlanRejected       Done = "plan-rejected"
	PlanRevoked        Done = "plan-revoked"
	GrantProposed      Done = "grant-proposed"
	ImportDiscarded    Done = "import-discarded"
	ConversationClosed Done = "conversation-closed"
	AbsenceSet         Done = "absence-set"
	AbsenceEnded       Done = "absence-ended"
	Delegated          Done = "delegated"
	DelegationEnded    Done = "delegation-ended"
	ScheduleSet        Done = "schedule-set"
	ScheduleFetched    Done = "schedule-fetched"
	ScheduleDeleted    Done = "schedule-deleted"
	GuardForgotten     Done = "guard-forgotten"
)

func (d Done) notice() *view.Notice {
	title, known := doneTitles()[d]
	if !known {
		return nil
	}
	n := &view.Notice{Level: view.Good, Title: title}
	if d == WebhookDeleted {
		n.Text = text.WebhookDeletedMeaning()
	}
	if d == GrantProposed {
		n.Level, n.Text = view.Info, text.GrantsDoneProposedNext()
	}
	return n
}

func doneTitles() map[Done]text.Message {
	return map[Done]text.Message{
		ThemeSaved:         text.DoneThemeSaved(),
		ChoiceSaved:        text.DoneChoiceSaved(),
		SessionEnded:       text.DoneSessionEnded(),
		SessionsEnded:      text.DoneSessionsEnded(),
		TokenRevoked:       text.DoneTokenRevoked(),
		InvitationRevoked:  text.DoneInvitationRevoked(),
		RolesSaved:         text.DoneRolesSaved(),
		PersonBlocked:      text.DoneBlocked(),
		PersonUnblocked:    text.DoneUnblocked(),
		PersonLinked:       text.DoneLinked(),
		PersonUnlinked:     text.DoneUnlinked(),
		BrowserRemoved:     text.DoneBrowserRemoved(),
		WebhookCreated:     text.DoneWebhookCreated(),
		WebhookDeleted:     text.WebhookDeleted(),
		HoldSet:            text.HoldDone(),
		HoldLifted:         text.HoldDoneLifted(),
		ViewSaved:          text.DoneViewSaved(),
		ViewDeleted:        text.DoneViewDeleted(),
		SkillDeleted:       text.DoneSkillDeleted(),
		AgentDeleted:       text.DoneAgentDeleted(),
		RuleDeleted:        text.RulesDoneDeleted(),
		PolicyDeleted:      text.PoliciesDoneDeleted(),
		GrantRevoked:       text.GrantsDoneRevoked(),
		GrantConfirmed:     text.GrantsDoneConfirmed(),
		PlanApproved:       text.PlansDoneApproved(),
		PlanRejected:       text.PlansDoneRejected(),
		PlanRevoked:        text.PlansDoneRevoked(),
		GrantProposed:      text.GrantsDoneProposed(),
		ImportDiscarded:    text.DoneImportDiscarded(),
		ConversationClosed: text.DoneConversationClosed(),
		AbsenceSet:         text.TeamDoneAbsence(),
		AbsenceEnded:       text.TeamDoneAbsenceEnded(),
		Delegated:          text.TeamDoneDelegated(),
		DelegationEnded:    text.TeamDoneDelegationEnded(),
		ScheduleSet:        text.TeamDoneSchedule(),
		ScheduleFetched:    text.TeamDoneFetched(),
		ScheduleDeleted:    text.TeamDoneScheduleDeleted(),
		GuardForgotten:     text.GuardsForgotten(),
	}
}

// RedirectDone leads from a form to a page that says what it did.
func RedirectDone(w http.ResponseWriter, r *http.Request, path string, done Done) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	Redirect(w, r, path+separator+doneParameter+"="+string(done))
}
