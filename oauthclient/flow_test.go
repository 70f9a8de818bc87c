package oauthclient_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/oauthclient"
)

func TestConnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.sendRequest()
	wantNeed(t, a.err, oauthclient.NeedConsent)
	wantNeed(t, w.handler().Ready(t.Context()), oauthclient.NeedConsent)
	if a.status != http.StatusUnauthorized || a.rounds != 1 {
		t.Errorf("status %d after %d rounds", a.status, a.rounds)
	}
	u, err := w.beginConnection()
	check(t, err)
	resource := w.skill.URL + "/mcp"
	if got := u.Query().Get("resource"); got != resource {
		t.Errorf("resource %q in the authorization request, want %q", got, resource)
	}
	if got := u.Query().Get("redirect_uri"); got != "https://holdpoint.test/oauth/callback" {
		t.Errorf("redirect_uri %q", got)
	}
	check(t, w.receiveCallback(w.as.giveConsent(t, u)))
	w.mustSend()
	check(t, w.handler().Ready(t.Context()))
	requests := w.as.tokenRequests("authorization_code")
	if len(requests) != 1 || requests[0].Form.Get("resource") != resource {
		t.Errorf("token requests: %v", requests)
	}
	if c := w.loadConnection(); !c.Connected() || c.Resource != resource || c.Issuer != w.as.issuer() || c.ConnectedBy != w.alice {
		t.Errorf("stored: %+v", c)
	}
	if w.connected.Len() == 0 {
		t.Error("the connection was not reported")
	}
	// A service that starts later finds the token.
	if a := w.sendWith(t.Context(), w.startService(t), w.url); a.status != http.StatusOK || a.rounds != 1 {
		t.Errorf("another service: %+v", a)
	}
	w.advanceClock(2 * time.Hour)
	w.as.dropAccess()
	w.mustSend()
	if requests := w.as.tokenRequests("refresh_token"); len(requests) != 1 || requests[0].Form.Get("resource") != resource {
		t.Errorf("refreshes: %v", requests)
	}
}
