package shell

import (
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// doneParameter names in an address the action that led there.
const doneParameter = "done"

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
	ImportDiscarded    Done = "import-discarded"
	ConversationClosed Done = "conversation-closed"
)

func (d Done) notice() *view.Notice {
	n := &view.Notice{Level: view.Good}
	switch d {
	case ThemeSaved:
		n.Title = text.DoneThemeSaved()
	case ChoiceSaved:
		n.Title = text.DoneChoiceSaved()
	case SessionEnded:
		n.Title = text.DoneSessionEnded()
	case SessionsEnded:
		n.Title = text.DoneSessionsEnded()
	case TokenRevoked:
		n.Title = text.DoneTokenRevoked()
	case InvitationRevoked:
		n.Title = text.DoneInvitationRevoked()
	case RolesSaved:
		n.Title = text.DoneRolesSaved()
	case PersonBlocked:
		n.Title = text.DoneBlocked()
	case PersonUnblocked:
		n.Title = text.DoneUnblocked()
	case PersonLinked:
		n.Title = text.DoneLinked()
	case PersonUnlinked:
		n.Title = text.DoneUnlinked()
	case BrowserRemoved:
		n.Title = text.DoneBrowserRemoved()
	case WebhookCreated:
		n.Title = text.DoneWebhookCreated()
	case WebhookDeleted:
		n.Title, n.Text = text.WebhookDeleted(), text.WebhookDeletedMeaning()
	case HoldSet:
		n.Title = text.HoldDone()
	case HoldLifted:
		n.Title = text.HoldDoneLifted()
	case ViewSaved:
		n.Title = text.DoneViewSaved()
	case ViewDeleted:
		n.Title = text.DoneViewDeleted()
	case SkillDeleted:
		n.Title = text.DoneSkillDeleted()
	case AgentDeleted:
		n.Title = text.DoneAgentDeleted()
	case RuleDeleted:
		n.Title = text.RulesDoneDeleted()
	case ImportDiscarded:
		n.Title = text.DoneImportDiscarded()
	case ConversationClosed:
		n.Title = text.DoneConversationClosed()
	default:
		return nil
	}
	return n
}

// RedirectDone leads from a form to a page that says what it did.
func RedirectDone(w http.ResponseWriter, r *http.Request, path string, done Done) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	Redirect(w, r, path+separator+doneParameter+"="+string(done))
}
