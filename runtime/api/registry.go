package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// registryProblem tells what is wrong with what an operator declared. Nil: the error is no such.
func registryProblem(err error) *Problem {
	var spec *agent.InvalidError
	var person *identity.InvalidError
	switch {
	case errors.As(err, &spec):
		return specProblem(spec, "body")
	case errors.As(err, &person):
		field := person.Field
		if field == "name" {
			field = "person"
		}
		return invalid("body."+field, "%s", person.Expected)
	case errors.Is(err, agent.ErrExists):
		return problem(http.StatusConflict, CodeStateConflict, "the name is taken")
	case errors.Is(err, agent.ErrChanged):
		return problem(http.StatusConflict, CodeStateConflict,
			"it was changed since the revision that the change was made for; fetch it again and look at what it says")
	case errors.Is(err, tool.ErrNotFound):
		return problem(http.StatusNotFound, CodeNotFound, "the skill offers no such tool")
	case errors.Is(err, tool.ErrNotCurrent):
		return problem(http.StatusConflict, CodeStateConflict,
			"the skill's server offers another definition by now; look at it before you accept or refuse it")
	}
	return nil
}

// specProblem lists all that is wrong with a spec, which is a part of the request.
func specProblem(spec *agent.InvalidError, part string) *Problem {
	p := problem(http.StatusUnprocessableEntity, CodeInvalidRequest, "%s", spec.Error())
	for _, wrong := range spec.Problems {
		p.Errors = append(p.Errors, ProblemField{Location: part + "." + wrong.Path, Message: wrong.Message})
	}
	return p
}

func isNotFound(err error) bool {
	for _, target := range []error{
		agent.ErrNotFound, call.ErrNotFound, approval.ErrNotFound, identity.ErrNotFound, oauthclient.ErrNotFound, notify.ErrNotFound,
		callback.ErrNotFound, file.ErrNotFound, converse.ErrNotFound,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// named says in a not-found error what was not found.
func named(err error, subject, name string) error {
	if isNotFound(err) {
		return notFound(subject, name)
	}
	return err
}

func (a *API) agentID(ctx context.Context, name string) (uuid.UUID, error) {
	found, err := a.agents.AgentByName(ctx, name)
	if err != nil {
		return uuid.Nil, named(err, "agent", name)
	}
	return found.ID, nil
}

func (a *API) skill(ctx context.Context, name string) (*agent.Skill, error) {
	found, err := a.agents.SkillByName(ctx, name)
	return found, named(err, "skill", name)
}

type applyInput struct {
	Body struct {
		Spec   agent.Spec `json:"spec"`
		DryRun bool       `json:"dry_run,omitempty" doc:"Tell what would change, and change nothing."`
	} `nameHint:"ApplyRequest"`
}

func (a *API) apply(ctx context.Context, input *applyInput) (*listOutput[agent.Change], error) {
	changes, err := a.agents.Apply(ctx, callerOf(ctx).actor(), input.Body.Spec, input.Body.DryRun)
	if spec, ok := errors.AsType[*agent.InvalidError](err); ok {
		return nil, specProblem(spec, "body.spec")
	}
	if err != nil {
		return nil, err
	}
	return listOf(changes, "", func(c agent.Change) agent.Change { return c }), nil
}
