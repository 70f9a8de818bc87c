package audit

import "strings"

// Action is the kind of an event: a noun and a verb. Actions are stored and shown as they are, and people search for them, so
// none is ever renamed. A new one needs a place in [Action.About], or [Write] refuses it.
type Action string

// The actions on calls, and on the approvals and the questions of calls.
const (
	CallParked          Action = "call.parked"
	CallAllowed         Action = "call.allowed"
	CallDenied          Action = "call.denied"
	CallInvalid         Action = "call.invalid"
	CallNeedsConnection Action = "call.needs_connection"
	CallConnected       Action = "call.connected"
	CallExecuting       Action = "call.executing"
	CallGivenBack       Action = "call.given_back"
	CallSucceeded       Action = "call.succeeded"
	CallFailed          Action = "call.failed"
	CallExpired         Action = "call.expired"
	CallCancelled       Action = "call.cancelled"
	CallUnknown         Action = "call.unknown"
	CallLateOutcome     Action = "call.late_outcome" // the call had lost its claim
	CallResolved        Action = "call.resolved"     // a person recorded the outcome of an unknown call
	CallCancelRequested Action = "call.cancel_requested"
	CallAsked           Action = "call.asked"    // its server asked the client a question
	CallAnswered        Action = "call.answered" // and the client answered
	CallRevealed        Action = "call.revealed" // a person saw hidden values
	CallFileOpened      Action = "call.file_opened"
	CallReleased        Action = "call.released"    // its caller may execute it
	CallCallerLeft      Action = "call.caller_left" // its caller no longer waits for it

	ApprovalApproved     Action = "approval.approved"
	ApprovalRejected     Action = "approval.rejected"
	ApprovalExpired      Action = "approval.expired"
	ApprovalCancelled    Action = "approval.cancelled"
	ApprovalUndone       Action = "approval.undone"      // the reviewer took the approval back
	ApprovalAskedAgain   Action = "approval.asked_again" // a rule that did not apply when the call was parked applies before it is sent
	ApprovalExtended     Action = "approval.extended"
	ApprovalEscalated    Action = "approval.escalated"
	ApprovalEditProposed Action = "approval.edit_proposed"
	ApprovalNoReviewer   Action = "approval.no_reviewer"
	ApprovalClaimed      Action = "approval.claimed"
	ApprovalReleased     Action = "approval.released"
	ApprovalAssigned     Action = "approval.assigned"
	ApprovalCommented    Action = "approval.commented"
	// Of calls with policies: one of several people approved or rejected.
	ApprovalVoted         Action = "approval.voted"
	ApprovalVotedAgainst  Action = "approval.voted_against"
	ApprovalVoteTakenBack Action = "approval.vote_taken_back"
	ApprovalPolicyChanged Action = "approval.policy_changed" // the call is asked about again, without votes
	ApprovalGlassReviewed Action = "approval.glass_reviewed" // a person reviewed an approval that one person gave alone

	QuestionApproved Action = "question.approved"
	QuestionRejected Action = "question.rejected"
	QuestionExpired  Action = "question.expired"
	QuestionRevealed Action = "question.revealed"
)

// The actions on skills and their tools.
const (
	SkillCreated  Action = "skill.created"
	SkillUpdated  Action = "skill.updated"
	SkillDeleted  Action = "skill.deleted"
	SkillTried    Action = "skill.tried"
	ToolAdded     Action = "tool.added"
	ToolChanged   Action = "tool.changed"
	ToolRemoved   Action = "tool.removed"
	ToolRestored  Action = "tool.restored"
	ToolAccepted  Action = "tool.accepted"
	ToolRefused   Action = "tool.refused"
	ToolsAccepted Action = "tools.accepted" // the tools of a first discovery
)

// The actions on agents, their keys and their assignments.
const (
	AgentCreated      Action = "agent.created"
	AgentUpdated      Action = "agent.updated"
	AgentDeleted      Action = "agent.deleted"
	AgentKeyCreated   Action = "agent_key.created"
	AgentKeyRevoked   Action = "agent_key.revoked"
	AssignmentCreated Action = "assignment.created"
	AssignmentUpdated Action = "assignment.updated"
	AssignmentDeleted Action = "assignment.deleted"
)

// The actions on rules. The subject is a rule's id, which follows from its name.
const (
	RuleCreated Action = "rule.created"
	RuleUpdated Action = "rule.updated"
	RuleDeleted Action = "rule.deleted"
)

