package ui

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity/provider"
)

// vouched hands on whom an identity provider vouched for: skills that it manages need no connecting then.
func (u *UI) vouched(_ context.Context, person uuid.UUID, by *provider.Provider, answer provider.Answer) {
	u.cfg.OAuth.SignedIn(person, by.Issuer(), by.ClientID(), answer.IDToken)
}
