package ui

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/view"
)

// tokenForm is what a form asks of a new token.
func tokenForm(form url.Values) view.NewToken {
	roles := rolesIn(form)
	return view.NewToken{
		Person: form.Get("person"), Agents: form.Get("agents"),
		Reviewer: checked(roles, identity.Reviewer), Operator: checked(roles, identity.Operator),
	}
}

// unsentToken is a form that was typed before its person had to prove who they are; else what is asked at first.
func unsentToken(r *http.Request, otherwise view.NewToken) view.NewToken {
	query := r.URL.Query()
	if !query.Has("unsent") {
		return otherwise
	}
	form := tokenForm(query)
	form.Unsent, form.Action = true, otherwise.Action
	return form
}

// proved lets only somebody through who proved a short while ago who they are: a token is a way round every other such
// question. Whoever has to prove it comes back to the form, filled in.
func (u *UI) proved(w http.ResponseWriter, r *http.Request, page string) bool {
	if u.login.Fresh(r, u.cfg.ProofAge) {
		return true
	}
	typed := url.Values{"unsent": {"1"}}
	for _, name := range []string{"person", "role", "agents"} {
		if values := r.PostForm[name]; len(values) > 0 {
			typed[name] = values
		}
	}
	u.login.Reauthenticate(w, r, page+"?"+typed.Encode())
	return false
}

// addMember makes a token for somebody new, whom only this server vouches for.
func (u *UI) addMember(w http.ResponseWriter, r *http.Request) {
	if !u.proved(w, r, "/members") {
		return
	}
	form := tokenForm(r.PostForm)
	id, secret, err := u.cfg.Identity.CreateTokenForNew(r.Context(), actor(r).ID, form.Person, rolesIn(r.PostForm), commas(form.Agents))
	if invalid, ok := errors.AsType[*identity.InvalidError](err); ok {
		form.Error = invalid.Error()
		u.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if known, ok := errors.AsType[*identity.KnownError](err); ok { // who may be somebody else than was meant
		form.Error, form.Known = "There is somebody of this name already. Make the token on their page, or take another name.", memberURL(known.Person)
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
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if !u.proved(w, r, memberURL(m.ID)) {
		return
	}
	form := tokenForm(r.PostForm)
	id, secret, err := u.cfg.Identity.CreateTokenFor(r.Context(), actor(r).ID, m.ID, rolesIn(r.PostForm), commas(form.Agents))
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
