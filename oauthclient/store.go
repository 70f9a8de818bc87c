package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Connection is what people may know of a connection.
type Connection struct {
	ID uuid.UUID
	Key
	SkillRevision int64
	Grant         string
	Issuer        string // the authorization server
	Resource      string
	ClientID      string
	ScopesAsked   []string
	ScopesGranted []string
	ExpiresAt     *time.Time // of the access token; nil: it did not say
	Renewable     bool       // without a person
	ConnectedAt   *time.Time // nil: it is not
	ConnectedBy   uuid.UUID  // uuid.Nil: nobody had to
	RefreshedAt   *time.Time
	Need          Need
	Reason        string   // of the need, in plain words
	NeedScopes    []string // that the server asks for besides those that were granted
	Issuers       []string // to choose from
	Error         string   // of the last attempt; empty: it succeeded
	ErrorAt       *time.Time
}

// State says how a connection does.
type State string

// The states of connections.
const (
	StateConnected State = "connected"
	StateNeeds     State = "needs_connection" // somebody has to do something first
	StateExpired   State = "expired"          // its token ran out, and nothing renews it
	StateFailing   State = "failing"          // the last attempt to get a token failed
)

// State is how the connection does. What somebody has to do comes first: nothing else will help.
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

// connection is a row, opened.
type connection struct {
	Connection
	tokens     tokens
	generation int64
	account    int64
	challenge  string
	refused    string    // the method that was, when something is needed
	until      time.Time // until when the access token is good, by Now; zero: nobody knows
	sealed     []byte
}

// tokens are what is stored encrypted.
type tokens struct {
	Access  string `json:"access,omitempty"`
	Type    string `json:"type,omitempty"`
	Refresh string `json:"refresh,omitempty"`
	Life    int64  `json:"life,omitempty"` // seconds of the access token; 0: unknown
	Key     []byte `json:"key,omitempty"`  // that the token is bound to (DPoP), in DER

	// Of the enterprise's identity provider.
	Identity        string `json:"identity,omitempty"` // ID token
	IdentityRefresh string `json:"identity_refresh,omitempty"`
	IdentityIssuer  string `json:"identity_issuer,omitempty"` // whose they are
	IdentityClient  string `json:"identity_client,omitempty"`
}

const (
	connectionPurpose = "oauth connection"
	clientPurpose     = "oauth client"
	flowPurpose       = "oauth flow"
	revokePurpose     = "oauth revocation"
)

const connectionColumns = `id, skill_id, principal_id, skill_revision, grant_type, coalesce(issuer, ''), coalesce(resource, ''),
	coalesce(client_id, ''), scopes_asked, scopes_granted, sealed, expires_at,
	extract(epoch FROM expires_at - holdpoint_now())::float8, generation, account, connected_at, connected_by, refreshed_at,
	coalesce(need, ''), coalesce(need_reason, ''), need_scopes, issuers, coalesce(challenge, ''), coalesce(need_method, ''), coalesce(error, ''), error_at`

func (s *Service) scanSealed(row pgx.CollectableRow) (*connection, error) {
	c := &connection{}
	var principal, by *uuid.UUID
	var left *float64
	err := row.Scan(&c.ID, &c.SkillID, &principal, &c.SkillRevision, &c.Grant, &c.Issuer, &c.Resource,
		&c.ClientID, &c.ScopesAsked, &c.ScopesGranted, &c.sealed, &c.ExpiresAt, &left, &c.generation, &c.account,
		&c.ConnectedAt, &by, &c.RefreshedAt, &c.Need, &c.Reason, &c.NeedScopes, &c.Issuers, &c.challenge, &c.refused, &c.Error, &c.ErrorAt)
	if err != nil {
		return nil, err
	}
	if principal != nil {
		c.Principal = *principal
	}
	if by != nil {
		c.ConnectedBy = *by
	}
	if left != nil {
		c.until = s.Now().Add(time.Duration(*left * float64(time.Second)))
	}
	return c, nil
}

// scan also opens what is sealed.
func (s *Service) scan(row pgx.CollectableRow) (*connection, error) {
	c, err := s.scanSealed(row)
	if err == nil {
		err = s.open(c)
	}
	return c, err
}

