package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// splitList reads a list of words with commas between them.
func splitList(value string) []string {
	list := []string{}
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// readRoles returns the roles that are checked in a form.
func readRoles(form url.Values) []identity.Role {
	roles := []identity.Role{}
	for _, role := range form["role"] {
		roles = append(roles, identity.Role(role))
	}
	return roles
}

// readLimit returns the limit of a form, and as it was typed.
func readLimit(form url.Values) (*identity.Limit, Limit) {
	typed := Limit{Teams: form.Get("limit-teams"), Skills: form.Get("limit-skills"), Agents: form.Get("limit-agents")}
	return &identity.Limit{Teams: splitList(typed.Teams), Skills: splitList(typed.Skills), Agents: splitList(typed.Agents)}, typed
}

// redirectToMember leads back to a person's page.
func redirectToMember(w http.ResponseWriter, r *http.Request, id uuid.UUID, done shell.Done) {
	shell.RedirectDone(w, r, present.MemberURL(id), done)
}

// changeMember changes a person, or shows why not; keep puts the form and its error into the page.
func (h *MemberHandler) changeMember(w http.ResponseWriter, r *http.Request, m identity.Member, change identity.MemberChange, done shell.Done, keep func(*Member, text.Message)) {
	_, err := h.identity.ChangeMember(r.Context(), shell.Actor(r), m.ID, change)
	var invalid *fault.InvalidError
	switch {
	case err == nil:
		redirectToMember(w, r, m.ID, done)
	case errors.As(err, &invalid):
		h.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *Member) { keep(v, text.Literal(invalid.Error())) })
	case errors.Is(err, identity.ErrChanged):
		h.answerWithNewGrants(w, r, keep)
	case errors.Is(err, identity.ErrLastOperator):
		h.refuseChange(w, r, http.StatusConflict, m, text.MemberLastOperator())
	case errors.Is(err, identity.ErrBothRoles):
		h.refuseChange(w, r, http.StatusForbidden, m, text.MemberBothRoles())
	case errors.Is(err, identity.ErrSelfGrant):
		h.refuseChange(w, r, http.StatusForbidden, m, text.MemberSelfGrant())
	case errors.Is(err, identity.ErrSelf):
		h.refuseChange(w, r, http.StatusConflict, m, text.MemberSelfBlock())
	default:
		h.Fail(w, r, err)
	}
}

func (h *MemberHandler) refuseChange(w http.ResponseWriter, r *http.Request, status int, m identity.Member, reason text.Message) {
	h.answerWithMember(w, r, status, m, func(v *Member) {
		v.Notice = &view.Notice{Level: view.Danger, Title: text.MemberNothingChanged(), Text: reason}
	})
}

// GrantMember sets the roles and teams that operators grant.
func (h *MemberHandler) GrantMember(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	roles, typed := readRoles(r.PostForm), r.PostForm.Get("teams")
	teams := splitList(typed)
	limit, typedLimit := readLimit(r.PostForm)
	change := identity.MemberChange{Roles: &roles, Teams: &teams, Limit: limit}
	if r.PostForm.Has("was") {
		change.Was = &identity.Grants{Teams: r.PostForm["was-team"]}
		for _, role := range r.PostForm["was-role"] {
			change.Was.Roles = append(change.Was.Roles, identity.Role(role))
		}
	}
	h.changeMember(w, r, m, change, shell.RolesSaved, func(v *Member, complaint text.Message) {
		v.Grant.Teams, v.Grant.Error, v.Grant.Limit = typed, complaint, typedLimit
		v.Grant.Reviewer, v.Grant.Operator = slices.Contains(roles, identity.Reviewer), slices.Contains(roles, identity.Operator)
	})
}

// answerWithNewGrants shows the grants that another operator made meanwhile, and keeps the form. Sent again, it replaces them.
func (h *MemberHandler) answerWithNewGrants(w http.ResponseWriter, r *http.Request, keep func(*Member, text.Message)) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithMember(w, r, http.StatusConflict, m, func(v *Member) {
		keep(v, text.Message{})
		v.Notice = &view.Notice{
			Level: view.Warn, Title: text.MemberGrantChanged(),
			Text: text.MemberGrantNow(orNone(present.RoleList(m.GrantedRoles)), valueOrNone(strings.Join(m.GrantedTeams, ", "))),
		}
	})
}

// BlockMember blocks a person after a second step that explains it.
func (h *MemberHandler) BlockMember(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	switch {
	case err != nil:
		h.Fail(w, r, err)
	case r.PostForm.Get("confirmed") == "":
		h.answerWithMember(w, r, http.StatusOK, m, func(v *Member) { v.Confirm = true })
	default:
		blocked := true
		h.changeMember(w, r, m, identity.MemberChange{Blocked: &blocked}, shell.PersonBlocked, nil)
	}
}

