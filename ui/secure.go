package ui

import (
	"crypto/rand"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// The Content-Security-Policy is these two with the page's nonce between them. Scripts are files of this server. htmx only
// acts on elements with the nonce, so injected markup has no effect.
const (
	policyStart = "default-src 'none'; script-src 'self' 'nonce-"
	policyEnd   = "'; style-src 'self'; img-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
		"trusted-types htmx holdpoint"
)

// addHeaders sets the security headers. It gives each response a nonce, and the page the reader's time zone.
func (u *UI) addHeaders(next http.Handler) http.Handler {
	return speakLanguage(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := rand.Text()
		h := w.Header()
		h.Set("Content-Security-Policy", policyStart+nonce+policyEnd)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Add("Vary", "HX-Request")
		r.Body = http.MaxBytesReader(w, r.Body, limitForm(r))
		ctx := view.WithNow(view.WithZone(templ.WithNonce(r.Context(), nonce), shell.ZoneOf(r)), u.Now())
		next.ServeHTTP(w, r.WithContext(ctx))
	}))
}

// maxForm bounds forms: edited arguments of the maximal size, URL-encoded, and a reason.
const maxForm = 3*call.MaxArgumentBytes + 64<<10

// maxDocumentForm bounds forms with OpenAPI documents.
const maxDocumentForm = agent.MaxDocument + maxForm

// limitForm returns the maximal size of a form. No body is read before its sender is known.
func limitForm(r *http.Request) int64 {
	if path := r.URL.Path; path == "/imports/new" || strings.HasPrefix(path, "/skills/") && strings.HasSuffix(path, "/edit") {
		return maxDocumentForm
	}
	return maxForm
}

func (u *UI) refuseCrossOrigin(w http.ResponseWriter, r *http.Request) {
	u.Log.Warn("request of another site refused", "method", r.Method, "path", r.URL.Path, "origin", r.Header.Get("Origin"))
	u.Render(w, r, http.StatusForbidden, view.MessagePage(u.BarePage(r, text.PageCrossOrigin()), view.Notice{
		Title: text.PageCrossOrigin(),
		Text:  text.PageCrossOriginHelp(),
	}))
}
