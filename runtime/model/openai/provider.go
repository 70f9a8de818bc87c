// Package openai asks models by the chat completions wire format, at OpenAI and at other servers of the format (Ollama, vLLM, gateways). It
// accepts their deviations. It owns that format, and no retries: see [model.Retrying].
package openai

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// DefaultBaseURL is the address of OpenAI's API.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config configures a [Provider]. Requests go to /chat/completions below its BaseURL.
type Config = wire.Config

// Provider asks models of one server.
type Provider struct {
	server *wire.Server
	own    bool // the server is OpenAI's

	mu      sync.Mutex
	dialect map[string]dialect // by model, as its server wanted it
}

// dialect holds the differences between servers of the format that their errors reveal.
type dialect struct {
	otherMaxTokens bool // max_tokens with OpenAI, max_completion_tokens with others
	noUsage        bool // stream_options are refused
}

// maxDialects bounds the models whose dialects are stored.
const maxDialects = 1000

// New makes a provider. It does not read the environment.
func New(cfg Config) (*Provider, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, DefaultBaseURL)
	header := http.Header{}
	if cfg.APIKey != "" {
		header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	server, err := wire.NewServer(cfg, "chat/completions", header)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	return &Provider{server: server, own: server.URL.Hostname() == "api.openai.com", dialect: map[string]dialect{}}, nil
}

// Generate implements [model.Provider].
func (p *Provider) Generate(ctx context.Context, request *model.Request, sink func(model.Delta)) (*model.Response, error) {
	const dialects = 3 // the default, and one more for each of two differences
	for try := 1; ; try++ {
		d := p.dialectOf(request.Model)
		answer := newAnswer(request, p.server.Limits.Calls, sink)
		failed := p.server.Ask(ctx, p.newRequestBody(request, d), answer)
		if failed == nil {
			return answer.buildResponse(), nil
		}
		better, ok := d.adapt(failed)
		if !ok || try == dialects {
			return nil, failed
		}
		p.server.Logger.InfoContext(ctx, "model server wants another dialect", "model", request.Model, "error", failed.Error())
		p.rememberDialect(request.Model, better)
	}
}

func (p *Provider) dialectOf(name string) dialect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialect[name]
}

func (p *Provider) rememberDialect(name string, d dialect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.dialect) >= maxDialects {
		clear(p.dialect)
	}
	p.dialect[name] = d
}

// adapt returns the dialect that a server's error asks for. False: it asks for none.
func (d dialect) adapt(failed *model.Error) (dialect, bool) {
	if failed.Status != http.StatusBadRequest && failed.Status != http.StatusUnprocessableEntity {
		return d, false
	}
	switch {
	case !d.noUsage && strings.Contains(failed.Message, "stream_options"):
		d.noUsage = true
	case !d.otherMaxTokens && (strings.Contains(failed.Message, "max_tokens") || strings.Contains(failed.Message, "max_completion_tokens")) && !failed.TooLong:
		d.otherMaxTokens = true
	default:
		return d, false
	}
	return d, true
}
