package oauthclient

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Connection is the public state of a connection; it holds no secrets.
type Connection struct {
	ID uuid.UUID
	Key
	SkillRevision int64
	Grant         string
	Issuer        string // of the authorization server
	Resource      string
	ClientID      string
	ScopesAsked   []string
	ScopesGranted []string
	ExpiresAt     *time.Time // when the access token expires; nil: unknown
	Renewable     bool       // tokens are renewed without a person
	ConnectedAt   *time.Time // nil: it is not connected
	ConnectedBy   uuid.UUID  // uuid.Nil: no person had to connect it
	RefreshedAt   *time.Time
	Need          Need
	Reason        string   // of the need, for people
	NeedScopes    []string // scopes that the server asks for and that were not granted
	Issuers       []string // the authorization servers to choose from
	Error         string   // of the last attempt; empty: it succeeded
	ErrorAt       *time.Time
}

// Connected reports whether the connection has a token and no known need.
func (c Connection) Connected() bool { return c.ConnectedAt != nil && c.Need == NeedNothing }

// Expired reports whether the access token has expired and cannot be renewed without a person.
func (c Connection) Expired(now time.Time) bool {
	return c.ExpiresAt != nil && !c.Renewable && !c.ExpiresAt.After(now)
}

// State summarizes a connection.
type State string

// The states of connections.
const (
	StateConnected State = "connected"
	StateNeeds     State = "needs_connection" // a person has to act first
	StateExpired   State = "expired"          // its token has expired and cannot be renewed
	StateFailing   State = "failing"          // the last attempt to get a token failed
)

// State returns the state. A need comes first: until it is met, nothing else helps.
func (c Connection) State(now time.Time) State {
	switch {
	case c.Need != NeedNothing:
		return StateNeeds
	case c.Error != "":
		return StateFailing
	case c.ConnectedAt == nil:
		return StateNeeds
	case c.Expired(now):
		return StateExpired
	}
	return StateConnected
}

// Find returns the connection that is used for a key: the shared one, or that of the person, where each person has their own.
// It returns [ErrNotFound] if there is none yet.
func (s *Service) Find(ctx context.Context, key Key) (Connection, error) {
	t, err := s.store.resolveTarget(ctx, key)
	if err != nil {
		return Connection{}, err
	}
	c, err := s.store.findConnection(ctx, s.Pool, byKeySQL, t.sqlArgs()...)
	if err != nil {
		return Connection{}, err
	}
	return c.Connection, nil
}

// Get returns a connection by its id, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Connection, error) {
	c, err := s.store.findConnection(ctx, s.Pool, `id = $1`, id)
	if err != nil {
		return Connection{}, err
	}
	return c.Connection, nil
}

// Filter selects connections. Zero fields select all.
type Filter struct {
	SkillID uuid.UUID
	// VisibleTo selects shared connections and those of this person, under all identities of the person.
	VisibleTo uuid.UUID
	// Principal selects the connections of this person, as [identity.Service.SameAs] returns it.
	Principal uuid.UUID
	Before    uuid.UUID // only older connections: the cursor
	Limit     int       // at most 200; zero: 50
}

// List returns connections, the newest first, and the cursor of the next page; uuid.Nil: this is the last page.
func (s *Service) List(ctx context.Context, f Filter) ([]Connection, uuid.UUID, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	limit = min(limit, 200)
	var visible []uuid.UUID
	if f.VisibleTo != uuid.Nil {
		same, err := s.Identity.SameAs(ctx, f.VisibleTo)
		if err != nil {
			return nil, uuid.Nil, err
		}
		visible = []uuid.UUID{f.VisibleTo, same}
	}
	rows, err := s.Pool.Query(ctx, `SELECT `+connectionColumns+` FROM oauth_connections
		WHERE ($1::uuid IS NULL OR skill_id = $1) AND ($2::uuid IS NULL OR principal_id = $2) AND ($3::uuid IS NULL OR id < $3)
			AND ($5::uuid[] IS NULL OR principal_id IS NULL OR principal_id = ANY($5))
		ORDER BY id DESC LIMIT $4`, postgres.OrNull(f.SkillID), postgres.OrNull(f.Principal), postgres.OrNull(f.Before), limit+1, visible)
	if err != nil {
		return nil, uuid.Nil, err
	}
	found, err := pgx.CollectRows(rows, s.store.scanSealed)
	if err != nil {
		return nil, uuid.Nil, err
	}
	list := make([]Connection, len(found))
	for i, c := range found {
		if err := s.store.openSealed(c); err != nil {
			s.Logger.Error("decrypt connection", "connection", c.ID, "error", err)
			c.Error = "its tokens cannot be decrypted with this server's key"
		}
		list[i] = c.Connection
	}
	if len(list) <= limit {
		return list, uuid.Nil, nil
	}
	return list[:limit], list[limit-1].ID, nil
}