// UnblockMember lets a blocked member in again.
func (h *MemberHandler) UnblockMember(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	blocked := false
	h.changeMember(w, r, m, identity.MemberChange{Blocked: &blocked}, shell.PersonUnblocked, nil)
}

// answerNotFound shows that a session or token has ended already, or is another person's.
func (h *MemberHandler) answerNotFound(w http.ResponseWriter, r *http.Request, m identity.Member, title text.Message) {
	h.answerWithMember(w, r, http.StatusNotFound, m, func(v *Member) {
		v.Notice = &view.Notice{Level: view.Warn, Title: title, Text: text.MemberNotOfMember()}
	})
}

// EndMemberSession ends one session of a person.
func (h *MemberHandler) EndMemberSession(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	id, err := uuid.Parse(r.PostForm.Get("session"))
	if err != nil {
		id = uuid.Nil
	}
	err = h.identity.EndSession(r.Context(), shell.Actor(r), m.ID, id)
	switch {
	case errors.Is(err, identity.ErrNotFound):
		h.answerNotFound(w, r, m, text.MemberNoSuchSession())
	case err != nil:
		h.Fail(w, r, err)
	default:
		redirectToMember(w, r, m.ID, shell.SessionEnded)
	}
}

// EndMemberSessions ends all sessions of a member.
func (h *MemberHandler) EndMemberSessions(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err == nil {
		_, err = h.identity.EndSessions(r.Context(), shell.Actor(r), m.ID, uuid.Nil)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	redirectToMember(w, r, m.ID, shell.SessionsEnded)
}

// RevokeMemberToken revokes one token of a person.
func (h *MemberHandler) RevokeMemberToken(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	err = h.identity.RevokeTokenOf(r.Context(), shell.Actor(r).ID, m.ID, r.PostForm.Get("token"))
	switch {
	case errors.Is(err, identity.ErrNotFound):
		h.answerNotFound(w, r, m, text.MemberNoSuchToken())
	case err != nil:
		h.Fail(w, r, err)
	default:
		redirectToMember(w, r, m.ID, shell.TokenRevoked)
	}
}

// LinkMember links a person to another identity of theirs.
func (h *MemberHandler) LinkMember(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("same_as"))
	complaint := text.MemberUnknownID()
	if other, err := uuid.Parse(typed); err == nil {
		err = h.identity.Link(r.Context(), shell.Actor(r), m.ID, other)
		var invalid *fault.InvalidError
		switch {
		case err == nil:
			redirectToMember(w, r, m.ID, shell.PersonLinked)
			return
		case errors.As(err, &invalid):
			complaint = text.MemberLinkInvalid(invalid.Fields[0].Expected)
		case errors.Is(err, identity.ErrSelfLink):
			complaint = text.MemberSelfLink()
		case !errors.Is(err, identity.ErrNotFound):
			h.Fail(w, r, err)
			return
		}
	}
	h.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *Member) {
		v.Same.Typed, v.Same.Error = typed, complaint
	})
}

// UnlinkMember undoes the link of a member to another identity.
func (h *MemberHandler) UnlinkMember(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err == nil {
		err = h.identity.Unlink(r.Context(), shell.Actor(r), m.ID)
	}
	if errors.Is(err, identity.ErrSelfLink) {
		h.refuseChange(w, r, http.StatusForbidden, m, text.MemberSelfUnlink())
		return
	}
	if err != nil && !errors.Is(err, identity.ErrNotFound) {
		h.Fail(w, r, err)
		return
	}
	redirectToMember(w, r, m.ID, shell.PersonUnlinked)
}

var errNoMember = errors.New("there is no such person")

// maxSearch bounds the length of a search.
const maxSearch = 200

// ShowMembers lists people, newest first.
func (h *MemberHandler) ShowMembers(w http.ResponseWriter, r *http.Request) {
	h.answerWithMembers(w, r, http.StatusOK, NewInvitation{Reviewer: true})
}

