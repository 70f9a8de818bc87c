package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/registry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Outgoing is the very request that is, or was, sent, secrets masked. Nil: there is nothing to tell but the arguments.
func (c *Call) Outgoing() (*tool.Outgoing, error) {
	if c.request == nil {
		return nil, nil
	}
	var o tool.Outgoing
	if err := json.Unmarshal(c.request, &o); err != nil {
		return nil, fmt.Errorf("read the request of call %s: %w", c.ID, err)
	}
	return &o, nil
}

// OutgoingWith is the request that other arguments, which [Service.CheckEdit] let pass, would make of a call.
// Nil: there is nothing to tell but the arguments. Errors: *[EditError].
func (s *Service) OutgoingWith(ctx context.Context, c *Call, arguments json.RawMessage) (*tool.Outgoing, error) {
	changed := *c
	changed.Arguments = arguments
	if err := s.redraw(ctx, &changed); err != nil {
		return nil, err
	}
	return changed.Outgoing()
}

// redraw makes the request of a parked call anew, for other arguments.
func (s *Service) redraw(ctx context.Context, c *Call) error {
	if c.request == nil {
		return nil
	}
	skill, server, err := s.Agents.FreshSkill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return nil // it will not be sent, whatever is decided
	}
	if err != nil {
		return err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return err
	}
	r, err := s.draw(ctx, c, skill, server.For(c.PrincipalID), definition)
	if r != nil {
		return &EditError{Problems: []tool.Problem{{Message: r.message}}}
	}
	return err
}

// draw makes the request that a call's source would send. A refusal says why there is none: for want of other arguments, or of other settings.
func (s *Service) draw(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server, definition tool.Definition) (*refusal, error) {
	if c.request = nil; !server.Transport.IsAPI() {
		return nil, nil
	}
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return nil, err
	}
	request, err := s.callRequest(ctx, c, skill, &definition)
	if err != nil {
		return nil, err
	}
	outgoing, err := source.Outgoing(server, request)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		if failure.Kind == tool.ToolError {
			return unsent(Invalid, CodeInvalidArguments, failure.Message), nil
		}
		return denied(CodeNotSendable, failure.Message), nil
	}
	if err != nil || outgoing == nil {
		return nil, err
	}
	if c.request, err = json.Marshal(outgoing); err != nil {
		return nil, fmt.Errorf("encode the request of call %s: %w", c.ID, err)
	}
	return nil, nil
}

// recheckRequest compares the request that would go out now with the one that was approved.
func (s *Service) recheckRequest(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server, definition tool.Definition) (*refusal, error) {
	now := *c
	r, err := s.draw(ctx, &now, skill, server, definition)
	if err != nil {
		return nil, err
	}
	if r != nil || !bytes.Equal(now.request, c.request) {
		return denied(CodeEnvelopeChanged, "the request that would be sent is not the one that was approved"), nil
	}
	return nil, nil
}

// ErrNoPreview is that what a call would change cannot be looked at beforehand.
var ErrNoPreview = errors.New("there is no preview of this call")

const (
	beforeAge     = 15 * time.Second // how long a state is remembered: pages are read anew often
	beforeTimeout = 8 * time.Second
	beforeBytes   = 16 << 20 // of all that are remembered
)

// stateBefore is what a call would change; failure is why it cannot be told.
type stateBefore struct {
	state   *tool.State
	failure *tool.Failure
}

func beforeMemory(now func() time.Time) *registry.Memory[uuid.UUID, stateBefore] {
	return registry.NewMemory[uuid.UUID](registry.Config[stateBefore]{
		TTL: beforeAge, LoadTimeout: beforeTimeout, MaxSize: beforeBytes, Now: now,
		Size: func(b stateBefore) int {
			if b.state == nil {
				return 1 << 10
			}
			return 1<<10 + len(b.state.Body)
		},
	})
}

// Before reads what a parked call would change, as it is now, or was a moment ago. It changes nothing, and nothing waits for it.
// Errors: ErrState, ErrNoPreview, *[tool.Failure].
func (s *Service) Before(ctx context.Context, c *Call) (*tool.State, error) {
	if c.Status != Parked {
		return nil, ErrState
	}
	if c.request == nil {
		return nil, ErrNoPreview
	}
	found, err := s.before.Get(ctx, c.ID, func(ctx context.Context) (stateBefore, error) { return s.readBefore(ctx, c) })
	return found.result(err)
}

// BeforeKnown is what [Service.Before] read a moment ago; known is false when it did not.
func (s *Service) BeforeKnown(c *Call) (state *tool.State, err error, known bool) { //nolint:revive // whether it is known comes last, as ever
	found, known := s.before.Peek(c.ID)
	if !known {
		return nil, nil, false
	}
	state, err = found.result(nil)
	return state, err, true
}

func (b stateBefore) result(err error) (*tool.State, error) {
	if err == nil && b.failure != nil {
		err = b.failure
	}
	return b.state, err
}

func (s *Service) readBefore(ctx context.Context, c *Call) (stateBefore, error) {
	var none stateBefore
	skill, server, err := s.Agents.FreshSkill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) || err == nil && skill.Revision != c.SkillRevision {
		return none, ErrNoPreview // it would not be sent
	}
	if err != nil {
		return none, err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return none, err
	}
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return none, err
	}
	request, err := s.callRequest(ctx, c, skill, &definition)
	if err != nil {
		return none, err
	}
	state, err := source.Before(c.trace.In(ctx), server.For(c.PrincipalID), request)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return stateBefore{failure: failure}, nil
	}
	if err == nil && state == nil {
		err = ErrNoPreview
	}
	return stateBefore{state: state}, err
}

// callRequest is what a source is told of a call, but for who may be asked while it is made.
func (s *Service) callRequest(ctx context.Context, c *Call, skill *agent.Skill, definition *tool.Definition) (tool.CallRequest, error) {
	request := tool.CallRequest{CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Definition: definition}
	var err error
	request.Caller.Headers, err = s.IdentityHeaders(ctx, skill, c.AgentID, c.ID, c.PrincipalID)
	return request, err
}
