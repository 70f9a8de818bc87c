package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Call is one tools/call and everything that happened to it.
type Call struct {
	ID              uuid.UUID       `json:"id" format:"uuid"`
	Status          call.Status     `json:"status" enum:"needs_connection,parked,approved,executing,succeeded,failed,rejected,expired,cancelled,denied,invalid,unknown"`
	Code            *string         `json:"code" doc:"Why the call ended as it did; stable."`
	Failure         *string         `json:"failure" enum:"tool_error,jsonrpc_error,transport,protocol,session_invalid" doc:"Of failed calls: which side of the wire broke."`
	Effect          *string         `json:"effect" enum:"none,possible" doc:"Of failed and unknown calls: whether it may have been executed."`
	Message         *string         `json:"message" doc:"Plain words about the end; of calls in needs_connection what is missing."`
	Agent           string          `json:"agent"`
	Principal       *string         `json:"principal" doc:"The person on whose behalf the agent made the call; null with a bare agent key."`
	PrincipalPerson *PersonName     `json:"principal_person" doc:"Who that is: an id, an issuer and a subject beside the name."`
	ConversationID  *uuid.UUID      `json:"conversation_id" format:"uuid"`
	Skill           string          `json:"skill"`
	Tool            string          `json:"tool" doc:"The skill's own name of the tool."`
	Name            string          `json:"name" doc:"The name by which the agent called it."`
	Gated           bool            `json:"gated" doc:"Whether it needed an approval."`
	Arguments       json.RawMessage `json:"arguments" doc:"Byte for byte as they were, or will be, sent."`
	Submitted       json.RawMessage `json:"submitted_arguments" doc:"As the agent gave them, when a reviewer edited them, also while the edit waits for a second reviewer; else null."`
	Files           []AttachedFile  `json:"files" nullable:"false" doc:"Attached when the call was made."`
	Result          json.RawMessage `json:"result" doc:"As it came: a tool result, or the error object of a jsonrpc_error; null when there is none."`
	CreatedAt       time.Time       `json:"created_at"`
	FinishedAt      *time.Time      `json:"finished_at"`
	Deadline        *time.Time      `json:"deadline" doc:"Of parked calls: when the approval expires. Of calls in needs_connection: until when they wait for somebody to connect the skill."`
	Late            json.RawMessage `json:"late" doc:"Evidence: an outcome that came after the call had become unknown."`
	Partial         bool            `json:"partial,omitempty" doc:"In lists: arguments or result are larger than 64 KiB and were left out; get the call by its id."`
	Request         *Outgoing       `json:"request" doc:"Of calls of HTTP APIs: the very request that was, or will be, sent, secrets masked. Null for who may not see approvals, and in lists."`
	Resolution      *Resolution     `json:"resolution" doc:"What an operator found out about an unknown outcome."`
	Measures        *Measures       `json:"measures" doc:"What was measured when it was sent; null: nothing was, or it was not sent."`
	Decision        *Decision       `json:"decision" doc:"How it was decided; null for who may not see approvals, and where nobody had, or has yet, to decide."`
}

// Measures are what was measured of a call when it was sent.
type Measures struct {
	HTTPStatus *int       `json:"http_status" doc:"Of the answer of an HTTP API; else null."`
	Sent       *int64     `json:"bytes_sent" doc:"Of the request's body; over MCP of the arguments. Null: it did not come to a request."`
	Received   *int64     `json:"bytes_received" doc:"Of the answer's body; over MCP of the result."`
	Steps      []StepTime `json:"steps" nullable:"false" doc:"In the order they were taken; those that were not are left out."`
}

// StepTime is how long a step of a call took.
type StepTime struct {
	Step    string  `json:"step" enum:"validate,resolve,credentials,call,transform,log"`
	Seconds float64 `json:"seconds" doc:"To the microsecond. Of a call that was sent more than once, the sum."`
}

func newMeasures(m *call.Measures) *Measures {
	if m == nil {
		return nil
	}
	view := &Measures{Steps: []StepTime{}}
	if m.HTTPStatus > 0 {
		view.HTTPStatus = &m.HTTPStatus
	}
	if m.Exchanged() {
		view.Sent, view.Received = &m.Sent, &m.Received
	}
	for i, step := range call.PipelineSteps() {
		if took := m.Took[i]; took > 0 {
			view.Steps = append(view.Steps, StepTime{Step: string(step), Seconds: took.Seconds()})
		}
	}
	return view
}

