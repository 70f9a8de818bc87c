package ui

import (
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// rule says who may use a route: signed-in people with one of these roles. Its zero value is nobody's.
type rule []identity.Role

func reviewers() rule { return rule{identity.Reviewer} }
func operators() rule { return rule{identity.Operator} }
func both() rule      { return rule{identity.Reviewer, identity.Operator} }

// Route is one row of the table of routes.
type Route struct {
	Pattern string // method and path
	Rule    rule
	do      http.HandlerFunc
}

// Routes is the table of everything that signed-in people can ask for. Nothing works that is not in it.
func (u *UI) Routes() []Route {
	return slices.Concat(u.reviewRoutes(), u.historyRoutes(), u.talkRoutes(), u.skillRoutes(), u.importRoutes(), u.agentRoutes(), u.callbackRoutes(), u.connectionRoutes(), u.memberRoutes(),
		u.settingsRoutes(), u.insightRoutes(), u.notifyRoutes())
}

func (u *UI) reviewRoutes() []Route {
	return []Route{
		{"GET /{$}", both(), u.showQueue},
		{"GET /calls/{id}", both(), u.showCall},
		{"GET /calls/{id}/arguments", both(), u.downloadArguments},
		{"GET /calls/{id}/result", both(), u.downloadResult},
		{"GET /calls/{id}/before", both(), u.showBefore},
		{"GET /calls/{id}/files/{file}", both(), u.downloadFile},
		{"POST /calls/{id}/reveal", both(), u.reveal},
		{"POST /calls/{id}/approve", reviewers(), u.approve},
		{"POST /calls/{id}/confirm", reviewers(), u.confirm},
		{"POST /calls/{id}/reject", reviewers(), u.reject},
		{"POST /calls/{id}/edit", reviewers(), u.edit},
		{"POST /calls/{id}/extend", reviewers(), u.extend},
		{"POST /calls/{id}/questions/{number}/approve", reviewers(), u.approveQuestion},
		{"POST /calls/{id}/questions/{number}/reject", reviewers(), u.rejectQuestion},
		{"POST /calls/{id}/questions/{number}/reveal", both(), u.revealQuestion},
		{"POST /calls/{id}/seen", both(), u.seen},
		{"GET /calls/{id}/like", reviewers(), u.showLike},
		{"POST /calls/{id}/like", reviewers(), u.decideLike},
		{"POST /calls/{id}/resolve", operators(), u.resolve},
		{"POST /calls/{id}/cancel", operators(), u.cancel},
	}
}

func (u *UI) skillRoutes() []Route {
	return []Route{
		{"GET /skills", both(), u.showSkills},
		{"GET /skills/new", operators(), u.newSkill},
		{"POST /skills/new", operators(), u.createSkill},
		{"GET /skills/{id}", both(), u.showSkill},
		{"GET /skills/{id}/edit", operators(), u.editSkill},
		{"POST /skills/{id}/edit", operators(), u.saveSkill},
		{"GET /skills/{id}/delete", operators(), u.confirmDeleteSkill},
		{"POST /skills/{id}/delete", operators(), u.deleteSkill},
		{"POST /skills/{id}/ask", operators(), u.askSkill},
		{"POST /skills/{id}/probe", operators(), u.probeSkill},
		{"GET /skills/{id}/tools", both(), u.showTool},
		{"POST /skills/{id}/tools", operators(), u.changeTool},
		{"POST /skills/{id}/accept", operators(), u.acceptTool},
		{"POST /skills/{id}/refuse", operators(), u.refuseTool},
		{"POST /skills/{id}/connect", both(), u.connect}, // their own account; a shared one is for operators
	}
}

// connectionRoutes are about people's own connections, and for operators about all of them.
func (u *UI) connectionRoutes() []Route {
	return []Route{
		{"GET /connections", both(), u.showConnections},
		{"GET /connections/{id}", both(), u.showConnection},
		{"POST /connections/{id}/disconnect", both(), u.disconnect},
		{"GET " + oauthclient.CallbackPath, both(), u.callback},
	}
}

// Mount adds all routes of the dashboard to mux.
func (u *UI) Mount(mux *http.ServeMux) {
	pages := http.NewServeMux()
	u.login.Mount(pages)
	parts := map[string]bool{login.SignInPath: true, login.SignOutPath: true, identity.InvitationPath: true}
	forms := map[string]bool{}
	for _, r := range u.Routes() {
		if slices.Contains(proofPatterns(), r.Pattern) {
			r.do = u.askForProof(r.do)
		}
		pages.Handle(r.Pattern, u.login.Required(u.allow(r.Rule, r.do)))
		method, path, _ := strings.Cut(r.Pattern, " ")
		first := firstPart(path)
		parts[first] = true
		if method == http.MethodPost && strings.HasPrefix(path, first+"/{id}/") {
			forms[first] = true
		}
	}
	for first := range forms {
		// Anybody may ask for a form's address, as after signing in: its page is what they mean.
		pages.Handle("GET "+first+"/{id}/{form...}", http.HandlerFunc(toParent))
	}
	protected := u.secure(u.protection.Handler(u.orNowhere(pages)))
	mux.Handle("/", u.secure(http.HandlerFunc(u.nowhere)))
	for part := range parts {
		mux.Handle(part, protected)
		if part != "/{$}" {
			mux.Handle(part+"/", protected)
		}
	}
	u.mountFiles(mux)
}

// firstPart is the first segment of a path: everything below it is the dashboard's.
func firstPart(path string) string {
	if path == "/{$}" {
		return path
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return "/" + part
}

// allow lets only people with one of a rule's roles through.
func (u *UI) allow(rule rule, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access, ok := login.Access(r.Context())
		if !ok || !slices.ContainsFunc(rule, access.Has) {
			u.fail(w, r, errForbidden)
			return
		}
		if r.Method == http.MethodPost {
			if err := parseForm(r); err != nil {
				u.fail(w, r, &formError{err})
				return
			}
		}
		next(w, r)
	})
}

// parseForm reads all of a form, also of one that is sent in parts.
func parseForm(r *http.Request) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == "multipart/form-data" {
		return r.ParseMultipartForm(maxDocumentForm) // so that nothing of it is written to the disk
	}
	return r.ParseForm()
}

// formError is a form that cannot be read whole. What can be read of it counts for nothing: a part of a form says
// something else than all of it.
type formError struct{ error }

func (e *formError) Unwrap() error { return e.error }

// formFailure is what fail says of forms that cannot be read; false when the error is another.
func formFailure(err error) (status int, n view.Notice, ok bool) {
	if _, ok := errors.AsType[*formError](err); !ok {
		return 0, n, false
	}
	n = view.Notice{
		Level: view.Danger, Title: "Not understood",
		Text: "The form did not arrive as forms are written, so nothing was done. Go back, and send it again.",
	}
	if tooLong, ok := errors.AsType[*http.MaxBytesError](err); ok {
		n.Title, n.Text = "Too much", "A form may send "+strconv.FormatInt(tooLong.Limit>>10, 10)+" KiB at most, so nothing was done."
		return http.StatusRequestEntityTooLarge, n, true
	}
	return http.StatusBadRequest, n, true
}

// toParent leads from a form's address to the page that the form is on.
func toParent(w http.ResponseWriter, r *http.Request) {
	part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	//nolint:gosec // G710: part is the first segment of a route of this server
	http.Redirect(w, r, "/"+part+"/"+url.PathEscape(r.PathValue("id")), http.StatusSeeOther)
}
