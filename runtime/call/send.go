package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// idempotentSends is how often a call of a tool that an operator declared idempotent is sent at most.
const idempotentSends = 3

// outcome is how a call that was claimed for sending ended.
type outcome struct {
	status  Status
	code    string
	failure tool.FailureKind
	effect  tool.Effect
	message string
	result  json.RawMessage
	connect *tool.Connect  // set when nothing was executed and somebody has to connect the skill first
	later   *time.Duration // set when the server asked to be left alone for so long
}

// send sends a claimed call and writes its outcome. It depends on no caller:
// only the call's own timeout ends it.
func (s *Service) send(c *Call, skill *agent.Skill, server tool.Server, definition tool.Definition) {
	if s.flights.wasSent(c.ID) { // the database lost what was committed since
		s.finish(c, outcome{status: Unknown, code: CodeOutcomeUnknown, effect: tool.EffectPossible, message: forgottenMessage}, true)
		return
	}
	s.flights.sending(c)
	began := s.Now()
	o := s.attempt(c, skill, server, definition)
	executed := false // by an earlier send, possibly
	for sends := 1; skill.Tools[c.Tool].Idempotent && sends < idempotentSends; sends++ {
		wait, ok := o.again(sends, began.Add(skill.CallTimeout).Sub(s.Now()))
		if !ok || pause.For(s.running, wait) != nil {
			break
		}
		s.Logger.Info("sending an idempotent call again", "call", c.ID, "attempt", sends+1, "error", o.message)
		executed = executed || o.effect == tool.EffectPossible
		before := o
		if o = s.attempt(c, skill, server, definition); o.status == Expired {
			o = before // it was sent before the approval lapsed
			break
		}
	}
	if executed && o.status != Succeeded { // what the last one says holds for the last one only
		o.effect, o.connect = tool.EffectPossible, nil
	}
	if o.connect != nil && s.suspendSent(c, skill, o) {
		return
	}
	// Others may wait in another process for what is gated, keyed, or took long enough to be asked for again.
	s.finish(c, o, c.Gated || c.awaited || s.Now().Sub(began) > announceAfter)
}

// again is how long to wait before a call that may be sent more than once, and was so often, is sent again: if it got no answer, or if the
// server said when to come back, and that is before the call's time is over.
func (o *outcome) again(sends int, left time.Duration) (time.Duration, bool) {
	if o.connect == nil && o.failure == tool.TransportFailure {
		return time.Duration(sends) * retryDelay, true
	}
	if o.later == nil {
		return 0, false
	}
	return *o.later, *o.later < left
}

// suspendSent makes a call wait whose server did not let it in. It reports false when it may not.
func (s *Service) suspendSent(c *Call, skill *agent.Skill, o outcome) bool {
	suspended, err := s.suspend(s.running, c, connectWait{o.connect.Reason, skill.ApprovalTimeout, o.connect.Partial})
	if err != nil {
		s.Logger.Error("a call cannot wait for a connection", "call", c.ID, "error", err)
	}
	if suspended {
		s.flights.refused(c.ID)
		s.hub.wake(c.ID, nil) // whoever relied on the flight looks again
	}
	return suspended
}

// announceAfter is less than the agents' endpoint lets pass before it tells of a call.
const announceAfter = 200 * time.Millisecond

