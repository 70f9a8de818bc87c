package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Source carries tools/list and tools/call to MCP servers. It keeps one
// session, or child process, for each skill and makes it anew when it broke:
// for the next call, never for one that may have been sent.
type Source struct {
	config Config
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	tasks  tasks
	// patient ends when the time given to Close ran out.
	patient context.Context
	hurry   context.CancelFunc

	mu        sync.Mutex
	closed    bool
	keepers   map[keeperKey]*keeper
	errands   errands
	durations *prometheus.HistogramVec
	live      map[*held]struct{}
}

var _ tool.Source = (*Source)(nil)

// New returns a Source. The caller closes it.
func New(config Config) *Source {
	s := &Source{
		config:    config.withDefaults(),
		keepers:   map[keeperKey]*keeper{},
		errands:   errands{byID: map[string]*errand{}},
		live:      map[*held]struct{}{},
		durations: newDurations(),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.patient, s.hurry = context.WithCancel(context.Background())
	return s
}

// List implements [tool.Source]. Its time is bounded by Limits.List; a server
// that is still starting then goes on starting, for the next List.
func (s *Source) List(ctx context.Context, server tool.Server) (tool.Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	listing, failure := listTools(ctx, s.config.Limits, func(ctx context.Context, r *request) (json.RawMessage, negotiated, *tool.Failure) {
		return s.send(ctx, server, r)
	}, server.Transport)
	if failure != nil {
		return tool.Listing{}, without(failure)
	}
	return listing, nil
}

// Call implements [tool.Source]. The arguments must be one JSON object, which
// is not checked here; without any, an empty object is sent. A server that
// answers with questions is asked on with their answers, and one that answers
// with a task is followed until that ends.
func (s *Source) Call(ctx context.Context, server tool.Server, call tool.CallRequest) (tool.Result, error) {
	e, failure := s.newErrand(ctx, server, call.Caller, call.Timeout, false)
	if failure != nil {
		return tool.Result{}, failure
	}
	defer s.finish(e)
	began := s.config.Now()
	raw, failure := s.call(e, server, call)
	exchange := tool.Exchange{
		Sent: int64(len(call.Arguments)), Received: int64(len(raw)),
		Steps: []tool.Step{{Name: "call", Took: s.config.Now().Sub(began)}},
	}
	var result tool.Result
	if failure == nil {
		result, failure = readResult(raw)
	}
	if failure != nil {
		measured := *failure // others may be told of the same one
		if measured.Exchange = exchange; failure.Kind == tool.TransportFailure && failure.Effect == tool.EffectNone {
			measured.Exchange.Sent = 0
		}
		return tool.Result{}, &measured
	}
	result.Exchange = exchange
	return result, nil
}

// call sends a tools/call and has its complete result.
func (s *Source) call(e *errand, server tool.Server, call tool.CallRequest) (json.RawMessage, *tool.Failure) {
	first := callRequest(call, s.config.Limits.ResultBytes)
	asTask, failure := s.wantsTask(e.ctx, server, call.Definition)
	if failure != nil {
		return nil, failure
	}
	if asTask {
		first.members = append(first.members, `,"task":{}`...)
	}
	raw, kind, failure := s.rounds(e, server, first)
	switch {
	case failure != nil:
		return nil, failure
	case kind == typeTask:
		return s.follow(e, server, first, raw, false)
	case kind != typeComplete:
		return nil, unknownType(first.what, raw, kind)
	case asTask:
		if task := legacyTask(raw); task != nil {
			return s.follow(e, server, first, task, true)
		}
	}
	return raw, nil
}

// Forget implements [tool.Source]. Calls that are on their way still get their
// answers; the session ends after the last of them.
func (s *Source) Forget(skillID uuid.UUID) {
	s.mu.Lock()
	var gone []*keeper
	for key, k := range s.keepers {
		if key.skill == skillID {
			gone = append(gone, k)
			delete(s.keepers, key)
		}
	}
	s.mu.Unlock()
	for _, k := range gone {
		k.retire()
	}
}

// Close ends all sessions and children, also those in use: calls on their way
// fail with an effect that is possible. When ctx ends first, children are
// killed without waiting for them to end by themselves.
func (s *Source) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	keepers := s.keepers
	s.keepers = map[keeperKey]*keeper{}
	s.mu.Unlock()
	s.cancel(errPeerClosed)
	defer context.AfterFunc(ctx, s.hurry)()
	for _, k := range keepers {
		k.retire()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.closeLive(ctx)
		s.tasks.stop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close MCP sessions: %w", context.Cause(ctx))
	}
}

