package call

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// admission says how a call goes on that is new, or that waited for a connection.
type admission struct {
	server     tool.Server
	definition tool.Definition // what the skill's server offers now
	refusal    *refusal        // the call ends; nil: it goes on
	connect    *tool.Connect   // somebody has to connect the skill, or a part of it; nil: it is connected
	verdict    approval.Verdict
}

// admit gives a call the present definition of its tool and checks it: its arguments, its principal, the request that it would make, the
// connection of its skill. The verdict comes last. An error means that the call must not be sent.
func (s *Service) admit(ctx context.Context, c *Call, skill *agent.Skill, server tool.Server, offered tool.Definition) (*admission, error) {
	pins, err := s.Discovery.Status(ctx, skill.ID, c.Tool)
	if err != nil {
		return nil, err
	}
	a := &admission{server: server.For(c.PrincipalID), definition: offered}
	if pins.Known && pins.Current != offered.Pin() {
		if a.definition, err = s.Discovery.Definition(ctx, pins.Current); err != nil {
			return nil, err
		}
	}
	c.Pin, c.SkillRevision = a.definition.Pin(), skill.Revision
	if a.refusal, err = s.checkCall(ctx, c, a.definition); a.refusal != nil || err != nil {
		return a, err
	}
	if a.refusal = checkPrincipal(c, server); a.refusal != nil {
		return a, nil
	}
	if a.refusal, err = s.draw(ctx, c, skill, a.server, a.definition); a.refusal != nil || err != nil {
		return a, err
	}
	if a.connect, err = s.missing(ctx, a.server); err != nil {
		return nil, err
	}
	settings := skill.Tools[c.Tool]
	a.verdict = approval.Judge(approval.Question{
		AutoApprove: skill.AutoApprove,
		HighRisk:    settings.Risk != "",
		Disabled:    settings.Disabled(),
		Known:       pins.Known,
		Refused:     pins.IsRefused(),
		Accepted:    pins.Known && pins.Current == pins.Accepted,
		EverSeen:    !pins.Accepted.IsZero(),
	})
	if a.verdict.Action != approval.Park && a.verdict.Action != approval.Allow {
		a.refusal = denial(a.verdict.Rule)
	}
	return a, nil
}

// checkPrincipal refuses a call for nobody of a skill to which each person has a connection of their own.
func checkPrincipal(c *Call, server tool.Server) *refusal {
	if !server.PerUser || c.PrincipalID != uuid.Nil {
		return nil
	}
	return denied(CodeNoPrincipal, "each person has a connection of their own to this skill, and the agent acts on nobody's behalf")
}

// checkCall freezes the attachments of a new call, and checks the arguments.
func (s *Service) checkCall(ctx context.Context, c *Call, definition tool.Definition) (*refusal, error) {
	if c.Status == "" {
		if err := s.freeze(ctx, c, definition); err != nil {
			return nil, err
		}
	}
	schemas, err := s.schemas.get(definition)
	if err != nil {
		return nil, err
	}
	return s.validate(ctx, c, schemas)
}

const definitionRefused = "an operator refused the tool's present definition"

func denial(rule approval.Rule) *refusal {
	switch rule {
	case approval.RuleToolGone:
		return denied(CodeDefinitionChanged, "the skill server no longer offers this tool")
	case approval.RuleRefused:
		return denied(CodeDefinitionChanged, definitionRefused)
	case approval.RuleDisabled:
		return denied(CodeToolDisabled, "an operator switched this tool off")
	case approval.RuleGated, approval.RuleHighRisk, approval.RuleDefinitionChanged, approval.RuleNewTool, approval.RuleAutoApproved:
	}
	return denied(CodeToolDisabled, "the verdict on this tool denies nothing, and lets nothing pass: "+string(rule))
}
