package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The gate of an agent decides about calls that its caller executes itself; see [call.Service.Gate]. It has the callers, credentials and
// limits of the MCP endpoint beside it.

// gateExchange is a request to the gate.
type gateExchange struct{ *exchange }

// Bounds on what callers say.
const (
	maxGateWait    = 55 // seconds: proxies often end silent responses after 60
	maxRequestName = 512
	maxOrigin      = 256
	maxReport      = 64 << 10
)

// The codes of problems.
const (
	codeInvalidRequest = "invalid_request"
	codeNotFound       = "not_found"
	codeGateKeyReused  = "key_reused"
	codeNotReleased    = "not_released"
	codeInternal       = "internal"
)

// mountGate adds the routes of the gates.
func (s *Server) mountGate(mux *http.ServeMux) {
	for pattern, serve := range map[string]func(*gateExchange) error{
		"POST /agents/{agent}/gate":              (*gateExchange).serveAsk,
		"GET /agents/{agent}/gate/{id}":          (*gateExchange).serveAwait,
		"POST /agents/{agent}/gate/{id}/outcome": (*gateExchange).serveOutcome,
		"POST /agents/{agent}/gate/{id}/leave":   (*gateExchange).serveLeave,
	} {
		mux.HandleFunc(pattern, s.guard(func(x *exchange) { (&gateExchange{x}).serve(serve) }))
	}
}

// serve serves a request within the agent's limits. Whatever goes wrong, the answer allows nothing.
func (x *gateExchange) serve(serve func(*gateExchange) error) {
	defer func() {
		switch cause := recover(); {
		case cause == nil:
		case cause == http.ErrAbortHandler || x.HasBegun: //nolint:errorlint // net/http compares it so
			panic(http.ErrAbortHandler)
		default:
			x.answerProblem(fmt.Errorf("panic: %v\n%s", cause, debug.Stack()))
		}
	}()
	done, err := x.admitAsk(x.r.Context(), x.w.Header(), x.agent)
	if err != nil {
		x.answerProblem(err)
		return
	}
	defer done()
	if err := serve(x); err != nil {
		x.answerProblem(err)
	}
}

// admitAsk counts a question against the agent's limits, and sets Retry-After in h if they refuse it. The caller must call done at the end.
func (s *Server) admitAsk(ctx context.Context, h http.Header, a *agent.Agent) (done func(), err error) {
	done, exceeded, err := s.takePlace(ctx, a, a.Limits.CallsPerMinute)
	if exceeded != nil {
		seconds := strconv.Itoa(max(1, int(math.Ceil(exceeded.RetryAfter.Seconds()))))
		h.Set("Retry-After", seconds)
		err = &gateProblem{http.StatusTooManyRequests, string(exceeded.Kind), exceeded.Error() + "; nothing was decided, try again in " + seconds + " s"}
	}
	return done, err
}

// gateProblem is an answer that is no decision (RFC 9457).
type gateProblem struct {
	status       int
	code, detail string
}

func (p *gateProblem) Error() string { return p.detail }

func invalidField(field, format string, args ...any) error {
	return &gateProblem{http.StatusUnprocessableEntity, codeInvalidRequest, field + ": " + fmt.Sprintf(format, args...)}
}

// answerProblem answers with a problem.
func (x *gateExchange) answerProblem(err error) {
	if x.r.Context().Err() != nil {
		x.noteClientLeft(err)
		return
	}
	p := x.describeProblem(x.w.Header(), x.r.PathValue("agent"), err)
	body := marshal(map[string]any{"title": http.StatusText(p.status), "status": p.status, "code": p.code, "detail": p.detail})
	x.writeBody(p.status, "application/problem+json", body)
}

// describeProblem returns the problem of an error, and sets Retry-After in h. Unexpected errors are logged.
func (s *Server) describeProblem(h http.Header, agentName string, err error) *gateProblem {
	p, ok := errors.AsType[*gateProblem](err)
	if guard := describeGuardProblem(err); guard != nil {
		p, ok = guard, true
	}
	full, isFull := errors.AsType[*call.PendingError](err)
	switch {
	case ok:
	case isFull:
		p = &gateProblem{http.StatusTooManyRequests, codePendingLimit, "this call was not made: " + full.Error()}
	case errors.Is(err, call.ErrKeyReused):
		p = &gateProblem{http.StatusConflict, codeGateKeyReused, "request_id: must name one call only: it was used with other arguments"}
	case errors.Is(err, call.ErrNotReleased):
		p = &gateProblem{http.StatusConflict, codeNotReleased, call.ErrNotReleased.Error()}
	case errors.Is(err, call.ErrNotFound):
		p = &gateProblem{http.StatusNotFound, codeNotFound, "there is no such call"}
	default:
		p = &gateProblem{0, codeInternal, "internal error " + s.logError(agentName, "gate", err)}
		if p.status = inbound.FailureStatus(h, err); p.status == http.StatusServiceUnavailable {
			p.code = codeUnavailable
		}
	}
	return p
}

