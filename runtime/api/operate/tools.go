package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// SkillTool is one tool that a skill's server offers, or offered.
type SkillTool struct {
	Name        string             `json:"name" doc:"The skill's own name for the tool."`
	State       string             `json:"state" enum:"accepted,changed,new,refused,removed" doc:"Calls of changed and new tools are parked until an operator accepts the definition; calls of refused tools are denied."`
	Pin         string             `json:"pin" doc:"Digest of the current definition, in hex."`
	AcceptedPin *string            `json:"accepted_pin" doc:"Digest of the accepted definition."`
	Definition  json.RawMessage    `json:"definition" doc:"Unchanged from the server."`
	Accepted    json.RawMessage    `json:"accepted_definition" doc:"For changed and refused tools: the accepted definition, if it differs; otherwise null."`
	Settings    agent.ToolSettings `json:"settings" doc:"The operator's settings of it."`
	FirstSeen   time.Time          `json:"first_seen" doc:"When the server first listed the tool."`
	ChangedAt   time.Time          `json:"changed_at" doc:"When its definition last changed."`
}

func stateOf(s tool.PinStatus) string {
	switch {
	case !s.Known:
		return "removed"
	case s.IsRefused():
		return "refused"
	case s.Accepted.IsZero():
		return "new"
	case s.Current != s.Accepted:
		return "changed"
	}
	return "accepted"
}

type listSkillToolsInput struct {
	rest.ByName
	Refresh bool `query:"refresh" doc:"For operators: ask the skill's server again, with the caller's connection."`
}

func (h *skillHandlers) listSkillTools(ctx context.Context, input *listSkillToolsInput) (*rest.ListOutput[SkillTool], error) {
	skill, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	if input.Refresh {
		if !rest.CallerOf(ctx).HasRole(identity.Operator) {
			return nil, rest.NewProblem(http.StatusForbidden, rest.CodeForbidden, "refresh: only operators can refresh the tools of a skill")
		}
		// That its server failed is no error here: the skill's health says so.
		if _, err := h.trials.ListAgain(ctx, skill.ID, rest.CallerOf(ctx).PersonID()); err != nil {
			return nil, err
		}
	}
	records, err := h.discovery.Records(ctx, skill.ID)
	if err != nil {
		return nil, err
	}
	definitions, err := h.discovery.Definitions(ctx, pinsOf(records))
	if err != nil {
		return nil, err
	}
	return rest.ListOf(records, "", func(r tool.Record) SkillTool { return newSkillTool(&r, definitions, skill.Tools[r.Name]) }), nil
}

func newSkillTool(s *tool.Record, definitions map[tool.Pin]tool.Definition, settings agent.ToolSettings) SkillTool {
	view := SkillTool{
		Name: s.Name, State: stateOf(s.PinStatus), Pin: s.Current.String(), Definition: definitions[s.Current].Raw(), Settings: settings,
		FirstSeen: s.FirstSeen.UTC(), ChangedAt: s.Changed.UTC(),
	}
	if !s.Accepted.IsZero() {
		view.AcceptedPin = rest.OrNull(s.Accepted.String())
	}
	if s.Known && !s.Accepted.IsZero() && s.Accepted != s.Current {
		view.Accepted = definitions[s.Accepted].Raw()
	}
	return view
}

func pinsOf(records []tool.Record) []tool.Pin {
	var pins []tool.Pin
	for _, s := range records {
		pins = append(pins, s.Current)
		if !s.Accepted.IsZero() {
			pins = append(pins, s.Accepted)
		}
	}
	slices.SortFunc(pins, func(a, b tool.Pin) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(pins)
}

type settleToolInput struct {
	rest.ByName
	Tool string `path:"tool"`
	Body struct {
		Pin string `json:"pin" doc:"The pin of the definition that you reviewed."`
	} `nameHint:"AcceptRequest"`
}

func (h *skillHandlers) acceptTool(ctx context.Context, input *settleToolInput) (*rest.Output[SkillTool], error) {
	return h.settleTool(ctx, input, h.Agents.AcceptTool)
}

func (h *skillHandlers) refuseTool(ctx context.Context, input *settleToolInput) (*rest.Output[SkillTool], error) {
	return h.settleTool(ctx, input, h.Agents.RefuseTool)
}

func (h *skillHandlers) settleTool(ctx context.Context, input *settleToolInput,
	settle func(context.Context, audit.Actor, uuid.UUID, string, tool.Pin) error,
) (*rest.Output[SkillTool], error) {
	skill, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	pin, err := tool.ParsePin(input.Body.Pin)
	if err != nil {
		return nil, rest.InvalidField("body.pin", "must be the pin of the definition, 64 hex digits")
	}
	if err := rest.CheckStorable("path.tool", input.Tool); err != nil {
		return nil, err
	}
	if err := settle(ctx, rest.CallerOf(ctx).Actor(), skill.ID, input.Tool, pin); err != nil {
		return nil, err
	}
	records, err := h.discovery.Records(ctx, skill.ID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(records, func(r tool.Record) bool { return r.Name == input.Tool })
	if i < 0 {
		return nil, rest.NotFound("tool", input.Tool)
	}
	definitions, err := h.discovery.Definitions(ctx, pinsOf(records[i:i+1]))
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(newSkillTool(&records[i], definitions, skill.Tools[input.Tool])), nil
}

type updateToolInput struct {
	rest.ByName
	Tool string `path:"tool"`
	Body agent.ToolPatch
}

func (h *skillHandlers) updateTool(ctx context.Context, input *updateToolInput) (*rest.Output[Skill], error) {
	if err := rest.CheckStorable("path.tool", input.Tool); err != nil {
		return nil, err
	}
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	changed, err := h.Agents.UpdateTool(ctx, rest.CallerOf(ctx).Actor(), found.ID, input.Tool, input.Body)
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	return rest.NewOutput(newSkill(*changed)), nil
}

// Probe is the result of connecting to a skill's server.
type Probe struct {
	OK    bool        `json:"ok"`
	Steps []ProbeStep `json:"steps" nullable:"false"`
}

// ProbeStep is one step of a probe or a trial.
type ProbeStep struct {
	Name   string  `json:"name"`
	Detail string  `json:"detail"`
	Took   string  `json:"took" doc:"The duration: 12ms."`
	Error  *string `json:"error" doc:"The error; null if it succeeded."`
}

func (h *skillHandlers) probeSkill(ctx context.Context, input *rest.ByName) (*rest.Output[Probe], error) {
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	probe := Probe{OK: true, Steps: []ProbeStep{}}
	err = h.trials.Probe(ctx, found.ID, rest.CallerOf(ctx).PersonID(), func(s tool.Step) {
		probe.OK = probe.OK && s.Err == nil
		probe.Steps = append(probe.Steps, newProbeStep(s))
	})
	if errors.Is(err, tool.ErrNoSource) {
		return nil, rest.NewProblem(http.StatusUnprocessableEntity, rest.CodeNotAvailable,
			"skills of transport %s are not available on this server", found.Transport)
	}
	if err != nil {
		return nil, rest.WithName(err, "skill", input.Name)
	}
	return rest.NewOutput(probe), nil
}
