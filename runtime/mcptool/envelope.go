package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/holdpoint/holdpoint/internal/telemetry"
)

// envelope is one JSON-RPC message. Its members are slices of the text that
// was parsed; nil means absent.
type envelope struct {
	id     json.RawMessage
	method string
	params json.RawMessage
	result json.RawMessage
	err    json.RawMessage
}

// isCall reports whether the message asks for an answer.
func (e envelope) isCall() bool { return e.method != "" && e.id != nil }

// answers reports whether the message is the answer to the request id.
func (e envelope) answers(id int64) bool {
	return e.method == "" && string(e.id) == strconv.FormatInt(id, 10)
}

// isError reports whether the message is a JSON-RPC error.
func (e envelope) isError() bool {
	return e.method == "" && e.err != nil && string(e.err) != "null"
}

var errNotJSONRPC = errors.New("not a JSON-RPC 2.0 message")

// parseEnvelope reads one message and checks that all of it is JSON.
func parseEnvelope(data []byte) (envelope, error) {
	var e envelope
	var version string
	err := eachMember(data, func(name string, value json.RawMessage) error {
		switch name {
		case "jsonrpc":
			version = string(value)
		case "id":
			if string(value) != "null" {
				e.id = value
			}
		case "method":
			if err := json.Unmarshal(value, &e.method); err != nil || e.method == "" {
				return fmt.Errorf("%w: method is not a name", errNotJSONRPC)
			}
		case "params":
			e.params = value
		case "result":
			e.result = value
		case "error":
			e.err = value
		}
		return nil
	})
	switch {
	case err != nil:
		return e, err
	case version != `"2.0"`:
		return e, fmt.Errorf("%w: jsonrpc is not \"2.0\"", errNotJSONRPC)
	case e.method == "" && e.result == nil && !e.isError():
		return e, fmt.Errorf("%w: neither method, result nor error", errNotJSONRPC)
	case e.result != nil && e.isError():
		return e, fmt.Errorf("%w: both result and error", errNotJSONRPC)
	}
	return e, nil
}

// maxMembers bounds the members of a message, and of a result: those that MCP
// knows are a handful, and the names of all are kept to find one that is there twice.
const maxMembers = 1000

// eachMember calls visit with every member of the JSON object that data is,
// in order, and reports an error unless data is one JSON object, in UTF-8,
// of at most maxMembers members, that names none twice. Names inside values are not looked at.
func eachMember(data []byte, visit func(name string, value json.RawMessage) error) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	// Members of inner objects may repeat and escapes may hold lone surrogates:
	// such text is passed on as it is. What matters here must be unambiguous.
	decoder := jsontext.NewDecoder(bytes.NewBuffer(data),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if decoder.PeekKind() != '{' {
		if _, err := decoder.ReadValue(); err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		return errors.New("not a JSON object")
	}
	if _, err := decoder.ReadToken(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	seen := map[string]bool{}
	for decoder.PeekKind() != '}' {
		name, value, err := nextMember(decoder, data)
		switch {
		case err != nil:
			return fmt.Errorf("read JSON: %w", err)
		case seen[name]:
			return fmt.Errorf("member %q twice", name)
		case len(seen) == maxMembers:
			return fmt.Errorf("more than %d members", maxMembers)
		}
		seen[name] = true
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	return nil
}

// nextMember reads one member of an object. The value is a slice of data.
func nextMember(decoder *jsontext.Decoder, data []byte) (name string, value json.RawMessage, err error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return "", nil, err
	}
	name = token.String() // before the decoder moves on
	text, err := decoder.ReadValue()
	if err != nil {
		return "", nil, err
	}
	end := decoder.InputOffset()
	return name, json.RawMessage(data[end-int64(len(text)) : end : end]), nil
}

// request is one JSON-RPC request that is not the SDK's.
type request struct {
	method string
	name   string // what is asked for, for Mcp-Name; "": nothing
	// members are the members of params, without braces, ready to be sent.
	members []byte
	// definition and arguments are where Mcp-Param-* headers come from.
	definition paramSource
	// errand is what the request is part of; nil: nobody is asked or told anything during it.
	errand *errand
	// trace is which trace the request belongs to, as the server is told; zero: none.
	trace telemetry.Handed
	// limit bounds the answer's result, in bytes.
	limit int64
	// confirm is [tool.CallRequest].Confirm.
	confirm func(ctx context.Context) error
	// what names the request in messages: "tools/call echo".
	what string
	// continues: the request goes on with a call that the server has begun; a
	// server of a revision that knows no such thing would begin it anew.
	continues bool
	// declared: it is sent only to a server that declared that it has the method.
	declared bool
}

// encode writes the request as it goes over the wire. meta is what the
// protocol's revision wants in every request, or nil.
func (r *request) encode(id int64, meta []byte) []byte {
	body := make([]byte, 0, len(r.members)+len(meta)+len(r.method)+96)
	body = append(body, `{"jsonrpc":"2.0","id":`...)
	body = strconv.AppendInt(body, id, 10)
	body = append(body, `,"method":"`...)
	body = append(body, r.method...)
	body = append(body, `","params":{`...)
	body = append(body, r.members...)
	if meta != nil {
		if len(r.members) > 0 {
			body = append(body, ',')
		}
		body = append(body, `"_meta":`...)
		body = append(body, meta...)
	}
	return append(body, "}}"...)
}

// quoted appends s as a JSON string.
func quoted(dst []byte, s string) []byte {
	out, err := jsontext.AppendQuote(dst, s)
	if err != nil { // invalid UTF-8, which AppendQuote has replaced
		return out
	}
	return out
}

// methodNotFound is the answer to a server that asks for what was not offered.
func methodNotFound(id json.RawMessage, method string) []byte {
	return refusal(id, codeMethodNotFound, "not offered by this client: "+plain(method, 64))
}

// refusal is a JSON-RPC error in answer to a server's request.
func refusal(id json.RawMessage, code int64, message string) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = strconv.AppendInt(append(body, `,"error":{"code":`...), code, 10)
	body = quoted(append(body, `,"message":`...), message)
	return append(body, "}}"...)
}

// respond is the answer to a server's request.
func respond(id, result json.RawMessage) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(append(body, `,"result":`...), result...)
	return append(body, '}')
}

// answerTo is what a server's request deserves: an answer to ping, a refusal
// of everything else. Questions that may be asked do not come here; see asked.
func answerTo(e envelope) []byte {
	if e.method == "ping" {
		return respond(e.id, json.RawMessage("{}"))
	}
	return methodNotFound(e.id, e.method)
}

// cancelled tells a server that the answer to a request is not wanted any more.
func cancelled(id int64) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), strconv.FormatInt(id, 10)...)
	return append(body, `,"reason":"the caller waited no longer"}}`...)
}
