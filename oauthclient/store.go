package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// connection is a decrypted row of oauth_connections.
type connection struct {
	Connection
	tokens     tokens
	generation int64
	account    int64
	challenge  string
	needMethod string    // the MCP method that was refused, if something is needed
	until      time.Time // when the access token expires, by Now; zero: unknown
	sealed     []byte
}

// tokens are the secrets of a connection. They are stored encrypted.
type tokens struct {
	Access  string `json:"access,omitempty"`
	Type    string `json:"type,omitempty"`
	Refresh string `json:"refresh,omitempty"`
	Life    int64  `json:"life,omitempty"` // the lifetime of the access token in seconds; 0: unknown
	Key     []byte `json:"key,omitempty"`  // the key that the access token is bound to (RFC 9449), in DER

	// What the enterprise's identity provider issued.
	Identity        string `json:"identity,omitempty"` // ID token
	IdentityRefresh string `json:"identity_refresh,omitempty"`
	IdentityIssuer  string `json:"identity_issuer,omitempty"` // the identity provider
	IdentityClient  string `json:"identity_client,omitempty"`
}

// boundKey returns the key that the access token is bound to; nil: it is a bearer token.
func (t *tokens) boundKey() (*wire.SigningKey, error) {
	if len(t.Key) == 0 {
		return nil, nil
	}
	return wire.ParseECKey(t.Key)
}

func (c *connection) tokenAccount() Account { return Account{c.ID, c.account} }

// coversRefusal reports whether the present tokens were requested with all scopes that the refusal of older tokens asks for.
func (c *connection) coversRefusal(r refusal) bool {
	return r.generation > 0 && c.Need == NeedNothing && includesAll(c.ScopesAsked, r.challenge.Scopes)
}

// isForTarget reports whether the tokens are for the skill's server with its present settings.
func (c *connection) isForTarget(t Target) bool { return wire.CoversURL(c.Resource, t.URL) }

// store reads and writes connections (table oauth_connections) and caches them.
type store struct {
	*Config
	revocations *revoker
	sealer      *sealer
	cache       *registry.Memory[Key, *connection]
}

// resolveTarget returns the target of a key, with the person whose connection is used.
func (s *store) resolveTarget(ctx context.Context, key Key) (Target, error) {
	t, err := s.Target(ctx, key)
	if err != nil {
		return Target{}, err
	}
	return s.resolvePrincipal(ctx, t)
}

// resolvePrincipal sets the principal to the person whose connection is used.
func (s *store) resolvePrincipal(ctx context.Context, t Target) (Target, error) {
	if !t.PerUser {
		t.Principal = uuid.Nil
		return t, nil
	}
	var err error
	t.Principal, err = s.Identity.SameAs(ctx, t.Principal)
	return t, err
}

// cachedConnection returns a connection from the cache, or nil if there is none.
func (s *store) cachedConnection(ctx context.Context, key Key) (*connection, error) {
	return s.cache.Get(ctx, key, func(ctx context.Context) (*connection, error) {
		return s.readConnection(ctx, s.Pool, byKeySQL, key.sqlArgs()...)
	})
}

func (s *store) dropCached(key Key) {
	s.cache.DropIf(func(k Key) bool { return k == key })
}

// readConnection returns the connection that the condition selects, or nil if there is none.
func (s *store) readConnection(ctx context.Context, db postgres.Querier, where string, args ...any) (*connection, error) {
	c, err := s.findConnection(ctx, db, where, args...)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return c, err
}

