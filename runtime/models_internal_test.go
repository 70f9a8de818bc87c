package runtime

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
)

const (
	ownKey    = "the-servers-own"
	agentsKey = "the-agents"
)

// askingModels is a runtime that only has models.
func askingModels(t *testing.T, defaults ModelDefaults) *Runtime {
	t.Helper()
	scripts := map[string]scripted.Script{"greet": func(*model.Request) (*model.Response, error) {
		return &model.Response{Parts: []model.Part{model.TextPart("Hello.")}}, nil
	}}
	rt := &Runtime{
		Config: Config{Logger: slog.New(slog.DiscardHandler), Now: time.Now, ModelDefaults: defaults},
		models: newModels(scripts), asked: model.NewObserver(telemetry.Off(), time.Now),
	}
	t.Cleanup(rt.models.client.CloseIdleConnections)
	return rt
}

// This server's credential goes to its own model servers only, never to an address of an agent's model.
func TestModelServers(t *testing.T) {
	t.Parallel()
	rt := askingModels(t, ModelDefaults{
		agent.ProviderOpenAI: {BaseURL: "http://own.test/v1", APIKey: ownKey}, agent.ProviderAnthropic: {APIKey: ownKey},
	})
	bare := askingModels(t, nil)
	for what, c := range map[string]struct {
		rt   *Runtime
		spec agent.ModelSpec
		want ModelServer
		err  string
	}{
		"nothing is said":             {rt, agent.ModelSpec{Provider: agent.ProviderOpenAI}, ModelServer{"http://own.test/v1", ownKey}, ""},
		"a key":                       {rt, agent.ModelSpec{Provider: agent.ProviderOpenAI, APIKey: agentsKey}, ModelServer{"http://own.test/v1", agentsKey}, ""},
		"a place":                     {rt, agent.ModelSpec{Provider: agent.ProviderOpenAI, BaseURL: "http://else.test"}, ModelServer{"http://else.test", ""}, ""},
		"the server's own place":      {rt, agent.ModelSpec{Provider: agent.ProviderOpenAI, BaseURL: "http://own.test/v1"}, ModelServer{"http://own.test/v1", ""}, ""},
		"both":                        {rt, agent.ModelSpec{Provider: agent.ProviderOpenAI, BaseURL: "http://else.test", APIKey: agentsKey}, ModelServer{"http://else.test", agentsKey}, ""},
		"nothing, the provider's own": {rt, agent.ModelSpec{Provider: agent.ProviderAnthropic}, ModelServer{"", ownKey}, ""},
		"no key at all":               {bare, agent.ModelSpec{Provider: agent.ProviderAnthropic}, ModelServer{}, "this server has none of its own (ANTHROPIC_API_KEY)"},
		"a place without a key":       {bare, agent.ModelSpec{Provider: agent.ProviderOpenAI, BaseURL: "http://127.0.0.1:11434/v1"}, ModelServer{"http://127.0.0.1:11434/v1", ""}, ""},
	} {
		got, err := c.rt.resolveModelServer(&c.spec)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
}

func TestModelsAreAsked(t *testing.T) {
	t.Parallel()
	server := modelserver.New(func(*modelserver.Request) modelserver.Answer { return modelserver.Answer{Text: "Hello."} })
	server.Key = agentsKey
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)
	rt := askingModels(t, ModelDefaults{agent.ProviderAnthropic: {BaseURL: listening.URL, APIKey: agentsKey}})
	for _, spec := range []agent.ModelSpec{
		{Provider: agent.ProviderOpenAI, Name: "m", BaseURL: listening.URL + "/v1", APIKey: agentsKey},
		{Provider: agent.ProviderAnthropic, Name: "m"},
		{Provider: agent.ProviderScripted, Name: "greet"},
	} {
		for range 2 {
			provider, err := rt.findProvider(spec)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := provider.Generate(t.Context(), &model.Request{
				Model: spec.Name, Messages: []model.Message{{Role: model.User, Parts: []model.Part{model.TextPart("Hi.")}}},
			}, nil)
			if err != nil || answer.Parts[0].Text.Text != "Hello." {
				t.Errorf("%s: %+v, %v", spec.Provider, answer, err)
			}
		}
	}
	if n := len(server.Requests()); n != 4 || len(rt.models.opened) != 3 {
		t.Errorf("%d requests, %d providers, refused %q", n, len(rt.models.opened), server.Refusals())
	}
	for i := range 2 * maxOpenedModels {
		if _, err := rt.findProvider(agent.ModelSpec{Provider: agent.ProviderOpenAI, BaseURL: listening.URL, APIKey: strings.Repeat("k", i+1)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(rt.models.opened); n > maxOpenedModels {
		t.Errorf("%d providers are kept", n)
	}
	for _, spec := range []agent.ModelSpec{{Provider: "mistral", BaseURL: "http://h"}, {Provider: agent.ProviderOpenAI}, {Provider: agent.ProviderOpenAI, BaseURL: "no URL"}} {
		if p, err := rt.findProvider(spec); err == nil {
			t.Errorf("%+v: %v", spec, p)
		}
	}
}
