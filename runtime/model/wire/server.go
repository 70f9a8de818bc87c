package wire

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

	"github.com/holdpoint/holdpoint/runtime/model"
)

// Config configures a provider. HTTPClient is required.
type Config struct {
	BaseURL    string // the paths of the format are below it. Default: the address of the format's owner
	APIKey     string // empty: none is sent
	HTTPClient *http.Client
	Logger     *slog.Logger // nil: nothing is logged
	Limits     model.Limits
}

// Server is a model server.
type Server struct {
	Config // with defaults

	URL    *url.URL
	header http.Header
	client *http.Client
}

// NewServer returns the server whose models answer at a path below the base URL. Requests have the header.
func NewServer(cfg Config, path string, header http.Header) (*Server, error) {
	if cfg.HTTPClient == nil {
		return nil, errors.New("HTTPClient is required")
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" {
		return nil, errors.New("BaseURL must be an absolute URL")
	}
	at := base.JoinPath(path)
	at.RawQuery, at.Fragment = "", ""
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Limits = cfg.Limits.WithDefaults()
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "text/event-stream, application/json")
	header.Set("User-Agent", "holdpoint")
	return &Server{Config: cfg, URL: at, header: header, client: newClient(cfg.HTTPClient, cfg.Limits)}, nil
}

// Answer reads the answer to a request.
type Answer interface {
	// ReadEvent reads an event of a stream, and reports whether it is the last.
	ReadEvent(data []byte) (last bool, err error)
	// ReadWhole reads the answer of a server that does not stream.
	ReadWhole(document []byte) error
	// IsComplete reports whether the model has finished, after the events of a stream.
	IsComplete() bool
}

// Ask sends a request, which it encodes as JSON, and reads the answer. The text of an error never contains the API key.
func (s *Server) Ask(ctx context.Context, request any, answer Answer) *model.Error {
	err := s.exchange(ctx, request, answer)
	if err == nil {
		return nil
	}
	failed := explainFailure(ctx, err)
	failed.Message = cleanMessage(failed.Message, s.APIKey)
	return failed
}

func (s *Server) exchange(ctx context.Context, request any, answer Answer) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header = s.header.Clone()
	response, err := s.client.Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind == "application/json" {
		return readWhole(response.Body, answer)
	}
	return readStream(response.Body, answer)
}

func readWhole(body io.Reader, answer Answer) error {
	var document json.RawMessage
	if err := json.NewDecoder(body).Decode(&document); err != nil {
		if _, broke := errors.AsType[*model.Error](err); broke {
			return err
		}
		return InvalidAnswer(err.Error())
	}
	return answer.ReadWhole(document)
}

// readStream reads a stream to its last event, or as far as it goes once the model has finished.
func readStream(body io.Reader, answer Answer) error {
	var broken error = &model.Error{Retryable: true, Message: "the answer ended before it was complete"}
	for data, err := range Events(body) {
		if err != nil {
			broken = err
			break
		}
		last, err := answer.ReadEvent(data)
		if err != nil {
			return err
		}
		if last {
			break
		}
	}
	if answer.IsComplete() {
		return nil
	}
	return broken
}
