package oauthclient

import (
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/internal/outbound"
)

// Errors of this package.
var (
	// ErrNotFound: no such connection, or not for this person.
	ErrNotFound = errors.New("connection not found")
	// ErrFlow: an authorization response that answers nothing that was asked: its state is unknown,
	// was used, is too old, or is another person's.
	ErrFlow = errors.New("this answer belongs to no request of yours, or came twice or too late: connect again")
)

// Error says at which step authorization broke, in plain words that hold nothing secret.
type Error struct {
	Step    string // challenge, resource metadata, authorization server, registration, token, …
	Message string
	Err     error // the cause, for the log; it may not be shown
}

func (e *Error) Error() string { return e.Step + ": " + e.Message }

func (e *Error) Unwrap() error { return e.Err }

// The steps that errors and [Service.Walk] name.
const (
	StepChallenge     = "challenge"
	StepResource      = "resource metadata"
	StepServer        = "authorization server"
	StepRegistration  = "client registration"
	StepAuthorization = "authorization"
	StepToken         = "token"
	StepIdentity      = "identity provider"
)

func fail(step string, err error, format string, args ...any) *Error {
	return &Error{Step: step, Message: fmt.Sprintf(format, args...), Err: err}
}

// Need is what somebody has to do before a connection can be used.
type Need string

// The needs.
const (
	NeedNothing  Need = ""
	NeedConsent  Need = "consent"   // nobody connected yet
	NeedAgain    Need = "reconnect" // what was granted is gone
	NeedScope    Need = "scope"     // the server asks for more than was granted
	NeedIssuer   Need = "issuer"    // several authorization servers: one has to be chosen
	NeedClient   Need = "client"    // no client can be registered: an operator has to give one
	NeedSettings Need = "settings"  // the authorization server refuses what the settings say
)

// NeedsConnectionError says that somebody has to do something first.
type NeedsConnectionError struct {
	Key    Key
	Need   Need
	Reason string // in plain words; nothing secret
	Scopes []string
}

func (e *NeedsConnectionError) Error() string { return e.Reason }

// dialMessage says why a request got no answer, without repeating URLs.
func dialMessage(err error) string {
	var refused *outbound.AddressError
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case isTimeout(err):
		return "no answer in time"
	}
	return plain(rootMessage(err), maxPlain)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
