// Package tokentest is an authorization server for tests of access tokens. It serves metadata and keys, and signs any claims.
package tokentest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4"
)

// Server is an authorization server at its URL, which is its issuer.
type Server struct {
	*httptest.Server

	Asked atomic.Int32 // requests for its keys
	Down  atomic.Bool  // it answers 502

	mu   sync.Mutex
	id   string
	key  *ecdsa.PrivateKey
	also map[string]any // more members of the metadata
}

// New starts a server.
func New() *Server {
	s := &Server{}
	s.Rotate("first")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/oauth-authorization-server", func(w http.ResponseWriter, _ *http.Request) {
		document := map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys"}
		s.mu.Lock()
		maps.Copy(document, s.also)
		s.mu.Unlock()
		s.writeAnswer(w, document)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		s.Asked.Add(1)
		key, id := s.Key()
		s.writeAnswer(w, map[string]any{"keys": []any{
			map[string]any{"kty": "future", "kid": "unknown"},
			jose.JSONWebKey{Key: key.Public(), KeyID: id, Algorithm: string(jose.ES256), Use: "sig"},
		}})
	})
	s.Server = httptest.NewServer(mux)
	return s
}

// Say adds a member to the metadata.
func (s *Server) Say(name string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.also = map[string]any{name: value}
}

// Rotate replaces the key.
func (s *Server) Rotate(id string) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.key = id, key
}

// Key returns the signing key and its id.
func (s *Server) Key() (*ecdsa.PrivateKey, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.key, s.id
}

func (s *Server) writeAnswer(w http.ResponseWriter, v any) {
	if s.Down.Load() {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(must(json.Marshal(v)))
}

// Sign makes a token of this type.
func (s *Server) Sign(kind string, claims map[string]any) string {
	key, id := s.Key()
	return SignWith(jose.ES256, key, id, kind, claims)
}

// SignWith makes a token with any key.
func SignWith(algorithm jose.SignatureAlgorithm, key any, id, kind string, claims map[string]any) string {
	options := (&jose.SignerOptions{}).WithHeader("kid", id)
	if kind != "" {
		options = options.WithType(jose.ContentType(kind))
	}
	signer := must(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options))
	return must(must(signer.Sign(must(json.Marshal(claims)))).CompactSerialize())
}

// Unsigned makes a token of algorithm none.
func Unsigned(kind string, claims map[string]any) string {
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
	return part(map[string]any{"alg": "none", "typ": kind}) + "." + part(claims) + "."
}

// PublicAsSecret returns the public key in the form that an algorithm confusion attack would use as an HS256 secret.
func (s *Server) PublicAsSecret() []byte {
	key, _ := s.Key()
	return must(x509.MarshalPKIXPublicKey(key.Public()))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
