package mcpserver

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

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

// fail answers with an error.
func (x *exchange) fail(fault *jsonrpc.Error) {
	pieces := [][]byte{marshal(fault)}
	if err := x.answer(x.httpStatus(fault.Code), `,"error":`, pieces); err != nil {
		x.left(err)
	}
}

// left notes that a client did not stay for its answer.
func (x *exchange) left(err error) {
	x.Logger.Debug("client left before its answer", "agent", x.r.PathValue("agent"), "error", err)
}

// answer writes the one response to a request, member being its result or its error.
func (x *exchange) answer(status int, member string, pieces [][]byte) error {
	id := x.msg.id
	if id == nil {
		id = []byte("null")
	}
	const open = `{"jsonrpc":"2.0","id":`
	all := make([][]byte, 0, len(pieces)+3)
	all = append(all, append(append(append(make([]byte, 0, len(open)+len(id)+len(member)), open...), id...), member...))
	all = append(append(all, pieces...), []byte("}"))
	if !x.streaming && (x.json || status != http.StatusOK) {
		return x.writeJSON(status, all)
	}
	if err := x.beginStream(); err != nil {
		return err
	}
	return x.writeEvent(all)
}

func (x *exchange) writeJSON(status int, pieces [][]byte) error {
	length := 0
	for _, piece := range pieces {
		length += len(piece)
	}
	h := x.w.Header()
	h.Set("Content-Type", jsonContent)
	h.Set("Content-Length", strconv.Itoa(length))
	x.answered = true
	x.extendDeadline()
	x.w.WriteHeader(status)
	return x.write(pieces)
}

func (x *exchange) write(pieces [][]byte) error {
	for _, piece := range pieces {
		if _, err := x.w.Write(piece); err != nil {
			return err
		}
	}
	return nil
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
	if err := x.write([][]byte{[]byte(": keepalive\n\n")}); err != nil {
		return err
	}
	return x.flush()
}

// writeEvent sends one message. White space between its tokens must not end a line.
func (x *exchange) writeEvent(pieces [][]byte) error {
	x.extendDeadline()
	if err := x.write([][]byte{[]byte("event: message\ndata: ")}); err != nil {
		return err
	}
	for _, piece := range pieces {
		for len(piece) > 0 {
			line := piece
			if i := bytes.IndexAny(piece, "\r\n"); i >= 0 {
				line = piece[:i]
			}
			if err := x.write([][]byte{line}); err != nil {
				return err
			}
			piece = piece[len(line):]
			if len(piece) > 0 {
				if err := x.write([][]byte{[]byte(" ")}); err != nil {
					return err
				}
				piece = piece[1:]
			}
		}
	}
	if err := x.write([][]byte{[]byte("\n\n")}); err != nil {
		return err
	}
	return x.flush()
}

// extendDeadline bounds the next write. A client that does not read
// must not hold a goroutine for ever.
func (x *exchange) extendDeadline() {
	err := x.control.SetWriteDeadline(x.Now().Add(x.WriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		x.Logger.Debug("set write deadline", "error", err)
	}
}

// flush hands what was written to the network.
func (x *exchange) flush() error {
	if err := x.control.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// notify sends progress, if the client asked for it.
func (x *exchange) progress(token []byte, waited time.Duration, message string) error {
	event := append([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token...)
	event = append(event, `,"progress":`...)
	event = strconv.AppendFloat(event, waited.Seconds(), 'f', -1, 64)
	event = append(event, `,"message":`...)
	event = appendString(event, message)
	return x.writeEvent([][]byte{append(event, "}}"...)})
}
