package httptool

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/idna"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxRedirects is the number of redirects that one call follows.
const maxRedirects = 5

// sendFollowing sends the request and follows redirects of GET and HEAD. Within the origin the request keeps its headers. Another origin gets
// no header of the skill, the caller or an argument, nor does any host that it redirects to.
func (x *exchange) sendFollowing() (*reply, *tool.Failure) {
	var a *attempt
	if x.first != nil {
		a = x.first.attempt
	} else {
		var err error
		if a, err = x.firstAttempt(); err != nil {
			return nil, unsentFailure(x.server, err)
		}
	}
	for followed := 0; ; followed++ {
		got, failure := x.sendAuthorized(a)
		if failure != nil || !isRedirect(got.status) || a.method != http.MethodGet && a.method != http.MethodHead {
			return got, failure
		}
		if followed == maxRedirects {
			got.note = fmt.Sprintf("More than %d redirects are not followed.", maxRedirects)
			return got, nil
		}
		next, problem := x.redirectAttempt(a, got.header.Get("Location"))
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

// redirectAttempt returns the attempt that a redirect leads to, or why it is not followed.
func (x *exchange) redirectAttempt(a *attempt, location string) (next *attempt, problem string) {
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
	if setting.OriginOf(a.url) == setting.OriginOf(to) {
		same := *a
		same.url = to
		return &same, ""
	}
	shown := plain.Line(x.maskText(baseOrigin(to)), 200)
	switch {
	case x.hasSecret(to.String()): // possibly in its host, so it is not shown
		return nil, "It redirects to another origin, with a secret of the skill in the URL, and is not followed."
	case x.stay:
		return nil, fmt.Sprintf("It redirects to another origin, %s, and is not followed.", shown)
	case a.url.Scheme == "https" && to.Scheme == "http":
		return nil, fmt.Sprintf("It redirects to %s, which is not encrypted, and is not followed.", shown)
	}
	return &attempt{
		method: a.method, url: to, foreign: true, crossOrigin: true,
		header: http.Header{"User-Agent": a.header["User-Agent"], "Accept": {cmp.Or(x.binding.Accept, "*/*")}},
	}, ""
}

// hasSecret reports whether a URL contains a secret in any encoding. It ignores case, because hosts are in lower case.
func (x *exchange) hasSecret(text string) bool {
	text = strings.ToLower(text)
	for range maxDecodings {
		for _, secret := range x.secrets {
			secret = strings.ToLower(secret)
			if strings.Contains(text, secret) || strings.Contains(strings.ReplaceAll(text, "+", " "), secret) {
				return true
			}
		}
		next := strings.ToLower(decodePercent(text))
		if next == text {
			return false
		}
		text = next
	}
	return true
}
