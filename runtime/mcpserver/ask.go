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
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// What a skill's server asks while it works on a call reaches the call's client: before 2026-07-28 as a
// request on the stream of its own request, since then as a result that asks for input, or with the task. The
// questions are in the database; whichever process the answer reaches takes it.

// askedError ends a wait with questions that the client gets as a result.
type askedError struct{ questions []call.Question }

func (*askedError) Error() string { return "the skill's server asks the client something" }

// questionPrefix begins the ids of our requests, which name the question.
const questionPrefix = "holdpoint/question/"

// asked takes the open questions of the call that is waited for. Those that this client cannot answer wait for
// another, or for the end of their time.
func (w *wait) asked(open []call.Question) error {
	x := w.x
	var mine []call.Question
	for _, q := range open {
		if x.can.answers(q.Method) {
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
		if err := x.request(questionPrefix+w.attends.id.String()+"/"+strconv.Itoa(q.Number), q); err != nil {
			return errGone
		}
	}
	return nil
}

// request sends a request of ours to the client.
func (x *exchange) request(id string, q call.Question) error {
	if err := x.beginStream(); err != nil {
		return err
	}
	message := append(appendString([]byte(`{"jsonrpc":"2.0","id":`), id), ',')
	return x.event(append(appendQuestion(message, q), '}'))
}

// appendQuestion appends method and params.
func appendQuestion(dst []byte, q call.Question) []byte {
	dst = appendString(append(dst, `"method":`...), q.Method)
	if q.Params != nil {
		dst = append(append(dst, `,"params":`...), q.Params...)
	}
	return dst
}

// inputRequests is the inside of the object with all questions, by key.
func inputRequests(questions []call.Question) []byte {
	list := []byte(`"inputRequests":{`)
	for i, q := range questions {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(appendString(list, q.Key), ":{"...)
		list = append(appendQuestion(list, q), '}')
	}
	return append(list, '}')
}

// stateSeparator is between the call and the last question of it that a state names.
const stateSeparator = "/"

// answerAsked asks for input. The state names the call, and is of use to its own client only.
func (x *exchange) answerAsked(w waiting, questions []call.Question) {
	state := w.id.String() + stateSeparator + strconv.Itoa(questions[len(questions)-1].Number)
	x.reply([]byte(`{"resultType":"input_required",`), inputRequests(questions),
		appendString([]byte(`,"requestState":`), state), []byte(`,"_meta":{`),
		callMeta(w.id, call.Executing, codeInputRequired, nil, w.attached), []byte("}}"))
}

// goOn takes the answers to what a call was answered with, and waits for its end, or for more.
func (x *exchange) goOn(conversation *catalog.Conversation, arguments json.RawMessage) {
	found, fault := x.continued(arguments)
	if fault == nil {
		fault = x.takeAnswers(found.ID)
	}
	switch {
	case errors.Is(fault, call.ErrNotFound):
		x.fail(unknownState())
	case fault != nil:
		x.refuse("continue call", fault)
	default:
		x.wait(conversation.ID, waiting{id: found.ID, status: found.Status, gated: found.Gated, keyed: true, task: x.can.tasks})
	}
}

func unknownState() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "/params/requestState: not one that this call was answered with",
	}
}

// readState reads which call a state names.
func readState(raw []byte) (uuid.UUID, bool) {
	var state string
	if json.Unmarshal(raw, &state) != nil {
		return uuid.Nil, false
	}
	name, number, _ := strings.Cut(state, stateSeparator)
	id, err := uuid.Parse(name)
	_, wrong := strconv.ParseUint(number, 10, 31)
	return id, err == nil && wrong == nil && id.String() == name
}

// continued finds the call that the request goes on with. It must be the same call in all else.
func (x *exchange) continued(arguments json.RawMessage) (call.Call, error) {
	id, ok := readState(x.msg.requestState)
	if !ok {
		return call.Call{}, call.ErrNotFound
	}
	found, err := x.Calls.Get(x.r.Context(), x.viewer(), id)
	if err == nil && (found.ExposedName != x.msg.name || string(found.Made()) != string(arguments)) {
		err = call.ErrNotFound
	}
	return found, err
}

// responses reads inputResponses: a result for each key.
func (x *exchange) responses() (map[string]json.RawMessage, *jsonrpc.Error) {
	if x.msg.inputResponses == nil || !x.modern {
		return nil, nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(x.msg.inputResponses, &given) != nil || given == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/inputResponses: want an object"}
	}
	for key, response := range given {
		if !object(response) {
			where := plain.Visible("/params/inputResponses/"+key, maxShown)
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: where + ": want an object"}
		}
	}
	return given, nil
}

// takeAnswers hands on what inputResponses says. What is not asked, or is answered already, is ignored.
func (x *exchange) takeAnswers(id uuid.UUID) error {
	given, fault := x.responses()
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

// refuse answers with a fault, or with an internal error where it is none.
func (x *exchange) refuse(action string, err error) {
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok {
		x.fail(fault)
		return
	}
	x.internal(action, err)
}

// takeReply takes a client's response to a request of ours. One to anything else is nothing to us.
func (x *exchange) takeReply() {
	if call, number, ok := questionOf(x.msg.id); ok {
		if err := x.answerQuestion(call, number); err != nil {
			http.Error(x.w, "internal error "+x.logFailure("answer question", err), http.StatusInternalServerError)
			return
		}
	}
	x.w.WriteHeader(http.StatusAccepted)
}

func (x *exchange) answerQuestion(id uuid.UUID, number int) error {
	a := call.Answer{Result: x.msg.result, Error: x.msg.failure}
	if a.Result != nil && !object(a.Result) {
		a = call.Answer{Error: json.RawMessage(`{"code":-32603,"message":"the client's result is not an object"}`)}
	}
	err := x.Calls.Answer(context.WithoutCancel(x.r.Context()), x.viewer(), id, number, a)
	if errors.Is(err, call.ErrNotFound) {
		return nil // too late, or not theirs
	}
	return err
}

// questionOf reads the id of a request of ours.
func questionOf(raw []byte) (id uuid.UUID, number int, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return id, 0, false
	}
	text, ours := strings.CutPrefix(text, questionPrefix)
	name, digits, _ := strings.Cut(text, "/")
	id, err := uuid.Parse(name)
	n, wrong := strconv.ParseUint(digits, 10, 31)
	return id, int(n), ours && err == nil && wrong == nil
}