// Issuers returns the authorization servers that a skill's server names in its metadata (RFC 9728), for a person to choose
// from. Errors: [ErrNotFound], *[wire.Error].
func (s *Service) Issuers(ctx context.Context, key Key) ([]string, error) {
	t, err := s.store.resolveTarget(ctx, key)
	if err != nil {
		return nil, err
	}
	_, r, err := s.store.readStanding(ctx, t)
	if err != nil {
		return nil, err
	}
	f, err := s.metadata.discoverResource(ctx, t, r.challenge, "")
	if err != nil {
		return nil, err
	}
	return f.Issuers, nil
}

// KeyFor returns the key of the connection that a skill uses for a person: the shared one, or that of the person, as
// [identity.Service.SameAs] returns them.
func (s *Service) KeyFor(ctx context.Context, skillID uuid.UUID, perUser bool, person uuid.UUID) (Key, error) {
	key := Key{SkillID: skillID}
	var err error
	if perUser {
		key.Principal, err = s.Identity.SameAs(ctx, person)
	}
	return key, err
}

// May reports whether a person may connect and disconnect a connection. Operators connect and disconnect shared ones. Only its owner connects a
// personal one, since it gives access to the owner's account; the owner and operators disconnect it.
func (s *Service) May(ctx context.Context, access identity.Access, key Key) (connect, disconnect bool, err error) {
	operator := access.Has(identity.Operator)
	if key.Principal == uuid.Nil {
		return operator, operator, nil
	}
	person, err := s.Identity.SameAs(ctx, access.Person.ID)
	if err != nil {
		return false, false, err
	}
	owner, err := s.Identity.SameAs(ctx, key.Principal)
	if err != nil {
		return false, false, err
	}
	return person == owner, person == owner || operator, nil
}

// Disconnect removes and revokes the tokens of the connection with exactly this key, even if the skill's settings no longer
// lead to it. Calls that need the connection wait until a person connects again. It returns [ErrNotFound] if there is no such
// connection.
func (s *Service) Disconnect(ctx context.Context, by uuid.UUID, key Key) error {
	t, err := s.Target(ctx, key)
	if err != nil {
		return err
	}
	t.Key = key
	defer s.store.dropCached(t.Key)
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		c, err := s.store.findConnection(ctx, tx, byKeySQL+` FOR UPDATE`, t.sqlArgs()...)
		if err != nil {
			return err
		}
		if err := s.revocations.revokeLater(ctx, tx, c, &t); err != nil {
			return err
		}
		need, reason := NeedAgain, "it was disconnected"
		_, err = tx.Exec(ctx, `UPDATE oauth_connections SET sealed = NULL, expires_at = NULL, account = account + 1, connected_at = NULL,
				connected_by = NULL, refreshed_at = NULL, scopes_asked = '{}', scopes_granted = '{}', need = $2, need_reason = $3, need_method = NULL,
				error = NULL, error_at = NULL, updated_at = holdpoint_now() WHERE id = $1`, c.ID, need, reason)
		if err != nil {
			return err
		}
		if err := writeAudit(ctx, tx, c, audit.ConnectionDisconnected, by, map[string]any{"issuer": c.Issuer}); err != nil {
			return err
		}
		return notifyChange(ctx, tx, t.SkillID)
	})
}

// Removed deletes the connections of a skill that tx deletes, and revokes their tokens. It does so in a job, so it does not
// wait for a renewal.
func (s *Service) Removed(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	if s.revocations.river == nil {
		return s.store.forgetSkill(ctx, tx, skillID)
	}
	if _, err := s.revocations.river.InsertTx(ctx, tx, forgetArgs{skillID}, nil); err != nil {
		return fmt.Errorf("insert job that deletes connections: %w", err)
	}
	return nil
}
