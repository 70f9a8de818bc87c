package mcpserver

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
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The members of a request's _meta that are ours.
const (
	metaConversation   = "dev.holdpoint/conversation"
	metaIdempotencyKey = "dev.holdpoint/idempotency_key"
)

// metaLogLevel is MCP's. It is deprecated there, and works as long as clients use it.
const metaLogLevel = "io.modelcontextprotocol/logLevel"

// Bounds on what a client may name.
const (
	maxRequestID      = 1024
	maxIdempotencyKey = 255
	maxConversation   = 128
	maxClientInfo     = 16 << 10
	maxClientDepth    = 32
)

// message is one JSON-RPC message of a client. Byte slices are raw JSON, and
// nil where the member is absent; they point into the request's body.
type message struct {
	id     []byte // nil: a notification
	method string
	reply  bool // a response to a request of ours

	name         string // params.name
	arguments    []byte
	cursor       string
	version      string // of initialize
	clientInfo   []byte
	capabilities []byte
	requestID    []byte // of notifications/cancelled
	wanted       []byte // of subscriptions/listen
	taskID       string // of tasks/…
	level        string // of logging/setLevel

	// Of a request that goes on with an earlier one.
	inputResponses []byte
	requestState   []byte

	// Of a response to a request of ours.
	result  []byte
	failure []byte

	uri                      string // of resources/…
	ref, argument, completed []byte // of completion/complete: its ref, argument and context

	meta meta
}

// meta is params._meta.
type meta struct {
	version        string
	clientInfo     []byte
	capabilities   []byte
	progressToken  []byte
	logLevel       string
	idempotencyKey string
	conversation   string
	trace          telemetry.Handed
	depth          int // how many agents have asked each other
}

// parser reads a message in one strict pass: duplicate names, invalid UTF-8,
// lone surrogates and excess depth are errors wherever they are. Members of
// the wrong type do not stop it, so that the answer can carry the request's id.
type parser struct {
	decoder *jsontext.Decoder
	body    []byte
	msg     message
	version bool // the member jsonrpc is right
	wrong   *jsonrpc.Error
}

// parse reads a body. When it returns an error, the message holds the id, if it
// could be found.
func (pool *parserPool) parse(body []byte) (message, *jsonrpc.Error) {
	p := parser{decoder: pool.get(body), body: body}
	defer pool.put(p.decoder, len(body))
	if err := p.read(); err != nil {
		return message{id: recoverID(body)}, syntaxFault(err)
	}
	return p.msg, p.wrong
}

func (p *parser) read() error {
	switch p.decoder.PeekKind() {
	case '{':
	case '[':
		p.fault(jsonrpc.CodeInvalidRequest, "batches are not supported: send one message per request")
		return p.decoder.SkipValue()
	default:
		p.fault(jsonrpc.CodeInvalidRequest, "want a JSON object")
		return p.decoder.SkipValue()
	}
	if err := p.object((*parser).member); err != nil {
		return err
	}
	if _, err := p.decoder.ReadToken(); !errors.Is(err, io.EOF) {
		if err == nil {
			err = errors.New("more than one JSON value")
		}
		return err
	}
	switch {
	case !p.version:
		p.fault(jsonrpc.CodeInvalidRequest, `/jsonrpc: want "2.0"`)
	case p.msg.method == "" && !p.msg.reply:
		p.fault(jsonrpc.CodeInvalidRequest, "/method: missing")
	}
	return nil
}

// object reads an object and hands each member's name to read, which reads its value.
func (p *parser) object(read func(p *parser, name []byte) error) error {
	if _, err := p.decoder.ReadToken(); err != nil {
		return err
	}
	for p.decoder.PeekKind() != '}' {
		name, err := p.value()
		if err != nil {
			return err
		}
		if err := read(p, unquote(name)); err != nil {
			return err
		}
	}
	_, err := p.decoder.ReadToken()
	return err
}

