package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// actor is who acts by a request.
func actor(r *http.Request) audit.Actor {
	access, _ := login.Access(r.Context())
	return audit.Person(access.Person.ID)
}

// commas reads a list of words with commas between them.
func commas(text string) []string {
	list := []string{}
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// rolesIn are the roles whose boxes are checked in a form.
func rolesIn(form url.Values) []identity.Role {
	roles := []identity.Role{}
	for _, role := range form["role"] {
		roles = append(roles, identity.Role(role))
	}
	return roles
}

// toMember leads back to a person's page after something was done there.
func toMember(w http.ResponseWriter, r *http.Request, id uuid.UUID, part string) {
	http.Redirect(w, r, memberURL(id)+"#"+part, http.StatusSeeOther)
}

// changeMember changes a person, or says why not.
func (u *UI) changeMember(w http.ResponseWriter, r *http.Request, m identity.Member, change identity.MemberChange, part string, wrong func(*view.Member, string)) {
	_, err := u.cfg.Identity.ChangeMember(r.Context(), actor(r), m.ID, change)
	var invalid *identity.InvalidError
	switch {
	case err == nil:
		toMember(w, r, m.ID, part)
	case errors.As(err, &invalid):
		u.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *view.Member) { wrong(v, invalid.Error()) })
	case errors.Is(err, identity.ErrChanged):
		u.grantsChanged(w, r, wrong)
	case errors.Is(err, identity.ErrLastOperator):
		u.answerWithMember(w, r, http.StatusConflict, m, func(v *view.Member) {
			v.Notice = &view.Notice{
				Level: view.Danger, Title: "Nothing was changed.",
				Text: "Nobody would be left who is an operator, and nobody could make one again. Make somebody else an operator first.",
			}
		})
	case errors.Is(err, identity.ErrSelfGrant):
		u.answerWithMember(w, r, http.StatusForbidden, m, func(v *view.Member) {
			v.Notice = &view.Notice{
				Level: view.Danger, Title: "Nothing was changed.",
				Text: "Nobody adds a role to themselves, or to the person who invited them while they are not verified. Another operator can.",
			}
		})
	case errors.Is(err, identity.ErrSelf):
		u.answerWithMember(w, r, http.StatusConflict, m, func(v *view.Member) {
			v.Notice = &view.Notice{Level: view.Danger, Title: "Nothing was changed.", Text: "Nobody blocks themself: another operator can."}
		})
	default:
		u.fail(w, r, err)
	}
}

// grantMember says which roles and teams operators give somebody.
func (u *UI) grantMember(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	roles, text := rolesIn(r.PostForm), r.PostForm.Get("teams")
	teams := commas(text)
	change := identity.MemberChange{Roles: &roles, Teams: &teams}
	if r.PostForm.Has("was") {
		change.Was = &identity.Grants{Teams: r.PostForm["was-team"]}
		for _, role := range r.PostForm["was-role"] {
			change.Was.Roles = append(change.Was.Roles, identity.Role(role))
		}
	}
	u.changeMember(w, r, m, change, "grant", func(v *view.Member, complaint string) {
		v.Grant.Teams, v.Grant.Error = text, complaint
		v.Grant.Reviewer, v.Grant.Operator = checked(roles, identity.Reviewer), checked(roles, identity.Operator)
	})
}

// grantsChanged says what somebody else gave a person meanwhile. The form is kept, and is about that from now on.
func (u *UI) grantsChanged(w http.ResponseWriter, r *http.Request, keep func(*view.Member, string)) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.answerWithMember(w, r, http.StatusConflict, m, func(v *view.Member) {
		keep(v, "")
		v.Notice = &view.Notice{
			Level: view.Warn, Title: "Nothing was changed: somebody else changed it meanwhile.",
			Text: "By now operators give them the roles: " + orNothing(roleList(m.GrantedRoles)) + "; and the teams: " +
				orNothing(strings.Join(m.GrantedTeams, ", ")) + ". What you chose is below, and not saved: saving it replaces that.",
		}
	})
}

