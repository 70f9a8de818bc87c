package mcpserver

import (
	"errors"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// response is the response to one message.
type response struct {
	*Server
	*wire.Writer
	wire.Accepts

	w      http.ResponseWriter // for responses without a message
	r      *http.Request
	msg    wire.Message
	modern bool // the request is of MCP 2026-07-28 or later

	span trace.Span // nil: the request is not traced
}

func (s *Server) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{}
	x.Server, x.w, x.r = s, w, r
	x.Writer = wire.NewWriter(w, func(control *http.ResponseController) {
		err := control.SetWriteDeadline(s.Now().Add(s.WriteTimeout))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			s.Logger.Debug("set deadline", "agent", r.PathValue("agent"), "error", err)
		}
	})
	return x
}

// writeResult answers with a result, given in pieces of its JSON.
func (x *response) writeResult(pieces ...[]byte) error {
	return x.writeAnswer(http.StatusOK, `,"result":`, pieces)
}

// reply answers with a result and ignores a failed write.
func (x *response) reply(pieces ...[]byte) {
	if err := x.writeResult(pieces...); err != nil {
		x.noteClientLeft(err)
	}
}

// fail answers with a JSON-RPC error.
func (x *response) fail(fault *jsonrpc.Error) {
	x.spanFailed(fault.Code)
	if err := x.writeAnswer(x.httpStatus(fault.Code), `,"error":`, [][]byte{marshal(fault)}); err != nil {
		x.noteClientLeft(err)
	}
}

// noteClientLeft logs that a client left before its answer.
func (x *response) noteClientLeft(err error) {
	x.Logger.Debug("client left before its answer", "agent", x.r.PathValue("agent"), "error", err)
}

// writeAnswer writes the response. Member is its result or its error.
func (x *response) writeAnswer(status int, member string, pieces [][]byte) error {
	if x.msg.ID == nil {
		x.msg.ID = []byte("null")
	}
	answer := append(make([][]byte, 0, len(pieces)+4), []byte(`{"jsonrpc":"2.0","id":`), x.msg.ID, []byte(member))
	answer = append(append(answer, pieces...), []byte("}"))
	if !x.IsStream && (x.JSON || status != http.StatusOK) {
		return x.WriteJSON(status, answer...)
	}
	if err := x.BeginStream(); err != nil {
		return err
	}
	return x.WriteEvent(answer...)
}

// sendProgress sends a progress notification. Params are the members of its parameters except for the token.
func (x *response) sendProgress(token, params []byte) error {
	return x.WriteEvent([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`), token, []byte(","), params, []byte("}}"))
}
