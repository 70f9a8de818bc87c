package mcpserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// An answer is written piece by piece: results may be large, and are passed
// through as they came.

const (
	jsonContent = "application/json"
	sseContent  = "text/event-stream"
)

// result answers with a result, given in pieces that together are its JSON.
func (x *exchange) result(pieces ...[]byte) error {
	return x.answer(http.StatusOK, `,"result":`, pieces)
}

// reply is result for answers that nothing hangs on.
func (x *exchange) reply(pieces ...[]byte) {
	if err := x.result(pieces...); err != nil {
		x.left(err)
	}
}

// fail answers with an error.
func (x *exchange) fail(fault *jsonrpc.Error) {
	x.spanFailed(fault.Code)
	pieces := [][]byte{marshal(fault)}
	if err := x.answer(x.httpStatus(fault.Code), `,"error":`, pieces); err != nil {
		x.left(err)
	}
}

// left notes that a client did not stay for its answer.
func (x *exchange) left(err error) {
	x.Logger.Debug("client left before its answer", "agent", x.r.PathValue("agent"), "error", err)
}

const answerOpen = `{"jsonrpc":"2.0","id":`

// answer writes the one response to a request, member being its result or its error.
func (x *exchange) answer(status int, member string, pieces [][]byte) error {
	if x.msg.id == nil {
		x.msg.id = []byte("null")
	}
	if !x.streaming && (x.json || status != http.StatusOK) {
		return x.writeJSON(status, member, pieces)
	}
	if err := x.beginStream(); err != nil {
		return err
	}
	x.extendDeadline()
	x.put("event: message\ndata: ")
	x.putAnswer(member, pieces, true)
	x.put("\n\n")
	return x.flush()
}

func (x *exchange) writeJSON(status int, member string, pieces [][]byte) error {
	length := len(answerOpen) + len(x.msg.id) + len(member) + len("}")
	for _, piece := range pieces {
		length += len(piece)
	}
	h := x.w.Header()
	h.Set("Content-Type", jsonContent)
	h.Set("Content-Length", strconv.Itoa(length))
	x.answered = true
	x.extendDeadline()
	x.w.WriteHeader(status)
	x.putAnswer(member, pieces, false)
	return x.broken
}

func (x *exchange) putAnswer(member string, pieces [][]byte, oneLine bool) {
	x.put(answerOpen)
	x.putBytes(x.msg.id)
	x.put(member)
	for _, piece := range pieces {
		if oneLine {
			x.putLine(piece)
		} else {
			x.putBytes(piece)
		}
	}
	x.put("}")
}

// put and its like write until the first write that fails; flush and writeJSON tell.
func (x *exchange) put(text string) {
	if x.broken == nil {
		_, x.broken = io.WriteString(x.w, text)
	}
}

func (x *exchange) putBytes(text []byte) {
	if x.broken == nil && len(text) > 0 {
		_, x.broken = x.w.Write(text)
	}
}

// putLine writes JSON whose white space must not end a line.
func (x *exchange) putLine(text []byte) {
	for len(text) > 0 {
		end := bytes.IndexAny(text, "\r\n")
		if end < 0 {
			x.putBytes(text)
			return
		}
		x.putBytes(text[:end])
		x.put(" ")
		text = text[end+1:]
	}
}

// event sends one message on the stream, given in pieces that together are its JSON.
func (x *exchange) event(pieces ...[]byte) error {
	x.extendDeadline()
	x.put("event: message\ndata: ")
	for _, piece := range pieces {
		x.putLine(piece)
	}
	x.put("\n\n")
	return x.flush()
}

// beginStream makes the response a stream of events, once.
func (x *exchange) beginStream() error {
	if x.streaming {
		return nil
	}
	h := x.w.Header()
	h.Set("Content-Type", sseContent)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // no proxy shall hold events back
	x.answered, x.streaming = true, true
	x.w.WriteHeader(http.StatusOK)
	return x.comment()
}

// comment is a sign of life that no client takes for a message.
func (x *exchange) comment() error {
	x.extendDeadline()
	x.put(": keepalive\n\n")
	return x.flush()
}

// extendDeadline bounds the next write. A client that does not read
// must not hold a goroutine for ever.
func (x *exchange) extendDeadline() {
	x.note(x.control.SetWriteDeadline(x.Now().Add(x.WriteTimeout)))
}

// note logs that a deadline could not be set: the connection is gone, or has none.
func (x *exchange) note(err error) {
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.Logger.Debug("set deadline", "agent", x.r.PathValue("agent"), "error", err)
	}
}

// flush hands what was written to the network.
func (x *exchange) flush() error {
	if x.broken == nil {
		if err := x.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
			x.broken = err
		}
	}
	return x.broken
}

// sendProgress notifies a client that asked for it. Params are the members of its parameters but the token.
func (x *exchange) sendProgress(token, params []byte) error {
	return x.event([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token, []byte(","), params, []byte("}}"))
}
