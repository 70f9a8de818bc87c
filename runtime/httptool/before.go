package httptool

import (
	"context"
	"mime"
	"time"

	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// The limits of [Source.Before].
const (
	maxBefore     = 64 << 10
	maxBeforeTime = 5 * time.Second
)

// Before implements [tool.Previewer]: one GET, and its redirects within the origin. Its reply becomes the state that reviewers compare with
// the call.
func (s *Source) Before(ctx context.Context, server tool.Server, request tool.CallRequest) (*tool.State, error) {
	b, err := openapi.ReadBinding(request.Definition)
	switch {
	case err != nil:
		return nil, unsentFailure(server, err)
	case b.Preview == nil || server.API == nil || !server.API.Preview:
		return nil, nil
	case !openapi.IsSafeMethod(b.Preview.Method):
		return nil, newFailure(tool.ProtocolFailure, nil, "skill %s: its preview is not a request that only reads", server.Skill)
	}
	out, err := buildRequest(server, request, b.Preview)
	if err != nil {
		return nil, unsentFailure(server, err)
	}
	limit := maxBeforeTime
	if request.Timeout > 0 {
		limit = min(limit, request.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	x := &exchange{
		source: s, ctx: ctx, server: server, call: request, binding: b.Preview, request: out, auth: s.authorizerFor(server),
		secrets: out.secretForms(), limit: maxBefore, stay: true,
	}
	got, failure := x.sendFollowing()
	if failure != nil {
		skillauth.Hide(failure, x.secrets...)
		failure.Effect, failure.Exchange = tool.EffectNone, x.measured
		return nil, failure
	}
	state := &tool.State{Request: x.request.showMasked(), Status: got.status, Body: got.body, Cut: got.cut}
	media, parameters, err := mime.ParseMediaType(got.header.Get("Content-Type"))
	if err != nil {
		media = ""
	}
	state.Media = x.maskMedia(media)
	if text, ok := x.readText(got.body, media, parameters["charset"]); ok {
		state.Body = []byte(text)
	} else {
		state.Body = x.maskBytes(got.body)
	}
	return state, nil
}