func (s *Service) attempt(c *Call, skill *agent.Skill, server tool.Server, definition tool.Definition) (o outcome) {
	defer func() {
		// Whatever breaks after sending began, the call has an outcome: it may have been executed.
		if cause := recover(); cause != nil {
			s.Logger.Error("sending a call broke off", "call", c.ID, "cause", cause, "stack", string(debug.Stack()))
			o = failed(&tool.Failure{
				Kind: tool.ProtocolFailure, Effect: tool.EffectPossible, Message: "the answer could not be handled",
			})
		}
	}()
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return failed(&tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: err.Error()})
	}
	ctx := c.trace.In(s.running)
	caller, done := s.meet(c, skill)
	defer done()
	if caller.Headers, err = s.IdentityHeaders(ctx, skill, c.AgentID, c.ID, c.PrincipalID); err != nil {
		s.Logger.Error("a call cannot say who it is made for", "call", c.ID, "error", err)
		return failed(&tool.Failure{
			Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "the skill's server could not be told who the call is made for", Err: err,
		})
	}
	result, err := source.Call(ctx, server, tool.CallRequest{
		CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Definition: &definition, Timeout: skill.CallTimeout, Caller: caller,
		Confirm: func(ctx context.Context) error { return s.confirmClaim(ctx, c.ID) },
	})
	if errors.Is(err, errApprovalLapsed) {
		return approvalLapsed()
	}
	if err != nil {
		var failure *tool.Failure
		if !errors.As(err, &failure) {
			failure = &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "sending broke off", Err: err}
		}
		s.Logger.Info("call failed", "call", c.ID, "skill", c.Skill, "tool", c.Tool,
			"kind", failure.Kind, "effect", failure.Effect, "message", failure.Message, "error", failure.Err)
		c.exchanged(&failure.Exchange)
		return failed(failure)
	}
	c.exchanged(&result.Exchange)
	return s.accept(c, definition, result)
}

// IdentityHeaders are the headers by which a skill's server is told who a request is made for, if it is. Call is uuid.Nil in
// requests that are no call.
func (s *Service) IdentityHeaders(ctx context.Context, skill *agent.Skill, agentID, call, principal uuid.UUID) (map[string]string, error) {
	if !skill.IdentityHeaders.Enabled {
		return nil, nil
	}
	a, err := s.Agents.AgentByID(ctx, agentID)
	if err != nil {
		return nil, err
	}
	name, err := identity.PrincipalName(ctx, s.Pool, principal)
	if err != nil {
		return nil, err
	}
	return skill.IdentityHeaders.Of(a.Name, call, name), nil
}

// accept checks a result against the tool's output schema.
func (s *Service) accept(c *Call, definition tool.Definition, result tool.Result) outcome {
	if result.IsError {
		return outcome{
			status: Failed, code: string(tool.ToolError), failure: tool.ToolError,
			effect: cmp.Or(result.Effect, tool.EffectNone), message: "the tool reported an error", result: result.Raw,
			later: result.RetryAfter,
		}
	}
	if len(definition.OutputSchema) > 0 {
		if message := s.checkOutput(definition, result.Raw); message != "" {
			s.Logger.Info("result breaks the output schema", "call", c.ID, "skill", c.Skill, "tool", c.Tool)
			return outcome{
				status: Failed, code: string(tool.ProtocolFailure), failure: tool.ProtocolFailure,
				effect: tool.EffectPossible, message: message, result: result.Raw,
			}
		}
	}
	return outcome{status: Succeeded, result: result.Raw}
}

func (s *Service) checkOutput(definition tool.Definition, raw json.RawMessage) string {
	schemas, err := s.schemas.get(definition)
	if err != nil {
		return "the tool's outputSchema cannot be used: " + err.Error()
	}
	var result struct { // names count to the letter, and none may stand twice
		StructuredContent jsontext.Value `json:"structuredContent"`
	}
	if err := jsonv2.Unmarshal(raw, &result, jsontext.AllowInvalidUTF8(true)); err != nil {
		return "the result is not a JSON object without duplicate names"
	}
	ctx := context.WithoutCancel(s.running) // the call was sent: its result is checked even if the process stops
	problems, err := s.schemas.validate(ctx, func() ([]tool.Problem, error) {
		return schemas.ValidateOutput(ctx, json.RawMessage(result.StructuredContent))
	})
	switch {
	case err != nil:
		return "the result cannot be checked against the tool's outputSchema: it is " + err.Error()
	case len(problems) > 0:
		return "the result breaks the tool's outputSchema: " + listProblems(problems)
	}
	return ""
}

func failed(f *tool.Failure) outcome {
	o := outcome{status: Failed, code: string(f.Kind), failure: f.Kind, effect: f.Effect, message: f.Message, result: f.Raw}
	o.connect = f.Connect
	if f.Kind == tool.JSONRPCError {
		o.result = f.RPC
	}
	if f.Cancelled {
		o.code = CodeTaskCancelled
	}
	return o
}
