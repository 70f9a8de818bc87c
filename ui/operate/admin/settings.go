package admin

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// MakeOwnToken makes a token for the reader.
func (h *SettingsHandler) MakeOwnToken(w http.ResponseWriter, r *http.Request) {
	h.tokens.makeToken(w, r, func(form NewToken) {
		h.answerWithSettings(w, r, http.StatusUnprocessableEntity, &view.Notice{
			Level: view.Danger, Title: text.SettingsTokenRefused(), Text: form.Error,
		})
	})
}

// RevokeOwnToken revokes one of the reader's tokens.
func (h *SettingsHandler) RevokeOwnToken(w http.ResponseWriter, r *http.Request) {
	self := shell.Actor(r).ID
	err := h.identity.RevokeTokenOf(r.Context(), self, self, r.PostForm.Get("token"))
	if err != nil && !errors.Is(err, identity.ErrNotFound) {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, "/settings", shell.TokenRevoked)
}

// ShowSettings shows the reader's account and settings.
func (h *SettingsHandler) ShowSettings(w http.ResponseWriter, r *http.Request) {
	h.answerWithSettings(w, r, http.StatusOK, nil)
}

func (h *SettingsHandler) answerWithSettings(w http.ResponseWriter, r *http.Request, status int, n *view.Notice) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	s := Settings{Notice: n, You: describePerson(access), Theme: shell.ThemeOf(r), Language: shell.LanguageOf(r)}
	if s.Queue, err = h.choices(r.Context(), access.Person.ID); err != nil {
		h.Fail(w, r, err)
		return
	}
	sessions, err := h.identity.Sessions(r.Context(), access.Person.ID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	s.Sessions = presentSessions(sessions, access.Session)
	tokens, err := h.identity.TokensOf(r.Context(), access.Person.ID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	s.Tokens = h.tokens.presentTokens(tokens)
	s.NewToken = NewToken{Action: "/settings/tokens", Reviewer: access.Has(identity.Reviewer), Operator: access.Has(identity.Operator)}
	if s.Notifications, err = h.push.readNotifications(r.Context(), access); err != nil {
		h.Fail(w, r, err)
		return
	}
	if access.Has(identity.Operator) {
		if s.Server, err = h.describeServer(r.Context()); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	h.Render(w, r, status, SettingsPage(h.Page(r, view.SectionSettings, text.SettingsTitle(), pulse), s))
}

// EndOwnSession ends one of the reader's sessions, in any browser.
func (h *SettingsHandler) EndOwnSession(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	id, err := uuid.Parse(r.PostFormValue("session"))
	if err != nil {
		id = uuid.Nil
	}
	err = h.identity.EndSession(r.Context(), audit.Person(access.Person.ID), access.Person.ID, id)
	switch {
	case errors.Is(err, identity.ErrNotFound):
		h.answerWithSettings(w, r, http.StatusNotFound, &view.Notice{
			Level: view.Warn, Title: text.SettingsNoSuchSession(), Text: text.SettingsNotYours(),
		})
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.RedirectDone(w, r, "/settings", shell.SessionEnded)
	}
}

func describePerson(access identity.Access) []view.Fact {
	facts := []view.Fact{
		{Name: text.SettingsName(), Text: text.Literal(access.Person.Name)},
		{Name: text.SettingsIdentityProvider(), Text: text.Literal(access.Person.Issuer), Code: true},
		{Name: text.SettingsSubject(), Text: text.Literal(access.Person.Subject), Code: true},
	}
	if access.Person.Email != "" {
		facts = append(facts, view.Fact{Name: text.SettingsEmail(), Text: text.Literal(access.Person.Email)})
	}
	teams := text.SettingsNoTeams()
	if len(access.Person.Teams) > 0 {
		teams = text.Literal(strings.Join(access.Person.Teams, ", "))
	}
	return append(facts,
		view.Fact{Name: text.SettingsRoles(), Text: present.RoleList(access.Roles)},
		view.Fact{Name: text.SettingsTeams(), Text: teams},
	)
}

// SetTheme keeps the theme in a cookie of this browser.
func (h *SettingsHandler) SetTheme(w http.ResponseWriter, r *http.Request) {
	h.keepChoice(w, r, shell.ThemeCookie, string(shell.Theme(r.PostFormValue("theme"))))
}

// SetLanguage keeps the language in a cookie of this browser.
func (h *SettingsHandler) SetLanguage(w http.ResponseWriter, r *http.Request) {
	h.keepChoice(w, r, shell.LanguageCookie, shell.Language(r.PostFormValue("language")))
}

// keepChoice keeps a choice in a cookie, or deletes the cookie if the choice is empty.
func (h *SettingsHandler) keepChoice(w http.ResponseWriter, r *http.Request, name, value string) {
	cookie := &http.Cookie{ //nolint:gosec // G124: Secure where the dashboard is served over https
		Name: name, Value: value, Path: "/", MaxAge: int(shell.ChoiceKept.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(h.publicURL, "https:"),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
	shell.RedirectDone(w, r, "/settings", shell.ThemeSaved)
}
