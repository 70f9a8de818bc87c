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
}

// Link says that a person is the same as another, whose connections to skills they use.
type Link struct {
	_      struct{}   `nullable:"true"`
	SameAs PersonName `json:"same_as"`
	By     *string    `json:"by" doc:"The operator who linked them."`
	At     time.Time  `json:"at"`
}

// personViews adds links and names to people.
func (a *API) personViews(ctx context.Context, people []identity.Person) (func(identity.Person) Person, error) {
	ids := make([]uuid.UUID, len(people))
	for i, p := range people {
		ids[i] = p.ID
	}
	links, err := a.identity.Links(ctx, ids)
	if err != nil {
		return nil, err
	}
	var named []uuid.UUID
	for _, link := range links {
		named = append(named, link.SameAs, link.By)
	}
	names, err := a.people(ctx, named...)
	if err != nil {
		return nil, err
	}
	return func(p identity.Person) Person {
		view := Person{
			ID: p.ID, Name: p.Name, Issuer: p.Issuer, Subject: p.Subject, Email: orNull(p.Email), CreatedAt: p.CreatedAt.UTC(),
		}
		if link, ok := links[p.ID]; ok {
			view.Link = &Link{
				SameAs: PersonName{ID: link.SameAs, Name: names[link.SameAs]}, By: orNull(names[link.By]), At: link.At.UTC(),
			}
		}
		return view
	}, nil
}

func (a *API) listPeople(ctx context.Context, input *Page) (*listOutput[Person], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := a.identity.ListPeople(ctx, before, input.Limit)
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
	person, ok := people[id]
	if !ok {
		return nil, notFound("person", input.ID)
	}
	if _, ok := people[same]; !ok {
		return nil, invalid("body.same_as", "there is no person %q here", input.Body.SameAs)
	}
	if err := a.identity.Link(ctx, callerOf(ctx).actor(), id, same); err != nil {
		return nil, named(err, "person", input.ID)
	}
	view, err := a.personViews(ctx, []identity.Person{person})
	if err != nil {
		return nil, err
	}
	return output(view(person)), nil
}

func (a *API) unlinkPerson(ctx context.Context, input *ByID) (*none, error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	return nil, named(a.identity.Unlink(ctx, callerOf(ctx).actor(), id), "link of person", input.ID)
}
