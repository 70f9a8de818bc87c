package oauthclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// revocation is what is to be revoked where it was issued (RFC 7009). It is stored encrypted.
type revocation struct {
	Issuer   string     `json:"issuer"`
	Own      string     `json:"own"`
	Client   flowClient `json:"client"`
	Settings Settings   `json:"settings"` // for the client's key
	Tokens   tokens     `json:"tokens"`
}

type revokeArgs struct {
	ID uuid.UUID `json:"id"`
}

func (revokeArgs) Kind() string { return "oauth_revoke" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (revokeArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 8} }

type revokeWorker struct {
	river.WorkerDefaults[revokeArgs]
	service *Service
}

// Work revokes, and forgets the tokens when that is done, or when no more can be done.
func (w *revokeWorker) Work(ctx context.Context, job *river.Job[revokeArgs]) error {
	s := w.service
	err := s.revoke(ctx, job.Args.ID)
	if err != nil && job.Attempt < job.MaxAttempts {
		return err
	}
	if err != nil {
		s.Logger.Warn("tokens could not be revoked; they run out by themselves", "error", err)
	}
	_, err = s.Pool.Exec(ctx, `DELETE FROM oauth_revocations WHERE id = $1`, job.Args.ID)
	return err
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &revokeWorker{service: s})
	river.AddWorker(workers, &forgetWorker{service: s})
}

// revokeLater has a connection's tokens revoked after tx commits.
func (s *Service) revokeLater(ctx context.Context, tx pgx.Tx, c *connection, t *Target) error {
	if c.tokens.Access == "" && c.tokens.Refresh == "" || s.river == nil {
		return nil
	}
	rv := revocation{Issuer: c.Issuer, Tokens: c.tokens, Client: flowClient{ID: c.ClientID, Method: authNone}}
	stored, err := s.storedClient(ctx, tx, c.Issuer, c.ClientID)
	if err != nil {
		return err
	}
	if u, err := url.Parse(c.Resource); err == nil {
		rv.Own = ownOf(u)
	}
	if t != nil && strings.HasSuffix(t.own(), publicOnly) {
		rv.Own += publicOnly
	}
	switch {
	case stored != nil:
		rv.Client = flowClient{stored.id, stored.secret, stored.method, true}
	case t != nil && t.Settings.ClientID == c.ClientID && (t.Settings.Issuer == "" || sameIssuer(t.Settings.Issuer, c.Issuer)):
		rv.Client.Secret, rv.Client.Method, rv.Settings = t.Settings.ClientSecret, t.Settings.AuthMethod, t.Settings
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	sealed, err := s.seal(revokePurpose, id, rv)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO oauth_revocations (id, sealed) VALUES ($1, $2)`, id, sealed); err != nil {
		return err
	}
	_, err = s.river.InsertTx(ctx, tx, revokeArgs{id}, nil)
	return err
}

func (s *Service) revoke(ctx context.Context, id uuid.UUID) error {
	var sealed []byte
	err := s.Pool.QueryRow(ctx, `SELECT sealed FROM oauth_revocations WHERE id = $1`, id).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var rv revocation
	if err := s.unseal(revokePurpose, id, sealed, &rv); err != nil {
		return err
	}
	server, err := s.serverMetadata(ctx, rv.Own, rv.Issuer)
	if err != nil {
		return err
	}
	if server == nil || server.RevocationEndpoint == "" {
		return nil // it does not offer this: they run out
	}
	cl := &client{id: rv.Client.ID, secret: rv.Client.Secret, method: rv.Client.Method}
	if cl.method == "" {
		cl.method = methodFor(rv.Settings, server)
	}
	if err := s.giveKey(ctx, rv.Settings, cl); err != nil {
		return err
	}
	for _, token := range []struct{ value, hint string }{{rv.Tokens.Refresh, "refresh_token"}, {rv.Tokens.Access, "access_token"}} {
		if token.value == "" {
			continue
		}
		if err := s.revokeOne(ctx, rv.Own, server, cl, token.value, token.hint); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) revokeOne(ctx context.Context, own string, server *Server, cl *client, token, hint string) error {
	u, err := s.checkURL(own, server.RevocationEndpoint)
	if err != nil {
		return err
	}
	form, err := s.authenticate(ask{server: server, client: cl, params: url.Values{"token": {token}, "token_type_hint": {hint}}})
	if err != nil {
		return err
	}
	if cl.method != authBasic {
		form.Set("client_id", cl.id)
	}
	if cl.method == authPost {
		form.Set("client_secret", cl.secret)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if cl.method == authBasic {
		r.SetBasicAuth(url.QueryEscape(cl.id), url.QueryEscape(cl.secret))
	}
	response, err := s.client(own).Do(r)
	if err != nil {
		return fail(StepToken, err, "revocation_endpoint: %s", dialMessage(err))
	}
	_ = response.Body.Close()
	if response.StatusCode >= 500 {
		return fail(StepToken, nil, "revocation_endpoint answered HTTP %d", response.StatusCode)
	}
	return nil // what it refuses it does not know any more
}

// Disconnect forgets the tokens of the connection with this very key, be it one that the skill's settings do not
// lead to any more, and has them revoked. Calls that need it wait for somebody to connect again. [ErrNotFound].
func (s *Service) Disconnect(ctx context.Context, by uuid.UUID, key Key) error {
	t, err := s.Target(ctx, key)
	if err != nil {
		return err
	}
	t.Key = key
	defer s.forget(t.Key)
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		c, err := s.read(ctx, tx, byKey+` FOR UPDATE`, t.args()...)
		if err == nil && c == nil {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := s.revokeLater(ctx, tx, c, &t); err != nil {
			return err
		}
		need, reason := NeedAgain, "it was disconnected"
		_, err = tx.Exec(ctx, `UPDATE oauth_connections SET sealed = NULL, expires_at = NULL, account = account + 1, connected_at = NULL,
				connected_by = NULL, refreshed_at = NULL, scopes_asked = '{}', scopes_granted = '{}', need = $2, need_reason = $3, need_method = NULL,
				error = NULL, error_at = NULL, updated_at = holdpoint_now() WHERE id = $1`, c.ID, need, reason)
		if err != nil {
			return err
		}
		if err := s.audit(ctx, tx, c, "connection.disconnected", by, map[string]any{"issuer": c.Issuer}); err != nil {
			return err
		}
		return notify(ctx, tx, t.SkillID)
	})
}

// Removed has the connections of a skill, which is deleted in tx, forgotten and their tokens revoked. It waits for no
// renewal that is under way.
func (s *Service) Removed(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	if s.river == nil {
		return s.forgetSkill(ctx, tx, skillID)
	}
	if _, err := s.river.InsertTx(ctx, tx, forgetArgs{skillID}, nil); err != nil {
		return fmt.Errorf("insert job that forgets connections: %w", err)
	}
	return nil
}

type forgetArgs struct {
	SkillID uuid.UUID `json:"skill_id"`
}

func (forgetArgs) Kind() string { return "oauth_forget" }

type forgetWorker struct {
	river.WorkerDefaults[forgetArgs]
	service *Service
}

func (w *forgetWorker) Work(ctx context.Context, job *river.Job[forgetArgs]) error {
	return postgres.InTx(ctx, w.service.Pool, func(tx pgx.Tx) error { return w.service.forgetSkill(ctx, tx, job.Args.SkillID) })
}

func (s *Service) forgetSkill(ctx context.Context, tx pgx.Tx, skillID uuid.UUID) error {
	rows, err := tx.Query(ctx, `SELECT `+connectionColumns+` FROM oauth_connections WHERE skill_id = $1 FOR UPDATE`, skillID)
	if err != nil {
		return err
	}
	all, err := pgx.CollectRows(rows, s.scan)
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := s.revokeLater(ctx, tx, c, nil); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM oauth_connections WHERE skill_id = $1`, skillID); err != nil {
		return err
	}
	return notify(ctx, tx, skillID)
}

