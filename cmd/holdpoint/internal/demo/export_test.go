package demo

import "github.com/go-jose/go-jose/v4"

// Key returns the key that signs tokens, for tests that forge some.
func (a *AuthServer) Key() jose.JSONWebKey { return a.key }
