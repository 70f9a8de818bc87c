package ui

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/view"
)

// tokenForm is what a form asks of a new token.
func tokenForm(r *http.Request) view.NewToken {
	roles := checkedRoles(r)
	return view.NewToken{
		Person: r.PostForm.Get("person"), Agents: r.PostForm.Get("agents"),
		Reviewer: checked(roles, identity.Reviewer), Operator: checked(roles, identity.Operator),
	}
}

// addMember makes a token for somebody new, whom only this server vouches for.
func (u *UI) addMember(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		u.fail(w, r, err)
		return
	}
	form := tokenForm(r)
	id, secret, err := u.cfg.Identity.CreateToken(r.Context(), actor(r).ID, form.Person, checkedRoles(r), commas(form.Agents))
	if invalid, ok := errors.AsType[*identity.InvalidError](err); ok {
		form.Error = invalid.Error()
		u.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.showToken(w, r, id, secret)
}

// makeMemberToken makes a token for somebody who is known.
func (u *UI) makeMemberToken(w http.ResponseWriter, r *http.Request) {
	m, err := u.memberForm(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	form := tokenForm(r)
	id, secret, err := u.cfg.Identity.CreateTokenFor(r.Context(), actor(r).ID, m.ID, checkedRoles(r), commas(form.Agents))
	if invalid, ok := errors.AsType[*identity.InvalidError](err); ok {
		u.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *view.Member) {
			form.Action, form.Error = v.New.Action, invalid.Error()
			v.New = form
		})
		return
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.showToken(w, r, id, secret)
}

// showToken shows the secret of a token, this once: it is the answer to the form and has no address.
func (u *UI) showToken(w http.ResponseWriter, r *http.Request, id uuid.UUID, secret string) {
	token, err := u.cfg.Identity.Token(r.Context(), id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	page := u.page(r, view.SectionMembers, "A new token", approval.Pulse{Now: u.cfg.Now()})
	u.render(w, r, http.StatusOK, view.MadeTokenPage(page, view.MadeToken{
		Name: token.Person.Name, Secret: secret, URL: memberURL(token.Person.ID),
	}))
}
