// Package modelserver is a server of language models for tests. It speaks the wire formats of OpenAI's chat completions and
// Anthropic's messages, checks requests against their rules, and answers from a script, which may include faults. It has no
// model.
package modelserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// The wire formats.
const (
	OpenAI    = "openai"    // POST /v1/chat/completions
	Anthropic = "anthropic" // POST /v1/messages
)

// Stop reasons of answers. An empty one depends on the answer's calls.
const (
	StopEnd       = "end"
	StopToolCalls = "tool_calls"
	StopMaxTokens = "max_tokens"
	StopRefusal   = "refusal"
)

// Request is a valid request, in terms of both formats.
type Request struct {
	Format    string
	Number    int // among all valid requests, from 1
	Header    http.Header
	Body      json.RawMessage
	Model     string
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int // zero: not set
	Stream    bool
}

// Message is a message of one role. OpenAI's tool messages are part of a user message.
type Message struct {
	Role     string // user or assistant
	Text     string
	Images   []string // media types
	Calls    []Call
	Results  []Result
	Thinking []string // Anthropic
	Cached   bool     // one of its blocks is marked for caching
}

// Call is a tool call.
type Call struct {
	ID        string // generated if empty in an answer
	Name      string
	Arguments string // JSON, or invalid text
}

// Result is the result of a call.
type Result struct {
	CallID  string
	Text    string
	Images  []string // media types; Anthropic only
	IsError bool     // Anthropic only
}

// Tool is a tool that the request offers.
type Tool struct {
	Name        string
	Description string
	Schema      map[string]any
	Cached      bool
}

// Last returns the last message.
func (r *Request) Last() Message { return r.Messages[len(r.Messages)-1] }

// Answer is a script's answer to a request.
type Answer struct {
	Thinking string // before everything else: signed with Anthropic, reasoning_content with OpenAI
	Text     string
	Calls    []Call
	Stop     string
	Usage    Usage

	Fault  Fault
	Quirks Quirks
	Whole  bool // sends one document although the request asks for a stream
	// Before is called before each event of a stream, counted from 1. Nil: the stream runs through.
	Before func(ctx context.Context, event int)
}

// Usage counts tokens. The zero value is replaced by an estimate.
type Usage struct{ Input, Cached, Output int }

// Fault is an error in an answer.
type Fault struct {
	Status              int    // answer only with this error
	RetryAfter          string // with Status
	Type, Code, Message string // of the error; the defaults are those of the real servers
	// After so many events the stream fails: Cut breaks it off within the next event, Error sends an error instead.
	After      int
	Cut, Error bool
}

// Quirks are deviations of other servers from OpenAI's format.
type Quirks struct {
	NoUsage, NoIDs, SameIDs, NoIndex, ZeroIndex, WholeCalls, ObjectArguments bool
	FinishStop                                                               bool // finish_reason stop although there are calls
	NullContent, Comments, NoDone, NoFinish                                  bool
}

// Script answers one request at a time.
type Script func(*Request) Answer

// Sequence returns a script with one answer for each request. Further requests get an error that is not retryable.
func Sequence(answers ...Answer) Script {
	return func(r *Request) Answer {
		if r.Number > len(answers) {
			return Answer{Fault: Fault{Status: http.StatusBadRequest, Message: "the script has no more than " + strconv.Itoa(len(answers)) + " answers"}}
		}
		return answers[r.Number-1]
	}
}

// Server is an http.Handler. If Key is set, requests need this key.
type Server struct {
	Key string

	mux    *http.ServeMux
	script Script

	mu       sync.Mutex
	requests []*Request
	refusals []string
}

// New makes a server.
func New(script Script) *Server {
	s := &Server{script: script, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /v1/chat/completions", s.newHandler(openAI{}))
	s.mux.HandleFunc("POST /v1/messages", s.newHandler(anthropic{}))
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests returns the valid requests so far.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// Refusals returns the errors of the invalid requests.
func (s *Server) Refusals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refusals...)
}

// format is a wire format.
type format interface {
	readCredential(r *http.Request) string
	// readRequest validates a request. Errors are *refusal.
	readRequest(r *http.Request, body []byte) (*Request, error)
	writeRefusal(w http.ResponseWriter, e *refusal)
	buildWhole(request *Request, answer *Answer) any
	buildEvents(request *Request, answer *Answer) []event
	buildFailure(f Fault) event
}

// event is an event of a stream.
type event struct{ name, data string }

func (e event) formatEvent() string {
	if e.name == "" {
		return "data: " + e.data + "\n\n"
	}
	return "event: " + e.name + "\ndata: " + e.data + "\n\n"
}

