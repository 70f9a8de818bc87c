package review

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

type callHandlers struct {
	*rest.Directory

	calls   *call.Service
	history *history.Service
	log     *slog.Logger
}

// Call is one tools/call and everything that happened to it.
type Call struct {
	ID              uuid.UUID        `json:"id" format:"uuid"`
	Status          call.Status      `json:"status" enum:"needs_connection,parked,approved,executing,succeeded,failed,rejected,expired,cancelled,denied,invalid,unknown"`
	Code            *string          `json:"code" doc:"Why the call ended as it did; stable."`
	Failure         *string          `json:"failure" enum:"tool_error,jsonrpc_error,transport,protocol,session_invalid" doc:"For failed calls: the kind of failure."`
	Effect          *string          `json:"effect" enum:"none,possible" doc:"For failed and unknown calls: whether the call may have been executed."`
	Message         *string          `json:"message" doc:"A message about the outcome; of calls in needs_connection, about the missing connection."`
	Agent           string           `json:"agent"`
	Principal       *string          `json:"principal" doc:"The person on whose behalf the agent made the call; null with a bare agent key."`
	PrincipalPerson *rest.PersonName `json:"principal_person" doc:"The person's id, issuer, subject and name."`
	ConversationID  *uuid.UUID       `json:"conversation_id" format:"uuid"`
	Skill           string           `json:"skill"`
	Tool            string           `json:"tool" doc:"The skill's own name for the tool."`
	Name            string           `json:"name" doc:"The agent's name for the tool."`
	Gated           bool             `json:"gated" doc:"Whether it needed an approval."`
	Rules           []AppliedRule    `json:"rules" nullable:"false" doc:"Operators' rules that matched the call, or failed, when it was judged last. Empty for callers without access to approvals."`
	Arguments       json.RawMessage  `json:"arguments" doc:"The exact bytes that were or will be sent."`
	Submitted       json.RawMessage  `json:"submitted_arguments" doc:"As the agent submitted them, if a reviewer edited them, even while the edit waits for a second reviewer; otherwise null."`
	Files           []AttachedFile   `json:"files" nullable:"false" doc:"Attached when the call was made."`
	Result          json.RawMessage  `json:"result" doc:"Unchanged: a tool result, or the error object of a jsonrpc_error; null if there is none."`
	CreatedAt       time.Time        `json:"created_at"`
	FinishedAt      *time.Time       `json:"finished_at"`
	GrantID         *uuid.UUID       `json:"grant_id" format:"uuid" doc:"The grant that let the call pass; null: none, and for callers without access to approvals."`
	ContentDeleted  *time.Time       `json:"content_deleted_at" doc:"When arguments, edits, result and message were deleted by age, or because a person was erased: they are null then. Null: they were not."`
	Deadline        *time.Time       `json:"deadline" doc:"For parked calls: when the approval expires. For calls in needs_connection: when the wait for the connection ends."`
	Late            json.RawMessage  `json:"late" doc:"Evidence: an outcome that arrived after the status had become unknown."`
	Partial         bool             `json:"partial,omitempty" doc:"In lists: arguments or result are larger than 64 KiB and are omitted; get the call by its id."`
	Request         *rest.Outgoing   `json:"request" doc:"For HTTP APIs: the exact request that was or will be sent, with secrets masked. Null in lists, and for callers without access to approvals."`
	Resolution      *Resolution      `json:"resolution" doc:"An operator's finding about an unknown outcome."`
	Measures        *Measures        `json:"measures" doc:"Measurements of its execution; null: none, or it was not sent."`
	Decision        *rest.Decision   `json:"decision" doc:"The decision; null if there is none, and for callers without access to approvals."`
	Gate            *GateCaller      `json:"gate" doc:"Of a gate-only call, which Holdpoint releases and its caller executes: what the caller says about itself. Null: Holdpoint sends the call."`
}

// GateCaller is the caller that executes a gate-only call.
type GateCaller struct {
	Host      *string      `json:"host" doc:"The program that executes the call: the skill's host, or as the caller says; null: not known."`
	Cwd       *string      `json:"cwd" doc:"The directory in which it does, or the address that a gateway calls. The approval is bound to it. Null: not known, and in lists."`
	Paths     []string     `json:"paths" doc:"The files and folders that the call names, with all links followed, as the caller says. The approval is bound to them. Null: not known, and in lists."`
	File      *ChangedFile `json:"file" doc:"The file that the call would change, as the caller read it. The approval is bound to it. Null: none, not known, and in lists."`
	Subject   *string      `json:"subject" doc:"The person or program for which a gateway makes the call, as the gateway says. The approval is bound to it, and a person of this name may not decide. Null: not known."`
	SessionID *string      `json:"session_id"`
	Subagent  *string      `json:"subagent" doc:"Null: the main agent."`
	Version   *string      `json:"version" doc:"Of the host."`
}

