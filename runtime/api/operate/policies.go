package operate

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type policyHandlers struct {
	*versionHandlers[policy.Spec, PolicyVersion]
}

func newPolicyHandlers(d *rest.Directory) *policyHandlers {
	return &policyHandlers{&versionHandlers[policy.Spec, PolicyVersion]{d, "policy", d.Agents.PolicyHistory, d.Agents.DeletePolicy, newPolicyVersion}}
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

func newPolicyVersion(v agent.PolicyVersion, by *rest.PersonName) PolicyVersion {
	view := PolicyVersion{Revision: v.Revision, ChangedAt: v.ChangedAt.UTC(), ChangedBy: by}
	if v.Spec != nil {
		view.Policy = &PolicyVersionSpec{PolicySettings: newPolicySettings(v.Spec)}
	}
	return view
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

// policyViews returns a function that presents versions of policies, which are not deleted.
func (h *policyHandlers) policyViews(ctx context.Context, versions ...agent.PolicyVersion) (func(agent.PolicyVersion) Policy, error) {
	names, err := h.nameChangers(ctx, versions)
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

// listPolicies has no pages: there are at most [agent.MaxPolicies].
func (h *policyHandlers) listPolicies(ctx context.Context, _ *rest.None) (*rest.ListOutput[Policy], error) {
	policies, err := h.Agents.ListPolicies(ctx)
	return presentAll(ctx, policies, err, h.policyViews)
}

func (h *policyHandlers) getPolicy(ctx context.Context, input *rest.ByName) (*rest.Output[Policy], error) {
	versions, err := h.readPresent(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return presentOne(ctx, versions[0], nil, h.policyViews)
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
	return presentOne(ctx, set, invalidNamed(err), h.policyViews)
}
