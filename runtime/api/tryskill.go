package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Trial is one call of a skill over an HTTP API that an operator tries.
type Trial struct {
	Tool      string          `json:"tool" doc:"One that reads, with GET or HEAD."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"An object; default {}."`
}

// Tried is what came of a trial.
type Tried struct {
	Request Outgoing        `json:"request" doc:"That was sent."`
	Result  json.RawMessage `json:"result" doc:"The tool's result, as an agent would get it; null: there was none."`
	IsError bool            `json:"is_error" doc:"The API answered with an error, which the result tells."`
	Failure *string         `json:"failure" doc:"Why there is no result."`
	Status  *int            `json:"status" doc:"HTTP status of the answer."`
	Steps   []ProbeStep     `json:"steps" nullable:"false" doc:"How long each step took."`
}

type examineInput struct {
	Body struct {
		Spec     string `json:"spec,omitempty" doc:"URL of the document. This or document."`
		Document string `json:"document,omitempty" doc:"The document itself, JSON or YAML, of at most 32 MiB."`
	} `nameHint:"ExamineRequest"`
}

func (a *API) examineDocument(ctx context.Context, input *examineInput) (*bodyOutput[setting.Examination], error) {
	found, err := a.agents.Examine(ctx, input.Body.Spec, input.Body.Document)
	if errors.Is(err, tool.ErrNoSource) {
		return nil, problem(http.StatusUnprocessableEntity, CodeNotAvailable, "skills of transport %s are not available on this server", tool.OpenAPI)
	}
	if err != nil {
		return nil, err
	}
	found.Servers, found.SecuritySchemes, found.Operations = orEmpty(found.Servers), orEmpty(found.SecuritySchemes), orEmpty(found.Operations)
	return output(*found), nil
}

type trySkillInput struct {
	ByName
	Body Trial
}

func (a *API) trySkill(ctx context.Context, input *trySkillInput) (*bodyOutput[Tried], error) {
	found, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	tried, err := a.agents.Try(ctx, callerOf(ctx).actor(), found.ID, input.Body.trial(ctx))
	return triedOutput(tried, err, found.Transport, input.Body.Tool)
}

type tryDraftInput struct {
	Body struct {
		Trial
		Skill agent.SkillSpec `json:"skill" doc:"That is not registered."`
	} `nameHint:"DraftTrial"`
}

func (a *API) tryDraft(ctx context.Context, input *tryDraftInput) (*bodyOutput[Tried], error) {
	tried, err := a.agents.TryDraft(ctx, callerOf(ctx).actor(), input.Body.Skill, input.Body.trial(ctx))
	if wrong, ok := errors.AsType[*agent.InvalidError](err); ok {
		err = withinDraft(wrong)
	}
	return triedOutput(tried, err, input.Body.Skill.Transport, input.Body.Tool)
}

// withinDraft says of the skill's fields that they are its own; tool and arguments are the trial's, and no skill has such fields.
func withinDraft(wrong *agent.InvalidError) error {
	located := &agent.InvalidError{Problems: slices.Clone(wrong.Problems)}
	for i, p := range located.Problems {
		if p.Path != "tool" && p.Path != "arguments" {
			located.Problems[i].Path = "skill." + p.Path
		}
	}
	return located
}

func (t Trial) trial(ctx context.Context) agent.Trial {
	arguments := t.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return agent.Trial{Tool: t.Tool, Arguments: arguments, Person: callerOf(ctx).personID()}
}

func triedOutput(tried *agent.Tried, err error, transport tool.Transport, name string) (*bodyOutput[Tried], error) {
	var failure *tool.Failure
	switch {
	case errors.Is(err, tool.ErrNoSource):
		return nil, problem(http.StatusUnprocessableEntity, CodeNotAvailable, "skills of transport %s are not available on this server", transport)
	case errors.Is(err, tool.ErrNotFound):
		return nil, invalid("body.tool", "expected a tool of the skill; %q is none", name)
	case errors.As(err, &failure):
		return nil, problem(http.StatusUnprocessableEntity, CodeNotAvailable, "the tools cannot be listed: %s", failure.Message)
	case err != nil:
		return nil, err
	}
	view := Tried{Request: *newOutgoing(&tried.Request), Steps: []ProbeStep{}, Result: tried.Result.Raw, IsError: tried.Result.IsError}
	exchange := tried.Result.Exchange
	if f := tried.Failure; f != nil {
		view.Failure, exchange = orNull(f.Message), f.Exchange
	}
	if exchange.Status != 0 {
		view.Status = &exchange.Status
	}
	for _, s := range exchange.Steps {
		view.Steps = append(view.Steps, newProbeStep(s))
	}
	return output(view), nil
}

func newProbeStep(s tool.Step) ProbeStep {
	step := ProbeStep{Name: s.Name, Detail: s.Detail, Took: s.Took.Round(time.Microsecond).String()}
	if s.Err != nil {
		step.Error = orNull(s.Err.Error())
	}
	return step
}
