package ui

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

func (u *UI) settingsRoutes() []Route {
	return []Route{
		{"GET /settings", both(), u.showSettings},
		{"POST /settings/theme", both(), u.setTheme},
		{"POST /settings/end-session", both(), u.endOwnSession}, // their own
		{"POST /settings/tokens", both(), u.makeOwnToken},
		{"POST /settings/revoke-token", both(), u.revokeOwnToken}, // their own
		{"POST /settings/sign-out", both(), u.login.SignOutEverywhere},
	}
}

// showSettings shows who the reader is here, and what they may choose.
func (u *UI) showSettings(w http.ResponseWriter, r *http.Request) {
	u.answerWithSettings(w, r, http.StatusOK, nil)
}

func (u *UI) answerWithSettings(w http.ResponseWriter, r *http.Request, status int, n *view.Notice) {
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	s := view.Settings{Notice: n, You: aboutPerson(access), Theme: themeOf(r)}
	sessions, err := u.cfg.Identity.Sessions(r.Context(), access.Person.ID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	s.Sessions = presentSessions(sessions, access.Session)
	tokens, err := u.cfg.Identity.TokensOf(r.Context(), access.Person.ID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	s.Tokens = u.presentTokens(tokens)
	s.NewToken = view.NewToken{Action: "/settings/tokens", Reviewer: access.Has(identity.Reviewer), Operator: access.Has(identity.Operator)}
	if s.Notifications, err = u.notifications(r.Context(), access); err != nil {
		u.fail(w, r, err)
		return
	}
	if access.Has(identity.Operator) {
		if s.Server, err = u.serverFacts(r.Context()); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	u.render(w, r, status, view.SettingsPage(u.page(r, view.SectionSettings, "Settings", pulse), s))
}

// endOwnSession ends one of the reader's sessions, in whatever browser that is.
func (u *UI) endOwnSession(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	id, err := uuid.Parse(r.PostFormValue("session"))
	if err != nil {
		id = uuid.Nil
	}
	err = u.cfg.Identity.EndSession(r.Context(), audit.Person(access.Person.ID), access.Person.ID, id)
	switch {
	case errors.Is(err, identity.ErrNotFound):
		u.answerWithSettings(w, r, http.StatusNotFound, &view.Notice{
			Level: view.Warn, Title: "No such session.", Text: "It is over already, or never was yours.",
		})
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, "/settings#sessions", http.StatusSeeOther)
	}
}

func aboutPerson(access identity.Access) []view.Fact {
	facts := []view.Fact{
		{Name: "Name", Text: access.Person.Name},
		{Name: "Known by", Text: access.Person.Issuer, Code: true},
		{Name: "As", Text: access.Person.Subject, Code: true},
	}
	if access.Person.Email != "" {
		facts = append(facts, view.Fact{Name: "E-mail", Text: access.Person.Email})
	}
	teams := "none"
	if len(access.Person.Teams) > 0 {
		teams = strings.Join(access.Person.Teams, ", ")
	}
	return append(facts, view.Fact{Name: "Roles", Text: roleWords(access)}, view.Fact{Name: "Teams", Text: teams})
}

// themeCookie holds a reader's theme, so that the server can say it before anything is drawn.
const (
	themeCookie = "holdpoint-theme"
	themeKept   = 365 * 24 * time.Hour
)

func themeOf(r *http.Request) view.Theme {
	cookie, err := r.Cookie(themeCookie)
	if err != nil {
		return view.ThemeSystem
	}
	return theme(cookie.Value)
}

func theme(text string) view.Theme {
	switch t := view.Theme(text); t {
	case view.ThemeLight, view.ThemeDark:
		return t
	default:
		return view.ThemeSystem
	}
}

// setTheme keeps the theme in this browser; it is nothing that a server has to know.
func (u *UI) setTheme(w http.ResponseWriter, r *http.Request) {
	cookie := &http.Cookie{ //nolint:gosec // G124: Secure where the dashboard is served over https
		Name: themeCookie, Value: string(theme(r.PostFormValue("theme"))), Path: "/", MaxAge: int(themeKept.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(u.cfg.PublicURL, "https:"),
	}
	if cookie.Value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	http.Redirect(w, r, "/settings#look", http.StatusSeeOther)
}
