package session

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Questions handles the questions that a server asks during operations in revisions before 2026-07-28, where each is a request of the
// server.
type Questions struct {
	background *Background
	send       func(context.Context, []byte) // sends an answer
	sendLater  func([]byte)                  // sends a refusal, without waiting

	mu      sync.Mutex
	legacy  bool               // the server asks by requests of its own
	running map[*Operation]int // with the number of their requests
	open    map[string]*openQuestion
}

// The limits on open questions.
const (
	maxOpen      = 8    // of one operation
	maxOpenOfAll = 1000 // of one session
)

// openQuestion is a question that is being answered.
type openQuestion struct {
	operation *Operation
	cancel    context.CancelFunc
}

// NewQuestions returns a Questions without any. It answers by send, and refuses by sendLater, which does not wait.
func NewQuestions(background *Background, send func(context.Context, []byte), sendLater func([]byte)) *Questions {
	return &Questions{
		background: background, send: send, sendLater: sendLater,
		running: map[*Operation]int{}, open: map[string]*openQuestion{},
	}
}

// Track records a running request, until end is called.
func (all *Questions) Track(r *Request, info Info) (end func()) {
	op := r.Operation
	if op == nil || !AllowsQuestions(r.Method) {
		return func() {}
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.legacy = !info.IsStateless()
	all.running[op]++
	return func() {
		all.mu.Lock()
		defer all.mu.Unlock()
		if all.running[op]--; all.running[op] == 0 {
			delete(all.running, op)
		}
	}
}

// AllowsQuestions reports whether a server may ask questions and send log messages during a request of this method.
func AllowsQuestions(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "tasks/result":
		return true
	}
	return false
}

// OnlyOperation returns the running operation if there is exactly one, else nil.
func (all *Questions) OnlyOperation() *Operation {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.onlyOperation()
}

func (all *Questions) onlyOperation() *Operation {
	if len(all.running) != 1 {
		return nil
	}
	for op := range all.running {
		return op
	}
	return nil
}

// Accepts reports whether a message is a question, or cancels one.
func (all *Questions) Accepts(m Message) bool {
	return capabilityOf(m.Method) != "" && m.IsRequest() || m.Method == "notifications/cancelled" && m.ID == nil
}

// Handle acts on a message that Accepts accepted. op is the operation that the message belongs to, or nil if the server did not say. A
// question ends with ctx and with its operation.
func (all *Questions) Handle(ctx context.Context, op *Operation, m Message) {
	if !m.IsRequest() {
		all.withdrawQuestion(m.Params)
		return
	}
	if refused := all.admitQuestion(ctx, op, m); refused != nil {
		all.sendLater(refused.encodeFor(m.ID))
	}
}

// admitQuestion starts to answer a question, or returns why it does not.
func (all *Questions) admitQuestion(ctx context.Context, op *Operation, m Message) *Refusal {
	all.mu.Lock()
	defer all.mu.Unlock()
	id := string(m.ID)
	if all.open[id] != nil { // received twice
		return nil
	}
	op, refused := all.findOperation(op, m.Method)
	if refused != nil {
		return refused
	}
	open := 0
	for _, q := range all.open {
		if q.operation == op {
			open++
		}
	}
	if open >= maxOpen || len(all.open) >= maxOpenOfAll {
		return &Refusal{code: jsonrpc.CodeInternalError, Message: "too many questions at once"}
	}
	question := tool.Question{Method: m.Method, Params: m.Params}
	if refused := op.AdmitQuestion(question); refused != nil {
		return refused
	}
	ctx, cancel := context.WithCancel(ctx)
	untie := context.AfterFunc(op.Context, cancel)
	all.open[id] = &openQuestion{operation: op, cancel: func() { untie(); cancel() }}
	started := all.background.Go(func() {
		all.answerQuestion(ctx, op, m.ID, question)
		all.closeQuestion(id)
	})
	if !started {
		all.open[id].cancel()
		delete(all.open, id)
	}
	return nil
}

// findOperation returns the operation that a question belongs to. Roots are only told if the server said which call it asks for: a file
// server may otherwise apply the roots of one caller to all.
func (all *Questions) findOperation(op *Operation, method string) (*Operation, *Refusal) {
	switch {
	case !all.legacy && len(all.running) > 0:
		return nil, &Refusal{code: jsonrpc.CodeMethodNotFound, Message: "not offered by this client: " + plain.Line(method, 64)}
	case op != nil:
		return op, nil
	case len(all.running) == 0:
		return nil, &Refusal{code: jsonrpc.CodeInvalidRequest, Message: "no call is on its way that this could be about"}
	case method == rootsMethod:
		return nil, &Refusal{code: jsonrpc.CodeInvalidRequest, Message: "several clients share this session: roots are told only on the stream of a call"}
	case len(all.running) > 1:
		return nil, &Refusal{code: jsonrpc.CodeInvalidRequest, Message: "several calls are on their way, and it cannot be told which one this is about"}
	}
	return all.onlyOperation(), nil
}

// answerQuestion asks the caller and sends the answer, unless it is no longer wanted.
func (all *Questions) answerQuestion(ctx context.Context, op *Operation, id json.RawMessage, question tool.Question) {
	answer, refused := op.Ask(ctx, question)
	switch {
	case ctx.Err() != nil:
	case refused != nil:
		all.send(ctx, refused.encodeFor(id))
	default:
		all.send(ctx, encodeResult(id, answer))
	}
}

func (all *Questions) closeQuestion(id string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.open[id].cancel()
	delete(all.open, id)
}

// withdrawQuestion ends a question that the server cancelled.
func (all *Questions) withdrawQuestion(params json.RawMessage) {
	id, err := ReadMember(params, "requestId")
	if err != nil {
		return
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	if q := all.open[string(id)]; q != nil {
		q.cancel()
	}
}
