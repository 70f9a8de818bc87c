package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

func (u *UI) memberRoutes() []Route {
	return []Route{
		{"GET /members", operators(), u.showMembers},
		{"POST /members", operators(), u.invite},
		{"POST /members/revoke-invitation", operators(), u.revokeInvitation},
		{"GET /members/{id}", operators(), u.showMember},
		{"POST /members/{id}/grant", operators(), u.grantMember},
		{"POST /members/{id}/block", operators(), u.blockMember},
		{"POST /members/{id}/unblock", operators(), u.unblockMember},
		{"POST /members/{id}/end-session", operators(), u.endMemberSession},
		{"POST /members/{id}/sign-out", operators(), u.endMemberSessions},
		{"POST /members/{id}/tokens", operators(), u.makeMemberToken},
		{"POST /members/{id}/revoke-token", operators(), u.revokeMemberToken},
		{"POST /members/{id}/link", operators(), u.linkMember},
		{"POST /members/{id}/unlink", operators(), u.unlinkMember},
	}
}

var errNoMember = errors.New("there is no such person")

// maxSearch bounds what is searched for.
const maxSearch = 200

// showMembers lists people, newest first.
func (u *UI) showMembers(w http.ResponseWriter, r *http.Request) {
	u.answerWithMembers(w, r, http.StatusOK, view.NewInvitation{Reviewer: true})
}

func (u *UI) answerWithMembers(w http.ResponseWriter, r *http.Request, status int, form view.NewInvitation) {
	text := r.URL.Query().Get("text")
	if len(text) > maxSearch || clean(text) != text {
		text = ""
	}
	before, err := uuid.Parse(r.URL.Query().Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	members, next, err := u.cfg.Identity.Members(r.Context(), identity.MemberFilter{Text: text, Before: before})
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	for _, p := range u.cfg.Providers {
		form.Issuers = append(form.Issuers, p.Issuer())
	}
	list := view.Members{Text: text, Newest: before == uuid.Nil, New: form}
	if list.Invitations, err = u.openInvitations(r.Context()); err != nil {
		u.fail(w, r, err)
		return
	}
	notes, err := u.personNotes(r.Context(), peopleOf(members))
	if err != nil {
		u.fail(w, r, err)
		return
	}
	for i := range members {
		row := presentMemberRow(&members[i])
		row.Notes = notes[members[i].ID]
		list.Rows = append(list.Rows, row)
	}
	if next != uuid.Nil {
		list.Next = "/members?" + url.Values{"before": {next.String()}, "text": {text}}.Encode()
	}
	u.render(w, r, status, view.MembersPage(u.page(r, view.SectionMembers, "Members", pulse), list))
}

// member is the person that a request's path names.
func (u *UI) member(r *http.Request) (identity.Member, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return identity.Member{}, errNoMember
	}
	m, err := u.cfg.Identity.Member(r.Context(), id)
	if errors.Is(err, identity.ErrNotFound) {
		err = errNoMember
	}
	return m, err
}

func (u *UI) showMember(w http.ResponseWriter, r *http.Request) {
	m, err := u.member(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.answerWithMember(w, r, http.StatusOK, m, nil)
}

// answerWithMember shows a person; change, when set, says what is otherwise than at first sight.
func (u *UI) answerWithMember(w http.ResponseWriter, r *http.Request, status int, m identity.Member, change func(*view.Member)) {
	access, _ := login.Access(r.Context())
	shown := presentMember(&m, access)
	if err := u.fillMember(r.Context(), &shown, m.ID, access); err != nil {
		u.fail(w, r, err)
		return
	}
	notes, err := u.personNotes(r.Context(), []identity.Person{m.Person})
	if err != nil {
		u.fail(w, r, err)
		return
	}
	shown.Notes = notes[m.ID]
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if change != nil {
		change(&shown)
	}
	u.render(w, r, status, view.MemberPage(u.page(r, view.SectionMembers, printable(m.Name), pulse), shown))
}

// fillMember reads what belongs to a person.
func (u *UI) fillMember(ctx context.Context, shown *view.Member, id uuid.UUID, reader identity.Access) error {
	sessions, err := u.cfg.Identity.Sessions(ctx, id)
	if err != nil {
		return err
	}
	tokens, err := u.cfg.Identity.TokensOf(ctx, id)
	if err != nil {
		return err
	}
	links, err := u.cfg.Identity.Links(ctx, []uuid.UUID{id})
	if err != nil {
		return err
	}
	shown.Sessions, shown.Tokens = presentSessions(sessions, reader.Session), u.presentTokens(tokens)
	if link, ok := links[id]; ok {
		names, err := u.names(ctx, link.SameAs)
		if err != nil {
			return err
		}
		shown.Same.Name, shown.Same.URL = names[link.SameAs], memberURL(link.SameAs)
	}
	return nil
}

func peopleOf(members []identity.Member) []identity.Person {
	people := make([]identity.Person, len(members))
	for i := range members {
		people[i] = members[i].Person
	}
	return people
}

// personNotes say what a reader has to know before believing a name.
func (u *UI) personNotes(ctx context.Context, people []identity.Person) (map[uuid.UUID][]view.Badge, error) {
	var inviters []uuid.UUID
	for i := range people {
		inviters = append(inviters, people[i].InvitedBy)
	}
	alike, err := u.cfg.Identity.Alike(ctx, people...)
	if err != nil {
		return nil, err
	}
	names, err := u.names(ctx, inviters...)
	if err != nil {
		return nil, err
	}
	notes := map[uuid.UUID][]view.Badge{}
	for _, p := range people {
		if !p.Verified() {
			notes[p.ID] = append(notes[p.ID], view.Badge{
				Word: "Invited by " + printable(names[p.InvitedBy]) + ", not verified", Icon: "unknown", Level: view.Warn,
				Note: "decides no calls of the inviter, or of agents whose keys the inviter made",
			})
		}
		if p.First {
			notes[p.ID] = append(notes[p.ID], view.Badge{Word: "First person", Icon: "unknown", Level: view.Quiet, Note: "took their roles by the bootstrap token"})
		}
		if alike[p.ID] {
			notes[p.ID] = append(notes[p.ID], view.Badge{Word: "Name looks like another’s", Icon: "high", Level: view.Warn, Note: "compare the issuer and the subject"})
		}
	}
	return notes, nil
}

// openInvitations are those that nobody redeemed yet.
func (u *UI) openInvitations(ctx context.Context) ([]view.InvitationRow, error) {
	open, _, err := u.cfg.Identity.Invitations(ctx, uuid.Nil, 0, true)
	if err != nil {
		return nil, err
	}
	var inviters []uuid.UUID
	for i := range open {
		inviters = append(inviters, open[i].InvitedBy)
	}
	names, err := u.names(ctx, inviters...)
	if err != nil {
		return nil, err
	}
	rows := make([]view.InvitationRow, len(open))
	for i := range open {
		rows[i] = view.InvitationRow{
			ID: open[i].ID.String(), Name: open[i].Name, For: open[i].Subject + open[i].Email, Issuer: open[i].Issuer,
			Roles: roleList(open[i].Roles), By: personName(open[i].InvitedBy, names), Ends: open[i].ExpiresAt,
		}
	}
	return rows, nil
}

// memberFailure is what fail says of errors about people; false when it is another.
func memberFailure(err error) (int, view.Notice, bool) {
	if errors.Is(err, errNoMember) {
		return http.StatusNotFound, view.Notice{Title: "Nobody", Text: "There is no person at this address."}, true
	}
	return 0, view.Notice{}, false
}
