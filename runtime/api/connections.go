package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Connection is how Holdpoint is authorized to a protected skill server. It holds no token.
type Connection struct {
	ID            uuid.UUID   `json:"id" format:"uuid"`
	Skill         string      `json:"skill"`
	Person        *PersonName `json:"person" doc:"Whose it is; null when all share it."`
	State         string      `json:"state" enum:"connected,needs_connection,expired,failing" doc:"needs_connection: somebody has to do something first; expired: its token ran out and nothing renews it; failing: the last attempt to get a token failed."`
	Need          *string     `json:"need" enum:"consent,reconnect,scope,issuer,client,settings" doc:"Of needs_connection: what is missing."`
	Reason        *string     `json:"reason" doc:"The need in plain words."`
	WhoCanResolve *string     `json:"who_can_resolve" doc:"Who can do what is needed: an operator, or the person's name; null when it is connected."`
	Grant         tool.Grant  `json:"grant" enum:"authorization_code,client_credentials,enterprise_managed,workload_identity"`
	Issuer        *string     `json:"issuer" doc:"The authorization server that issued the token."`
	Resource      *string     `json:"resource" doc:"What the token was issued for."`
	ClientID      *string     `json:"client_id"`
	ScopesAsked   []string    `json:"scopes_asked" nullable:"false"`
	ScopesGranted []string    `json:"scopes_granted" nullable:"false"`
	ScopesNeeded  []string    `json:"scopes_needed" nullable:"false" doc:"That the server asks for besides those that were granted."`
	Issuers       []string    `json:"issuers" nullable:"false" doc:"Authorization servers to choose from."`
	ExpiresAt     *time.Time  `json:"expires_at" doc:"Of the access token; null: it did not say."`
	Renewable     bool        `json:"renewable" doc:"Without a person."`
	ConnectedAt   *time.Time  `json:"connected_at"`
	ConnectedBy   *string     `json:"connected_by" doc:"The person who connected; null when nobody had to."`
	RefreshedAt   *time.Time  `json:"refreshed_at"`
	Error         *string     `json:"error" doc:"Of the last attempt to get a token; null: it succeeded."`
	ErrorAt       *time.Time  `json:"error_at"`
	WaitingCalls  int         `json:"waiting_calls" doc:"Calls that wait for it. Of all calls that wait for a connection the 200 most urgent are counted."`
}

// PersonName is who somebody is, in short.
type PersonName struct {
	_    struct{}  `nullable:"true"`
	ID   uuid.UUID `json:"id" format:"uuid"`
	Name string    `json:"name" doc:"What the issuer, or they themselves, call them: not unique."`

	Issuer  string `json:"issuer" doc:"Who says who they are; holdpoint: this server."`
	Subject string `json:"subject" doc:"Who they are, to the issuer."`
	// What a reader has to know before believing the name.
	Alike     bool    `json:"alike" doc:"Somebody else has an equal name, or one that looks alike."`
	InvitedBy *string `json:"invited_by" doc:"Set: they are known by the invitation of this person alone, and nobody verified who they are."`
}

const anOperator = "an operator"

// maxWaiting bounds how many waiting calls are looked at.
const maxWaiting = 200

// resolver says who can do what a connection needs. What is wrong with its settings is an operator's.
func resolver(c *oauthclient.Connection, state oauthclient.State, owner string) string {
	switch {
	case state == oauthclient.StateConnected:
		return ""
	case c.Principal == uuid.Nil || c.Need == oauthclient.NeedClient || c.Need == oauthclient.NeedSettings:
		return anOperator
	}
	return owner
}

// about is what connections do not hold themselves.
type about struct {
	skills  map[uuid.UUID]string
	people  personNames
	waiting map[oauthclient.Key]int
	now     time.Time
}

func (b *about) view(c oauthclient.Connection) Connection {
	state := c.State(b.now)
	view := Connection{
		ID: c.ID, Skill: b.skills[c.SkillID], State: string(state), Need: orNull(c.Need), Reason: orNull(c.Reason),
		WhoCanResolve: orNull(resolver(&c, state, b.people.of(c.Principal))),
		Grant:         c.Grant, Issuer: orNull(c.Issuer), Resource: orNull(c.Resource), ClientID: orNull(c.ClientID),
		ScopesAsked: orEmpty(c.ScopesAsked), ScopesGranted: orEmpty(c.ScopesGranted), ScopesNeeded: orEmpty(c.NeedScopes),
		Issuers: orEmpty(c.Issuers), ExpiresAt: utcOrNull(c.ExpiresAt), Renewable: c.Renewable,
		ConnectedAt: utcOrNull(c.ConnectedAt), ConnectedBy: orNull(b.people.of(c.ConnectedBy)), RefreshedAt: utcOrNull(c.RefreshedAt),
		Error: orNull(c.Error), ErrorAt: utcOrNull(c.ErrorAt), WaitingCalls: b.waiting[c.Key],
	}
	if c.Principal != uuid.Nil {
		view.Person = b.people.ref(c.Principal)
	}
	return view
}

