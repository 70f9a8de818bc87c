package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Members of a request's _meta. The first two are Holdpoint's. MCP deprecates the third, which clients still use.
const (
	MetaConversation   = MetaPrefix + "conversation"
	MetaIdempotencyKey = MetaPrefix + "idempotency_key"
	MetaLogLevel       = "io.modelcontextprotocol/logLevel"
)

// Limits on texts of a client.
const (
	MaxRequestID      = 1024
	MaxIdempotencyKey = 255
	maxConversation   = 128
)

// MaxShown limits a client's name or value in an error message, in characters.
const MaxShown = 200

// Message is one JSON-RPC message of a client. Byte slices are raw JSON that points into the request's body; nil where the
// member is absent.
type Message struct {
	ID         []byte // nil: a notification
	Method     string
	IsResponse bool // to a request of Holdpoint

	Name         string // params.name
	Arguments    []byte
	Cursor       string
	Version      string // of initialize
	ClientInfo   []byte
	Capabilities []byte
	RequestID    []byte // of notifications/cancelled
	Wanted       []byte // of subscriptions/listen
	TaskID       string // of tasks/…
	Level        string // of logging/setLevel

	// Of a request that continues an earlier one.
	InputResponses []byte
	RequestState   []byte

	// Of a response to a request of Holdpoint.
	Result []byte
	Error  []byte

	URI                    string // of resources/…
	Ref, Argument, Context []byte // of completion/complete

	Meta Meta
}

// Meta is params._meta.
type Meta struct {
	Version        string
	ClientInfo     []byte
	Capabilities   []byte
	ProgressToken  []byte
	LogLevel       string
	IdempotencyKey string
	Conversation   string
	Trace          telemetry.Handed
	Depth          int // how many agents have asked each other
}

// Parser parses messages. It reuses decoders, which are costly to make. The zero value is ready to use.
type Parser struct{ decoders sync.Pool }

const maxPooled = 64 << 10 // bytes; a decoder that read more may hold much

// Parse parses a body into a message. With an error, the message has the id, if it could be found.
func (pool *Parser) Parse(body []byte, into *Message) *jsonrpc.Error {
	buffer := bytes.NewBuffer(body)
	decoder, ok := pool.decoders.Get().(*jsontext.Decoder)
	if ok {
		decoder.Reset(buffer)
	} else {
		decoder = jsontext.NewDecoder(buffer)
	}
	if len(body) <= maxPooled {
		defer func() {
			decoder.Reset(bytes.NewBuffer(nil)) // lets go of the body
			pool.decoders.Put(decoder)
		}()
	}
	p := messageReader{decoder: decoder, body: body}
	if err := p.readMessage(); err != nil {
		*into = Message{ID: recoverID(body)}
		return syntaxFault(err)
	}
	*into = p.msg
	return p.wrong
}

// messageReader reads a message in one strict pass: duplicate names, invalid UTF-8, lone surrogates and excess depth are errors
// everywhere. Members of the wrong type do not stop it, so that the answer can contain the request's id.
type messageReader struct {
	decoder *jsontext.Decoder
	body    []byte
	msg     Message
	version bool // the member jsonrpc is right
	wrong   *jsonrpc.Error
}

func (p *messageReader) readMessage() error {
	switch p.decoder.PeekKind() {
	case '{':
	case '[':
		p.noteFault(jsonrpc.CodeInvalidRequest, "batches are not supported: send one message per request")
		return p.decoder.SkipValue()
	default:
		p.noteFault(jsonrpc.CodeInvalidRequest, "the message must be a JSON object")
		return p.decoder.SkipValue()
	}
	if err := p.readObject((*messageReader).readMember); err != nil {
		return err
	}
	if _, err := p.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("the message must be one JSON value")
		}
		return err
	}
	switch {
	case !p.version:
		p.noteFault(jsonrpc.CodeInvalidRequest, `/jsonrpc: must be "2.0"`)
	case p.msg.Method == "" && !p.msg.IsResponse:
		p.noteFault(jsonrpc.CodeInvalidRequest, "/method: missing")
	}
	return nil
}

