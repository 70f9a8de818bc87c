package oauthclient

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"golang.org/x/oauth2"
)

const (
	// A token is renewed when it has less than renewBefore left, or less than a fifth of its life.
	renewBefore = time.Minute

	// MaxRounds is how often one request may be answered with a demand for authorization before
	// it has failed.
	MaxRounds = 3
)

// Handler authorizes requests to one skill's server, on behalf of one person or of nobody in particular.
// It is an [auth.OAuthHandler] for the SDK's transports; whoever sends requests of its own uses
// [Handler.Sign] and [Handler.Answered], which also bind tokens to a key.
type Handler struct {
	service *Service
	target  Target
}

var _ auth.OAuthHandler = (*Handler)(nil)

// Handler returns the one for a target. It is cheap.
func (s *Service) Handler(t Target) *Handler { return &Handler{s, t} }

// Signed says with what a request was signed; the zero Signed: with nothing.
type Signed struct {
	generation int64
	dpop       bool
	nonce      string // of the proof
	// Account tells one account's tokens from another's: it changes when somebody connects.
	Account Account
}

// Account is whose tokens there are; the zero Account: nobody's.
type Account struct {
	connection uuid.UUID
	times      int64 // that somebody connected or disconnected
}

func (c *connection) whose() Account { return Account{c.ID, c.account} }

// nobody reports whether there can be no connection: each person has their own, and nobody is acted for.
func (t Target) nobody() bool { return t.PerUser && t.Principal == uuid.Nil }

// resolve makes the principal the one whose connections are meant.
func (h *Handler) resolve(ctx context.Context) (Target, error) {
	t := h.target
	if !t.PerUser {
		t.Principal = Key{}.Principal
		return t, nil
	}
	var err error
	t.Principal, err = h.service.Identity.SameAs(ctx, t.Principal)
	return t, err
}

// Sign puts the connection's token on a request, if there is one and the request goes to its resource.
// A token that is about to run out is renewed first. It sends nothing to the skill's server.
func (h *Handler) Sign(ctx context.Context, r *http.Request) (Signed, error) {
	s := h.service
	t, err := h.resolve(ctx)
	if err != nil {
		return Signed{}, err
	}
	c, err := h.current(ctx, t)
	if err != nil || c == nil {
		return Signed{}, err
	}
	signed := Signed{generation: c.generation, Account: c.whose()}
	if !covers(c.Resource, r.URL.String()) {
		return Signed{Account: c.whose()}, nil
	}
	key, err := c.tokens.boundKey()
	if err != nil {
		return Signed{}, err
	}
	if signed.dpop = key != nil; signed.dpop {
		signed.nonce = s.nonces.get(r.URL)
		proof, err := key.proof(r.Method, r.URL.String(), c.tokens.Access, signed.nonce, s.Now())
		if err != nil {
			return Signed{}, err
		}
		r.Header.Set(headerProof, proof)
	}
	r.Header.Set("Authorization", c.tokens.Type+" "+c.tokens.Access)
	return signed, nil
}

// current is the connection with a token that is not about to run out, if that can be had. Nil: there is no token.
func (h *Handler) current(ctx context.Context, t Target) (*connection, error) {
	s := h.service
	if t.nobody() {
		return nil, nil
	}
	c, err := s.known(ctx, t.Key)
	if err != nil || c == nil || c.tokens.Access == "" {
		return nil, err
	}
	if !c.worn(s.Now()) || !c.Renewable || !c.fits(t) {
		return c, nil
	}
	good := c.until.After(s.Now())
	if good && s.rests.rests(t.Key, s.Now()) {
		return c, nil
	}
	err = s.authorize(ctx, t, refusal{generation: c.generation, early: good})
	if err != nil && good {
		s.rests.begin(t.Key, s.Now())
		return c, nil // it is stored with the connection, and the token serves on
	}
	if err != nil {
		return nil, err
	}
	c, err = s.known(ctx, t.Key)
	if err != nil || c == nil || c.tokens.Access == "" {
		return nil, err
	}
	return c, nil
}

// worn reports whether the access token is about to run out.
func (c *connection) worn(now time.Time) bool {
	if c.until.IsZero() {
		return false
	}
	before := renewBefore
	if life := time.Duration(c.tokens.Life) * time.Second; life > 0 {
		before = min(before, life/5)
	}
	return c.until.Sub(now) < before
}

// Answered takes an answer's status and header. again: a better token was got, and the request may be sent again, which a server
// that answers 401 or 403 so did not act on. An error says why there is none: a *[NeedsConnectionError]
// when somebody has to do something, an *[Error] otherwise.
//
// method is what the request asks for: that a server lets others in without a token tells nothing of this one.
func (h *Handler) Answered(ctx context.Context, r *http.Request, method string, status int, header http.Header, signed Signed) (again bool, err error) {
	nonce := h.service.nonces.note(r.URL, header)
	header = quoteless(header, r.Header.Get("Authorization"))
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return false, nil
	}
	challenge := ParseChallenge(header.Values("Www-Authenticate"))
	switch {
	case status == http.StatusUnauthorized && challenge.Error == "use_dpop_nonce" && signed.dpop:
		return nonce != "" && nonce != signed.nonce, nil
	case status == http.StatusForbidden && challenge.Error != "insufficient_scope":
		return false, nil
	}
	t, err := h.resolve(ctx)
	if err != nil {
		return false, err
	}
	err = h.service.authorize(ctx, t, refusal{
		challenge: challenge, header: joinHeader(header), generation: signed.generation, insufficient: status == http.StatusForbidden,
		method: method,
	})
	return err == nil, err
}

