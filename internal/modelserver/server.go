// Package modelserver is a server of language models for tests: it speaks the wire formats of OpenAI's chat completions and
// Anthropic's messages as the real ones do, holds requests against the rules that those have, and answers what a script says, faults
// included. It owns no model.
package modelserver

import (
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

// Why answers end. Empty: as their calls say.
const (
	StopEnd       = "end"
	StopToolCalls = "tool_calls"
	StopMaxTokens = "max_tokens"
	StopRefusal   = "refusal"
)

// Request is one that kept the rules, in terms that both formats have.
type Request struct {
	Format    string
	Number    int // of all requests that kept the rules, from 1
	Header    http.Header
	Body      json.RawMessage
	Model     string
	System    string
	Messages  []Message
	Tools     []Tool
	MaxTokens int // zero: none was said
	Stream    bool
}

// Message is what one role said. Messages of OpenAI's role tool are the user's here.
type Message struct {
	Role     string // user or assistant
	Text     string
	Images   []string // their media types
	Calls    []Call
	Results  []Result
	Thinking []string // Anthropic
	Cached   bool     // a block of it is marked to be cached
}

// Call is a tool call.
type Call struct {
	ID        string // empty in an answer: one is made
	Name      string
	Arguments string // JSON, or not
}

// Result is what became of a call.
type Result struct {
	CallID  string
	Text    string
	Images  []string // their media types; Anthropic
	IsError bool     // Anthropic
}

// Tool is one that was offered.
type Tool struct {
	Name        string
	Description string
	Schema      map[string]any
	Cached      bool
}

// Last is the last message.
func (r *Request) Last() Message { return r.Messages[len(r.Messages)-1] }

// Answer is what a script says to a request.
type Answer struct {
	Thinking string // before everything else: signed with Anthropic, reasoning_content with OpenAI
	Text     string
	Calls    []Call
	Stop     string
	Usage    Usage

	Fault  Fault
	Quirks Quirks
	Whole  bool // not streamed, although a stream was asked for
	// Before is called before each event of a stream, counted from 1. Nil: the stream runs through.
	Before func(ctx context.Context, event int)
}

// Usage counts tokens; zero: some number that grows with the texts.
type Usage struct{ Input, Cached, Output int }

// Fault is what goes wrong with an answer.
type Fault struct {
	Status              int    // the answer is this error, nothing else
	RetryAfter          string // with Status
	Type, Code, Message string // of the error; left out: as the real servers have it
	// After so many events something happens. What: Cut, in the middle of the next one, or Error, an error instead of it.
	After      int
	Cut, Error bool
}

// Quirks are what servers of OpenAI's format do that OpenAI does not.
type Quirks struct {
	NoUsage, NoIDs, SameIDs, NoIndex, ZeroIndex, WholeCalls, ObjectArguments bool
	FinishStop                                                               bool // finish_reason stop although there are calls
	NullContent, Comments, NoDone, NoFinish                                  bool
}

// Script says what is answered. It is called for one request at a time.
type Script func(*Request) Answer

// Sequence answers one after the other; after the last comes an error that cannot be mended.
func Sequence(answers ...Answer) Script {
	return func(r *Request) Answer {
		if r.Number > len(answers) {
			return Answer{Fault: Fault{Status: http.StatusBadRequest, Message: "the script has no more than " + strconv.Itoa(len(answers)) + " answers"}}
		}
		return answers[r.Number-1]
	}
}

// Server is an http.Handler. Key, when set, is the only one that is taken.
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
	s.mux.HandleFunc("POST /v1/chat/completions", s.handle(openAI{}))
	s.mux.HandleFunc("POST /v1/messages", s.handle(anthropic{}))
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Requests are those that kept the rules, so far.
func (s *Server) Requests() []*Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Request(nil), s.requests...)
}

// Refusals are what was wrong with those that did not.
func (s *Server) Refusals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refusals...)
}

// format is one of the wire formats.
type format interface {
	credential(r *http.Request) string
	// read holds a request against the rules. Errors are *refusal.
	read(r *http.Request, body []byte) (*Request, error)
	refuse(w http.ResponseWriter, e *refusal)
	whole(request *Request, answer *Answer) any
	events(request *Request, answer *Answer) []event
	failure(f Fault) event
}

// event is one of a stream.
type event struct{ name, data string }

func (e event) text() string {
	if e.name == "" {
		return "data: " + e.data + "\n\n"
	}
	return "event: " + e.name + "\ndata: " + e.data + "\n\n"
}

// refusal is why a request has no answer.
type refusal struct {
	status              int
	kind, code, message string
	retryAfter          string
}

func (e *refusal) Error() string { return e.message }

func invalid(message string) error {
	return &refusal{status: http.StatusBadRequest, kind: "invalid_request_error", message: message}
}

const maxBody = 64 << 20

func (s *Server) handle(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return
		}
		request, answer, err := s.answer(f, r, body)
		if refused, ok := errors.AsType[*refusal](err); ok {
			f.refuse(w, refused)
			return
		}
		for i := range answer.Calls {
			if answer.Calls[i].ID == "" {
				answer.Calls[i].ID = "call_" + strconv.Itoa(request.Number) + "_" + strconv.Itoa(i+1)
			}
		}
		if !request.Stream || answer.Whole {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, encode(f.whole(request, answer)))
			return
		}
		stream(w, r, f, request, answer)
	}
}

// answer reads a request and asks the script.
func (s *Server) answer(f format, r *http.Request, body []byte) (*Request, *Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Key != "" && f.credential(r) != s.Key {
		return nil, nil, s.refused(&refusal{status: http.StatusUnauthorized, kind: "authentication_error", code: "invalid_api_key", message: "Incorrect API key provided: " + f.credential(r) + "."})
	}
	request, err := f.read(r, body)
	if err != nil {
		return nil, nil, s.refused(err)
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

func (s *Server) refused(err error) error {
	s.refusals = append(s.refusals, err.Error())
	return err
}

// stream sends an answer's events, as far as its fault lets it.
func stream(w http.ResponseWriter, r *http.Request, f format, request *Request, answer *Answer) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out := http.NewResponseController(w)
	send := func(text string) {
		_, _ = io.WriteString(w, text) //nolint:gosec // it is a stream of events of a test's server, which no browser shows
		_ = out.Flush()
	}
	if answer.Quirks.Comments {
		send(": OPENROUTER PROCESSING\n\n")
	}
	for i, e := range f.events(request, answer) {
		if answer.Before != nil {
			answer.Before(r.Context(), i+1)
		}
		if r.Context().Err() != nil {
			return
		}
		if fault := answer.Fault; i == fault.After && (fault.Cut || fault.Error) {
			if fault.Error {
				send(f.failure(fault).text())
				return
			}
			send(e.text()[:len(e.text())/2])
			panic(http.ErrAbortHandler)
		}
		send(e.text())
		if answer.Quirks.Comments {
			send(": keep-alive\n\n")
		}
	}
}

func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return `{"error":{"message":"cannot encode"}}`
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// pieces cuts a text as a model would write it.
func pieces(text string) []string {
	const size = 7
	runes := []rune(text)
	var list []string
	for start := 0; start < len(runes); start += size {
		list = append(list, string(runes[start:min(start+size, len(runes))]))
	}
	return list
}

// usage is what is counted of an exchange.
func usage(request *Request, answer *Answer) Usage {
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

// stop is why an answer ends.
func (a *Answer) stop() string {
	switch {
	case a.Stop != "":
		return a.Stop
	case len(a.Calls) > 0:
		return StopToolCalls
	}
	return StopEnd
}
