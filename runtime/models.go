package runtime

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/anthropic"
	"github.com/holdpoint/holdpoint/runtime/model/openai"
	"github.com/holdpoint/holdpoint/runtime/model/scripted"
)

// ModelServer is where models are asked, and with which credential.
type ModelServer struct {
	BaseURL string // empty: the provider's own
	APIKey  string // goes nowhere but there; empty: none
}

// ModelDefaults are this server's own, by provider, for agents whose models name none. Whoever runs the server pays for them.
type ModelDefaults map[string]ModelServer

// models are the providers that were asked. They share the connections.
type models struct {
	client  *http.Client
	scripts scripted.Provider

	mu     sync.Mutex
	opened map[openedModel]model.Provider
}

// openedModel is what providers are told apart by.
type openedModel struct {
	provider string
	server   ModelServer
}

const (
	maxOpenedModels   = 256 // more of them are opened again
	maxIdlePerServer  = 64  // connections
	environmentSuffix = "_API_KEY"
)

func newModels(scripts map[string]scripted.Script) *models {
	return &models{
		// Where a model's server is, an operator says: it may be on this machine.
		client:  outbound.NewClient(outbound.Config{Policy: outbound.Policy{AllowPrivate: true}, MaxIdlePerHost: maxIdlePerServer}),
		scripts: maps.Clone(scripts), opened: map[openedModel]model.Provider{},
	}
}

// provider finds who is asked for an agent's model. Requests that fail are made again, and each is measured.
func (rt *Runtime) provider(spec agent.ModelSpec) (model.Provider, error) {
	wanted := openedModel{provider: spec.Provider}
	if spec.Provider != agent.ProviderScripted {
		var err error
		if wanted.server, err = rt.modelServer(&spec); err != nil {
			return nil, err
		}
	}
	m := rt.models
	m.mu.Lock()
	defer m.mu.Unlock()
	if opened := m.opened[wanted]; opened != nil {
		return opened, nil
	}
	opened, err := rt.openModel(wanted)
	if err != nil {
		return nil, err
	}
	if len(m.opened) >= maxOpenedModels {
		clear(m.opened)
	}
	m.opened[wanted] = opened
	return opened, nil
}

// modelServer is where an agent's model is asked. The server's own credential is for its own models: where an agent names another
// place, it goes without, whoever that place belongs to.
func (rt *Runtime) modelServer(spec *agent.ModelSpec) (ModelServer, error) {
	server := ModelServer{spec.BaseURL, spec.APIKey}
	if server.BaseURL != "" {
		return server, nil
	}
	own := rt.ModelDefaults[spec.Provider]
	server.BaseURL = own.BaseURL
	if server.APIKey == "" {
		server.APIKey = own.APIKey
	}
	if server == (ModelServer{}) {
		return server, fmt.Errorf("the agent's model has no api_key, and this server has none of its own (%s%s)", strings.ToUpper(spec.Provider), environmentSuffix)
	}
	return server, nil
}

func (rt *Runtime) openModel(wanted openedModel) (model.Provider, error) {
	var provider model.Provider
	var err error
	base := wanted.server.BaseURL
	switch wanted.provider {
	case agent.ProviderScripted:
		provider = rt.models.scripts
	case agent.ProviderOpenAI:
		if base == "" {
			base = openai.DefaultBaseURL
		}
		provider, err = openai.New(openai.Config{BaseURL: base, APIKey: wanted.server.APIKey, HTTPClient: rt.models.client, Logger: rt.Logger})
	case agent.ProviderAnthropic:
		if base == "" {
			base = anthropic.DefaultBaseURL
		}
		provider, err = anthropic.New(anthropic.Config{BaseURL: base, APIKey: wanted.server.APIKey, HTTPClient: rt.models.client, Logger: rt.Logger})
	default:
		return nil, fmt.Errorf("no provider is known as %q", wanted.provider)
	}
	if err != nil {
		return nil, fmt.Errorf("the agent's model cannot be asked: %w", err)
	}
	return model.Retrying(rt.asked.Observe(provider, wanted.provider, base), model.RetryConfig{
		Now: rt.Now, Logger: rt.Logger, Again: func(request *model.Request) { rt.asked.Again(wanted.provider, request) },
	}), nil
}
