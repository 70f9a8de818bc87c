package httptool

import (
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/idna"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxRedirects is how many redirects one call follows.
const maxRedirects = 5

// redirected sends the request, and follows redirects of GET and HEAD. Within the origin everything goes along; another origin gets
// nothing that the skill, the caller or an argument put into the header, and so it stays, wherever it redirects to.
func (x *exchange) redirected() (*reply, *tool.Failure) {
	var a *attempt
	if x.ready != nil {
		a = x.ready.attempt
	} else {
		var err error
		if a, err = x.first(); err != nil {
			return nil, prepareFailure(x.server, err)
		}
	}
	for follows := 0; ; follows++ {
		got, failure := x.authorized(a)
		if failure != nil || !isRedirect(got.status) || a.method != http.MethodGet && a.method != http.MethodHead {
			return got, failure
		}
		if follows == maxRedirects {
			got.note = fmt.Sprintf("More than %d redirects are not followed.", maxRedirects)
			return got, nil
		}
		next, problem := x.follow(a, got.header.Get("Location"))
		if problem != "" {
			got.note = problem
			return got, nil
		}
		a = next
	}
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// follow is the attempt that a redirect asks for, or why it is not made.
func (x *exchange) follow(a *attempt, location string) (next *attempt, problem string) {
	if location == "" {
		return nil, "It is a redirect without a Location."
	}
	to, err := a.url.Parse(location)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" || to.Opaque != "" {
		return nil, "It redirects to what is no http or https URL, and is not followed."
	}
	if host, err := idna.Lookup.ToASCII(to.Hostname()); err == nil && !isASCII(to.Hostname()) {
		to.Host = strings.Replace(to.Host, to.Hostname(), host, 1)
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	if originOf(a.url) == originOf(to) {
		same := *a
		same.url = to
		return &same, ""
	}
	shown := plain.Line(x.hideText(origin(to)), 200)
	switch {
	case x.quotes(to.String()): // which may be its host
		return nil, "It redirects to another origin, with a secret of the skill in the URL, and is not followed."
	case x.stay:
		return nil, fmt.Sprintf("It redirects to another origin, %s, and is not followed.", shown)
	case a.url.Scheme == "https" && to.Scheme == "http":
		return nil, fmt.Sprintf("It redirects to %s, which is not encrypted, and is not followed.", shown)
	}
	return &attempt{
		method: a.method, url: to, foreign: true, stranger: true,
		header: http.Header{"User-Agent": a.header["User-Agent"], "Accept": {x.accept()}},
	}, ""
}

// accept is what the definition asks for, not what a header of the skill's does.
func (x *exchange) accept() string {
	if x.binding.Accept == "" {
		return "*/*"
	}
	return x.binding.Accept
}

// quotes reports whether a URL has a secret in it, in whatever form: hosts have no upper case.
func (x *exchange) quotes(text string) bool {
	text = strings.ToLower(text)
	for range maxDecodings {
		for _, secret := range x.secrets {
			secret = strings.ToLower(secret)
			if strings.Contains(text, secret) || strings.Contains(strings.ReplaceAll(text, "+", " "), secret) {
				return true
			}
		}
		next := strings.ToLower(decoded(text))
		if next == text {
			return false
		}
		text = next
	}
	return true
}
