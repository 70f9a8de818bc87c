package operate

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

type connectionHandlers struct {
	*rest.Directory

	calls *call.Service
	oauth *oauthclient.Service
}

// Connection is how Holdpoint is authorized to a protected skill server. It holds no token.
type Connection struct {
	ID            uuid.UUID        `json:"id" format:"uuid"`
	Skill         string           `json:"skill"`
	Person        *rest.PersonName `json:"person" doc:"The person who owns it; null if it is shared."`
	State         string           `json:"state" enum:"connected,needs_connection,expired,failing" doc:"needs_connection: a person has to act first; expired: its token has expired and cannot be renewed; failing: the last attempt to get a token failed."`
	Need          *string          `json:"need" enum:"consent,reconnect,scope,issuer,client,settings" doc:"With needs_connection: the code of the missing part."`
	Reason        *string          `json:"reason" doc:"A message about the missing part."`
	WhoCanResolve *string          `json:"who_can_resolve" doc:"Who can resolve it: an operator, or the person's name; null if it is connected."`
	Grant         tool.Grant       `json:"grant" enum:"authorization_code,client_credentials,enterprise_managed,workload_identity"`
	Issuer        *string          `json:"issuer" doc:"The authorization server that issued the token."`
	Resource      *string          `json:"resource" doc:"The resource that the token was issued for."`
	ClientID      *string          `json:"client_id"`
	ScopesAsked   []string         `json:"scopes_asked" nullable:"false"`
	ScopesGranted []string         `json:"scopes_granted" nullable:"false"`
	ScopesNeeded  []string         `json:"scopes_needed" nullable:"false" doc:"Scopes that the server requires and that were not granted."`
	Issuers       []string         `json:"issuers" nullable:"false" doc:"Authorization servers to choose from."`
	ExpiresAt     *time.Time       `json:"expires_at" doc:"The expiry of the access token; null: unknown."`
	Renewable     bool             `json:"renewable" doc:"Whether the token can be renewed without a person."`
	ConnectedAt   *time.Time       `json:"connected_at"`
	ConnectedBy   *string          `json:"connected_by" doc:"The person who connected it; null if no person was needed."`
	RefreshedAt   *time.Time       `json:"refreshed_at"`
	Error         *string          `json:"error" doc:"The error of the last attempt to get a token; null: it succeeded."`
	ErrorAt       *time.Time       `json:"error_at"`
	WaitingCalls  int              `json:"waiting_calls" doc:"Calls that wait for it, counted among the 200 most urgent calls that wait for a connection."`
}

const anOperator = "an operator"

// resolverOf names who can resolve a connection's need. Only operators change settings.
func resolverOf(c *oauthclient.Connection, state oauthclient.State, owner string) string {
	switch {
	case state == oauthclient.StateConnected:
		return ""
	case c.Principal == uuid.Nil || c.Need == oauthclient.NeedClient || c.Need == oauthclient.NeedSettings:
		return anOperator
	}
	return owner
}

// about has the names and figures that connections do not contain.
type about struct {
	skills  map[uuid.UUID]string
	people  rest.PersonNames
	waiting map[oauthclient.Key]int
	now     time.Time
}

func (b *about) view(c oauthclient.Connection) Connection {
	state := c.State(b.now)
	view := Connection{
		ID: c.ID, Skill: b.skills[c.SkillID], State: string(state), Need: rest.OrNull(c.Need), Reason: rest.OrNull(c.Reason),
		WhoCanResolve: rest.OrNull(resolverOf(&c, state, b.people.NameOf(c.Principal))),
		Grant:         c.Grant, Issuer: rest.OrNull(c.Issuer), Resource: rest.OrNull(c.Resource), ClientID: rest.OrNull(c.ClientID),
		ScopesAsked: rest.OrEmpty(c.ScopesAsked), ScopesGranted: rest.OrEmpty(c.ScopesGranted), ScopesNeeded: rest.OrEmpty(c.NeedScopes),
		Issuers: rest.OrEmpty(c.Issuers), ExpiresAt: rest.UTCOrNull(c.ExpiresAt), Renewable: c.Renewable,
		ConnectedAt: rest.UTCOrNull(c.ConnectedAt), ConnectedBy: rest.OrNull(b.people.NameOf(c.ConnectedBy)), RefreshedAt: rest.UTCOrNull(c.RefreshedAt),
		Error: rest.OrNull(c.Error), ErrorAt: rest.UTCOrNull(c.ErrorAt), WaitingCalls: b.waiting[c.Key],
	}
	if c.Principal != uuid.Nil {
		view.Person = b.people.RefOf(c.Principal)
	}
	return view
}

