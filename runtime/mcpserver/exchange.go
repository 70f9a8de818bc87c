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

	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
	"github.com/holdpoint/holdpoint/runtime/resource"
)

// exchange is one authenticated request and its response.
type exchange struct {
	response
	caller

	can      wire.Abilities
	wantsLog bool // the client wants log messages of the server that works on its call
}

// endSession ends a session. Its calls continue.
func (x *sessionRequest) endSession() {
	session := x.r.Header.Get(wire.HeaderSession)
	if x.r.Header.Get(wire.HeaderVersion) == modernVersion || session == "" {
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
		x.failPlain("end conversation", err)
	default:
		x.watch.endSession(id)
		if err := x.Resources.Ended(x.r.Context(), id); err != nil {
			x.logFailure("end subscriptions", err) // those of an ended conversation have no effect
		}
		x.w.WriteHeader(http.StatusNoContent)
	}
}

// sessionID parses a session's id. Invalid ids are unknown sessions.
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

// servePost reads one message, and dispatches it to an endpoint.
func (x *exchange) servePost(dispatch func()) {
	x.Accepts = wire.ParseAccept(x.r.Header["Accept"])
	switch {
	case !x.JSON && !x.Stream:
		http.Error(x.w, "Accept must allow application/json or text/event-stream", http.StatusNotAcceptable)
		return
	case !wire.HasJSONBody(x.r.Header):
		http.Error(x.w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, ok := x.readBody()
	if !ok {
		return
	}
	fault := x.parsers.Parse(body, &x.msg)
	if fault == nil || fault.Code == jsonrpc.CodeInvalidParams {
		if late := x.settleEra(); fault == nil {
			fault = late
		}
	} else {
		x.modern = x.r.Header.Get(wire.HeaderVersion) == modernVersion
	}
	if fault != nil {
		x.fail(fault)
		return
	}
	dispatch()
}

// readBody reads the whole body: net/http notices a client that leaves only then. The listener limits how long the body may
// take.
func (x *exchange) readBody() ([]byte, bool) {
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

// dispatch serves a well-formed message.
func (x *exchange) dispatch() {
	if x.msg.ID == nil || x.msg.IsResponse {
		(&sessionRequest{x}).serveNotification()
		return
	}
	done, ok := x.admitRequest()
	if !ok {
		return
	}
	defer done()
	if x.startSpan(); x.span != nil {
		defer x.span.End()
	}
	serveEra := x.serveLegacy
	if x.modern {
		serveEra = x.serveModern
	}
	resources := &resourceRequest{x}
	switch x.msg.Method {
	case "tools/call":
		(&toolCall{x}).callTool()
	case "tools/list":
		x.listTools()
	case "resources/list":
		resources.listOffers(resource.Resources)
	case "resources/templates/list":
		resources.listOffers(resource.Templates)
	case "resources/read":
		resources.readResource()
	case "prompts/list":
		resources.listOffers(resource.Prompts)
	case "prompts/get":
		resources.getPrompt()
	case "completion/complete":
		resources.completeArgument()
	default:
		if !serveEra() {
			x.failMethod()
		}
	}
}

// failMethod answers a request for a method that the endpoint does not have.
func (x *exchange) failMethod() {
	x.fail(&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: " + plain.Quoted(x.msg.Method, wire.MaxShown)})
}

// serveModern serves the methods that only MCP 2026-07-28 and later have.
func (x *exchange) serveModern() bool {
	switch x.msg.Method {
	case "server/discover":
		request := &sessionRequest{x}
		request.writeDiscovery(request.capabilities(), modelIntroduction(nil))
	case "subscriptions/listen":
		(&subscriptionStream{x}).serveListen()
	case "tasks/get":
		(&taskRequest{x}).getTask()
	case "tasks/update":
		(&taskRequest{x}).updateTask()
	case "tasks/cancel":
		(&taskRequest{x}).cancelTask()
	default:
		return false
	}
	return true
}

// serveLegacy serves the methods that only earlier revisions have.
func (x *exchange) serveLegacy() bool {
	switch x.msg.Method {
	case "initialize":
		(&sessionRequest{x}).initialize()
	case "ping":
		x.reply([]byte("{}"))
	case "logging/setLevel":
		(&sessionRequest{x}).setLogLevel()
	case "resources/subscribe":
		(&resourceRequest{x}).changeSubscription(x.Resources.Subscribe)
	case "resources/unsubscribe":
		(&resourceRequest{x}).changeSubscription(x.Resources.Unsubscribe)
	default:
		return false
	}
	return true
}

// findConversation returns the conversation of the request, or answers.
func (x *exchange) findConversation() (*catalog.Conversation, bool) {
	session := x.r.Header.Get(wire.HeaderSession)
	var found *catalog.Conversation
	var err error
	switch {
	case x.modern:
		found, err = x.namedConversation(x.r.Context(), x.conversationName(), wire.DescribeClient(x.msg.Meta.ClientInfo, x.msg.Meta.Capabilities))
	case session != "":
		found, err = x.sessionConversation(x.r.Context(), session)
	case x.r.Header.Get(wire.HeaderVersion) == "":
		found, err = x.namedConversation(x.r.Context(), x.conversationName(), wire.DescribeClient(x.msg.Meta.ClientInfo, x.msg.Meta.Capabilities))
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
		x.failInternal("find conversation", err)
	}
	return nil, false
}

func (x *exchange) sessionMissing() {
	http.Error(x.w, "the Mcp-Session-Id header is missing; start a session with initialize", http.StatusBadRequest)
}

func (x *exchange) sessionConversation(ctx context.Context, session string) (*catalog.Conversation, error) {
	id, err := sessionID(session)
	if err != nil {
		return nil, err
	}
	return x.Catalog.Conversation(ctx, x.agent.ID, x.principal, id)
}

// conversationName returns the current conversation name of a client without sessions.
func (x *exchange) conversationName() string {
	if name := x.msg.Meta.Conversation; name != "" {
		return name
	}
	return "day:" + x.Now().UTC().Format(time.DateOnly)
}

// namedConversation returns a conversation of a client without sessions.
func (x *exchange) namedConversation(ctx context.Context, name string, client json.RawMessage) (*catalog.Conversation, error) {
	version := modernVersion
	if !x.modern {
		version = ""
	}
	return x.Catalog.NamedConversation(ctx, x.agent, x.principal, name, version, client)
}

// failInternal answers an internal error. The client gets only an id for the log, and learns if the database is unavailable. Clients do not repeat
// the request by themselves then, because it may have been done.
func (x *response) failInternal(action string, err error) {
	failed := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error " + x.logFailure(action, err)}
	if postgres.IsUnavailable(err) {
		failed.Message = "the database is not available at present: " + failed.Message
		failed.Data = marshal(map[string]any{"code": codeUnavailable})
	}
	x.fail(failed)
}

// codeUnavailable is the code of errors while the database is unavailable.
const codeUnavailable = "database_unavailable"

// failPlain is [response.failInternal] for requests without a JSON-RPC answer, which may be repeated.
func (x *response) failPlain(action string, err error) {
	http.Error(x.w, "internal error "+x.logFailure(action, err), inbound.FailureStatus(x.w.Header(), err))
}

func (x *response) logFailure(action string, err error) string {
	return x.logError(x.r.PathValue("agent"), action, err)
}

// logError logs an error of a request and returns the id under which it is found in the log.
func (s *Server) logError(agentName, action string, err error) string {
	id := uuid.NewString()
	s.Logger.Error("request to an agent's endpoint failed", "error_id", id, "agent", agentName, "action", action, "error", err)
	return id
}

// recoverPanic turns a panic into an internal error.
func (x *exchange) recoverPanic() {
	switch cause := recover(); cause {
	case nil:
	case http.ErrAbortHandler:
		panic(cause)
	default:
		err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		if x.HasBegun && !x.IsStream {
			x.logFailure("serve", err)
			panic(http.ErrAbortHandler)
		}
		x.failInternal("serve", err)
	}
}

// marshal encodes values of this package, which always have a JSON form.
func marshal(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text
}