// quoteless is the challenge without the token that it may quote.
func quoteless(header http.Header, authorization string) http.Header {
	_, token, _ := strings.Cut(authorization, " ")
	clean := http.Header{}
	for _, value := range header.Values("Www-Authenticate") {
		clean.Add("Www-Authenticate", hide(value, []string{token}))
	}
	return clean
}

func joinHeader(header http.Header) string {
	joined := ""
	for _, value := range header.Values("Www-Authenticate") {
		if joined != "" {
			joined += ", "
		}
		joined += value
	}
	return plain(joined, maxChallenge)
}

// Ready reports, without asking anybody, whether somebody has to do something before the skill's server can be used, as a
// *[NeedsConnectionError]. Nil: nothing is known to be missing.
func (h *Handler) Ready(ctx context.Context) error {
	t, err := h.resolve(ctx)
	if err != nil {
		return err
	}
	if t.nobody() {
		return nil
	}
	c, err := h.service.known(ctx, t.Key)
	if err != nil || c == nil {
		return err
	}
	// With changed settings it may be otherwise.
	if c.Need == NeedNothing || c.SkillRevision != t.Revision {
		return nil
	}
	return &NeedsConnectionError{Key: t.Key, Need: c.Need, Reason: c.Reason, Scopes: c.NeedScopes}
}

// methodCall is apart from all other methods: many servers let anybody connect and list.
const methodCall = "tools/call"

// Accepted is told that the server let a request in: what was missing when it refused one of this method
// is not missed any more, but for what only some of its tools need.
func (h *Handler) Accepted(ctx context.Context, method string, signed Signed) {
	t, err := h.resolve(ctx)
	if err != nil || t.nobody() {
		return
	}
	if c, err := h.service.known(ctx, t.Key); err != nil || c == nil || !c.mended(method, signed) {
		return
	}
	if err := h.service.drop(ctx, t, method, signed); err != nil {
		h.service.Logger.Warn("dropping a need", "skill", t.Skill, "error", err)
	}
}

// mended reports whether a request of this method that was let in, signed with what there is now, shows that what was
// missing is not missed any more.
func (c *connection) mended(method string, signed Signed) bool {
	switch {
	case c.Need == NeedNothing, c.Need == NeedScope, c.refused == "":
		return false
	case (c.refused == methodCall) != (method == methodCall):
		return false
	case signed.generation == 0:
		return c.tokens.Access == ""
	}
	return c.tokens.Access != "" && c.generation == signed.generation && c.whose() == signed.Account
}

// GaveUp is told that the server refuses tokens, however new.
func (h *Handler) GaveUp(ctx context.Context, header http.Header) {
	t, err := h.resolve(ctx)
	if err != nil {
		return
	}
	if c, err := h.service.known(ctx, t.Key); err == nil && c != nil {
		header = quoteless(header, "Bearer "+c.tokens.Access)
	}
	c := ParseChallenge(header.Values("Www-Authenticate"))
	_ = h.service.failed(ctx, t, fail(StepToken, nil, "the skill's server refuses the tokens that its authorization server issues for it: %s %s",
		plain(c.Error, 100), c.ErrorDescription))
}

// TokenSource implements [auth.OAuthHandler]. Nil: there is no token yet.
func (h *Handler) TokenSource(ctx context.Context) (oauth2.TokenSource, error) {
	t, err := h.resolve(ctx)
	if err != nil {
		return nil, err
	}
	c, err := h.service.known(ctx, t.Key)
	if err != nil || c == nil || c.tokens.Access == "" || !c.fits(t) {
		return nil, err
	}
	return tokenSource{h, ctx}, nil
}

type tokenSource struct {
	handler *Handler
	ctx     context.Context //nolint:containedctx // the interface has none
}

// Token implements [oauth2.TokenSource].
func (ts tokenSource) Token() (*oauth2.Token, error) {
	t, err := ts.handler.resolve(ts.ctx)
	if err != nil {
		return nil, err
	}
	c, err := ts.handler.current(ts.ctx, t)
	if err == nil && c == nil {
		err = errors.New("there is no token")
	}
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: c.tokens.Access, TokenType: c.tokens.Type, Expiry: c.until}, nil
}

// Authorize implements [auth.OAuthHandler].
func (h *Handler) Authorize(ctx context.Context, r *http.Request, response *http.Response) error {
	defer func() { _ = response.Body.Close() }()
	signed := Signed{}
	if t, err := h.resolve(ctx); err == nil {
		if c, err := h.service.known(ctx, t.Key); err == nil && c != nil && r.Header.Get("Authorization") == c.tokens.Type+" "+c.tokens.Access {
			signed.generation = c.generation
		}
	}
	_, err := h.Answered(ctx, r, "", response.StatusCode, response.Header, signed)
	return err
}
