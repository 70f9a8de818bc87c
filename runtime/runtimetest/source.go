package runtimetest

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Source stands for a skill server. It offers tools, records the calls, and answers "ok" unless a test sets another reply. The zero
// value offers nothing. A test holds the lock while it changes a field that a request may read.
type Source struct {
	sync.Mutex

	Tools    []string      // definitions
	Failure  *tool.Failure // the error of listings; nil: none
	Missing  *tool.Connect // the connection that calls need first; nil: none
	Reply    func(r tool.CallRequest) (tool.Result, error)
	Received []tool.CallRequest
}

// Offer sets the definitions of the tools.
func (s *Source) Offer(definitions ...string) {
	s.Lock()
	defer s.Unlock()
	s.Tools = definitions
}

// Answer sets the reply to later calls.
func (s *Source) Answer(reply func(r tool.CallRequest) (tool.Result, error)) {
	s.Lock()
	defer s.Unlock()
	s.Reply = reply
}

// Require sets the connection that calls need first; nil: none.
func (s *Source) Require(missing *tool.Connect) {
	s.Lock()
	defer s.Unlock()
	s.Missing = missing
}

// Arguments returns the arguments of the calls that arrived.
func (s *Source) Arguments() []string {
	s.Lock()
	defer s.Unlock()
	arguments := make([]string, len(s.Received))
	for i, r := range s.Received {
		arguments[i] = string(r.Arguments)
	}
	return arguments
}

// ParseTools makes a listing of definitions.
func ParseTools(definitions ...string) (tool.Listing, error) {
	var listing tool.Listing
	for _, text := range definitions {
		d, err := tool.ParseDefinition(json.RawMessage(text))
		if err != nil {
			return listing, &tool.Failure{Kind: tool.ProtocolFailure, Message: err.Error()}
		}
		listing.Tools = append(listing.Tools, d)
	}
	return listing, nil
}

// List implements [tool.Source].
func (s *Source) List(context.Context, tool.Server) (tool.Listing, error) {
	s.Lock()
	defer s.Unlock()
	if s.Failure != nil {
		return tool.Listing{}, s.Failure
	}
	return ParseTools(s.Tools...)
}

// Call implements [tool.Source].
func (s *Source) Call(_ context.Context, _ tool.Server, r tool.CallRequest) (tool.Result, error) {
	s.Lock()
	s.Received = append(s.Received, r)
	reply := s.Reply
	s.Unlock()
	if reply != nil {
		return reply(r)
	}
	return tool.Result{Raw: json.RawMessage(`{"content":[{"type":"text","text":"ok"}]}`)}, nil
}

// Probe implements [tool.Source].
func (*Source) Probe(context.Context, tool.Server, func(tool.Step)) error { return nil }

// Ready implements [tool.Source].
func (s *Source) Ready(context.Context, tool.Server) (*tool.Connect, error) {
	s.Lock()
	defer s.Unlock()
	return s.Missing, nil
}

// Forget implements [tool.Source].
func (*Source) Forget(uuid.UUID) {}
