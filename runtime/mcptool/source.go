package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/mcptool/stdio"
	"github.com/holdpoint/holdpoint/runtime/mcptool/streamable"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Source lists tools and sends calls to MCP servers. It keeps one session, or child process, for each skill. A broken session is replaced
// for the next call, never for one that may have been sent.
type Source struct {
	config     Config
	ctx        context.Context // ends with Close
	cancel     context.CancelCauseFunc
	background session.Background
	patient    context.Context    // ends when the time of Close runs out
	hurry      context.CancelFunc // ends patient

	mu         sync.Mutex
	closed     bool
	keepers    map[session.Key]*keeper
	operations *session.Operations
	durations  *prometheus.HistogramVec
	live       map[*heldSession]struct{}
}

var (
	_ tool.Source    = (*Source)(nil)
	_ tool.Requester = (*Source)(nil)
)

// New returns a Source. The caller closes it.
func New(config Config) *Source {
	config = config.withDefaults()
	s := &Source{
		config:     config,
		keepers:    map[session.Key]*keeper{},
		operations: session.NewOperations(config.Logger, config.Now),
		live:       map[*heldSession]struct{}{},
		durations:  newDurations(),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.patient, s.hurry = context.WithCancel(context.Background())
	return s
}

// List implements [tool.Source]. Its time is bounded by Limits.List. A server that is still starting then continues to start, for the next
// List.
func (s *Source) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	listing, failure := listTools(ctx, s.config.Limits, func(ctx context.Context, r *session.Request) (json.RawMessage, session.Info, *tool.Failure) {
		return s.sendRequest(ctx, server, r)
	}, server.Transport)
	if failure != nil {
		return tool.Listing{}, session.WithoutEffect(failure)
	}
	return listing, nil
}

// Call implements [tool.Source]. The arguments must be one JSON object, which Call does not check; without arguments it sends an empty
// object. If the server answers with questions, Call sends their answers. If the server answers with a task, Call follows it to its end.
func (s *Source) Call(ctx context.Context, server tool.Server, call tool.CallRequest) (tool.Result, error) {
	op, failure := s.operations.Begin(ctx, server, call.Caller, call.Timeout, false)
	if failure != nil {
		return tool.Result{}, failure
	}
	defer s.operations.Finish(op)
	began := s.config.Now()
	raw, failure := s.sendCall(op, server, call)
	exchange := tool.Exchange{
		Sent: int64(len(call.Arguments)), Received: int64(len(raw)),
		Steps: []tool.Step{{Name: "call", Took: s.config.Now().Sub(began)}},
	}
	var result tool.Result
	if failure == nil {
		result, failure = readResult(raw)
	}
	if failure != nil {
		measured := *failure // a copy, because other callers may get the same failure
		if measured.Exchange = exchange; failure.Kind == tool.TransportFailure && failure.Effect == tool.EffectNone {
			measured.Exchange.Sent = 0
		}
		return tool.Result{}, &measured
	}
	result.Exchange = exchange
	return result, nil
}

// sendCall sends a tools/call and returns its complete result.
func (s *Source) sendCall(op *session.Operation, server tool.Server, call tool.CallRequest) (json.RawMessage, *tool.Failure) {
	first := newCallRequest(call, s.config.Limits.ResultBytes)
	asTask, failure := s.wantsTask(op.Context, server, call.Definition)
	if failure != nil {
		return nil, failure
	}
	if asTask {
		first.Members = append(first.Members, `,"task":{}`...)
	}
	raw, kind, failure := s.sendRounds(op, server, first)
	switch {
	case failure != nil:
		return nil, failure
	case kind == typeTask:
		return s.followTask(op, server, first, raw, false)
	case kind != typeComplete:
		return nil, failUnknownType(first.Label, raw, kind)
	case asTask:
		if task, err := session.ReadMember(raw, "task"); err == nil && task != nil {
			return s.followTask(op, server, first, task, true)
		}
	}
	return raw, nil
}

