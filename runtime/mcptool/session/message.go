package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/rawjson"
)

// Message is a JSON-RPC message. Its members are slices of the parsed text; nil means absent.
type Message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Err    json.RawMessage
}

// ParseMessage parses a message. All of the text must be JSON.
func ParseMessage(data []byte) (Message, error) {
	var m Message
	var version string
	err := EachMember(data, func(name string, value json.RawMessage) error {
		switch name {
		case "jsonrpc":
			version = string(value)
		case "id":
			if string(value) != "null" {
				m.ID = value
			}
		case "method":
			if err := json.Unmarshal(value, &m.Method); err != nil || m.Method == "" {
				return fmt.Errorf("%w: method is not a name", errNotMessage)
			}
		case "params":
			m.Params = value
		case "result":
			m.Result = value
		case "error":
			m.Err = value
		}
		return nil
	})
	switch {
	case err != nil:
		return m, err
	case version != `"2.0"`:
		return m, fmt.Errorf("%w: jsonrpc is not \"2.0\"", errNotMessage)
	case m.Method == "" && m.Result == nil && !m.IsError():
		return m, fmt.Errorf("%w: neither method, result nor error", errNotMessage)
	case m.Result != nil && m.IsError():
		return m, fmt.Errorf("%w: both result and error", errNotMessage)
	}
	return m, nil
}

// IsRequest reports whether the message wants a response.
func (m Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsResponseTo reports whether the message is the response to the request with this id.
func (m Message) IsResponseTo(id int64) bool {
	return m.Method == "" && string(m.ID) == strconv.FormatInt(id, 10)
}

// IsError reports whether the message is a JSON-RPC error.
func (m Message) IsError() bool {
	return m.Method == "" && m.Err != nil && string(m.Err) != "null"
}

var errNotMessage = errors.New("not a JSON-RPC 2.0 message")

// AnswerRequest returns the response to a server's request: a result for ping, an error for all others. Requests that [Questions] accepts
// are answered there.
func AnswerRequest(m Message) []byte {
	if m.Method == "ping" {
		return encodeResult(m.ID, json.RawMessage("{}"))
	}
	return encodeError(m.ID, jsonrpc.CodeMethodNotFound, "not offered by this client: "+plain.Line(m.Method, 64))
}

// encodeResult returns the response to a server's request.
func encodeResult(id, result json.RawMessage) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = append(append(body, `,"result":`...), result...)
	return append(body, '}')
}

// encodeError returns a JSON-RPC error in response to a server's request.
func encodeError(id json.RawMessage, code int64, message string) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	body = strconv.AppendInt(append(body, `,"error":{"code":`...), code, 10)
	body = rawjson.AppendString(append(body, `,"message":`...), message)
	return append(body, "}}"...)
}

// EncodeCancel returns the notification that the response to a request is no longer wanted.
func EncodeCancel(id int64) []byte {
	body := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), strconv.FormatInt(id, 10)...)
	return append(body, `,"reason":"the caller waited no longer"}}`...)
}

// EachMember calls visit with each member of the JSON object that data is, in order. It returns an error unless data is one JSON object,
// in UTF-8, of at most maxMembers members with different names.
func EachMember(data []byte, visit func(name string, value json.RawMessage) error) error {
	if !utf8.Valid(data) {
		return errors.New("not valid UTF-8")
	}
	seen := map[string]bool{}
	// Inner objects may repeat names, and escapes may hold lone surrogates: such text is passed on as it is. The members that Holdpoint
	// reads must be unambiguous.
	for m, err := range rawjson.Members(data, rawjson.Lenient()) {
		if err != nil {
			return err
		}
		name := m.Name()
		switch {
		case seen[name]:
			return fmt.Errorf("member %q twice", name)
		case len(seen) == maxMembers:
			return fmt.Errorf("more than %d members", maxMembers)
		}
		seen[name] = true
		if err := visit(name, json.RawMessage(m.Value)); err != nil {
			return err
		}
	}
	return nil
}

// ReadMember returns a member of the JSON object that data is, or nil if there is none of that name. Its errors are those of [EachMember].
func ReadMember(data []byte, wanted string) (found json.RawMessage, err error) {
	err = EachMember(data, func(name string, value json.RawMessage) error {
		if name == wanted {
			found = value
		}
		return nil
	})
	return found, err
}

// StripBraces returns the members of a JSON object as they are written. The object must not have a _meta, which is not the caller's to
// set.
func StripBraces(params json.RawMessage) ([]byte, error) {
	if len(params) == 0 {
		return nil, nil
	}
	err := EachMember(params, func(name string, _ json.RawMessage) error {
		if name == "_meta" {
			return errors.New("_meta is not the caller's to give")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(params)
	return bytes.TrimSpace(text[1 : len(text)-1]), nil
}

// maxMembers bounds the members of an object that is read. MCP defines a handful; all names are kept in memory to find duplicates.
const maxMembers = 1000
