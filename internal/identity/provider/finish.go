package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// Error is why a person is not believed to be who the provider says, in words for them. Said is the provider's own, and
// hostile text.
type Error struct {
	Text string
	Said string
	Err  error // for the log; nothing secret
}

func (e *Error) Error() string {
	text := e.Text
	if e.Said != "" {
		text += " " + plain.Line(e.Said, maxCause)
	}
	if e.Err != nil {
		text += ": " + plain.Line(e.Err.Error(), maxCause)
	}
	return text
}

// Answer is what the provider vouches for.
type Answer struct {
	identity.Claims

	IDToken      string // secret
	RefreshToken string // secret; empty: none was given
}

// Finish takes what the browser brought back from the provider, redeems the code, and checks who the person is. Errors
// are an *Error, or wrap ErrUnreachable.
func (p *Provider) Finish(ctx context.Context, flow Flow, query url.Values) (Answer, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return Answer{}, err
	}
	code, err := p.codeOf(d, flow, query)
	if err != nil {
		return Answer{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth2(d).Exchange(ctx, code, oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		return Answer{}, exchangeError(err)
	}
	raw, _ := token.Extra("id_token").(string)
	verified, c, err := p.verify(ctx, d, flow, raw, token)
	if err != nil {
		return Answer{}, err
	}
	age := p.proofAge(c)
	if c, err = p.complete(ctx, d, c, verified.Subject, token); err != nil {
		return Answer{}, err
	}
	claims, err := p.claims(verified.Subject, c)
	claims.ProofAge = age
	return Answer{Claims: claims, IDToken: raw, RefreshToken: token.RefreshToken}, err
}

// codeOf reads the authorization response. Who answers is checked before what it says (RFC 9207).
func (p *Provider) codeOf(d *discovered, flow Flow, query url.Values) (string, error) {
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(query[name]) > 1 {
			return "", &Error{Text: "The answer of the identity provider says the same thing twice."}
		}
	}
	if flow.State == "" || query.Get("state") != flow.State || flow.Nonce == "" || flow.Verifier == "" || flow.Provider != p.cfg.Name {
		return "", &Error{Text: "The answer belongs to another sign-in."}
	}
	issuer, sent := query.Get("iss"), query.Has("iss")
	if sent && issuer != p.cfg.Issuer || !sent && d.metadata.SendsIssuer {
		return "", &Error{Text: "The answer does not come from the identity provider that was asked."}
	}
	if query.Has("error") {
		said := query.Get("error")
		if description := query.Get("error_description"); description != "" {
			said += ": " + description
		}
		return "", &Error{Text: "The identity provider did not sign you in. It says:", Said: said}
	}
	code := query.Get("code")
	if code == "" {
		return "", &Error{Text: "The answer of the identity provider has no code."}
	}
	return code, nil
}

// exchangeError keeps of a refused exchange what is not secret: the body may be anything.
func exchangeError(err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return &Error{Text: "The identity provider could not be asked for its word.", Err: err}
	}
	said := refused.ErrorCode
	if refused.ErrorDescription != "" {
		said += ": " + refused.ErrorDescription
	}
	if said == "" && refused.Response != nil {
		said = refused.Response.Status
	}
	return &Error{Text: "The identity provider did not give its word. It says:", Said: said}
}

// checked are the claims of an ID token that say what it is worth.
type checked struct {
	AuthorizedParty string `json:"azp"`
	AuthTime        *int64 `json:"auth_time"`
}

// clockSkew is how far a provider's clock may be behind.
const clockSkew = 30 * time.Second

// verify checks the ID token: OpenID Connect Core 1.0, sections 3.1.3.7 and 3.1.2.1.
func (p *Provider) verify(ctx context.Context, d *discovered, flow Flow, raw string, token *oauth2.Token) (*oidc.IDToken, claimSet, error) {
	refuse := func(err error) (*oidc.IDToken, claimSet, error) {
		return nil, nil, &Error{Text: "What the identity provider says of you could not be verified.", Err: err}
	}
	if raw == "" {
		return refuse(errors.New("there is no ID token"))
	}
	verified, err := d.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return refuse(err)
	}
	var c checked
	all := claimSet{}
	if err := errors.Join(verified.Claims(&c), verified.Claims(&all)); err != nil {
		return refuse(err)
	}
	switch {
	case verified.Nonce == "" || verified.Nonce != flow.Nonce:
		return refuse(errors.New("the nonce of the ID token is another one"))
	case verified.Subject == "":
		return refuse(errors.New("the ID token has no subject"))
	case c.AuthorizedParty != "" && c.AuthorizedParty != p.cfg.ClientID, c.AuthorizedParty == "" && len(verified.Audience) > 1:
		return refuse(errors.New("the ID token was issued to another client"))
	case verified.AccessTokenHash != "" && verified.VerifyAccessToken(token.AccessToken) != nil:
		return refuse(errors.New("the access token is not the ID token's"))
	case flow.Again && c.AuthTime == nil:
		return nil, nil, &Error{Text: "The identity provider does not say when you proved who you are, so that it does not count as doing it again."}
	case flow.Again && time.Unix(*c.AuthTime, 0).Before(flow.Began.Add(-clockSkew)):
		return nil, nil, &Error{Text: "The identity provider did not ask you again who you are."}
	}
	return verified, all, nil
}

// proofAge is how long ago the person proved who they are, by a verified ID token; nil: it does not say.
func (p *Provider) proofAge(c claimSet) *time.Duration {
	var at *int64
	if json.Unmarshal(c["auth_time"], &at) != nil || at == nil {
		return nil
	}
	age := max(p.now().Sub(time.Unix(*at, 0)), 0)
	return &age
}

// claimSet is what is said of a person, by the names of claims.
type claimSet map[string]json.RawMessage

func (c claimSet) text(names ...string) string {
	for _, name := range names {
		var text string
		if json.Unmarshal(c[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// complete asks the userinfo endpoint where the ID token leaves out a name or the groups, as many providers'
// do. What the ID token says stands.
func (p *Provider) complete(ctx context.Context, d *discovered, c claimSet, subject string, token *oauth2.Token) (claimSet, error) {
	_, groups := c.find(p.cfg.GroupsClaim)
	if groups && c.text(nameClaims()...) != "" || d.metadata.UserInfoURL == "" {
		return c, nil
	}
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, &Error{Text: "The identity provider did not say enough of you.", Err: err}
	}
	if info.Subject != subject {
		return nil, &Error{Text: "The identity provider speaks of somebody else.", Err: errors.New("the userinfo is another subject's")}
	}
	more := claimSet{}
	if err := info.Claims(&more); err != nil {
		return nil, &Error{Text: "The identity provider did not say enough of you.", Err: fmt.Errorf("read userinfo: %w", err)}
	}
	maps.Copy(more, c)
	return more, nil
}
