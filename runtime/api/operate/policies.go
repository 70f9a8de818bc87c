package operate

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type policyHandlers struct {
	*rest.Directory
}

// Policy says who has to approve a call.
type Policy struct {
	Name string `json:"name"`
	PolicySettings
	Revision  int64            `json:"revision" doc:"Greater than that of every change of any policy or rule before it."`
	ChangedAt time.Time        `json:"changed_at"`
	ChangedBy *rest.PersonName `json:"changed_by" doc:"Null: unknown."`
	UsedBy    []string         `json:"used_by" nullable:"false" doc:"Rules, skills and tools that have it, such as \"rule big-payments\"."`
}

// PolicySettings is what a policy says.
type PolicySettings struct {
	Any              []PolicyAlternative `json:"any" nullable:"false" minItems:"1" doc:"Alternatives. One of them has to be met."`
	Rejections       int                 `json:"rejections,omitempty" minimum:"0" doc:"The number of people whose rejections end a call; 0 is 1."`
	ApprovalTimeout  *agent.Duration     `json:"approval_timeout,omitempty" doc:"Time for the decision, such as 1h; null: the skill's."`
	ApprovalValidity *agent.Duration     `json:"approval_validity,omitempty" doc:"How long an approved call may be sent after the decision; null: the skill's."`
	BreakGlass       bool                `json:"break_glass,omitempty" doc:"Any one reviewer may approve alone, with a reason. Another person has to review that later."`
}

// PolicyAlternative is met when different people meet all of its lines.
type PolicyAlternative struct {
	All []PolicyLine `json:"all" nullable:"false" minItems:"1"`
}

// PolicyLine asks for approvals.
type PolicyLine struct {
	Count  int      `json:"count" minimum:"1"`
	Teams  []string `json:"teams,omitempty" doc:"Members of one of these teams count. Without teams and people, any reviewer does."`
	People []string `json:"people,omitempty" doc:"So do these people: email addresses that the identity provider calls verified, or names of people of Holdpoint itself."`
}

// PolicyVersion is one version of a policy.
type PolicyVersion struct {
	Revision  int64              `json:"revision"`
	ChangedAt time.Time          `json:"changed_at"`
	ChangedBy *rest.PersonName   `json:"changed_by" doc:"Null: unknown."`
	Policy    *PolicyVersionSpec `json:"policy" doc:"Null: the policy was deleted."`
}

// PolicyVersionSpec is what a version of a policy says.
type PolicyVersionSpec struct {
	_ struct{} `nullable:"true"`
	PolicySettings
}

func newPolicySettings(spec *policy.Spec) PolicySettings {
	settings := PolicySettings{
		Rejections: spec.Rejections, ApprovalTimeout: spec.ApprovalTimeout, ApprovalValidity: spec.ApprovalValidity, BreakGlass: spec.BreakGlass,
	}
	for i := range spec.Any {
		var alternative PolicyAlternative
		for _, line := range spec.Any[i].All {
			alternative.All = append(alternative.All, PolicyLine(line))
		}
		settings.Any = append(settings.Any, alternative)
	}
	return settings
}

func (p *PolicySettings) spec(name string) policy.Spec {
	spec := policy.Spec{
		Name: name, Rejections: p.Rejections, ApprovalTimeout: p.ApprovalTimeout, ApprovalValidity: p.ApprovalValidity, BreakGlass: p.BreakGlass,
	}
	for i := range p.Any {
		var alternative policy.Alternative
		for _, line := range p.Any[i].All {
			alternative.All = append(alternative.All, policy.Line(line))
		}
		spec.Any = append(spec.Any, alternative)
	}
	return spec
}

// policyView returns a function that presents versions of policies, which are not deleted.
func (h *policyHandlers) policyView(ctx context.Context, versions ...agent.PolicyVersion) (func(agent.PolicyVersion) Policy, error) {
	names, err := nameChangers(ctx, h.Directory, versions)
	if err != nil {
		return nil, err
	}
	found, err := h.Agents.FindPolicyUsers(ctx)
	if err != nil {
		return nil, err
	}
	users := map[string][]string{}
	for name, list := range found {
		for _, user := range list {
			users[name] = append(users[name], user.String())
		}
	}
	return func(v agent.PolicyVersion) Policy {
		return Policy{
			Name: v.Name, PolicySettings: newPolicySettings(v.Spec), Revision: v.Revision, ChangedAt: v.ChangedAt.UTC(),
			ChangedBy: names.RefOf(v.ChangedBy), UsedBy: rest.OrEmpty(users[v.Name]),
		}
	}, nil
}

