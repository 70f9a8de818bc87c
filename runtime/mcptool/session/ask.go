package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// AdmitQuestion returns nil if the caller may be asked the question, and counts it.
func (op *Operation) AdmitQuestion(question tool.Question) *Refusal {
	name := capabilityOf(question.Method)
	limit := maxElicitation
	if question.Method == samplingMethod {
		limit = maxSampling
	}
	switch {
	case name == "":
		return &Refusal{code: jsonrpc.CodeMethodNotFound, Message: "not offered by this client: " + plain.Line(question.Method, 64)}
	case op.Caller.Ask == nil || !op.client.include(question.Method):
		return &Refusal{code: jsonrpc.CodeMethodNotFound, Message: "the client of this call cannot be asked: it did not declare " + name}
	case len(question.Params) > limit:
		return &Refusal{code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("the question is larger than %d bytes", limit)}
	}
	if err := op.checkQuestion(question); err != nil {
		return &Refusal{code: jsonrpc.CodeInvalidParams, Message: plain.Line(err.Error(), 300)}
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.questions == maxAsked {
		return &Refusal{code: jsonrpc.CodeInternalError, Message: fmt.Sprintf("more than %d questions during one call", maxAsked)}
	}
	op.questions++
	return nil
}

// checkQuestion checks that params is one JSON object, and that the caller declared the mode of an elicitation.
func (op *Operation) checkQuestion(question tool.Question) error {
	if question.Params == nil && question.Method == rootsMethod {
		return nil
	}
	mode := "form"
	value, err := ReadMember(question.Params, "mode")
	if err == nil && value != nil && json.Unmarshal(value, &mode) != nil {
		err = errors.New("mode is not a string")
	}
	switch {
	case err != nil:
		return fmt.Errorf("params: %w", err)
	case question.Method != elicitMethod, mode == "form" && op.client.form, mode == "url" && op.client.url:
		return nil
	}
	return fmt.Errorf("the client of this call did not declare elicitation of mode %q", plain.Line(mode, 64))
}

// Ask is AskAll for one question.
func (op *Operation) Ask(ctx context.Context, question tool.Question) (json.RawMessage, *Refusal) {
	answers, refused := op.AskAll(ctx, []tool.Question{question})
	if refused != nil {
		return nil, refused
	}
	return answers[0], nil
}

// AskAll asks the caller, and returns a JSON object for each question. The clock of the operation is paused meanwhile.
func (op *Operation) AskAll(ctx context.Context, questions []tool.Question) ([]json.RawMessage, *Refusal) {
	resume := op.clock.pauseClock()
	answers, err := op.Caller.Ask(ctx, questions)
	resume()
	if err == nil && len(answers) != len(questions) {
		err = fmt.Errorf("%d answers to %d questions", len(answers), len(questions))
	}
	for i := 0; err == nil && i < len(answers); i++ {
		if len(answers[i]) > maxAnswer {
			err = fmt.Errorf("an answer of %d bytes, at most %d", len(answers[i]), maxAnswer)
			break
		}
		err = EachMember(answers[i], func(string, json.RawMessage) error { return nil })
	}
	if err == nil {
		return answers, nil
	}
	n := &Refusal{code: jsonrpc.CodeInternalError, Message: "there was no answer to be had", err: err}
	if failure, ok := errors.AsType[*tool.Failure](err); ok && json.Valid(failure.RPC) {
		n.rpc, n.Message = failure.RPC, plain.Line(failure.Message, 300)
	}
	if ctx.Err() == nil {
		op.Logger.Warn("server's question not answered", "method", questions[0].Method, "error", err)
	}
	return nil, n
}

// The limits on questions during one operation.
const (
	maxElicitation = 64 << 10 // bytes of the params of one question
	maxSampling    = 1 << 20  // likewise of sampling/createMessage, which has a conversation
	maxAsked       = 100      // questions
	maxAnswer      = 16 << 20 // bytes of an answer of the caller
)

// clientCapabilities are the declared capabilities of a caller.
type clientCapabilities struct {
	members                    []byte // as they are sent to the server, without braces
	form, url, sampling, roots bool
}

// readClientCapabilities reads a ClientCapabilities object. Nil is an empty one.
func readClientCapabilities(text json.RawMessage) (clientCapabilities, error) {
	var c clientCapabilities
	if len(text) == 0 {
		return c, nil
	}
	err := EachMember(text, func(name string, value json.RawMessage) error {
		modes := map[string]bool{}
		if err := EachMember(value, func(mode string, _ json.RawMessage) error { modes[mode] = true; return nil }); err != nil {
			return fmt.Errorf("%s: %w", plain.Line(name, 64), err)
		}
		switch name {
		case "elicitation": // an empty one means forms
			c.url = modes["url"]
			c.form = modes["form"] || !c.url
		case "sampling":
			c.sampling = true
		case "roots":
			c.roots = true
		default:
			return fmt.Errorf("%q is none of elicitation, sampling, roots", plain.Line(name, 64))
		}
		return nil
	})
	if err != nil {
		return clientCapabilities{}, err
	}
	c.members, err = StripBraces(text)
	return c, err
}

func (c clientCapabilities) areAny() bool { return c.form || c.url || c.sampling || c.roots }

// include reports whether the caller can be asked by a method.
func (c clientCapabilities) include(method string) bool {
	switch method {
	case elicitMethod:
		return c.form || c.url
	case samplingMethod:
		return c.sampling
	case rootsMethod:
		return c.roots
	}
	return false
}

// The methods by which a server asks.
const (
	elicitMethod   = "elicitation/create"
	samplingMethod = "sampling/createMessage"
	rootsMethod    = "roots/list"
)

// capabilityOf returns the capability that a method needs, or "" if the method is not a question.
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

// Refusal says why a question has no answer.
type Refusal struct {
	code    int64
	Message string          // for the server
	rpc     json.RawMessage // the caller's own JSON-RPC error, if it returned one
	err     error           // for the log
}

func (n *Refusal) Error() string { return n.Message }

func (n *Refusal) Unwrap() error { return n.err }

// encodeFor returns the response to the server's request with this id.
func (n *Refusal) encodeFor(id json.RawMessage) []byte {
	if n.rpc == nil {
		return encodeError(id, n.code, n.Message)
	}
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(append(body, `,"error":`...), n.rpc...)
	return append(body, '}')
}
