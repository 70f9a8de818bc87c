package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// memberProblem tells why an operator may not change a person so. Nil: the error is no such.
func memberProblem(err error) *Problem {
	switch {
	case errors.Is(err, identity.ErrSelf):
		return problem(http.StatusConflict, CodeStateConflict, "nobody blocks themself: another operator can")
	case errors.Is(err, identity.ErrSelfGrant):
		return problem(http.StatusForbidden, CodeForbidden, "%s", identity.ErrSelfGrant)
	case errors.Is(err, identity.ErrChanged):
		return problem(http.StatusConflict, CodeStateConflict,
			"what operators give them was changed since the change was decided on; fetch the person again and look at it")
	case errors.Is(err, identity.ErrLastOperator):
		return problem(http.StatusConflict, CodeStateConflict, "nobody would be left who is an operator: make somebody else one first")
	}
	return nil
}

func (a *API) getPerson(ctx context.Context, input *ByID) (*bodyOutput[Person], error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	member, err := a.identity.Member(ctx, id)
	if err != nil {
		return nil, named(err, "person", input.ID)
	}
	return a.personView(ctx, member)
}

type updatePersonInput struct {
	ByID
	Body struct {
		GrantedRoles  *[]identity.Role `json:"granted_roles,omitempty" doc:"All that an operator gives them: reviewer, operator, both, or none."`
		GrantedTeams  *[]string        `json:"granted_teams,omitempty" doc:"All that an operator gives them."`
		GrantedAgents *[]string        `json:"granted_agents,omitempty" doc:"Agents that they may act as, besides those of their roles; * is every one."`
		Blocked       *bool            `json:"blocked,omitempty" doc:"True: none of their credentials is valid from now on."`
		Was           *Granted         `json:"was,omitempty" doc:"What operators gave them when the change was decided on: where that is other by now, nothing is changed (409). Left out: whatever it is."`
	} `nameHint:"PersonChange"`
}

// Granted is what operators give a person.
type Granted struct {
	Roles []identity.Role `json:"granted_roles" nullable:"false"`
	Teams []string        `json:"granted_teams" nullable:"false"`
}

func (a *API) updatePerson(ctx context.Context, input *updatePersonInput) (*bodyOutput[Person], error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	change := identity.MemberChange{Roles: input.Body.GrantedRoles, Teams: input.Body.GrantedTeams, Agents: input.Body.GrantedAgents, Blocked: input.Body.Blocked}
	if was := input.Body.Was; was != nil {
		change.Was = &identity.Grants{Roles: was.Roles, Teams: was.Teams}
	}
	member, err := a.identity.ChangeMember(ctx, callerOf(ctx).actor(), id, change)
	if wrong, ok := errors.AsType[*identity.InvalidError](err); ok {
		return nil, invalid("body.granted_"+wrong.Field, "%s", wrong.Expected)
	}
	if err != nil {
		return nil, named(err, "person", input.ID)
	}
	return a.personView(ctx, member)
}

// Session is a browser that a person is signed in with.
type Session struct {
	ID              uuid.UUID       `json:"id" format:"uuid"`
	Method          identity.Method `json:"method" enum:"oidc,link,token" doc:"How they proved who they are when it began."`
	Client          string          `json:"client" doc:"The browser, as it calls itself."`
	CreatedAt       time.Time       `json:"created_at"`
	AuthenticatedAt *time.Time      `json:"authenticated_at" doc:"When they proved last who they are, which with an identity provider may be long before; null: it does not say."`
	ExpiresAt       time.Time       `json:"expires_at"`
}

func newSession(s identity.Session) Session {
	view := Session{ID: s.ID, Method: s.Method, Client: s.Client, CreatedAt: s.CreatedAt.UTC(), ExpiresAt: s.ExpiresAt.UTC()}
	if !s.AuthenticatedAt.IsZero() {
		view.AuthenticatedAt = utcOrNull(&s.AuthenticatedAt)
	}
	return view
}

func (a *API) listSessions(ctx context.Context, input *ByID) (*listOutput[Session], error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	if _, err := a.identity.Member(ctx, id); err != nil {
		return nil, named(err, "person", input.ID)
	}
	sessions, err := a.identity.Sessions(ctx, id)
	if err != nil {
		return nil, err
	}
	return listOf(sessions, "", newSession), nil
}

type endSessionInput struct {
	ByID

	Session string `path:"session" doc:"The id of the session."`
}

func (a *API) endSession(ctx context.Context, input *endSessionInput) (*none, error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	session, err := idOf("session", input.Session)
	if err != nil {
		return nil, err
	}
	return nil, named(a.identity.EndSession(ctx, callerOf(ctx).actor(), id, session), "session", input.Session)
}

// Ended is how many sessions an operation ended.
type Ended struct {
	Ended int `json:"ended"`
}

func (a *API) signOutPerson(ctx context.Context, input *ByID) (*bodyOutput[Ended], error) {
	id, err := idOf("person", input.ID)
	if err != nil {
		return nil, err
	}
	if _, err := a.identity.Member(ctx, id); err != nil {
		return nil, named(err, "person", input.ID)
	}
	ended, err := a.identity.EndSessions(ctx, callerOf(ctx).actor(), id, uuid.Nil)
	if err != nil {
		return nil, err
	}
	return output(Ended{Ended: ended}), nil
}
