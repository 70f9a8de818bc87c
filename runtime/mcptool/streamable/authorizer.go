package streamable

import (
	"context"
	"net/http"
	"sync"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// authorizer adds tokens to the requests of one session. A nil authorizer adds none, because the skill's own headers authenticate.
type authorizer struct {
	tokens *skillauth.Authorizer

	mu      sync.Mutex
	account oauthclient.Account // the account that the session was opened for
	sent    string              // the last Authorization header
}

// newAuthorizer returns the authorizer for a server, or nil if the server takes no tokens.
func newAuthorizer(oauth *oauthclient.Service, server tool.Server) *authorizer {
	tokens := skillauth.New(oauth, server)
	if tokens == nil {
		return nil
	}
	return &authorizer{tokens: tokens}
}

// signRequest adds the token, if there is one.
func (a *authorizer) signRequest(ctx context.Context, r *http.Request) (oauthclient.Signed, *tool.Failure) {
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

// judgeAnswer is [skillauth.Authorizer.Answered].
func (a *authorizer) judgeAnswer(ctx context.Context, r *http.Request, method string, response *http.Response, signed oauthclient.Signed, round int) (again bool, f *tool.Failure) {
	if a == nil {
		return false, nil
	}
	return a.tokens.Answered(ctx, r, method, response, signed, round)
}

// setAccount records the account that the session belongs to.
func (a *authorizer) setAccount(account oauthclient.Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.account = account
}

// isForeign reports whether a request was signed for another account than the session's.
func (a *authorizer) isForeign(signed oauthclient.Signed) bool {
	if a == nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.account != signed.Account
}

// lastAuthorization returns the Authorization header that was sent last.
func (a *authorizer) lastAuthorization() string {
	if a == nil {
		return ""
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sent
}