// aboutConnections reads it.
func (a *API) aboutConnections(ctx context.Context, list []oauthclient.Connection) (*about, error) {
	b := &about{}
	if len(list) == 0 {
		return b, nil
	}
	var skills, people []uuid.UUID
	for _, c := range list {
		skills, people = append(skills, c.SkillID), append(people, c.Principal, c.ConnectedBy)
	}
	var err error
	if b.skills, err = a.agents.Names(ctx, skills); err != nil {
		return nil, err
	}
	if b.people, err = a.people(ctx, people...); err != nil {
		return nil, err
	}
	pulse, err := a.calls.Pulse(ctx)
	if err != nil {
		return nil, err
	}
	b.now = pulse.Now
	b.waiting, err = a.waitingFor(ctx, skills)
	return b, err
}

// waitingFor counts the calls that wait for connections of the skills.
func (a *API) waitingFor(ctx context.Context, skills []uuid.UUID) (map[oauthclient.Key]int, error) {
	calls, err := a.calls.Unconnected(ctx, oneOf(skills), maxWaiting)
	if err != nil {
		return nil, err
	}
	counts := make(map[oauthclient.Key]int)
	for _, waiting := range calls {
		skill, _, err := a.agents.Skill(ctx, waiting.Call.SkillID)
		if isNotFound(err) {
			continue // it was deleted a moment ago
		}
		if err != nil {
			return nil, err
		}
		key, err := a.oauth.KeyFor(ctx, skill.ID, skill.PerUser, waiting.Call.PrincipalID)
		if err != nil {
			return nil, err
		}
		counts[key]++
	}
	return counts, nil
}

// oneOf is the one id that all of them are, or uuid.Nil.
func oneOf(ids []uuid.UUID) uuid.UUID {
	if len(slices.Compact(slices.Clone(ids))) == 1 {
		return ids[0]
	}
	return uuid.Nil
}

type listConnectionsInput struct {
	Page
	Skill string `query:"skill" doc:"Only those of the skill of this name or id."`
}

func (a *API) listConnections(ctx context.Context, input *listConnectionsInput) (*listOutput[Connection], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	filter := oauthclient.Filter{Before: before, Limit: input.Limit}
	if input.Skill != "" {
		skill, err := a.skillBy(ctx, input.Skill)
		if err != nil {
			return nil, err
		}
		filter.SkillID = skill.ID
	}
	switch who := callerOf(ctx); {
	case who.has(identity.Operator):
	case who.has(identity.Reviewer):
		filter.VisibleTo = who.personID()
	default:
		if filter.Principal, err = a.identity.SameAs(ctx, who.personID()); err != nil {
			return nil, err
		}
	}
	found, next, err := a.oauth.List(ctx, filter)
	if err != nil {
		return nil, err
	}
	b, err := a.aboutConnections(ctx, found)
	if err != nil {
		return nil, err
	}
	return listOf(found, cursorOf(next), b.view), nil
}

// skillBy finds a skill by its name or its id.
func (a *API) skillBy(ctx context.Context, text string) (*agent.Skill, error) {
	found, err := a.agents.SkillByName(ctx, text)
	if id, noID := uuid.Parse(text); noID == nil && isNotFound(err) {
		found, _, err = a.agents.FreshSkill(ctx, id)
	}
	return found, named(err, "skill", text)
}

