package oauthclient

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

const (
	// renewBefore is how long before its end a token is renewed, or a fifth of its lifetime if that is shorter.
	renewBefore = time.Minute

	// MaxRounds is how often a request may be refused with a challenge before it fails.
	MaxRounds = 3
)

// Handler authorizes requests to one skill's server, on behalf of a person or of no particular person: callers pass each
// request to [Handler.Sign] and each answer to [Handler.Answered].
type Handler struct {
	service *Service
	target  Target
}

// Handler returns the handler for a target. It does no work.
func (s *Service) Handler(t Target) *Handler { return &Handler{s, t} }

// Signed says how a request was signed. The zero Signed is a request without a token.
type Signed struct {
	generation int64
	dpop       bool
	nonce      string // the DPoP nonce in the proof
	// Account identifies the account at the skill that the token is for. It changes when a person connects.
	Account Account
}

// Account identifies whose tokens a connection holds. The zero Account is no account.
type Account struct {
	connection uuid.UUID
	times      int64 // how often a person connected or disconnected
}

// Sign adds the connection's access token to a request to its resource (RFC 6750 section 2.1), with a DPoP proof if the token
// is bound to a key. Without a token, and for other resources, it adds nothing. A token that is about to expire is renewed
// first. Sign sends nothing to the skill's server.
func (h *Handler) Sign(ctx context.Context, r *http.Request) (Signed, error) {
	s := h.service
	t, err := h.resolveTarget(ctx)
	if err != nil {
		return Signed{}, err
	}
	c, err := h.currentConnection(ctx, t)
	if err != nil || c == nil {
		return Signed{}, err
	}
	signed := Signed{generation: c.generation, Account: c.tokenAccount()}
	if !wire.CoversURL(c.Resource, r.URL.String()) {
		return Signed{Account: c.tokenAccount()}, nil
	}
	key, err := c.tokens.boundKey()
	if err != nil {
		return Signed{}, err
	}
	if signed.dpop = key != nil; signed.dpop {
		signed.nonce = s.endpoint.LastNonce(r.URL)
		proof, err := key.DPoPProof(r.Method, r.URL.String(), c.tokens.Access, signed.nonce, s.Now())
		if err != nil {
			return Signed{}, err
		}
		r.Header.Set(wire.HeaderProof, proof)
	}
	r.Header.Set("Authorization", c.tokens.Type+" "+c.tokens.Access)
	return signed, nil
}

// Answered takes the status and the header of a response. again: there is a better token, and the request may be sent again. A
// server that refuses with 401 or 403 (RFC 6750 section 3.1) has not acted on the request. The error is a
// *[NeedsConnectionError] if a person has to act, otherwise an *[wire.Error].
//
// method is the MCP method of the request: that a server accepts one method without a token does not mean that it accepts
// others.
func (h *Handler) Answered(ctx context.Context, r *http.Request, method string, status int, header http.Header, signed Signed) (again bool, err error) {
	nonce := h.service.endpoint.NoteNonce(r.URL, header)
	header = redactToken(header, r.Header.Get("Authorization"))
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return false, nil
	}
	challenge := wire.ParseChallenge(header.Values("Www-Authenticate"))
	switch {
	case status == http.StatusUnauthorized && challenge.Error == "use_dpop_nonce" && signed.dpop:
		return nonce != "" && nonce != signed.nonce, nil
	case status == http.StatusForbidden && challenge.Error != "insufficient_scope":
		return false, nil
	}
	t, err := h.resolveTarget(ctx)
	if err != nil {
		return false, err
	}
	err = h.service.authorizer.authorize(ctx, t, refusal{
		challenge: challenge, header: joinChallenges(header), generation: signed.generation, insufficient: status == http.StatusForbidden,
		method: method,
	})
	return err == nil, err
}

// Accepted reports that the server accepted a request. It clears a need that a refusal of this method caused, except a need
// for scopes, which only some tools have.
func (h *Handler) Accepted(ctx context.Context, method string, signed Signed) {
	t, err := h.resolveTarget(ctx)
	if err != nil || t.lacksPrincipal() {
		return
	}
	if c, err := h.service.store.cachedConnection(ctx, t.Key); err != nil || c == nil || !c.showsNeedGone(method, signed) {
		return
	}
	if err := h.service.store.clearNeed(ctx, t, method, signed); err != nil {
		h.service.Logger.Warn("clear a connection's need", "skill", t.Skill, "error", err)
	}
}

