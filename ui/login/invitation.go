package login

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// showInvitation shows an invitation. It does not redeem it, since previews and prefetchers open links too.
func (l *Login) showInvitation(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer") // the address has the secret in it
	secret := r.URL.Query().Get("key")
	invitation, err := l.cfg.Identity.OpenInvitation(r.Context(), secret)
	if err != nil {
		l.refuseInvitation(w, r, err)
		return
	}
	shown := view.Invited{Name: invitation.Name, Roles: present.RoleList(invitation.Roles), Key: secret}
	if invitation.Issuer != "" {
		shown.Account, shown.Key = invitation.Subject+invitation.Email, ""
		for _, p := range l.cfg.Providers {
			if p.Issuer() == invitation.Issuer {
				shown.Provider = &view.SignInProvider{Name: p.Name(), URL: startURL(p, home)}
			}
		}
		if shown.Provider == nil {
			l.renderRefusal(w, r, http.StatusConflict, view.SignInRefused{Text: text.SignInInvitationProviderGone()})
			return
		}
		l.sessions.Put(r.Context(), keyInvitation, secret)
	}
	l.renderPage(w, r, http.StatusOK, view.InvitedPage(l.cfg.Page(r, text.SignInInvitation()), shown))
}

// redeemInvitation creates the local person and shows their token once.
func (l *Login) redeemInvitation(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	made, err := l.cfg.Identity.Redeem(r.Context(), r.PostFormValue("key"))
	if err != nil {
		l.refuseInvitation(w, r, err)
		return
	}
	l.cfg.Logger.Info("invitation redeemed", "person", made.Person.ID)
	l.renderPage(w, r, http.StatusOK, view.RedeemedPage(l.cfg.Page(r, text.SignInWelcomed()), view.MadeToken{
		Name: made.Person.Name, Secret: made.Secret, URL: SignInPath, Ends: made.ExpiresAt,
	}))
}

// refuseInvitation says why an invitation is not redeemed.
func (l *Login) refuseInvitation(w http.ResponseWriter, r *http.Request, err error) {
	var known *identity.KnownError
	refused, status := view.SignInRefused{Title: text.SignInNotRedeemed()}, http.StatusForbidden
	switch {
	case errors.Is(err, identity.ErrInvitation):
		l.cfg.Failures.Refuse(r.Context(), authfail.Dashboard)
		refused.Text = text.SignInInvitationUsed()
	case errors.Is(err, identity.ErrInvitedOther):
		refused.Text = text.SignInInvitationOfOther()
	case errors.Is(err, identity.ErrUnverifiedEmail):
		refused.Text = text.SignInEmailUnverified()
	case errors.Is(err, identity.ErrSelfGrant):
		refused.Text = text.SignInOwnInvitation()
	case errors.Is(err, identity.ErrInvitedByProvider):
		refused.Text = text.SignInInvitationByProvider()
	case errors.Is(err, identity.ErrBlocked):
		refused.Text = text.SignInBlocked()
	case errors.As(err, &known):
		refused.Text = text.SignInNameTaken()
	default:
		l.cfg.Logger.Error("redeem invitation", "error", err)
		refused.Text, status = text.SignInSomethingWrong(), inbound.FailureStatus(w.Header(), err)
	}
	l.cfg.Logger.Info("invitation refused", "reason", err, "remote", clientaddr.FromContext(r.Context()).String())
	l.renderRefusal(w, r, status, refused)
}