func (s *Source) closeLive(ctx context.Context) {
	s.mu.Lock()
	live := make([]*held, 0, len(s.live))
	for h := range s.live {
		live = append(live, h)
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, h := range live {
		all.Go(func() { h.close(ctx) })
	}
	all.Wait()
}

// errOtherRevision: the server is one of an earlier revision by now.
var errOtherRevision = errors.New("the server speaks another revision")

// send sends a request to a skill's peer. It is sent a second time only when
// no byte of it was written, or on the session's 404, each at most once.
func (s *Source) send(ctx context.Context, server tool.Server, r *request) (json.RawMessage, negotiated, *tool.Failure) {
	renewed, resent := false, false
	for {
		h, failure := s.acquire(ctx, server)
		if failure != nil {
			return nil, negotiated{}, failure
		}
		if r.declared && !h.peer.negotiated().offers.Offers(r.method) {
			h.release(false)
			return nil, negotiated{}, notDeclared(r)
		}
		if r.continues && !h.peer.negotiated().modern() {
			h.release(false)
			return nil, negotiated{}, tool.BrokeOff(tool.EffectPossible, errOtherRevision, "%s: the server asked for input, and is now one that could not go on with it", r.what)
		}
		h.hearLogs(ctx, r)
		on, seen := s.observe(ctx, server, h.peer.negotiated(), r)
		out := h.peer.exchange(on, r)
		seen.end(out.result, out.failure)
		h.release(out.sessionGone || out.renew)
		switch {
		case out.failure == nil:
			return out.result, h.peer.negotiated(), nil
		case out.sessionGone && !renewed:
			renewed = true
		case out.unsent && !resent:
			resent = true
		default:
			return nil, negotiated{}, out.failure
		}
	}
}

// acquire finds the skill's peer, or makes one. The peer is released by the
// caller.
func (s *Source) acquire(ctx context.Context, server tool.Server) (*held, *tool.Failure) {
	for {
		k, failure := s.keeper(server)
		if failure != nil {
			return nil, failure
		}
		h, failure, retired := k.acquire(ctx)
		if !retired {
			return h, failure
		}
	}
}

// keeperKey tells peers apart: a skill to which each person has a connection of their own has one for each.
type keeperKey struct {
	skill, principal uuid.UUID
}

func keyOf(server tool.Server) keeperKey {
	key := keeperKey{skill: server.SkillID}
	if server.PerUser {
		key.principal = server.Principal
	}
	return key
}

// keeper finds what keeps a skill's peer; one of an older revision is retired.
func (s *Source) keeper(server tool.Server) (*keeper, *tool.Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, tool.BrokeOff(tool.EffectNone, errPeerClosed, "skill %s: connections are being closed", server.Skill)
	}
	key := keyOf(server)
	k := s.keepers[key]
	switch {
	case k != nil && k.server.Revision == server.Revision:
		return k, nil
	case k != nil && k.server.Revision > server.Revision:
		return nil, tool.BrokeOff(tool.EffectNone, nil, "skill %s: revision %d is not current any more", server.Skill, server.Revision)
	case k != nil:
		s.tasks.run(k.retire) // not here: it locks what is locked before s.mu
	}
	k = &keeper{source: s, server: server}
	k.watchIdle()
	s.keepers[key] = k
	if server.PerUser && len(s.keepers) > s.config.Limits.Sessions {
		s.tasks.run(s.trim) // likewise
	}
	return k, nil
}

// connect makes a peer of a skill's server.
func (s *Source) connect(ctx context.Context, server tool.Server, e era, h *handshake, to listener) (peer, *tool.Failure) {
	switch server.Transport {
	case tool.HTTP:
		ctx, cancel := context.WithTimeout(ctx, s.config.Limits.Connect)
		defer cancel()
		p, failure := connectHTTP(ctx, s.config, server, e, h, to)
		if failure != nil {
			return nil, failure
		}
		return p, nil
	case tool.Stdio:
		ctx, cancel := context.WithTimeout(ctx, s.config.Limits.Start)
		defer cancel()
		p, failure := connectStdio(ctx, s.config, server, e, h, to)
		if failure != nil {
			return nil, failure
		}
		return p, nil
	case tool.OpenAPI, tool.HTTPAPI:
	}
	return nil, tool.BrokeOff(tool.EffectNone, nil, "skill %s: transport %q is not MCP", server.Skill, server.Transport)
}
