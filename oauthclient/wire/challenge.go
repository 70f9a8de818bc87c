package wire

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// MaxChallenge bounds the bytes of WWW-Authenticate that are read.
const MaxChallenge = 8 << 10

// Challenge is the part of a server's WWW-Authenticate that is about tokens (RFC 9110 section 11.6.1, RFC 6750 section 3, RFC
// 9728 section 5.1).
type Challenge struct {
	Scheme           string // "bearer" or "dpop"; empty: neither
	ResourceMetadata string
	Scopes           []string
	Error            string // invalid_token, insufficient_scope, use_dpop_nonce, …
	ErrorDescription string
}

// ParseChallenge reads WWW-Authenticate headers with any number of challenges. It returns the DPoP challenge, completed by the
// Bearer challenge, or the Bearer challenge. It skips what it cannot parse: a challenge is advice, and is checked before it is
// used.
//
// The SDK's parser refuses the whole header if one challenge in it has another form, such as the token68 of Negotiate.
func ParseChallenge(headers []string) Challenge {
	var dpop, bearer Challenge
	for _, c := range parseChallenges(strings.Join(headers, ", ")) {
		parsed := Challenge{
			Scheme: strings.ToLower(c.scheme), ResourceMetadata: c.params["resource_metadata"], Scopes: SplitScopes(c.params["scope"]),
			Error: c.params["error"], ErrorDescription: plain.Line(c.params["error_description"], MaxText),
		}
		switch {
		case parsed.Scheme == "dpop" && dpop.Scheme == "":
			dpop = parsed
		case parsed.Scheme == "bearer" && bearer.Scheme == "":
			bearer = parsed
		}
	}
	if dpop.Scheme == "" {
		return bearer
	}
	// Servers that accept both kinds of tokens (RFC 9449 section 7.1) name their metadata once.
	dpop.ResourceMetadata = cmp.Or(dpop.ResourceMetadata, bearer.ResourceMetadata)
	if len(dpop.Scopes) == 0 {
		dpop.Scopes = bearer.Scopes
	}
	if dpop.Error == "" {
		dpop.Error, dpop.ErrorDescription = bearer.Error, bearer.ErrorDescription
	}
	return dpop
}

// SplitScopes returns the scopes in a text, each once. It leaves out those that are no scope-token of RFC 6749 section 3.3.
func SplitScopes(text string) []string {
	var scopes []string
	for scope := range strings.FieldsSeq(text) {
		invalid := len(scope) > 512 || strings.ContainsFunc(scope, func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' })
		if !invalid && !slices.Contains(scopes, scope) && len(scopes) < MaxScopes {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// MaxScopes bounds a list of scopes.
const MaxScopes = 200

type rawChallenge struct {
	scheme string
	params map[string]string // by name in lower case; the first of a name counts
}

// parseChallenges reads a list of challenges. A challenge is a scheme and a token68 or parameters; challenges and parameters
// are all separated by commas.
func parseChallenges(text string) []rawChallenge {
	p := headerParser{text: text[:min(len(text), MaxChallenge)]}
	var all []rawChallenge
	for p.skipChars(" \t,"); p.text != ""; p.skipChars(" \t,") {
		word := p.readToken()
		if word == "" { // unknown syntax
			_, p.text, _ = strings.Cut(p.text, ",")
			continue
		}
		rest := p
		rest.skipChars(" \t")
		if len(all) > 0 && strings.HasPrefix(rest.text, "=") && !strings.HasPrefix(rest.text, "==") {
			rest.text = rest.text[1:]
			rest.skipChars(" \t")
			value := rest.readValue()
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

func (p *headerParser) skipChars(chars string) { p.text = strings.TrimLeft(p.text, chars) }

func (p *headerParser) readToken() string {
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

// skipToken68 skips credentials such as those of Negotiate: one run of token68 characters up to a comma or the end.
func (p *headerParser) skipToken68() {
	rest := strings.TrimLeft(p.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/")
	end := strings.TrimLeft(strings.TrimLeft(rest, "="), " \t")
	if len(rest) < len(p.text) && (end == "" || end[0] == ',') {
		p.text = end
	}
}

// readValue reads a token or a quoted string.
func (p *headerParser) readValue() string {
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
	p.text = "" // the quote is not closed
	return ""
}
