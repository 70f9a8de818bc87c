package operate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

// Trial is one call of a skill over an HTTP API that an operator tries.
type Trial struct {
	Tool      string          `json:"tool" doc:"A tool that only reads, with GET or HEAD."`
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"An object; default {}."`
}

// Tried is the result of a trial.
type Tried struct {
	Request rest.Outgoing   `json:"request" doc:"The request that was sent."`
	Result  json.RawMessage `json:"result" doc:"The tool's result, as an agent would get it; null: none."`
	IsError bool            `json:"is_error" doc:"The API responded with an error, which the result contains."`
	Failure *string         `json:"failure" doc:"Why there is no result."`
	Status  *int            `json:"status" doc:"HTTP status of the response."`
	Steps   []ProbeStep     `json:"steps" nullable:"false" doc:"How long each step took."`
}

type examineInput struct {
	Body struct {
		Spec     string `json:"spec,omitempty" doc:"URL of the document. This or document."`
		Document string `json:"document,omitempty" doc:"The document itself, JSON or YAML, of at most 32 MiB."`
	} `nameHint:"ExamineRequest"`
}

func (h *skillHandlers) examineDocument(ctx context.Context, input *examineInput) (*rest.Output[setting.Examination], error) {
	found, err := h.trials.Examine(ctx, input.Body.Spec, input.Body.Document)
	if errors.Is(err, tool.ErrNoSource) {
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeNotAvailable, "skills of transport %s are not available on this server", tool.OpenAPI)
	}
	if err != nil {
		return nil, err
	}
	found.Servers, found.SecuritySchemes, found.Operations = rest.OrEmpty(found.Servers), rest.OrEmpty(found.SecuritySchemes), rest.OrEmpty(found.Operations)
	return rest.NewOutput(*found), nil
}

type trySkillInput struct {
	rest.ByName
	Body Trial
}

func (h *skillHandlers) trySkill(ctx context.Context, input *trySkillInput) (*rest.Output[Tried], error) {
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	tried, err := h.trials.Try(ctx, rest.CallerOf(ctx).Actor(), found.ID, input.Body.request(ctx))
	return triedOutput(tried, err, found.Transport, input.Body.Tool)
}

type tryDraftInput struct {
	Body struct {
		Trial
		Skill agent.SkillSpec `json:"skill" doc:"A skill that is not registered."`
	} `nameHint:"DraftTrial"`
}

func (h *skillHandlers) tryDraft(ctx context.Context, input *tryDraftInput) (*rest.Output[Tried], error) {
	tried, err := h.trials.TryDraft(ctx, rest.CallerOf(ctx).Actor(), input.Body.Skill, input.Body.request(ctx))
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok {
		err = inDraft(wrong)
	}
	return triedOutput(tried, err, input.Body.Skill.Transport, input.Body.Tool)
}

// inDraft names the skill's fields as the request does. tool and arguments are the trial's: no skill has such fields.
func inDraft(wrong *fault.InvalidError) *fault.InvalidError {
	fields := slices.Clone(wrong.Fields)
	for i, f := range fields {
		if f.Name != "tool" && f.Name != "arguments" {
			fields[i].Name = "skill." + f.Name
		}
	}
	return &fault.InvalidError{Fields: fields}
}

func (t Trial) request(ctx context.Context) trial.Request {
	arguments := t.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	return trial.Request{Tool: t.Tool, Arguments: arguments, Person: rest.CallerOf(ctx).PersonID()}
}

func triedOutput(tried *trial.Response, err error, transport tool.Transport, name string) (*rest.Output[Tried], error) {
	var failure *tool.Failure
	switch {
	case errors.Is(err, tool.ErrNoSource):
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeNotAvailable, "skills of transport %s are not available on this server", transport)
	case errors.Is(err, tool.ErrNotFound):
		return nil, rest.InvalidField("body.tool", "must be a tool of the skill; %q is not", name)
	case errors.As(err, &failure):
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeNotAvailable, "the tools cannot be listed: %s", failure.Message)
	case err != nil:
		return nil, rest.InPart("body", err)
	}
	view := Tried{Request: *rest.NewOutgoing(&tried.Request), Steps: []ProbeStep{}, Result: tried.Result.Raw, IsError: tried.Result.IsError}
	exchange := tried.Result.Exchange
	if f := tried.Failure; f != nil {
		view.Failure, exchange = rest.OrNull(f.Message), f.Exchange
	}
	if exchange.Status != 0 {
		view.Status = &exchange.Status
	}
	for _, s := range exchange.Steps {
		view.Steps = append(view.Steps, newProbeStep(s))
	}
	return rest.NewOutput(view), nil
}

func newProbeStep(s tool.Step) ProbeStep {
	step := ProbeStep{Name: s.Name, Detail: s.Detail, Took: s.Took.Round(time.Microsecond).String()}
	if s.Err != nil {
		step.Error = rest.OrNull(s.Err.Error())
	}
	return step
}
