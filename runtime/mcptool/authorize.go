package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// authorizer puts tokens on the requests to one peer. A nil one puts none: the skill's own
// headers say who sends them.
type authorizer struct {
	handler *oauthclient.Handler

	mu      sync.Mutex
	account oauthclient.Account // whose tokens the session was opened with
	sent    string              // the last Authorization
}

// opened notes whose session it is.
func (a *authorizer) opened(account oauthclient.Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.account = account
}

// foreign reports whether tokens are another account's than the session.
func (a *authorizer) foreign(signed oauthclient.Signed) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.account != signed.Account
}

// hide takes the token of an Authorization header out of what a server wrote, which may quote it.
func hide(authorization string, f *tool.Failure) {
	_, token, _ := strings.Cut(authorization, " ")
	if token == "" || f == nil {
		return
	}
	clean := func(raw json.RawMessage) json.RawMessage {
		return bytes.ReplaceAll(raw, []byte(token), []byte("…"))
	}
	f.Message, f.Challenge = strings.ReplaceAll(f.Message, token, "…"), strings.ReplaceAll(f.Challenge, token, "…")
	if f.Raw != nil {
		f.Raw = clean(f.Raw)
	}
	if f.RPC != nil {
		f.RPC = clean(f.RPC)
	}
}

// last is the Authorization header that was sent last.
func (a *authorizer) last() string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}

func (c Config) authorizer(server tool.Server) *authorizer {
	if c.OAuth == nil || !tool.TakesTokens(server.Transport, server.URL, maps.Keys(server.Headers)) {
		return nil
	}
	return &authorizer{handler: c.OAuth.Handler(Target(server))}
}

// Target is a server as package oauthclient knows it.
func Target(server tool.Server) oauthclient.Target {
	return oauthclient.Target{
		Key:   oauthclient.Key{SkillID: server.SkillID, Principal: server.Principal},
		Skill: server.Skill, PerUser: server.PerUser, Revision: server.Revision, URL: server.URL,
		Settings: oauthclient.Settings(server.Authorization),
	}
}

// sign puts the token on, if there is one. What goes wrong is told by the server's answer, or by the next step.
func (a *authorizer) sign(ctx context.Context, r *http.Request) (oauthclient.Signed, *tool.Failure) {
	if a == nil {
		return oauthclient.Signed{}, nil
	}
	signed, err := a.handler.Sign(ctx, r)
	if err != nil {
		return signed, authorizationFailure(ctx, err)
	}
	if sent := r.Header.Get("Authorization"); sent != "" {
		a.mu.Lock()
		a.sent = sent
		a.mu.Unlock()
	}
	return signed, nil
}

// answered judges an answer. again: the request may be sent once more, signed anew; a server that
// answers so did not act on it.
func (a *authorizer) answered(ctx context.Context, r *http.Request, method string, response *http.Response, signed oauthclient.Signed, round int) (again bool, f *tool.Failure) {
	if a == nil {
		return false, nil
	}
	if response.StatusCode < 300 {
		a.handler.Accepted(ctx, method, signed)
	}
	if round >= oauthclient.MaxRounds && response.StatusCode == http.StatusUnauthorized {
		a.handler.GaveUp(ctx, response.Header)
		return false, nil
	}
	again, err := a.handler.Answered(ctx, r, method, response.StatusCode, response.Header, signed)
	if err != nil {
		return false, authorizationFailure(ctx, err)
	}
	return again && round < oauthclient.MaxRounds, nil
}

// authorizationFailure: nothing was executed, for want of a token.
func authorizationFailure(ctx context.Context, err error) *tool.Failure {
	var needs *oauthclient.NeedsConnectionError
	var known *oauthclient.Error
	switch {
	case errors.As(err, &needs):
		f := transportFailure(tool.EffectNone, err, "not connected: %s", needs.Reason)
		f.Connect = &tool.Connect{Reason: needs.Reason, Scopes: needs.Scopes, Partial: needs.Need == oauthclient.NeedScope}
		return f
	case errors.As(err, &known):
		return transportFailure(tool.EffectNone, err, "authorization: %s", plain(known.Error(), 1000))
	case ctx.Err() != nil:
		return ended(ctx, tool.EffectNone, "authorization")
	}
	return transportFailure(tool.EffectNone, err, "authorization: it cannot be found out whether there is a token")
}

// finishRefused reads a refusal to its end, so that its connection can be used again.
func finishRefused(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, maxErrorBody)
	_ = response.Body.Close()
}

// Ready implements [tool.Source].
func (s *Source) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	a := s.config.authorizer(server)
	if a == nil {
		return nil, nil
	}
	err := a.handler.Ready(ctx)
	if needs, ok := errors.AsType[*oauthclient.NeedsConnectionError](err); ok {
		return &tool.Connect{Reason: needs.Reason, Scopes: needs.Scopes, Partial: needs.Need == oauthclient.NeedScope}, nil
	}
	return nil, err
}
