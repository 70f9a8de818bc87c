package operate

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

// Assignment lets an agent use a skill.
type Assignment struct {
	Agent  string   `json:"agent"`
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools" doc:"Only these tools; null: all of them."`
	Prefix *string  `json:"prefix" doc:"The prefix of its tools' names; null: the skill's name."`
}

func newAssignment(x agent.Assignment) Assignment {
	return Assignment{Agent: x.Agent, Skill: x.Skill, Tools: x.Tools, Prefix: x.Prefix}
}

type listAssignmentsInput struct {
	Agent string `query:"agent" doc:"Only assignments of the agent with this name."`
}

func (h *agentHandlers) listAssignments(ctx context.Context, input *listAssignmentsInput) (*rest.ListOutput[Assignment], error) {
	id := uuid.Nil
	if input.Agent != "" {
		var err error
		if id, err = h.FindAgentID(ctx, input.Agent); err != nil {
			return nil, err
		}
	}
	found, err := h.Agents.Assignments(ctx, id)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, "", newAssignment), nil
}

type assignInput struct {
	Body struct {
		Agent  string   `json:"agent"`
		Skill  string   `json:"skill"`
		Tools  []string `json:"tools,omitempty" doc:"Only these tools; omitted or null: all of them."`
		Prefix *string  `json:"prefix,omitempty" nullable:"true" doc:"The prefix of its tools' names; omitted or null: the skill's name."`

		Revision *int64 `json:"revision,omitempty" doc:"The expected revision of the agent: with another one, nothing is changed (409). Omitted: any."`
	} `nameHint:"AssignRequest"`
}

func (h *agentHandlers) assignSkill(ctx context.Context, input *assignInput) (*rest.Output[Assignment], error) {
	found, err := h.Agents.AgentByName(ctx, input.Body.Agent)
	if errors.Is(err, fault.ErrNotFound) {
		return nil, rest.InvalidField("body.agent", "there is no agent named %q", input.Body.Agent)
	}
	if err != nil {
		return nil, err
	}
	made, err := h.Agents.Assign(ctx, rest.CallerOf(ctx).Actor(), found.ID, agent.AssignmentSpec{
		Skill: input.Body.Skill, Tools: input.Body.Tools, Prefix: input.Body.Prefix,
	}, input.Body.Revision)
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	return rest.NewOutput(newAssignment(made)), nil
}

type unassignInput struct {
	Agent string `path:"agent"`
	Skill string `path:"skill"`
}

func (h *agentHandlers) unassignSkill(ctx context.Context, input *unassignInput) (*rest.None, error) {
	agentID, err := h.FindAgentID(ctx, input.Agent)
	if err != nil {
		return nil, err
	}
	skill, err := h.FindSkill(ctx, input.Skill)
	if err != nil {
		return nil, err
	}
	return nil, h.Agents.Unassign(ctx, rest.CallerOf(ctx).Actor(), agentID, skill.ID)
}
