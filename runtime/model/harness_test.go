package model_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/modelserver"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/runtime/model/anthropic"
	"github.com/holdpoint/holdpoint/runtime/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

// formats lists the formats of all exchange tests.
var formats = []string{modelserver.OpenAI, modelserver.Anthropic}

// key must not occur in errors and logs.
const key = "sk-test-0123456789abcdef"

// world is a provider and the server of its models.
type world struct {
	t        *testing.T
	format   string
	server   *modelserver.Server
	handler  http.Handler // replaces server; may be nil
	url      string
	client   *http.Client
	limits   model.Limits
	provider model.Provider

	log   worldtest.Log
	slept []time.Duration
}

func newWorld(t *testing.T, format string, script modelserver.Script, change ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, format: format, server: modelserver.New(script)}
	w.server.Key = key
	for _, f := range change {
		f(w)
	}
	if w.handler == nil {
		w.handler = w.server
	}
	server := httptest.NewServer(w.handler)
	w.url = server.URL
	w.client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		server.Close()
	})
	w.provider = w.newProvider(w.url, key)
	return w
}

// newProvider returns a provider of the world's format.
func (w *world) newProvider(url, apiKey string) model.Provider {
	w.t.Helper()
	logger := w.log.Logger(slog.LevelInfo)
	var p model.Provider
	var err error
	if w.format == modelserver.OpenAI {
		p, err = openai.New(openai.Config{BaseURL: url + "/v1", APIKey: apiKey, HTTPClient: w.client, Logger: logger, Limits: w.limits})
	} else {
		p, err = anthropic.New(anthropic.Config{BaseURL: url, APIKey: apiKey, HTTPClient: w.client, Logger: logger, Limits: w.limits})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return model.Retrying(p, model.RetryConfig{
		Logger: logger, Chance: func() float64 { return 0 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			w.slept = append(w.slept, d)
			return ctx.Err()
		},
	})
}

// listener collects the deltas of a sink.
type listener struct {
	text     strings.Builder // since the last restart
	deltas   int
	restarts int
}

func (h *listener) sink(d model.Delta) {
	if d.Restart {
		h.restarts++
		h.text.Reset()
	}
	h.text.WriteString(d.Text)
	h.deltas++
}

// ask makes a request, and compares the deltas with the answer.
func (w *world) ask(request *model.Request) (*model.Response, *listener, *model.Error) {
	w.t.Helper()
	h := &listener{}
	response, err := w.provider.Generate(w.t.Context(), request, h.sink)
	if err != nil {
		failed, ok := errors.AsType[*model.Error](err)
		if !ok {
			w.t.Fatalf("%s: %T is no *model.Error: %v", w.format, err, err)
		}
		if text := err.Error() + w.log.String(); strings.Contains(text, key) || len(failed.Message) > 2000 {
			w.t.Errorf("%s: an error has the key in it, or is long: %s", w.format, text)
		}
		return nil, h, failed
	}
	if h.text.String() != textOf(response) {
		w.t.Errorf("%s: streamed %q, answered %q", w.format, h.text.String(), textOf(response))
	}
	return response, h, nil
}

// mustAsk makes a request that must succeed.
func (w *world) mustAsk(request *model.Request) (*model.Response, *listener) {
	w.t.Helper()
	response, h, err := w.ask(request)
	if err != nil {
		w.t.Fatalf("%s: %v; refused: %q", w.format, err, w.server.Refusals())
	}
	return response, h
}

func textOf(r *model.Response) string {
	var text strings.Builder
	for _, part := range r.Parts {
		if part.Text != nil {
			text.WriteString(part.Text.Text)
		}
	}
	return text.String()
}

func callsOf(r *model.Response) []model.ToolCall {
	var calls []model.ToolCall
	for _, part := range r.Parts {
		if part.Call != nil {
			calls = append(calls, *part.Call)
		}
	}
	return calls
}

// newRequest returns a request with one message of a user.
func newRequest(text string) *model.Request {
	return &model.Request{Model: "m1", Messages: []model.Message{{Role: model.User, Parts: []model.Part{model.TextPart(text)}}}}
}

// continueRequest adds an answer and the next message of the user.
func continueRequest(request *model.Request, answer *model.Response, parts ...model.Part) *model.Request {
	next := *request
	next.Messages = append(append([]model.Message(nil), request.Messages...),
		model.Message{Role: model.Assistant, Parts: answer.Parts}, model.Message{Role: model.User, Parts: parts})
	return &next
}

func newResult(callID string, parts ...model.Part) model.Part {
	return model.Part{Result: &model.ToolResult{CallID: callID, Parts: parts}}
}

func testFormats(t *testing.T, f func(t *testing.T, format string)) {
	t.Helper()
	t.Parallel()
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			f(t, format)
		})
	}
}
