package httptool

import (
	"context"
	"mime"
	"time"

	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The bounds of [Source.Before].
const (
	maxBefore     = 64 << 10
	maxBeforeTime = 5 * time.Second
)

// Before implements [tool.Source]: one GET, and its redirects within the origin.
func (s *Source) Before(ctx context.Context, server tool.Server, request tool.CallRequest) (*tool.State, error) {
	b, err := bindingOf(request.Definition)
	switch {
	case err != nil:
		return nil, prepareFailure(server, err)
	case b.Preview == nil || server.API == nil || !server.API.Preview:
		return nil, nil
	case !tool.ReadOnlyMethod(b.Preview.Method):
		return nil, failed(tool.ProtocolFailure, nil, "skill %s: its preview is not a request that only reads", server.Skill)
	}
	out, err := prepare(server, request, b.Preview)
	if err != nil {
		return nil, prepareFailure(server, err)
	}
	limit := maxBeforeTime
	if request.Timeout > 0 {
		limit = min(limit, request.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	x := &exchange{
		source: s, ctx: ctx, server: server, request: request, binding: b.Preview, out: out, auth: s.authorizer(server),
		secrets: out.hidden(), limit: maxBefore, stay: true,
	}
	got, failure := x.redirected()
	if failure != nil {
		skillauth.Hide(failure, x.secrets...)
		failure.Effect, failure.Exchange = tool.EffectNone, x.told
		return nil, failure
	}
	return x.state(got), nil
}

// state is an answer as people compare it with what a call would make of it.
func (x *exchange) state(got *reply) *tool.State {
	state := &tool.State{Request: x.out.shown(), Status: got.status, Body: got.body, Cut: got.cut}
	media, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	state.Media = x.hideMedia(media)
	if text, ok := x.text(got.body, media, parameters["charset"]); ok {
		state.Body = []byte(text)
	} else {
		state.Body = x.hideIn(got.body)
	}
	return state
}
