// Package admin owns the pages about people and this server: members, invitations, tokens, a person's own settings,
// notifications and webhooks.
package admin

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Config is required in full, but for Providers and Server.
type Config struct {
	Shell     *shell.Shell
	Identity  *identity.Service
	Notify    *notify.Service
	Calls     *call.Service
	Providers []*provider.Provider
	PublicURL string
	ProofAge  time.Duration
	Server    Server
	// Holds sets and lifts legal holds.
	Holds *legalhold.Service
	// Choices returns a person's settings of the queue.
	Choices func(ctx context.Context, person uuid.UUID) (view.QueueChoices, error)
}

// Handlers answer the requests about people and settings.
type Handlers struct {
	Members     *MemberHandler
	Invitations *InvitationHandler
	Settings    *SettingsHandler
	Push        *PushHandler
	Webhooks    *WebhookHandler
	Holds       *HoldHandler
}

// New makes the handlers.
func New(cfg Config) *Handlers {
	tokens := &tokenPages{Shell: cfg.Shell, identity: cfg.Identity}
	members := &MemberHandler{Shell: cfg.Shell, calls: cfg.Calls, identity: cfg.Identity, providers: cfg.Providers, tokens: tokens}
	push := &PushHandler{Shell: cfg.Shell, notify: cfg.Notify}
	return &Handlers{
		Members:     members,
		Invitations: &InvitationHandler{Shell: cfg.Shell, identity: cfg.Identity, members: members, publicURL: cfg.PublicURL},
		Settings: &SettingsHandler{
			Shell: cfg.Shell, calls: cfg.Calls, identity: cfg.Identity, push: push, tokens: tokens,
			publicURL: cfg.PublicURL, proofAge: cfg.ProofAge, server: cfg.Server, choices: cfg.Choices,
		},
		Push:     push,
		Webhooks: &WebhookHandler{Shell: cfg.Shell, calls: cfg.Calls, notify: cfg.Notify},
		Holds:    &HoldHandler{Shell: cfg.Shell, calls: cfg.Calls, holds: cfg.Holds},
	}
}

// MemberHandler shows and changes members.
type MemberHandler struct {
	*shell.Shell

	calls     *call.Service
	identity  *identity.Service
	providers []*provider.Provider
	tokens    *tokenPages
}

// InvitationHandler invites people.
type InvitationHandler struct {
	*shell.Shell

	identity  *identity.Service
	members   *MemberHandler
	publicURL string
}

// SettingsHandler shows and changes a person's own settings, and shows operators how the server runs.
type SettingsHandler struct {
	*shell.Shell

	calls     *call.Service
	identity  *identity.Service
	push      *PushHandler
	tokens    *tokenPages
	publicURL string
	proofAge  time.Duration
	server    Server
	choices   func(ctx context.Context, person uuid.UUID) (view.QueueChoices, error)
}

// PushHandler subscribes browsers to push messages.
type PushHandler struct {
	*shell.Shell

	notify *notify.Service
}

// WebhookHandler shows and changes the webhooks of chats.
type WebhookHandler struct {
	*shell.Shell

	calls  *call.Service
	notify *notify.Service
}

// HoldHandler shows, sets and lifts legal holds.
type HoldHandler struct {
	*shell.Shell

	calls *call.Service
	holds *legalhold.Service
}

// tokenPages makes personal tokens and presents them.
type tokenPages struct {
	*shell.Shell

	identity *identity.Service
}
