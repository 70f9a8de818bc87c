package tool

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Transport names how a skill's server is reached.
type Transport string

// The transports a skill may have.
const (
	Stdio Transport = "stdio"
	HTTP  Transport = "http"
)

// Server is all a [Source] needs to know to reach one skill's server. It is a
// value: a change of the skill makes a new Server with a higher Revision, and
// a Source closes what it kept open for an older one.
type Server struct {
	SkillID  uuid.UUID
	Skill    string // the skill's name, for logs and errors
	Revision int64

	Transport Transport
	URL       string // HTTP: the endpoint; OpenAPI, HTTPAPI: the base URL, empty: the document's
	// PublicHosts are the names in the skill's http URLs that had public addresses when an operator wrote them down: they
	// may not lead to private ones later, unless the server trusts them.
	PublicHosts []string
	Headers     map[string]string // HTTP, OpenAPI, HTTPAPI: sent with every request; values are secret
	Command     []string          // Stdio: program and arguments
	Env         map[string]string // Stdio: all the child gets besides PATH, LANG, HOME and TMPDIR; values are secret
	RunAs       string            // Stdio: the account that the child runs as; "": one of its own, if the server runs as root
	Paths       Paths             // Stdio: what the child may use outside its home

	// API is what else is known of an HTTP API (OpenAPI, HTTPAPI). Nil: it is none.
	API        *API
	AuthSecret string // of API.Auth

	// Authorization is how its tokens are got (HTTP, OpenAPI, HTTPAPI).
	Authorization Authorization
	// PerUser: each person has a connection of their own, and is Principal here;
	// otherwise the skill has one that all share, and Principal is of no account.
	PerUser   bool
	Principal uuid.UUID // on whose behalf; uuid.Nil: nobody's
}

// For is the server as one person reaches it.
func (s Server) For(principal uuid.UUID) Server {
	if s.PerUser {
		s.Principal = principal
	}
	return s
}

// Source is the one seam to skill servers. Implementations keep sessions open
// between calls and are safe for concurrent use.
type Source interface {
	// List asks the server for all its tools, following every page, within
	// the Source's bounds on time, pages, tools and bytes. Exceeding a bound is an error, not
	// a shorter list. Errors are *Failure.
	List(ctx context.Context, server Server) (Listing, error)

	// Call sends one tools/call, at most once: it is sent a second time only
	// when no byte of it had been written, or the server answered the
	// session's 404. An error is a *Failure, whose
	// Effect tells whether the server may have acted.
	Call(ctx context.Context, server Server, request CallRequest) (Result, error)

	// Request sends any request but tools/call, and returns its result byte for byte, bounded. It may
	// be sent more than once. Errors are *Failure without an effect; one of a server that answered with
	// a JSON-RPC error is a JSONRPCError with the error object as it came. A method that the server
	// did not declare (see [Capabilities.Offers]) is refused with a JSONRPCError -32601 without
	// asking it.
	Request(ctx context.Context, server Server, request Request) (json.RawMessage, error)

	// Capabilities says what the server declared when it was connected to, connecting if
	// need be; a connected one is not asked. Errors are *Failure.
	Capabilities(ctx context.Context, server Server) (Capabilities, error)

	// Probe connects afresh, and lists, naming each step as it is taken.
	// It changes nothing that List and Call use.
	Probe(ctx context.Context, server Server, step func(Step)) error

	// Ready reports, without asking the server, what somebody has to do before it
	// can be used. Nil: nothing is known to be missing.
	Ready(ctx context.Context, server Server) (*Connect, error)

	// Outgoing is the very request that Call would send. Nothing is sent by it. It is a function of the server, the definition, the
	// arguments and the caller's headers alone. Nil: there is nothing to tell but the arguments. Errors are *Failure.
	Outgoing(server Server, request CallRequest) (*Outgoing, error)

	// Before reads, without changing anything, the present state of what a call would change. Nil: there is no way to, or it is not wanted
	// (see [API]). Errors are *Failure without an effect.
	Before(ctx context.Context, server Server, request CallRequest) (*State, error)

	// Forget closes what is kept open for a skill (it was deleted, or changed).
	Forget(skillID uuid.UUID)
}

// Step is one stage of a [Source] probe.
type Step struct {
	Name   string        // "connect", "initialize", "tools/list", …
	Detail string        // what was found: the negotiated version, the number of tools
	Took   time.Duration //
	Err    error         // nil when the step succeeded
}

// Listing is a server's answer to tools/list, all pages of it.
type Listing struct {
	Tools []Definition
	// TTL is how long the listing may be used without asking again
	// (ttlMs of MCP 2026-07-28). Nil: the server gave none. Zero: it is out of
	// date at once, and whoever asks next asks the server.
	TTL *time.Duration
	// ProtocolVersion is what was negotiated, "2025-11-25".
	ProtocolVersion string
	// Skipped names tools that were left out, each with the reason.
	Skipped []Skipped
	// Generation numbers the rules by which this version of Holdpoint made the definitions itself, as of HTTP APIs: during an
	// upgrade, those of lower generations move no pins. Zero: the definitions are the server's own.
	Generation int
}