// The actions on grants.
const (
	GrantCreated   Action = "grant.created"
	GrantConfirmed Action = "grant.confirmed" // by the second person that it needed
	GrantRevoked   Action = "grant.revoked"
	GrantUsedUp    Action = "grant.used_up"
	GrantReviewed  Action = "grant.reviewed" // the weekly look at unused and wide ones
)

// The actions on plans.
const (
	PlanSubmitted Action = "plan.submitted"
	PlanApproved  Action = "plan.approved"
	PlanRejected  Action = "plan.rejected"
	PlanExpired   Action = "plan.expired"   // no reviewer decided before the deadline
	PlanCancelled Action = "plan.cancelled" // by its agent
	PlanRevoked   Action = "plan.revoked"
)

// The actions on changes that wait for a second operator.
const (
	ChangeProposed Action = "change.proposed"
	ChangeApproved Action = "change.approved"
	ChangeRejected Action = "change.rejected"
	ChangeStale    Action = "change.stale" // the thing had changed since the proposal
)

// The actions on approval policies. The subject is a policy's id, which follows from its name.
const (
	PolicyCreated Action = "policy.created"
	PolicyUpdated Action = "policy.updated"
	PolicyDeleted Action = "policy.deleted"
)

// The actions on people, their credentials and their exports.
const (
	PersonCreated           Action = "person.created"
	PersonFirst             Action = "person.first" // a person took over from the bootstrap token
	PersonClaimed           Action = "person.claimed"
	PersonGranted           Action = "person.granted"
	PersonLimited           Action = "person.limited" // the calls that a reviewer may decide
	PersonBlocked           Action = "person.blocked"
	PersonUnblocked         Action = "person.unblocked"
	PersonLinked            Action = "person.linked"
	PersonUnlinked          Action = "person.unlinked"
	TokenCreated            Action = "token.created"
	TokenRevoked            Action = "token.revoked"
	SessionCreated          Action = "session.created"
	SessionReauthenticated  Action = "session.reauthenticated"
	SessionEnded            Action = "session.ended"
	SignInLinkCreated       Action = "sign_in_link.created"
	SignInLinkUsed          Action = "sign_in_link.used"
	InvitationCreated       Action = "invitation.created"
	InvitationRedeemed      Action = "invitation.redeemed"
	InvitationRevoked       Action = "invitation.revoked"
	PushSubscriptionCreated Action = "push_subscription.created"
	PushSubscriptionDeleted Action = "push_subscription.deleted"
	AuthenticationFailed    Action = "authentication.failed"
	AbsenceCreated          Action = "absence.created"
	AbsenceEnded            Action = "absence.ended"
	DelegationCreated       Action = "delegation.created"
	DelegationEnded         Action = "delegation.ended"
	CallsExported           Action = "calls.exported"
	AuditExported           Action = "audit.exported"
)

// The actions on conversations, and on the resources and prompts that agents get in them.
const (
	ConversationStarted  Action = "conversation.started"
	ConversationRelisted Action = "conversation.relisted"
	ConversationForked   Action = "conversation.forked"
	ConversationStopped  Action = "conversation.stopped"
	ConversationEnded    Action = "conversation.ended"
	ResourceRead         Action = "resource.read"
	ResourceDenied       Action = "resource.denied"
	ResourceSubscribed   Action = "resource.subscribed"
	PromptGot            Action = "prompt.got"
)

// The actions on connections, files, callbacks and webhooks.
const (
	ConnectionNeeded       Action = "connection.needed"
	ConnectionUnneeded     Action = "connection.unneeded"
	ConnectionConnected    Action = "connection.connected"
	ConnectionDisconnected Action = "connection.disconnected"
	FileUploaded           Action = "file.uploaded"
	FileDeleted            Action = "file.deleted"
	CallbackCreated        Action = "callback.created"
	CallbackDeleted        Action = "callback.deleted"
	CallbackEnabled        Action = "callback.enabled"
	CallbackDisabled       Action = "callback.disabled"
	CallbackSecretRotated  Action = "callback.secret_rotated"
	CallbackTested         Action = "callback.tested"
	CallbackResent         Action = "callback.resent"
	WebhookCreated         Action = "webhook.created"
	WebhookDeleted         Action = "webhook.deleted"
	// The subject is a team's schedule, whose id follows from the team's name.
	ScheduleSet     Action = "schedule.set"
	ScheduleDeleted Action = "schedule.deleted"
)

