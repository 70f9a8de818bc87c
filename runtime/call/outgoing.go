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

// Outgoing returns the HTTP request of the call, with secrets masked. Nil: the call has only arguments.
func (c *Call) Outgoing() (*tool.Outgoing, error) {
	if c.request == nil || c.GateOnly {
		return nil, nil
	}
	var o tool.Outgoing
	if err := json.Unmarshal(c.request, &o); err != nil {
		return nil, fmt.Errorf("read the request of call %s: %w", c.ID, err)
	}
	return &o, nil
}

// PreviewEdit returns the HTTP request of the call with other arguments, which [Service.CheckEdit] has returned. Nil: the call has only
// arguments. Errors: *[EditError].
func (s *Service) PreviewEdit(ctx context.Context, c *Call, arguments json.RawMessage) (*tool.Outgoing, error) {
	changed := *c
	changed.Arguments = arguments
	if err := s.previewEdited(ctx, &changed); err != nil {
		return nil, err
	}
	return changed.Outgoing()
}

// previewEdited makes the request of a parked call with edited arguments.
func (s *Service) previewEdited(ctx context.Context, c *Call) error {
	if c.request == nil {
		return nil
	}
	to, err := s.presentTarget(ctx, c)
	if errors.Is(err, agent.ErrNotFound) {
		return nil // the call will not be sent in any case
	}
	if err != nil {
		return err
	}
	r, err := s.previewRequest(ctx, c, to)
	if r != nil {
		return &EditError{Problems: []tool.Problem{{Message: r.message}}}
	}
	return err
}

// presentTarget reads where a call would be sent now. Errors: agent.ErrNotFound.
func (s *Service) presentTarget(ctx context.Context, c *Call) (target, error) {
	skill, server, err := s.Agents.FreshSkill(ctx, c.SkillID)
	if err != nil {
		return target{}, err
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	return target{skill: skill, server: server.For(c.PrincipalID), definition: definition}, err
}

// previewRequest stores in c the request that its source would send. It returns a refusal if the arguments or the skill's settings do not
// make a request.
func (s *Service) previewRequest(ctx context.Context, c *Call, to target) (*refusal, error) {
	if c.GateOnly {
		return nil, nil // what it is bound to came with the call
	}
	if c.request = nil; !to.server.Transport.IsAPI() {
		return nil, nil
	}
	previewer, request, err := s.newPreview(ctx, c, to)
	if previewer == nil || err != nil {
		return nil, err
	}
	outgoing, err := previewer.Outgoing(to.server, request)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		if failure.Kind == tool.ToolError {
			return newRefusal(Invalid, CodeInvalidArguments, failure.Message), nil
		}
		return newDenial(CodeNotSendable, failure.Message), nil
	}
	if err != nil {
		return nil, err
	}
	if c.request, err = json.Marshal(outgoing); err != nil {
		return nil, fmt.Errorf("encode the request of call %s: %w", c.ID, err)
	}
	return nil, nil
}

// recheckRequest compares the present request with the approved one.
func (s *Service) recheckRequest(ctx context.Context, c *Call, to target) (*refusal, error) {
	now := *c
	r, err := s.previewRequest(ctx, &now, to)
	if err != nil {
		return nil, err
	}
	if r != nil || !bytes.Equal(now.request, c.request) {
		return newDenial(CodeEnvelopeChanged, "the request that would be sent is not the one that was approved"), nil
	}
	return nil, nil
}

// ErrNoPreview means that the state before a call cannot be read.
var ErrNoPreview = errors.New("there is no preview of this call")

const (
	beforeAge     = 15 * time.Second // lifetime of a cached state; pages reload often
	beforeTimeout = 8 * time.Second
	beforeBytes   = 16 << 20 // of all cached states
)

// stateBefore is the state that a call would change, or the reason why it cannot be read.
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

// ReadBefore reads the state that a parked call would change. The state may be 15 seconds old.
// Errors: ErrState, ErrNoPreview, *[tool.Failure].
func (s *Service) ReadBefore(ctx context.Context, c *Call) (*tool.State, error) {
	if c.Status != Parked {
		return nil, ErrState
	}
	if c.request == nil || c.GateOnly {
		return nil, ErrNoPreview
	}
	found, err := s.before.Get(ctx, c.ID, func(ctx context.Context) (stateBefore, error) { return s.readBefore(ctx, c) })
	return found.asResult(err)
}

// CachedBefore returns the cached result of [Service.ReadBefore]; known is false if there is none.
func (s *Service) CachedBefore(c *Call) (state *tool.State, err error, known bool) { //nolint:revive // known comes last, as in map lookups
	found, known := s.before.Peek(c.ID)
	if !known {
		return nil, nil, false
	}
	state, err = found.asResult(nil)
	return state, err, true
}

func (b stateBefore) asResult(err error) (*tool.State, error) {
	if err == nil && b.failure != nil {
		err = b.failure
	}
	return b.state, err
}

func (s *Service) readBefore(ctx context.Context, c *Call) (stateBefore, error) {
	var none stateBefore
	to, err := s.presentTarget(ctx, c)
	if errors.Is(err, agent.ErrNotFound) || err == nil && to.skill.Revision != c.SkillRevision {
		return none, ErrNoPreview // the call will not be sent
	}
	if err != nil {
		return none, err
	}
	previewer, request, err := s.newPreview(ctx, c, to)
	if err != nil {
		return none, err
	}
	if previewer == nil {
		return none, ErrNoPreview
	}
	state, err := previewer.Before(c.trace.In(ctx), to.server, request)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return stateBefore{failure: failure}, nil
	}
	if err == nil && state == nil {
		err = ErrNoPreview
	}
	return stateBefore{state: state}, err
}

// newPreview returns the source that previews a call, and the request to it, which has no callbacks. A nil source cannot preview.
func (s *Service) newPreview(ctx context.Context, c *Call, to target) (tool.Previewer, tool.CallRequest, error) {
	source, err := s.Discovery.Source(to.server.Transport)
	if err != nil {
		return nil, tool.CallRequest{}, err
	}
	request := tool.CallRequest{CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Definition: &to.definition}
	if request.Caller.Headers, err = s.IdentityHeaders(ctx, to.skill, c.AgentID, c.ID, c.PrincipalID); err != nil {
		return nil, tool.CallRequest{}, err
	}
	previewer, _ := source.(tool.Previewer)
	return previewer, request, nil
}