// newCallRequest returns the request of a tools/call.
func newCallRequest(call tool.CallRequest, limit int64) *session.Request {
	members := make([]byte, 0, len(call.Tool)+len(call.Arguments)+32)
	members = append(members, `"name":`...)
	members = rawjson.AppendString(members, call.Tool)
	members = append(members, `,"arguments":`...)
	if len(call.Arguments) == 0 {
		members = append(members, "{}"...)
	} else {
		members = append(members, call.Arguments...)
	}
	return &session.Request{
		Method: "tools/call", Name: call.Tool, Members: members, Limit: limit, Confirm: call.Confirm,
		Definition: call.Definition, Arguments: call.Arguments,
		Label: "tools/call " + plain.Line(call.Tool, 100),
	}
}

// readResult reads a complete result of tools/call. The result keeps its bytes.
func readResult(raw json.RawMessage) (tool.Result, *tool.Failure) {
	result := tool.Result{Raw: raw}
	value, err := session.ReadMember(raw, "isError")
	if err == nil && value != nil && json.Unmarshal(value, &result.IsError) != nil {
		err = errors.New("isError is neither true nor false")
	}
	if err != nil {
		return tool.Result{}, session.NewProtocolFailure(raw, err, "the result is not a tool result: %s", plain.Line(err.Error(), 200))
	}
	return result, nil
}

// failUnknownType returns the failure of a result whose type MCP does not allow there.
func failUnknownType(what string, raw json.RawMessage, kind string) *tool.Failure {
	return session.NewProtocolFailure(raw, nil, "%s: the server answered with a result of unknown type %q", what, plain.Line(kind, 100))
}

// wantsTask reports whether a tool can only be called as a task, at a server of a revision in which the client requests the task (MCP
// 2025-11-25, experimental).
func (s *Source) wantsTask(ctx context.Context, server tool.Server, definition *tool.Definition) (bool, *tool.Failure) {
	if definition == nil || !bytes.Contains(definition.Raw(), []byte("taskSupport")) {
		return false, nil
	}
	var d struct {
		Execution struct {
			TaskSupport string `json:"taskSupport"`
		} `json:"execution"`
	}
	if err := json.Unmarshal(definition.Raw(), &d); err != nil || d.Execution.TaskSupport != "required" {
		return false, nil
	}
	h, failure := s.acquireSession(ctx, server)
	if failure != nil {
		return false, failure
	}
	defer h.releaseSession(false)
	return !h.session.Info().IsStateless(), nil
}

// Request implements [tool.Requester].
func (s *Source) Request(ctx context.Context, server tool.Server, asked tool.Request) (json.RawMessage, error) {
	r, failure := newRequest(asked, s.config.Limits.ResultBytes)
	if failure != nil {
		return nil, failure
	}
	op, failure := s.operations.Begin(ctx, server, asked.Caller, asked.Timeout, asked.Input)
	if failure != nil {
		return nil, failure
	}
	defer s.operations.Finish(op)
	var raw json.RawMessage
	var kind string
	if asked.Input {
		raw, kind, failure = s.sendOnce(op, server, r)
	} else {
		raw, kind, failure = s.sendRounds(op, server, r)
	}
	if failure == nil && kind != typeComplete && (kind != typeInput || !asked.Input) {
		failure = failUnknownType(r.Label, raw, kind)
	}
	if failure != nil {
		return nil, session.WithoutEffect(failure)
	}
	return raw, nil
}

// methodName matches valid names of methods. They are sent in a header.
var methodName = regexp.MustCompile(`^[A-Za-z0-9_./$-]{1,128}$`)

// newRequest returns a request that is not a tools/call.
func newRequest(asked tool.Request, limit int64) (*session.Request, *tool.Failure) {
	what := plain.Line(asked.Method, 100)
	if asked.Name != "" {
		what += " " + plain.Line(asked.Name, 100)
	}
	switch {
	case asked.Method == "tools/call":
		return nil, failUnsent(jsonrpc.CodeMethodNotFound, "tools/call is not sent as a request of its own")
	case !methodName.MatchString(asked.Method):
		return nil, failUnsent(jsonrpc.CodeMethodNotFound, "%q is not a method", plain.Line(asked.Method, 100))
	}
	members, err := session.StripBraces(asked.Params)
	if err != nil {
		return nil, failUnsent(jsonrpc.CodeInvalidParams, "%s: params: %s", what, plain.Line(err.Error(), 200))
	}
	return &session.Request{Method: asked.Method, Name: asked.Name, Members: members, Limit: limit, Label: what, OnlyIfDeclared: true}, nil
}

