package mcpserver

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// AuthZEN 1.0: a gateway asks for the decision about a call. Its request is named by X-Request-ID, so a lost answer can be asked for again.

const (
	authzenEvaluation = "/access/v1/evaluation"
	authzenRequests   = "/access/v1/requests"
	authzenRequestID  = "X-Request-ID"
)

// mountAuthZEN adds the routes for gateways that ask over HTTP.
func (s *Server) mountAuthZEN(mux *http.ServeMux) {
	mux.HandleFunc("GET /.well-known/authzen-configuration", s.serveAuthZENConfiguration)
	mux.HandleFunc("POST "+authzenEvaluation, s.authzenHandler((*authzenExchange).evaluateRequest))
	if s.AccessRequests {
		mux.HandleFunc("POST "+authzenRequests, s.authzenHandler((*authzenExchange).submitRequest))
		mux.HandleFunc("GET "+authzenRequests+"/{id}", s.authzenHandler((*authzenExchange).readTask))
		mux.HandleFunc("POST "+authzenRequests+"/{id}/cancel", s.authzenHandler((*authzenExchange).cancelTask))
	}
	mux.HandleFunc("/ext-authz/{skill}/{path...}", s.serveExtAuthz)
}

// serveAuthZENConfiguration serves the metadata of the policy decision point.
func (s *Server) serveAuthZENConfiguration(w http.ResponseWriter, r *http.Request) {
	document := map[string]any{"policy_decision_point": s.PublicURL, "access_evaluation_endpoint": s.PublicURL + authzenEvaluation}
	if s.AccessRequests {
		document["access_request_endpoint"] = s.PublicURL + authzenRequests
		document["capabilities"] = []string{"urn:openid:authzen:capability:access-request"}
	}
	(&gateExchange{s.newExchange(w, r)}).writeBody(http.StatusOK, "application/json", marshal(document))
}

// authzenExchange is a request of a gateway.
type authzenExchange struct{ *gateExchange }

// authzenHandler identifies the gateway. Errors that are no decision are answered as problems.
func (s *Server) authzenHandler(serve func(*authzenExchange) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &authzenExchange{&gateExchange{s.newExchange(w, r)}}
		if id := r.Header.Get(authzenRequestID); id != "" {
			w.Header().Set(authzenRequestID, id)
		}
		err := func() (err error) {
			defer recoverGateway(&err)
			if !s.originAllowed(r) {
				return refuseRequest("requests of this origin are not allowed")
			}
			key, _, _ := readCredential(r.Header)
			ctx, who, err := s.identifyGateway(r.Context(), key)
			if err != nil {
				return err
			}
			x.caller, x.r = who, r.WithContext(ctx)
			return serve(x)
		}()
		profile, ofProfile := errors.AsType[*accessProblem](err)
		switch {
		case err == nil:
		case ofProfile:
			x.writeBody(profile.status, "application/problem+json", marshal(map[string]any{
				"type": "urn:openid:authzen:access-request:error:" + profile.name, "title": http.StatusText(profile.status), "status": profile.status, "detail": profile.detail,
			}))
		case x.HasBegun:
			panic(http.ErrAbortHandler)
		case errors.Is(err, agent.ErrUnauthenticated):
			w.Header().Set("WWW-Authenticate", "Bearer")
			x.answerProblem(&gateProblem{http.StatusUnauthorized, codeInvalidRequest, "a key of the gateway's agent is required"})
		default:
			x.answerProblem(err)
		}
	}
}

// evaluation is the body of a question.
type evaluation struct {
	Subject struct {
		Type       string `json:"type"`
		ID         string `json:"id"`
		Properties struct {
			Email any `json:"email"`
		} `json:"properties"`
	} `json:"subject"`
	Action struct {
		Name       string         `json:"name"`
		Properties jsontext.Value `json:"properties"`
	} `json:"action"`
	Resource struct {
		Type       string         `json:"type"`
		ID         string         `json:"id"`
		Properties jsontext.Value `json:"properties"`
	} `json:"resource"`
	Context struct {
		Arguments jsontext.Value `json:"arguments"`
		Approval  struct {
			ID string `json:"id"`
		} `json:"approval"`
	} `json:"context"`
	Denial struct { // of an access request
		EvaluationID string    `json:"evaluation_id"`
		ExpiresAt    time.Time `json:"expires_at"`
	} `json:"denial"`
}

