package oauthclient

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/oauth2"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// flowLife is how long a person may take at the authorization server.
const flowLife = 15 * time.Minute

// flow is an authorization request whose answer is awaited. It is stored encrypted.
type flow struct {
	Target   Target     `json:"target"` // settings included: the answer is for them
	Resource string     `json:"resource"`
	Issuer   string     `json:"issuer"`
	Server   Server     `json:"server"`
	Client   flowClient `json:"client"`
	Scopes   []string   `json:"scopes"`
	Verifier string     `json:"verifier"`
	DPoP     bool       `json:"dpop"`
	Identity bool       `json:"identity"` // with the enterprise's identity provider
	Nonce    string     `json:"nonce"`
}

type flowClient struct {
	ID         string `json:"id"`
	Secret     string `json:"secret"`
	Method     string `json:"method"`
	Registered bool   `json:"registered"`
}

// Request is an authorization request, for a person to take to the authorization server.
type Request struct {
	URL string
	// Issuer gets what comes back. Its metadata says where the URL leads, which may be somebody else's
	// site: a person should see both.
	Issuer string
}

// Begin starts to connect and returns where to send the person. issuer is the authorization
// server that they chose, empty where there is no choice. What comes back goes to
// [Service.Callback], in any process.
//
// Errors: [ErrNotFound], *[NeedsConnectionError] when something else has to be done first, *[Error].
func (s *Service) Begin(ctx context.Context, by uuid.UUID, key Key, issuer string) (Request, error) {
	t, err := s.target(ctx, key)
	if err != nil {
		return Request{}, err
	}
	switch {
	case t.PerUser && t.Principal == uuid.Nil:
		return Request{}, fail(StepAuthorization, nil, "each person has a connection of their own to this skill")
	case t.Settings.unattended():
		return Request{}, fail(StepAuthorization, nil, "the grant %s needs no person", t.Settings.grant())
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	fl, err := s.flowFor(ctx, t, issuer)
	if err != nil {
		return Request{}, s.failed(ctx, t, err)
	}
	state := randomText()
	if err := s.storeFlow(ctx, by, t, fl, state); err != nil {
		return Request{}, err
	}
	return Request{URL: fl.address(s.redirectURI(), state), Issuer: fl.Issuer}, nil
}

// flowFor finds out all that a request is made of.
//
// What a person chose is no more than a choice: the client of the settings stays with the authorization server it belongs to.
func (s *Service) flowFor(ctx context.Context, t Target, chosen string) (*flow, error) {
	c, r, err := s.standing(ctx, t)
	if err != nil {
		return nil, err
	}
	f, err := s.discover(ctx, t, r.challenge, cmp.Or(chosen, c.Issuer))
	if err != nil {
		return nil, err
	}
	issuer, err := f.choose(cmp.Or(t.Settings.Issuer, chosen), c.Issuer)
	if err != nil {
		return nil, err
	}
	server := f.servers[issuer]
	if server == nil {
		return nil, &NeedsConnectionError{
			Key: t.Key, Need: NeedIssuer, Reason: "choose one of the authorization servers: " + plain(strings.Join(f.issuers, ", "), 400),
		}
	}
	if t.Settings.grant() == grantEnterprise {
		return s.identityFlow(ctx, t)
	}
	if err := checkCodeGrant(server); err != nil {
		return nil, err
	}
	cl, err := s.clientOf(ctx, t, t.own(), server)
	if err != nil {
		return nil, err
	}
	scopes, _ := wantedScopes(t, r, c, f, server)
	return &flow{
		Target: t, Resource: f.resource, Issuer: server.Issuer, Server: *server, Scopes: scopes, Verifier: oauth2.GenerateVerifier(),
		Client: flowClient{cl.id, cl.secret, cl.method, cl.registered}, DPoP: f.wantsDPoP(server, r.challenge),
	}, nil
}

// standing is the connection as it is, or an empty one, and what the skill's server said last, unless that was
// another server.
func (s *Service) standing(ctx context.Context, t Target) (*connection, refusal, error) {
	c, err := s.read(ctx, s.Pool, byKey, t.args()...)
	if err != nil {
		return nil, refusal{}, err
	}
	if c == nil {
		c = &connection{}
	}
	if c.SkillRevision != t.Revision {
		return c, refusal{}, nil
	}
	r := refusal{challenge: ParseChallenge([]string{c.challenge}), insufficient: c.Need == NeedScope}
	if c.Need == NeedNothing || c.refused == "" { // it was about something else
		r.challenge.Scopes = nil
	}
	return c, r, nil
}

// address is the authorization request.
func (fl *flow) address(redirectURI, state string) string {
	config := oauth2.Config{
		ClientID: fl.Client.ID, RedirectURL: redirectURI, Scopes: fl.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: fl.Server.AuthorizationEndpoint},
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(fl.Verifier)}
	if fl.Resource != "" {
		options = append(options, oauth2.SetAuthURLParam("resource", fl.Resource))
	}
	if slices.Contains(fl.Scopes, scopeOffline) {
		options = append(options, oauth2.SetAuthURLParam("prompt", "consent")) // OpenID Connect Core section 11 wants it
	}
	if fl.Nonce != "" {
		options = append(options, oauth2.SetAuthURLParam("nonce", fl.Nonce))
	}
	return config.AuthCodeURL(state, options...)
}