// Resolution is what an operator found out about an unknown outcome.
type Resolution struct {
	Outcome string    `json:"outcome" enum:"succeeded,failed"`
	Note    string    `json:"note"`
	By      *string   `json:"by"`
	At      time.Time `json:"at"`

	ByPerson *PersonName `json:"by_person" doc:"Who that is."`
}

func newCall(c call.Call, names personNames, deadlines map[uuid.UUID]time.Time) Call {
	view := Call{
		ID: c.ID, Status: c.Status, Code: orNull(c.Code), Failure: orNull(c.Failure), Effect: orNull(c.Effect),
		Message: orNull(c.Message), Agent: c.Agent, Principal: orNull(names.of(c.PrincipalID)), PrincipalPerson: names.ref(c.PrincipalID),
		ConversationID: idOrNull(c.ConversationID), Skill: c.Skill, Tool: c.Tool, Name: c.ExposedName, Gated: c.Gated,
		Arguments: c.Arguments, Submitted: c.Submitted, Files: attachedFiles(c.Files), Result: c.Result, CreatedAt: c.CreatedAt.UTC(), FinishedAt: utcOrNull(c.FinishedAt),
		Late: c.Late, Partial: c.Partial, Measures: newMeasures(c.Measures),
	}
	if deadline, ok := deadlines[c.ID]; ok {
		view.Deadline = utcOrNull(&deadline)
	}
	if r := c.Resolution; r != nil {
		view.Resolution = &Resolution{Outcome: r.Outcome, Note: r.Note, By: orNull(names.of(r.By)), ByPerson: names.ref(r.By), At: r.At.UTC()}
	}
	return view
}

// callViews adds what calls do not hold themselves: names of people, deadlines, decisions.
func (a *API) callViews(ctx context.Context, calls []call.Call) (func(call.Call) Call, error) {
	return a.callViewsFor(ctx, callerOf(ctx).seesAll(), calls)
}

// callViewsFor likewise; decisions are for those who see all.
func (a *API) callViewsFor(ctx context.Context, seesAll bool, calls []call.Call) (func(call.Call) Call, error) {
	approvals, err := a.calls.ApprovalsOf(ctx, calls)
	if err != nil {
		return nil, err
	}
	var people []uuid.UUID
	deadlines := make(map[uuid.UUID]time.Time)
	for _, c := range calls {
		people = append(people, c.PrincipalID, approvals[c.ID].DecidedBy)
		if c.Resolution != nil {
			people = append(people, c.Resolution.By)
		}
		if c.Status == call.Parked {
			deadlines[c.ID] = approvals[c.ID].Deadline
		}
	}
	names, err := a.people(ctx, people...)
	if err != nil {
		return nil, err
	}
	if err := a.connectDeadlines(ctx, calls, deadlines); err != nil {
		return nil, err
	}
	return func(c call.Call) Call {
		view := newCall(c, names, deadlines)
		if found, ok := approvals[c.ID]; ok && seesAll {
			view.Decision = newDecision(found, names)
		}
		return view
	}, nil
}

func (a *API) callView(ctx context.Context, c call.Call) (*bodyOutput[Call], error) {
	view, err := a.callViews(ctx, []call.Call{c})
	if err != nil {
		return nil, err
	}
	answer := output(view(c))
	if callerOf(ctx).seesAll() {
		answer.Body.Request, err = outgoingOf(&c)
	}
	return answer, err
}