// readEvaluation reads a body with all members that AuthZEN requires.
func (x *authzenExchange) readEvaluation() (*evaluation, error) {
	e := &evaluation{}
	if err := x.readGateBody(x.MaxBody, e); err != nil {
		return nil, err
	}
	for _, member := range [][2]string{
		{"subject.type", e.Subject.Type},
		{"subject.id", e.Subject.ID},
		{"action.name", e.Action.Name},
		{"resource.type", e.Resource.Type},
		{"resource.id", e.Resource.ID},
	} {
		if member[1] == "" {
			return nil, &gateProblem{http.StatusBadRequest, codeInvalidRequest, member[0] + ": must be a text that is not empty"}
		}
	}
	return e, nil
}

// newAsk returns the question about a tool call. The error says why it cannot be judged.
func (x *authzenExchange) newAsk(e *evaluation) (*gateAsk, error) {
	switch {
	case e.Action.Name != "tools/call" || e.Resource.Type != "tool":
		return nil, invalidField("action.name and resource.type", "must be tools/call and tool, or another method of MCP and its resource")
	case len(e.Context.Arguments) == 0:
		return nil, invalidField("context.arguments", "must be the arguments of the call, such as $params.arguments")
	}
	if err := checkExactNumbers(e.Context.Arguments); err != nil {
		return nil, err
	}
	ask := &gateAsk{
		Skill: x.r.Header.Get(gatewaySkill), Tool: e.Resource.ID, Arguments: e.Context.Arguments, RequestID: x.r.Header.Get(authzenRequestID),
		subject: call.GateSubject{Type: e.Subject.Type, ID: e.Subject.ID},
	}
	ask.subject.Email, _ = e.Subject.Properties.Email.(string)
	ask.Context.Host = "AuthZEN gateway"
	properties := map[string]jsontext.Value{}
	for name, value := range map[string]jsontext.Value{"action": e.Action.Properties, "resource": e.Resource.Properties} {
		if len(value) > 0 {
			properties[name] = value
		}
	}
	if len(properties) > 0 { // the approval is bound to them, as they may name the server
		ask.Context.Cwd = string(marshal(properties))
	}
	return ask, nil
}

// otherMethods are the methods of MCP that gateways ask about besides tools/call. They pass.
func otherMethods() []string {
	return []string{
		"initialize", "ping", "server/discover", "logging/setLevel", "completion/complete", "tools/list", "resources/list", "resources/read",
		"resources/templates/list", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get", "subscriptions/listen",
		"tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update",
	}
}

// evaluateRequest answers a question with a decision.
func (x *authzenExchange) evaluateRequest() error {
	e, err := x.readEvaluation()
	if err != nil {
		return err
	}
	if e.Resource.Type != "tool" && slices.Contains(otherMethods(), e.Action.Name) {
		x.answerDecision(true, nil)
		return nil
	}
	ask, err := x.newAsk(e)
	details := map[string]any{}
	var p call.Passage
	if err == nil && x.AccessRequests && e.Context.Approval.ID != "" {
		var settled bool
		if settled, err = x.useApproval(ask, e.Context.Approval.ID, details); settled {
			return nil
		}
	}
	if err == nil {
		p, err = x.askForGateway(x.r.Context(), x.caller, ask)
	}
	if err != nil {
		problem := x.describeProblem(x.w.Header(), x.agent.Name, err)
		if problem.status >= http.StatusInternalServerError || problem.status == http.StatusTooManyRequests {
			return problem
		}
		x.answerDecision(false, map[string]any{"reason": problem.code, "message": problem.detail})
		return nil
	}
	x.answerEvaluation(&p, details)
	return nil
}