func (a *API) getConnection(ctx context.Context, input *ByID) (*bodyOutput[Connection], error) {
	found, err := a.visibleConnection(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	return a.connectionView(ctx, found)
}

func (a *API) connectionView(ctx context.Context, c oauthclient.Connection) (*bodyOutput[Connection], error) {
	b, err := a.aboutConnections(ctx, []oauthclient.Connection{c})
	if err != nil {
		return nil, err
	}
	return output(b.view(c)), nil
}

// visibleConnection returns a connection that the caller may see: an operator any, others their own, reviewers also those that
// all share. To everybody else it does not exist.
func (a *API) visibleConnection(ctx context.Context, text string) (oauthclient.Connection, error) {
	id, err := idOf("connection", text)
	if err != nil {
		return oauthclient.Connection{}, err
	}
	found, err := a.oauth.Get(ctx, id)
	if err != nil {
		return oauthclient.Connection{}, named(err, "connection", text)
	}
	who := callerOf(ctx)
	_, may, err := a.oauth.May(ctx, *who.person, found.Key)
	if err == nil && !may && (found.Principal != uuid.Nil || !who.has(identity.Reviewer)) {
		err = notFound("connection", text)
	}
	return found, err
}

func (a *API) disconnect(ctx context.Context, input *ByID) (*bodyOutput[Connection], error) {
	found, err := a.visibleConnection(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	if _, may, err := a.oauth.May(ctx, *callerOf(ctx).person, found.Key); err != nil {
		return nil, err
	} else if !may {
		return nil, problem(http.StatusForbidden, CodeForbidden, "all share this connection: an operator ends it")
	}
	skill, _, err := a.agents.FreshSkill(ctx, found.SkillID)
	if err != nil {
		return nil, named(err, "connection", input.ID)
	}
	// A key may stand for another connection than when this one was made, which is not the caller's to end.
	if key, err := a.oauth.KeyFor(ctx, skill.ID, skill.PerUser, found.Principal); err != nil || key != found.Key {
		if err != nil {
			return nil, err
		}
		return nil, problem(http.StatusConflict, CodeStateConflict,
			"the connection is not in use any more: the skill was changed, or its person linked to another")
	}
	if err := a.oauth.Disconnect(ctx, callerOf(ctx).personID(), found.Key); err != nil {
		return nil, named(err, "connection", input.ID)
	}
	if found, err = a.oauth.Get(ctx, found.ID); err != nil {
		return nil, named(err, "connection", input.ID)
	}
	return a.connectionView(ctx, found)
}

type connectSkillInput struct {
	ByName
	Body *struct {
		Issuer string `json:"issuer,omitempty" maxLength:"2048" doc:"The authorization server, where the skill's server takes tokens of several."`
	} `required:"false" nameHint:"ConnectRequest"`
}

// Authorization is where a person goes to connect a skill.
type Authorization struct {
	URL string `json:"authorization_url" doc:"To be opened in a browser in which the person who asked for it is signed in to the dashboard."`
}

func (a *API) connectSkill(ctx context.Context, input *connectSkillInput) (*bodyOutput[Authorization], error) {
	skill, err := a.skillBy(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	who, issuer := callerOf(ctx), ""
	if input.Body != nil {
		issuer = input.Body.Issuer
	}
	if err := storable("body.issuer", issuer); err != nil {
		return nil, err
	}
	key, err := a.oauth.KeyFor(ctx, skill.ID, skill.PerUser, who.personID())
	if err != nil {
		return nil, err
	}
	may, _, err := a.oauth.May(ctx, *who.person, key)
	if err != nil {
		return nil, err
	}
	if !may {
		return nil, problem(http.StatusForbidden, CodeForbidden, "all share the connection of this skill: an operator makes it")
	}
	if why := needsNobody(skill); why != "" {
		return nil, problem(http.StatusConflict, CodeStateConflict, "%s", why)
	}
	begun, err := a.oauth.Begin(ctx, who.personID(), key, issuer)
	if err != nil {
		return nil, named(err, "skill", input.Name)
	}
	return output(Authorization{URL: begun.URL}), nil
}

// needsNobody says why no person can connect a skill. Empty: one may.
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

// connectionProblem tells why a skill could not be connected. Nil: the error is no such. The
// messages hold nothing secret; the causes may.
func connectionProblem(err error) *Problem {
	var needs *oauthclient.NeedsConnectionError
	var failed *oauthclient.Error
	switch {
	case errors.As(err, &needs):
		return problem(http.StatusConflict, CodeConnectionNeeded, "%s", needs.Reason)
	case errors.As(err, &failed):
		return problem(http.StatusBadGateway, CodeAuthorizationFailed, "%s", failed.Error())
	}
	return nil
}

// connectDeadlines are until when calls wait for somebody to connect their skill.
func (a *API) connectDeadlines(ctx context.Context, calls []call.Call, into map[uuid.UUID]time.Time) error {
	var skills []uuid.UUID
	for _, c := range calls {
		if c.Status == call.NeedsConnection {
			skills = append(skills, c.SkillID)
		}
	}
	if len(skills) == 0 {
		return nil
	}
	waiting, err := a.calls.Unconnected(ctx, oneOf(skills), maxWaiting)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		into[w.Call.ID] = w.Deadline
	}
	return nil
}