// people returns the names of people by id.
func (a *API) people(ctx context.Context, ids ...uuid.UUID) (personNames, error) {
	wanted := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if id != uuid.Nil {
			wanted = append(wanted, id)
		}
	}
	names := make(personNames, len(wanted))
	if len(wanted) == 0 {
		return names, nil
	}
	people, err := a.identity.People(ctx, wanted)
	if err != nil {
		return nil, err
	}
	var inviters []uuid.UUID
	list := make([]identity.Person, 0, len(people))
	for _, person := range people {
		list = append(list, person)
		if !person.Verified() {
			inviters = append(inviters, person.InvitedBy)
		}
	}
	alike, err := a.identity.Alike(ctx, list...)
	if err != nil {
		return nil, err
	}
	invited, err := a.identity.People(ctx, inviters)
	if err != nil {
		return nil, err
	}
	for id, person := range people {
		name := PersonName{ID: id, Name: person.Name, Issuer: person.Issuer, Subject: person.Subject, Alike: alike[id]}
		if !person.Verified() {
			name.InvitedBy = orNull(invited[person.InvitedBy].Name)
		}
		names[id] = name
	}
	return names, nil
}

// personNames are people by id.
type personNames map[uuid.UUID]PersonName

// of returns a name alone; "" for nobody.
func (n personNames) of(id uuid.UUID) string { return n[id].Name }

// ref returns who a person is; nil for nobody.
func (n personNames) ref(id uuid.UUID) *PersonName {
	name, ok := n[id]
	if !ok {
		return nil
	}
	return &name
}

// CallQuery is the part of a request that selects calls.
type CallQuery struct {
	Agent        string   `query:"agent" doc:"Only calls of the agent of this name or id; for those who see all, also of one that was deleted."`
	Skill        string   `query:"skill" doc:"Only calls of the skill of this name or id, also of one that was deleted."`
	Tool         string   `query:"tool" doc:"Only calls of the tool of this name: the skill's own, or the one that agents see."`
	Person       string   `query:"person" doc:"Only calls made on behalf of this person, or decided by them: a name, an e-mail address or an id. For reviewers and operators."`
	Status       []string `query:"status" enum:"needs_connection,parked,approved,executing,succeeded,failed,rejected,expired,cancelled,denied,invalid,unknown" doc:"Only calls that stand so; several are separated by commas."`
	From         string   `query:"from" doc:"Only calls made then or later: RFC 3339, or a day, or a day and a time in UTC."`
	To           string   `query:"to" doc:"Only calls made before then; a day counts as a whole."`
	Conversation string   `query:"conversation" format:"uuid" doc:"Only calls of this conversation."`
	Text         string   `query:"text" maxLength:"200" doc:"Only calls with this text in their arguments, in letters of whatever case: in the JSON as it is stored, or as it reads once its escapes are undone."`
}

type listCallsInput struct {
	Page
	CallQuery
}

func (a *API) listCalls(ctx context.Context, input *listCallsInput) (*listOutput[Call], error) {
	before, err := input.idCursor()
	if err != nil {
		return nil, err
	}
	filter, err := a.callFilter(ctx, input.CallQuery)
	if err != nil {
		return nil, err
	}
	filter.Before, filter.Limit = before, input.Limit
	found, err := a.calls.Search(ctx, filter)
	if err != nil {
		return nil, err
	}
	view, err := a.callViews(ctx, found.Calls)
	if err != nil {
		return nil, err
	}
	return listOf(found.Calls, cursorOf(found.Next), view), nil
}

// callFilter reads a query as the caller may ask it.
func (a *API) callFilter(ctx context.Context, q CallQuery) (call.Filter, error) {
	words := call.Query{
		Skill: q.Skill, Tool: q.Tool, Person: q.Person, Statuses: q.Status, From: q.From, To: q.To,
		Conversation: q.Conversation, Text: q.Text,
	}
	if callerOf(ctx).seesAll() {
		words.Agent = q.Agent
		filter, err := a.calls.Parse(ctx, words, a.identity.Named)
		return filter, queryProblem(err)
	}
	viewer, err := a.scope(ctx, q.Agent)
	if err != nil {
		return call.Filter{}, err
	}
	filter, err := a.calls.Parse(ctx, words, nil)
	filter.Viewer = viewer
	return filter, queryProblem(err)
}

// queryProblem says which parameters of a query are wrong.
func queryProblem(err error) error {
	wrong, ok := errors.AsType[*query.InvalidError](err)
	if !ok {
		return err
	}
	p := problem(http.StatusUnprocessableEntity, CodeInvalidRequest, "%s", wrong)
	for _, field := range wrong.Fields {
		p.Errors = append(p.Errors, ProblemField{Location: "query." + field.Field, Message: field.Expected})
	}
	return p
}

