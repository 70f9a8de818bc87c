// Package anthropic asks models by the messages wire format of Anthropic's API. It owns that format, and no retries: see
// [model.Retrying].
package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// DefaultBaseURL is the address of Anthropic's API.
const DefaultBaseURL = "https://api.anthropic.com"

// DefaultMaxTokens bounds answers if the request does not. The format has no default.
const DefaultMaxTokens = 8192

// Config configures a [Provider]. HTTPClient is required.
type Config struct {
	BaseURL    string // /v1/messages is below it; it may end in /v1. Default: [DefaultBaseURL]
	APIKey     string // empty: none is sent
	HTTPClient *http.Client
	Logger     *slog.Logger // nil: nothing is logged
	Limits     model.Limits
}

// Provider asks models of one server.
type Provider struct {
	client anthropic.Client
	cfg    Config
}

// New makes a provider. It does not read the environment.
func New(cfg Config) (*Provider, error) {
	if cfg.HTTPClient == nil {
		return nil, errors.New("anthropic: HTTPClient is required")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	if base, err := url.Parse(cfg.BaseURL); err != nil || base.Host == "" {
		return nil, errors.New("anthropic: BaseURL must be an absolute URL")
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	options := []option.RequestOption{
		option.WithoutEnvironmentDefaults(),
		option.WithoutOpenTelemetry(), option.WithOpenTelemetryPropagation(false), // both would ask the environment
		option.WithBaseURL(strings.TrimSuffix(strings.TrimRight(cfg.BaseURL, "/"), "/v1") + "/"),
		option.WithHTTPClient(wire.Client(cfg.HTTPClient, cfg.Limits, cfg.APIKey)),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	return &Provider{client: anthropic.NewClient(options...), cfg: cfg}, nil
}

// Generate implements [model.Provider].
func (p *Provider) Generate(ctx context.Context, request *model.Request, sink func(model.Delta)) (*model.Response, error) {
	answer := newAnswer(request, p.cfg.Limits.Calls, sink)
	if err := p.askModel(ctx, request, answer); err != nil {
		return nil, wire.Failed(ctx, err, p.cfg.APIKey)
	}
	return answer.buildResponse(), nil
}

func (p *Provider) askModel(ctx context.Context, request *model.Request, answer *answer) error {
	var response *http.Response
	err := p.client.Post(ctx, "v1/messages", newParams(request), &response, option.WithJSONSet("stream", true), option.WithHeader("Accept", "text/event-stream, application/json"))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		return p.readWhole(response, answer)
	}
	return p.readStream(response, answer)
}

// readWhole reads the answer of a server that does not stream.
func (p *Provider) readWhole(response *http.Response, answer *answer) error {
	var raw json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return wire.Unreadable(err, p.cfg.APIKey)
	}
	if kindOf(raw) == "error" {
		return wire.Explain(raw, "").InStream(p.cfg.APIKey)
	}
	if err := json.Unmarshal(raw, &answer.message); err != nil {
		return wire.Unreadable(err, p.cfg.APIKey)
	}
	if kindOf(raw) != "message" {
		return wire.Garbled("it is no message", "")
	}
	return answer.addWhole()
}

// readStream reads a stream until the model stops.
func (p *Provider) readStream(response *http.Response, answer *answer) error {
	decoder := ssestream.NewDecoder(response)
	for !answer.ended && decoder.Next() {
		data := decoder.Event().Data
		switch kindOf(data) {
		case "ping":
			continue
		case "error":
			return wire.Explain(data, "").InStream(p.cfg.APIKey)
		case "":
			if len(strings.TrimSpace(string(data))) == 0 {
				continue
			}
		}
		var event anthropic.MessageStreamEventUnion
		if err := json.Unmarshal(data, &event); err != nil {
			return wire.Unreadable(err, p.cfg.APIKey)
		}
		if err := answer.addEvent(&event); err != nil {
			return err
		}
	}
	switch {
	case answer.ended || answer.message.StopReason != "":
		return nil
	case decoder.Err() != nil:
		return decoder.Err()
	default:
		return wire.CutOff()
	}
}

// kindOf returns the type of an event or of a whole answer.
func kindOf(data []byte) string {
	var said struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(data, &said) != nil {
		return ""
	}
	return said.Type
}
