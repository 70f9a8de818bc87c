package provider

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// A person may have different subjects for different clients. The identity claim is the same everywhere and identifies the
// person at sign-in and in access tokens.
func TestIdentityClaim(t *testing.T) {
	t.Parallel()
	signIn := &Provider{cfg: Config{Issuer: "https://idp", IdentityClaim: "oid", GroupsClaim: "groups"}}
	tokens := &TokenIssuer{cfg: TokenConfig{Issuer: "https://idp", IdentityClaim: "oid", AgentClaim: "agent"}, now: time.Now}
	claims := claimSet{"oid": json.RawMessage(`"o-1"`), "client_id": json.RawMessage(`"app"`)}
	at, err := signIn.buildClaims("pairwise-a", claims)
	if err != nil || at.Subject != "o-1" {
		t.Errorf("signed in as %q, %v", at.Subject, err)
	}
	token, err := tokens.readToken(&oidc.IDToken{Issuer: "https://idp", Subject: "pairwise-b"}, claims)
	if err != nil || token.Subject != at.Subject || token.NoPerson {
		t.Errorf("token of %+v, %v", token, err)
	}
	service, err := tokens.readToken(&oidc.IDToken{Issuer: "https://idp", Subject: "app"}, claims)
	if err != nil || !service.NoPerson {
		t.Errorf("a client's own token: %+v, %v", service, err)
	}
	var refused *Error
	if _, err := signIn.buildClaims("pairwise-a", claimSet{}); !errors.As(err, &refused) {
		t.Errorf("signed in without the claim: %v", err)
	}
	var bad *TokenError
	if _, err := tokens.readToken(&oidc.IDToken{Subject: "pairwise-b"}, claimSet{}); !errors.As(err, &bad) {
		t.Errorf("a token without the claim: %v", err)
	}
	for claim, ok := range map[string]bool{"": true, "sub": true, "oid": true, "email": false, "preferred_username": false} {
		if err := checkIdentityClaim(claim); (err == nil) != ok {
			t.Errorf("identity_claim %q: %v", claim, err)
		}
	}
}

// An address is verified if the provider says so. If it says nothing, the setting decides.
func TestEmailIsVerified(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][2]bool{ // without and with the setting
		"": {false, true}, "null": {false, true}, "true": {true, true}, `"true"`: {true, true},
		"false": {false, false}, `"false"`: {false, false}, "1": {false, false}, `"yes"`: {false, false},
	} {
		claims := claimSet{"email": json.RawMessage(`"vera@example.com"`)}
		if said != "" {
			claims["email_verified"] = json.RawMessage(said)
		}
		for i, trust := range []bool{false, true} {
			p := &Provider{cfg: Config{Issuer: "https://idp", TrustEmail: trust}}
			if got, err := p.buildClaims("v", claims); err != nil || got.EmailVerified != want[i] {
				t.Errorf("email_verified %s, trusted %v: %v, %v", said, trust, got.EmailVerified, err)
			}
		}
	}
}
