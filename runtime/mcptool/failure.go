package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	plaintext "github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxRaw bounds what of an unacceptable answer is kept as evidence.
const maxRaw = 64 << 10

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

func transportFailure(effect tool.Effect, err error, format string, args ...any) *tool.Failure {
	return &tool.Failure{Kind: tool.TransportFailure, Effect: effect, Message: fmt.Sprintf(format, args...), Err: err}
}

// protocolFailure is about an answer that was received: whether the server
// acted before it gave it, cannot be known.
func protocolFailure(raw []byte, err error, format string, args ...any) *tool.Failure {
	return &tool.Failure{
		Kind: tool.ProtocolFailure, Effect: tool.EffectPossible,
		Message: fmt.Sprintf(format, args...), Raw: evidence(raw), Err: err,
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

// ended is the failure of a request whose context ended before its answer came.
func ended(ctx context.Context, effect tool.Effect, what string) *tool.Failure {
	err := context.Cause(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return transportFailure(effect, err, "%s: no answer before its time ran out", what)
	}
	return transportFailure(effect, err, "%s: stopped before an answer came", what)
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

// evidence makes valid JSON, of bounded size, of an answer that may be none:
// JSON that is small enough stays as it is, all else becomes a JSON string that
// holds its beginning.
func evidence(raw []byte) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) <= maxRaw && utf8.Valid(raw) && json.Valid(raw) {
		return json.RawMessage(raw)
	}
	text := raw[:min(len(raw), maxRaw)]
	for range utf8.UTFMax { // do not end within a character
		if r, size := utf8.DecodeLastRune(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return quoted(nil, string(text))
}

// plain makes a server's text fit to be shown in a message: one line, bounded,
// with what is invisible or unprintable written as an escape.
func plain(s string, limit int) string { return plaintext.Line(s, limit) }
