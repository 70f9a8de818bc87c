package session

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Request is a JSON-RPC request that does not go through the SDK.
type Request struct {
	Method string
	Name   string // of the tool, prompt or resource, for the header Mcp-Name; may be empty
	// Members are the members of params as they are sent, without braces.
	Members []byte
	// Definition and Arguments are the source of the Mcp-Param-* headers.
	Definition *tool.Definition
	Arguments  json.RawMessage
	// Operation contains the request. Nil: the server can neither ask nor notify a caller during it.
	Operation *Operation
	// Trace is the trace context that is sent; its zero value is none.
	Trace telemetry.Handed
	// Limit bounds the result, in bytes.
	Limit int64
	// Confirm is [tool.CallRequest].Confirm.
	Confirm func(ctx context.Context) error
	// Label names the request in errors: "tools/call echo".
	Label string
	// Continues is set if the request continues a call that the server has begun. It is not sent to a server of an earlier revision, which
	// would begin the call again.
	Continues bool
	// OnlyIfDeclared is set if the request is sent only to servers that declared its method.
	OnlyIfDeclared bool
}

// Encode returns the request as it is sent.
func (r *Request) Encode(id int64, info Info) []byte {
	meta := info.encodeMeta(r)
	body := make([]byte, 0, len(r.Members)+len(meta)+len(r.Method)+96)
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	body = strconv.AppendInt(body, id, 10)
	body = append(body, `,"method":"`...)
	body = append(body, r.Method...)
	body = append(body, `","params":{`...)
	body = append(body, r.Members...)
	if meta != nil {
		if len(r.Members) > 0 {
			body = append(body, ',')
		}
		body = append(append(body, `"_meta":`...), meta...)
	}
	return append(body, "}}"...)
}

// encodeMeta returns the _meta of a request, or nil for none. Since 2026-07-28 it declares the capabilities of the caller and that tasks
// are followed. It carries the trace context in every revision (SEP-414).
func (i Info) encodeMeta(r *Request) []byte {
	op, meta := r.Operation, []byte{'{'}
	aboutTask := strings.HasPrefix(r.Method, "tasks/") // the server sends no notifications during these
	if i.IsStateless() {
		meta = append(append(meta, i.meta...), `,"`+mcp.MetaKeyClientCapabilities+`":{`...)
		if op != nil && len(op.client.members) > 0 {
			meta = append(append(meta, op.client.members...), ',')
		}
		meta = append(meta, `"extensions":{"`+tasksExtension+`":{}}}`...)
		if op.WantsLogs() && !aboutTask {
			meta = rawjson.AppendMember(meta, logLevelKey, rawjson.AppendString(nil, op.Caller.LogLevel))
		}
	}
	if op != nil && op.Caller.Progress != nil && !aboutTask {
		meta = rawjson.AppendMember(meta, "progressToken", rawjson.AppendString(nil, op.token))
	}
	for _, member := range [...][2]string{{telemetry.Traceparent, r.Trace.Traceparent}, {telemetry.Tracestate, r.Trace.Tracestate}} {
		if member[1] != "" {
			meta = rawjson.AppendMember(meta, member[0], rawjson.AppendString(nil, member[1]))
		}
	}
	if op != nil && op.Caller.Depth > 0 && !aboutTask {
		meta = rawjson.AppendMember(meta, tool.MetaDepth, strconv.AppendInt(nil, int64(op.Caller.Depth), 10))
	}
	if len(meta) == 1 {
		return nil
	}
	return append(meta, '}')
}

// logLevelKey is the member of _meta that requests log messages (2026-07-28).
const logLevelKey = "io.modelcontextprotocol/logLevel"

// NewListenRequest requests announcements of changed lists and resources from a server of 2026-07-28.
func NewListenRequest(offers tool.Capabilities, to Listener) *Request {
	wanted := struct {
		Tools     bool     `json:"toolsListChanged,omitempty"`
		Lists     bool     `json:"resourcesListChanged,omitempty"`
		Prompts   bool     `json:"promptsListChanged,omitempty"`
		Resources []string `json:"resourceSubscriptions,omitempty"`
	}{Tools: offers.ToolsListChanged, Lists: offers.ResourcesListChanged, Prompts: offers.PromptsListChanged}
	if offers.ResourcesSubscribe && to.SubscribedURIs != nil {
		wanted.Resources = to.SubscribedURIs()
	}
	text, err := json.Marshal(wanted)
	if err != nil {
		panic(err) // cannot happen: it is a struct of flags and strings
	}
	return &Request{Method: "subscriptions/listen", Members: append([]byte(`"notifications":`), text...)}
}

// RecordRequestID records the id of a request in the span of ctx.
func RecordRequestID(ctx context.Context, id int64) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(semconv.JSONRPCRequestID(strconv.FormatInt(id, 10)))
	}
}

// Outcome is the outcome of one request: a result or a failure.
type Outcome struct {
	Result  json.RawMessage
	Failure *tool.Failure
	// Unsent is set if there was a connection, and no byte of the request was written. It may be sent again on another connection.
	Unsent bool
	// SessionGone is set if the server answered with the session's 404. The request may be sent again in a new session.
	SessionGone bool
	// Renew is set if the next request should use a new session.
	Renew bool
}

// Failed returns the outcome of a failure.
func Failed(f *tool.Failure) Outcome { return Outcome{Failure: f} }

// NewProtocolFailure returns the failure of an unacceptable answer. Its effect is possible, because the server may have acted before it
// answered.
func NewProtocolFailure(raw []byte, err error, format string, args ...any) *tool.Failure {
	return &tool.Failure{
		Kind: tool.ProtocolFailure, Effect: tool.EffectPossible,
		Message: fmt.Sprintf(format, args...), Raw: tool.Evidence(raw), Err: err,
	}
}

// NewRPCFailure returns the failure of a server's JSON-RPC error.
func NewRPCFailure(rpc json.RawMessage) *tool.Failure {
	var e struct {
		Code    json.Number `json:"code"`
		Message string      `json:"message"`
	}
	message := "the server answered with a JSON-RPC error"
	if err := json.Unmarshal(rpc, &e); err == nil {
		message = fmt.Sprintf("the server answered with JSON-RPC error %s: %s", plain.Line(e.Code.String(), 32), plain.Line(e.Message, 500))
	}
	return &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: message, RPC: rpc}
}

// WithoutEffect returns a copy of the failure of a request that only reads.
func WithoutEffect(f *tool.Failure) *tool.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Effect = tool.EffectNone
	return &out
}
