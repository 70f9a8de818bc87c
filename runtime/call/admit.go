package call

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// target is where a call is sent.
type target struct {
	skill      *agent.Skill
	server     tool.Server
	definition tool.Definition // the present one of the skill's server
	undoLeft   time.Duration   // the time until the call may be claimed; see [Service.Undo]
	open       *openVerdict    // what rules have to know about earlier calls before the call may be claimed; nil: nothing
}

// admission is the result of [Service.admitCall] for a new call, or for one that waited for a connection.
type admission struct {
	target
	refusal *refusal      // nil: the call continues
	connect *tool.Connect // the connection that is missing for the skill or a part of it; nil: none
	verdict rule.Verdict  // that of settings alone while the verdict is open
	grants  []uuid.UUID   // that let the call pass although the verdict parks it, in the order in which they should be used

	policies []policy.Policy // of a call that is parked
}

// admitCall gives a call the present definition of its tool, and checks its arguments, its principal, the request that it would make,
// and the connection of its skill. The attachments of a new call become URLs. The verdict comes last. After an error the call must not
// be sent.
func (s *Service) admitCall(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server, offered tool.Definition) (*admission, error) {
	pins, err := s.Discovery.Status(ctx, skill.ID, c.Tool)
	if err != nil {
		return nil, err
	}
	a := &admission{target: target{skill: skill, server: server.For(c.PrincipalID), definition: offered}}
	if pins.Known && pins.Current != offered.Pin() {
		if a.definition, err = s.Discovery.Definition(ctx, pins.Current); err != nil {
			return nil, err
		}
	}
	c.Pin, c.SkillRevision = a.definition.Pin(), skill.Revision
	if c.Status == "" && !c.GateOnly { // a new call
		if err := s.freezeAttachments(ctx, c, a.definition); err != nil {
			return nil, err
		}
	}
	began := s.Now()
	a.refusal, err = s.checkArguments(ctx, a.definition, c.Arguments)
	s.recordStep(c, StepValidate, began)
	if a.refusal != nil || err != nil {
		return a, err
	}
	if a.refusal = checkPrincipal(c, server); a.refusal != nil {
		return a, nil
	}
	if a.refusal, err = s.previewRequest(ctx, c, a.target); a.refusal != nil || err != nil {
		return a, err
	}
	if a.connect, err = s.checkConnection(ctx, a.server); err != nil {
		return nil, err
	}
	settings := skill.Tools[c.Tool]
	verdict := approval.Judge(approval.Facts{
		AutoApprove: skill.AutoApprove,
		HighRisk:    settings.Risk != "",
		Disabled:    settings.Disabled(),
		Known:       pins.Known,
		Refused:     pins.IsRefused(),
		Accepted:    pins.Known && pins.Current == pins.Accepted,
		EverSeen:    !pins.Accepted.IsZero(),
	})
	if err = s.applyRules(ctx, c, a, verdict); err != nil {
		return nil, err
	}
	c.Rules, c.GrantID = a.verdict.Applied, uuid.Nil
	if a.grants, err = s.findGrants(ctx, c, a); err != nil {
		return nil, err
	}
	if a.verdict.Action != approval.Park && a.verdict.Action != approval.Allow {
		a.refusal = denyByRule(a.verdict)
	}
	return a, nil
}

// checkPrincipal refuses a call without a principal if each person has their own connection to the skill.
func checkPrincipal(c *Call, server tool.Server) *refusal {
	if !server.PerUser || c.PrincipalID != uuid.Nil {
		return nil
	}
	return newDenial(CodeNoPrincipal, "each person has their own connection to this skill, and the call names no person")
}

const definitionRefused = "an operator refused the tool's present definition"

func denyByRule(v rule.Verdict) *refusal {
	switch v.Rule {
	case approval.RuleDenied:
		return newRuleDenial(v)
	case approval.RuleToolGone:
		return newDenial(CodeDefinitionChanged, "the skill server no longer offers this tool")
	case approval.RuleRefused:
		return newDenial(CodeDefinitionChanged, definitionRefused)
	case approval.RuleDisabled:
		return newDenial(CodeToolDisabled, "an operator switched this tool off")
	case approval.RuleGated, approval.RuleHighRisk, approval.RuleDefinitionChanged, approval.RuleNewTool, approval.RuleAutoApproved,
		approval.RuleParked, approval.RuleFailed, approval.RuleAllowed:
	}
	return newDenial(CodeToolDisabled, "the verdict neither denies nor allows this tool: "+string(v.Rule))
}
