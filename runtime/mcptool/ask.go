package mcptool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strconv"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// JSON-RPC's codes of refusals.
const (
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)

// methodName is what the name of a method may look like; it goes into a header.
var methodName = regexp.MustCompile(`^[A-Za-z0-9_./$-]{1,128}$`)

// Request implements [tool.Source].
func (s *Source) Request(ctx context.Context, server tool.Server, asked tool.Request) (json.RawMessage, error) {
	r, failure := otherRequest(asked, s.config.Limits.ResultBytes)
	if failure != nil {
		return nil, failure
	}
	e, failure := s.newErrand(ctx, server, asked.Caller, asked.Timeout, asked.Input)
	if failure != nil {
		return nil, failure
	}
	defer s.finish(e)
	var raw json.RawMessage
	var kind string
	if asked.Input {
		raw, kind, failure = s.round(e, server, r)
	} else {
		raw, kind, failure = s.rounds(e, server, r)
	}
	if failure == nil && kind != typeComplete && (kind != typeInput || !asked.Input) {
		failure = unknownType(r.what, raw, kind)
	}
	if failure != nil {
		return nil, without(failure)
	}
	return raw, nil
}

// Capabilities implements [tool.Source]. Its time is bounded by Limits.List.
func (s *Source) Capabilities(ctx context.Context, server tool.Server) (tool.Capabilities, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Limits.List)
	defer cancel()
	h, failure := s.acquire(ctx, server)
	if failure != nil {
		return tool.Capabilities{}, without(failure)
	}
	defer h.release(false)
	return h.peer.negotiated().offers, nil
}

// otherRequest makes a request that is no tools/call.
func otherRequest(asked tool.Request, limit int64) (*request, *tool.Failure) {
	what := plain(asked.Method, 100)
	if asked.Name != "" {
		what += " " + plain(asked.Name, 100)
	}
	switch {
	case asked.Method == "tools/call":
		return nil, notSent(codeMethodNotFound, "tools/call is not sent as a request of its own")
	case !methodName.MatchString(asked.Method):
		return nil, notSent(codeMethodNotFound, "%q is not a method", plain(asked.Method, 100))
	}
	members, err := membersOf(asked.Params)
	if err != nil {
		return nil, notSent(codeInvalidParams, "%s: params: %s", what, plain(err.Error(), 200))
	}
	return &request{method: asked.Method, name: asked.Name, members: members, limit: limit, what: what, declared: true}, nil
}

// membersOf takes the braces off a request's params.
func membersOf(params json.RawMessage) ([]byte, error) {
	if len(params) == 0 {
		return nil, nil
	}
	err := eachMember(params, func(name string, _ json.RawMessage) error {
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

// notSent is the JSON-RPC error of a request that no server was asked.
func notSent(code int64, format string, args ...any) *tool.Failure {
	f := tool.BrokeOff(tool.EffectNone, nil, format, args...)
	f.Kind = tool.JSONRPCError
	rpc := strconv.AppendInt([]byte(`{"code":`), code, 10)
	f.RPC = append(quoted(append(rpc, `,"message":`...), f.Message), '}')
	return f
}

// notDeclared refuses a request of which the server did not declare that it has it.
func notDeclared(r *request) *tool.Failure {
	return notSent(codeMethodNotFound, "%s: the server does not offer it", r.what)
}