// answerEvaluation answers with a decision about a call.
func (x *authzenExchange) answerEvaluation(p *call.Passage, details map[string]any) {
	x.w.Header().Set(wire.HeaderCall, p.ID.String())
	if _, found := details["reason"]; !found {
		details["reason"] = p.Code
	}
	details["message"], details["evaluation_id"] = p.Message, p.ID
	switch {
	case p.Allowed:
		details = map[string]any{"evaluation_id": p.ID, "released_until": p.ReleasedUntil.UTC()}
	case p.Pending && !p.Deadline.IsZero() && x.AccessRequests:
		details["access_request"] = map[string]any{"endpoint": x.PublicURL + authzenRequests, "expires_at": p.Deadline.UTC()}
	}
	x.answerDecision(p.Allowed, details)
}

func (x *authzenExchange) answerDecision(allowed bool, details map[string]any) {
	answer := map[string]any{"decision": allowed}
	if details != nil {
		answer["context"] = details
	}
	x.writeBody(http.StatusOK, "application/json", marshal(answer))
}

// The access-request profile: a gateway follows the approval of a denied call as a task, and presents it with its next question. The task is
// the call, so submitting it again changes nothing.

// useApproval releases the call of an approval that a gateway presents. It reports true if it answered; else details says why the approval
// does not count, and the question is asked anew.
func (x *authzenExchange) useApproval(ask *gateAsk, approvalID string, details map[string]any) (bool, error) {
	ctx := x.r.Context()
	done, err := x.admitAsk(ctx, x.w.Header(), x.agent)
	if err != nil {
		return false, err
	}
	defer done()
	refuse := func(reason, next, message string, more map[string]any) (bool, error) {
		if more == nil {
			more = map[string]any{}
		}
		more["reason"], more["next_action"], more["message"] = reason, next, message
		x.answerDecision(false, more)
		return true, nil
	}
	sub, err := x.buildSubmission(ctx, x.caller, ask)
	if err != nil {
		return false, err
	}
	id, task, err := x.findTask(approvalID)
	if errors.Is(err, call.ErrNotFound) {
		return refuse("approval_unverifiable", "none", "The approval is unknown.", nil)
	}
	if err != nil {
		return false, err
	}
	if same, err := task.IsAbout(&sub); err != nil || !same {
		details["reason"], details["next_action"] = "out_of_scope", "request"
		return false, err
	}
	p, err := x.Calls.AwaitPassage(ctx, endedContext(ctx), x.viewer(), id, ask.RequestID)
	switch {
	case err != nil:
		return false, err
	case p.Allowed:
		x.w.Header().Set(wire.HeaderCall, id.String())
		x.answerDecision(true, map[string]any{"approval": map[string]any{"id": id, "approved_until": p.ReleasedUntil.UTC()}})
		return true, nil
	case p.Pending:
		return refuse("grant_pending", "retry", p.Message, map[string]any{"retry_after": 5})
	case p.Final && !task.Approved:
		x.noteDelivered(ctx, x.agent, &p)
		return refuse("policy_denied", "none", p.Message, nil)
	}
	x.noteDelivered(ctx, x.agent, &p)
	details["reason"], details["next_action"] = "approval_expired", "request"
	return false, nil
}

// findTask returns the task of a call. Error: call.ErrNotFound.
func (x *authzenExchange) findTask(text string) (uuid.UUID, *call.GateTask, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return id, nil, call.ErrNotFound
	}
	task, err := x.Calls.ReadGateTask(x.r.Context(), x.viewer(), id)
	return id, task, err
}

// accessProblem is a problem of the access-request profile.
type accessProblem struct {
	status int
	name   string
	detail string
}

func (p *accessProblem) Error() string { return p.detail }