// failUnsent returns the JSON-RPC error of a request that was not sent to a server.
func failUnsent(code int64, format string, args ...any) *tool.Failure {
	f := tool.BrokeOff(tool.EffectNone, nil, format, args...)
	f.Kind = tool.JSONRPCError
	rpc := strconv.AppendInt([]byte(`{"code":`), code, 10)
	f.RPC = append(rawjson.AppendString(append(rpc, `,"message":`...), f.Message), '}')
	return f
}

// Capabilities implements [tool.Requester]. Its time is bounded by Limits.List.
func (s *Source) Capabilities(ctx context.Context, server tool.Server) (tool.Capabilities, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	h, failure := s.acquireSession(ctx, server)
	if failure != nil {
		return tool.Capabilities{}, session.WithoutEffect(failure)
	}
	defer h.releaseSession(false)
	return h.session.Info().Capabilities, nil
}

// Probe implements [tool.Source]. It opens a session of its own, lists the tools, and closes the session.
func (s *Source) Probe(ctx context.Context, server tool.Server, step func(tool.Step)) error {
	h := &session.Handshake{Now: s.config.Now, Step: step}
	p, failure := s.connectServer(ctx, server, session.EraUnknown, h, session.Listener{})
	if failure != nil {
		h.Fail(failure)
		return failure
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		p.Close(ctx)
	}()
	h.BeginStep("tools/list", "")
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	listing, failure := listTools(ctx, s.config.Limits, func(ctx context.Context, r *session.Request) (json.RawMessage, session.Info, *tool.Failure) {
		out := p.Exchange(ctx, r)
		return out.Result, p.Info(), out.Failure
	}, server.Transport)
	if failure != nil {
		failure = session.WithoutEffect(failure)
		h.Fail(failure)
		return failure
	}
	detail := fmt.Sprintf("%d tools", len(listing.Tools))
	if n := len(listing.Skipped); n > 0 {
		detail += fmt.Sprintf(", %d skipped", n)
	}
	h.FinishStep(detail, nil)
	return nil
}

// Ready implements [tool.Source].
func (s *Source) Ready(ctx context.Context, server tool.Server) (*tool.Connect, error) {
	return skillauth.New(s.config.OAuth, server).Ready(ctx)
}

// Forget implements [tool.Source]. Running calls still get their answers; the session ends after the last of them.
func (s *Source) Forget(skillID uuid.UUID) {
	s.mu.Lock()
	var gone []*keeper
	for key, k := range s.keepers {
		if key.Skill == skillID {
			gone = append(gone, k)
			delete(s.keepers, key)
		}
	}
	s.mu.Unlock()
	for _, k := range gone {
		k.retireKeeper()
	}
}

// Close ends all sessions and children, including those in use: running calls fail with a possible effect. When ctx ends first, children
// are killed.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	keepers := s.keepers
	s.keepers = map[session.Key]*keeper{}
	s.mu.Unlock()
	s.cancel(session.ErrClosed)
	defer context.AfterFunc(ctx, s.hurry)()
	for _, k := range keepers {
		k.retireKeeper()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.mu.Lock()
		live := slices.Collect(maps.Keys(s.live))
		s.mu.Unlock()
		var all sync.WaitGroup
		for _, h := range live {
			all.Go(func() { h.closeOnce(ctx) })
		}
		all.Wait()
		s.background.Stop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close MCP sessions: %w", context.Cause(ctx))
	}
}

