// Package skillauth owns how the requests that a source sends to a skill's server get the tokens of package oauthclient, and what
// its refusals mean to a call. It is for all sources over HTTP.
//
// It does not own how tokens are got and kept, nor which requests are sent.
package skillauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Target is a server as package oauthclient knows it.
func Target(server tool.Server) oauthclient.Target {
	return oauthclient.Target{
		Key:   oauthclient.Key{SkillID: server.SkillID, Principal: server.Principal},
		Skill: server.Skill, PerUser: server.PerUser, Revision: server.Revision, URL: server.URL, PublicHosts: server.PublicHosts,
		Settings: oauthclient.Settings(server.Authorization),
	}
}

// Authorizer puts tokens on the requests to one skill's server. A nil one puts none: the skill's own
// headers say who sends them.
type Authorizer struct {
	handler *oauthclient.Handler
}

// New returns the Authorizer for a server; nil: it takes no tokens, or service, which is nil then, gets none.
func New(service *oauthclient.Service, server tool.Server) *Authorizer {
	if service == nil || !tool.TakesTokens(server.Transport, server.URL, maps.Keys(server.Headers)) {
		return nil
	}
	return &Authorizer{handler: service.Handler(Target(server))}
}

// Sign puts the token on, if there is one. What goes wrong is told by the server's answer, or by the next step.
func (a *Authorizer) Sign(ctx context.Context, r *http.Request) (oauthclient.Signed, *tool.Failure) {
	if a == nil {
		return oauthclient.Signed{}, nil
	}
	signed, err := a.handler.Sign(ctx, r)
	if err != nil {
		return signed, failure(ctx, err)
	}
	return signed, nil
}

// Answered judges an answer to a request that asks for a method of MCP. again: the request may be sent once more, signed anew; a
// server that answers so did not act on it. round counts the answers to one request, from 1 on.
func (a *Authorizer) Answered(ctx context.Context, r *http.Request, method string, response *http.Response, signed oauthclient.Signed, round int) (again bool, f *tool.Failure) {
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
		return false, failure(ctx, err)
	}
	return again && round < oauthclient.MaxRounds, nil
}

// Ready is Ready of [tool.Source].
func (a *Authorizer) Ready(ctx context.Context) (*tool.Connect, error) {
	if a == nil {
		return nil, nil
	}
	err := a.handler.Ready(ctx)
	if needs, ok := errors.AsType[*oauthclient.NeedsConnectionError](err); ok {
		return connect(needs), nil
	}
	return nil, err
}

func connect(needs *oauthclient.NeedsConnectionError) *tool.Connect {
	return &tool.Connect{Reason: needs.Reason, Scopes: needs.Scopes, Partial: needs.Need == oauthclient.NeedScope}
}

// failure: nothing was executed, for want of a token.
func failure(ctx context.Context, err error) *tool.Failure {
	var needs *oauthclient.NeedsConnectionError
	var known *oauthclient.Error
	switch {
	case errors.As(err, &needs):
		f := tool.BrokeOff(tool.EffectNone, err, "not connected: %s", needs.Reason)
		f.Connect = connect(needs)
		return f
	case errors.As(err, &known):
		return tool.BrokeOff(tool.EffectNone, err, "authorization: %s", plain.Line(known.Error(), 1000))
	case ctx.Err() != nil:
		return tool.Ended(ctx, tool.EffectNone, "authorization")
	}
	return tool.BrokeOff(tool.EffectNone, err, "authorization: it cannot be found out whether there is a token")
}

// maxRefusal bounds what is read of a refusal.
const maxRefusal = 64 << 10

// FinishRefused reads a refusal to its end, so that its connection can be used again.
func FinishRefused(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, maxRefusal)
	_ = response.Body.Close()
}

// Token is the token of an Authorization header.
func Token(authorization string) string {
	_, token, _ := strings.Cut(authorization, " ")
	return token
}

// Hide takes secrets out of what a server wrote, which was sent them and may quote them. Empty ones are none.
func Hide(f *tool.Failure, secrets ...string) {
	if f == nil {
		return
	}
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		f.Message, f.Challenge = strings.ReplaceAll(f.Message, secret, Hidden), strings.ReplaceAll(f.Challenge, secret, Hidden)
		f.Raw, f.RPC = without(f.Raw, secret), without(f.RPC, secret)
	}
}

// Hidden stands for a secret that was taken out.
const Hidden = "…"

func without(raw json.RawMessage, secret string) json.RawMessage {
	if raw == nil {
		return nil
	}
	return bytes.ReplaceAll(raw, []byte(secret), []byte(Hidden))
}
