package agent_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

func TestModelSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const first = `{"agents":[{"name":"clerk","model":{"provider":"openai","name":"m","api_key":"geheim","max_tokens":900,"images":false,"input_price":2.5,"output_price":10},
		"limits":{"conversation_turns":30,"conversation_tokens":500000,"conversation_cost":1.5,"conversation_time":"72h"}}]}`
	made := formatFields(w.registry.ApplyJSON(first)[0])
	for _, want := range []string{
		"model.max_tokens:  -> 900", "model.images:  -> false", "model.input_price:  -> 2.5", "model.output_price:  -> 10",
		"limits.conversation_turns:  -> 30", "limits.conversation_tokens:  -> 500000", "limits.conversation_cost:  -> 1.5", "limits.conversation_time:  -> 72h",
	} {
		if !slices.Contains(made, want) {
			t.Errorf("%q is not in %q", want, made)
		}
	}
	clerk := w.registry.Agent("clerk")
	want := agent.Limits{ConversationTurns: 30, ConversationTokens: 500_000, ConversationCost: 1.5, ConversationTime: agent.Duration(72 * time.Hour)}
	if clerk.Limits != want || clerk.Limits.Turns() != 30 {
		t.Errorf("limits %+v", clerk.Limits)
	}
	m, err := w.Model(t.Context(), clerk.ID)
	check(t, err)
	if m.APIKey != "geheim" || m.MaxTokens != 900 || m.Sees() || m.Cost(2_000_000, 100_000) != 6 || strings.Contains(string(clerk.Model), "geheim") {
		t.Errorf("model %+v, shown %s", m, clerk.Model)
	}
	changed, err := w.UpdateAgent(t.Context(), operator, clerk.ID, agent.AgentPatch{
		Model: &agent.ModelSpec{Provider: "openai", Name: "m", Images: new(true)}, Limits: &agent.Limits{},
	})
	check(t, err)
	if m, err = w.Model(t.Context(), clerk.ID); err != nil || m.APIKey != "geheim" || m.MaxTokens != 0 || !m.Sees() || m.InputPrice != 0 {
		t.Errorf("model %+v, %v", m, err)
	}
	if changed.Limits != (agent.Limits{}) || changed.Limits.Turns() != agent.DefaultConversationTurns {
		t.Errorf("limits %+v", changed.Limits)
	}
}

func TestInvalidModelSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	model := func(change func(m *agent.ModelSpec)) agent.AgentSpec {
		m := agent.ModelSpec{Provider: agent.ProviderOpenAI, Name: "m"}
		change(&m)
		return agent.AgentSpec{Name: "clerk", Model: &m}
	}
	limits := func(l agent.Limits) agent.AgentSpec {
		return agent.AgentSpec{Name: "clerk", Model: &agent.ModelSpec{Provider: agent.ProviderOpenAI, Name: "m"}, Limits: &l}
	}
	for want, spec := range map[string]agent.AgentSpec{
		"model.provider must be one of openai, anthropic, scripted": model(func(m *agent.ModelSpec) { m.Provider = "mistral" }),
		"model.name is required":                                    model(func(m *agent.ModelSpec) { m.Name = "" }),
		"model.max_tokens must be":                                  model(func(m *agent.ModelSpec) { m.MaxTokens = -1 }),
		"model.input_price must be":                                 model(func(m *agent.ModelSpec) { m.InputPrice = -0.1 }),
		"model.output_price must be":                                model(func(m *agent.ModelSpec) { m.OutputPrice = 2e6 }),
		"model.base_url must be empty":                              model(func(m *agent.ModelSpec) { m.Provider, m.BaseURL = agent.ProviderScripted, "http://h/" }),
		"model.api_key must be empty":                               model(func(m *agent.ModelSpec) { m.Provider, m.APIKey = agent.ProviderScripted, "k" }),
		"limits.conversation_turns":                                 limits(agent.Limits{ConversationTurns: -1}),
		"limits.conversation_tokens":                                limits(agent.Limits{ConversationTokens: -1}),
		"limits.conversation_cost mu":                               limits(agent.Limits{ConversationCost: -1}),
		"limits.conversation_cost ne":                               limits(agent.Limits{ConversationCost: 1}),
		"limits.conversation_time":                                  limits(agent.Limits{ConversationTime: agent.Duration(time.Millisecond)}),
	} {
		_, err := w.CreateAgent(t.Context(), operator, spec)
		var invalid *fault.InvalidError
		if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || !strings.HasPrefix(invalid.Fields[0].Name+" "+invalid.Fields[0].Expected, want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestModelsWithImages(t *testing.T) {
	t.Parallel()
	for provider, want := range map[string]bool{agent.ProviderOpenAI: true, agent.ProviderAnthropic: true, agent.ProviderScripted: false} {
		if got := (&agent.ModelSpec{Provider: provider}).Sees(); got != want {
			t.Errorf("%s: %t", provider, got)
		}
		if !(&agent.ModelSpec{Provider: provider, Images: new(true)}).Sees() || (&agent.ModelSpec{Provider: provider, Images: new(false)}).Sees() {
			t.Errorf("%s: the setting has no effect", provider)
		}
	}
}

func TestCostIsRounded(t *testing.T) {
	t.Parallel()
	cheap := agent.ModelSpec{InputPrice: 0.7}
	sum := 0.0
	for range 3 {
		sum = agent.RoundCost(sum + cheap.Cost(100, 0))
	}
	text, err := json.Marshal(sum)
	if err != nil || string(text) != "0.00021" {
		t.Errorf("the sum is %s, %v", text, err)
	}
}