// findConnection returns the connection that the condition selects, or [ErrNotFound].
func (s *store) findConnection(ctx context.Context, db postgres.Querier, where string, args ...any) (*connection, error) {
	rows, err := db.Query(ctx, `SELECT `+connectionColumns+` FROM oauth_connections WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read connection: %w", err)
	}
	c, err := pgx.CollectExactlyOneRow(rows, s.scanConnection)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read connection: %w", err)
	}
	return c, nil
}

const byKeySQL = `skill_id = $1 AND principal_id IS NOT DISTINCT FROM $2`

func (k Key) sqlArgs() []any { return []any{k.SkillID, postgres.OrNull(k.Principal)} }

const connectionColumns = `id, skill_id, principal_id, skill_revision, grant_type, coalesce(issuer, ''), coalesce(resource, ''),
	coalesce(client_id, ''), scopes_asked, scopes_granted, sealed, expires_at,
	extract(epoch FROM expires_at - holdpoint_now())::float8, generation, account, connected_at, connected_by, refreshed_at,
	coalesce(need, ''), coalesce(need_reason, ''), need_scopes, issuers, coalesce(challenge, ''), coalesce(need_method, ''), coalesce(error, ''), error_at`

// scanConnection reads a row and decrypts its tokens.
func (s *store) scanConnection(row pgx.CollectableRow) (*connection, error) {
	c, err := s.scanSealed(row)
	if err == nil {
		err = s.openSealed(c)
	}
	return c, err
}

// scanSealed reads a row and leaves its tokens encrypted.
func (s *store) scanSealed(row pgx.CollectableRow) (*connection, error) {
	c := &connection{}
	var principal, by *uuid.UUID
	var left *float64
	err := row.Scan(&c.ID, &c.SkillID, &principal, &c.SkillRevision, &c.Grant, &c.Issuer, &c.Resource,
		&c.ClientID, &c.ScopesAsked, &c.ScopesGranted, &c.sealed, &c.ExpiresAt, &left, &c.generation, &c.account,
		&c.ConnectedAt, &by, &c.RefreshedAt, &c.Need, &c.Reason, &c.NeedScopes, &c.Issuers, &c.challenge, &c.needMethod, &c.Error, &c.ErrorAt)
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

func (s *store) openSealed(c *connection) error {
	if c.sealed == nil {
		return nil
	}
	if err := s.sealer.unsealJSON(connectionPurpose, c.ID, c.sealed, &c.tokens); err != nil {
		return fmt.Errorf("read tokens of connection %s: %w", c.ID, err)
	}
	c.Renewable = c.tokens.Refresh != "" || c.Grant == grantClient || c.Grant == grantWorkload || c.tokens.IdentityRefresh != ""
	return nil
}

// withLockedRow runs f in a transaction with the connection's row locked. It inserts the row if there is none.
func (s *store) withLockedRow(ctx context.Context, t Target, f func(tx pgx.Tx, c *connection) error) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make connection: %w", err)
	}
	if _, err := s.Target(ctx, t.Key); err != nil { // a deleted skill gets no new connection
		return err
	}
	defer s.dropCached(t.Key)
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO oauth_connections (id, skill_id, principal_id, skill_revision, grant_type)
			VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
			id, t.SkillID, postgres.OrNull(t.Principal), t.Revision, t.Settings.grantType())
		if err != nil {
			return fmt.Errorf("make connection: %w", err)
		}
		c, err := s.findConnection(ctx, tx, byKeySQL+` FOR UPDATE`, t.sqlArgs()...)
		if err != nil {
			return err
		}
		return f(tx, c)
	})
}

// readStanding returns the connection, or an empty one, and the last refusal by the skill's server if it was by the server of
// the present settings.
func (s *store) readStanding(ctx context.Context, t Target) (*connection, refusal, error) {
	c, err := s.readConnection(ctx, s.Pool, byKeySQL, t.sqlArgs()...)
	if err != nil {
		return nil, refusal{}, err
	}
	if c == nil {
		c = &connection{}
	}
	if c.SkillRevision != t.Revision {
		return c, refusal{}, nil
	}
	r := refusal{challenge: wire.ParseChallenge([]string{c.challenge}), insufficient: c.Need == NeedScope}
	if c.Need == NeedNothing || c.needMethod == "" { // the challenge was not about the present need
		r.challenge.Scopes = nil
	}
	return c, r, nil
}

// storeNeed stores a need and returns n, or the error of storing it.
func (s *store) storeNeed(ctx context.Context, t Target, n *NeedsConnectionError, issuers []string, r refusal) error {
	n.Key = t.Key
	err := s.withLockedRow(ctx, t, func(tx pgx.Tx, c *connection) error {
		_, err := tx.Exec(ctx, `UPDATE oauth_connections SET need = $2, need_reason = $3, need_scopes = $4, issuers = $5,
				challenge = CASE WHEN skill_revision = $7 THEN coalesce($6, challenge) ELSE $6 END, skill_revision = $7, grant_type = $8, need_method = $9, updated_at = holdpoint_now() WHERE id = $1`,
			c.ID, n.Need, n.Reason, nonNilList(n.Scopes), nonNilList(issuers), nullIfEmpty(r.header), t.Revision, t.Settings.grantType(), nullIfEmpty(r.method))
		if err != nil {
			return fmt.Errorf("store need: %w", err)
		}
		if c.Need == n.Need && c.SkillRevision == t.Revision {
			return nil
		}
		if err := writeAudit(ctx, tx, c, audit.ConnectionNeeded, uuid.Nil, map[string]any{"need": n.Need, "reason": n.Reason}); err != nil {
			return err
		}
		return notifyChange(ctx, tx, t.SkillID)
	})
	if err != nil {
		return err
	}
	return n
}

// clearNeed removes a need that an accepted request showed to be gone.
func (s *store) clearNeed(ctx context.Context, t Target, method string, signed Signed) error {
	defer s.dropCached(t.Key)
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		c, err := s.readConnection(ctx, tx, byKeySQL+` FOR UPDATE`, t.sqlArgs()...)
		if err != nil || c == nil || !c.showsNeedGone(method, signed) {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE oauth_connections SET need = NULL, need_reason = NULL, need_scopes = '{}', issuers = '{}',
				error = NULL, error_at = NULL, updated_at = holdpoint_now() WHERE id = $1`, c.ID); err != nil {
			return err
		}
		if err := writeAudit(ctx, tx, c, audit.ConnectionUnneeded, uuid.Nil, map[string]any{}); err != nil {
			return err
		}
		if err := notifyChange(ctx, tx, t.SkillID); err != nil || s.Connected == nil {
			return err
		}
		return s.Connected(ctx, tx, t.Key)
	})
}

