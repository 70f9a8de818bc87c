// Package skillauth owns the tokens of package oauthclient on the requests of sources over HTTP, and the meaning of a server's refusals
// for a call.
//
// It does not own how tokens are obtained and stored, nor which requests are sent.
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

// Target returns a server as package oauthclient identifies it.
func Target(server tool.Server) oauthclient.Target {
	return oauthclient.Target{
		Key:   oauthclient.Key{SkillID: server.SkillID, Principal: server.Principal},
		Skill: server.Skill, PerUser: server.PerUser, Revision: server.Revision, URL: server.URL, PublicHosts: server.PublicHosts,
		Settings: oauthclient.Settings(server.Authorization),
	}
}

// Authorizer adds tokens to the requests to one skill's server. A nil Authorizer adds none, because the skill's own headers authenticate.
type Authorizer struct {
	handler *oauthclient.Handler
}

// New returns the Authorizer for a server. It returns nil if the server takes no tokens, or service is nil.
func New(service *oauthclient.Service, server tool.Server) *Authorizer {
	if service == nil || !tool.TakesTokens(server.Transport, server.URL, maps.Keys(server.Headers)) {
		return nil
	}
	return &Authorizer{handler: service.Handler(Target(server))}
}

// Sign adds the token to a request, if there is one.
func (a *Authorizer) Sign(ctx context.Context, r *http.Request) (oauthclient.Signed, *tool.Failure) {
	if a == nil {
		return oauthclient.Signed{}, nil
	}
	signed, err := a.handler.Sign(ctx, r)
	if err != nil {
		return signed, newFailure(ctx, err)
	}
	return signed, nil
}

// Answered judges the answer to a request for a method of MCP. If again is set, the request may be signed and sent once more: a server
// that answers so did not act on it. round counts the answers to one request, from 1.
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
		return false, newFailure(ctx, err)
	}
	return again && round < oauthclient.MaxRounds, nil
}

// Ready implements Ready of [tool.Source].
func (a *Authorizer) Ready(ctx context.Context) (*tool.Connect, error) {
	if a == nil {
		return nil, nil
	}
	err := a.handler.Ready(ctx)
	if needs, ok := errors.AsType[*oauthclient.NeedsConnectionError](err); ok {
		return newConnect(needs), nil
	}
	return nil, err
}

func newConnect(needs *oauthclient.NeedsConnectionError) *tool.Connect {
	return &tool.Connect{Reason: needs.Reason, Scopes: needs.Scopes, Partial: needs.Need == oauthclient.NeedScope}
}

// newFailure returns the failure of a request without a token. Nothing was executed.
func newFailure(ctx context.Context, err error) *tool.Failure {
	var needs *oauthclient.NeedsConnectionError
	var known *oauthclient.Error
	switch {
	case errors.As(err, &needs):
		f := tool.BrokeOff(tool.EffectNone, err, "not connected: %s", needs.Reason)
		f.Connect = newConnect(needs)
		return f
	case errors.As(err, &known):
		return tool.BrokeOff(tool.EffectNone, err, "authorization: %s", plain.Line(known.Error(), 1000))
	case ctx.Err() != nil:
		return tool.Ended(ctx, tool.EffectNone, "authorization")
	}
	return tool.BrokeOff(tool.EffectNone, err, "authorization: it is unknown whether there is a token")
}

// maxRefusal bounds how much is read of a refusal, in bytes.
const maxRefusal = 64 << 10

// FinishRefused reads a refusal to its end, so that its connection can be reused.
func FinishRefused(response *http.Response) {
	_, _ = io.CopyN(io.Discard, response.Body, maxRefusal)
	_ = response.Body.Close()
}

// Token returns the token of an Authorization header.
func Token(authorization string) string {
	_, token, _ := strings.Cut(authorization, " ")
	return token
}

// Hide removes secrets from a server's texts, because a server may quote a request. Empty secrets are ignored.
func Hide(f *tool.Failure, secrets ...string) {
	if f == nil {
		return
	}
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		f.Message, f.Challenge = strings.ReplaceAll(f.Message, secret, Hidden), strings.ReplaceAll(f.Challenge, secret, Hidden)
		f.Raw, f.RPC = hideIn(f.Raw, secret), hideIn(f.RPC, secret)
	}
}

// Hidden replaces a secret that was removed.
const Hidden = "…"

func hideIn(raw json.RawMessage, secret string) json.RawMessage {
	if raw == nil {
		return nil
	}
	return bytes.ReplaceAll(raw, []byte(secret), []byte(Hidden))
}
