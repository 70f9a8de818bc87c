package login

import (
	"errors"
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/view"
)

// showInvitation never uses an invitation up: link previews and prefetchers look, people press the button.
func (l *Login) showInvitation(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the secret in it
	secret := r.URL.Query().Get("key")
	invitation, err := l.cfg.Identity.OpenInvitation(r.Context(), secret)
	if err != nil {
		l.invitationRefused(w, r, err)
		return
	}
	shown := view.Invited{Name: invitation.Name, Roles: roleWords(invitation.Roles), Key: secret}
	if invitation.Issuer != "" {
		shown.Account, shown.Key = invitation.Subject+invitation.Email, ""
		for _, p := range l.cfg.Providers {
			if p.Issuer() == invitation.Issuer {
				shown.Provider = &view.SignInProvider{Name: p.Name(), URL: startURL(p, home)}
			}
		}
		if shown.Provider == nil {
			l.refuse(w, r, http.StatusConflict, view.SignInRefused{Text: "The identity provider of this invitation is no longer configured. Ask for another invitation."})
			return
		}
		l.sessions.Put(r.Context(), keyInvitation, secret)
	}
	l.render(w, r, http.StatusOK, view.InvitedPage(l.cfg.Page(r, "Invitation"), shown))
}

func roleWords(roles []identity.Role) string {
	words := make([]string, len(roles))
	for i, role := range roles {
		words[i] = string(role)
	}
	return strings.Join(words, ", ")
}

// redeem makes a local person, and shows their token, this once.
func (l *Login) redeem(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	made, err := l.cfg.Identity.Redeem(r.Context(), r.PostFormValue("key"))
	if err != nil {
		l.invitationRefused(w, r, err)
		return
	}
	l.cfg.Logger.Info("invitation redeemed", "person", made.Person.ID)
	l.render(w, r, http.StatusOK, view.RedeemedPage(l.cfg.Page(r, "Welcome"), view.MadeToken{
		Name: made.Person.Name, Secret: made.Secret, URL: SignInPath, Ends: made.ExpiresAt,
	}))
}

// invitationRefused says why an invitation is not redeemed.
func (l *Login) invitationRefused(w http.ResponseWriter, r *http.Request, err error) {
	var known *identity.KnownError
	refused, status := view.SignInRefused{Title: "Invitation not redeemed"}, http.StatusForbidden
	switch {
	case errors.Is(err, identity.ErrInvitation):
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		refused.Text = "This invitation was used before or revoked, or its time is over. Ask for a new one."
	case errors.Is(err, identity.ErrInvitedOther):
		refused.Text = "This invitation is for another account than the one that you signed in with. Nobody was signed in by it."
	case errors.Is(err, identity.ErrUnverifiedEmail):
		refused.Text = "The identity provider does not say that your e-mail address is verified. Nobody was signed in. Ask for an invitation that names your subject there instead."
	case errors.Is(err, identity.ErrSelfGrant):
		refused.Text = "You made this invitation, and nobody adds a role to themselves. Another operator can invite you."
	case errors.Is(err, identity.ErrInvitedByProvider):
		refused.Text = "This invitation is redeemed by signing in with an identity provider. Open its link again."
	case errors.Is(err, identity.ErrBlocked):
		refused.Text = "An operator has blocked you here."
	case errors.As(err, &known):
		refused.Text = "Somebody has this name by now. Ask for an invitation with another name."
	default:
		l.cfg.Logger.Error("redeeming an invitation", "error", err)
		refused.Text, status = "That did not work here. Try again.", http.StatusInternalServerError
	}
	l.cfg.Logger.Info("invitation refused", "reason", err, "remote", clientaddr.FromContext(r.Context()).String())
	l.refuse(w, r, status, refused)
}
