package wire_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/oauthclient/wire"
)

func TestParseChallenge(t *testing.T) {
	t.Parallel()
	type challenge = wire.Challenge
	const document = "https://mcp.example/.well-known/oauth-protected-resource"
	tests := map[string]struct {
		headers []string
		want    challenge
	}{
		"none":              {nil, challenge{}},
		"empty":             {[]string{""}, challenge{}},
		"white space":       {[]string{" \t "}, challenge{}},
		"commas":            {[]string{",,, ,"}, challenge{}},
		"scheme alone":      {[]string{"Bearer"}, challenge{Scheme: "bearer"}},
		"upper case":        {[]string{`BEARER SCOPE="a", ERROR=invalid_token`}, challenge{Scheme: "bearer", Scopes: []string{"a"}, Error: "invalid_token"}},
		"other scheme":      {[]string{`Basic realm="x", charset="UTF-8"`}, challenge{}},
		"name as prefix":    {[]string{`Bearerer scope="a"`}, challenge{}},
		"usual":             {[]string{`Bearer realm="x", resource_metadata="` + document + `", scope="a b"`}, challenge{Scheme: "bearer", ResourceMetadata: document, Scopes: []string{"a", "b"}}},
		"without commas":    {[]string{`Bearer realm="x" scope="a" error="invalid_token"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}, Error: "invalid_token"}},
		"space around =":    {[]string{`Bearer scope = "a" , error= x`}, challenge{Scheme: "bearer", Scopes: []string{"a"}, Error: "x"}},
		"quoted comma":      {[]string{`Bearer error_description="no, Bearer scope=\"x\", no", scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}, ErrorDescription: `no, Bearer scope="x", no`}},
		"escapes":           {[]string{`Bearer error="a\b\"\\c"`}, challenge{Scheme: "bearer", Error: `ab"\c`}},
		"escape at the end": {[]string{`Bearer error="a\`}, challenge{Scheme: "bearer"}},
		"quote never ends":  {[]string{`Bearer error="a, scope="b`}, challenge{Scheme: "bearer", Error: "a, scope="}},
		"name twice":        {[]string{`Bearer scope="a", scope="b"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"scheme twice":      {[]string{`Bearer scope="a", Bearer scope="b"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"after another":     {[]string{`Basic realm="x", Bearer scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"before another":    {[]string{`Bearer scope="a", Basic scope="b"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"in two headers":    {[]string{`Basic realm="x"`, `Bearer scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"after token68":     {[]string{`Negotiate YII=, Bearer scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"after two token68": {[]string{`Negotiate abc/d+e==`, `NTLM TlRMTVNT, Bearer scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"bearer token68":    {[]string{`Bearer abc==, DPoP algs="ES256"`}, challenge{Scheme: "dpop"}},
		"dpop first":        {[]string{`Bearer error="e", DPoP error="use_dpop_nonce", algs="ES256"`}, challenge{Scheme: "dpop", Error: "use_dpop_nonce"}},
		"both, bearer says more": {[]string{`Bearer resource_metadata="` + document + `", scope="a"`, `DPoP algs="ES256"`}, challenge{
			Scheme: "dpop", ResourceMetadata: document, Scopes: []string{"a"},
		}},
		"both, bearer follows": {[]string{`DPoP algs="ES256", Bearer error="insufficient_scope", scope="a"`}, challenge{
			Scheme: "dpop", Error: "insufficient_scope", Scopes: []string{"a"},
		}},
		"garbage":           {[]string{"\x00\xff(){}=\"", `Bearer scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"garbage, comma":    {[]string{"=?=, ()()", `Bearer scope="a"`}, challenge{Scheme: "bearer", Scopes: []string{"a"}}},
		"equals sign":       {[]string{"="}, challenge{}},
		"value missing":     {[]string{`Bearer scope=, error=x`}, challenge{Scheme: "bearer", Error: "x"}},
		"scopes not scopes": {[]string{`Bearer scope="a \"b c\\d é ` + strings.Repeat("x", 600) + ` e a"`}, challenge{Scheme: "bearer", Scopes: []string{"a", "e"}}},
		"hidden text":       {[]string{"Bearer error_description=\"a\u202eb\x07\""}, challenge{Scheme: "bearer", ErrorDescription: `a\u202eb\a`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := wire.ParseChallenge(test.headers)
			if len(got.Scopes) == 0 {
				got.Scopes = nil
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("%q:\n got %+v\nwant %+v", test.headers, got, test.want)
			}
		})
	}
}

// The size of the parsed challenge is bounded.
func TestLargeChallenges(t *testing.T) {
	t.Parallel()
	const megabyte = 1 << 20
	for name, header := range map[string]string{
		"one value":   `Bearer scope="a", error_description="` + strings.Repeat("x", megabyte) + `"`,
		"scopes":      `Bearer scope="` + strings.Repeat("a1 b2 ", megabyte/6) + `"`,
		"parameters":  "Bearer " + strings.Repeat(`a="b", `, megabyte/7),
		"challenges":  strings.Repeat("Bearer, ", megabyte/8),
		"commas":      "Bearer" + strings.Repeat(",", megabyte),
		"backslashes": `Bearer error="` + strings.Repeat(`\`, megabyte),
		"equals":      "Bearer " + strings.Repeat("=", megabyte),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := wire.ParseChallenge([]string{header})
			if got.Scheme != "bearer" || len(got.Scopes) > 200 || len(got.ErrorDescription) > 2000 {
				t.Errorf("scheme %q, %d scopes, %d bytes of description", got.Scheme, len(got.Scopes), len(got.ErrorDescription))
			}
		})
	}
	many := make([]string, 0, 1000)
	for i := range cap(many) {
		many = append(many, `Bearer scope="`+strings.Repeat("s", i%500+1)+`"`)
	}
	if got := wire.ParseChallenge(many); len(got.Scopes) != 1 {
		t.Errorf("%d scopes", len(got.Scopes))
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer scope="a", DPoP algs="ES256"`)
	f.Add("Negotiate YII=, =\\\"")
	f.Fuzz(func(t *testing.T, header string) {
		c := wire.ParseChallenge([]string{header})
		if c.Scheme != "" && c.Scheme != "bearer" && c.Scheme != "dpop" {
			t.Errorf("scheme %q", c.Scheme)
		}
		if c.Scheme == "" && !reflect.DeepEqual(c, wire.Challenge{}) {
			t.Errorf("no challenge, but %+v", c)
		}
		for _, scope := range c.Scopes {
			if strings.ContainsAny(scope, " \"\\\r\n\t") || scope == "" {
				t.Errorf("scope %q", scope)
			}
		}
	})
}