// ChangedFile is a file as the caller of a gate-only call read it before it asked.
type ChangedFile struct {
	Path   string  `json:"path"`
	Exists bool    `json:"exists"`
	Size   int64   `json:"size" doc:"In bytes."`
	SHA256 *string `json:"sha256" doc:"In hexadecimal; null: not known."`
	Text   *string `json:"text" doc:"The whole content; null: it was not sent."`
}

func newGateCaller(c *call.Call) *GateCaller {
	if !c.GateOnly {
		return nil
	}
	origin := c.GateOrigin()
	var subject string
	if origin.Subject != nil {
		subject = origin.Subject.ID
	}
	claims := c.Binding()
	var file *ChangedFile
	if f := claims.File; f != nil {
		file = &ChangedFile{Path: f.Path, Exists: f.Exists, Size: f.Size, SHA256: rest.OrNull(f.SHA256), Text: f.Text}
	}
	return &GateCaller{
		Subject: rest.OrNull(subject), Paths: claims.Paths, File: file,
		Host: rest.OrNull(c.Host), Cwd: rest.OrNull(claims.Directory), SessionID: rest.OrNull(origin.Session),
		Subagent: rest.OrNull(origin.Subagent), Version: rest.OrNull(origin.Version),
	}
}

// AppliedRule is a rule that matched a call, or failed.
type AppliedRule struct {
	Name     string      `json:"name"`
	Revision int64       `json:"revision" doc:"The version of the rule that judged the call."`
	Effect   rule.Effect `json:"effect" enum:"allow,park,deny"`
	Mode     rule.Mode   `json:"mode" enum:"enforce,shadow" doc:"shadow: the rule had no effect."`
	Failure  *string     `json:"failure" doc:"Why the condition could not be evaluated, so that the rule parks the call; null: it holds."`
}

func appliedRules(applied []rule.Applied) []AppliedRule {
	views := make([]AppliedRule, len(applied))
	for i, a := range applied {
		views[i] = AppliedRule{a.Name, a.Revision, a.Effect, a.Mode, rest.OrNull(a.Failure)}
	}
	return views
}

// Measures are the measurements of a call's execution.
type Measures struct {
	HTTPStatus *int       `json:"http_status" doc:"The status of an HTTP API's response; otherwise null."`
	Sent       *int64     `json:"bytes_sent" doc:"The size of the request's body; over MCP, of the arguments. Null: no request was sent."`
	Received   *int64     `json:"bytes_received" doc:"The size of the response's body; over MCP, of the result."`
	Steps      []StepTime `json:"steps" nullable:"false" doc:"In order; steps that did not run are omitted."`
}

