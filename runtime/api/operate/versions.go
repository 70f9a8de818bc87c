package operate

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

// versionHandlers read and delete rules or policies, of which all versions are kept. S is what a version says, and V how the API shows one.
type versionHandlers[S, V any] struct {
	*rest.Directory

	kind    string // "rule"
	history func(ctx context.Context, name string) ([]agent.Version[S], error)
	remove  func(ctx context.Context, by audit.Actor, name string) error
	view    func(agent.Version[S], *rest.PersonName) V
}

// readHistory returns the versions, the newest first, also of a deleted rule or policy.
func (h *versionHandlers[S, V]) readHistory(ctx context.Context, name string) ([]agent.Version[S], error) {
	if err := rest.CheckStorable("path.name", name); err != nil {
		return nil, err
	}
	versions, err := h.history(ctx, name)
	return versions, rest.WithName(err, h.kind, name)
}

// readPresent is [versionHandlers.readHistory] of a rule or policy that is not deleted.
func (h *versionHandlers[S, V]) readPresent(ctx context.Context, name string) ([]agent.Version[S], error) {
	versions, err := h.readHistory(ctx, name)
	if err == nil && versions[0].Spec == nil {
		err = rest.NotFound(h.kind, name)
	}
	return versions, err
}

// nameChangers names the people who made versions.
func (h *versionHandlers[S, V]) nameChangers(ctx context.Context, versions []agent.Version[S]) (rest.PersonNames, error) {
	people := make([]uuid.UUID, len(versions))
	for i := range versions {
		people[i] = versions[i].ChangedBy
	}
	return h.NamePeople(ctx, people...)
}

// listVersions has no pages: only the newest 1,000 versions are shown.
func (h *versionHandlers[S, V]) listVersions(ctx context.Context, input *rest.ByName) (*rest.ListOutput[V], error) {
	versions, err := h.readHistory(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	names, err := h.nameChangers(ctx, versions)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(versions, "", func(v agent.Version[S]) V { return h.view(v, names.RefOf(v.ChangedBy)) }), nil
}

// deleteOne deletes a rule, or a policy that nothing uses.
func (h *versionHandlers[S, V]) deleteOne(ctx context.Context, input *rest.ByName) (*rest.None, error) {
	if err := rest.CheckStorable("path.name", input.Name); err != nil {
		return nil, err
	}
	err := h.remove(ctx, rest.CallerOf(ctx).Actor(), input.Name)
	if used, ok := errors.AsType[*agent.InUseError](err); ok {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the %s is not deleted: %s", h.kind, used)
	}
	return nil, rest.WithName(err, h.kind, input.Name)
}

// invalidNamed maps the invalid fields of a body whose name is in the path. Other errors are returned unchanged.
func invalidNamed(err error) error {
	wrong, ok := errors.AsType[*fault.InvalidError](err)
	if !ok {
		return err
	}
	problem := rest.InvalidFields("body", wrong)
	for i := range problem.Errors {
		if problem.Errors[i].Location == "body.name" {
			problem.Errors[i].Location = "path.name"
		}
	}
	return problem
}
