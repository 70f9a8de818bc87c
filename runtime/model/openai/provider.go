// Package openai asks models by the chat completions wire format: OpenAI's own, and those of whoever else serves it (Ollama, vLLM,
// gateways), whose deviations it bears with. It owns that format, and no retries: see [model.Retrying].
package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/wire"
)

// DefaultBaseURL is OpenAI's own.
const DefaultBaseURL = "https://api.openai.com/v1"

// Config is what a [Provider] is made of. HTTPClient is required.
type Config struct {
	BaseURL    string // that /chat/completions is below. Default: [DefaultBaseURL]
	APIKey     string // empty: none is sent
	HTTPClient *http.Client
	Logger     *slog.Logger // nil: nothing is logged
	Limits     model.Limits
}

// Provider asks models of one server.
type Provider struct {
	client openai.Client
	cfg    Config
	own    bool // the server is OpenAI's

	mu      sync.Mutex
	dialect map[string]dialect // by model, what its server was found to want
}

// dialect is what servers of the format differ in that they say themselves.
type dialect struct {
	otherMaxTokens bool // max_tokens with OpenAI, max_completion_tokens with others
	noUsage        bool // stream_options are refused
}

// maxDialects bounds how many models' dialects are remembered.
const maxDialects = 1000

// New makes a provider. It reads nothing of the environment.
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
	p := &Provider{cfg: cfg, own: base.Hostname() == "api.openai.com", dialect: map[string]dialect{}}
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimRight(cfg.BaseURL, "/") + "/"),
		option.WithHTTPClient(wire.Client(cfg.HTTPClient, cfg.Limits, cfg.APIKey)),
		option.WithMaxRetries(0),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithHeader("Authorization", "Bearer "+cfg.APIKey))
	}
	p.client = openai.Client{Options: options} // NewClient would read the environment
	return p, nil
}

// Generate implements [model.Provider].
func (p *Provider) Generate(ctx context.Context, request *model.Request, sink func(model.Delta)) (*model.Response, error) {
	const dialects = 3 // as they are, and each of two differences mended
	for try := 1; ; try++ {
		d := p.dialectOf(request.Model)
		response, err := p.ask(ctx, request, d, sink)
		if err == nil {
			return response, nil
		}
		failed := wire.Failed(ctx, err, p.cfg.APIKey)
		better, ok := d.better(failed)
		if !ok || try == dialects {
			return nil, failed
		}
		p.cfg.Logger.InfoContext(ctx, "model server wants another dialect", "model", request.Model, "error", failed.Error())
		p.remember(request.Model, better)
	}
}

func (p *Provider) dialectOf(name string) dialect {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dialect[name]
}

func (p *Provider) remember(name string, d dialect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.dialect) >= maxDialects {
		clear(p.dialect)
	}
	p.dialect[name] = d
}

// better is the dialect that a server's complaint asks for.
func (d dialect) better(failed *model.Error) (dialect, bool) {
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

// ask makes one request.
func (p *Provider) ask(ctx context.Context, request *model.Request, d dialect, sink func(model.Delta)) (*model.Response, error) {
	var response *http.Response
	err := p.client.Post(ctx, "chat/completions", p.params(request, d), &response, option.WithJSONSet("stream", true), option.WithHeader("Accept", "text/event-stream, application/json"))
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := newAnswer(request, p.cfg.Limits.Calls, sink)
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		err = p.readWhole(response, answer)
	} else {
		err = p.readStream(response, answer)
	}
	if err != nil {
		return nil, err
	}
	return answer.response(), nil
}

// readWhole reads the answer of a server that does not stream.
func (p *Provider) readWhole(response *http.Response, answer *answer) error {
	var raw json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return p.unreadable(err)
	}
	if err := p.complaint(raw); err != nil {
		return err
	}
	var whole openai.ChatCompletion
	if err := json.Unmarshal(raw, &whole); err != nil {
		return p.unreadable(err)
	}
	if len(whole.Choices) == 0 {
		return wire.Garbled("it has no choices", "")
	}
	answer.about(whole.ID, whole.Model, whole.Usage)
	var delta openai.ChatCompletionChunkChoiceDelta // a message has the members of a delta
	if err := json.Unmarshal([]byte(whole.Choices[0].Message.RawJSON()), &delta); err != nil {
		return p.unreadable(err)
	}
	return answer.add(&delta, whole.Choices[0].FinishReason)
}

// readStream reads a stream to its end: to [DONE], or as far as it goes once the model has finished. What comes after that is
// the count of tokens only, and no reason to ask again.
func (p *Provider) readStream(response *http.Response, answer *answer) error {
	decoder := ssestream.NewDecoder(response)
	for decoder.Next() {
		data := decoder.Event().Data
		if strings.TrimSpace(string(data)) == "[DONE]" {
			answer.finished = answer.finished || answer.something()
			break
		}
		if err := p.complaint(data); err != nil {
			return err
		}
		var chunk openai.ChatCompletionChunk
		if err := json.Unmarshal(data, &chunk); err != nil {
			return p.unreadable(err)
		}
		answer.about(chunk.ID, chunk.Model, chunk.Usage)
		for i := range chunk.Choices {
			if chunk.Choices[i].Index != 0 {
				continue
			}
			if err := answer.add(&chunk.Choices[i].Delta, chunk.Choices[i].FinishReason); err != nil {
				return err
			}
		}
	}
	switch {
	case answer.finished:
		return nil
	case decoder.Err() != nil:
		return decoder.Err()
	default:
		return wire.CutOff()
	}
}

// complaint is the error that stands where an answer should.
func (p *Provider) complaint(data []byte) error {
	var said struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(data, &said) == nil && said.Error != nil && string(said.Error) != "null" {
		return wire.Explain(data, "").InStream(p.cfg.APIKey)
	}
	return nil
}

// unreadable is about what is no JSON, unless that is because the exchange broke off.
func (p *Provider) unreadable(err error) error {
	if _, broke := errors.AsType[*model.Error](err); broke {
		return err
	}
	return wire.Garbled(fmt.Sprint(err), p.cfg.APIKey)
}