func (h *policyHandlers) onePolicy(ctx context.Context, version agent.PolicyVersion) (*rest.Output[Policy], error) {
	view, err := h.policyView(ctx, version)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(version)), nil
}

// listPolicies has no pages: there are at most [agent.MaxPolicies].
func (h *policyHandlers) listPolicies(ctx context.Context, _ *rest.None) (*rest.ListOutput[Policy], error) {
	policies, err := h.Agents.ListPolicies(ctx)
	if err != nil {
		return nil, err
	}
	view, err := h.policyView(ctx, policies...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(policies, "", view), nil
}

func (h *policyHandlers) getPolicy(ctx context.Context, input *rest.ByName) (*rest.Output[Policy], error) {
	versions, err := h.readVersions(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	if versions[0].Spec == nil {
		return nil, rest.NotFound("policy", input.Name)
	}
	return h.onePolicy(ctx, versions[0])
}

func (h *policyHandlers) readVersions(ctx context.Context, name string) ([]agent.PolicyVersion, error) {
	if err := rest.CheckStorable("path.name", name); err != nil {
		return nil, err
	}
	versions, err := h.Agents.PolicyHistory(ctx, name)
	return versions, rest.WithName(err, "policy", name)
}

type setPolicyInput struct {
	rest.ByName
	Body struct {
		PolicySettings
		Revision *int64 `json:"revision,omitempty" doc:"The policy's revision, or 0 if there must be none: a policy with another revision is not replaced (409). Omitted: any."`
	} `nameHint:"PolicyRequest"`
}

func (h *policyHandlers) setPolicy(ctx context.Context, input *setPolicyInput) (*rest.Output[Policy], error) {
	set, err := h.Agents.SetPolicy(ctx, rest.CallerOf(ctx).Actor(), input.Body.spec(input.Name), input.Body.Revision)
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok {
		return nil, invalidNamed(wrong)
	}
	if err != nil {
		return nil, err
	}
	return h.onePolicy(ctx, set)
}

// invalidNamed is the problem of an invalid body whose name is in the path.
func invalidNamed(wrong *fault.InvalidError) *rest.Problem {
	problem := rest.InvalidFields("body", wrong)
	for i := range problem.Errors {
		if problem.Errors[i].Location == "body.name" {
			problem.Errors[i].Location = "path.name"
		}
	}
	return problem
}

func (h *policyHandlers) deletePolicy(ctx context.Context, input *rest.ByName) (*rest.None, error) {
	if err := rest.CheckStorable("path.name", input.Name); err != nil {
		return nil, err
	}
	err := h.Agents.DeletePolicy(ctx, rest.CallerOf(ctx).Actor(), input.Name)
	if used, ok := errors.AsType[*agent.InUseError](err); ok {
		return nil, rest.NewProblem(http.StatusConflict, rest.CodeStateConflict, "the policy is not deleted: %s", used)
	}
	return nil, rest.WithName(err, "policy", input.Name)
}

// policyHistory has no pages: only the newest 1,000 versions are shown.
func (h *policyHandlers) policyHistory(ctx context.Context, input *rest.ByName) (*rest.ListOutput[PolicyVersion], error) {
	versions, err := h.readVersions(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	names, err := nameChangers(ctx, h.Directory, versions)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(versions, "", func(v agent.PolicyVersion) PolicyVersion {
		view := PolicyVersion{Revision: v.Revision, ChangedAt: v.ChangedAt.UTC(), ChangedBy: names.RefOf(v.ChangedBy)}
		if v.Spec != nil {
			view.Policy = &PolicyVersionSpec{PolicySettings: newPolicySettings(v.Spec)}
		}
		return view
	}), nil
}
