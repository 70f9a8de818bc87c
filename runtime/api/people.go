package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// Person is somebody who signed in or has a token: an issuer and a subject. The rest is only shown.
type Person struct {
	ID        uuid.UUID `json:"id" format:"uuid"`
	Name      string    `json:"name"`
	Issuer    string    `json:"issuer" doc:"Who says who they are; holdpoint: this server."`
	Subject   string    `json:"subject"`
	Email     *string   `json:"email"`
	Link      *Link     `json:"link" doc:"Whom an operator declared them to be the same as; null: nobody."`
	CreatedAt time.Time `json:"created_at"`

	ClaimedRoles    []identity.Role `json:"claimed_roles" nullable:"false" doc:"By the groups of their last sign-in with an identity provider."`
	GrantedRoles    []identity.Role `json:"granted_roles" nullable:"false" doc:"By an operator. A personal token has its own roles."`
	CredentialRoles []identity.Role `json:"credential_roles" nullable:"false" doc:"Of their valid personal tokens and one-time links in use, and of the bootstrap token."`
	ClaimedTeams    []string        `json:"claimed_teams" nullable:"false"`
	GrantedTeams    []string        `json:"granted_teams" nullable:"false"`
	GrantedAgents   []string        `json:"granted_agents" nullable:"false" doc:"Agents that they may act as, besides those of their roles."`
	Alike           bool            `json:"alike" doc:"Somebody else has an equal name, or one that looks alike."`
	InvitedBy       *PersonName     `json:"invited_by" doc:"Set: they are known by the invitation of this person alone, and nobody verified who they are. They decide no calls of this person, or of agents whose keys this person made."`
	First           bool            `json:"first" doc:"They took their roles by the bootstrap token."`
	SignedInAt      *time.Time      `json:"signed_in_at"`
	BlockedAt       *time.Time      `json:"blocked_at" doc:"Set: none of their credentials is valid."`
	Sessions        int             `json:"sessions" doc:"Browsers that they are signed in with."`
	Tokens          int             `json:"tokens" doc:"Personal tokens that are valid."`
}

// Link says that a person is the same as another, whose connections to skills they use.
type Link struct {
	_      struct{}   `nullable:"true"`
	SameAs PersonName `json:"same_as"`
	By     *string    `json:"by" doc:"The operator who linked them."`
	At     time.Time  `json:"at"`
}

// personViews adds links and names to people.
func (a *API) personViews(ctx context.Context, people []identity.Member) (func(identity.Member) Person, error) {
	ids := make([]uuid.UUID, len(people))
	for i := range people {
		ids[i] = people[i].ID
	}
	links, err := a.identity.Links(ctx, ids)
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
	alike, err := a.identity.Alike(ctx, list...)
	if err != nil {
		return nil, err
	}
	names, err := a.people(ctx, named...)
	if err != nil {
		return nil, err
	}
	return func(p identity.Member) Person {
		view := Person{
			ID: p.ID, Name: p.Name, Issuer: p.Issuer, Subject: p.Subject, Email: orNull(p.Email), CreatedAt: p.CreatedAt.UTC(),
			ClaimedRoles: orEmpty(p.ClaimedRoles), GrantedRoles: orEmpty(p.GrantedRoles),
			CredentialRoles: orEmpty(p.CredentialRoles),
			ClaimedTeams:    orEmpty(p.ClaimedTeams), GrantedTeams: orEmpty(p.GrantedTeams),
			GrantedAgents: orEmpty(p.GrantedAgents), Alike: alike[p.ID], First: p.First,
			SignedInAt: utcOrNull(p.SignedInAt), BlockedAt: utcOrNull(p.BlockedAt), Sessions: p.Sessions, Tokens: p.Tokens,
		}
		if !p.Verified() {
			view.InvitedBy = names.ref(p.InvitedBy)
		}
		if link, ok := links[p.ID]; ok {
			view.Link = &Link{
				SameAs: deciderOf(names, link.SameAs), By: orNull(names.of(link.By)), At: link.At.UTC(),
			}
		}
		return view
	}, nil
}

// personView is one person.
func (a *API) personView(ctx context.Context, member identity.Member) (*bodyOutput[Person], error) {
	view, err := a.personViews(ctx, []identity.Member{member})
	if err != nil {
		return nil, err
	}
	return output(view(member)), nil
}

type listPeopleInput struct {
	Page

	Text string `query:"text" maxLength:"200" doc:"Only people with this in their name, e-mail or subject."`
}

func (a *API) listPeople(ctx context.Context, input *listPeopleInput) (*listOutput[Person], error) {
	before, err := input.idCursor()
	if err == nil {
		err = storable("query.text", input.Text)
	}
	if err != nil {
		return nil, err
	}
	found, next, err := a.identity.Members(ctx, identity.MemberFilter{Text: input.Text, Before: before, Limit: input.Limit})
	if err != nil {
		return nil, err
	}
	view, err := a.personViews(ctx, found)
	if err != nil {
		return nil, err
	}
	return listOf(found, cursorOf(next), view), nil
}

type linkPersonInput struct {
	ByID
	Body struct {
		SameAs string `json:"same_as" format:"uuid" doc:"The id of the person they are the same as."`
	} `nameHint:"LinkRequest"`
}

func (a *API) linkPerson(ctx context.Context, input *linkPersonInput) (*bodyOutput[Person], error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	same, err := uuid.Parse(input.Body.SameAs)
	if err != nil {
		return nil, invalid("body.same_as", "expected the id of a person")
	}
	people, err := a.identity.People(ctx, []uuid.UUID{id, same})
	if err != nil {
		return nil, err
	}
	if _, ok := people[id]; !ok {
		return nil, notFound("person", input.ID)
	}
	if _, ok := people[same]; !ok {
		return nil, invalid("body.same_as", "there is no person %q here", input.Body.SameAs)
	}
	if err := a.identity.Link(ctx, callerOf(ctx).actor(), id, same); err != nil {
		return nil, named(err, "person", input.ID)
	}
	member, err := a.identity.Member(ctx, id)
	if err != nil {
		return nil, err
	}
	return a.personView(ctx, member)
}

func (a *API) unlinkPerson(ctx context.Context, input *ByID) (*none, error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, named(a.identity.Unlink(ctx, callerOf(ctx).actor(), id), "link of person", input.ID)
}
