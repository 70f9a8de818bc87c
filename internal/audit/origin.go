package audit

import (
	"context"

	"github.com/holdpoint/holdpoint/internal/clientaddr"
)

// Credential names what an actor authenticated with. It is no secret.
type Credential struct {
	Kind string
	ID   string // empty: its kind says it all
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

// Origin is how an actor came in.
type Origin struct {
	Credential Credential
	Address    string // of the client; empty: not known
}

type originKey struct{}

// actorCredential is the credential that a request was authenticated with, and whose it is.
type actorCredential struct {
	actor      Actor
	credential Credential
}

// WithCredential returns a context for what an actor does with a credential. Events and decisions that are
// written with it name that credential, and the address of the client that the context carries.
func WithCredential(ctx context.Context, actor Actor, credential Credential) context.Context {
	return context.WithValue(ctx, originKey{}, actorCredential{actor, credential})
}

// OriginOf returns how an actor came in, by the context of a request. An actor other than the one who
// authenticated has no credential in it; Holdpoint itself has no origin.
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

// FirstCredential is SQL: the ids of a kind among the credentials of the first event about a subject, so at most one. subject and kind are expressions
// of the statement. Credentials of kinds whose ids are no UUIDs must not be asked for.
func FirstCredential(subject, kind string) string {
	return `ARRAY(SELECT first.credential_id::uuid FROM (SELECT credential_kind, credential_id FROM audit_events
		WHERE subject_id = ` + subject + ` ORDER BY id LIMIT 1) AS first WHERE first.credential_kind = ` + kind + `)`
}

// SetOrigin fills in the event's origin from the context of a request, unless it has one.
func (e *Event) SetOrigin(ctx context.Context) {
	if e.Origin == (Origin{}) {
		e.Origin = OriginOf(ctx, e.Actor)
	}
}