// aboutConnections reads the names and figures for connections.
func (h *connectionHandlers) aboutConnections(ctx context.Context, list []oauthclient.Connection) (*about, error) {
	b := &about{}
	if len(list) == 0 {
		return b, nil
	}
	var skills, people []uuid.UUID
	for _, c := range list {
		skills, people = append(skills, c.SkillID), append(people, c.Principal, c.ConnectedBy)
	}
	var err error
	if b.skills, err = h.Agents.Names(ctx, skills); err != nil {
		return nil, err
	}
	if b.people, err = h.NamePeople(ctx, people...); err != nil {
		return nil, err
	}
	pulse, err := h.calls.ReadPulse(ctx)
	if err != nil {
		return nil, err
	}
	b.now = pulse.Now
	b.waiting, err = h.waitingFor(ctx, skills)
	return b, err
}

// waitingFor counts the calls that wait for connections of the skills.
func (h *connectionHandlers) waitingFor(ctx context.Context, skills []uuid.UUID) (map[oauthclient.Key]int, error) {
	calls, err := rest.ListUnconnected(ctx, h.calls, skills)
	if err != nil {
		return nil, err
	}
	counts := make(map[oauthclient.Key]int)
	for _, waiting := range calls {
		skill, _, err := h.Agents.Skill(ctx, waiting.Call.SkillID)
		if errors.Is(err, fault.ErrNotFound) {
			continue // it was deleted a moment ago
		}
		if err != nil {
			return nil, err
		}
		key, err := h.oauth.KeyFor(ctx, skill.ID, skill.PerUser, waiting.Call.PrincipalID)
		if err != nil {
			return nil, err
		}
		counts[key]++
	}
	return counts, nil
}

type listConnectionsInput struct {
	rest.Page
	Skill string `query:"skill" doc:"Only connections of the skill with this name or id."`
}

func (h *connectionHandlers) listConnections(ctx context.Context, input *listConnectionsInput) (*rest.ListOutput[Connection], error) {
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	filter := oauthclient.Filter{Before: before, Limit: input.Limit}
	if input.Skill != "" {
		skill, err := h.FindSkillOrID(ctx, input.Skill)
		if err != nil {
			return nil, err
		}
		filter.SkillID = skill.ID
	}
	switch who := rest.CallerOf(ctx); {
	case who.HasRole(identity.Operator):
	case who.HasRole(identity.Reviewer):
		filter.VisibleTo = who.PersonID()
	default:
		if filter.Principal, err = h.Identity.SameAs(ctx, who.PersonID()); err != nil {
			return nil, err
		}
	}
	found, next, err := h.oauth.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	b, err := h.aboutConnections(ctx, found)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, rest.CursorOf(next), b.view), nil
}