// storeFailure stores why an attempt failed, and returns cause. It stores nothing if cause is nil, and only logs an error of
// storing.
func (s *store) storeFailure(ctx context.Context, t Target, cause error) error {
	var e *wire.Error
	if !errors.As(cause, &e) {
		return cause
	}
	err := s.withLockedRow(ctx, t, func(tx pgx.Tx, c *connection) error {
		_, err := tx.Exec(ctx, `UPDATE oauth_connections SET error = $2, error_at = holdpoint_now(), updated_at = holdpoint_now()
			WHERE id = $1`, c.ID, plain.Line(e.Error(), 4*wire.MaxText))
		return err
	})
	if err != nil {
		s.Logger.Warn("store authorization failure", "skill", t.Skill, "error", err)
	}
	s.Logger.Warn("authorization to a skill failed", "skill", t.Skill, "step", e.Step, "error", e.Message)
	return cause
}

// grant is the result of a token request.
type grant struct {
	tokens   tokens
	issuer   string
	resource string
	clientID string
	asked    []string
	granted  []string
	life     time.Duration // the lifetime of the access token; 0: unknown
	by       uuid.UUID     // the person who connected; uuid.Nil: a renewal, or a grant without a person
	// challenge is the skill server's last challenge; empty: the stored one stays.
	challenge string
}

// asConnection returns the connection that the grant would have made, for revocation.
func (g *grant) asConnection() *connection {
	return &connection{Connection: Connection{Issuer: g.issuer, Resource: g.resource, ClientID: g.clientID}, tokens: g.tokens}
}

