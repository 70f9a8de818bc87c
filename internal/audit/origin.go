package audit

import (
	"context"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
)

// Credential identifies the credential of an actor. It contains no secret.
type Credential struct {
	Kind string
	ID   string // empty if there is only one of its kind
}

// The kinds of credentials.
const (
	PersonalToken  = "personal_token"
	BootstrapToken = "bootstrap_token"
	BrowserSession = "session"
	AgentKey       = "agent_key"
	AccessToken    = "access_token" // of an authorization server; its ID is the token's, else the client's
	Invitation     = "invitation"
	SignInLink     = "sign_in_link"
)

// Origin is the credential and the address of an actor.
type Origin struct {
	Credential Credential
	Address    string // of the client; empty: unknown
}

type originKey struct{}

// actorCredential is the credential of a request, with its owner.
type actorCredential struct {
	actor      Actor
	credential Credential
}

// WithCredential returns a context for the actions of an actor with a credential. Events and decisions of the actor then name
// the credential, and the address of the client in the context.
func WithCredential(ctx context.Context, actor Actor, credential Credential) context.Context {
	return context.WithValue(ctx, originKey{}, actorCredential{actor, credential})
}

// OriginOf returns the origin of an actor from the context of a request. Only the authenticated actor has a credential.
// Holdpoint itself has no origin.
func OriginOf(ctx context.Context, actor Actor) Origin {
	if actor.Kind == KindSystem {
		return Origin{}
	}
	var origin Origin
	if known, ok := ctx.Value(originKey{}).(actorCredential); ok && known.actor == actor {
		origin.Credential = known.credential
	}
	if address := clientaddr.FromContext(ctx); address.IsValid() {
		origin.Address = address.String()
	}
	return origin
}

// FirstCredential returns an SQL expression: an array with the credential of the first event about a subject, if that is of a
// kind, else an empty array. subject and kind are SQL expressions. The ids of the kind must be UUIDs.
func FirstCredential(subject, kind string) string {
	return `ARRAY(SELECT first.credential_id::uuid FROM (SELECT credential_kind, credential_id FROM audit_events
		WHERE subject_id = ` + subject + ` ORDER BY id LIMIT 1) AS first WHERE first.credential_kind = ` + kind + `)`
}

// SetOrigin sets the event's origin from the context of a request, unless it has one.
func (e *Event) SetOrigin(ctx context.Context) {
	if e.Origin == (Origin{}) {
		e.Origin = OriginOf(ctx, e.Actor)
	}
}
