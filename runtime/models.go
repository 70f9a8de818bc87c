package runtime

import (
	"cmp"
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

// ModelServer is the address of a model server, and its credential.
type ModelServer struct {
	BaseURL string // empty: the provider's default
	APIKey  string // sent to this server only; may be empty
}

// ModelDefaults are this server's own model servers, by provider, for models without settings of their own. The operator of the
// server pays for them.
type ModelDefaults map[string]ModelServer

// models caches the providers. They share connections.
type models struct {
	client  *http.Client
	scripts scripted.Provider

	mu     sync.Mutex
	opened map[openedModel]model.Provider
}

// openedModel is the key of a cached provider.
type openedModel struct {
	provider string
	server   ModelServer
}

const (
	maxOpenedModels   = 256 // the cache is cleared at this size
	maxIdlePerServer  = 64  // connections
	environmentSuffix = "_API_KEY"
)

func newModels(scripts map[string]scripted.Script) *models {
	return &models{
		// An operator chooses the address of a model server, so it may be private.
		client:  outbound.NewClient(outbound.Config{Policy: outbound.Policy{AllowPrivate: true}, MaxIdlePerHost: maxIdlePerServer}),
		scripts: maps.Clone(scripts), opened: map[openedModel]model.Provider{},
	}
}

// findProvider returns the provider of an agent's model. It retries and measures requests.
func (rt *Runtime) findProvider(spec agent.ModelSpec) (model.Provider, error) {
	wanted := openedModel{provider: spec.Provider}
	if spec.Provider != agent.ProviderScripted {
		var err error
		if wanted.server, err = rt.resolveModelServer(&spec); err != nil {
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

// resolveModelServer returns the server for an agent's model. This server's own credential goes only to its own model servers,
// never to an address that an agent's model names.
func (rt *Runtime) resolveModelServer(spec *agent.ModelSpec) (ModelServer, error) {
	server := ModelServer{spec.BaseURL, spec.APIKey}
	if server.BaseURL != "" {
		return server, nil
	}
	own := rt.ModelDefaults[spec.Provider]
	server.BaseURL, server.APIKey = own.BaseURL, cmp.Or(server.APIKey, own.APIKey)
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
		base = cmp.Or(base, openai.DefaultBaseURL)
		provider, err = openai.New(openai.Config{BaseURL: base, APIKey: wanted.server.APIKey, HTTPClient: rt.models.client, Logger: rt.Logger})
	case agent.ProviderAnthropic:
		base = cmp.Or(base, anthropic.DefaultBaseURL)
		provider, err = anthropic.New(anthropic.Config{BaseURL: base, APIKey: wanted.server.APIKey, HTTPClient: rt.models.client, Logger: rt.Logger})
	default:
		return nil, fmt.Errorf("no provider is known as %q", wanted.provider)
	}
	if err != nil {
		return nil, fmt.Errorf("the agent's model cannot be asked: %w", err)
	}
	return model.Retrying(rt.asked.Observe(provider, wanted.provider, base), model.RetryConfig{
		Now: rt.Now, Logger: rt.Logger, OnRetry: func(request *model.Request) { rt.asked.CountRetry(wanted.provider, request) },
	}), nil
}