// StepTime is how long a step of a call took.
type StepTime struct {
	Step    string  `json:"step" enum:"validate,resolve,credentials,call,transform,log"`
	Seconds float64 `json:"seconds" doc:"To the microsecond; the sum if the call was sent more than once."`
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

// Resolution is an operator's finding about an unknown outcome.
type Resolution struct {
	Outcome string    `json:"outcome" enum:"succeeded,failed"`
	Note    string    `json:"note"`
	By      *string   `json:"by"`
	At      time.Time `json:"at"`

	ByPerson *rest.PersonName `json:"by_person" doc:"The person's id, issuer, subject and name."`
}

func newCall(c call.Call, names rest.PersonNames, deadlines map[uuid.UUID]time.Time) Call {
	view := Call{
		ID: c.ID, Status: c.Status, Code: rest.OrNull(c.Code), Failure: rest.OrNull(c.Failure), Effect: rest.OrNull(c.Effect),
		Message: rest.OrNull(c.Message), Agent: c.Agent, Principal: rest.OrNull(names.NameOf(c.PrincipalID)), PrincipalPerson: names.RefOf(c.PrincipalID),
		ConversationID: rest.IDOrNull(c.ConversationID), Skill: c.Skill, Tool: c.Tool, Name: c.ExposedName, Gated: c.Gated,
		Arguments: c.Arguments, Submitted: c.Submitted, Files: attachedFiles(c.Files), Result: c.Result, CreatedAt: c.CreatedAt.UTC(), FinishedAt: rest.UTCOrNull(c.FinishedAt),
		Late: c.Late, Partial: c.Partial, Measures: newMeasures(c.Measures), Rules: []AppliedRule{}, Gate: newGateCaller(&c),
	}
	if c.ContentDeletedAt != nil {
		view.Arguments, view.ContentDeleted = nil, rest.UTCOrNull(c.ContentDeletedAt)
	}
	if deadline, ok := deadlines[c.ID]; ok {
		view.Deadline = rest.UTCOrNull(&deadline)
	}
	if r := c.Resolution; r != nil {
		view.Resolution = &Resolution{Outcome: r.Outcome, Note: r.Note, By: rest.OrNull(names.NameOf(r.By)), ByPerson: names.RefOf(r.By), At: r.At.UTC()}
	}
	return view
}

// callViews returns a function that adds names of people, deadlines and decisions to calls.
func (h *callHandlers) callViews(ctx context.Context, calls []call.Call) (func(call.Call) Call, error) {
	return h.callViewsFor(ctx, rest.CallerOf(ctx).SeesAll(), calls)
}

// callViewsFor is callViews for a given right: decisions are only for people who see all calls.
func (h *callHandlers) callViewsFor(ctx context.Context, seesAll bool, calls []call.Call) (func(call.Call) Call, error) {
	approvals, err := h.calls.ReadApprovals(ctx, calls)
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
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	if err := h.connectDeadlines(ctx, calls, deadlines); err != nil {
		return nil, err
	}
	return func(c call.Call) Call {
		view := newCall(c, names, deadlines)
		if seesAll {
			view.Rules, view.GrantID = appliedRules(c.Rules), rest.IDOrNull(c.GrantID)
		}
		if found, ok := approvals[c.ID]; ok && seesAll {
			view.Decision = rest.NewDecision(found, names)
		}
		return view
	}, nil
}

func (h *callHandlers) callView(ctx context.Context, c call.Call) (*rest.Output[Call], error) {
	view, err := h.callViews(ctx, []call.Call{c})
	if err != nil {
		return nil, err
	}
	answer := rest.NewOutput(view(c))
	if rest.CallerOf(ctx).SeesAll() {
		answer.Body.Request, err = outgoingOf(&c)
	}
	return answer, err
}

// CallQuery is the part of a request that selects calls.
type CallQuery struct {
	Agent        string   `query:"agent" doc:"Only calls of the agent with this name or id; callers who see all calls can name a deleted one."`
	Skill        string   `query:"skill" doc:"Only calls of the skill with this name or id, even if it was deleted."`
	Tool         string   `query:"tool" doc:"Only calls of the tool with this name: the skill's own, or the agents' name."`
	Person       string   `query:"person" doc:"Only calls made on behalf of this person, or decided by them: a name, an e-mail address or an id. For reviewers and operators."`
	Status       []string `query:"status" enum:"needs_connection,parked,approved,executing,succeeded,failed,rejected,expired,cancelled,denied,invalid,unknown" doc:"Only calls with one of these statuses, separated by commas."`
	Decision     []string `query:"decision" enum:"approved,rejected,expired" doc:"Only calls whose approval ended like this, separated by commas."`
	Risk         []string `query:"risk" enum:"high,destructive,standard" doc:"Only calls of tools with one of these risks by their present settings, separated by commas."`
	From         string   `query:"from" doc:"Only calls made at or after this time: RFC 3339, or a day, or a day and a time in UTC."`
	To           string   `query:"to" doc:"Only calls made before this time; a day is included as a whole."`
	Conversation string   `query:"conversation" format:"uuid" doc:"Only calls of this conversation."`
	Grant        string   `query:"grant" format:"uuid" doc:"Only calls that this grant let pass. For reviewers and operators."`
	Text         string   `query:"text" maxLength:"200" doc:"Only calls with this text in the name of their tool, skill, agent, principal or decider, or in their arguments, ignoring case: in the stored JSON, or in the JSON with its escapes decoded. For agents, the names of people do not count."`
}

type listCallsInput struct {
	rest.Page
	CallQuery
}

func (h *callHandlers) listCalls(ctx context.Context, input *listCallsInput) (*rest.ListOutput[Call], error) {
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	filter, err := h.callFilter(ctx, input.CallQuery)
	if err != nil {
		return nil, err
	}
	filter.Before, filter.Limit = before, input.Limit
	found, err := h.history.Search(ctx, filter)
	if err != nil {
		return nil, err
	}
	view, err := h.callViews(ctx, found.Calls)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found.Calls, rest.CursorOf(found.Next), view), nil
}

