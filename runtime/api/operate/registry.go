package operate

import (
	"context"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type applyInput struct {
	Body struct {
		Spec   agent.Spec `json:"spec"`
		DryRun bool       `json:"dry_run,omitempty" doc:"Return the changes, or all errors, without making them."`
	} `nameHint:"ApplyRequest"`
}

func (h *agentHandlers) applySpec(ctx context.Context, input *applyInput) (*rest.ListOutput[agent.Change], error) {
	changes, err := h.Agents.Apply(ctx, rest.CallerOf(ctx).Actor(), input.Body.Spec, input.Body.DryRun)
	if err != nil {
		return nil, rest.InPart("body.spec", err)
	}
	return rest.ListOf(changes, "", func(c agent.Change) agent.Change { return c }), nil
}

type exportOutput struct {
	Body agent.Export `nameHint:"Export"`
}

func (h *agentHandlers) exportSpec(ctx context.Context, _ *struct{}) (*exportOutput, error) {
	export, err := h.Agents.Export(ctx)
	if err != nil {
		return nil, err
	}
	return &exportOutput{Body: export}, nil
}