func (x *gateExchange) writeBody(status int, media string, body []byte) {
	h := x.w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.HasBegun = true
	x.SetDeadline()
	x.w.WriteHeader(status)
	if _, err := x.w.Write(body); err != nil {
		x.noteClientLeft(err)
	}
}

// gateAsk is the body of a question.
type gateAsk struct {
	Skill     string         `json:"skill"`
	Tool      string         `json:"tool"`
	Arguments jsontext.Value `json:"arguments"`
	RequestID string         `json:"request_id"`
	Wait      int            `json:"wait"`
	Context   struct {
		Host      string         `json:"host"`
		SessionID string         `json:"session_id"`
		Cwd       string         `json:"cwd"`
		Paths     []string       `json:"paths"`
		File      *call.GateFile `json:"file"`
		Subagent  string         `json:"subagent"`
		Version   string         `json:"version"`
		Guard     string         `json:"guard"`
	} `json:"context"`

	// Of a gateway's question; see [call.GateRequest].
	subject    call.GateSubject
	takesEdits bool
}

// validate checks what the caller says about itself.
func (a *gateAsk) validate() error {
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"request_id", a.RequestID, maxRequestName},
		{"context.cwd", a.Context.Cwd, condition.MaxPath},
		{"context.host", a.Context.Host, maxOrigin},
		{"context.session_id", a.Context.SessionID, maxOrigin},
		{"context.subagent", a.Context.Subagent, maxOrigin},
		{"context.version", a.Context.Version, maxOrigin},
		{"subject.type", a.subject.Type, maxOrigin},
		{"subject.id", a.subject.ID, maxOrigin},
		{"subject.properties.email", a.subject.Email, maxOrigin},
	} {
		if f.value != plain.Storable(f.value, f.limit) {
			return invalidField(f.name, "must be at most %d bytes of UTF-8 without NUL", f.limit)
		}
	}
	if len(a.Context.Paths) > condition.MaxPaths {
		return invalidField("context.paths", "must have at most %d paths", condition.MaxPaths)
	}
	for i, path := range a.Context.Paths {
		if path == "" || path != plain.Storable(path, condition.MaxPath) {
			return invalidField(fmt.Sprintf("context.paths[%d]", i), "must be 1 to %d bytes of UTF-8 without NUL", condition.MaxPath)
		}
	}
	return validateFile(a.Context.File)
}

// validateFile checks the file that a call would change, as its caller read it.
func validateFile(f *call.GateFile) error {
	switch {
	case f == nil:
	case f.Path == "" || f.Path != plain.Storable(f.Path, condition.MaxPath):
		return invalidField("context.file.path", "must be 1 to %d bytes of UTF-8 without NUL", condition.MaxPath)
	case f.Size < 0:
		return invalidField("context.file.size", "must be 0 or greater")
	case f.SHA256 != "" && !hexSHA256.MatchString(f.SHA256):
		return invalidField("context.file.sha256", "must be a SHA-256 in lower-case hexadecimal")
	case !f.Exists && (f.Text != nil || f.Size > 0 || f.SHA256 != ""):
		return invalidField("context.file.exists", "must be true for a file with a text, a size or a SHA-256")
	case f.Text != nil && (*f.Text != plain.Storable(*f.Text, host.MaxFileText) || int64(len(*f.Text)) != f.Size):
		return invalidField("context.file.text", "must be the whole file: size bytes, at most %d, of UTF-8 without NUL", host.MaxFileText)
	}
	return nil
}

var hexSHA256 = regexp.MustCompile(`^[0-9a-f]{64}$`)

func checkWait(seconds int) error {
	if seconds < 0 || seconds > maxGateWait {
		return invalidField("wait", "must be between 0 and %d seconds", maxGateWait)
	}
	return nil
}