func (s *Service) open(c *connection) error {
	if c.sealed == nil {
		return nil
	}
	if err := s.unseal(connectionPurpose, c.ID, c.sealed, &c.tokens); err != nil {
		return fmt.Errorf("read tokens of connection %s: %w", c.ID, err)
	}
	c.Renewable = c.tokens.Refresh != "" || c.Grant == grantClient || c.Grant == grantWorkload || c.tokens.IdentityRefresh != ""
	return nil
}

// read returns a connection, or nil when there is none.
func (s *Service) read(ctx context.Context, db postgres.Querier, where string, args ...any) (*connection, error) {
	rows, err := db.Query(ctx, `SELECT `+connectionColumns+` FROM oauth_connections WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read connection: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, s.scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read connection: %w", err)
	}
	return c, nil
}

const byKey = `skill_id = $1 AND principal_id IS NOT DISTINCT FROM $2`

func (k Key) args() []any { return []any{k.SkillID, postgres.OrNull(k.Principal)} }

// known is a connection from memory; nil: there is none.
func (s *Service) known(ctx context.Context, key Key) (*connection, error) {
	return s.connections.Get(ctx, key, func(ctx context.Context) (*connection, error) {
		return s.read(ctx, s.Pool, byKey, key.args()...)
	})
}

// forget drops what is remembered of a connection.
func (s *Service) forget(key Key) {
	s.connections.DropIf(func(k Key) bool { return k == key })
}

// inRow runs f with the connection, which is made if there is none, and its row locked.
func (s *Service) inRow(ctx context.Context, t Target, f func(tx pgx.Tx, c *connection) error) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make connection: %w", err)
	}
	if _, err := s.Target(ctx, t.Key); err != nil { // a skill that was deleted gets no new connection
		return err
	}
	defer s.forget(t.Key)
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO oauth_connections (id, skill_id, principal_id, skill_revision, grant_type)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			id, t.SkillID, postgres.OrNull(t.Principal), t.Revision, t.Settings.grant())
		if err != nil {
			return fmt.Errorf("make connection: %w", err)
		}
		c, err := s.read(ctx, tx, byKey+` FOR UPDATE`, t.args()...)
		if err == nil && c == nil {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		return f(tx, c)
	})
}

// need stores what somebody has to do. Whoever waits is told by the error that it returns.
func (s *Service) need(ctx context.Context, t Target, n *NeedsConnectionError, issuers []string, r refusal) error {
	n.Key = t.Key
	err := s.inRow(ctx, t, func(tx pgx.Tx, c *connection) error {
		_, err := tx.Exec(ctx, `UPDATE oauth_connections SET need = $2, need_reason = $3, need_scopes = $4, issuers = $5,
				challenge = CASE WHEN skill_revision = $7 THEN coalesce($6, challenge) ELSE $6 END, skill_revision = $7, grant_type = $8, need_method = $9, updated_at = holdpoint_now() WHERE id = $1`,
			c.ID, n.Need, n.Reason, listOf(n.Scopes), listOf(issuers), nullable(r.header), t.Revision, t.Settings.grant(), nullable(r.method))
		if err != nil {
			return fmt.Errorf("store need: %w", err)
		}
		if c.Need == n.Need && c.SkillRevision == t.Revision {
			return nil
		}
		if err := s.audit(ctx, tx, c, "connection.needed", uuid.Nil, map[string]any{"need": n.Need, "reason": n.Reason}); err != nil {
			return err
		}
		return notify(ctx, tx, t.SkillID)
	})
	if err != nil {
		return err
	}
	return n
}

// failed stores why an attempt failed, and returns the error. That it cannot be stored is of no consequence.
func (s *Service) failed(ctx context.Context, t Target, cause error) error {
	var e *Error
	if !errors.As(cause, &e) {
		return cause
	}
	err := s.inRow(ctx, t, func(tx pgx.Tx, c *connection) error {
		_, err := tx.Exec(ctx, `UPDATE oauth_connections SET error = $2, error_at = holdpoint_now(), updated_at = holdpoint_now()
			WHERE id = $1`, c.ID, plain(e.Error(), 4*maxPlain))
		return err
	})
	if err != nil {
		s.Logger.Warn("storing why a skill could not be authorized to", "skill", t.Skill, "error", err)
	}
	s.Logger.Warn("skill could not be authorized to", "skill", t.Skill, "step", e.Step, "error", e.Message)
	return cause
}

// grant is what a token request gave.
type grant struct {
	tokens   tokens
	issuer   string
	resource string
	clientID string
	asked    []string
	granted  []string
	life     time.Duration // of the access token; 0: it did not say
	by       uuid.UUID     // who connected; uuid.Nil: nobody did, it is a renewal or needs no person
	// challenge is what the skill's server said; empty: what it said before holds.
	challenge string
}

// unstored is the connection that there would have been.
func (g *grant) unstored() *connection {
	return &connection{Connection: Connection{Issuer: g.issuer, Resource: g.resource, ClientID: g.clientID}, tokens: g.tokens}
}

// store keeps new tokens, and tells whom it concerns when the connection could not be used before.
func (s *Service) store(ctx context.Context, tx pgx.Tx, t Target, c *connection, g *grant) error {
	sealed, err := s.seal(connectionPurpose, c.ID, g.tokens)
	if err != nil {
		return err
	}
	// A renewal does not give what only a person can grant.
	lacking := c.Need == NeedScope && g.by == uuid.Nil && !includes(g.asked, c.NeedScopes)
	anew := g.by != uuid.Nil || c.sealed == nil || c.Need != NeedNothing && !lacking || c.Issuer != g.issuer || c.Resource != g.resource
	_, err = tx.Exec(ctx, `UPDATE oauth_connections SET sealed = $2, issuer = $3, resource = $4, client_id = $5, scopes_asked = $6,
			scopes_granted = $7, expires_at = CASE WHEN $8::float8 > 0 THEN holdpoint_now() + $8 * interval '1 second' END,
			generation = generation + 1, account = account + CASE WHEN $9 THEN 1 ELSE 0 END, refreshed_at = holdpoint_now(),
			connected_at = CASE WHEN $9 THEN holdpoint_now() ELSE coalesce(connected_at, holdpoint_now()) END,
			connected_by = CASE WHEN $9 THEN $10::uuid ELSE connected_by END,
			need = CASE WHEN $13 THEN need END, need_reason = CASE WHEN $13 THEN need_reason END,
			need_scopes = CASE WHEN $13 THEN need_scopes ELSE '{}' END, issuers = CASE WHEN $13 THEN issuers ELSE '{}' END,
			challenge = CASE WHEN skill_revision = $11 THEN coalesce($14, challenge) ELSE $14 END, error = NULL, error_at = NULL,
			skill_revision = $11, grant_type = $12, updated_at = holdpoint_now() WHERE id = $1`,
		c.ID, sealed, g.issuer, g.resource, g.clientID, listOf(g.asked), listOf(g.granted), g.life.Seconds(), anew,
		postgres.OrNull(g.by), t.Revision, t.Settings.grant(), lacking, nullable(g.challenge))
	if err != nil {
		return fmt.Errorf("store tokens: %w", err)
	}
	// (At the same authorization server the old tokens may hang together with the new ones: they run out.)
	if c.sealed != nil && c.Issuer != g.issuer {
		if err := s.revokeLater(ctx, tx, c, nil); err != nil {
			return err
		}
	}
	if !anew {
		return nil
	}
	err = s.audit(ctx, tx, c, "connection.connected", g.by, map[string]any{
		"issuer": g.issuer, "resource": g.resource, "scopes": listOf(g.granted),
	})
	if err != nil {
		return err
	}
	if g.by == uuid.Nil && c.Need == NeedNothing {
		return nil // whoever asked goes on; nobody else was told to wait
	}
	if err := notify(ctx, tx, t.SkillID); err != nil {
		return err
	}
	if s.Connected == nil {
		return nil
	}
	return s.Connected(ctx, tx, t.Key)
}

func (s *Service) seal(purpose string, id uuid.UUID, v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode secrets: %w", err)
	}
	return s.Box.Seal(text, secret.For(purpose, id))
}

func (s *Service) unseal(purpose string, id uuid.UUID, sealed []byte, v any) error {
	text, err := s.Box.Open(sealed, secret.For(purpose, id))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return errors.New("decode secrets: not of the expected form") // the cause may quote them
	}
	return nil
}

// includes reports whether all of some are among scopes.
func includes(scopes, some []string) bool {
	return !slices.ContainsFunc(some, func(scope string) bool { return !slices.Contains(scopes, scope) })
}

// listOf is never null.
func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