// The actions on guarded hosts: coding agents on machines that ask about their built-in tools.
const (
	GuardRegistered Action = "guard.registered"
	GuardUnwatched  Action = "guard.unwatched" // it was installed again, and nothing watches it yet
	GuardHolds      Action = "guard.holds"
	GuardBroken     Action = "guard.broken"
	GuardSilent     Action = "guard.silent"
	GuardRemoved    Action = "guard.removed"
	GuardBypassed   Action = "guard.bypassed" // a call ran that was not released
	GuardForgotten  Action = "guard.forgotten"
)

// The actions on the lifetime of records.
const (
	LegalHoldSet    Action = "legal_hold.set"
	LegalHoldLifted Action = "legal_hold.lifted"
	RetentionSwept  Action = "retention.swept" // rows were deleted by age
	PersonExported  Action = "person.exported" // with all data about the person
	PersonErased    Action = "person.erased"
)

// Noun returns the first word of an action: "call" of "call.parked".
func (a Action) Noun() string {
	noun, _, _ := strings.Cut(string(a), ".")
	return noun
}

// About returns the kind of the subject of an action's events, such as "call" or "skill", or "" for an unknown action.
func (a Action) About() string {
	switch a {
	case CallParked, CallAllowed, CallDenied, CallInvalid, CallNeedsConnection, CallConnected, CallExecuting, CallGivenBack, CallSucceeded,
		CallFailed, CallExpired, CallCancelled, CallUnknown, CallLateOutcome, CallResolved, CallCancelRequested, CallAsked, CallAnswered,
		CallRevealed, CallFileOpened, CallReleased, CallCallerLeft,
		ApprovalApproved, ApprovalRejected, ApprovalExpired, ApprovalCancelled, ApprovalUndone, ApprovalAskedAgain, ApprovalExtended, ApprovalEscalated, ApprovalEditProposed,
		ApprovalNoReviewer, ApprovalClaimed, ApprovalReleased, ApprovalAssigned, ApprovalCommented, ApprovalVoted, ApprovalVotedAgainst, ApprovalVoteTakenBack,
		ApprovalPolicyChanged, ApprovalGlassReviewed, QuestionApproved, QuestionRejected, QuestionExpired, QuestionRevealed:
		return "call"
	case SkillCreated, SkillUpdated, SkillDeleted, SkillTried,
		ToolAdded, ToolChanged, ToolRemoved, ToolRestored, ToolAccepted, ToolRefused, ToolsAccepted:
		return "skill"
	case AgentCreated, AgentUpdated, AgentDeleted, AgentKeyCreated, AgentKeyRevoked, AssignmentCreated, AssignmentUpdated, AssignmentDeleted:
		return KindAgent
	case PersonCreated, PersonFirst, PersonClaimed, PersonGranted, PersonLimited, PersonBlocked, PersonUnblocked, PersonLinked, PersonUnlinked,
		TokenCreated, TokenRevoked, SessionCreated, SessionReauthenticated, SessionEnded, SignInLinkCreated, SignInLinkUsed,
		PushSubscriptionCreated, PushSubscriptionDeleted, CallsExported, AuditExported, PersonExported, PersonErased,
		AbsenceCreated, AbsenceEnded, DelegationCreated, DelegationEnded:
		return KindPerson
	case ConversationStarted, ConversationRelisted, ConversationForked, ConversationStopped, ConversationEnded,
		ResourceRead, ResourceDenied, ResourceSubscribed, PromptGot:
		return "conversation"
	case ConnectionNeeded, ConnectionUnneeded, ConnectionConnected, ConnectionDisconnected,
		InvitationCreated, InvitationRedeemed, InvitationRevoked, FileUploaded, FileDeleted, WebhookCreated, WebhookDeleted,
		CallbackCreated, CallbackDeleted, CallbackEnabled, CallbackDisabled, CallbackSecretRotated, CallbackTested, CallbackResent,
		AuthenticationFailed, LegalHoldSet, LegalHoldLifted, RetentionSwept, RuleCreated, RuleUpdated, RuleDeleted,
		GrantCreated, GrantConfirmed, GrantRevoked, GrantUsedUp, GrantReviewed,
		PlanSubmitted, PlanApproved, PlanRejected, PlanExpired, PlanCancelled, PlanRevoked,
		PolicyCreated, PolicyUpdated, PolicyDeleted, ScheduleSet, ScheduleDeleted, ChangeProposed, ChangeApproved, ChangeRejected, ChangeStale,
		GuardRegistered, GuardUnwatched, GuardHolds, GuardBroken, GuardSilent, GuardRemoved, GuardBypassed, GuardForgotten:
		return a.Noun()
	}
	return ""
}