// readGateBody reads a JSON object without duplicate names. Unknown members are ignored.
func (x *gateExchange) readGateBody(limit int64, into any) error {
	if !wire.HasJSONBody(x.r.Header) {
		return &gateProblem{http.StatusUnsupportedMediaType, codeInvalidRequest, "Content-Type: must be application/json"}
	}
	if x.r.ContentLength > limit {
		x.w.Header().Set("Connection", "close")
		return &gateProblem{http.StatusRequestEntityTooLarge, codeInvalidRequest, fmt.Sprintf("the body: must have at most %d bytes", limit)}
	}
	err := jsonv2.UnmarshalRead(http.MaxBytesReader(x.w, x.r.Body, limit), into)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &gateProblem{http.StatusRequestEntityTooLarge, codeInvalidRequest, fmt.Sprintf("the body: must have at most %d bytes", limit)}
	case err != nil:
		return &gateProblem{http.StatusBadRequest, codeInvalidRequest, "the body: must be a JSON object of the documented form: " + plain.Visible(err.Error(), wire.MaxShown)}
	}
	return nil
}

// serveAsk submits a call and answers with the decision.
func (x *gateExchange) serveAsk() error {
	var ask gateAsk
	if err := x.readGateBody(x.MaxBody, &ask); err != nil {
		return err
	}
	if err := checkWait(ask.Wait); err != nil {
		return err
	}
	wait, cancel := x.beginGateWait(ask.Wait, waiterKey{})
	defer cancel()
	p, err := x.submitAsk(x.r.Context(), wait, x.caller, &ask)
	if err != nil {
		return err
	}
	x.answerPassage(&p)
	return nil
}

// submitAsk submits a call, and waits for the decision. It ends at the latest with wait.
func (s *Server) submitAsk(ctx, wait context.Context, who caller, ask *gateAsk) (call.Passage, error) {
	sub, err := s.buildSubmission(ctx, who, ask)
	if err != nil {
		return call.Passage{}, err
	}
	return s.Calls.Gate(ctx, wait, sub)
}

// buildSubmission returns the submission of a call.
func (s *Server) buildSubmission(ctx context.Context, who caller, ask *gateAsk) (sub call.Submission, err error) {
	if err := ask.validate(); err != nil {
		return sub, err
	}
	if len(ask.Arguments) == 0 {
		ask.Arguments = jsontext.Value("{}")
	}
	arguments, err := call.CleanArguments(ask.Arguments)
	if refused, ok := errors.AsType[*call.DoorError](err); ok {
		return sub, invalidField("arguments"+plain.Visible(refused.Pointer, wire.MaxShown), "%s", refused.Reason)
	}
	if err != nil {
		return sub, invalidField("arguments", "%s", err)
	}
	if id, err := uuid.Parse(ask.Context.Guard); err == nil && s.Guards != nil {
		s.Guards.NoteAsked(ctx, who.agent.ID, id)
	}
	entry, err := s.Catalog.FindGated(ctx, who.agent.ID, ask.Skill, ask.Tool)
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return sub, &gateProblem{http.StatusNotFound, codeNotFound, "skill and tool: must be a skill with transport gate that is assigned to this agent, and a tool that it may use"}
	case errors.Is(err, tool.ErrToolName):
		return sub, invalidField("tool", "%s", tool.ErrToolName)
	case errors.Is(err, tool.ErrTooManyTools):
		return sub, invalidField("tool", "must be one of the skill's tools: %s", tool.ErrTooManyTools)
	case err != nil:
		return sub, err
	}
	var subject *call.GateSubject
	if ask.subject != (call.GateSubject{}) {
		subject = &ask.subject
	}
	return call.Submission{
		Agent: who.agent, PrincipalID: who.principal, Entry: entry, Arguments: arguments,
		Gate: &call.GateRequest{
			Name: ask.RequestID, GateBinding: call.GateBinding{
				Directory: ask.Context.Cwd, Paths: ask.Context.Paths, File: ask.Context.File, TakesEdits: ask.takesEdits,
			},
			GateOrigin: call.GateOrigin{
				Host: ask.Context.Host, Session: ask.Context.SessionID, Subagent: ask.Context.Subagent, Version: ask.Context.Version, Subject: subject,
			},
		},
	}, nil
}

// serveAwait answers again about a call.
func (x *gateExchange) serveAwait() error {
	id, err := x.callID()
	if err != nil {
		return err
	}
	seconds, query := 0, x.r.URL.Query()
	if text := query.Get("wait"); text != "" {
		if seconds, err = strconv.Atoi(text); err != nil {
			seconds = -1
		}
	}
	if err := checkWait(seconds); err != nil {
		return err
	}
	wait, cancel := x.beginGateWait(seconds, waiterKey{})
	defer cancel()
	p, err := x.Calls.AwaitPassage(x.r.Context(), wait, x.viewer(), id, query.Get("request_id"))
	if err != nil {
		return err
	}
	x.answerPassage(&p)
	return nil
}

