// Package anthropic asks models by the messages wire format of Anthropic's API. It owns that format, and no retries: see
// [model.Retrying].
package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// DefaultBaseURL is the address of Anthropic's API.
const DefaultBaseURL = "https://api.anthropic.com"

// DefaultMaxTokens bounds answers if the request does not. The format has no default.
const DefaultMaxTokens = 8192

// Config configures a [Provider]. Requests go to /v1/messages below its BaseURL, which may end in /v1.
type Config = wire.Config

// Provider asks models of one server.
type Provider struct{ server *wire.Server }

// New makes a provider. It does not read the environment.
func New(cfg Config) (*Provider, error) {
	cfg.BaseURL = strings.TrimSuffix(strings.TrimRight(cmp.Or(cfg.BaseURL, DefaultBaseURL), "/"), "/v1")
	header := http.Header{}
	header.Set("anthropic-version", "2023-06-01")
	if cfg.APIKey != "" {
		header.Set("X-Api-Key", cfg.APIKey)
	}
	server, err := wire.NewServer(cfg, "v1/messages", header)
	if err != nil {
		return nil, fmt.Errorf("anthropic: %w", err)
	}
	return &Provider{server: server}, nil
}

// Generate implements [model.Provider].
func (p *Provider) Generate(ctx context.Context, request *model.Request, sink func(model.Delta)) (*model.Response, error) {
	answer := newAnswer(request, p.server.Limits.Calls, sink)
	if failed := p.server.Ask(ctx, newRequestBody(request), answer); failed != nil {
		return nil, failed
	}
	return answer.buildResponse()
}
