package call

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// ReadSecrets returns the rules for the secrets in the arguments of calls, by call. The accepted definition of a tool and the call's own
// declare them, except at the paths that an operator marked as not secret. For a pending call with a definition that is not accepted,
// only the accepted one counts if there is one: a server must not hide values from reviewers by changing its tool.
func (s *Service) ReadSecrets(ctx context.Context, calls ...Call) (map[uuid.UUID]*secretfield.Rules, error) {
	declaring := make([][]tool.Pin, len(calls))
	var all []tool.Pin
	for i := range calls {
		pins, err := s.declaringPins(ctx, &calls[i])
		if err != nil {
			return nil, err
		}
		declaring[i], all = pins, append(all, pins...)
	}
	definitions, err := s.Discovery.Definitions(ctx, all)
	if err != nil {
		return nil, err
	}
	rules := make(map[uuid.UUID]*secretfield.Rules, len(calls))
	for i := range calls {
		c := &calls[i]
		skill, _, err := s.Agents.Skill(ctx, c.SkillID)
		if err != nil && !errors.Is(err, agent.ErrNotFound) { // deleted: nothing is marked
			return nil, fmt.Errorf("read secrets of call %s: %w", c.ID, err)
		}
		var schemas [][]byte
		for _, pin := range declaring[i] {
			schemas = append(schemas, definitions[pin].InputSchema)
		}
		var shown []string
		if skill != nil {
			shown = skill.Tools[c.Tool].NotSecret
		}
		rules[c.ID] = secretfield.New(shown, schemas...)
	}
	return rules, nil
}

// declaringPins returns the pins of the definitions that declare the secrets of a call.
func (s *Service) declaringPins(ctx context.Context, c *Call) ([]tool.Pin, error) {
	status, err := s.Discovery.Status(ctx, c.SkillID, c.Tool)
	switch {
	case err != nil:
		return nil, err
	case c.Status == Parked && status.Current == c.Pin && !status.Accepted.IsZero(): // it can still be approved
		return []tool.Pin{status.Accepted}, nil
	case status.Accepted == c.Pin:
		return []tool.Pin{c.Pin}, nil
	}
	return slices.DeleteFunc([]tool.Pin{status.Accepted, c.Pin}, tool.Pin.IsZero), nil
}

// hideSecrets returns a function that reports whether a pointer into the arguments is of a secret.
func hideSecrets(rules *secretfield.Rules, arguments []byte) func(pointer string) bool {
	hidden := map[string]bool{}
	for _, one := range rules.Find(arguments) {
		hidden[one.Pointer] = true
	}
	return func(pointer string) bool { return hidden[pointer] }
}
