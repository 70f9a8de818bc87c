package oauthclient

import (
	"slices"
	"strings"
)

// maxChallenge bounds what is read of WWW-Authenticate.
const maxChallenge = 8 << 10

// Challenge is what a server wants, by its WWW-Authenticate (RFC 9110 section 11.6.1,
// RFC 6750 section 3, RFC 9728 section 5.1).
type Challenge struct {
	Scheme           string // "bearer" or "dpop"; empty: the server named neither
	ResourceMetadata string
	Scopes           []string
	Error            string // invalid_token, insufficient_scope, use_dpop_nonce, …
	ErrorDescription string
}

// ParseChallenge reads WWW-Authenticate headers, however many challenges they hold, and
// returns the one for a token: DPoP before Bearer, which completes it. What cannot be read is passed over: a challenge is
// advice, and nothing it says is believed unchecked.
//
// (The SDK's parser gives up on the whole header when one challenge in it is of
// another form, such as the token68 of Negotiate.)
func ParseChallenge(headers []string) Challenge {
	var dpop, bearer *Challenge
	for _, c := range parseChallenges(strings.Join(headers, ", ")) {
		scheme := strings.ToLower(c.scheme)
		parsed := &Challenge{
			Scheme: scheme, ResourceMetadata: c.params["resource_metadata"], Scopes: splitScopes(c.params["scope"]),
			Error: c.params["error"], ErrorDescription: plain(c.params["error_description"], maxPlain),
		}
		switch {
		case scheme == "dpop" && dpop == nil:
			dpop = parsed
		case scheme == "bearer" && bearer == nil:
			bearer = parsed
		}
	}
	switch {
	case dpop != nil && bearer != nil:
		return dpop.completed(*bearer)
	case dpop != nil:
		return *dpop
	case bearer != nil:
		return *bearer
	}
	return Challenge{}
}

// completed adds what the other challenge for a token says and this one does not: servers that take both
// kinds (RFC 9449 section 7.1) say once where their metadata is.
func (c Challenge) completed(other Challenge) Challenge {
	if c.ResourceMetadata == "" {
		c.ResourceMetadata = other.ResourceMetadata
	}
	if len(c.Scopes) == 0 {
		c.Scopes = other.Scopes
	}
	if c.Error == "" {
		c.Error, c.ErrorDescription = other.Error, other.ErrorDescription
	}
	return c
}

func splitScopes(text string) []string {
	var scopes []string
	for scope := range strings.FieldsSeq(text) {
		if validScope(scope) && !slices.Contains(scopes, scope) && len(scopes) < maxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

const maxScopes = 200

// validScope is RFC 6749's scope-token.
func validScope(scope string) bool {
	return scope != "" && len(scope) <= 512 && !strings.ContainsFunc(scope, func(r rune) bool {
		return r < 0x21 || r > 0x7e || r == '"' || r == '\\'
	})
}

type rawChallenge struct {
	scheme string
	params map[string]string // names in lower case; the first of one name counts
}

// parseChallenges reads a list of challenges: scheme, then token68 or parameters, all
// of it separated by commas, as challenges are.
func parseChallenges(text string) []rawChallenge {
	p := headerParser{text: text[:min(len(text), maxChallenge)]}
	var all []rawChallenge
	for p.skip(" \t,"); p.text != ""; p.skip(" \t,") {
		word := p.token()
		if word == "" { // not a token: what it is, nobody knows
			p.skipToComma()
			continue
		}
		rest := p
		rest.skip(" \t")
		if len(all) > 0 && strings.HasPrefix(rest.text, "=") && !strings.HasPrefix(rest.text, "==") {
			rest.text = rest.text[1:]
			rest.skip(" \t")
			value := rest.value()
			last := all[len(all)-1].params
			if _, twice := last[strings.ToLower(word)]; !twice {
				last[strings.ToLower(word)] = value
			}
			p = rest
			continue
		}
		all = append(all, rawChallenge{word, map[string]string{}})
		p = rest
		p.skipToken68()
	}
	return all
}

type headerParser struct{ text string }

func (p *headerParser) skip(chars string) { p.text = strings.TrimLeft(p.text, chars) }

func (p *headerParser) skipToComma() {
	_, p.text, _ = strings.Cut(p.text, ",")
}

func (p *headerParser) token() string {
	end := strings.IndexFunc(p.text, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
	if end < 0 {
		end = len(p.text)
	}
	word := p.text[:end]
	p.text = p.text[end:]
	return word
}

// skipToken68 passes over credentials such as those of Negotiate, which are no parameter: one
// run of their characters up to a comma or the end.
func (p *headerParser) skipToken68() {
	rest := strings.TrimLeft(p.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/")
	end := strings.TrimLeft(strings.TrimLeft(rest, "="), " \t")
	if len(rest) < len(p.text) && (end == "" || end[0] == ',') {
		p.text = end
	}
}

// value is a token or a quoted string.
func (p *headerParser) value() string {
	if !strings.HasPrefix(p.text, `"`) {
		end := strings.IndexAny(p.text, ", \t")
		if end < 0 {
			end = len(p.text)
		}
		value := p.text[:end]
		p.text = p.text[end:]
		return value
	}
	var b strings.Builder
	for i := 1; i < len(p.text); i++ {
		switch p.text[i] {
		case '\\':
			if i++; i < len(p.text) {
				b.WriteByte(p.text[i])
			}
		case '"':
			p.text = p.text[i+1:]
			return b.String()
		default:
			b.WriteByte(p.text[i])
		}
	}
	p.text = "" // it never ended
	return ""
}