// storeGrant stores new tokens. If the connection was not usable before, it also records, announces and reports that.
func (s *store) storeGrant(ctx context.Context, tx pgx.Tx, t Target, c *connection, g *grant) error {
	sealed, err := s.sealer.sealJSON(connectionPurpose, c.ID, g.tokens)
	if err != nil {
		return err
	}
	// A renewal cannot satisfy a need for scopes that only a person can grant.
	lacking := c.Need == NeedScope && g.by == uuid.Nil && !includesAll(g.asked, c.NeedScopes)
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
		c.ID, sealed, g.issuer, g.resource, g.clientID, nonNilList(g.asked), nonNilList(g.granted), g.life.Seconds(), anew,
		postgres.OrNull(g.by), t.Revision, t.Settings.grantType(), lacking, nullIfEmpty(g.challenge))
	if err != nil {
		return fmt.Errorf("store tokens: %w", err)
	}
	// At the same authorization server, revoking the old tokens could revoke the new ones too (RFC 7009 section 2.1), so the
	// old ones are left to expire.
	if c.sealed != nil && c.Issuer != g.issuer {
		if err := s.revocations.revokeLater(ctx, tx, c, nil); err != nil {
			return err
		}
	}
	if !anew {
		return nil
	}
	err = writeAudit(ctx, tx, c, audit.ConnectionConnected, g.by, map[string]any{
		"issuer": g.issuer, "resource": g.resource, "scopes": nonNilList(g.granted),
	})
	if err != nil {
		return err
	}
	if g.by == uuid.Nil && c.Need == NeedNothing {
		return nil // no call waits for this connection
	}
	if err := notifyChange(ctx, tx, t.SkillID); err != nil {
		return err
	}
	if s.Connected == nil {
		return nil
	}
	return s.Connected(ctx, tx, t.Key)
}

// storeTokens replaces the encrypted tokens and nothing else; nil removes them.
func (s *store) storeTokens(ctx context.Context, tx pgx.Tx, c *connection, left *tokens) error {
	var sealed []byte
	if left != nil {
		var err error
		if sealed, err = s.sealer.sealJSON(connectionPurpose, c.ID, left); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE oauth_connections SET sealed = $2, updated_at = holdpoint_now() WHERE id = $1`, c.ID, sealed)
	return err
}

// forgetSkill deletes a skill's connections and revokes their tokens.
func (s *store) forgetSkill(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	rows, err := tx.Query(ctx, `SELECT `+connectionColumns+` FROM oauth_connections WHERE skill_id = $1 FOR UPDATE`, skillID)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, s.scanConnection)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := s.revocations.revokeLater(ctx, tx, c, nil); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM oauth_connections WHERE skill_id = $1`, skillID); err != nil {
		return err
	}
	return notifyChange(ctx, tx, skillID)
}

// notifyChange announces a change of a skill's connections when tx commits.
func notifyChange(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, $2)`, Channel, skillID.String()); err != nil {
		return fmt.Errorf("notify %s: %w", Channel, err)
	}
	return nil
}

// writeAudit records an event of a connection. by is the acting person; uuid.Nil: the system.
func writeAudit(ctx context.Context, tx pgx.Tx, c *connection, action audit.Action, by uuid.UUID, data map[string]any) error {
	actor := audit.System()
	if by != uuid.Nil {
		actor = audit.Person(by)
	}
	data["skill"] = c.SkillID
	if c.Principal != uuid.Nil {
		data["person"] = c.Principal
	}
	return audit.Write(ctx, tx, audit.Event{Actor: actor, Action: action, Subject: c.ID, Data: data})
}

// includesAll reports whether scopes contains all of wanted.
func includesAll(scopes, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(scope string) bool { return !slices.Contains(scopes, scope) })
}

// nonNilList makes an empty list of nil: the columns are not null.
func nonNilList(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func nullIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