// scope is as whom a caller looks who sees only what is their own: with the one agent that they are or name.
func (a *API) scope(ctx context.Context, agentName string) (call.Viewer, error) {
	who := callerOf(ctx)
	if who.agent != nil {
		if agentName != "" && agentName != who.agent.Name {
			return call.Viewer{}, notFound("agent", agentName)
		}
		return who.viewerAs(who.agent.ID), nil
	}
	if agentName == "" {
		return call.Viewer{}, invalid("query.agent", "expected the name of an agent that you act as")
	}
	if !who.person.MayActAs(agentName) {
		return call.Viewer{}, notFound("agent", agentName)
	}
	found, err := a.agents.AgentByName(ctx, agentName)
	if err != nil {
		return call.Viewer{}, named(err, "agent", agentName)
	}
	return who.viewerAs(found.ID), nil
}

func (a *API) getCall(ctx context.Context, input *ByID) (*bodyOutput[Call], error) {
	found, _, err := a.visibleCall(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	return a.callView(ctx, found)
}

// visibleCall returns a call that the caller may see, and as whom they see it.
// To everybody else it does not exist.
func (a *API) visibleCall(ctx context.Context, text string) (call.Call, call.Viewer, error) {
	id, err := idOf("call", text)
	if err != nil {
		return call.Call{}, call.Viewer{}, err
	}
	who := callerOf(ctx)
	if who.agent != nil {
		viewer := who.viewerAs(who.agent.ID)
		found, err := a.calls.Get(ctx, viewer, id)
		return found, viewer, named(err, "call", text)
	}
	found, err := a.calls.Get(ctx, call.Viewer{}, id)
	if err != nil {
		return call.Call{}, call.Viewer{}, named(err, "call", text)
	}
	own := found.PrincipalID == who.personID() && who.person.MayActAs(found.Agent)
	switch {
	case own:
		return found, who.viewerAs(found.AgentID), nil
	case who.seesAll():
		return found, call.Viewer{}, nil
	}
	return call.Call{}, call.Viewer{}, notFound("call", text)
}

func (a *API) cancelCall(ctx context.Context, input *ByID) (*bodyOutput[Call], error) {
	found, viewer, err := a.visibleCall(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx)
	if all := viewer == (call.Viewer{}); all && !who.has(identity.Operator) {
		return nil, problem(http.StatusForbidden, CodeForbidden, "a call is cancelled by whoever made it, or by an operator")
	}
	cancelled, err := a.calls.Cancel(ctx, viewer, who.personID(), found.ID)
	if err != nil {
		return nil, a.stateProblem(ctx, found.ID, err)
	}
	return a.callView(ctx, cancelled)
}

type resolveInput struct {
	ByID
	Body struct {
		Outcome string `json:"outcome" enum:"succeeded,failed" doc:"What really became of the call."`
		Note    string `json:"note,omitempty" maxLength:"4000" doc:"How you know."`
	} `nameHint:"ResolveRequest"`
}

func (a *API) resolveCall(ctx context.Context, input *resolveInput) (*bodyOutput[Call], error) {
	id, err := idOf("call", input.ID)
	if err != nil {
		return nil, err
	}
	if err := storable("body.note", input.Body.Note); err != nil {
		return nil, err
	}
	resolved, err := a.calls.Resolve(ctx, id, call.Resolution{
		Outcome: input.Body.Outcome, Note: input.Body.Note, By: callerOf(ctx).personID(),
	})
	if err != nil {
		return nil, a.stateProblem(ctx, id, err)
	}
	return a.callView(ctx, resolved)
}

// stateProblem says in a conflict what state the call is in.
func (a *API) stateProblem(ctx context.Context, id uuid.UUID, err error) error {
	if !errors.Is(err, call.ErrState) {
		return named(err, "call", id.String())
	}
	found, getErr := a.calls.Get(ctx, call.Viewer{}, id)
	if getErr != nil {
		return err
	}
	if found.Resolution != nil {
		return problem(http.StatusConflict, CodeStateConflict, "the call is %s, and was resolved before", found.Status)
	}
	return problem(http.StatusConflict, CodeStateConflict, "the call is %s", found.Status)
}
