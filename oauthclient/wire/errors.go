package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Error is a failed step of an authorization. Step and Message are for people and hold no secret.
type Error struct {
	Step    string // one of the constants Step…
	Message string
	Err     error // the cause, for the log; it may hold secrets
}

func (e *Error) Error() string { return e.Step + ": " + e.Message }

func (e *Error) Unwrap() error { return e.Err }

// The steps that errors and package oauthclient name.
const (
	StepChallenge     = "challenge"
	StepResource      = "resource metadata"
	StepServer        = "authorization server"
	StepRegistration  = "client registration"
	StepAuthorization = "authorization"
	StepToken         = "token"
	StepIdentity      = "identity provider"
)

// NewError makes an [Error].
func NewError(step string, err error, format string, args ...any) *Error {
	return &Error{Step: step, Message: fmt.Sprintf(format, args...), Err: err}
}

// DialMessage says why a request got no answer, without the request and its URL.
func DialMessage(err error) string {
	var refused *outbound.AddressError
	var limited interface{ Timeout() bool }
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &limited) && limited.Timeout():
		return "no answer in time"
	}
	if inURL, ok := errors.AsType[*url.Error](err); ok {
		err = inURL.Err
	}
	return plain.Line(err.Error(), MaxText)
}

// MaxText is the maximum length of a server's text in messages.
const MaxText = 300

// HideSecrets removes secrets from the text of a server that was sent them.
func HideSecrets(text string, secrets []string) string {
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "…")
		}
	}
	return text
}
