package operate

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

func (h *personHandlers) getPerson(ctx context.Context, input *rest.ByID) (*rest.Output[Person], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	member, err := h.Identity.Member(ctx, id)
	if err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	return h.personView(ctx, member)
}

type updatePersonInput struct {
	rest.ByID
	Body struct {
		GrantedRoles  *[]identity.Role `json:"granted_roles,omitempty" doc:"All roles granted by operators: reviewer, operator, both, or none."`
		GrantedTeams  *[]string        `json:"granted_teams,omitempty" doc:"All teams granted by operators."`
		GrantedAgents *[]string        `json:"granted_agents,omitempty" doc:"Agents that they may act as, in addition to those of their roles; * means all."`
		ReviewLimit   *ReviewLimit     `json:"review_limit,omitempty" doc:"The calls that they may decide as a reviewer; {}: all."`
		Blocked       *bool            `json:"blocked,omitempty" doc:"True: all their credentials stop working."`
		Was           *Granted         `json:"was,omitempty" doc:"The expected current grants: with others, nothing is changed (409). Omitted: any."`
	} `nameHint:"PersonChange"`
}

// Granted are the roles and teams that operators grant a person.
type Granted struct {
	Roles []identity.Role `json:"granted_roles" nullable:"false"`
	Teams []string        `json:"granted_teams" nullable:"false"`
}

func (h *personHandlers) updatePerson(ctx context.Context, input *updatePersonInput) (*rest.Output[Person], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	change := identity.MemberChange{Roles: input.Body.GrantedRoles, Teams: input.Body.GrantedTeams, Agents: input.Body.GrantedAgents, Limit: input.Body.ReviewLimit.limit(), Blocked: input.Body.Blocked}
	if was := input.Body.Was; was != nil {
		change.Was = &identity.Grants{Roles: was.Roles, Teams: was.Teams}
	}
	member, err := h.Identity.ChangeMember(ctx, rest.CallerOf(ctx).Actor(), id, change)
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok {
		field := "granted_" + wrong.Fields[0].Name
		if wrong.Fields[0].Name == "limit" {
			field = "review_limit"
		}
		return nil, rest.InvalidField("body."+field, "%s", wrong.Fields[0].Expected)
	}
	if err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	return h.personView(ctx, member)
}

// Session is a browser session of a person.
type Session struct {
	ID              uuid.UUID       `json:"id" format:"uuid"`
	Method          identity.Method `json:"method" enum:"oidc,link,token" doc:"How the person signed in."`
	Client          string          `json:"client" doc:"The browser's user agent."`
	CreatedAt       time.Time       `json:"created_at"`
	AuthenticatedAt *time.Time      `json:"authenticated_at" doc:"The last authentication, which an identity provider may have done long before; null: unknown."`
	ExpiresAt       time.Time       `json:"expires_at"`
}

func newSession(s identity.Session) Session {
	view := Session{ID: s.ID, Method: s.Method, Client: s.Client, CreatedAt: s.CreatedAt.UTC(), ExpiresAt: s.ExpiresAt.UTC()}
	if !s.AuthenticatedAt.IsZero() {
		view.AuthenticatedAt = rest.UTCOrNull(&s.AuthenticatedAt)
	}
	return view
}

func (h *personHandlers) listSessions(ctx context.Context, input *rest.ByID) (*rest.ListOutput[Session], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	if _, err := h.Identity.Member(ctx, id); err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	sessions, err := h.Identity.Sessions(ctx, id)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(sessions, "", newSession), nil
}

type endSessionInput struct {
	rest.ByID

	Session string `path:"session" doc:"The id of the session."`
}

func (h *personHandlers) endSession(ctx context.Context, input *endSessionInput) (*rest.None, error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	session, err := rest.ParseID("session", input.Session)
	if err != nil {
		return nil, err
	}
	return nil, rest.WithName(h.Identity.EndSession(ctx, rest.CallerOf(ctx).Actor(), id, session), "session", input.Session)
}

// Ended is the number of sessions that an operation ended.
type Ended struct {
	Ended int `json:"ended"`
}

func (h *personHandlers) signOutPerson(ctx context.Context, input *rest.ByID) (*rest.Output[Ended], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	if _, err := h.Identity.Member(ctx, id); err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	ended, err := h.Identity.EndSessions(ctx, rest.CallerOf(ctx).Actor(), id, uuid.Nil)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(Ended{Ended: ended}), nil
}
