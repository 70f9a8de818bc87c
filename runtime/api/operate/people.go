package operate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type personHandlers struct{ *rest.Directory }

// Person is a person who signed in or has a token, identified by issuer and subject.
type Person struct {
	ID        uuid.UUID `json:"id" format:"uuid"`
	Name      string    `json:"name"`
	Issuer    string    `json:"issuer" doc:"The identity provider; holdpoint: this server."`
	Subject   string    `json:"subject"`
	Email     *string   `json:"email"`
	Link      *Link     `json:"link" doc:"The person whom an operator linked them to; null: none."`
	CreatedAt time.Time `json:"created_at"`

	ClaimedRoles    []identity.Role  `json:"claimed_roles" nullable:"false" doc:"From their groups at the last sign-in with an identity provider."`
	GrantedRoles    []identity.Role  `json:"granted_roles" nullable:"false" doc:"Granted by an operator. A personal token has its own roles."`
	CredentialRoles []identity.Role  `json:"credential_roles" nullable:"false" doc:"From their valid personal tokens, used one-time links and the bootstrap token."`
	ClaimedTeams    []string         `json:"claimed_teams" nullable:"false"`
	GrantedTeams    []string         `json:"granted_teams" nullable:"false"`
	GrantedAgents   []string         `json:"granted_agents" nullable:"false" doc:"Agents that they may act as, in addition to those of their roles."`
	ReviewLimit     *ReviewLimit     `json:"review_limit" doc:"The calls that they may decide as a reviewer; null: all."`
	LostRole        *identity.Role   `json:"lost_role" enum:"reviewer,operator" doc:"The role that does not count, because operator and reviewer are never one person on this server; null: all count."`
	Alike           bool             `json:"alike" doc:"Another person has the same or a similar-looking name."`
	InvitedBy       *rest.PersonName `json:"invited_by" doc:"Set: known only by the invitation of this person; the identity is not verified. They cannot decide calls of this person, or of agents whose keys this person created."`
	First           bool             `json:"first" doc:"They got their roles with the bootstrap token."`
	SignedInAt      *time.Time       `json:"signed_in_at"`
	BlockedAt       *time.Time       `json:"blocked_at" doc:"Set: none of their credentials works."`
	Sessions        int              `json:"sessions" doc:"The number of browser sessions."`
	Tokens          int              `json:"tokens" doc:"The number of valid personal tokens."`
}

// Link says that a person is the same as another, whose connections to skills they use.
type Link struct {
	_      struct{}        `nullable:"true"`
	SameAs rest.PersonName `json:"same_as"`
	By     *string         `json:"by" doc:"The operator who linked them."`
	At     time.Time       `json:"at"`
}

// ReviewLimit restricts the calls that a reviewer may decide. A call must be in one of the teams, of one of the skills and of one of the
// agents.
type ReviewLimit struct {
	_      struct{} `nullable:"true"`
	Teams  []string `json:"teams,omitempty" doc:"Teams that calls were given to. Empty: all calls, also those without a team."`
	Skills []string `json:"skills,omitempty" doc:"Names of skills, in which * stands for any characters. Empty: all."`
	Agents []string `json:"agents,omitempty" doc:"Likewise, of agents."`
}

func newReviewLimit(l *identity.Limit) *ReviewLimit {
	if l == nil {
		return nil
	}
	return &ReviewLimit{Teams: l.Teams, Skills: l.Skills, Agents: l.Agents}
}

func (l *ReviewLimit) limit() *identity.Limit {
	if l == nil {
		return nil
	}
	return &identity.Limit{Teams: l.Teams, Skills: l.Skills, Agents: l.Agents}
}