// Skipped is a tool that cannot be offered, such as one with an invalid schema.
type Skipped struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// CallRequest is one tools/call.
type CallRequest struct {
	CallID    uuid.UUID
	Tool      string          // the skill's own name of the tool
	Arguments json.RawMessage // sent byte for byte
	// Definition is the tool's, which the arguments were checked against. Over MCP the Mcp-Param-* headers of
	// 2026-07-28 (x-mcp-header) are made from it, and it may be nil; over HTTP APIs it says what the request is.
	Definition *Definition
	// Timeout is how long the server may take; it does not run while the caller is being
	// asked. Zero: as long as the context lasts.
	Timeout time.Duration
	// Caller is who the call is made for.
	Caller Caller
	// Confirm is asked right before the call is written, each time that it is; its error ends the call unsent. Nil: nothing is
	// asked.
	Confirm func(ctx context.Context) error
}

// NotConfirmed is the failure of a call whose Confirm returned err.
func NotConfirmed(err error, what string) *Failure {
	return BrokeOff(EffectNone, err, "%s: not sent: %s", what, err)
}

// Result is a server's answer to a tools/call, as it came.
type Result struct {
	// Raw is the JSON-RPC result, byte for byte.
	Raw json.RawMessage
	// IsError is the result's isError.
	IsError bool
	// Effect of a result that is an error; empty: none.
	Effect Effect
	// RetryAfter is how long a server that would not answer now asks to be left alone; nil if it did not say.
	RetryAfter *time.Duration
	// Exchange is what was measured; its zero value: nothing.
	Exchange Exchange
}

// Outgoing is the exact request that a call sends, with secrets masked.
type Outgoing struct {
	Method  string           `json:"method"`
	URL     string           `json:"url"`
	Headers []OutgoingHeader `json:"headers,omitempty"` // in display order
	Body    []byte           `json:"body,omitempty"`    // as it is sent
}

// OutgoingHeader is one header field of an [Outgoing].
type OutgoingHeader struct {
	Name   string `json:"name"`
	Value  string `json:"value,omitempty"`
	Secret bool   `json:"secret,omitempty"` // the value is not shown
}

// State is a resource before a call changes it.
type State struct {
	Request Outgoing // the request that read it
	Status  int      // HTTP status
	// Body, bounded; Cut: it was longer.
	Body  []byte
	Media string // content type without parameters
	Cut   bool
}

// Exchange holds the measurements of a call's exchange with its server.
type Exchange struct {
	Status         int    // HTTP status of the answer; zero: no answer, or not an HTTP API
	Sent, Received int64  // bytes of the bodies
	Steps          []Step // in the order they were taken
}

// FailureKind tells failures apart by the side of the wire that broke.
type FailureKind string

// The five kinds of failure.
const (
	// ToolError: the tool ran and answered isError true.
	ToolError FailureKind = "tool_error"
	// JSONRPCError: the server answered with a JSON-RPC error.
	JSONRPCError FailureKind = "jsonrpc_error"
	// TransportFailure: no connection, a timeout, a reset, a dead process, or an HTTP status that is no answer.
	TransportFailure FailureKind = "transport"
	// ProtocolFailure: an answer that is not MCP: HTML, malformed JSON-RPC,
	// an unknown resultType, too large, or a result that breaks its outputSchema.
	ProtocolFailure FailureKind = "protocol"
	// SessionInvalid: the server refused the session, and again after one
	// fresh initialize.
	SessionInvalid FailureKind = "session_invalid"
)

// Effect tells whether a failed call may have been executed.
type Effect string

// The effects of a failed call.
const (
	EffectNone     Effect = "none"     // the server refused or answered it, or never got a byte
	EffectPossible Effect = "possible" // bytes were sent and no answer came back
)

// Failure is the error of a [Source].
type Failure struct {
	Kind   FailureKind
	Effect Effect
	// Message says in plain words what happened; it holds nothing secret.
	Message string
	// RPC is the server's JSON-RPC error object, byte for byte (JSONRPCError only).
	RPC json.RawMessage
	// Raw is a result that was received but is not acceptable (ProtocolFailure), bounded.
	Raw json.RawMessage
	// Cancelled is set when the server says that it cancelled the call's task (JSONRPCError only).
	Cancelled bool
	// Unauthorized is set when the server answered 401 or 403; the challenge
	// is the WWW-Authenticate header.
	Unauthorized bool
	Challenge    string
	// Connect is set when somebody has to connect the skill before it can be
	// used: nothing was executed, and the same request may succeed afterwards.
	Connect *Connect
	// Exchange is what was measured of it; its zero value: nothing.
	Exchange Exchange
	// Err is the cause, for the log.
	Err error
}

// Connect says what is missing before a server lets Holdpoint in.
type Connect struct {
	// Reason says in plain words what somebody has to do; it holds nothing secret.
	Reason string
	// Scopes that the server asks for, if it named any.
	Scopes []string
	// Partial: it is missing for some of the server's tools only.
	Partial bool
}

// ProblemNeedsConnection is the kind under which people see a failure with Connect set.
const ProblemNeedsConnection = "needs_connection"

// ProblemKind returns the kind under which people see the failure: Kind, or [ProblemNeedsConnection].
func (f *Failure) ProblemKind() string {
	if f.Connect != nil {
		return ProblemNeedsConnection
	}
	return string(f.Kind)
}

func (f *Failure) Error() string {
	return fmt.Sprintf("%s: %s", f.Kind, f.Message)
}

func (f *Failure) Unwrap() error { return f.Err }
