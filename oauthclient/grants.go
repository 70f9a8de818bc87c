package oauthclient

import (
	"context"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

const (
	grantTypeRefresh  = "refresh_token"
	grantTypeJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	grantTypeExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	tokenTypeIDToken  = "urn:ietf:params:oauth:token-type:id_token" //nolint:gosec // G101: a name
	tokenTypeIDJAG    = "urn:ietf:params:oauth:token-type:id-jag"   //nolint:gosec // G101: a name
	storePause        = 250 * time.Millisecond
)

type timeAge = time.Duration

// regrant asks for a token without a person, by the grant of the settings.
func (s *Service) regrant(ctx context.Context, t Target, f *found, server *Server, cl *client, c *connection, scopes []string, r refusal) (*grant, error) {
	a := ask{own: t.own(), server: server, client: cl, params: url.Values{"resource": {f.resource}, "scope": {strings.Join(scopes, " ")}}}
	var err error
	if a.bind, err = s.keyFor(&c.tokens, f, server, r.challenge); err != nil {
		return nil, err
	}
	switch t.Settings.grant() {
	case grantClient:
		a.params.Set("grant_type", grantClient)
	case grantWorkload:
		if s.WorkloadToken == nil {
			return nil, fail(StepToken, nil, "this server has no identity token of its own: start it with --workload-token-file")
		}
		assertion, err := s.WorkloadToken(ctx)
		if err != nil {
			return nil, fail(StepToken, err, "this server's own identity token cannot be read")
		}
		a.params.Set("grant_type", grantTypeJWT)
		a.params.Set("assertion", assertion)
	case grantEnterprise:
		return s.enterpriseToken(ctx, t, a, c, f.resource, scopes)
	default:
		a.params.Set("grant_type", grantTypeRefresh)
		a.params.Set("refresh_token", c.tokens.Refresh)
	}
	token, err := s.token(ctx, a)
	if err != nil {
		return nil, err
	}
	g, err := a.granted(token, f.resource, scopes)
	if err == nil && t.Settings.grant() == grantCode {
		keepOld(g, c, token)
	}
	return g, err
}

// keepOld completes the answer to a refresh by what it left out (RFC 6749 section 6).
func keepOld(g *grant, c *connection, token *oauth2.Token) {
	if g.tokens.Refresh == "" {
		g.tokens.Refresh = c.tokens.Refresh
	}
	if _, said := token.Extra("scope").(string); !said {
		g.granted = c.ScopesGranted
	}
	g.asked = c.ScopesAsked
}

// keyFor is the key that a token is to be bound to: the one that its predecessor was, or a new one where
// server and resource want it. Nil: a bearer token.
func (s *Service) keyFor(t *tokens, f *found, server *Server, c Challenge) (*signingKey, error) {
	key, err := t.boundKey()
	if key != nil || err != nil || !f.wantsDPoP(server, c) {
		return key, err
	}
	return newSigningKey()
}
