package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// Questions of a skill's server during a call go to the call's client: before 2026-07-28 as a request on the
// stream of the call, since then as a result that asks for input, or with the task. The questions are in the
// database; any process can take the answer.

// askedError ends a wait with questions that the client gets as a result.
type askedError struct{ questions []call.Question }

func (*askedError) Error() string { return "the skill's server asks the client something" }

// questionPrefix starts the ids of Holdpoint's requests, which name the question.
const questionPrefix = "holdpoint/question/"

// sendQuestions sends the open questions of the call to the client. Those that this client cannot answer wait for another
// client, or expire.
func (w *wait) sendQuestions(open []call.Question) error {
	x := w.x
	var mine []call.Question
	for _, q := range open {
		if x.can.Answers(q.Method) {
			mine = append(mine, q)
		}
	}
	switch {
	case len(mine) == 0:
		return nil
	case x.modern:
		return &askedError{mine}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, q := range mine {
		if q.Number <= w.lastAsked || w.over {
			continue
		}
		w.lastAsked = q.Number
		request := rawjson.AppendString([]byte(`{"jsonrpc":"2.0","id":`), questionPrefix+nameQuestion(w.attends.id, q.Number))
		request = append(appendQuestion(append(request, ','), q), '}')
		if x.BeginStream() != nil || x.WriteEvent(request) != nil {
			return errGone
		}
	}
	return nil
}

// appendQuestion appends method and params.
func appendQuestion(dst []byte, q call.Question) []byte {
	dst = rawjson.AppendString(append(dst, `"method":`...), q.Method)
	if q.Params != nil {
		dst = append(append(dst, `,"params":`...), q.Params...)
	}
	return dst
}

// inputRequests returns the member with all questions by key.
func inputRequests(questions []call.Question) []byte {
	list := []byte(`"inputRequests":{`)
	for i, q := range questions {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(rawjson.AppendString(list, q.Key), ":{"...)
		list = append(appendQuestion(list, q), '}')
	}
	return append(list, '}')
}

// nameQuestion names a question of a call, or with the number of the last one, all of its questions.
func nameQuestion(id uuid.UUID, number int) string { return id.String() + "/" + strconv.Itoa(number) }

// parseQuestion parses the JSON string with the name of a question.
func parseQuestion(raw []byte, prefix string) (id uuid.UUID, number int, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return uuid.Nil, 0, false
	}
	text, ok = strings.CutPrefix(text, prefix)
	name, digits, _ := strings.Cut(text, "/")
	id, err := uuid.Parse(name)
	n, wrong := strconv.ParseUint(digits, 10, 31)
	return id, int(n), ok && err == nil && wrong == nil && id.String() == name
}

// answerAsked answers with a request for input. The state names the call; only its own client can use it.
func (x *toolCall) answerAsked(w waiting, questions []call.Question) {
	state := nameQuestion(w.id, questions[len(questions)-1].Number)
	x.reply([]byte(`{"resultType":"input_required",`), inputRequests(questions),
		rawjson.AppendString([]byte(`,"requestState":`), state), []byte(`,"_meta":{`),
		callMeta(w.id, call.Executing, codeInputRequired, nil, w.attached), []byte("}}"))
}

// continueCall takes the answers to a call's questions and waits for its outcome, or for more questions. Tool and arguments must
// be the same as before.
func (x *toolCall) continueCall(conversation *catalog.Conversation, arguments json.RawMessage) {
	var found call.Call
	fault := call.ErrNotFound
	if id, _, ok := parseQuestion(x.msg.RequestState, ""); ok {
		found, fault = x.Calls.Get(x.r.Context(), x.viewer(), id)
	}
	if fault == nil && (found.ExposedName != x.msg.Name || string(found.AgentArguments()) != string(arguments)) {
		fault = call.ErrNotFound
	}
	if fault == nil {
		fault = x.takeAnswers(found.ID)
	}
	switch {
	case errors.Is(fault, call.ErrNotFound):
		x.fail(unknownState())
	case fault != nil:
		x.failWith("continue call", fault)
	default:
		x.waitForOutcome(conversation.ID, waiting{id: found.ID, status: found.Status, gated: found.Gated, keyed: true, task: x.can.Tasks})
	}
}

func unknownState() *jsonrpc.Error {
	return wire.InvalidParams("/params/requestState: must be the state from the answer to this call")
}

// readResponses reads inputResponses: an object with a result for each key.
func (x *exchange) readResponses() (map[string]json.RawMessage, *jsonrpc.Error) {
	if x.msg.InputResponses == nil || !x.modern {
		return nil, nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(x.msg.InputResponses, &given) != nil || given == nil {
		return nil, wire.InvalidParams("/params/inputResponses: must be an object")
	}
	for key, response := range given {
		if !wire.IsObject(response) {
			where := plain.Visible("/params/inputResponses/"+key, wire.MaxShown)
			return nil, wire.InvalidParams(where + ": must be an object")
		}
	}
	return given, nil
}

// takeAnswers submits the answers in inputResponses. Answers to unknown or answered questions are ignored.
func (x *exchange) takeAnswers(id uuid.UUID) error {
	given, fault := x.readResponses()
	if fault != nil {
		return fault
	}
	open, err := x.Calls.Questions(x.r.Context(), x.viewer(), id)
	if err != nil {
		return err
	}
	for _, q := range open {
		response, ok := given[q.Key]
		if !ok {
			continue
		}
		err := x.Calls.Answer(context.WithoutCancel(x.r.Context()), x.viewer(), id, q.Number, call.Answer{Result: response})
		if err != nil && !errors.Is(err, call.ErrNotFound) {
			return err
		}
	}
	return nil
}

// failWith answers with a JSON-RPC error, or with an internal error for other errors.
func (x *response) failWith(action string, err error) {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		x.fail(fault)
		return
	}
	x.failInternal(action, err)
}

// takeResponse takes a client's response to a request of Holdpoint. Responses to other requests are ignored.
func (x *sessionRequest) takeResponse() {
	if id, number, ok := parseQuestion(x.msg.ID, questionPrefix); ok {
		a := call.Answer{Result: x.msg.Result, Error: x.msg.Error}
		if a.Result != nil && !wire.IsObject(a.Result) {
			a = call.Answer{Error: json.RawMessage(`{"code":-32603,"message":"the client's result is not an object"}`)}
		}
		err := x.Calls.Answer(context.WithoutCancel(x.r.Context()), x.viewer(), id, number, a)
		if err != nil && !errors.Is(err, call.ErrNotFound) { // not found: too late, or another client's question
			x.failPlain("answer question", err)
			return
		}
	}
	x.w.WriteHeader(http.StatusAccepted)
}