// sendRequest sends a request in a skill's session. It sends the request again only if no byte was written, or on the session's 404,
// each at most once.
func (s *Source) sendRequest(ctx context.Context, server tool.Server, r *session.Request) (json.RawMessage, session.Info, *tool.Failure) {
	renewed, resent := false, false
	for {
		h, failure := s.acquireSession(ctx, server)
		if failure != nil {
			return nil, session.Info{}, failure
		}
		if r.OnlyIfDeclared && !h.session.Info().Capabilities.Offers(r.Method) {
			h.releaseSession(false)
			return nil, session.Info{}, failUndeclared(r)
		}
		if r.Continues && !h.session.Info().IsStateless() {
			h.releaseSession(false)
			return nil, session.Info{}, tool.BrokeOff(tool.EffectPossible, errOtherRevision, "%s: the server asked for input, and now speaks a revision that cannot continue the call", r.Label)
		}
		h.requestLogs(ctx, r)
		on, seen := s.observeRequest(ctx, server, h.session.Info(), r)
		out := h.session.Exchange(on, r)
		seen.finishObservation(out.Result, out.Failure)
		h.releaseSession(out.SessionGone || out.Renew)
		switch {
		case out.Failure == nil:
			return out.Result, h.session.Info(), nil
		case out.SessionGone && !renewed:
			renewed = true
		case out.Unsent && !resent:
			resent = true
		default:
			return nil, session.Info{}, out.Failure
		}
	}
}

// errOtherRevision is the cause of a request that cannot continue because the server now speaks an earlier revision.
var errOtherRevision = errors.New("the server speaks another revision")

// failUndeclared returns the failure of a request whose method the server did not declare.
func failUndeclared(r *session.Request) *tool.Failure {
	return failUnsent(jsonrpc.CodeMethodNotFound, "%s: the server does not offer it", r.Label)
}

// acquireSession returns the skill's session, and connects if there is none. The caller releases it.
func (s *Source) acquireSession(ctx context.Context, server tool.Server) (*heldSession, *tool.Failure) {
	for {
		k, failure := s.findKeeper(server)
		if failure != nil {
			return nil, failure
		}
		h, failure, retired := k.acquireSession(ctx)
		if !retired {
			return h, failure
		}
	}
}

// findKeeper returns the keeper of a skill's session. It retires a keeper of an older revision.
func (s *Source) findKeeper(server tool.Server) (*keeper, *tool.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, tool.BrokeOff(tool.EffectNone, session.ErrClosed, "skill %s: connections are being closed", server.Skill)
	}
	key := session.KeyOf(server)
	k := s.keepers[key]
	switch {
	case k != nil && k.server.Revision == server.Revision:
		return k, nil
	case k != nil && k.server.Revision > server.Revision:
		return nil, tool.BrokeOff(tool.EffectNone, nil, "skill %s: revision %d is not current any more", server.Skill, server.Revision)
	case k != nil:
		s.background.Go(k.retireKeeper) // in the background, because k.mu is locked before s.mu
	}
	k = &keeper{source: s, server: server}
	k.watchIdle()
	s.keepers[key] = k
	if server.PerUser && len(s.keepers) > s.config.Limits.Sessions {
		s.background.Go(s.trimSessions) // likewise
	}
	return k, nil
}

// connectServer opens a session with a skill's server.
func (s *Source) connectServer(ctx context.Context, server tool.Server, e session.Era, h *session.Handshake, to session.Listener) (session.Session, *tool.Failure) {
	limits := s.config.Limits
	d := session.Dial{
		Server: server, Era: e, Handshake: h, Listener: to, Announces: s.config.announces,
		Version: s.config.Version, Logger: s.config.Logger, Now: s.config.Now,
	}
	switch server.Transport {
	case tool.HTTP:
		s, failure := streamable.Connect(ctx, d, streamable.Config{
			OAuth: s.config.OAuth, TLS: s.config.TLS, TrustedHosts: s.config.TrustedHosts,
			ConnectTimeout: limits.Connect, IdleTimeout: limits.Idle, MaxIdle: limits.IdlePerSkill,
		})
		if failure != nil {
			return nil, failure
		}
		return s, nil
	case tool.Stdio:
		s, failure := stdio.Connect(ctx, d, stdio.Config{
			Policy: s.config.Stdio, DataDir: s.config.DataDir, Path: s.config.Path, Lang: s.config.Lang,
			StartTimeout: limits.Start, DiscoverTimeout: limits.DiscoverProbe, StopTimeout: limits.Stop, MaxResult: max(limits.ResultBytes, limits.ListBytes),
		})
		if failure != nil {
			return nil, failure
		}
		return s, nil
	case tool.OpenAPI, tool.HTTPAPI, tool.Gate:
	}
	return nil, tool.BrokeOff(tool.EffectNone, nil, "skill %s: transport %q is not MCP", server.Skill, server.Transport)
}
