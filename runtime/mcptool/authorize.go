package mcptool

import (
	"context"
	"net/http"
	"sync"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// authorizer puts tokens on the requests to one peer. A nil one puts none: the skill's own
// headers say who sends them.
type authorizer struct {
	tokens *skillauth.Authorizer

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
	tokens := skillauth.New(c.OAuth, server)
	if tokens == nil {
		return nil
	}
	return &authorizer{tokens: tokens}
}

// sign puts the token on, if there is one.
func (a *authorizer) sign(ctx context.Context, r *http.Request) (oauthclient.Signed, *tool.Failure) {
	if a == nil {
		return oauthclient.Signed{}, nil
	}
	signed, failure := a.tokens.Sign(ctx, r)
	if sent := r.Header.Get("Authorization"); failure == nil && sent != "" {
		a.mu.Lock()
		a.sent = sent
		a.mu.Unlock()
	}
	return signed, failure
}

// answered judges an answer; see [skillauth.Authorizer.Answered].
func (a *authorizer) answered(ctx context.Context, r *http.Request, method string, response *http.Response, signed oauthclient.Signed, round int) (again bool, f *tool.Failure) {
	if a == nil {
		return false, nil
	}
	return a.tokens.Answered(ctx, r, method, response, signed, round)
}

// Ready implements [tool.Source].
func (s *Source) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	return skillauth.New(s.config.OAuth, server).Ready(ctx)
}