// readObject reads an object and hands each member's name to read, which reads its value.
func (p *messageReader) readObject(read func(p *messageReader, name []byte) error) error {
	if _, err := p.decoder.ReadToken(); err != nil {
		return err
	}
	for p.decoder.PeekKind() != '}' {
		name, err := p.readValue()
		if err != nil {
			return err
		}
		if err := read(p, Unquote(name)); err != nil {
			return err
		}
	}
	_, err := p.decoder.ReadToken()
	return err
}

// readValue reads one value and returns its bytes in the body.
func (p *messageReader) readValue() ([]byte, error) {
	v, err := p.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := p.decoder.InputOffset()
	return p.body[end-int64(len(v)) : end : end], nil
}

// Unquote returns the text of a JSON string. Other values are returned unchanged.
func Unquote(raw []byte) []byte {
	if len(raw) < 2 || raw[0] != '"' {
		return raw
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return raw
	}
	return text
}

func (p *messageReader) readMember(name []byte) error {
	switch string(name) {
	case "jsonrpc":
		raw, err := p.readValue()
		p.version = string(raw) == `"2.0"`
		return err
	case "method":
		raw, err := p.readValue()
		switch {
		case string(raw) == `"tools/call"`: // nearly always
			p.msg.Method = "tools/call"
		case err == nil && raw[0] != '"':
			p.noteFault(jsonrpc.CodeInvalidRequest, "/method: must be a string")
		default:
			p.msg.Method = string(Unquote(raw))
		}
		return err
	case "id":
		raw, err := p.readValue()
		if err == nil && !validID(raw) {
			p.noteFault(jsonrpc.CodeInvalidRequest, "/id: must be a string or an integer")
			return nil
		}
		p.msg.ID = raw
		return err
	case "params":
		return p.readOptionalObject((*messageReader).readParam, "/params")
	case "result":
		raw, err := p.readValue()
		p.msg.IsResponse, p.msg.Result = true, raw
		return err
	case "error":
		raw, err := p.readValue()
		p.msg.IsResponse, p.msg.Error = true, raw
		return err
	}
	return p.decoder.SkipValue()
}

func (p *messageReader) readParam(name []byte) (err error) {
	m := &p.msg
	switch string(name) {
	case "name":
		return p.readText(&m.Name, "/params/name")
	case "arguments":
		m.Arguments, err = p.readValue()
	case "cursor":
		return p.readText(&m.Cursor, "/params/cursor")
	case "protocolVersion":
		return p.readText(&m.Version, "/params/protocolVersion")
	case "clientInfo":
		m.ClientInfo, err = p.readValue()
	case "capabilities":
		m.Capabilities, err = p.readValue()
	case "requestId":
		m.RequestID, err = p.readValue()
	case "notifications":
		m.Wanted, err = p.readValue()
	case "taskId":
		return p.readText(&m.TaskID, "/params/taskId")
	case "level":
		return p.readText(&m.Level, "/params/level")
	case "uri":
		return p.readText(&m.URI, "/params/uri")
	case "ref":
		m.Ref, err = p.readValue()
	case "argument":
		m.Argument, err = p.readValue()
	case "context":
		m.Context, err = p.readValue()
	case "inputResponses":
		m.InputResponses, err = p.readValue()
	case "requestState":
		m.RequestState, err = p.readValue()
	case "_meta":
		return p.readOptionalObject((*messageReader).readMetaMember, "/params/_meta")
	default:
		return p.decoder.SkipValue()
	}
	return err
}

