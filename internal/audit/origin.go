package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

// FirstCredential returns the credential of the first event about a subject; the zero value if it is not known.
func FirstCredential(ctx context.Context, db Querier, subject uuid.UUID) (Credential, error) {
	rows, err := db.Query(ctx, `SELECT coalesce(credential_kind, ''), coalesce(credential_id, '') FROM audit_events
		WHERE subject_id = $1 ORDER BY id LIMIT 1`, subject)
	if err != nil {
		return Credential{}, fmt.Errorf("read the credential of %s: %w", subject, err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Credential])
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return Credential{}, fmt.Errorf("read the credential of %s: %w", subject, err)
	}
	return c, nil
}

// SetOrigin fills in the event's origin from the context of a request, unless it has one.
func (e *Event) SetOrigin(ctx context.Context) {
	if e.Origin == (Origin{}) {
		e.Origin = OriginOf(ctx, e.Actor)
	}
}
