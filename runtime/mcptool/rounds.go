package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds of what a server may ask before it answers a call.
const (
	maxRounds    = 10        // results that ask for input
	maxQuestions = 16        // in one of them
	maxState     = 256 << 10 // bytes of its requestState
)

// inputRequired is a result that asks for input (MCP 2026-07-28).
type inputRequired struct {
	asks      bool // it has inputRequests
	keys      []string
	questions []Elicitation
	state     json.RawMessage // requestState as it came, nil without one
}

// next makes the request with which a call goes on after a result that asked
// for input. It is what the server asked for, and not the first request again:
// that one was answered.
func (s *Source) next(ctx context.Context, server tool.Server, first *request, raw json.RawMessage, agreed negotiated, round int) (*request, *tool.Failure) {
	switch {
	case s.config.Elicit == nil, !agreed.modern():
		return nil, protocolFailure(raw, nil, "the server asks for more input before it goes on, which it was not offered")
	case round > maxRounds:
		return nil, protocolFailure(raw, nil, "%s: the server asked for input more than %d times", first.what, maxRounds)
	}
	wants, err := readInputRequired(raw)
	if err != nil {
		return nil, protocolFailure(raw, err, "%s: the server asks for input that cannot be given: %s", first.what, plain(err.Error(), 300))
	}
	more := *first
	more.continues = true
	more.members = append([]byte(nil), first.members...)
	if wants.asks {
		responses, failure := s.respond(ctx, server, first.what, raw, wants)
		if failure != nil {
			return nil, failure
		}
		more.members = append(append(more.members, `,"inputResponses":`...), responses...)
	}
	if wants.state != nil {
		more.members = append(append(more.members, `,"requestState":`...), wants.state...)
	}
	return &more, nil
}

// respond has all questions of one result answered.
func (s *Source) respond(ctx context.Context, server tool.Server, what string, raw json.RawMessage, wants inputRequired) ([]byte, *tool.Failure) {
	responses := []byte{'{'}
	for i, question := range wants.questions {
		answer, err := s.config.Elicit(ctx, server.SkillID, question)
		if ctx.Err() != nil {
			return nil, ended(ctx, tool.EffectPossible, what)
		}
		var text json.RawMessage
		if err == nil {
			text, err = question.result(answer)
		}
		if err != nil {
			return nil, protocolFailure(raw, err, "%s: the server asks for input, and there was no answer to be had", what)
		}
		if i > 0 {
			responses = append(responses, ',')
		}
		responses = append(append(quoted(responses, wants.keys[i]), ':'), text...)
	}
	return append(responses, '}'), nil
}

// continued is the failure of a call that had begun: whatever it says of the
// last request, the server may have acted after an earlier one.
func continued(f *tool.Failure) *tool.Failure {
	out := *f
	out.Effect, out.Connect = tool.EffectPossible, nil
	return &out
}

// readInputRequired reads a result that asks for input.
func readInputRequired(raw json.RawMessage) (inputRequired, error) {
	var wants inputRequired
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		switch {
		case string(value) == "null":
		case name == "requestState" && value[0] != '"':
			return errors.New("requestState is not a string")
		case name == "requestState" && len(value) > maxState:
			return fmt.Errorf("requestState is larger than %d bytes", maxState)
		case name == "requestState":
			wants.state = value
		case name == "inputRequests":
			wants.asks = true
			return eachMember(value, wants.add)
		}
		return nil
	})
	if err == nil && !wants.asks && wants.state == nil {
		err = errors.New("it names neither inputRequests nor a requestState")
	}
	return wants, err
}

// add reads one of the inputRequests.
func (w *inputRequired) add(key string, value json.RawMessage) error {
	if len(w.keys) == maxQuestions {
		return fmt.Errorf("more than %d questions at once", maxQuestions)
	}
	var method string
	var params json.RawMessage
	err := eachMember(value, func(name string, member json.RawMessage) error {
		switch name {
		case "method":
			if err := json.Unmarshal(member, &method); err != nil {
				return errors.New("method is not a name")
			}
		case "params":
			params = member
		}
		return nil
	})
	if err == nil && method != elicitMethod {
		err = fmt.Errorf("%q is not offered", plain(method, 64))
	}
	var question Elicitation
	if err == nil {
		question, err = readElicitation(params)
	}
	if err != nil {
		return fmt.Errorf("request %q: %w", plain(key, 64), err)
	}
	w.keys, w.questions = append(w.keys, key), append(w.questions, question)
	return nil
}