func (p *messageReader) readMetaMember(name []byte) (err error) {
	m := &p.msg.Meta
	switch string(name) {
	case mcp.MetaKeyProtocolVersion:
		return p.readText(&m.Version, "/params/_meta: "+mcp.MetaKeyProtocolVersion)
	case mcp.MetaKeyClientInfo:
		m.ClientInfo, err = p.readValue()
	case mcp.MetaKeyClientCapabilities:
		m.Capabilities, err = p.readValue()
		if err == nil && m.Capabilities[0] != '{' {
			p.noteFault(jsonrpc.CodeInvalidParams, "/params/_meta: "+mcp.MetaKeyClientCapabilities+": must be an object")
		}
	case "progressToken":
		m.ProgressToken, err = p.readValue()
		if err == nil && !validID(m.ProgressToken) {
			m.ProgressToken = nil
		}
	case MetaLogLevel:
		return p.readText(&m.LogLevel, "/params/_meta: "+MetaLogLevel)
	case MetaIdempotencyKey:
		return p.readBounded(&m.IdempotencyKey, MaxIdempotencyKey, MetaIdempotencyKey)
	case MetaConversation:
		return p.readBounded(&m.Conversation, maxConversation, MetaConversation)
	case telemetry.Traceparent:
		return p.readLenient(&m.Trace.Traceparent)
	case telemetry.Tracestate:
		return p.readLenient(&m.Trace.Tracestate)
	case tool.MetaDepth:
		raw, err := p.readValue()
		if err == nil && (json.Unmarshal(raw, &m.Depth) != nil || m.Depth < 0) {
			m.Depth = math.MaxInt32 // unreadable: refuse the call as too deep
		}
		return err
	default:
		return p.decoder.SkipValue()
	}
	return err
}

// readOptionalObject reads an object, or the null that some clients send instead.
func (p *messageReader) readOptionalObject(read func(p *messageReader, name []byte) error, where string) error {
	switch p.decoder.PeekKind() {
	case '{':
		return p.readObject(read)
	case 'n':
	default:
		p.noteFault(jsonrpc.CodeInvalidParams, where+": must be an object")
	}
	return p.decoder.SkipValue()
}

func (p *messageReader) readText(into *string, where string) error {
	raw, err := p.readValue()
	if err != nil {
		return err
	}
	if raw[0] != '"' {
		p.noteFault(jsonrpc.CodeInvalidParams, where+": must be a string")
		return nil
	}
	*into = string(Unquote(raw))
	return nil
}

// readLenient reads an optional string and ignores other values.
func (p *messageReader) readLenient(into *string) error {
	raw, err := p.readValue()
	if err == nil && raw[0] == '"' {
		*into = string(Unquote(raw))
	}
	return err
}

// readBounded reads a string that is stored: it has no control characters.
func (p *messageReader) readBounded(into *string, limit int, key string) error {
	where := "/params/_meta: " + key
	if err := p.readText(into, where); err != nil {
		return err
	}
	if len(*into) > limit || strings.ContainsFunc(*into, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.noteFault(jsonrpc.CodeInvalidParams, fmt.Sprintf("%s: must be at most %d bytes without control characters", where, limit))
	}
	return nil
}

// noteFault records the first error.
func (p *messageReader) noteFault(code int64, message string) {
	if p.wrong == nil {
		p.wrong = &jsonrpc.Error{Code: code, Message: message}
	}
}

// validID reports whether raw may be a request's id: a string or an integer.
func validID(raw []byte) bool {
	switch {
	case len(raw) > MaxRequestID:
		return false
	case raw[0] == '"':
		return true
	default:
		return len(bytes.Trim(raw, "-0123456789")) == 0
	}
}

// InvalidParams returns the error for a request's parameter.
func InvalidParams(message string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}

// syntaxFault describes a syntax error of a body.
func syntaxFault(err error) *jsonrpc.Error {
	fault := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the message must be JSON"}
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		fault.Message = "the message must be JSON: it ends too early"
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		where := plain.Visible(string(syntactic.JSONPointer), MaxShown)
		fault.Message = fmt.Sprintf("%s: %s (byte %d)", where, syntactic.Err, syntactic.ByteOffset)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			fault.Code = jsonrpc.CodeInvalidRequest
			if strings.HasPrefix(string(syntactic.JSONPointer), "/params/") {
				fault.Code = jsonrpc.CodeInvalidParams
			}
		}
	case !errors.As(err, &syntactic):
		fault.Message = err.Error()
	}
	return fault
}

// recoverID finds the id in a refused body, so that the client can match the error to its request.
func recoverID(body []byte) []byte {
	for m, err := range rawjson.Members(body, rawjson.Lenient()) {
		switch {
		case err != nil:
			return nil
		case m.Name() != "id":
		case validID(m.Value):
			return bytes.Clone(m.Value)
		default:
			return nil
		}
	}
	return nil
}
