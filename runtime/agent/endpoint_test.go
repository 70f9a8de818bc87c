package agent_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

func TestReplyTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, err := w.CreateAgent(t.Context(), operator, agent.AgentSpec{Name: "clerk"})
	check(t, err)
	if a.ErrorStyle != agent.ErrorStyleMCP || a.ReplyTimeout != 0 || a.Limits != (agent.Limits{}) {
		t.Fatalf("made %+v", a)
	}
	for _, step := range []struct {
		what  string
		patch agent.AgentPatch
		want  time.Duration
	}{
		{"codes have a default", agent.AgentPatch{ErrorStyle: new(agent.ErrorStyleCodes)}, agent.DefaultCodesReplyTimeout},
		{"it can be set", agent.AgentPatch{ReplyTimeout: new(agent.Duration(5 * time.Second))}, 5 * time.Second},
		{"it stays with another style", agent.AgentPatch{ErrorStyle: new(agent.ErrorStyleMCP)}, 5 * time.Second},
		{"zero is that of the style", agent.AgentPatch{ReplyTimeout: new(agent.Duration(0))}, 0},
	} {
		a, err = w.UpdateAgent(t.Context(), operator, a.ID, step.patch)
		check(t, err)
		if read := w.registry.Agent("clerk"); a.ReplyLimit() != step.want || read.ReplyLimit() != step.want {
			t.Errorf("%s: %s, and %s from memory; want %s", step.what, a.ReplyLimit(), read.ReplyLimit(), step.want)
		}
	}
}

func TestIdentityHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const on = `{"skills":[{"name":"docs","transport":"http","url":"http://h/","identity_headers":{"enabled":true,"principal":"x-user"}}]}`
	if got := formatFields(w.registry.ApplyJSON(on)[0]); !slices.Contains(got, "identity_headers.agent:  -> X-Holdpoint-Agent") || !slices.Contains(got, "identity_headers.principal:  -> X-User") {
		t.Errorf("%q", got)
	}
	skill, err := w.SkillByName(t.Context(), "docs")
	check(t, err)
	call := uuid.New()
	want := map[string]string{"X-Holdpoint-Agent": "clerk", "X-Holdpoint-Call": call.String(), "X-User": "holdpoint#vera"}
	if got := skill.IdentityHeaders.Of("clerk", call, "holdpoint#vera"); !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if got := skill.IdentityHeaders.Of("clerk", uuid.Nil, ""); !maps.Equal(got, map[string]string{"X-Holdpoint-Agent": "clerk"}) {
		t.Errorf("%v", got)
	}
	off, err := w.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{IdentityHeaders: &agent.IdentityHeaders{Agent: "X-A"}})
	check(t, err)
	if off.IdentityHeaders != (agent.IdentityHeaders{}) || off.IdentityHeaders.Of("clerk", call, "x") != nil {
		t.Errorf("%+v", off.IdentityHeaders)
	}
}

func TestEndpointSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const first = `{"skills":[{"name":"docs","transport":"http","url":"http://h/","resources":"pass"}],
		"agents":[{"name":"clerk","error_style":"codes","reply_timeout":"30s","limits":{"calls_per_minute":60,"concurrency":4,"pending":9}}]}`
	w.registry.ApplyJSON(first)
	a := w.registry.Agent("clerk")
	if a.ErrorStyle != agent.ErrorStyleCodes || a.ReplyTimeout != 30*time.Second || a.Limits != (agent.Limits{CallsPerMinute: 60, Concurrency: 4, Pending: 9}) {
		t.Errorf("made %+v", a)
	}
	skill, err := w.SkillByName(t.Context(), "docs")
	if err != nil || skill.Resources != agent.ResourcesPass {
		t.Errorf("%+v, %v", skill, err)
	}
	changes := w.registry.ApplyJSON(`{"skills":[{"name":"docs","transport":"http","url":"http://h/"}],"agents":[{"name":"clerk","limits":{"concurrency":2}}]}`)
	for i, want := range [][]string{
		{"resources: pass -> gated"},
		{"error_style: codes -> mcp", "limits.concurrency: 4 -> 2", "reply_timeout: 30s -> ", "limits.calls_per_minute: 60 -> ", "limits.pending: 9 -> "},
	} {
		if got := formatFields(changes[i]); !slices.Equal(got, want) {
			t.Errorf("%s: %q", changes[i].Name, got)
		}
	}
}