// callFilter parses a query within the caller's rights.
func (h *callHandlers) callFilter(ctx context.Context, q CallQuery) (history.Filter, error) {
	words := history.Query{
		Skill: q.Skill, Tool: q.Tool, Person: q.Person, Statuses: q.Status, Decisions: q.Decision, Risks: q.Risk, From: q.From, To: q.To,
		Conversation: q.Conversation, Grant: q.Grant, Text: q.Text,
	}
	if rest.CallerOf(ctx).SeesAll() {
		words.Agent = q.Agent
		filter, err := h.history.ParseQuery(ctx, words, h.Identity)
		return filter, rest.InPart("query", err)
	}
	viewer, err := h.OwnViewer(ctx, q.Agent)
	if err != nil {
		return history.Filter{}, err
	}
	filter, err := h.history.ParseQuery(ctx, words, nil)
	filter.Viewer = viewer
	return filter, rest.InPart("query", err)
}

func (h *callHandlers) getCall(ctx context.Context, input *rest.ByID) (*rest.Output[Call], error) {
	found, _, err := h.visibleCall(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	return h.callView(ctx, found)
}

// visibleCall returns a call that the caller may see, and the caller as its viewer. To other callers it does not exist.
func (h *callHandlers) visibleCall(ctx context.Context, text string) (call.Call, call.Viewer, error) {
	id, err := rest.ParseID("call", text)
	if err != nil {
		return call.Call{}, call.Viewer{}, err
	}
	who := rest.CallerOf(ctx)
	if who.Agent != nil {
		viewer := who.ViewerAs(who.Agent.ID)
		found, err := h.calls.Get(ctx, viewer, id)
		return found, viewer, rest.WithName(err, "call", text)
	}
	found, err := h.calls.Get(ctx, call.Viewer{}, id)
	if err != nil {
		return call.Call{}, call.Viewer{}, rest.WithName(err, "call", text)
	}
	own := found.PrincipalID == who.PersonID() && who.Person.MayActAs(found.Agent)
	switch {
	case own:
		return found, who.ViewerAs(found.AgentID), nil
	case who.SeesAll():
		return found, call.Viewer{}, nil
	}
	return call.Call{}, call.Viewer{}, rest.NotFound("call", text)
}

func (h *callHandlers) cancelCall(ctx context.Context, input *rest.ByID) (*rest.Output[Call], error) {
	found, viewer, err := h.visibleCall(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	who := rest.CallerOf(ctx)
	if all := viewer == (call.Viewer{}); all && !who.HasRole(identity.Operator) {
		return nil, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "only the caller that made a call, or an operator, can cancel it")
	}
	cancelled, err := h.calls.Cancel(ctx, viewer, who.PersonID(), found.ID)
	if err != nil {
		return nil, h.stateProblem(ctx, found.ID, err)
	}
	return h.callView(ctx, cancelled)
}

type resolveInput struct {
	rest.ByID
	Body struct {
		Outcome string `json:"outcome" enum:"succeeded,failed" doc:"The real outcome of the call."`
		Note    string `json:"note,omitempty" maxLength:"4000" doc:"The evidence for it."`
	} `nameHint:"ResolveRequest"`
}

func (h *callHandlers) resolveCall(ctx context.Context, input *resolveInput) (*rest.Output[Call], error) {
	id, err := rest.ParseID("call", input.ID)
	if err != nil {
		return nil, err
	}
	if err := rest.CheckStorable("body.note", input.Body.Note); err != nil {
		return nil, err
	}
	resolved, err := h.calls.Resolve(ctx, id, call.Resolution{
		Outcome: input.Body.Outcome, Note: input.Body.Note, By: rest.CallerOf(ctx).PersonID(),
	})
	if err != nil {
		return nil, h.stateProblem(ctx, id, err)
	}
	return h.callView(ctx, resolved)
}

// stateProblem adds the call's state to a conflict.
func (h *callHandlers) stateProblem(ctx context.Context, id uuid.UUID, err error) error {
	if !errors.Is(err, call.ErrState) {
		return rest.WithName(err, "call", id.String())
	}
	found, getErr := h.calls.Get(ctx, call.Viewer{}, id)
	if getErr != nil {
		return err
	}
	if found.Resolution != nil {
		return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the call is %s, and was resolved before", found.Status)
	}
	return rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the call is %s", found.Status)
}

// connectDeadlines adds the deadlines of calls that wait for a connection.
func (h *callHandlers) connectDeadlines(ctx context.Context, calls []call.Call, into map[uuid.UUID]time.Time) error {
	var skills []uuid.UUID
	for _, c := range calls {
		if c.Status == call.NeedsConnection {
			skills = append(skills, c.SkillID)
		}
	}
	if len(skills) == 0 {
		return nil
	}
	waiting, err := rest.ListUnconnected(ctx, h.calls, skills)
	if err != nil {
		return err
	}
	for _, w := range waiting {
		into[w.Call.ID] = w.Deadline
	}
	return nil
}
