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

// Error is why a sign-in failed, in a text for the person. Said is the provider's text, which is untrusted.
type Error struct {
	Text string
	Said string
	Err  error // for the log; it holds no secret
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

// Answer is the result of a sign-in.
type Answer struct {
	identity.Claims

	IDToken      string // secret
	RefreshToken string // secret; empty: none was issued
}

// Finish takes the authorization response from the browser, redeems the code and verifies the ID token. Errors are an *[Error]
// or wrap [ErrUnreachable].
func (p *Provider) Finish(ctx context.Context, flow Flow, query url.Values) (Answer, error) {
	d, err := p.discoverCached(ctx)
	if err != nil {
		return Answer{}, err
	}
	code, err := p.checkResponse(d, flow, query)
	if err != nil {
		return Answer{}, err
	}
	ctx = oidc.ClientContext(ctx, p.client)
	token, err := p.oauth2Config(d).Exchange(ctx, code, oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		return Answer{}, exchangeError(err)
	}
	raw, _ := token.Extra("id_token").(string)
	verified, c, err := p.verifyIDToken(ctx, d, flow, raw, token)
	if err != nil {
		return Answer{}, err
	}
	age := p.proofAge(c)
	if c, err = p.addUserInfo(ctx, d, c, verified.Subject, token); err != nil {
		return Answer{}, err
	}
	claims, err := p.buildClaims(verified.Subject, c)
	claims.ProofAge = age
	return Answer{Claims: claims, IDToken: raw, RefreshToken: token.RefreshToken}, err
}

// checkResponse returns the code of an authorization response. It checks the sender first (RFC 9207).
func (p *Provider) checkResponse(d *metadata, flow Flow, query url.Values) (string, error) {
	for _, name := range []string{"state", "code", "iss", "error"} {
		if len(query[name]) > 1 {
			return "", &Error{Text: "The identity provider's response has a parameter twice."}
		}
	}
	if flow.State == "" || query.Get("state") != flow.State || flow.Nonce == "" || flow.Verifier == "" || flow.Provider != p.cfg.Name {
		return "", &Error{Text: "The response belongs to another sign-in. Sign in again."}
	}
	issuer, sent := query.Get("iss"), query.Has("iss")
	if sent && issuer != p.cfg.Issuer || !sent && d.metadata.SendsIssuer {
		return "", &Error{Text: "The response is not from the identity provider that was asked."}
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
		return "", &Error{Text: "The identity provider's response has no code."}
	}
	return code, nil
}

// exchangeError keeps only the error fields of a refused exchange: the body may hold secrets.
func exchangeError(err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return &Error{Text: "The identity provider did not complete the sign-in.", Err: err}
	}
	said := refused.ErrorCode
	if refused.ErrorDescription != "" {
		said += ": " + refused.ErrorDescription
	}
	if said == "" && refused.Response != nil {
		said = refused.Response.Status
	}
	return &Error{Text: "The identity provider refused the sign-in. It says:", Said: said}
}

// authenticationClaims are claims about the authentication in an ID token.
type authenticationClaims struct {
	AuthorizedParty string `json:"azp"`
	AuthTime        *int64 `json:"auth_time"`
}

// clockSkew is how far a provider's clock may be behind.
const clockSkew = 30 * time.Second

// verifyIDToken verifies an ID token (OpenID Connect Core sections 3.1.3.7 and 3.1.2.1).
func (p *Provider) verifyIDToken(ctx context.Context, d *metadata, flow Flow, raw string, token *oauth2.Token) (*oidc.IDToken, claimSet, error) {
	refuse := func(err error) (*oidc.IDToken, claimSet, error) {
		return nil, nil, &Error{Text: "The identity provider's response could not be verified.", Err: err}
	}
	if raw == "" {
		return refuse(errors.New("there is no ID token"))
	}
	verified, err := d.Verifier(&oidc.Config{ClientID: p.cfg.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return refuse(err)
	}
	var c authenticationClaims
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
		return nil, nil, &Error{Text: "The identity provider does not say when you authenticated, so this does not count as a new sign-in."}
	case flow.Again && time.Unix(*c.AuthTime, 0).Before(flow.Began.Add(-clockSkew)):
		return nil, nil, &Error{Text: "The identity provider did not ask you to sign in again."}
	}
	return verified, all, nil
}

// proofAge returns how long ago the person authenticated, by the claim auth_time; nil: unknown.
func (p *Provider) proofAge(c claimSet) *time.Duration {
	var at *int64
	if json.Unmarshal(c["auth_time"], &at) != nil || at == nil {
		return nil
	}
	age := max(p.now().Sub(time.Unix(*at, 0)), 0)
	return &age
}

// claimSet holds claims about a person by name.
type claimSet map[string]json.RawMessage

func (c claimSet) textClaim(names ...string) string {
	for _, name := range names {
		var text string
		if json.Unmarshal(c[name], &text) == nil && text != "" {
			return text
		}
	}
	return ""
}

// addUserInfo reads the userinfo endpoint if the ID token lacks a name or groups. Claims of the ID token take precedence.
func (p *Provider) addUserInfo(ctx context.Context, d *metadata, c claimSet, subject string, token *oauth2.Token) (claimSet, error) {
	_, groups := c.findClaim(p.cfg.GroupsClaim)
	if groups && c.textClaim(nameClaims()...) != "" || d.metadata.UserInfoURL == "" {
		return c, nil
	}
	info, err := d.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, &Error{Text: "The identity provider did not send your name and groups.", Err: err}
	}
	if info.Subject != subject {
		return nil, &Error{Text: "The identity provider sent information about another person.", Err: errors.New("the userinfo is another subject's")}
	}
	more := claimSet{}
	if err := info.Claims(&more); err != nil {
		return nil, &Error{Text: "The identity provider did not send your name and groups.", Err: fmt.Errorf("read userinfo: %w", err)}
	}
	maps.Copy(more, c)
	return more, nil
}
