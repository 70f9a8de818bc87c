package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/batcher"
	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/errorline"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// idempotentSends bounds the attempts of a call of a tool that an operator declared idempotent.
const idempotentSends = 3

// outcome is a status with its details.
type outcome struct {
	status     Status
	code       string
	failure    tool.FailureKind
	effect     tool.Effect
	message    string
	result     json.RawMessage
	connect    *tool.Connect  // set if the server executed nothing because the skill is not connected
	retryAfter *time.Duration // the server's Retry-After; nil: none
}

// sendCall sends a claimed call and writes its outcome. Only the call's own timeout ends it.
func (s *Service) sendCall(c *Call, to target) {
	if s.flights.wasSent(c.ID) { // the database lost the outcome
		s.finishCall(c, outcome{status: Unknown, code: CodeOutcomeUnknown, effect: tool.EffectPossible, message: forgottenMessage}, true)
		return
	}
	began := s.Now()
	c.sentAt = began
	s.flights.markSending(c)
	o := s.sendOnce(c, to)
	executed := false // possibly, by an earlier attempt
	for sends := 1; to.skill.Tools[c.Tool].Idempotent && sends < idempotentSends; sends++ {
		wait, ok := o.nextSend(sends, began.Add(to.skill.CallTimeout).Sub(s.Now()))
		if !ok || pause.For(s.running, wait) != nil {
			break
		}
		s.Logger.Info("sending an idempotent call again", "call", c.ID, "attempt", sends+1, "error", o.message)
		executed = executed || o.effect == tool.EffectPossible
		before := o
		if o = s.sendOnce(c, to); o.status == Expired || o.status == Denied {
			o = before // it was sent before the approval lapsed, or the grant was revoked
			break
		}
	}
	if executed && o.status != Succeeded { // the last answer says nothing about earlier attempts
		o.effect, o.connect = tool.EffectPossible, nil
	}
	if o.connect != nil { // the server demands a connection
		suspended, err := s.suspendCall(s.running, c, connectWait{o.connect.Reason, to.skill.ApprovalTimeout, o.connect.Partial})
		if err != nil {
			s.Logger.Error("a call cannot wait for a connection", "call", c.ID, "error", err)
		}
		if suspended {
			s.flights.forgetRefused(c.ID)
			s.hub.wake(c.ID, nil) // waiters that saw the flight read the call again
			return
		}
	}
	// Another process may have waiters of a call that is gated or keyed, or that took long.
	s.finishCall(c, o, c.Gated || c.awaited || s.Now().Sub(began) > announceAfter)
}

// nextSend returns the pause before an idempotent call is sent again after some attempts, and whether it is. It is after a transport
// failure, and after a Retry-After that ends before the call's timeout.
func (o *outcome) nextSend(sends int, left time.Duration) (time.Duration, bool) {
	if o.connect == nil && o.failure == tool.TransportFailure {
		return time.Duration(sends) * retryDelay, true
	}
	if o.retryAfter == nil {
		return 0, false
	}
	return *o.retryAfter, *o.retryAfter < left
}

// announceAfter is less than the time after which the agents' endpoint answers with a handle of the call.
const announceAfter = 200 * time.Millisecond

// sendOnce sends a call through the source of its skill.
func (s *Service) sendOnce(c *Call, to target) (o outcome) {
	defer func() {
		// After a panic the call has an outcome too: it may have been executed.
		if cause := recover(); cause != nil {
			s.Logger.Error("sending a call panicked", "call", c.ID, "cause", cause, "stack", string(debug.Stack()))
			o = failedOutcome(&tool.Failure{
				Kind: tool.ProtocolFailure, Effect: tool.EffectPossible, Message: "the answer could not be handled",
			})
		}
	}()
	source, err := s.Discovery.Source(to.server.Transport)
	if err != nil {
		return failedOutcome(&tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: err.Error()})
	}
	ctx := c.trace.In(s.running)
	caller, done := s.openRelay(c, to.skill)
	defer done()
	if caller.Headers, err = s.IdentityHeaders(ctx, to.skill, c.AgentID, c.ID, c.PrincipalID); err != nil {
		s.Logger.Error("making identity headers", "call", c.ID, "error", err)
		return failedOutcome(&tool.Failure{
			Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "the skill's server could not be told who the call is made for", Err: err,
		})
	}
	result, err := source.Call(ctx, to.server, tool.CallRequest{
		CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Definition: &to.definition, Timeout: to.skill.CallTimeout, Caller: caller,
		Confirm: func(ctx context.Context) error { return s.confirmClaim(ctx, c) },
	})
	if errors.Is(err, errApprovalLapsed) {
		return lapsedOutcome()
	}
	if errors.Is(err, errGrantRevoked) {
		return revokedOutcome()
	}
	if err != nil {
		var failure *tool.Failure
		if !errors.As(err, &failure) {
			failure = &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "sending broke off", Err: err}
		}
		s.Logger.Info("call failed", "call", c.ID, "skill", c.Skill, "tool", c.Tool,
			"kind", failure.Kind, "effect", failure.Effect, "message", failure.Message, "error", failure.Err)
		c.addExchange(&failure.Exchange)
		return failedOutcome(failure)
	}
	c.addExchange(&result.Exchange)
	return s.checkResult(c, to.definition, result)
}

// IdentityHeaders returns the headers that name the agent and the principal of a request, if the skill has them enabled. call is
// uuid.Nil for other requests than calls.
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

