package oauthclient

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// renew gets a new token without a person, under the lock of the connection's row. used is the client that the last was
// issued to.
func (s *Service) renew(ctx context.Context, t Target, r refusal, f *found, server *Server, scopes []string, used string) error {
	cl, err := s.renewingClient(ctx, t, server, used)
	if errors.Is(err, errClientGone) {
		return s.abandon(ctx, t, r, f, "the client that it was connected with is not there any more: connect again")
	}
	if err != nil {
		return s.asNeed(ctx, t, err, f, r)
	}
	done, err := s.turns.take(ctx, server.Issuer)
	if err != nil {
		return fail(StepToken, err, "%s is busy with others", plain(server.Issuer, 200))
	}
	n := renewal{service: s, target: t, refusal: r, found: f, server: server, client: cl, scopes: scopes}
	err = func() error {
		defer done()
		return s.inRow(ctx, t, func(tx pgx.Tx, c *connection) error { return n.run(ctx, tx, c) })
	}()
	switch {
	case n.refused != nil && refusedBy(n.refused, t) && r.early:
		return nil // what is left of the token serves on
	case n.refused != nil && refusedBy(n.refused, t):
		return s.spent(ctx, t, r, f)
	case err != nil && n.got != nil:
		return s.keep(ctx, t, n, err)
	case err == nil:
		err = n.refused
	}
	if cl.registered && refusedAs(err, StepToken, "invalid_client", "unauthorized_client") {
		return s.forgotten(ctx, t, r, f, server, cl, err)
	}
	return asTokenError(err)
}

// renewal is one, under the lock of its connection's row.
type renewal struct {
	service *Service
	target  Target
	refusal refusal
	found   *found
	server  *Server
	client  *client
	scopes  []string

	before  *connection // the row as it was
	got     *grant
	refused error // why there is nothing; what had to be stored because of it is
}

func (n *renewal) run(ctx context.Context, tx pgx.Tx, c *connection) error {
	s, t := n.service, n.target
	switch {
	case c.SkillRevision > t.Revision:
		return fail(StepToken, nil, "the skill was changed meanwhile")
	case c.sealed != nil && c.generation > n.refusal.generation && (!n.refusal.insufficient || c.enough(n.refusal)) && c.fits(t):
		return nil // another was faster
	case t.Settings.grant() == grantCode && (c.Issuer != n.server.Issuer || c.Resource != n.found.resource || c.tokens.Refresh == ""):
		return fail(StepToken, nil, "the skill was connected anew meanwhile")
	}
	n.before = c
	if n.refusal.insufficient && c.Issuer == n.server.Issuer && c.Resource == n.found.resource {
		n.scopes = union(c.ScopesAsked, n.scopes) // another may have been given more meanwhile
	}
	if err := postgres.AllowIdle(ctx, tx, waitingIdle); err != nil {
		return err
	}
	identity := c.tokens.IdentityRefresh
	g, err := s.regrant(ctx, t, n.found, n.server, n.client, c, n.scopes, n.refusal)
	if err == nil {
		g.challenge = n.refusal.header
		n.got = g
		failpoint.Hit(failpoint.RefreshBeforeCommit)
		return s.store(ctx, tx, t, c, g)
	}
	n.refused = err
	switch {
	case refusedBy(err, t):
		return s.dropSpent(ctx, tx, c, n.refusal.early)
	case c.tokens.IdentityRefresh != identity: // it was used, and has a successor
		return s.storeTokens(ctx, tx, c, &c.tokens)
	}
	return nil
}

// refusedBy reports whether what the connection is renewed with is no good any more: to the authorization server, or
// to the enterprise's identity provider.
func refusedBy(err error, t Target) bool {
	step := StepToken
	if t.Settings.grant() == grantEnterprise {
		step = StepIdentity
	}
	return !t.Settings.unattended() && refusedAs(err, step, "invalid_grant")
}

// renewingClient is the one that the tokens were issued to, which may have been registered under another public URL.
func (s *Service) renewingClient(ctx context.Context, t Target, server *Server, used string) (*client, error) {
	if used == "" || t.Settings.ClientID != "" || t.Settings.unattended() {
		return s.clientOf(ctx, t, t.own(), server)
	}
	c, err := s.storedClient(ctx, s.Pool, server.Issuer, used)
	if c != nil || err != nil {
		return c, err
	}
	if strings.HasPrefix(used, "https://") { // the URL of its metadata
		return &client{id: used, method: authNone}, nil
	}
	return nil, errClientGone
}