// value reads one value and returns its bytes in the body.
func (p *parser) value() ([]byte, error) {
	v, err := p.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	end := p.decoder.InputOffset()
	return p.body[end-int64(len(v)) : end : end], nil
}

func unquote(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 && len(raw) >= 2 {
		return raw[1 : len(raw)-1]
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return raw // not a string; the decoder has seen to it that names are
	}
	return text
}

func (p *parser) member(name []byte) error {
	switch string(name) {
	case "jsonrpc":
		raw, err := p.value()
		p.version = string(raw) == `"2.0"`
		return err
	case "method":
		return p.method()
	case "id":
		raw, err := p.value()
		if err == nil && !validID(raw) {
			p.fault(jsonrpc.CodeInvalidRequest, "/id: want a string or an integer")
			return nil
		}
		p.msg.id = raw
		return err
	case "params":
		return p.optionalObject((*parser).param, "/params")
	case "result":
		raw, err := p.value()
		p.msg.reply, p.msg.result = true, raw
		return err
	case "error":
		raw, err := p.value()
		p.msg.reply, p.msg.failure = true, raw
		return err
	}
	return p.decoder.SkipValue()
}

func (p *parser) param(name []byte) (err error) {
	m := &p.msg
	switch string(name) {
	case "name":
		return p.text(&m.name, "/params/name")
	case "arguments":
		m.arguments, err = p.value()
	case "cursor":
		return p.text(&m.cursor, "/params/cursor")
	case "protocolVersion":
		return p.text(&m.version, "/params/protocolVersion")
	case "clientInfo":
		m.clientInfo, err = p.value()
	case "capabilities":
		m.capabilities, err = p.value()
	case "requestId":
		m.requestID, err = p.value()
	case "notifications":
		m.wanted, err = p.value()
	case "taskId":
		return p.text(&m.taskID, "/params/taskId")
	case "level":
		return p.text(&m.level, "/params/level")
	case "uri":
		return p.text(&m.uri, "/params/uri")
	case "ref":
		m.ref, err = p.value()
	case "argument":
		m.argument, err = p.value()
	case "context":
		m.completed, err = p.value()
	case "inputResponses":
		m.inputResponses, err = p.value()
	case "requestState":
		m.requestState, err = p.value()
	case "_meta":
		return p.optionalObject((*parser).metaMember, "/params/_meta")
	default:
		return p.decoder.SkipValue()
	}
	return err
}

func (p *parser) metaMember(name []byte) (err error) {
	m := &p.msg.meta
	switch string(name) {
	case mcp.MetaKeyProtocolVersion:
		return p.text(&m.version, "/params/_meta: "+mcp.MetaKeyProtocolVersion)
	case mcp.MetaKeyClientInfo:
		m.clientInfo, err = p.value()
	case mcp.MetaKeyClientCapabilities:
		m.capabilities, err = p.value()
		if err == nil && m.capabilities[0] != '{' {
			p.fault(jsonrpc.CodeInvalidParams, "/params/_meta: "+mcp.MetaKeyClientCapabilities+": want an object")
		}
	case "progressToken":
		m.progressToken, err = p.value()
		if err == nil && !validID(m.progressToken) {
			m.progressToken = nil
		}
	case metaLogLevel:
		return p.text(&m.logLevel, "/params/_meta: "+metaLogLevel)
	case metaIdempotencyKey:
		return p.bounded(&m.idempotencyKey, maxIdempotencyKey, metaIdempotencyKey)
	case metaConversation:
		return p.bounded(&m.conversation, maxConversation, metaConversation)
	case telemetry.Traceparent:
		return p.lenient(&m.trace.Traceparent)
	case telemetry.Tracestate:
		return p.lenient(&m.trace.Tracestate)
	case tool.MetaDepth:
		raw, err := p.value()
		if err == nil && (json.Unmarshal(raw, &m.depth) != nil || m.depth < 0) {
			m.depth = math.MaxInt32 // what it means is not known: too many
		}
		return err
	default:
		return p.decoder.SkipValue()
	}
	return err
}

