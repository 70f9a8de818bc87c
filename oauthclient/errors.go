package oauthclient

import (
	"errors"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// Errors of this package.
var (
	// ErrNotFound: there is no such connection, or the person may not see it.
	ErrNotFound = fault.NotFound("connection not found")
	// ErrFlow: the state of an authorization response (RFC 6749 section 4.1.2) is unknown, used, expired, or another
	// person's.
	ErrFlow = errors.New("this response matches no pending request of yours: connect again")
)

// Error is a failed step of an authorization.
type Error = wire.Error

// Need names the thing that is missing before a connection can be used.
type Need string

// The needs.
const (
	NeedNothing  Need = ""
	NeedConsent  Need = "consent"   // no person has connected yet
	NeedAgain    Need = "reconnect" // the granted tokens are gone
	NeedScope    Need = "scope"     // the server asks for scopes that were not granted
	NeedIssuer   Need = "issuer"    // the server names several authorization servers: a person has to choose one
	NeedClient   Need = "client"    // no client can be registered: an operator has to configure one
	NeedSettings Need = "settings"  // the settings do not fit the authorization server
)

// NeedsConnectionError says that a person has to act before the skill can be used.
type NeedsConnectionError struct {
	Key    Key
	Need   Need
	Reason string // for people; it holds no secret
	Scopes []string
}

func (e *NeedsConnectionError) Error() string { return e.Reason }
