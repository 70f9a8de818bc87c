package mcptool

import (
	"encoding/json"
	"fmt"

	plaintext "github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// outcome is what became of one request.
type outcome struct {
	result  json.RawMessage
	failure *tool.Failure
	// unsent: no byte of the request was written, although a connection was
	// there; it may be sent once more, on a fresh one.
	unsent bool
	// sessionGone: the server answered the session's 404; a fresh session is
	// needed, and the request may be sent once more.
	sessionGone bool
	// renew: the next request should find a fresh session.
	renew bool
}

func failed(f *tool.Failure) outcome { return outcome{failure: f} }

// protocolFailure is about an answer that was received: whether the server
// acted before it gave it, cannot be known.
func protocolFailure(raw []byte, err error, format string, args ...any) *tool.Failure {
	return &tool.Failure{
		Kind: tool.ProtocolFailure, Effect: tool.EffectPossible,
		Message: fmt.Sprintf(format, args...), Raw: tool.Evidence(raw), Err: err,
	}
}

// rpcFailure is a server's JSON-RPC error.
func rpcFailure(rpc json.RawMessage) *tool.Failure {
	var e struct {
		Code    json.Number `json:"code"`
		Message string      `json:"message"`
	}
	message := "the server answered with a JSON-RPC error"
	if err := json.Unmarshal(rpc, &e); err == nil {
		message = fmt.Sprintf("the server answered with JSON-RPC error %s: %s", plain(e.Code.String(), 32), plain(e.Message, 500))
	}
	return &tool.Failure{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: message, RPC: rpc}
}

// without returns a copy of f that says nothing had an effect: for requests
// that only read.
func without(f *tool.Failure) *tool.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Effect = tool.EffectNone
	return &out
}

// plain makes a server's text fit to be shown in a message: one line, bounded,
// with what is invisible or unprintable written as an escape.
func plain(s string, limit int) string { return plaintext.Line(s, limit) }
