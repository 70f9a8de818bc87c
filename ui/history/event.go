package history

import (
	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/ui/text"
)

// DescribeEvent returns the sentence of an event. who and what are links or names. An action of another version gets a general one.
func DescribeEvent(action audit.Action, who, what templ.Component) templ.Component { //nolint:funlen // a table
	switch action {
	case audit.CallParked:
		return text.EventCallParked(who, what)
	case audit.CallAllowed:
		return text.EventCallAllowed(who, what)
	case audit.CallDenied:
		return text.EventCallDenied(what, who)
	case audit.CallInvalid:
		return text.EventCallInvalid(who, what)
	case audit.CallNeedsConnection:
		return text.EventCallNeedsConnection(what, who)
	case audit.CallConnected:
		return text.EventCallConnected(what, who)
	case audit.CallExecuting:
		return text.EventCallExecuting(what, who)
	case audit.CallGivenBack:
		return text.EventCallGivenBack(what, who)
	case audit.CallSucceeded:
		return text.EventCallSucceeded(what, who)
	case audit.CallFailed:
		return text.EventCallFailed(what, who)
	case audit.CallExpired:
		return text.EventCallExpired(what, who)
	case audit.CallCancelled:
		return text.EventCallCancelled(who, what)
	case audit.CallUnknown:
		return text.EventCallUnknown(what, who)
	case audit.CallLateOutcome:
		return text.EventCallLateOutcome(what, who)
	case audit.CallResolved:
		return text.EventCallResolved(who, what)
	case audit.CallCancelRequested:
		return text.EventCallCancelRequested(who, what)
	case audit.CallAsked:
		return text.EventCallAsked(what, who)
	case audit.CallAnswered:
		return text.EventCallAnswered(who, what)
	case audit.CallRevealed:
		return text.EventCallRevealed(who, what)
	case audit.CallReleased:
		return text.EventCallReleased(what, who)
	case audit.CallCallerLeft:
		return text.EventCallCallerLeft(what, who)
	case audit.CallFileOpened:
		return text.EventCallFileOpened(who, what)
	case audit.ApprovalApproved:
		return text.EventApprovalApproved(who, what)
	case audit.ApprovalRejected:
		return text.EventApprovalRejected(who, what)
	case audit.ApprovalUndone:
		return text.EventApprovalUndone(who, what)
	case audit.ApprovalAskedAgain:
		return text.EventApprovalAskedAgain(what, who)
	case audit.ApprovalExpired:
		return text.EventApprovalExpired(what, who)
	case audit.ApprovalCancelled:
		return text.EventApprovalCancelled(what, who)
	case audit.ApprovalClaimed:
		return text.EventApprovalClaimed(who, what)
	case audit.ApprovalReleased:
		return text.EventApprovalReleased(who, what)
	case audit.ApprovalAssigned:
		return text.EventApprovalAssigned(who, what)
	case audit.ApprovalCommented:
		return text.EventApprovalCommented(who, what)
	case audit.ApprovalVoted:
		return text.EventApprovalVoted(who, what)
	case audit.ApprovalVotedAgainst:
		return text.EventApprovalVotedAgainst(who, what)
	case audit.ApprovalVoteTakenBack:
		return text.EventApprovalVoteTakenBack(who, what)
	case audit.ApprovalPolicyChanged:
		return text.EventApprovalPolicyChanged(what, who)
	case audit.ApprovalGlassReviewed:
		return text.EventApprovalGlassReviewed(who, what)
	case audit.ApprovalExtended:
		return text.EventApprovalExtended(who, what)
	case audit.ApprovalEscalated:
		return text.EventApprovalEscalated(what, who)
	case audit.ApprovalEditProposed:
		return text.EventApprovalEditProposed(who, what)
	case audit.ApprovalNoReviewer:
		return text.EventApprovalNoReviewer(what, who)
	case audit.QuestionApproved:
		return text.EventQuestionApproved(who, what)
	case audit.QuestionRejected:
		return text.EventQuestionRejected(who, what)
	case audit.QuestionExpired:
		return text.EventQuestionExpired(what, who)
	case audit.QuestionRevealed:
		return text.EventQuestionRevealed(who, what)
	case audit.SkillCreated:
		return text.EventSkillCreated(who, what)
	case audit.SkillUpdated:
		return text.EventSkillUpdated(who, what)
	case audit.SkillDeleted:
		return text.EventSkillDeleted(who, what)
	case audit.SkillTried:
		return text.EventSkillTried(who, what)
	case audit.ToolAdded:
		return text.EventToolAdded(what, who)
	case audit.ToolChanged:
		return text.EventToolChanged(what, who)
	case audit.ToolRemoved:
		return text.EventToolRemoved(what, who)
	case audit.ToolRestored:
		return text.EventToolRestored(what, who)
	case audit.ToolAccepted:
		return text.EventToolAccepted(who, what)
	case audit.ToolRefused:
		return text.EventToolRefused(who, what)
	case audit.ToolsAccepted:
		return text.EventToolsAccepted(what, who)
	case audit.AgentCreated:
		return text.EventAgentCreated(who, what)
	case audit.AgentUpdated:
		return text.EventAgentUpdated(who, what)
	case audit.AgentDeleted:
		return text.EventAgentDeleted(who, what)
	case audit.AgentKeyCreated:
		return text.EventAgentKeyCreated(who, what)
	case audit.AgentKeyRevoked:
		return text.EventAgentKeyRevoked(who, what)
	case audit.AssignmentCreated:
		return text.EventAssignmentCreated(who, what)
	case audit.AssignmentUpdated:
		return text.EventAssignmentUpdated(who, what)
	case audit.AssignmentDeleted:
		return text.EventAssignmentDeleted(who, what)
	case audit.RuleCreated:
		return text.EventRuleCreated(who, what)
	case audit.RuleUpdated:
		return text.EventRuleUpdated(who, what)
	case audit.RuleDeleted:
		return text.EventRuleDeleted(who, what)
	case audit.GrantCreated:
		return text.EventGrantCreated(who, what)
	case audit.GrantConfirmed:
		return text.EventGrantConfirmed(who, what)
	case audit.GrantRevoked:
		return text.EventGrantRevoked(who, what)
	case audit.GrantUsedUp:
		return text.EventGrantUsedUp(what, who)
	case audit.GrantReviewed:
		return text.EventGrantReviewed(who)
	case audit.PlanSubmitted:
		return text.EventPlanSubmitted(who, what)
	case audit.PlanApproved:
		return text.EventPlanApproved(who, what)
	case audit.PlanRejected:
		return text.EventPlanRejected(who, what)
	case audit.PlanExpired:
		return text.EventPlanExpired(what, who)
	case audit.PlanCancelled:
		return text.EventPlanCancelled(who, what)
	case audit.PlanRevoked:
		return text.EventPlanRevoked(who, what)
	case audit.ChangeProposed:
		return text.EventChangeProposed(who, what)
	case audit.ChangeApproved:
		return text.EventChangeApproved(who, what)
	case audit.ChangeRejected:
		return text.EventChangeRejected(who, what)
	case audit.ChangeStale:
		return text.EventChangeStale(who, what)
	case audit.GuardRegistered:
		return text.EventGuardRegistered(who, what)
	case audit.GuardUnwatched:
		return text.EventGuardUnwatched(what, who)
	case audit.GuardHolds:
		return text.EventGuardHolds(what, who)
	case audit.GuardBroken:
		return text.EventGuardBroken(what, who)
	case audit.GuardSilent:
		return text.EventGuardSilent(what, who)
	case audit.GuardRemoved:
		return text.EventGuardRemoved(what, who)
	case audit.GuardBypassed:
		return text.EventGuardBypassed(what, who)
	case audit.GuardForgotten:
		return text.EventGuardForgotten(who, what)
	case audit.PersonLimited:
		return text.EventPersonLimited(who, what)
	case audit.PolicyCreated:
		return text.EventPolicyCreated(who, what)
	case audit.PolicyUpdated:
		return text.EventPolicyUpdated(who, what)
	case audit.PolicyDeleted:
		return text.EventPolicyDeleted(who, what)
	case audit.PersonCreated:
		return text.EventPersonCreated(what, who)
	case audit.PersonFirst:
		return text.EventPersonFirst(what, who)
	case audit.PersonClaimed:
		return text.EventPersonClaimed(what, who)
	case audit.PersonGranted:
		return text.EventPersonGranted(who, what)
	case audit.PersonBlocked:
		return text.EventPersonBlocked(who, what)
	case audit.PersonUnblocked:
		return text.EventPersonUnblocked(who, what)
	case audit.PersonLinked:
		return text.EventPersonLinked(who, what)
	case audit.PersonUnlinked:
		return text.EventPersonUnlinked(who, what)
	case audit.TokenCreated:
		return text.EventTokenCreated(who, what)
	case audit.TokenRevoked:
		return text.EventTokenRevoked(who, what)
	case audit.SessionCreated:
		return text.EventSessionCreated(who)
	case audit.SessionReauthenticated:
		return text.EventSessionReauthenticated(who)
	case audit.SessionEnded:
		return text.EventSessionEnded(who, what)
	case audit.SignInLinkCreated:
		return text.EventSignInLinkCreated(who, what)
	case audit.SignInLinkUsed:
		return text.EventSignInLinkUsed(who)
	case audit.InvitationCreated:
		return text.EventInvitationCreated(who, what)
	case audit.InvitationRedeemed:
		return text.EventInvitationRedeemed(who, what)
	case audit.InvitationRevoked:
		return text.EventInvitationRevoked(who, what)
	case audit.PushSubscriptionCreated:
		return text.EventPushSubscriptionCreated(who, what)
	case audit.PushSubscriptionDeleted:
		return text.EventPushSubscriptionDeleted(who, what)
	case audit.AuthenticationFailed:
		return text.EventAuthenticationFailed(who, what)
	case audit.CallsExported:
		return text.EventCallsExported(who)
	case audit.AuditExported:
		return text.EventAuditExported(who)
	case audit.ConversationStarted:
		return text.EventConversationStarted(who, what)
	case audit.ConversationRelisted:
		return text.EventConversationRelisted(what, who)
	case audit.ConversationForked:
		return text.EventConversationForked(who, what)
	case audit.ConversationStopped:
		return text.EventConversationStopped(who, what)
	case audit.ConversationEnded:
		return text.EventConversationEnded(who, what)
	case audit.ResourceRead:
		return text.EventResourceRead(who, what)
	case audit.ResourceDenied:
		return text.EventResourceDenied(who, what)
	case audit.ResourceSubscribed:
		return text.EventResourceSubscribed(who, what)
	case audit.PromptGot:
		return text.EventPromptGot(who, what)
	case audit.ConnectionNeeded:
		return text.EventConnectionNeeded(what, who)
	case audit.ConnectionUnneeded:
		return text.EventConnectionUnneeded(what, who)
	case audit.ConnectionConnected:
		return text.EventConnectionConnected(who, what)
	case audit.ConnectionDisconnected:
		return text.EventConnectionDisconnected(who, what)
	case audit.FileUploaded:
		return text.EventFileUploaded(who, what)
	case audit.FileDeleted:
		return text.EventFileDeleted(what, who)
	case audit.CallbackCreated:
		return text.EventCallbackCreated(who, what)
	case audit.CallbackDeleted:
		return text.EventCallbackDeleted(who, what)
	case audit.CallbackEnabled:
		return text.EventCallbackEnabled(who, what)
	case audit.CallbackDisabled:
		return text.EventCallbackDisabled(what, who)
	case audit.CallbackSecretRotated:
		return text.EventCallbackSecretRotated(who, what)
	case audit.CallbackTested:
		return text.EventCallbackTested(who, what)
	case audit.CallbackResent:
		return text.EventCallbackResent(who, what)
	case audit.WebhookCreated:
		return text.EventWebhookCreated(who, what)
	case audit.WebhookDeleted:
		return text.EventWebhookDeleted(who, what)
	case audit.AbsenceCreated:
		return text.EventAbsenceCreated(who, what)
	case audit.AbsenceEnded:
		return text.EventAbsenceEnded(who, what)
	case audit.DelegationCreated:
		return text.EventDelegationCreated(who, what)
	case audit.DelegationEnded:
		return text.EventDelegationEnded(who, what)
	case audit.ScheduleSet:
		return text.EventScheduleSet(who, what)
	case audit.ScheduleDeleted:
		return text.EventScheduleDeleted(who, what)
	case audit.LegalHoldSet:
		return text.EventLegalHoldSet(who, what)
	case audit.LegalHoldLifted:
		return text.EventLegalHoldLifted(who, what)
	case audit.RetentionSwept:
		return text.EventRetentionSwept(who)
	case audit.PersonExported:
		return text.EventPersonExported(who, what)
	case audit.PersonErased:
		return text.EventPersonErased(who, what)
	}
	return text.EventOther(who, string(action), what)
}
