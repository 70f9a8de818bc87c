package demo

import "github.com/go-jose/go-jose/v4"

// Key is what tokens are signed with, for tests that forge some.
func (a *AuthServer) Key() jose.JSONWebKey { return a.key }
