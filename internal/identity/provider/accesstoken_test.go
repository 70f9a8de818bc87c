package provider_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/identity/provider/tokentest"
)

const resource = "https://hold.example.com/agents/billing/mcp"

// issuing is an authorization server and a verifier of its tokens, with the test's clock.
type issuing struct {
	*tokentest.Server
	all   provider.TokenIssuers
	ahead atomic.Int64
}

func startIssuing(t *testing.T, change func(*provider.TokenConfig)) *issuing {
	t.Helper()
	s := &issuing{Server: tokentest.New()}
	t.Cleanup(s.Close)
	cfg := provider.TokenConfig{Issuer: s.URL}
	if change != nil {
		change(&cfg)
	}
	one, err := provider.NewTokenIssuer(cfg, provider.Surroundings{Now: func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }})
	check(t, err)
	t.Cleanup(one.Close)
	s.all = provider.TokenIssuers{one}
	return s
}

// newClaims returns valid claims with changes.
func (s *issuing) newClaims(change map[string]any) map[string]any {
	now := time.Now().Unix()
	all := map[string]any{
		"iss": s.URL, "sub": "vera", "aud": resource, "client_id": "desk", "exp": now + 300, "iat": now, "jti": "1",
		"agent": "billing", "scope": "openid holdpoint.call",
	}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func TestAccessTokens(t *testing.T) {
	t.Parallel()
	s := startIssuing(t, nil)
	hour := int64(3600)
	now := time.Now().Unix()
	other := tokentest.New()
	t.Cleanup(other.Close)
	otherKey, _ := other.Key()
	_, id := s.Key()
	for name, tt := range map[string]struct{ raw, refused string }{
		"as RFC 9068 has it":     {s.Sign("at+jwt", s.newClaims(nil)), ""},
		"with its whole type":    {s.Sign("application/at+jwt", s.newClaims(nil)), ""},
		"of type JWT":            {s.Sign("JWT", s.newClaims(nil)), ""},
		"without a type":         {s.Sign("", s.newClaims(nil)), ""},
		"for several":            {s.Sign("at+jwt", s.newClaims(map[string]any{"aud": []string{"https://x.example", resource}})), ""},
		"for another":            {s.Sign("at+jwt", s.newClaims(map[string]any{"aud": "https://hold.example.com/agents/clerk/mcp"})), "audience"},
		"for nearly this":        {s.Sign("at+jwt", s.newClaims(map[string]any{"aud": resource + "/"})), "audience"},
		"for nobody":             {s.Sign("at+jwt", s.newClaims(map[string]any{"aud": nil})), "audience"},
		"of another issuer":      {other.Sign("at+jwt", s.newClaims(map[string]any{"iss": other.URL})), "issuer"},
		"in another's name":      {other.Sign("at+jwt", s.newClaims(nil)), "could not be verified"},
		"with another's key":     {tokentest.SignWith(jose.ES256, otherKey, id, "at+jwt", s.newClaims(nil)), "could not be verified"},
		"with another issuer":    {s.Sign("at+jwt", s.newClaims(map[string]any{"iss": s.URL + "/"})), "issuer"},
		"algorithm none":         {tokentest.Unsigned("at+jwt", s.newClaims(nil)), "could not be verified"},
		"HS256, the public key":  {tokentest.SignWith(jose.HS256, s.PublicAsSecret(), id, "at+jwt", s.newClaims(nil)), "could not be verified"},
		"expired":                {s.Sign("at+jwt", s.newClaims(map[string]any{"exp": now - 1})), "expired"},
		"without an end":         {s.Sign("at+jwt", s.newClaims(map[string]any{"exp": nil})), "expired"},
		"not yet valid":          {s.Sign("at+jwt", s.newClaims(map[string]any{"nbf": now + hour})), "not valid yet"},
		"of the future":          {s.Sign("at+jwt", s.newClaims(map[string]any{"iat": now + hour, "exp": now + 2*hour})), "future"},
		"of nobody":              {s.Sign("at+jwt", s.newClaims(map[string]any{"sub": nil})), "subject"},
		"an ID token by nonce":   {s.Sign("JWT", s.newClaims(map[string]any{"nonce": "n"})), "ID token"},
		"an ID token by hash":    {s.Sign("", s.newClaims(map[string]any{"at_hash": "h"})), "ID token"},
		"an ID token, as said":   {s.Sign("JWT", s.newClaims(map[string]any{"typ": "ID"})), "ID token"},
		"an ID token by its use": {s.Sign("JWT", s.newClaims(map[string]any{"token_use": "id"})), "ID token"},
		"for its own client":     {s.Sign("JWT", s.newClaims(map[string]any{"azp": resource})), "ID token"},
		"a logout token":         {s.Sign("logout+jwt", s.newClaims(nil)), "not an access token"},
		"bound to a key":         {s.Sign("at+jwt", s.newClaims(map[string]any{"cnf": map[string]any{"jkt": "x"}})), "bound"},
		"opaque":                 {"opaque", "unknown here"},
		"too large":              {s.Sign("at+jwt", s.newClaims(map[string]any{"x": strings.Repeat("x", 20<<10)})), "unknown here"},
		"three parts of nothing": {"a.b.c", "unknown here"},
		"null":                   {"bnVsbA.bnVsbA.", "issuer"},
	} {
		token, err := s.all.Verify(t.Context(), tt.raw, resource)
		var bad *provider.TokenError
		switch {
		case tt.refused == "":
			if err != nil || token.Subject != "vera" || token.ClientID != "desk" || token.NoPerson || !token.MayActAs("billing") || token.MayActAs("clerk") {
				t.Errorf("%s: %+v, %v", name, token, err)
			}
		case !errors.As(err, &bad) || !strings.Contains(bad.Description, tt.refused) || strings.ContainsAny(bad.Description, `"\`):
			t.Errorf("%s: %+v, %v", name, token, err)
		}
	}
}

func TestScopesOfAccessTokens(t *testing.T) {
	t.Parallel()
	s := startIssuing(t, func(c *provider.TokenConfig) { c.Scopes = []string{"holdpoint.call", "b"} })
	for name, tt := range map[string]struct {
		claims map[string]any
		ok     bool
	}{
		"all":       {map[string]any{"scope": "b x holdpoint.call"}, true},
		"as a list": {map[string]any{"scope": nil, "scp": []string{"b", "holdpoint.call"}}, true},
		"as text":   {map[string]any{"scope": nil, "scp": "b holdpoint.call"}, true},
		"one":       {map[string]any{"scope": "b"}, false},
		"none":      {map[string]any{"scope": nil}, false},
		"a part":    {map[string]any{"scope": "b holdpoint.call2"}, false},
	} {
		_, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(tt.claims)), resource)
		var lacks *provider.ScopeError
		if (err == nil) != tt.ok || !tt.ok && (!errors.As(err, &lacks) || !slices.Equal(lacks.Scopes, []string{"holdpoint.call", "b"})) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhomAccessTokensActAs(t *testing.T) {
	t.Parallel()
	mapped := map[string][]string{"desk": {"billing", "clerk"}, "lab": {"*"}, "batch": {"billing"}}
	for name, tt := range map[string]struct {
		change   func(*provider.TokenConfig)
		claims   map[string]any
		agents   string
		noPerson bool
	}{
		"a list":                 {nil, map[string]any{"agent": []string{"billing", "clerk"}}, "billing clerk", false},
		"no claim":               {nil, map[string]any{"agent": nil}, "", false},
		"a number":               {nil, map[string]any{"agent": 7}, "", false},
		"every agent, it says":   {nil, map[string]any{"agent": []string{"*", "x"}}, "x", false},
		"within another":         {func(c *provider.TokenConfig) { c.AgentClaim = "holdpoint.agents" }, map[string]any{"holdpoint": map[string]any{"agents": []string{"x"}}}, "x", false},
		"by client":              {func(c *provider.TokenConfig) { c.AgentClaim, c.Agents = "client_id", mapped }, nil, "billing clerk", false},
		"every agent":            {func(c *provider.TokenConfig) { c.AgentClaim, c.Agents = "client_id", mapped }, map[string]any{"client_id": "lab"}, "*", false},
		"an unknown client":      {func(c *provider.TokenConfig) { c.AgentClaim, c.Agents = "client_id", mapped }, map[string]any{"client_id": "billing"}, "", false},
		"the client's own":       {nil, map[string]any{"sub": "desk"}, "billing", true},
		"a service client's":     {func(c *provider.TokenConfig) { c.ServiceClients = []string{"desk"} }, nil, "billing", true},
		"of no people at all":    {func(c *provider.TokenConfig) { c.NoPerson = true }, nil, "billing", true},
		"of an authorized party": {func(c *provider.TokenConfig) { c.ServiceClients = []string{"desk"} }, map[string]any{"client_id": nil, "azp": "desk"}, "billing", true},
	} {
		s := startIssuing(t, tt.change)
		token, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(tt.claims)), resource)
		if err != nil || strings.Join(token.Agents, " ") != tt.agents || token.NoPerson != tt.noPerson {
			t.Errorf("%s: %+v, %v", name, token, err)
		}
	}
}

func TestAudienceThatIsSet(t *testing.T) {
	t.Parallel()
	s := startIssuing(t, func(c *provider.TokenConfig) { c.Audience = "holdpoint" })
	if _, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(map[string]any{"aud": "holdpoint"})), resource); err != nil {
		t.Error(err)
	}
	if _, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(nil)), resource); err == nil {
		t.Error("issued for another")
	}
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	s := startIssuing(t, nil)
	verify := func() error {
		_, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(nil)), resource)
		return err
	}
	check(t, verify())
	check(t, verify())
	if n := s.Asked.Load(); n != 1 {
		t.Errorf("asked for its keys %d times", n)
	}
	s.Rotate("second")
	for range 5 {
		if err := verify(); err == nil {
			t.Error("keys were asked for again at once")
		}
	}
	if n := s.Asked.Load(); n != 1 {
		t.Errorf("asked for its keys %d times", n)
	}
	s.ahead.Add(int64(11 * time.Second))
	check(t, verify())
	for range 5 {
		check(t, verify())
	}
	if n := s.Asked.Load(); n != 2 {
		t.Errorf("asked for its keys %d times", n)
	}
	s.ahead.Add(int64(2 * time.Minute))
	s.Down.Store(true)
	check(t, verify()) // the keys are cached
}

func TestIssuerThatIsAway(t *testing.T) {
	t.Parallel()
	s := startIssuing(t, nil)
	verify := func() error {
		_, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(nil)), resource)
		return err
	}
	s.Down.Store(true)
	if err := verify(); !errors.Is(err, provider.ErrUnreachable) {
		t.Errorf("%v", err)
	}
	s.Down.Store(false)
	if err := verify(); !errors.Is(err, provider.ErrUnreachable) || s.Asked.Load() != 0 {
		t.Errorf("asked again at once: %v", err)
	}
	s.ahead.Add(int64(3 * time.Second))
	check(t, verify())
}

func TestMetadataOfIssuer(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"issuer": "https://other.example", "jwks_uri": "http://203.0.113.7/keys"} {
		s := startIssuing(t, nil)
		s.Say(name, value)
		if _, err := s.all.Verify(t.Context(), s.Sign("at+jwt", s.newClaims(nil)), resource); !errors.Is(err, provider.ErrUnreachable) || s.Asked.Load() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenConfig(t *testing.T) {
	t.Parallel()
	good := provider.TokenConfig{Issuer: "https://as.example"}
	for field, change := range map[string]func(*provider.TokenConfig){
		"issuer": func(c *provider.TokenConfig) { c.Issuer = "as.example" },
		"scopes": func(c *provider.TokenConfig) { c.Scopes = []string{"a b"} },
		"agents": func(c *provider.TokenConfig) { c.Agents = map[string][]string{"x": nil} },
	} {
		cfg := good
		change(&cfg)
		_, err := provider.NewTokenIssuer(cfg, provider.Surroundings{Now: time.Now})
		var invalid *fault.InvalidError
		if !errors.As(err, &invalid) || invalid.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