// errClientGone: tokens were issued to a client that is not known any more, since its secret ran out, or the authorization
// server forgot it.
var errClientGone = errors.New("the client is gone")

// abandon gives up what a connection has, and says that a person has to connect again. A token that is still good
// serves on.
func (s *Service) abandon(ctx context.Context, t Target, r refusal, f *found, reason string) error {
	if r.early {
		return fail(StepToken, nil, "%s", reason)
	}
	err := s.inRow(ctx, t, func(tx pgx.Tx, c *connection) error { return s.storeTokens(ctx, tx, c, nil) })
	if err != nil {
		return err
	}
	return s.need(ctx, t, &NeedsConnectionError{Need: NeedAgain, Scopes: r.challenge.Scopes, Reason: reason}, f.issuers, r)
}

// asTokenError names the step of a refusal.
func asTokenError(err error) error {
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return fail(refused.step, nil, "%s", refused.Error())
	}
	return err
}

// asNeed stores what an operator has to do before there can be a client.
func (s *Service) asNeed(ctx context.Context, t Target, err error, f *found, r refusal) error {
	if needs, ok := errors.AsType[*NeedsConnectionError](err); ok {
		return s.need(ctx, t, needs, f.issuers, r)
	}
	return err
}

// dropSpent forgets a refresh token that its server does not take, and after the time of the access token that too.
func (s *Service) dropSpent(ctx context.Context, tx pgx.Tx, c *connection, early bool) error {
	if !early {
		return s.storeTokens(ctx, tx, c, nil)
	}
	left := c.tokens
	left.Refresh, left.Identity, left.IdentityRefresh = "", "", ""
	return s.storeTokens(ctx, tx, c, &left)
}

// storeTokens replaces what is sealed, and nothing else; nil: there is nothing any more.
func (s *Service) storeTokens(ctx context.Context, tx pgx.Tx, c *connection, left *tokens) error {
	var sealed []byte
	if left != nil {
		var err error
		if sealed, err = s.seal(connectionPurpose, c.ID, left); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, `UPDATE oauth_connections SET sealed = $2, updated_at = holdpoint_now() WHERE id = $1`, c.ID, sealed)
	return err
}

// spent says that a person has to connect again.
func (s *Service) spent(ctx context.Context, t Target, r refusal, f *found) error {
	if t.Settings.unattended() {
		return fail(StepToken, nil, "the authorization server refuses: invalid_grant")
	}
	return s.need(ctx, t, &NeedsConnectionError{
		Need: NeedAgain, Scopes: r.challenge.Scopes, Reason: "the authorization server does not renew what was granted: connect again",
	}, f.issuers, r)
}

// forgotten is for a client that its authorization server does not know any more: the next
// connection registers anew.
func (s *Service) forgotten(ctx context.Context, t Target, r refusal, f *found, server *Server, c *client, cause error) error {
	if err := s.unregister(ctx, server.Issuer, c); err != nil {
		return errors.Join(cause, err)
	}
	return s.abandon(ctx, t, r, f, "the authorization server does not know Holdpoint any more: connect again")
}

// keep stores tokens whose first storing failed: what they were got with may be used up. Where somebody connected or
// disconnected meanwhile, they are not wanted any more, and revoked.
func (s *Service) keep(ctx context.Context, t Target, n renewal, cause error) error {
	for try := 1; ; try++ {
		err := s.inRow(ctx, t, func(tx pgx.Tx, c *connection) error {
			if c.generation == n.before.generation && c.account == n.before.account {
				return s.store(ctx, tx, t, c, n.got)
			}
			return s.revokeLater(ctx, tx, n.got.unstored(), &t)
		})
		if err == nil {
			return nil
		}
		s.Logger.Warn("storing new tokens: trying again", "skill", t.Skill, "attempt", try, "error", err)
		if pause.For(ctx, storePause) != nil {
			return errors.Join(cause, err)
		}
	}
}