// serveOutcome takes the outcome of a released call.
func (x *gateExchange) serveOutcome() error {
	var report struct {
		RequestID string `json:"request_id"`
		Status    string `json:"status"`
		Text      string `json:"text"`
	}
	id, err := x.callID()
	if err == nil {
		err = x.readGateBody(maxReport, &report)
	}
	if err != nil {
		return err
	}
	switch report.Status {
	case call.ReportedSucceeded, call.ReportedFailed, call.ReportedNotRun:
	default:
		return invalidField("status", "must be %s, %s or %s", call.ReportedSucceeded, call.ReportedFailed, call.ReportedNotRun)
	}
	err = x.Calls.ReportOutcome(context.WithoutCancel(x.r.Context()), x.viewer(), id, report.RequestID, call.Report{Outcome: report.Status, Text: report.Text})
	if err == nil {
		x.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// serveLeave notes that the caller no longer waits.
func (x *gateExchange) serveLeave() error {
	var leave struct {
		RequestID string `json:"request_id"`
	}
	id, err := x.callID()
	if err == nil {
		err = x.readGateBody(maxReport, &leave)
	}
	if err == nil {
		err = x.Calls.LeaveGate(context.WithoutCancel(x.r.Context()), x.viewer(), id, leave.RequestID)
	}
	if err == nil {
		x.w.WriteHeader(http.StatusNoContent)
	}
	return err
}

func (x *gateExchange) callID() (uuid.UUID, error) {
	id, err := uuid.Parse(x.r.PathValue("id"))
	if err != nil {
		return uuid.Nil, call.ErrNotFound
	}
	return id, nil
}

// beginGateWait returns the time that a request may wait. It ends with the request, and when the process stops. A client that takes a stream gets
// signs of life meanwhile. A key allows the client to cancel the request.
func (x *gateExchange) beginGateWait(seconds int, key waiterKey) (context.Context, func()) {
	limit, now := time.Duration(seconds)*time.Second, x.Now()
	timed, stop := context.WithTimeout(x.r.Context(), limit)
	ctx, cancel := context.WithCancelCause(timed)
	w := &wait{
		x: &toolCall{x.exchange}, key: key, attends: waiting{status: call.Parked, gated: true}, began: now, ends: now.Add(limit), late: errBudget, cancel: cancel,
	}
	w.beginWait()
	return ctx, func() {
		w.endWait()
		stop()
	}
}

// gateAnswer is a decision.
type gateAnswer struct {
	ID            string     `json:"id"`
	Decision      string     `json:"decision"`
	Code          string     `json:"code"`
	Message       string     `json:"message"`
	Deadline      *time.Time `json:"deadline,omitempty"`
	ReleasedUntil *time.Time `json:"released_until,omitempty"`
}

// answerPassage answers with a decision. The end of a call counts as delivered then.
func (x *gateExchange) answerPassage(p *call.Passage) {
	answer := gateAnswer{ID: p.ID.String(), Decision: "deny", Code: p.Code, Message: p.Message}
	switch {
	case p.Allowed:
		answer.Decision, answer.ReleasedUntil = "allow", new(p.ReleasedUntil.UTC())
	case p.Pending:
		if answer.Decision = "pending"; !p.Deadline.IsZero() {
			answer.Deadline = new(p.Deadline.UTC())
		}
		if p.Alone {
			answer.Message += nobodyDecides
		}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		x.answerProblem(err)
		return
	}
	x.w.Header().Set(wire.HeaderCall, p.ID.String())
	x.writeBody(http.StatusOK, "application/json", body)
	if x.r.Context().Err() == nil {
		x.noteDelivered(x.r.Context(), x.agent, p)
	}
}

// noteDelivered records that a caller knows the end of a call. If it fails, the caller learns the end again.
func (s *Server) noteDelivered(ctx context.Context, a *agent.Agent, p *call.Passage) {
	if !p.Final {
		return
	}
	if err := s.Calls.MarkDelivered(context.WithoutCancel(ctx), p.ID); err != nil {
		s.Logger.Warn("mark call delivered", "agent", a.Name, "call_id", p.ID, "error", err)
	}
}
