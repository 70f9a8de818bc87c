package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds of what a server may ask before it answers a request.
const (
	maxRounds    = 10        // results that ask for input
	maxQuestions = 16        // in one of them
	maxState     = 256 << 10 // bytes of its requestState
)

// The types of results.
const (
	typeComplete = "complete"
	typeInput    = "input_required"
	typeTask     = "task"
)

// rounds sends a request, and sends it on with what the server asked for, until it asks for nothing
// more. kind is the type of its result.
func (s *Source) rounds(e *errand, server tool.Server, first *request) (raw json.RawMessage, kind string, failure *tool.Failure) {
	first.errand = e
	r := first
	for round := 1; ; round++ {
		raw, agreed, failure := s.send(e.ctx, server, r)
		if failure == nil {
			kind, failure = resultType(first.what, raw)
		}
		switch {
		case failure != nil && r.continues:
			return nil, "", continued(failure)
		case failure != nil:
			return nil, "", failure
		case kind != typeInput:
			return raw, kind, nil
		}
		if r, failure = s.next(e, first, raw, agreed, round); failure != nil {
			return nil, "", failure
		}
	}
}

// resultType reads the type of a result; servers of earlier revisions do not tell it.
func resultType(what string, raw json.RawMessage) (string, *tool.Failure) {
	kind := typeComplete
	err := eachMember(raw, func(name string, value json.RawMessage) error {
		if name == "resultType" && json.Unmarshal(value, &kind) != nil {
			return errors.New("resultType is not a string")
		}
		return nil
	})
	if err != nil {
		return "", protocolFailure(raw, err, "%s: the result cannot be read: %s", what, plain(err.Error(), 200))
	}
	return kind, nil
}

// round sends a request once.
func (s *Source) round(e *errand, server tool.Server, r *request) (raw json.RawMessage, kind string, failure *tool.Failure) {
	r.errand = e
	if raw, _, failure = s.send(e.ctx, server, r); failure == nil {
		kind, failure = resultType(r.what, raw)
	}
	return raw, kind, failure
}

// inputRequired is a result that asks for input (MCP 2026-07-28).
type inputRequired struct {
	asks      bool // it has inputRequests
	keys      []string
	questions []tool.Question
	state     json.RawMessage // requestState as it came, nil without one
}

// next makes the request with which a call goes on after a result that asked
// for input. It is what the server asked for, and not the first request again:
// that one was answered.
func (s *Source) next(e *errand, first *request, raw json.RawMessage, agreed negotiated, round int) (*request, *tool.Failure) {
	switch {
	case !agreed.modern():
		return nil, protocolFailure(raw, nil, "the server asks for more input before it goes on, which it was not offered")
	case round > maxRounds:
		return nil, protocolFailure(raw, nil, "%s: the server asked for input more than %d times", first.what, maxRounds)
	}
	wants, err := readInputRequired(raw)
	if err == nil {
		err = e.mayAskAll(wants)
	}
	if err != nil {
		return nil, protocolFailure(raw, err, "%s: the server asks for input that cannot be given: %s", first.what, plain(err.Error(), 300))
	}
	more := *first
	more.continues = true
	more.members = append([]byte(nil), first.members...)
	if wants.asks {
		responses, failure := e.respond(first.what, raw, wants)
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

// mayAskAll reports whether all questions of one result may be asked: else none is.
func (e *errand) mayAskAll(wants inputRequired) error {
	for i, question := range wants.questions {
		if refused := e.mayAsk(question); refused != nil {
			return fmt.Errorf("request %q: %w", plain(wants.keys[i], 64), refused)
		}
	}
	return nil
}

// respond has all questions of one result answered.
func (e *errand) respond(what string, raw json.RawMessage, wants inputRequired) ([]byte, *tool.Failure) {
	if len(wants.questions) == 0 {
		return []byte("{}"), nil
	}
	answers, refused := e.askAll(e.ctx, wants.questions)
	switch {
	case e.ctx.Err() != nil:
		return nil, tool.Ended(e.ctx, tool.EffectPossible, what)
	case refused != nil:
		return nil, protocolFailure(raw, refused, "%s: the server asks for input, and %s", what, refused.message)
	}
	responses := []byte{'{'}
	for i, answer := range answers {
		responses = appendMember(responses, wants.keys[i], answer)
	}
	return append(responses, '}'), nil
}

// appendMember appends a member to a JSON object that was begun.
func appendMember(object []byte, name string, value json.RawMessage) []byte {
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(quoted(object, name), ':'), value...)
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
	question := tool.Question{Key: key}
	err := eachMember(value, func(name string, member json.RawMessage) error {
		switch name {
		case "method":
			if err := json.Unmarshal(member, &question.Method); err != nil {
				return errors.New("method is not a name")
			}
		case "params":
			question.Params = member
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("request %q: %w", plain(key, 64), err)
	}
	w.keys, w.questions = append(w.keys, key), append(w.questions, question)
	return nil
}