// optionalObject reads an object, or null where clients send that for nothing.
func (p *parser) optionalObject(read func(p *parser, name []byte) error, where string) error {
	switch p.decoder.PeekKind() {
	case '{':
		return p.object(read)
	case 'n':
	default:
		p.fault(jsonrpc.CodeInvalidParams, where+": want an object")
	}
	return p.decoder.SkipValue()
}

func (p *parser) text(into *string, where string) error {
	raw, err := p.value()
	if err != nil {
		return err
	}
	if raw[0] != '"' {
		p.fault(jsonrpc.CodeInvalidParams, where+": want a string")
		return nil
	}
	*into = string(unquote(raw))
	return nil
}

// lenient reads what is of no account where it is no string.
func (p *parser) lenient(into *string) error {
	raw, err := p.value()
	if err == nil && raw[0] == '"' {
		*into = string(unquote(raw))
	}
	return err
}

func (p *parser) method() error {
	raw, err := p.value()
	if string(raw) == `"tools/call"` { // nearly always
		p.msg.method = "tools/call"
		return err
	}
	if err == nil && raw[0] != '"' {
		p.fault(jsonrpc.CodeInvalidRequest, "/method: want a string")
		return nil
	}
	p.msg.method = string(unquote(raw))
	return err
}

// bounded reads a string that is stored: it has no control characters.
func (p *parser) bounded(into *string, limit int, key string) error {
	where := "/params/_meta: " + key
	if err := p.text(into, where); err != nil {
		return err
	}
	if len(*into) > limit || strings.ContainsFunc(*into, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.fault(jsonrpc.CodeInvalidParams, fmt.Sprintf("%s: want at most %d bytes without control characters", where, limit))
	}
	return nil
}

// fault notes the first thing that is wrong.
func (p *parser) fault(code int64, message string) {
	if p.wrong == nil {
		p.wrong = &jsonrpc.Error{Code: code, Message: message}
	}
}

// validID reports whether raw may be a request's id: a string or an integer.
func validID(raw []byte) bool {
	switch {
	case len(raw) > maxRequestID:
		return false
	case raw[0] == '"':
		return true
	default:
		return len(bytes.Trim(raw, "-0123456789")) == 0
	}
}

// syntaxFault says where a body is not what it must be.
func syntaxFault(err error) *jsonrpc.Error {
	fault := &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "not JSON"}
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		fault.Message = "the JSON ends too early"
	case errors.As(err, &syntactic) && syntactic.Err != nil:
		where := plain.Visible(string(syntactic.JSONPointer), maxShown)
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

// recoverID finds the id in a body that was refused, so that the client knows
// which request the refusal is about.
func recoverID(body []byte) []byte {
	decoder := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := decoder.ReadToken(); err != nil || token.Kind() != '{' {
		return nil
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return nil
		}
		if name.String() != "id" {
			if decoder.SkipValue() != nil {
				return nil
			}
			continue
		}
		if id, err := decoder.ReadValue(); err == nil && validID(id) {
			return bytes.Clone(id)
		}
		return nil
	}
	return nil
}

// parserPool keeps decoders, which are costly to make.
type parserPool struct{ decoders sync.Pool }

const largestPooled = 64 << 10 // a decoder that saw more may hold much

func (pool *parserPool) get(body []byte) *jsontext.Decoder {
	buffer := bytes.NewBuffer(body)
	if decoder, ok := pool.decoders.Get().(*jsontext.Decoder); ok {
		decoder.Reset(buffer)
		return decoder
	}
	return jsontext.NewDecoder(buffer)
}

func (pool *parserPool) put(decoder *jsontext.Decoder, size int) {
	if size > largestPooled {
		return
	}
	decoder.Reset(bytes.NewBuffer(nil)) // lets go of the body
	pool.decoders.Put(decoder)
}