// submitRequest answers with the task of a denied call.
func (x *authzenExchange) submitRequest() error {
	done, err := x.admitAsk(x.r.Context(), x.w.Header(), x.agent)
	if err != nil {
		return err
	}
	defer done()
	e, err := x.readEvaluation()
	if err != nil {
		return err
	}
	ask, err := x.newAsk(e)
	if err != nil {
		return &accessProblem{http.StatusBadRequest, "not_requestable", err.Error()}
	}
	if ask.RequestID = x.r.Header.Get("Idempotency-Key"); ask.RequestID != "" {
		ask.RequestID = "access-request:" + ask.RequestID // it names no evaluation
	}
	sub, err := x.buildSubmission(x.r.Context(), x.caller, ask)
	if err != nil {
		return err
	}
	id, task, err := x.findTask(e.Denial.EvaluationID)
	if errors.Is(err, call.ErrNotFound) {
		return &accessProblem{http.StatusBadRequest, "invalid_denial_binding", "denial.evaluation_id: must be that of a denied evaluation of this gateway"}
	}
	if err != nil {
		return err
	}
	switch same, err := task.IsAbout(&sub); {
	case err != nil:
		return err
	case !same:
		return &accessProblem{http.StatusBadRequest, "invalid_denial_binding", "subject, action, resource and context.arguments: must be those of the denied evaluation"}
	case !task.Pending && !task.Approved:
		return &accessProblem{http.StatusGone, "expired_denial", "the call was decided, or its deadline has passed: evaluate it again"}
	}
	if err := x.Calls.NameGateRequest(x.r.Context(), &sub, id); errors.Is(err, call.ErrKeyReused) {
		return &accessProblem{http.StatusConflict, "duplicate_request", "Idempotency-Key: must name one request only"}
	} else if err != nil {
		return err
	}
	return x.answerTask(http.StatusCreated, id, task)
}

// readTask answers with the state of a task.
func (x *authzenExchange) readTask() error {
	id, task, err := x.findTask(x.r.PathValue("id"))
	if err != nil {
		return unknownTask(err)
	}
	return x.answerTask(http.StatusOK, id, task)
}

func unknownTask(err error) error {
	if errors.Is(err, call.ErrNotFound) {
		return &accessProblem{http.StatusNotFound, "unknown_task", "there is no such task"}
	}
	return err
}

// cancelTask withdraws a call that is not decided.
func (x *authzenExchange) cancelTask() error {
	id, task, err := x.findTask(x.r.PathValue("id"))
	if err == nil && task.Pending {
		if err = x.Calls.RequestCancel(x.r.Context(), x.viewer(), id); err == nil {
			task, err = x.Calls.ReadGateTask(x.r.Context(), x.viewer(), id)
		}
	}
	if err != nil {
		return unknownTask(err)
	}
	if task.Status != call.Cancelled {
		return &accessProblem{http.StatusConflict, "invalid_task_state", "the task is " + taskStatus(task)}
	}
	return x.answerTask(http.StatusOK, id, task)
}

// taskStatus returns the status of a task in the profile.
func taskStatus(t *call.GateTask) string {
	switch {
	case t.Pending:
		return "pending"
	case t.Approved:
		return "approved"
	case t.Status == call.Expired:
		return "expired"
	case t.Status == call.Cancelled:
		return "cancelled"
	case t.Status == call.Unknown:
		return "failed"
	}
	return "denied"
}

func (x *authzenExchange) answerTask(status int, id uuid.UUID, t *call.GateTask) error {
	endpoint := x.PublicURL + authzenRequests + "/" + id.String()
	task := map[string]any{"id": id, "status": taskStatus(t), "status_endpoint": endpoint}
	if t.Pending {
		task["expires_at"], task["links"] = t.Deadline.UTC(), map[string]string{"cancel": endpoint + "/cancel"}
		x.w.Header().Set("Retry-After", "5")
	}
	answer := map[string]any{"task": task}
	if t.Approved {
		granted := map[string]any{"id": id}
		if t.DecidedAt != nil && t.ApprovedUntil != nil {
			granted["approved_at"], granted["approved_until"] = t.DecidedAt.UTC(), t.ApprovedUntil.UTC()
		}
		answer["result"] = map[string]any{"mode": "reevaluate", "approval": granted}
	}
	x.w.Header().Set("Location", endpoint)
	x.writeBody(status, "application/json", marshal(answer))
	return nil
}