// refusal is the error response to a request.
type refusal struct {
	status              int
	kind, code, message string
	retryAfter          string
}

func (e *refusal) Error() string { return e.message }

func newRefusal(message string) error {
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", message: message}
}

const maxBody = 64 << 20

func (s *Server) newHandler(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return
		}
		request, answer, err := s.askScript(f, r, body)
		if refused, ok := errors.AsType[*refusal](err); ok {
			f.writeRefusal(w, refused)
			return
		}
		for i := range answer.Calls {
			if answer.Calls[i].ID == "" {
				answer.Calls[i].ID = "call_" + strconv.Itoa(request.Number) + "_" + strconv.Itoa(i+1)
			}
		}
		if !request.Stream || answer.Whole {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, encodeJSON(f.buildWhole(request, answer)))
			return
		}
		writeEvents(w, r, f, request, answer)
	}
}

// askScript reads a request and asks the script.
func (s *Server) askScript(f format, r *http.Request, body []byte) (*Request, *Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Key != "" && f.readCredential(r) != s.Key {
		return nil, nil, s.recordRefusal(&refusal{status: http.StatusUnauthorized, kind: "authentication_error", code: "invalid_api_key", message: "Incorrect API key provided: " + f.readCredential(r) + "."})
	}
	request, err := f.readRequest(r, body)
	if err != nil {
		return nil, nil, s.recordRefusal(err)
	}
	s.requests = append(s.requests, request)
	request.Number, request.Header, request.Body = len(s.requests), r.Header.Clone(), body
	answer := s.script(request)
	answer.Calls = append([]Call(nil), answer.Calls...)
	if fault := answer.Fault; fault.Status != 0 {
		return nil, nil, &refusal{fault.Status, fault.Type, fault.Code, fault.Message, fault.RetryAfter}
	}
	return request, &answer, nil
}

func (s *Server) recordRefusal(err error) error {
	s.refusals = append(s.refusals, err.Error())
	return err
}

// writeEvents sends an answer's events, up to its fault.
func writeEvents(w http.ResponseWriter, r *http.Request, f format, request *Request, answer *Answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	send := func(text string) {
		_, _ = io.WriteString(w, text) //nolint:gosec // it is a stream of events of a test's server, which no browser shows
		_ = out.Flush()
	}
	if answer.Quirks.Comments {
		send(": OPENROUTER PROCESSING\n\n")
	}
	for i, e := range f.buildEvents(request, answer) {
		if answer.Before != nil {
			answer.Before(r.Context(), i+1)
		}
		if r.Context().Err() != nil {
			return
		}
		if fault := answer.Fault; i == fault.After && (fault.Cut || fault.Error) {
			if fault.Error {
				send(f.buildFailure(fault).formatEvent())
				return
			}
			send(e.formatEvent()[:len(e.formatEvent())/2])
			panic(http.ErrAbortHandler)
		}
		send(e.formatEvent())
		if answer.Quirks.Comments {
			send(": keep-alive\n\n")
		}
	}
}

func encodeJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return `{"error":{"message":"cannot encode"}}`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// splitText splits a text into deltas.
func splitText(text string) []string {
	const size = 7
	runes := []rune(text)
	var list []string
	for start := 0; start < len(runes); start += size {
		list = append(list, string(runes[start:min(start+size, len(runes))]))
	}
	return list
}

// countUsage returns the usage of an exchange.
func countUsage(request *Request, answer *Answer) Usage {
	if answer.Usage != (Usage{}) {
		return answer.Usage
	}
	const bytesPerToken = 4
	output := len(answer.Text) + len(answer.Thinking)
	for _, call := range answer.Calls {
		output += len(call.Name) + len(call.Arguments)
	}
	return Usage{Input: 1 + len(request.Body)/bytesPerToken, Output: 1 + output/bytesPerToken}
}

// stopReason returns the reason why an answer ends.
func (a *Answer) stopReason() string {
	switch {
	case a.Stop != "":
		return a.Stop
	case len(a.Calls) > 0:
		return StopToolCalls
	}
	return StopEnd
}

func messageOr(e *refusal) string {
	return cmp.Or(e.message, http.StatusText(e.status))
}

func writeRefusalBody(w http.ResponseWriter, e *refusal, body any) {
	w.Header().Set("Content-Type", "application/json")
	if e.retryAfter != "" {
		w.Header().Set("Retry-After", e.retryAfter)
	}
	w.WriteHeader(e.status)
	_, _ = w.Write([]byte(encodeJSON(body)))
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