// GaveUp records that the server refuses every token, however new.
func (h *Handler) GaveUp(ctx context.Context, header http.Header) {
	t, err := h.resolveTarget(ctx)
	if err != nil {
		return
	}
	if c, err := h.service.store.cachedConnection(ctx, t.Key); err == nil && c != nil {
		header = redactToken(header, "Bearer "+c.tokens.Access)
	}
	c := wire.ParseChallenge(header.Values("Www-Authenticate"))
	_ = h.service.store.storeFailure(ctx, t, wire.NewError(wire.StepToken, nil, "the skill's server refuses the tokens that its authorization server issues for it: %s %s",
		plain.Line(c.Error, 100), c.ErrorDescription))
}

// Ready returns a *[NeedsConnectionError] if it is known that a person has to act before the skill's server can be used. It
// sends no request.
func (h *Handler) Ready(ctx context.Context) error {
	t, err := h.resolveTarget(ctx)
	if err != nil {
		return err
	}
	if t.lacksPrincipal() {
		return nil
	}
	c, err := h.service.store.cachedConnection(ctx, t.Key)
	if err != nil || c == nil {
		return err
	}
	// A need found with earlier settings may be gone.
	if c.Need == NeedNothing || c.SkillRevision != t.Revision {
		return nil
	}
	return &NeedsConnectionError{Key: t.Key, Need: c.Need, Reason: c.Reason, Scopes: c.NeedScopes}
}

func (h *Handler) resolveTarget(ctx context.Context) (Target, error) {
	return h.service.store.resolvePrincipal(ctx, h.target)
}

// currentConnection returns the connection, renewed if its token is about to expire, or nil if there is no token.
func (h *Handler) currentConnection(ctx context.Context, t Target) (*connection, error) {
	s := h.service
	if t.lacksPrincipal() {
		return nil, nil
	}
	c, err := s.store.cachedConnection(ctx, t.Key)
	if err != nil || c == nil || c.tokens.Access == "" {
		return nil, err
	}
	if !c.isExpiring(s.Now()) || !c.Renewable || !c.isForTarget(t) {
		return c, nil
	}
	good := c.until.After(s.Now())
	if good && s.authorizer.backoffs.isBackingOff(t.Key, s.Now()) {
		return c, nil
	}
	err = s.authorizer.authorize(ctx, t, refusal{generation: c.generation, early: good})
	if err != nil && good {
		s.authorizer.backoffs.startBackoff(t.Key, s.Now())
		return c, nil // the error is stored with the connection, and the token is still good
	}
	if err != nil {
		return nil, err
	}
	c, err = s.store.cachedConnection(ctx, t.Key)
	if err != nil || c == nil || c.tokens.Access == "" {
		return nil, err
	}
	return c, nil
}

// isExpiring reports whether the access token has to be renewed.
func (c *connection) isExpiring(now time.Time) bool {
	if c.until.IsZero() {
		return false
	}
	before := renewBefore
	if life := time.Duration(c.tokens.Life) * time.Second; life > 0 {
		before = min(before, life/5)
	}
	return c.until.Sub(now) < before
}

// methodCall is told apart from all other methods: many servers let every client connect and list tools.
const methodCall = "tools/call"

// showsNeedGone reports whether an accepted request of this method, signed with the present token, shows that the need is
// gone.
func (c *connection) showsNeedGone(method string, signed Signed) bool {
	switch {
	case c.Need == NeedNothing, c.Need == NeedScope, c.needMethod == "":
		return false
	case (c.needMethod == methodCall) != (method == methodCall):
		return false
	case signed.generation == 0:
		return c.tokens.Access == ""
	}
	return c.tokens.Access != "" && c.generation == signed.generation && c.tokenAccount() == signed.Account
}

// redactToken removes the token from a challenge that quotes it.
func redactToken(header http.Header, authorization string) http.Header {
	_, token, _ := strings.Cut(authorization, " ")
	clean := http.Header{}
	for _, value := range header.Values("Www-Authenticate") {
		clean.Add("Www-Authenticate", wire.HideSecrets(value, []string{token}))
	}
	return clean
}

// joinChallenges returns all challenges as one header value, fit to be stored.
func joinChallenges(header http.Header) string {
	return plain.Line(strings.Join(header.Values("Www-Authenticate"), ", "), wire.MaxChallenge)
}