// Filter selects connections. Zero fields select all.
type Filter struct {
	SkillID uuid.UUID
	// VisibleTo: only the connections of this person, and of whom they are the same as, and those that all share.
	VisibleTo uuid.UUID
	// Principal: only the connections of this person, who is whom [identity.Service.SameAs] says.
	Principal uuid.UUID
	Before    uuid.UUID // only older ones: the cursor
	Limit     int       // at most 200; zero: 50
}

// List returns connections, newest first, and the cursor of the next page (uuid.Nil: none).
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
	found, err := pgx.CollectRows(rows, s.scanSealed)
	if err != nil {
		return nil, uuid.Nil, err
	}
	list := make([]Connection, len(found))
	for i, c := range found {
		if err := s.open(c); err != nil {
			s.Logger.Error("a connection cannot be read", "connection", c.ID, "error", err)
			c.Error = "its tokens cannot be decrypted with this server's key"
		}
		list[i] = c.Connection
	}
	if len(list) <= limit {
		return list, uuid.Nil, nil
	}
	return list[:limit], list[limit-1].ID, nil
}

// Get returns one connection, or ErrNotFound.
func (s *Service) Get(ctx context.Context, id uuid.UUID) (Connection, error) {
	c, err := s.read(ctx, s.Pool, `id = $1`, id)
	if err == nil && c == nil {
		err = ErrNotFound
	}
	if err != nil {
		return Connection{}, err
	}
	return c.Connection, nil
}

// Connected reports whether there is a token that nothing is known to be missing of.
func (c Connection) Connected() bool { return c.ConnectedAt != nil && c.Need == NeedNothing }

// Expired reports whether the access token has run out and nothing can renew it.
func (c Connection) Expired(now time.Time) bool {
	return c.ExpiresAt != nil && !c.Renewable && !c.ExpiresAt.After(now)
}
