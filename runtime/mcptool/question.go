package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// What a server may ask.
const (
	elicitMethod   = "elicitation/create"
	samplingMethod = "sampling/createMessage"
	rootsMethod    = "roots/list"
)

// The bounds of what a server may ask during one errand.
const (
	maxElicitation = 64 << 10 // bytes of the params of one question, but
	maxSampling    = 1 << 20  // of those of sampling/createMessage, which hold a conversation
	maxAsked       = 100      // questions
	maxAnswer      = 16 << 20 // bytes of an answer, which is the caller's
)

// notAnswered is why a question has no answer: what the server is told, and the cause, for the log.
type notAnswered struct {
	code    int64
	message string
	rpc     json.RawMessage // the caller's own JSON-RPC error, if it gave one
	err     error
}

func (n *notAnswered) Error() string { return n.message }

func (n *notAnswered) Unwrap() error { return n.err }

// refusal is the answer to a server's request of its own.
func (n *notAnswered) refusal(id json.RawMessage) []byte {
	if n.rpc == nil {
		return refusal(id, n.code, n.message)
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(append(body, `,"error":`...), n.rpc...)
	return append(body, '}')
}

// isQuestion reports whether a method is one that asks the caller.
func isQuestion(method string) bool { return capabilityOf(method) != "" }

// capabilityOf is what a caller declares who can be asked by a method; "": it is no question.
func capabilityOf(method string) string {
	switch method {
	case elicitMethod:
		return "elicitation"
	case samplingMethod:
		return "sampling"
	case rootsMethod:
		return "roots"
	}
	return ""
}

// mayAsk reports whether the caller may be asked a question, which counts as one that is asked.
func (e *errand) mayAsk(question tool.Question) *notAnswered {
	name := capabilityOf(question.Method)
	limit := maxElicitation
	if question.Method == samplingMethod {
		limit = maxSampling
	}
	switch {
	case name == "":
		return &notAnswered{code: codeMethodNotFound, message: "not offered by this client: " + plain(question.Method, 64)}
	case e.caller.Ask == nil || !e.may.declared(question.Method):
		return &notAnswered{code: codeMethodNotFound, message: "the client of this call cannot be asked: it did not declare " + name}
	case len(question.Params) > limit:
		return &notAnswered{code: codeInvalidParams, message: fmt.Sprintf("the question is larger than %d bytes", limit)}
	}
	if err := e.checkParams(question); err != nil {
		return &notAnswered{code: codeInvalidParams, message: plain(err.Error(), 300)}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.questions == maxAsked {
		return &notAnswered{code: codeInternal, message: fmt.Sprintf("more than %d questions during one call", maxAsked)}
	}
	e.questions++
	return nil
}

// checkParams wants one JSON object, and of an elicitation a mode that the caller declared.
func (e *errand) checkParams(question tool.Question) error {
	if question.Params == nil && question.Method == rootsMethod {
		return nil
	}
	mode := "form"
	err := eachMember(question.Params, func(name string, value json.RawMessage) error {
		if name == "mode" && json.Unmarshal(value, &mode) != nil {
			return errors.New("mode is not a string")
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("params: %w", err)
	case question.Method != elicitMethod, mode == "form" && e.may.form, mode == "url" && e.may.url:
		return nil
	}
	return fmt.Errorf("the client of this call did not declare elicitation of mode %q", plain(mode, 64))
}

// ask is askAll for one question.
func (e *errand) ask(ctx context.Context, question tool.Question) (json.RawMessage, *notAnswered) {
	answers, refused := e.askAll(ctx, []tool.Question{question})
	if refused != nil {
		return nil, refused
	}
	return answers[0], nil
}

// askAll asks the caller, and has a JSON object for each question or says why there is none. The errand's
// time stands still meanwhile.
func (e *errand) askAll(ctx context.Context, questions []tool.Question) ([]json.RawMessage, *notAnswered) {
	resume := e.clock.pause()
	answers, err := e.caller.Ask(ctx, questions)
	resume()
	if err == nil && len(answers) != len(questions) {
		err = fmt.Errorf("%d answers to %d questions", len(answers), len(questions))
	}
	for i := 0; err == nil && i < len(answers); i++ {
		if len(answers[i]) > maxAnswer {
			err = fmt.Errorf("an answer of %d bytes, at most %d", len(answers[i]), maxAnswer)
			break
		}
		err = eachMember(answers[i], func(string, json.RawMessage) error { return nil })
	}
	if err == nil {
		return answers, nil
	}
	n := &notAnswered{code: codeInternal, message: "there was no answer to be had", err: err}
	if failure, ok := errors.AsType[*tool.Failure](err); ok && json.Valid(failure.RPC) {
		n.rpc, n.message = failure.RPC, plain(failure.Message, 300)
	}
	if ctx.Err() == nil {
		e.log.Warn("server's question not answered", "method", questions[0].Method, "error", err)
	}
	return nil, n
}
