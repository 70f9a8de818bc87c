package api

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Assignment lets an agent use a skill.
type Assignment struct {
	Agent  string   `json:"agent"`
	Skill  string   `json:"skill"`
	Tools  []string `json:"tools" doc:"Only these; null: all of them."`
	Prefix *string  `json:"prefix" doc:"Of its tools' names; null: the skill's name."`
}

func newAssignment(x agent.Assignment) Assignment {
	return Assignment{Agent: x.Agent, Skill: x.Skill, Tools: x.Tools, Prefix: x.Prefix}
}

type listAssignmentsInput struct {
	Agent string `query:"agent" doc:"Only those of the agent of this name."`
}

func (a *API) listAssignments(ctx context.Context, input *listAssignmentsInput) (*listOutput[Assignment], error) {
	id := uuid.Nil
	if input.Agent != "" {
		var err error
		if id, err = a.agentID(ctx, input.Agent); err != nil {
			return nil, err
		}
	}
	found, err := a.agents.Assignments(ctx, id)
	if err != nil {
		return nil, err
	}
	return listOf(found, "", newAssignment), nil
}

type assignInput struct {
	Body struct {
		Agent  string   `json:"agent"`
		Skill  string   `json:"skill"`
		Tools  []string `json:"tools,omitempty" doc:"Only these; left out or null: all of them."`
		Prefix *string  `json:"prefix,omitempty" nullable:"true" doc:"Of its tools' names; left out or null: the skill's name."`

		Revision *int64 `json:"revision,omitempty" doc:"Of the agent, for which the change is made: where it has another by now, nothing is changed (409). Left out: whichever it has."`
	} `nameHint:"AssignRequest"`
}

func (a *API) assign(ctx context.Context, input *assignInput) (*bodyOutput[Assignment], error) {
	found, err := a.agents.AgentByName(ctx, input.Body.Agent)
	if isNotFound(err) {
		return nil, invalid("body.agent", "there is no agent named %q", input.Body.Agent)
	}
	if err != nil {
		return nil, err
	}
	made, err := a.agents.Assign(ctx, callerOf(ctx).actor(), found.ID, agent.AssignmentSpec{
		Skill: input.Body.Skill, Tools: input.Body.Tools, Prefix: input.Body.Prefix,
	}, input.Body.Revision)
	if err != nil {
		return nil, err
	}
	return output(newAssignment(made)), nil
}

type unassignInput struct {
	Agent string `path:"agent"`
	Skill string `path:"skill"`
}

func (a *API) unassign(ctx context.Context, input *unassignInput) (*none, error) {
	agentID, err := a.agentID(ctx, input.Agent)
	if err != nil {
		return nil, err
	}
	skill, err := a.skill(ctx, input.Skill)
	if err != nil {
		return nil, err
	}
	return nil, a.agents.Unassign(ctx, callerOf(ctx).actor(), agentID, skill.ID)
}
