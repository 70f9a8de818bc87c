package call

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	problem, err := s.draw(ctx, c, skill, server.For(c.PrincipalID), definition)
	if problem != "" {
		return &EditError{Problems: []tool.Problem{{Message: problem}}}
	}
	return err
}

// draw makes the request that a call's source would send. problem says, in plain words, why there is none: nothing is sent then.
func (s *Service) draw(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server, definition tool.Definition) (problem string, err error) {
	if c.request = nil; !server.Transport.IsAPI() {
		return "", nil
	}
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return "", err
	}
	request := tool.CallRequest{CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Definition: &definition}
	if request.Caller.Headers, err = s.IdentityHeaders(ctx, skill, c.AgentID, c.ID, c.PrincipalID); err != nil {
		return "", err
	}
	outgoing, err := source.Outgoing(server, request)
	if failure, ok := errors.AsType[*tool.Failure](err); ok {
		return failure.Message, nil
	}
	if err != nil || outgoing == nil {
		return "", err
	}
	if c.request, err = json.Marshal(outgoing); err != nil {
		return "", fmt.Errorf("encode the request of call %s: %w", c.ID, err)
	}
	return "", nil
}

// recheckRequest compares the request that would go out now with the one that was approved.
func (s *Service) recheckRequest(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server, definition tool.Definition) (*refusal, error) {
	now := *c
	problem, err := s.draw(ctx, &now, skill, server, definition)
	if err != nil {
		return nil, err
	}
	if problem != "" || !bytes.Equal(now.request, c.request) {
		return denied(CodeEnvelopeChanged, "the request that would be sent is not the one that was approved"), nil
	}
	return nil, nil
}

// ErrNoPreview: what a call would change cannot be looked at beforehand.
var ErrNoPreview = errors.New("there is no preview of this call")

// Before reads what a parked call would change, as it is now. It changes nothing, and nothing waits for it.
// Errors: ErrNotFound, ErrState, ErrNoPreview, *[tool.Failure].
func (s *Service) Before(ctx context.Context, c *Call) (*tool.State, error) {
	if c.Status != Parked {
		return nil, ErrState
	}
	if c.request == nil {
		return nil, ErrNoPreview
	}
	skill, server, err := s.Agents.FreshSkill(ctx, c.SkillID)
	if errors.Is(err, agent.ErrNotFound) {
		return nil, ErrNoPreview
	}
	if err != nil {
		return nil, err
	}
	if skill.Revision != c.SkillRevision {
		return nil, ErrNoPreview
	}
	definition, err := s.Discovery.Definition(ctx, c.Pin)
	if err != nil {
		return nil, err
	}
	source, err := s.Discovery.Source(server.Transport)
	if err != nil {
		return nil, err
	}
	request := tool.CallRequest{CallID: c.ID, Tool: c.Tool, Arguments: c.Arguments, Definition: &definition}
	if request.Caller.Headers, err = s.IdentityHeaders(ctx, skill, c.AgentID, c.ID, c.PrincipalID); err != nil {
		return nil, err
	}
	state, err := source.Before(ctx, server.For(c.PrincipalID), request)
	if err == nil && state == nil {
		err = ErrNoPreview
	}
	return state, err
}
