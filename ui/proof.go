package ui

import (
	"maps"
	"mime/multipart"
	"net/http"
	"slices"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// listProofPatterns returns the forms that equal a credential, because their sender can act later without another sign-in, and the one that
// approves without the people whom a policy asks. They need a recent sign-in.
func listProofPatterns() []string {
	return []string{
		"POST /members", "POST /members/{id}/grant", "POST /members/{id}/unblock", "POST /members/{id}/tokens",
		"POST /members/{id}/link", "POST /members/{id}/unlink", "POST /settings/tokens",
		"POST /skills/new", "POST /skills/{id}/edit", "POST /skills/{id}/accept",
		"POST /imports/{id}/save", "POST /changes/{id}/approve",
		"POST /agents/{id}/keys", "POST /agents/new", "POST /agents/{id}/edit", "POST /agents/{id}/assign",
		"POST /agents/{id}/callbacks", "POST /agents/{id}/callbacks/{callback}/rotate",
		"POST /settings/webhooks", "POST /teams/delegations", "POST /teams/schedules",
		"POST /calls/{id}/break-glass",
	}
}

// askForProof calls next if the sign-in is recent. Otherwise it answers with a page that keeps the input, leads to the sign-in
// and sends the same form afterwards.
func (u *UI) askForProof(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if u.login.Fresh(r, u.cfg.ProofAge) {
			next(w, r)
			return
		}
		v := ProofWanted{Action: r.URL.RequestURI(), ProveURL: login.ProveURL("/")}
		for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
			for _, value := range r.PostForm[name] {
				v.Fields = append(v.Fields, KeptField{Name: name, Value: value})
			}
		}
		if r.MultipartForm != nil {
			v.Parts = true
			for _, files := range r.MultipartForm.File {
				v.FilesLost = v.FilesLost || slices.ContainsFunc(files, func(f *multipart.FileHeader) bool { return f.Size > 0 })
			}
		}
		page := u.Page(r, view.SectionSettings, text.SignInAgainTitle(), approval.Pulse{Now: u.cfg.Now()})
		u.Render(w, r, http.StatusUnauthorized, ProofWantedPage(page, v))
	}
}
