package typed

import (
	"strings"
)

// Link is a URL.
type Link struct {
	Scheme   string // in lower case
	Userinfo string // the text before @, or ""
	Host     Host
	Port     string
	Path     string // as written
	Resolved string // the path without . and .. and their encodings, or "" if it is the same
}

// longScheme is the number of bytes of the longest scheme.
const longScheme = 24

// recognizeURL recognizes an address with a scheme.
func (m member) recognizeURL(v *Value, text string, _ int) bool {
	trimmed := strings.TrimSpace(text)
	colon := strings.IndexByte(trimmed[:min(len(trimmed), longScheme)], ':')
	if colon <= 0 || !isLetter(trimmed[0]) || strings.ContainsFunc(trimmed[:colon], isOutsideScheme) {
		return false
	}
	scheme, rest := strings.ToLower(trimmed[:colon]), trimmed[colon+1:]
	switch {
	case scheme == "javascript" || scheme == "vbscript":
		v.Kind, v.Link = URL, &Link{Scheme: scheme}
		v.addWarning(ScriptURL, scheme)
		return true
	case !strings.HasPrefix(rest, "//") && (!webSchemes.hasWord(scheme) || !strings.HasPrefix(rest, `\\`)), strings.ContainsAny(rest, " \n\t\"<>"):
		return false
	}
	rest = rest[2:]
	authority, path := rest, ""
	if end := strings.IndexAny(rest, `/?#\`); end >= 0 {
		authority, path = rest[:end], rest[end:]
	}
	link := Link{Scheme: scheme}
	host := authority
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		link.Userinfo, host = authority[:at], authority[at+1:]
		v.addWarning(Userinfo, link.Userinfo, host)
	}
	name := host
	if at := strings.LastIndexByte(host, ':'); at > strings.LastIndexByte(host, ']') {
		name, link.Port = host[:at], host[at+1:]
	}
	link.Host = parseHost(name)
	if strings.HasPrefix(path, `\`) || strings.Contains(strings.SplitN(path, "/", 2)[0], "@") && strings.Contains(path, `\`) {
		v.addWarning(AmbiguousHost, trimmed)
	}
	v.Warnings = append(v.Warnings, link.Host.listWarnings()...)
	link.Path = path
	if end := strings.IndexAny(path, "?#"); end >= 0 {
		link.Path = path[:end]
		if decoded := decodePath(path[end:]); hasParent(decoded) {
			v.addWarning(PathTraversal, path[end:], decoded)
		}
	}
	if resolved := resolvePath(link.Path); resolved.Clean != link.Path && resolved.Changed {
		link.Resolved = resolved.Clean
		v.warnAboutPath(link.Path, resolved)
	}
	v.Kind, v.Link = URL, &link
	start := strings.Index(text, trimmed) + colon + len("://")
	v.Spans = append(v.Spans, Span{ClassPlain, text[:start]})
	if at := len(authority) - len(host); at > 0 {
		v.Spans = append(v.Spans, Span{ClassUserinfo, authority[:at]})
	}
	v.Spans = append(v.Spans, link.Host.listSpans()...)
	return true
}

func isOutsideScheme(r rune) bool {
	return r >= 0x80 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-", r)
}
