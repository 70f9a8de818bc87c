package admin

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Invite makes an invitation and shows its link once.
func (h *InvitationHandler) Invite(w http.ResponseWriter, r *http.Request) {
	posted, roles := r.PostForm, readRoles(r.PostForm)
	form := NewInvitation{
		Name: posted.Get("person"), Account: posted.Get("account"), Issuer: posted.Get("issuer"), Agents: posted.Get("agents"),
		Reviewer: slices.Contains(roles, identity.Reviewer), Operator: slices.Contains(roles, identity.Operator),
	}
	wanted := identity.NewInvitation{Name: form.Name, Issuer: form.Issuer, Roles: roles, Agents: splitList(form.Agents)}
	wanted.Limit, form.Limit = readLimit(posted)
	if strings.Contains(form.Account, "@") {
		wanted.Email = form.Account
	} else {
		wanted.Subject = form.Account
	}
	made, secret, err := h.identity.Invite(r.Context(), shell.Actor(r), wanted)
	if invalid, ok := errors.AsType[*fault.InvalidError](err); ok {
		form.Error = text.Literal(invalid.Error())
		h.members.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if known, ok := errors.AsType[*identity.KnownError](err); ok {
		form.Error, form.Known = text.InvitationNameTaken(), present.MemberURL(known.Person)
		h.members.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if errors.Is(err, identity.ErrBothRoles) {
		form.Error = text.MemberBothRoles()
		h.members.answerWithMembers(w, r, http.StatusUnprocessableEntity, form)
		return
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page := h.Page(r, view.SectionMembers, text.InvitationTitle(), approval.Pulse{Now: h.Now()})
	h.Render(w, r, http.StatusOK, MadeInvitationPage(page, MadeInvitation{
		Name: made.Name, Link: identity.InvitationURL(h.publicURL, secret), Ends: made.ExpiresAt, Verified: made.Issuer != "", Waits: made.Waits,
	}))
}

// RevokeInvitation ends an invitation.
func (h *InvitationHandler) RevokeInvitation(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PostForm.Get("invitation"))
	if err == nil {
		err = h.identity.RevokeInvitation(r.Context(), shell.Actor(r), id)
	}
	if err != nil && !errors.Is(err, identity.ErrNotFound) && id != uuid.Nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, "/members", shell.InvitationRevoked)
}
