package login

import (
	"net/url"
	"strings"
	"unicode"
)

// home is where people are sent who came from nowhere in particular.
const home = "/"

// maxNext is long enough for an authorization server's answer, whose code may be a whole JWT.
const maxNext = 8000

// localPath returns where to go after signing in: the given path and query if they are
// of this server, else home. Browsers read backslashes as slashes and skip control
// characters, so neither is let through, nor is what begins with two slashes.
func localPath(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || len(next) > maxNext ||
		strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return home
	}
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" || strings.HasPrefix(u.Path, "//") {
		return home
	}
	if u.Path == SignInPath || u.Path == SignOutPath || strings.HasPrefix(u.Path, SignInPath+"/") {
		return home
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}).String()
}
