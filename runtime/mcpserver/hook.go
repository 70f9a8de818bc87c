package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// Claude Code can ask over HTTP before it runs one of its tools. It takes every answer but an explicit one with the status 200 for consent,
// so there is no other one, also for callers that are not identified.

const (
	defaultHookWait = 540 // seconds: Claude Code's default timeout is 600
	maxHookWait     = 23 * 3600
)

// hookExchange is a message of a host.
type hookExchange struct {
	*gateExchange
	hook *host.Hook

	key       waiterKey // by which an MCP client cancels the request
	isDropped bool      // the client cancelled the request while its call waited
}

func (s *Server) serveClaudeCodeHook(w http.ResponseWriter, r *http.Request) {
	x := &hookExchange{gateExchange: &gateExchange{s.newExchange(w, r)}, hook: host.FindHook(host.ClaudeCode)}
	x.writeBody(http.StatusOK, "application/json", x.hook.Answer(x.decideSafely(x.decideMessage)))
}

// decideSafely returns a decision whatever happens: errors and panics refuse the call.
func (x *hookExchange) decideSafely(decide func() (host.Verdict, error)) (v host.Verdict) {
	defer func() {
		if cause := recover(); cause != nil {
			id := x.logFailure("hook", fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
			v = host.Verdict{Reason: host.NotRun("internal error " + id)}
		}
	}()
	v, err := decide()
	if err != nil {
		v = host.Verdict{Reason: host.NotRun(x.describeProblem(x.w.Header(), x.r.PathValue("agent"), err).detail)}
	}
	return v
}

// decideMessage identifies the caller, reads its message, and asks the gate. An error refuses the call.
func (x *hookExchange) decideMessage() (host.Verdict, error) {
	if !x.originAllowed(x.r) {
		return host.Verdict{}, &gateProblem{http.StatusForbidden, codeInvalidRequest, "requests of this origin are not allowed"}
	}
	who, err := (&login{&x.response}).identifyCaller()
	if errors.Is(err, agent.ErrUnauthenticated) {
		if _, _, presented := readCredential(x.r.Header); presented {
			x.Failures.Refuse(x.r.Context(), authfail.Endpoint)
		}
		return host.Verdict{}, &gateProblem{http.StatusUnauthorized, codeInvalidRequest, callerWanted}
	}
	if err != nil {
		return host.Verdict{}, err
	}
	x.caller = who
	x.r = x.r.WithContext(audit.WithCredential(x.r.Context(), who.auditActor(), who.credential))
	return x.decideEvent(func() (host.Event, error) {
		text, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.MaxBody))
		if err != nil {
			return host.Event{}, fmt.Errorf("the host's message: must be complete and have at most %d bytes", x.MaxBody)
		}
		return x.hook.Read(text, false)
	})
}

// decideEvent reads a message within the agent's limits, and asks the gate.
func (x *hookExchange) decideEvent(read func() (host.Event, error)) (host.Verdict, error) {
	done, err := x.admitAsk(x.r.Context(), x.w.Header(), x.agent)
	if err != nil {
		return host.Verdict{}, err
	}
	defer done()
	event, err := read()
	if err != nil {
		return host.Verdict{}, &gateProblem{http.StatusBadRequest, codeInvalidRequest, err.Error()}
	}
	if event.After {
		x.reportOutcome(&event)
		return host.Verdict{After: true}, nil
	}
	return x.awaitDecision(&event)
}

// awaitDecision asks the gate, and waits as long as the query says.
func (x *hookExchange) awaitDecision(event *host.Event) (host.Verdict, error) {
	query := x.r.URL.Query()
	seconds := defaultHookWait
	if text := query.Get("wait"); text != "" {
		var err error
		if seconds, err = strconv.Atoi(text); err != nil || seconds < 1 || seconds > maxHookWait {
			return host.Verdict{}, invalidField("wait", "must be between 1 and %d seconds", maxHookWait)
		}
	}
	ask := gateAsk{Skill: host.ClaudeCode, Tool: event.Tool, Arguments: []byte(event.Arguments), RequestID: uuid.NewString()}
	if skill := query.Get("skill"); skill != "" {
		ask.Skill = skill
	}
	ask.Context.Host, ask.Context.SessionID, ask.Context.Cwd, ask.Context.Subagent = host.ClaudeCode, event.SessionID, event.Cwd, event.Subagent
	wait, cancel := x.beginGateWait(seconds, x.key)
	defer cancel()
	ctx := context.WithoutCancel(x.r.Context()) // the call's id is known also if the host leaves
	passage, err := x.submitAsk(ctx, wait, x.caller, &ask)
	x.isDropped = errors.Is(context.Cause(wait), errDropped)
	if err == nil && (x.isDropped || x.r.Context().Err() != nil) { // the host was killed, or gave up
		switch {
		case passage.Pending:
			err = x.Calls.LeaveGate(ctx, x.viewer(), passage.ID, ask.RequestID)
		case passage.Allowed:
			err = x.Calls.ReportOutcome(ctx, x.viewer(), passage.ID, ask.RequestID, call.Report{Outcome: call.ReportedNotRun})
		}
	}
	switch {
	case err != nil:
		return host.Verdict{}, err
	case passage.Allowed:
		if err := x.Calls.NameHostCall(ctx, x.viewer(), passage.ID, x.nameHostCall(event, event.SessionID)); err != nil { // the outcome will be unknown
			x.Logger.Warn("record the host's name of a call", "agent", x.agent.Name, "call_id", passage.ID, "error", err)
		}
		return host.Verdict{Allow: true, Reason: passage.Message}, nil
	case passage.Pending:
		return host.Verdict{Reason: host.ComeBack(passage.ID.String(), passage.Deadline)}, nil
	}
	x.noteDelivered(ctx, x.agent, &passage)
	return host.Verdict{Reason: passage.Message}, nil
}

const maxHookOutcome = 16 << 10

// nameHostCall names a call as its host does. A permission tool is not told Claude Code's session: the connection's stands for it.
func (x *hookExchange) nameHostCall(event *host.Event, session string) call.HostCall {
	if session == "" && x.key.conversation != uuid.Nil {
		session = x.key.conversation.String()
	}
	return call.HostCall{Session: session, ID: event.CallID, Tool: event.Tool}
}

// reportOutcome stores the outcome of a tool that has ended. A call that passed before the hook was installed is not known.
func (x *hookExchange) reportOutcome(event *host.Event) {
	report := call.Report{Outcome: call.ReportedSucceeded}
	if event.Failed {
		report.Outcome = call.ReportedFailed
	}
	report.Text, _ = plain.Page(event.Output, 1, maxHookOutcome)
	ctx := context.WithoutCancel(x.r.Context())
	err := x.Calls.ReportHostCall(ctx, x.viewer(), x.nameHostCall(event, event.SessionID), report)
	if errors.Is(err, call.ErrNotFound) {
		err = x.Calls.ReportHostCall(ctx, x.viewer(), x.nameHostCall(event, ""), report)
	}
	if err != nil && !errors.Is(err, call.ErrNotFound) {
		x.Logger.Warn("report outcome of a hook", "agent", x.agent.Name, "error", err)
	}
}