func checked(roles []identity.Role, role identity.Role) bool {
	return identity.Access{Roles: roles}.Has(role)
}

// blockMember blocks somebody, after a second step that says what that means.
func (u *UI) blockMember(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	switch {
	case err != nil:
		u.fail(w, r, err)
	case r.PostForm.Get("confirmed") == "":
		u.answerWithMember(w, r, http.StatusOK, m, func(v *view.Member) { v.Confirm = true })
	default:
		blocked := true
		u.changeMember(w, r, m, identity.MemberChange{Blocked: &blocked}, "block", nil)
	}
}

func (u *UI) unblockMember(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	blocked := false
	u.changeMember(w, r, m, identity.MemberChange{Blocked: &blocked}, "block", nil)
}

// nothingEnded says that what was to be ended is not there, or not this person's.
func (u *UI) nothingEnded(w http.ResponseWriter, r *http.Request, m identity.Member, what string) {
	u.answerWithMember(w, r, http.StatusNotFound, m, func(v *view.Member) {
		v.Notice = &view.Notice{Level: view.Warn, Title: "No such " + what + ".", Text: "Nothing was done: it is over already, or never was this person’s."}
	})
}

// endMemberSession ends one session of somebody.
func (u *UI) endMemberSession(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	id, err := uuid.Parse(r.PostForm.Get("session"))
	if err != nil {
		id = uuid.Nil
	}
	err = u.cfg.Identity.EndSession(r.Context(), actor(r), m.ID, id)
	switch {
	case errors.Is(err, identity.ErrNotFound):
		u.nothingEnded(w, r, m, "session")
	case err != nil:
		u.fail(w, r, err)
	default:
		toMember(w, r, m.ID, "sessions")
	}
}

func (u *UI) endMemberSessions(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err == nil {
		_, err = u.cfg.Identity.EndSessions(r.Context(), actor(r), m.ID, uuid.Nil)
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	toMember(w, r, m.ID, "sessions")
}

// revokeMemberToken ends one token of somebody.
func (u *UI) revokeMemberToken(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	err = u.cfg.Identity.RevokeTokenOf(r.Context(), actor(r).ID, m.ID, r.PostForm.Get("token"))
	switch {
	case errors.Is(err, identity.ErrNotFound):
		u.nothingEnded(w, r, m, "token")
	case err != nil:
		u.fail(w, r, err)
	default:
		toMember(w, r, m.ID, "tokens")
	}
}

// linkMember declares somebody to be the same as another.
func (u *UI) linkMember(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("same_as"))
	complaint := "There is no person with this id. It stands on their page."
	if other, err := uuid.Parse(typed); err == nil {
		err = u.cfg.Identity.Link(r.Context(), actor(r), m.ID, other)
		var invalid *identity.InvalidError
		switch {
		case err == nil:
			toMember(w, r, m.ID, "same")
			return
		case errors.As(err, &invalid):
			complaint = "It " + invalid.Expected + "."
		case errors.Is(err, identity.ErrSelfLink):
			complaint = "Nobody links themselves: another operator can."
		case !errors.Is(err, identity.ErrNotFound):
			u.fail(w, r, err)
			return
		}
	}
	u.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *view.Member) {
		v.Same.Typed, v.Same.Error = typed, complaint
	})
}

func (u *UI) unlinkMember(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err == nil {
		err = u.cfg.Identity.Unlink(r.Context(), actor(r), m.ID)
	}
	if errors.Is(err, identity.ErrSelfLink) {
		u.answerWithMember(w, r, http.StatusForbidden, m, func(v *view.Member) {
			v.Notice = &view.Notice{Level: view.Danger, Title: "Nothing was changed.", Text: "Nobody unlinks themselves: another operator can."}
		})
		return
	}
	if err != nil && !errors.Is(err, identity.ErrNotFound) {
		u.fail(w, r, err)
		return
	}
	toMember(w, r, m.ID, "same")
}