func (h *MemberHandler) answerWithMembers(w http.ResponseWriter, r *http.Request, status int, form NewInvitation) {
	search := r.URL.Query().Get("text")
	if len(search) > maxSearch || shell.Clean(search) != search {
		search = ""
	}
	before, err := uuid.Parse(r.URL.Query().Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	members, next, err := h.identity.Members(r.Context(), identity.MemberFilter{Text: search, Before: before})
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for _, p := range h.providers {
		form.Issuers = append(form.Issuers, p.Issuer())
	}
	list := Members{Text: search, Newest: before == uuid.Nil, New: form}
	if list.Invitations, err = h.listOpenInvitations(r.Context()); err != nil {
		h.Fail(w, r, err)
		return
	}
	people := make([]identity.Person, len(members))
	for i := range members {
		people[i] = members[i].Person
	}
	notes, err := h.PersonNotes(r.Context(), people)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range members {
		row := presentMemberRow(&members[i])
		row.Notes = notes[members[i].ID]
		list.Rows = append(list.Rows, row)
	}
	if next != uuid.Nil {
		list.Next = "/members?" + url.Values{"before": {next.String()}, "text": {search}}.Encode()
	}
	h.Render(w, r, status, MembersPage(h.Page(r, view.SectionMembers, text.MemberTitle(), pulse), list))
}

// readMember returns the person that a request's path names.
func (h *MemberHandler) readMember(r *http.Request) (identity.Member, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return identity.Member{}, errNoMember
	}
	m, err := h.identity.Member(r.Context(), id)
	if errors.Is(err, identity.ErrNotFound) {
		err = errNoMember
	}
	return m, err
}

// ShowMember shows one member.
func (h *MemberHandler) ShowMember(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithMember(w, r, http.StatusOK, m, nil)
}

// answerWithMember shows a person; change, if set, adds to the page, such as an error.
func (h *MemberHandler) answerWithMember(w http.ResponseWriter, r *http.Request, status int, m identity.Member, change func(*Member)) {
	access, _ := login.Access(r.Context())
	shown := presentMember(&m, access)
	if err := h.fillMember(r.Context(), &shown, m.ID, access); err != nil {
		h.Fail(w, r, err)
		return
	}
	notes, err := h.PersonNotes(r.Context(), []identity.Person{m.Person})
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shown.Notes = notes[m.ID]
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if change != nil {
		change(&shown)
	}
	h.Render(w, r, status, MemberPage(h.Page(r, view.SectionMembers, text.Literal(view.Printable(m.Name)), pulse), shown))
}

// fillMember reads the sessions, tokens and linked identity of a person.
func (h *MemberHandler) fillMember(ctx context.Context, shown *Member, id uuid.UUID, reader identity.Access) error {
	sessions, err := h.identity.Sessions(ctx, id)
	if err != nil {
		return err
	}
	tokens, err := h.identity.TokensOf(ctx, id)
	if err != nil {
		return err
	}
	links, err := h.identity.Links(ctx, []uuid.UUID{id})
	if err != nil {
		return err
	}
	shown.Sessions, shown.Tokens = presentSessions(sessions, reader.Session), h.tokens.presentTokens(tokens)
	if link, ok := links[id]; ok {
		names, err := h.Names(ctx, link.SameAs)
		if err != nil {
			return err
		}
		shown.Same.Name, shown.Same.URL = names[link.SameAs], present.MemberURL(link.SameAs)
	}
	return nil
}

func (h *MemberHandler) listOpenInvitations(ctx context.Context) ([]InvitationRow, error) {
	open, _, err := h.identity.Invitations(ctx, uuid.Nil, 0, true)
	if err != nil {
		return nil, err
	}
	var inviters []uuid.UUID
	for i := range open {
		inviters = append(inviters, open[i].InvitedBy)
	}
	names, err := h.Names(ctx, inviters...)
	if err != nil {
		return nil, err
	}
	rows := make([]InvitationRow, len(open))
	for i := range open {
		rows[i] = InvitationRow{
			ID: open[i].ID.String(), Name: open[i].Name, For: open[i].Subject + open[i].Email, Issuer: open[i].Issuer,
			Roles: present.RoleList(open[i].Roles), By: present.PersonName(open[i].InvitedBy, names), Ends: open[i].ExpiresAt,
		}
	}
	return rows, nil
}

// ExplainError explains errors about people.
func ExplainError(_ *http.Request, err error) (int, view.Notice, bool) {
	if errors.Is(err, errNoMember) {
		return http.StatusNotFound, view.Notice{Title: text.MemberNotFound(), Text: text.MemberNotFoundHere()}, true
	}
	return 0, view.Notice{}, false
}

// MakeMemberToken makes a token for the reader on their own page.
func (h *MemberHandler) MakeMemberToken(w http.ResponseWriter, r *http.Request) {
	m, err := h.readMember(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	complain := func(form NewToken) {
		h.answerWithMember(w, r, http.StatusUnprocessableEntity, m, func(v *Member) {
			form.Action = v.New.Action
			v.New = form
		})
	}
	access, _ := login.Access(r.Context())
	if m.ID != access.Person.ID {
		h.answerWithMember(w, r, http.StatusForbidden, m, func(v *Member) {
			v.Notice = &view.Notice{
				Level: view.Warn, Title: text.MemberTokenRefused(), Text: text.MemberTokenOfOther(),
			}
		})
		return
	}
	h.tokens.makeToken(w, r, complain)
}
