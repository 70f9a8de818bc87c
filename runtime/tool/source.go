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
	// Gate is that of skills without a server: the caller executes the calls that Holdpoint releases.
	Gate Transport = "gate"
)

// Server has all that a [Source] needs to reach a skill's server. It is a value: a change of the skill makes a new Server with a higher
// Revision, and a Source closes its sessions of older revisions.
type Server struct {
	SkillID  uuid.UUID
	Skill    string // the skill's name, for logs and errors
	Revision int64

	Transport Transport
	URL       string // HTTP: the endpoint; OpenAPI, HTTPAPI: the base URL, empty: the document's
	// PublicHosts are the hosts of the skill's http URLs that had public addresses when an operator entered them. They
	// may not resolve to private addresses later, unless Holdpoint trusts them.
	PublicHosts []string
	Headers     map[string]string // HTTP, OpenAPI, HTTPAPI: sent with all requests; the values are secret
	Command     []string          // Stdio: program and arguments
	Env         map[string]string // Stdio: variables besides PATH, LANG, HOME and TMPDIR; the values are secret
	RunAs       string            // Stdio: the account of the child; "": an account of its own, if Holdpoint runs as root
	Paths       Paths             // Stdio: the paths outside its home that the child may use

	Host string // Gate: the program whose tools the skill has; empty: those that callers name

	// API has the settings of an HTTP API (OpenAPI, HTTPAPI). Nil for MCP.
	API        *API
	AuthSecret string // of API.Auth

	// Authorization says how to get tokens (HTTP, OpenAPI, HTTPAPI).
	Authorization Authorization
	// PerUser is set if each person has a connection of their own, which is the Principal's. Otherwise all people share one, and Principal
	// is ignored.
	PerUser   bool
	Principal uuid.UUID // uuid.Nil: no person
}

// For returns the server as one person reaches it.
func (s Server) For(principal uuid.UUID) Server {
	if s.PerUser {
		s.Principal = principal
	}
	return s
}

// Source is the seam to skill servers. Implementations keep sessions open between calls and are safe for concurrent use.
type Source interface {
	// List requests all pages of the server's tools, within the Source's limits on time, pages, tools and bytes. A list beyond a limit is an
	// error, not a shorter list. Errors are *Failure.
	List(ctx context.Context, server Server) (Listing, error)

	// Call sends one tools/call, at most once: it is sent again only if none of its bytes was written, or the server answered with the session's
	// 404. Errors are *Failure, whose Effect says whether the server may have acted.
	Call(ctx context.Context, server Server, request CallRequest) (Result, error)

	// Probe opens a new connection, lists the tools, and reports each step. It does not affect List and Call.
	Probe(ctx context.Context, server Server, step func(Step)) error

	// Ready returns the action of a person that the server needs first, without asking the server. Nil: none is known.
	Ready(ctx context.Context, server Server) (*Connect, error)

	// Forget closes the sessions of a skill that was deleted or changed.
	Forget(skillID uuid.UUID)
}

// Requester is an optional interface of a [Source] whose servers have more methods than tools/list and tools/call.
type Requester interface {
	// Request sends a request that is not tools/call and returns the result byte for byte, bounded. It may
	// be sent more than once. Errors are *Failure without an effect; the error of a server that answered with
	// a JSON-RPC error is a JSONRPCError with the error object as it came. A method that the server
	// did not declare (see [Capabilities.Offers]) is refused with a JSONRPCError -32601 without
	// asking it.
	Request(ctx context.Context, server Server, request Request) (json.RawMessage, error)

	// Capabilities returns the capabilities that the server declared when the Source connected to it. It connects if
	// there is no connection; otherwise the server is not asked. Errors are *Failure.
	Capabilities(ctx context.Context, server Server) (Capabilities, error)
}

// Previewer is an optional interface of a [Source] that can show the HTTP request of a call before sending it.
type Previewer interface {
	// Outgoing returns the exact request that Call would send, and sends nothing. The result depends only on the server, the
	// definition, the arguments and the caller's headers. Errors are *Failure.
	Outgoing(server Server, request CallRequest) (*Outgoing, error)

	// Before reads the current state of the resource that a call would change, and changes nothing. It returns nil if the call has no
	// preview, or the operator did not turn it on (see [API]). Errors are *Failure without an effect.
	Before(ctx context.Context, server Server, request CallRequest) (*State, error)
}