func stateHash(state string) []byte {
	sum := sha256.Sum256([]byte(state))
	return sum[:]
}

func (s *Service) storeFlow(ctx context.Context, by uuid.UUID, t Target, fl *flow, state string) error {
	return s.inRow(ctx, t, func(tx pgx.Tx, c *connection) error {
		sealed, err := s.seal(flowPurpose, c.ID, fl)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM oauth_flows WHERE expires_at < holdpoint_now()`)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `INSERT INTO oauth_flows (state_hash, connection_id, person_id, sealed, expires_at)
			VALUES ($1, $2, $3, $4, holdpoint_now() + $5 * interval '1 second')`, stateHash(state), c.ID, by, sealed, flowLife.Seconds())
		return err
	})
}

// Callback takes the answer that an authorization server sent the person back with, once, and completes the
// connection. Errors: [ErrFlow], *[Error].
func (s *Service) Callback(ctx context.Context, by uuid.UUID, answer url.Values) (Key, error) {
	fl, err := s.takeFlow(ctx, by, answer.Get("state"))
	if err != nil {
		return Key{}, err
	}
	// What was begun is ended, whatever becomes of the browser: the code is good once.
	err = s.attempts.run(context.WithoutCancel(ctx), s.base, "callback "+fl.Verifier, func(ctx context.Context) error {
		if err := s.complete(ctx, by, fl, answer); err != nil {
			return s.failed(ctx, fl.Target, asTokenError(err))
		}
		return nil
	})
	return fl.Target.Key, err
}

// takeFlow finds what the answer is about. It is taken by the person who asked only, and once.
func (s *Service) takeFlow(ctx context.Context, by uuid.UUID, state string) (*flow, error) {
	if state == "" || len(state) > 200 {
		return nil, ErrFlow
	}
	var connectionID uuid.UUID
	var sealed []byte
	err := s.Pool.QueryRow(ctx, `DELETE FROM oauth_flows WHERE state_hash = $1 AND person_id = $2 AND expires_at > holdpoint_now()
		RETURNING connection_id, sealed`, stateHash(state), by).Scan(&connectionID, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, ErrFlow
	}
	if err != nil {
		return nil, err
	}
	fl := &flow{}
	return fl, s.unseal(flowPurpose, connectionID, sealed, fl)
}

// complete checks who answered (RFC 9207), and exchanges the code.
func (s *Service) complete(ctx context.Context, by uuid.UUID, fl *flow, answer url.Values) error {
	switch iss, given := answer["iss"]; {
	case len(answer["code"]) > 1 || len(answer["state"]) > 1 || len(iss) > 1:
		return fail(StepAuthorization, nil, "the answer has a parameter twice")
	case given && iss[0] != fl.Server.Issuer:
		return fail(StepAuthorization, nil, "the answer is from %q, but %q was asked", plain(iss[0], 200), plain(fl.Server.Issuer, 200))
	case !given && fl.Server.AuthorizationResponseIssParameterSupported:
		return fail(StepAuthorization, nil, "the answer does not say that it is from %q, as that server promises (iss)", plain(fl.Server.Issuer, 200))
	}
	if code := answer.Get("error"); code != "" {
		text := plain(code, 100)
		if more := answer.Get("error_description"); more != "" {
			text += " (" + plain(more, maxPlain) + ")"
		}
		return fail(StepAuthorization, nil, "the authorization server answered: %s", text)
	}
	if answer.Get("code") == "" {
		return fail(StepAuthorization, nil, "the answer has neither a code nor an error")
	}
	if fl.Identity {
		return s.completeIdentity(ctx, by, fl, answer.Get("code"))
	}
	return s.exchange(ctx, by, fl, answer.Get("code"))
}

// codeRequest is the token request for a code.
func (s *Service) codeRequest(ctx context.Context, fl *flow, code string) (ask, error) {
	cl := &client{id: fl.Client.ID, secret: fl.Client.Secret, method: fl.Client.Method, registered: fl.Client.Registered}
	if err := s.giveKey(ctx, fl.Target.Settings, cl); err != nil {
		return ask{}, err
	}
	a := ask{own: fl.Target.own(), server: &fl.Server, client: cl, params: url.Values{
		"grant_type": {grantCode}, "code": {code}, "redirect_uri": {s.redirectURI()}, "code_verifier": {fl.Verifier}, "resource": {fl.Resource},
	}}
	if !fl.DPoP {
		return a, nil
	}
	var err error
	a.bind, err = newSigningKey()
	return a, err
}

func (s *Service) exchange(ctx context.Context, by uuid.UUID, fl *flow, code string) error {
	a, err := s.codeRequest(ctx, fl, code)
	if err != nil {
		return err
	}
	token, err := s.token(ctx, a)
	if err != nil {
		if a.client.registered && refusedAs(err, StepToken, "invalid_client", "unauthorized_client") {
			return errors.Join(asTokenError(err), s.unregister(ctx, fl.Server.Issuer, a.client))
		}
		return err
	}
	g, err := a.granted(token, fl.Resource, fl.Scopes)
	if err != nil {
		return err
	}
	g.by = by
	return s.storeConsent(ctx, fl.Target, g)
}

// storeConsent stores what a person granted, in a connection that is there: its skill may have been deleted meanwhile.
func (s *Service) storeConsent(ctx context.Context, t Target, g *grant) error {
	defer s.forget(t.Key)
	for try := 1; ; try++ {
		err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
			c, err := s.read(ctx, tx, byKey+` FOR UPDATE`, t.args()...)
			if err == nil && c == nil {
				err = ErrNotFound
			}
			if err != nil {
				return err
			}
			return s.store(ctx, tx, t, c, g)
		})
		if errors.Is(err, ErrNotFound) {
			return errors.Join(err, s.revokeUnused(ctx, g))
		}
		if err == nil {
			return nil
		}
		s.Logger.Warn("storing new tokens: trying again", "skill", t.Skill, "attempt", try, "error", err)
		if pause.For(ctx, storePause) != nil {
			return err
		}
	}
}

// revokeUnused has tokens revoked that came too late for anybody to want them.
func (s *Service) revokeUnused(ctx context.Context, g *grant) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error { return s.revokeLater(ctx, tx, g.unstored(), nil) })
}

// drop forgets a connection that is not needed.
func (s *Service) drop(ctx context.Context, t Target, method string, signed Signed) error {
	defer s.forget(t.Key)
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		c, err := s.read(ctx, tx, byKey+` FOR UPDATE`, t.args()...)
		if err != nil || c == nil || !c.mended(method, signed) {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE oauth_connections SET need = NULL, need_reason = NULL, need_scopes = '{}', issuers = '{}',
				error = NULL, error_at = NULL, updated_at = holdpoint_now() WHERE id = $1`, c.ID); err != nil {
			return err
		}
		if err := s.audit(ctx, tx, c, "connection.unneeded", uuid.Nil, map[string]any{}); err != nil {
			return err
		}
		if err := notify(ctx, tx, t.SkillID); err != nil || s.Connected == nil {
			return err
		}
		return s.Connected(ctx, tx, t.Key)
	})
}
