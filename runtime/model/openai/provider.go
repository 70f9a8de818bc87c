// Package openai asks models by the chat completions wire format, at OpenAI and at other servers of the format (Ollama, vLLM, gateways). It
// accepts their deviations. It owns that format, and no retries: see [model.Retrying].
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// DefaultBaseURL is the address of OpenAI's API.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config configures a [Provider]. HTTPClient is required.
type Config struct {
	BaseURL    string // /chat/completions is below it. Default: [DefaultBaseURL]
	APIKey     string // empty: none is sent
	HTTPClient *http.Client
	Logger     *slog.Logger // nil: nothing is logged
	Limits     model.Limits
}

// Provider asks models of one server.
type Provider struct {
	client *http.Client
	url    string
	cfg    Config
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
	if cfg.HTTPClient == nil {
		return nil, errors.New("openai: HTTPClient is required")
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = DefaultBaseURL
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" {
		return nil, errors.New("openai: BaseURL must be an absolute URL")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	at := base.JoinPath("chat/completions")
	at.RawQuery, at.Fragment = "", ""
	return &Provider{
		client: wire.Client(cfg.HTTPClient, cfg.Limits, cfg.APIKey), url: at.String(), cfg: cfg,
		own: base.Hostname() == "api.openai.com", dialect: map[string]dialect{},
	}, nil
}

// Generate implements [model.Provider].
func (p *Provider) Generate(ctx context.Context, request *model.Request, sink func(model.Delta)) (*model.Response, error) {
	const dialects = 3 // the default, and one more for each of two differences
	for try := 1; ; try++ {
		d := p.dialectOf(request.Model)
		response, err := p.askModel(ctx, request, d, sink)
		if err == nil {
			return response, nil
		}
		failed := wire.Failed(ctx, err, p.cfg.APIKey)
		better, ok := d.adapt(failed)
		if !ok || try == dialects {
			return nil, failed
		}
		p.cfg.Logger.InfoContext(ctx, "model server wants another dialect", "model", request.Model, "error", failed.Error())
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

// askModel makes one request.
func (p *Provider) askModel(ctx context.Context, request *model.Request, d dialect, sink func(model.Delta)) (*model.Response, error) {
	body, err := json.Marshal(p.newRequestBody(request, d))
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "text/event-stream, application/json")
	if p.cfg.APIKey != "" {
		post.Header.Set("Authorization", "Bearer "+p.cfg.APIKey)
	}
	response, err := p.client.Do(post)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := newAnswer(request, p.cfg.Limits.Calls, sink)
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		err = p.readWhole(response.Body, answer)
	} else {
		err = p.readStream(response.Body, answer)
	}
	if err != nil {
		return nil, err
	}
	return answer.buildResponse(), nil
}

// readWhole reads the answer of a server that does not stream.
func (p *Provider) readWhole(body io.Reader, answer *answer) error {
	var raw json.RawMessage
	if err := json.NewDecoder(body).Decode(&raw); err != nil {
		return wire.Unreadable(err, p.cfg.APIKey)
	}
	if err := p.readComplaint(raw); err != nil {
		return err
	}
	var whole chunk
	if err := json.Unmarshal(raw, &whole); err != nil {
		return wire.Unreadable(err, p.cfg.APIKey)
	}
	if len(whole.Choices) == 0 {
		return wire.Garbled("it has no choices", "")
	}
	answer.setHeading(&whole)
	return answer.addDelta(&whole.Choices[0].Message.value, string(whole.Choices[0].FinishReason))
}

// readStream reads a stream to its end: to [DONE], or as far as it goes once the model has finished. Only the token count
// comes after that, and its loss is no reason to ask again.
func (p *Provider) readStream(body io.Reader, answer *answer) error {
	var broken error
	for data, err := range wire.Events(body) {
		if err != nil {
			broken = err
			break
		}
		if strings.TrimSpace(string(data)) == "[DONE]" {
			answer.finished = answer.finished || answer.text.Len() > 0 || len(answer.calls) > 0
			break
		}
		if err := p.readComplaint(data); err != nil {
			return err
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return wire.Unreadable(err, p.cfg.APIKey)
		}
		answer.setHeading(&c)
		for i := range c.Choices {
			if number(c.Choices[i].Index.value) != 0 {
				continue
			}
			if err := answer.addDelta(&c.Choices[i].Delta.value, string(c.Choices[i].FinishReason)); err != nil {
				return err
			}
		}
	}
	switch {
	case answer.finished:
		return nil
	case broken != nil:
		return broken
	default:
		return wire.CutOff()
	}
}

// readComplaint returns the error that a server sent instead of an answer.
func (p *Provider) readComplaint(data []byte) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &said) == nil && said.Error != nil && string(said.Error) != "null" {
		return wire.Explain(data, "").InStream(p.cfg.APIKey)
	}
	return nil
}