// Step is one stage of a probe or a call.
type Step struct {
	Name   string        // "connect", "initialize", "tools/list", …
	Detail string        // such as the negotiated version or the number of tools
	Took   time.Duration //
	Err    error         // nil when the step succeeded
}

// Listing is a server's answer to tools/list, with all pages.
type Listing struct {
	Tools []Definition
	// TTL is how long the listing may be used (ttlMs of MCP 2026-07-28). Nil: the server set none. Zero: the next use lists again.
	TTL *time.Duration
	// ProtocolVersion is the negotiated revision, such as "2025-11-25".
	ProtocolVersion string
	// Skipped names tools that were left out, each with the reason.
	Skipped []Skipped
	// Generation numbers the rules by which Holdpoint made the definitions of an HTTP API. During an upgrade, listings of lower generations
	// do not change pins. Zero: the definitions are the server's own.
	Generation int
	// At is when the server had answered, in a cached listing.
	At time.Time
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
	// Definition is the definition that the arguments were validated against. An HTTP API builds the request from it. MCP makes the
	// Mcp-Param-* headers of 2026-07-28 (x-mcp-header) from it; there it may be nil.
	Definition *Definition
	// Timeout is how long the server may take. It is paused while the caller is being asked. Zero: as long as the context lasts.
	Timeout time.Duration
	Caller  Caller
	// Confirm is called right before the call is written, each time. Its error ends the call unsent. May be nil.
	Confirm func(ctx context.Context) error
}

// NotConfirmed returns the failure of a call whose Confirm returned err.
func NotConfirmed(err error, what string) *Failure {
	return BrokeOff(EffectNone, err, "%s: not sent: %s", what, err)
}

// Result is a server's answer to a tools/call.
type Result struct {
	// Raw is the JSON-RPC result, byte for byte.
	Raw     json.RawMessage
	IsError bool   // the result's isError
	Effect  Effect // of a result that is an error; empty: none
	// RetryAfter is when a busy server wants the next request; nil if it did not say.
	RetryAfter *time.Duration
	Exchange   Exchange
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
	Body    []byte   // bounded
	Media   string   // content type without parameters
	Cut     bool     // the body was longer
}

// Exchange holds the measurements of a call's exchange with its server.
type Exchange struct {
	Status         int    // HTTP status of the answer; zero: no answer, or not an HTTP API
	Sent, Received int64  // bytes of the bodies
	Steps          []Step // in the order they were taken
}

// FailureKind says which side of the exchange failed.
type FailureKind string

// The five kinds of failure.
const (
	// ToolError: the tool answered isError true.
	ToolError FailureKind = "tool_error"
	// JSONRPCError: the server answered with a JSON-RPC error.
	JSONRPCError FailureKind = "jsonrpc_error"
	// TransportFailure: no connection, a timeout, a reset, a dead process, or an HTTP status that is not an answer.
	TransportFailure FailureKind = "transport"
	// ProtocolFailure: an answer that is not MCP: HTML, malformed JSON-RPC,
	// an unknown resultType, too large, or a result that breaks its outputSchema.
	ProtocolFailure FailureKind = "protocol"
	// SessionInvalid: the server rejected the session, and then a new one.
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
	// Message describes the failure in plain words and without secrets.
	Message string
	// RPC is the server's JSON-RPC error object, byte for byte (JSONRPCError only).
	RPC json.RawMessage
	// Raw is a result that is not acceptable (ProtocolFailure), bounded.
	Raw json.RawMessage
	// Cancelled is set if the server cancelled the call's task (JSONRPCError only).
	Cancelled bool
	// Unauthorized is set if the server answered 401 or 403, with Challenge in WWW-Authenticate.
	Unauthorized bool
	Challenge    string
	// Connect is set if a person has to connect the skill first. Nothing was executed, and the same request may succeed afterwards.
	Connect  *Connect
	Exchange Exchange
	Err      error // the cause, for the log
}

// Connect is the action of a person that a server needs before it accepts Holdpoint.
type Connect struct {
	Reason  string   // the action, in plain words and without secrets
	Scopes  []string // that the server asks for, if it named any
	Partial bool     // only some of the tools need it
}

// ProblemNeedsConnection is the kind that people see for a failure with Connect set.
const ProblemNeedsConnection = "needs_connection"

// ProblemKind returns the kind that people see: Kind, or [ProblemNeedsConnection].
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