func (h *connectionHandlers) getConnection(ctx context.Context, input *rest.ByID) (*rest.Output[Connection], error) {
	found, err := h.visibleConnection(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	return h.connectionView(ctx, found)
}

func (h *connectionHandlers) connectionView(ctx context.Context, c oauthclient.Connection) (*rest.Output[Connection], error) {
	b, err := h.aboutConnections(ctx, []oauthclient.Connection{c})
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(b.view(c)), nil
}

// visibleConnection returns a connection that the caller may see: operators all, reviewers shared ones and their own, others
// their own. To other callers it does not exist.
func (h *connectionHandlers) visibleConnection(ctx context.Context, text string) (oauthclient.Connection, error) {
	id, err := rest.ParseID("connection", text)
	if err != nil {
		return oauthclient.Connection{}, err
	}
	found, err := h.oauth.Get(ctx, id)
	if err != nil {
		return oauthclient.Connection{}, rest.WithName(err, "connection", text)
	}
	who := rest.CallerOf(ctx)
	_, may, err := h.oauth.May(ctx, *who.Person, found.Key)
	if err == nil && !may && (found.Principal != uuid.Nil || !who.HasRole(identity.Reviewer)) {
		err = rest.NotFound("connection", text)
	}
	return found, err
}

func (h *connectionHandlers) disconnectSkill(ctx context.Context, input *rest.ByID) (*rest.Output[Connection], error) {
	found, err := h.visibleConnection(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	if _, may, err := h.oauth.May(ctx, *rest.CallerOf(ctx).Person, found.Key); err != nil {
		return nil, err
	} else if !may {
		return nil, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "this connection is shared: an operator has to disconnect it")
	}
	skill, _, err := h.Agents.FreshSkill(ctx, found.SkillID)
	if err != nil {
		return nil, rest.WithName(err, "connection", input.ID)
	}
	// A key may stand for another connection than when this one was made, which is not the caller's to end.
	if key, err := h.oauth.KeyFor(ctx, skill.ID, skill.PerUser, found.Principal); err != nil || key != found.Key {
		if err != nil {
			return nil, err
		}
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict,
			"the connection is not in use any more: the skill was changed, or its person linked to another")
	}
	if err := h.oauth.Disconnect(ctx, rest.CallerOf(ctx).PersonID(), found.Key); err != nil {
		return nil, rest.WithName(err, "connection", input.ID)
	}
	if found, err = h.oauth.Get(ctx, found.ID); err != nil {
		return nil, rest.WithName(err, "connection", input.ID)
	}
	return h.connectionView(ctx, found)
}

type connectSkillInput struct {
	rest.ByName
	Body *struct {
		Issuer string `json:"issuer,omitempty" maxLength:"2048" doc:"The authorization server, if the skill's server accepts several."`
	} `required:"false" nameHint:"ConnectRequest"`
}

// Authorization is where a person goes to connect a skill.
type Authorization struct {
	URL string `json:"authorization_url" doc:"Open it in a browser in which the same person is signed in to the dashboard."`
}

func (h *connectionHandlers) connectSkill(ctx context.Context, input *connectSkillInput) (*rest.Output[Authorization], error) {
	skill, err := h.FindSkillOrID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	who, issuer := rest.CallerOf(ctx), ""
	if input.Body != nil {
		issuer = input.Body.Issuer
	}
	if err := rest.CheckStorable("body.issuer", issuer); err != nil {
		return nil, err
	}
	key, err := h.oauth.KeyFor(ctx, skill.ID, skill.PerUser, who.PersonID())
	if err != nil {
		return nil, err
	}
	may, _, err := h.oauth.May(ctx, *who.Person, key)
	if err != nil {
		return nil, err
	}
	if !may {
		return nil, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "the connection of this skill is shared: an operator has to connect it")
	}
	if why := needsNobody(skill); why != "" {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "%s", why)
	}
	begun, err := h.oauth.Begin(ctx, who.PersonID(), key, issuer)
	if err != nil {
		return nil, rest.WithName(err, "skill", input.Name)
	}
	return rest.NewOutput(Authorization{URL: begun.URL}), nil
}

// needsNobody returns why no person can connect a skill, or "".
func needsNobody(skill *agent.Skill) string {
	if skill.Transport != tool.HTTP {
		return "skills of transport " + string(skill.Transport) + " are not connected to"
	}
	if !tool.TakesTokens(skill.Transport, skill.URL, slices.Values(skill.HeaderNames)) {
		return "the skill is not connected to: its header Authorization, or its url, says who calls"
	}
	if skill.OAuth != nil && tool.Unattended(skill.OAuth.Grant) {
		return "the grant " + skill.OAuth.Grant + " needs no person: the skill connects by itself"
	}
	return ""
}
