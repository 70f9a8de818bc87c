package ui

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// inviteForm is what a form asks of an invitation.
func inviteForm(form url.Values) view.NewInvitation {
	roles := rolesIn(form)
	return view.NewInvitation{
		Name: form.Get("person"), Account: form.Get("account"), Issuer: form.Get("issuer"), Agents: form.Get("agents"),
		Reviewer: checked(roles, identity.Reviewer), Operator: checked(roles, identity.Operator),
	}
}

// invite makes an invitation, and shows its link, this once.
func (u *UI) invite(w http.ResponseWriter, r *http.Request) {
	form := inviteForm(r.PostForm)
	wanted := identity.NewInvitation{Name: form.Name, Issuer: form.Issuer, Roles: rolesIn(r.PostForm), Agents: commas(form.Agents)}
	if isEmail(form.Account) {
		wanted.Email = form.Account
	} else {
		wanted.Subject = form.Account
	}
	made, secret, err := u.cfg.Identity.Invite(r.Context(), actor(r), wanted)
	if invalid, ok := errors.AsType[*identity.InvalidError](err); ok {
		form.Error = invalid.Error()
		u.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if known, ok := errors.AsType[*identity.KnownError](err); ok { // who may be somebody else than was meant
		form.Error, form.Known = "There is a person of this name already. Choose another name. Only the person who invited them can invite them again.", memberURL(known.Person)
		u.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	page := u.page(r, view.SectionMembers, "Invitation", approval.Pulse{Now: u.cfg.Now()})
	u.render(w, r, http.StatusOK, view.MadeInvitationPage(page, view.MadeInvitation{
		Name: made.Name, Link: identity.InvitationURL(u.cfg.PublicURL, secret), Ends: made.ExpiresAt, Verified: made.Issuer != "",
	}))
}

func isEmail(text string) bool {
	for _, r := range text {
		if r == '@' {
			return true
		}
	}
	return false
}

// revokeInvitation ends an invitation.
func (u *UI) revokeInvitation(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PostForm.Get("invitation"))
	if err == nil {
		err = u.cfg.Identity.RevokeInvitation(r.Context(), actor(r), id)
	}
	if err != nil && !errors.Is(err, identity.ErrNotFound) && id != uuid.Nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/members#invitations", http.StatusSeeOther)
}

// tokenForm is what a form asks of a new token.
func tokenForm(form url.Values) view.NewToken {
	roles := rolesIn(form)
	return view.NewToken{
		Agents: form.Get("agents"), Reviewer: checked(roles, identity.Reviewer), Operator: checked(roles, identity.Operator),
	}
}

// makeMemberToken makes a token for the operator whose page it is, and nobody else.
func (u *UI) makeMemberToken(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	complain := func(form view.NewToken) {
		u.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *view.Member) {
			form.Action = v.New.Action
			v.New = form
		})
	}
	access, _ := login.Access(r.Context())
	if m.ID != access.Person.ID {
		u.answerWithMember(w, r, http.StatusForbidden, m, func(v *view.Member) {
			v.Notice = &view.Notice{
				Level: view.Warn, Title: "Nothing was made.", Text: "People make their own tokens, in their settings. Somebody new gets an invitation.",
			}
		})
		return
	}
	u.makeToken(w, r, complain)
}

// makeOwnToken makes a token for the reader.
func (u *UI) makeOwnToken(w http.ResponseWriter, r *http.Request) {
	u.makeToken(w, r, func(form view.NewToken) {
		u.answerWithSettings(w, r, http.StatusUnprocessableEntity, &view.Notice{
			Level: view.Danger, Title: "Nothing was made.", Text: form.Error,
		})
	})
}

func (u *UI) makeToken(w http.ResponseWriter, r *http.Request, complain func(view.NewToken)) {
	access, _ := login.Access(r.Context())
	form := tokenForm(r.PostForm)
	made, err := u.cfg.Identity.CreateOwnToken(r.Context(), access, rolesIn(r.PostForm), commas(form.Agents))
	invalid, ok := errors.AsType[*identity.InvalidError](err)
	switch {
	case ok:
		form.Error = invalid.Error()
		complain(form)
		return
	case errors.Is(err, identity.ErrBootstrap):
		form.Error = "The bootstrap token has no personal tokens. Make yours with holdpoint token create --person and your name."
		complain(form)
		return
	case err != nil:
		u.fail(w, r, err)
		return
	}
	back := "/settings#tokens"
	if access.Has(identity.Operator) {
		back = memberURL(made.Person.ID)
	}
	page := u.page(r, view.SectionMembers, "A new token", approval.Pulse{Now: u.cfg.Now()})
	u.render(w, r, http.StatusOK, view.MadeTokenPage(page, view.MadeToken{Name: made.Person.Name, Secret: made.Secret, URL: back, Ends: made.ExpiresAt}))
}

// revokeOwnToken ends one of the reader's tokens.
func (u *UI) revokeOwnToken(w http.ResponseWriter, r *http.Request) {
	self := actor(r).ID
	err := u.cfg.Identity.RevokeTokenOf(r.Context(), self, self, r.PostForm.Get("token"))
	if err != nil && !errors.Is(err, identity.ErrNotFound) {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/settings#tokens", http.StatusSeeOther)
}