// checkResult validates a result against the tool's output schema, and returns the outcome.
func (s *Service) checkResult(c *Call, definition tool.Definition, result tool.Result) outcome {
	if result.IsError {
		return outcome{
			status: Failed, code: string(tool.ToolError), failure: tool.ToolError,
			effect: cmp.Or(result.Effect, tool.EffectNone), message: "the tool reported an error", result: result.Raw,
			retryAfter: result.RetryAfter,
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
	schemas, err := s.schemas.getSchemas(definition)
	if err != nil {
		return "the tool's outputSchema cannot be used: " + err.Error()
	}
	var result struct { // jsonv2 compares names exactly and refuses duplicates
		StructuredContent jsontext.Value `json:"structuredContent"`
	}
	if err := jsonv2.Unmarshal(raw, &result, jsontext.AllowInvalidUTF8(true)); err != nil {
		return "the result is not a JSON object without duplicate names"
	}
	ctx := context.WithoutCancel(s.running) // validate even if the process is stopping
	problems, err := s.schemas.runValidation(ctx, func() ([]tool.Problem, error) {
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

func failedOutcome(f *tool.Failure) outcome {
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

// finishCall writes the outcome of a call that this instance claimed, by compare-and-set on the claim, and wakes its waiters. It
// retries until the database has stored the outcome. If the claim is gone, it stores a late outcome.
func (s *Service) finishCall(c *Call, o outcome, announce bool) {
	m := &move{event: onFinish, id: c.ID, agentID: c.AgentID, call: c, outcome: o, localOnly: !announce}
	if o.status == Failed {
		failure := errorline.Failure{Kind: o.failure, Message: o.message, Result: o.result, Arguments: c.Arguments}
		if c.Measures != nil {
			failure.HTTPStatus = c.Measures.HTTPStatus
		}
		m.errorLine = errorline.Describe(&failure)
	}
	if o.failure != "" {
		m.data = map[string]any{"failure": o.failure, "effect": o.effect}
	}
	if o.status == Denied {
		m.data = map[string]any{"code": o.code, "grant": c.GrantID}
	}
	began := s.Now()
	if s.outcomes.Do(m) != nil {
		return // the process is stopping; another one marks the call unknown
	}
	s.traceStep(c, "log outcome", began, s.Now())
	s.flights.done(c.ID) // before waking, because a waiter that sees the flight waits to be woken
	if !m.made {
		s.hub.wake(c.ID, nil)
		return
	}
	s.announceMoves(s.running, m)
}

// outcomesConfig configures the batcher that writes outcomes.
func (s *Service) outcomesConfig() batcher.Config[move] {
	return batcher.Config[move]{
		Write: s.writeOutcomes, Leaders: 4, Now: s.Now,
		Retry: func(m *move, err error, _ time.Duration) bool {
			s.Logger.Error("writing an outcome failed; trying again", "call", m.id, "status", m.status, "error", err)
			if isDataError(err) { // store the rest of the outcome without the result
				m.result, m.message, m.errorLine = nil, "the result could not be stored", ""
			}
			return true
		},
		Size: func(m *move) int { return len(m.result) + len(m.message) },
	}
}

// writeOutcomes writes outcomes in one round trip: a pipelined, implicit transaction.
func (s *Service) writeOutcomes(ctx context.Context, moves []*move) error {
	batch := &pgx.Batch{}
	if s.AsyncOutcomes && !slices.ContainsFunc(moves, func(m *move) bool { return m.call.Gated || m.call.awaited }) {
		batch.Queue(`SELECT set_config('synchronous_commit', 'off', true)`)
	}
	if err := s.queueMoves(batch, moves...); err != nil {
		return err
	}
	queueReturned(batch, moves)
	failpoint.Hit(failpoint.FinishBeforeCommit)
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("write outcomes: %w", err)
	}
	failpoint.Hit(failpoint.FinishAfterCommit)
	for _, m := range moves {
		if m.made {
			continue
		}
		if err := s.keepLateOutcome(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// keepLateOutcome stores an outcome that arrived after the call had become unknown. If the call's content was deleted meanwhile, it stores
// no message and no result. It also finds out whether an earlier attempt, whose answer was lost, had written the outcome.
func (s *Service) keepLateOutcome(ctx context.Context, m *move) error {
	late := map[string]any{"status": m.status, "code": m.code, "effect": m.effect}
	bare, err := json.Marshal(late)
	if err != nil {
		return fmt.Errorf("encode late outcome of call %s: %w", m.id, err)
	}
	late["message"], late["result"] = nullableText(m.message), string(m.result)
	whole, err := json.Marshal(late)
	if err != nil {
		return fmt.Errorf("encode late outcome of call %s: %w", m.id, err)
	}
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE calls SET late = CASE WHEN content_deleted_at IS NULL THEN $2::json ELSE $3::json END
			WHERE id = $1 AND status = 'unknown' AND late IS NULL`, m.id, string(whole), string(bare))
		if err != nil {
			return fmt.Errorf("keep late outcome of call %s: %w", m.id, err)
		}
		if tag.RowsAffected() == 0 {
			return tx.QueryRow(ctx, `SELECT status = $2 FROM calls WHERE id = $1`, m.id, m.status).Scan(&m.made)
		}
		s.Logger.Warn("an outcome arrived after the call had become unknown; kept as evidence", "call", m.id, "status", m.status)
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: audit.CallLateOutcome, Subject: m.id, Data: map[string]any{"status": m.status},
		})
	})
}
