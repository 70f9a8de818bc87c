package oauthclient

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

// revoker revokes tokens where they were issued (RFC 7009), in jobs (table oauth_revocations).
type revoker struct {
	*Config
	clients  *registrar
	endpoint *wire.TokenClient
	keys     *keyring
	sealer   *sealer
	river    *river.Client[pgx.Tx] // nil until [Service.Start]
}

// revocation holds tokens to be revoked. It is stored encrypted.
type revocation struct {
	Issuer   string      `json:"issuer"`
	Own      string      `json:"own"`
	Client   wire.Client `json:"client"`
	Settings Settings    `json:"settings"` // for the client's key
	Tokens   tokens      `json:"tokens"`
}

// revokeLater inserts a job that revokes a connection's tokens after tx commits. t is the skill's server, if it still exists.
func (r *revoker) revokeLater(ctx context.Context, tx pgx.Tx, c *connection, t *Target) error {
	if c.tokens.Access == "" && c.tokens.Refresh == "" || r.river == nil {
		return nil
	}
	rv := revocation{Issuer: c.Issuer, Tokens: c.tokens, Client: wire.Client{ID: c.ClientID, Method: wire.AuthNone}}
	stored, err := r.clients.storedClient(ctx, tx, c.Issuer, c.ClientID)
	if err != nil {
		return err
	}
	if u, err := url.Parse(c.Resource); err == nil {
		rv.Own = wire.OriginOf(u)
	}
	if t != nil && strings.HasSuffix(t.skillOrigin(), wire.PublicOnly) {
		rv.Own += wire.PublicOnly
	}
	switch {
	case stored != nil:
		rv.Client = *stored
	case t != nil && t.Settings.ClientID == c.ClientID && (t.Settings.Issuer == "" || wire.SameIssuer(t.Settings.Issuer, c.Issuer)):
		rv.Client.Secret, rv.Client.Method, rv.Settings = t.Settings.ClientSecret, t.Settings.AuthMethod, t.Settings
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	sealed, err := r.sealer.sealJSON(revokePurpose, id, rv)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `INSERT INTO oauth_revocations (id, sealed) VALUES ($1, $2)`, id, sealed); err != nil {
		return err
	}
	_, err = r.river.InsertTx(ctx, tx, revokeArgs{id}, nil)
	return err
}

type revokeArgs struct {
	ID uuid.UUID `json:"id"`
}

func (revokeArgs) Kind() string { return "oauth_revoke" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (revokeArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{MaxAttempts: 8} }

type revokeWorker struct {
	river.WorkerDefaults[revokeArgs]
	revoker *revoker
}

// Work implements [river.Worker]. It deletes the tokens after they are revoked, or after the last attempt.
func (w *revokeWorker) Work(ctx context.Context, job *river.Job[revokeArgs]) error {
	err := w.revoker.revokeStored(ctx, job.Args.ID)
	if err != nil && job.Attempt < job.MaxAttempts {
		return err
	}
	if err != nil {
		w.revoker.Logger.Warn("tokens could not be revoked, and stay valid until they expire", "error", err)
	}
	_, err = w.revoker.Pool.Exec(ctx, `DELETE FROM oauth_revocations WHERE id = $1`, job.Args.ID)
	return err
}

func (r *revoker) revokeStored(ctx context.Context, id uuid.UUID) error {
	var sealed []byte
	err := r.Pool.QueryRow(ctx, `SELECT sealed FROM oauth_revocations WHERE id = $1`, id).Scan(&sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	var rv revocation
	if err := r.sealer.unsealJSON(revokePurpose, id, sealed, &rv); err != nil {
		return err
	}
	server, err := r.endpoint.Fetch.ReadServer(ctx, rv.Own, rv.Issuer)
	if err != nil {
		return err
	}
	if server == nil || server.RevocationEndpoint == "" {
		return nil // the server does not support revocation; the tokens expire
	}
	cl := &rv.Client
	if cl.Method == "" {
		cl.Method = methodFor(rv.Settings, server)
	}
	if err := r.keys.addSigningKey(ctx, rv.Settings, cl); err != nil {
		return err
	}
	for _, token := range []struct{ value, hint string }{{rv.Tokens.Refresh, "refresh_token"}, {rv.Tokens.Access, "access_token"}} {
		if token.value == "" {
			continue
		}
		if err := r.endpoint.RevokeToken(ctx, rv.Own, server, cl, token.value, token.hint); err != nil {
			return err
		}
	}
	return nil
}

// forgetArgs is the job that deletes a skill's connections.
type forgetArgs struct {
	SkillID uuid.UUID `json:"skill_id"`
}

func (forgetArgs) Kind() string { return "oauth_forget" }

type forgetWorker struct {
	river.WorkerDefaults[forgetArgs]
	store *store
}

// Work implements [river.Worker].
func (w *forgetWorker) Work(ctx context.Context, job *river.Job[forgetArgs]) error {
	return postgres.InTx(ctx, w.store.Pool, func(tx pgx.Tx) error { return w.store.forgetSkill(ctx, tx, job.Args.SkillID) })
}
