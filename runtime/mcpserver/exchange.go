package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// exchange is one request and its answer.
type exchange struct {
	*Server
	caller
	accepts

	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	msg     message
	modern  bool // of MCP 2026-07-28 or later
	can     abilities
	// wantsLog: the client wants the log messages of the server that works on its call.
	wantsLog bool

	answered  bool  // the response has begun
	streaming bool  // as text/event-stream
	broken    error // the first write that failed

	span trace.Span // nil: the request has none
}

// delete ends a session. Calls made in it go their way.
func (x *exchange) delete() {
	session := x.r.Header.Get(headerSession)
	if x.r.Header.Get(headerVersion) == modernVersion || session == "" {
		x.w.Header().Set("Allow", "POST")
		http.Error(x.w, "there is no session to end", http.StatusMethodNotAllowed)
		return
	}
	id, err := sessionID(session)
	if err == nil {
		err = x.Catalog.EndConversation(x.r.Context(), x.agent.ID, x.principal, id)
	}
	switch {
	case errors.Is(err, agent.ErrNotFound):
		x.unknownSession()
	case err != nil:
		http.Error(x.w, "internal error "+x.logFailure("end conversation", err), http.StatusInternalServerError)
	default:
		x.watch.end(id)
		if err := x.Resources.Ended(x.r.Context(), id); err != nil {
			x.logFailure("end subscriptions", err) // of a conversation that has ended they are of no consequence
		}
		x.w.WriteHeader(http.StatusNoContent)
	}
}

// sessionID reads a session's id; what is none is an unknown session.
func sessionID(text string) (uuid.UUID, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return uuid.Nil, agent.ErrNotFound
	}
	return id, nil
}

func (x *exchange) unknownSession() {
	http.Error(x.w, "this session is unknown or has ended; start one with initialize", http.StatusNotFound)
}

// post takes one message in.
func (x *exchange) post() {
	x.accepts = parseAccept(x.r.Header["Accept"])
	switch {
	case !x.json && !x.stream:
		http.Error(x.w, "Accept must allow application/json or text/event-stream", http.StatusNotAcceptable)
		return
	case !jsonBody(x.r.Header):
		http.Error(x.w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, ok := x.read()
	if !ok {
		return
	}
	var fault *jsonrpc.Error
	x.msg, fault = x.parsers.parse(body)
	if fault == nil || fault.Code == jsonrpc.CodeInvalidParams {
		if late := x.settleEra(); fault == nil {
			fault = late
		}
	} else {
		x.modern = x.r.Header.Get(headerVersion) == modernVersion
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	x.dispatch()
}

// read takes the body in, whole: only then does net/http notice a client that
// leaves. The listener bounds the time that a client has to send it.
func (x *exchange) read() ([]byte, bool) {
	var body []byte
	var err error
	switch n := x.r.ContentLength; {
	case n > x.MaxBody:
		x.w.Header().Set("Connection", "close")
		err = &http.MaxBytesError{Limit: x.MaxBody}
	case n > 0:
		body = make([]byte, n)
		_, err = io.ReadFull(x.r.Body, body)
	default:
		body, err = io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, x.MaxBody))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		http.Error(x.w, fmt.Sprintf("the body has more than %d bytes", x.MaxBody), http.StatusRequestEntityTooLarge)
	case err != nil:
		http.Error(x.w, "the body could not be read", http.StatusBadRequest)
	}
	return body, err == nil
}

// dispatch answers a message that is well formed.
func (x *exchange) dispatch() {
	if x.msg.id == nil || x.msg.reply {
		x.notification()
		return
	}
	done, ok := x.admitted()
	if !ok {
		return
	}
	defer done()
	if x.trace(); x.span != nil {
		defer x.span.End()
	}
	switch method := x.msg.method; {
	case method == "tools/call":
		x.callTool()
	case method == "tools/list":
		x.listTools()
	case method == "server/discover" && x.modern:
		x.discover()
	case method == "subscriptions/listen" && x.modern:
		x.listen()
	case method == "initialize" && !x.modern:
		x.initialize()
	case method == "ping" && !x.modern:
		x.reply([]byte("{}"))
	case method == "logging/setLevel" && !x.modern:
		x.setLevel()
	case method == "tasks/get" && x.modern:
		x.getTask()
	case method == "tasks/update" && x.modern:
		x.updateTask()
	case method == "tasks/cancel" && x.modern:
		x.cancelTask()
	case x.others(method):
	default:
		x.fail(&jsonrpc.Error{
			Code:    jsonrpc.CodeMethodNotFound,
			Message: "method not found: " + plain.Quoted(method, maxShown),
		})
	}
}

// conversation finds the one that the request belongs to, or answers.
func (x *exchange) conversation() (*catalog.Conversation, bool) {
	session := x.r.Header.Get(headerSession)
	var found *catalog.Conversation
	var err error
	switch {
	case x.modern:
		found, err = x.named(x.r.Context(), x.conversationName(), x.self())
	case session != "":
		found, err = x.ofSession(x.r.Context(), session)
	case x.r.Header.Get(headerVersion) == "":
		found, err = x.named(x.r.Context(), x.conversationName(), x.self())
	default:
		x.sessionMissing()
		return nil, false
	}
	switch {
	case err == nil:
		return found, true
	case session != "" && !x.modern && errors.Is(err, agent.ErrNotFound):
		x.unknownSession()
	default:
		x.internal("find conversation", err)
	}
	return nil, false
}

func (x *exchange) sessionMissing() {
	http.Error(x.w, "the Mcp-Session-Id header is missing; start a session with initialize", http.StatusBadRequest)
}

func (x *exchange) ofSession(ctx context.Context, session string) (*catalog.Conversation, error) {
	id, err := sessionID(session)
	if err != nil {
		return nil, err
	}
	return x.Catalog.Conversation(ctx, x.agent.ID, x.principal, id)
}

// conversationName names the conversation of a client without sessions, as of now.
func (x *exchange) conversationName() string {
	if name := x.msg.meta.conversation; name != "" {
		return name
	}
	return "day:" + x.Now().UTC().Format(time.DateOnly)
}

// named is the conversation of clients without sessions.
func (x *exchange) named(ctx context.Context, name string, client json.RawMessage) (*catalog.Conversation, error) {
	version := modernVersion
	if !x.modern {
		version = ""
	}
	return x.Catalog.NamedConversation(ctx, x.agent, x.principal, name, version, client)
}

// self is what the request says of its client.
func (x *exchange) self() json.RawMessage {
	return x.client(x.msg.meta.clientInfo, x.msg.meta.capabilities)
}

// internal answers what is our fault. The client gets an id to ask us about,
// and nothing else.
func (x *exchange) internal(action string, err error) {
	id := x.logFailure(action, err)
	x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error " + id})
}

func (x *exchange) logFailure(action string, err error) string {
	id := uuid.NewString()
	x.Logger.Error("request to an agent's endpoint failed", "error_id", id,
		"agent", x.r.PathValue("agent"), "action", action, "error", err)
	return id
}

// recover turns a panic into an internal error.
func (x *exchange) recover() {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		if x.answered && !x.streaming {
			x.logFailure("serve", err)
			panic(http.ErrAbortHandler)
		}
		x.internal("serve", err)
	}
}

// marshal is for values of our own making, which always have a form in JSON.
func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