// personViews adds links and names to people.
func (h *personHandlers) personViews(ctx context.Context, people []identity.Member) (func(identity.Member) Person, error) {
	ids := make([]uuid.UUID, len(people))
	for i := range people {
		ids[i] = people[i].ID
	}
	links, err := h.Identity.Links(ctx, ids)
	if err != nil {
		return nil, err
	}
	var named []uuid.UUID
	for _, link := range links {
		named = append(named, link.SameAs, link.By)
	}
	list := make([]identity.Person, len(people))
	for i := range people {
		list[i] = people[i].Person
		named = append(named, people[i].InvitedBy)
	}
	alike, err := h.Identity.Alike(ctx, list...)
	if err != nil {
		return nil, err
	}
	names, err := h.NamePeople(ctx, named...)
	if err != nil {
		return nil, err
	}
	return func(p identity.Member) Person {
		view := Person{
			ID: p.ID, Name: p.Name, Issuer: p.Issuer, Subject: p.Subject, Email: rest.OrNull(p.Email), CreatedAt: p.CreatedAt.UTC(),
			ClaimedRoles: rest.OrEmpty(p.ClaimedRoles), GrantedRoles: rest.OrEmpty(p.GrantedRoles),
			CredentialRoles: rest.OrEmpty(p.CredentialRoles),
			ClaimedTeams:    rest.OrEmpty(p.ClaimedTeams), GrantedTeams: rest.OrEmpty(p.GrantedTeams),
			GrantedAgents: rest.OrEmpty(p.GrantedAgents), ReviewLimit: newReviewLimit(p.Limit), Alike: alike[p.ID], First: p.First,
			SignedInAt: rest.UTCOrNull(p.SignedInAt), BlockedAt: rest.UTCOrNull(p.BlockedAt), Sessions: p.Sessions, Tokens: p.Tokens,
		}
		if p.LostRole != "" {
			view.LostRole = &p.LostRole
		}
		if !p.Verified() {
			view.InvitedBy = names.RefOf(p.InvitedBy)
		}
		if link, ok := links[p.ID]; ok {
			view.Link = &Link{
				SameAs: names.Find(link.SameAs), By: rest.OrNull(names.NameOf(link.By)), At: link.At.UTC(),
			}
		}
		return view
	}, nil
}

// personView is one person.
func (h *personHandlers) personView(ctx context.Context, member identity.Member) (*rest.Output[Person], error) {
	view, err := h.personViews(ctx, []identity.Member{member})
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(member)), nil
}

type listPeopleInput struct {
	rest.Page

	Text string `query:"text" maxLength:"200" doc:"Only people with this text in their name, e-mail or subject."`
}

func (h *personHandlers) listPeople(ctx context.Context, input *listPeopleInput) (*rest.ListOutput[Person], error) {
	before, err := input.IDCursor()
	if err == nil {
		err = rest.CheckStorable("query.text", input.Text)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := h.Identity.Members(ctx, identity.MemberFilter{Text: input.Text, Before: before, Limit: input.Limit})
	if err != nil {
		return nil, err
	}
	view, err := h.personViews(ctx, found)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, rest.CursorOf(next), view), nil
}

type linkPersonInput struct {
	rest.ByID
	Body struct {
		SameAs string `json:"same_as" format:"uuid" doc:"The id of the same person's other account."`
	} `nameHint:"LinkRequest"`
}

func (h *personHandlers) linkPerson(ctx context.Context, input *linkPersonInput) (*rest.Output[Person], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	same, err := uuid.Parse(input.Body.SameAs)
	if err != nil {
		return nil, rest.InvalidField("body.same_as", "must be the id of a person")
	}
	people, err := h.Identity.People(ctx, []uuid.UUID{id, same})
	if err != nil {
		return nil, err
	}
	if _, ok := people[id]; !ok {
		return nil, rest.NotFound("person", input.ID)
	}
	if _, ok := people[same]; !ok {
		return nil, rest.InvalidField("body.same_as", "there is no person %q here", input.Body.SameAs)
	}
	if err := h.Identity.Link(ctx, rest.CallerOf(ctx).Actor(), id, same); err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	member, err := h.Identity.Member(ctx, id)
	if err != nil {
		return nil, err
	}
	return h.personView(ctx, member)
}

func (h *personHandlers) unlinkPerson(ctx context.Context, input *rest.ByID) (*rest.None, error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, rest.WithName(h.Identity.Unlink(ctx, rest.CallerOf(ctx).Actor(), id), "link of person", input.ID)
}
