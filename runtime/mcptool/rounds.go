package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The limits on results that ask for input.
const (
	maxRounds    = 10        // results that ask for input, in one call
	maxQuestions = 16        // in one result
	maxState     = 256 << 10 // bytes of its requestState
)

// The types of results.
const (
	typeComplete = "complete"
	typeInput    = "input_required"
	typeTask     = "task"
)

// sendRounds sends a request, and continues it with the input that the server asks for, until the server asks for no more. kind is the
// type of the result.
func (s *Source) sendRounds(op *session.Operation, server tool.Server, first *session.Request) (raw json.RawMessage, kind string, failure *tool.Failure) {
	first.Operation = op
	r := first
	for round := 1; ; round++ {
		raw, info, failure := s.sendRequest(op.Context, server, r)
		if failure == nil {
			kind, failure = readResultType(first.Label, raw)
		}
		switch {
		case failure != nil && r.Continues:
			return nil, "", withPossibleEffect(failure)
		case failure != nil:
			return nil, "", failure
		case kind != typeInput:
			return raw, kind, nil
		}
		if r, failure = s.nextRound(op, first, raw, info, round); failure != nil {
			return nil, "", failure
		}
	}
}

// sendOnce sends a request once.
func (s *Source) sendOnce(op *session.Operation, server tool.Server, r *session.Request) (raw json.RawMessage, kind string, failure *tool.Failure) {
	r.Operation = op
	if raw, _, failure = s.sendRequest(op.Context, server, r); failure == nil {
		kind, failure = readResultType(r.Label, raw)
	}
	return raw, kind, failure
}

// readResultType returns the type of a result. Servers of earlier revisions do not set it.
func readResultType(what string, raw json.RawMessage) (string, *tool.Failure) {
	kind := typeComplete
	value, err := session.ReadMember(raw, "resultType")
	if err == nil && value != nil && json.Unmarshal(value, &kind) != nil {
		err = errors.New("resultType is not a string")
	}
	if err != nil {
		return "", session.NewProtocolFailure(raw, err, "%s: the result cannot be read: %s", what, plain.Line(err.Error(), 200))
	}
	return kind, nil
}

// nextRound returns the request that continues a call after a result that asked for input. The server asked for it, so it does not repeat
// the first request, which was answered.
func (s *Source) nextRound(op *session.Operation, first *session.Request, raw json.RawMessage, info session.Info, round int) (*session.Request, *tool.Failure) {
	switch {
	case !info.IsStateless():
		return nil, session.NewProtocolFailure(raw, nil, "the server asks for more input before it goes on, which it was not offered")
	case round > maxRounds:
		return nil, session.NewProtocolFailure(raw, nil, "%s: the server asked for input more than %d times", first.Label, maxRounds)
	}
	wants, err := readInputRequired(raw)
	for i := 0; err == nil && i < len(wants.questions); i++ { // if one may not be asked, none is
		if refused := op.AdmitQuestion(wants.questions[i]); refused != nil {
			err = fmt.Errorf("request %q: %w", plain.Line(wants.keys[i], 64), refused)
		}
	}
	if err != nil {
		return nil, session.NewProtocolFailure(raw, err, "%s: the server asks for input that cannot be given: %s", first.Label, plain.Line(err.Error(), 300))
	}
	more := *first
	more.Continues = true
	more.Members = append([]byte(nil), first.Members...)
	if wants.asks {
		responses, failure := askForInput(op, first.Label, raw, wants)
		if failure != nil {
			return nil, failure
		}
		more.Members = append(append(more.Members, `,"inputResponses":`...), responses...)
	}
	if wants.state != nil {
		more.Members = append(append(more.Members, `,"requestState":`...), wants.state...)
	}
	return &more, nil
}

// askForInput asks the caller all questions of one result, and returns the answers as inputResponses.
func askForInput(op *session.Operation, what string, raw json.RawMessage, wants inputRequired) ([]byte, *tool.Failure) {
	if len(wants.questions) == 0 {
		return []byte("{}"), nil
	}
	answers, refused := op.AskAll(op.Context, wants.questions)
	switch {
	case op.Context.Err() != nil:
		return nil, tool.Ended(op.Context, tool.EffectPossible, what)
	case refused != nil:
		return nil, session.NewProtocolFailure(raw, refused, "%s: the server asks for input, and %s", what, refused.Message)
	}
	responses := []byte{'{'}
	for i, answer := range answers {
		responses = rawjson.AppendMember(responses, wants.keys[i], answer)
	}
	return append(responses, '}'), nil
}

// inputRequired is a result that asks for input (MCP 2026-07-28).
type inputRequired struct {
	asks      bool // there are inputRequests
	keys      []string
	questions []tool.Question
	state     json.RawMessage // requestState as it came; nil: none
}

// readInputRequired reads a result that asks for input.
func readInputRequired(raw json.RawMessage) (inputRequired, error) {
	var wants inputRequired
	err := session.EachMember(raw, func(name string, value json.RawMessage) error {
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
			return session.EachMember(value, wants.addRequest)
		}
		return nil
	})
	if err == nil && !wants.asks && wants.state == nil {
		err = errors.New("it names neither inputRequests nor a requestState")
	}
	return wants, err
}

// addRequest reads one of the inputRequests.
func (w *inputRequired) addRequest(key string, value json.RawMessage) error {
	if len(w.keys) == maxQuestions {
		return fmt.Errorf("more than %d questions at once", maxQuestions)
	}
	question := tool.Question{Key: key}
	err := session.EachMember(value, func(name string, member json.RawMessage) error {
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
		return fmt.Errorf("request %q: %w", plain.Line(key, 64), err)
	}
	w.keys, w.questions = append(w.keys, key), append(w.questions, question)
	return nil
}

// withPossibleEffect returns the failure of a call that had begun: the server may have acted in an earlier round.
func withPossibleEffect(f *tool.Failure) *tool.Failure {
	out := *f
	out.Effect, out.Connect = tool.EffectPossible, nil
	return &out
}
