package api

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
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// SkillTool is one tool that a skill's server offers, or offered.
type SkillTool struct {
	Name        string             `json:"name" doc:"The skill's own name of it."`
	State       string             `json:"state" enum:"accepted,changed,new,refused,removed" doc:"Calls of changed and new tools are parked until an operator accepts the definition; those of refused ones are denied."`
	Pin         string             `json:"pin" doc:"Digest of the definition that the server offers, in hex."`
	AcceptedPin *string            `json:"accepted_pin" doc:"Digest of the definition that was accepted."`
	Definition  json.RawMessage    `json:"definition" doc:"As the server wrote it."`
	Accepted    json.RawMessage    `json:"accepted_definition" doc:"Of changed and refused tools: what was accepted, where that is another; else null."`
	Settings    agent.ToolSettings `json:"settings" doc:"What an operator says of it."`
	FirstSeen   time.Time          `json:"first_seen" doc:"When the server offered the tool first."`
	ChangedAt   time.Time          `json:"changed_at" doc:"Since when it has its present definition."`
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
	ByName
	Refresh bool `query:"refresh" doc:"For operators: ask the skill's server anew, as the caller reaches it."`
}

func (a *API) listSkillTools(ctx context.Context, input *listSkillToolsInput) (*listOutput[SkillTool], error) {
	skill, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	if input.Refresh {
		if !callerOf(ctx).has(identity.Operator) {
			return nil, problem(http.StatusForbidden, CodeForbidden, "refresh: an operator has a skill's server asked")
		}
		// That its server failed is no error here: the skill's health says so.
		if _, err := a.agents.ListAnew(ctx, skill.ID, callerOf(ctx).personID()); err != nil {
			return nil, err
		}
	}
	records, err := a.discovery.Records(ctx, skill.ID)
	if err != nil {
		return nil, err
	}
	definitions, err := a.discovery.Definitions(ctx, pinsOf(records))
	if err != nil {
		return nil, err
	}
	return listOf(records, "", func(r tool.Record) SkillTool { return newSkillTool(&r, definitions, skill.Tools[r.Name]) }), nil
}

func newSkillTool(s *tool.Record, definitions map[tool.Pin]tool.Definition, settings agent.ToolSettings) SkillTool {
	view := SkillTool{
		Name: s.Name, State: stateOf(s.PinStatus), Pin: s.Current.String(), Definition: definitions[s.Current].Raw(), Settings: settings,
		FirstSeen: s.FirstSeen.UTC(), ChangedAt: s.Changed.UTC(),
	}
	if !s.Accepted.IsZero() {
		view.AcceptedPin = orNull(s.Accepted.String())
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
	ByName
	Tool string `path:"tool"`
	Body struct {
		Pin string `json:"pin" doc:"Of the definition that you looked at."`
	} `nameHint:"AcceptRequest"`
}

func (a *API) acceptTool(ctx context.Context, input *settleToolInput) (*bodyOutput[SkillTool], error) {
	return a.settleTool(ctx, input, a.agents.AcceptTool)
}

func (a *API) refuseTool(ctx context.Context, input *settleToolInput) (*bodyOutput[SkillTool], error) {
	return a.settleTool(ctx, input, a.agents.RefuseTool)
}

func (a *API) settleTool(ctx context.Context, input *settleToolInput,
	settle func(context.Context, audit.Actor, uuid.UUID, string, tool.Pin) error,
) (*bodyOutput[SkillTool], error) {
	skill, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	pin, err := tool.ParsePin(input.Body.Pin)
	if err != nil {
		return nil, invalid("body.pin", "expected the pin of the definition, 64 hex digits")
	}
	if err := storable("path.tool", input.Tool); err != nil {
		return nil, err
	}
	if err := settle(ctx, callerOf(ctx).actor(), skill.ID, input.Tool, pin); err != nil {
		return nil, err
	}
	return a.skillTool(ctx, skill, input.Tool)
}

func (a *API) skillTool(ctx context.Context, skill *agent.Skill, name string) (*bodyOutput[SkillTool], error) {
	records, err := a.discovery.Records(ctx, skill.ID)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(records, func(r tool.Record) bool { return r.Name == name })
	if i < 0 {
		return nil, notFound("tool", name)
	}
	definitions, err := a.discovery.Definitions(ctx, pinsOf(records[i:i+1]))
	if err != nil {
		return nil, err
	}
	return output(newSkillTool(&records[i], definitions, skill.Tools[name])), nil
}

type updateToolInput struct {
	ByName
	Tool string `path:"tool"`
	Body agent.ToolPatch
}

func (a *API) updateTool(ctx context.Context, input *updateToolInput) (*bodyOutput[Skill], error) {
	if err := storable("path.tool", input.Tool); err != nil {
		return nil, err
	}
	found, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	changed, err := a.agents.UpdateTool(ctx, callerOf(ctx).actor(), found.ID, input.Tool, input.Body)
	if err != nil {
		return nil, err
	}
	return output(newSkill(*changed)), nil
}

// Probe is what came of connecting to a skill's server.
type Probe struct {
	OK    bool        `json:"ok"`
	Steps []ProbeStep `json:"steps" nullable:"false"`
}

// ProbeStep is one step of it.
type ProbeStep struct {
	Name   string  `json:"name"`
	Detail string  `json:"detail"`
	Took   string  `json:"took" doc:"How long it took: 12ms."`
	Error  *string `json:"error" doc:"Why it failed; null when it did not."`
}

func (a *API) probeSkill(ctx context.Context, input *ByName) (*bodyOutput[Probe], error) {
	found, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	probe := Probe{OK: true, Steps: []ProbeStep{}}
	err = a.agents.Probe(ctx, found.ID, callerOf(ctx).personID(), func(s tool.Step) {
		probe.OK = probe.OK && s.Err == nil
		probe.Steps = append(probe.Steps, newProbeStep(s))
	})
	if errors.Is(err, tool.ErrNoSource) {
		return nil, problem(http.StatusUnprocessableEntity, CodeNotAvailable,
			"skills of transport %s are not available on this server", found.Transport)
	}
	if err != nil {
		return nil, named(err, "skill", input.Name)
	}
	return output(probe), nil
}
