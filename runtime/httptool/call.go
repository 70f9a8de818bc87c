package httptool

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/httptool/setting"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// methodCall is the method of calls for package oauthclient.
const methodCall = "tools/call"

// exchange is one call, from its arguments to its result.
type exchange struct {
	source   *Source
	ctx      context.Context
	server   tool.Server
	call     tool.CallRequest
	binding  *openapi.Binding
	request  *outboundRequest
	auth     *skillauth.Authorizer
	first    *signedAttempt // nil after it was sent
	measured tool.Exchange
	secrets  []string
	limit    int64 // bytes to read of an answer
	stay     bool  // do not follow redirects to other origins
}

// Call implements [tool.Source]. It repeats a request if none of its bytes was written, and after a 401 if there is a better token. For an
// argument that cannot be sent it returns an error result.
func (s *Source) Call(ctx context.Context, server tool.Server, request tool.CallRequest) (tool.Result, error) {
	if request.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Timeout)
		defer cancel()
	}
	x := &exchange{source: s, ctx: ctx, server: server, call: request, auth: s.authorizerFor(server), limit: s.config.Limits.ResultBytes}
	result, failure := x.runCall()
	if failure != nil {
		skillauth.Hide(failure, x.secrets...)
		failure.Exchange = x.measured
		return tool.Result{}, failure
	}
	result.Exchange = x.measured
	return result, nil
}

func (x *exchange) runCall() (tool.Result, *tool.Failure) {
	var err error
	x.runStep(stepResolve, func() error {
		var base string
		if x.binding, base, err = bindingFor(x.server, x.call.Definition); err == nil {
			x.request, err = resolveRequest(x.binding, base, x.call.Arguments, false)
		}
		return err
	})
	if err != nil {
		return x.unsentResult(err)
	}
	var failure *tool.Failure
	x.runStep(stepCredentials, func() error {
		if err = x.request.addCredentials(x.server, x.call.Caller); err != nil {
			return err
		}
		x.secrets = x.request.secretForms()
		var first *attempt
		if first, err = x.firstAttempt(); err != nil {
			return err
		}
		if x.first, failure = x.signAttempt(first); failure != nil {
			return failure
		}
		return nil
	})
	switch {
	case err != nil:
		return x.unsentResult(err)
	case failure != nil:
		return tool.Result{}, failure
	}
	x.measured.Sent = int64(len(x.request.body))
	var got *reply
	x.runStep(stepCall, func() error {
		if got, failure = x.sendFollowing(); failure != nil {
			return failure
		}
		return nil
	})
	if failure != nil {
		return tool.Result{}, failure
	}
	var result tool.Result
	x.runStep(stepTransform, func() error {
		result, failure = x.buildResult(got)
		return nil
	})
	return result, failure
}

// unsentResult returns the outcome of a call without a request: an error result if the model can correct the arguments, otherwise a failure.
func (x *exchange) unsentResult(err error) (tool.Result, *tool.Failure) {
	if isArgumentError(err) {
		return errorResult("Nothing was sent: "+err.Error(), tool.EffectNone), nil
	}
	return tool.Result{}, unsentFailure(x.server, err)
}

// reply is an answer with its body, up to the limit.
type reply struct {
	status int
	header http.Header
	body   []byte
	cut    bool     // the body was longer
	from   *url.URL // that it came from
	note   string   // a note for the reader of the result
}

// describeRequest names the request in failures, without its arguments.
func (x *exchange) describeRequest() string {
	return "skill " + x.server.Skill + ": " + x.request.method
}

// attempt is one HTTP request: of the call itself, or of a redirect.
type attempt struct {
	method  string
	url     *url.URL
	host    string
	header  http.Header
	body    []byte
	foreign bool // no operator named the host: it may not be a private address
	// crossOrigin: it goes to another origin than the skill's, and carries no headers of the skill and no token.
	crossOrigin bool
}

// firstAttempt returns the attempt that the arguments resolve to.
func (x *exchange) firstAttempt() (*attempt, error) {
	u, err := x.request.targetURL()
	if err != nil {
		return nil, err
	}
	return &attempt{
		method: x.request.method, url: u, host: x.request.host, header: x.request.httpHeader(x.source.config.Version), body: x.request.body,
		foreign: !x.isOperatorBase(),
	}, nil
}

// isOperatorBase reports whether the operator named the host of the base URL: directly, or as the origin of the document.
func (x *exchange) isOperatorBase() bool {
	if x.server.URL != "" {
		return true
	}
	if x.server.API == nil || x.server.API.Spec == "" {
		return false
	}
	spec, err := url.Parse(x.server.API.Spec)
	return err == nil && setting.OriginOf(spec) == setting.OriginOf(x.request.base)
}

// signedAttempt is an attempt with its token, if it has one.
type signedAttempt struct {
	*attempt
	request *http.Request
	token   oauthclient.Signed
}

// signAttempt adds the skill's token to an attempt, unless it goes to another origin.
func (x *exchange) signAttempt(a *attempt) (*signedAttempt, *tool.Failure) {
	s := &signedAttempt{attempt: a, request: a.newRequest()}
	if a.crossOrigin || x.auth == nil {
		return s, nil
	}
	var failure *tool.Failure
	s.token, failure = x.auth.Sign(x.ctx, s.request)
	if token := skillauth.Token(s.request.Header.Get(authorizationHeader)); token != "" {
		x.secrets = append(x.secrets, token)
	}
	return s, failure
}

// sendAuthorized sends an attempt. If the server refuses the token it sends it again with a better one: a 401 says that the server did not act.
func (x *exchange) sendAuthorized(a *attempt) (*reply, *tool.Failure) {
	for round := 1; ; round++ {
		s := x.first
		if x.first = nil; s == nil || s.attempt != a {
			var failure *tool.Failure
			if s, failure = x.signAttempt(a); failure != nil {
				return nil, failure
			}
		}
		response, failure := x.roundTrip(s) //nolint:bodyclose // readReply closes it, or FinishRefused
		if failure != nil {
			return nil, failure
		}
		if a.crossOrigin || x.auth == nil {
			return x.readReply(response, a)
		}
		again, failure := x.auth.Answered(x.ctx, s.request, methodCall, response, s.token, round)
		switch {
		case failure != nil:
			skillauth.FinishRefused(response)
			x.measured.Status = response.StatusCode
			return nil, failure
		case !again:
			return x.readReply(response, a)
		}
		skillauth.FinishRefused(response)
	}
}

// newRequest returns the HTTP request. Its body is never one that net/http could send a second time.
func (a *attempt) newRequest() *http.Request {
	r := &http.Request{
		Method: a.method, URL: a.url, Host: a.host, Header: a.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	switch {
	case len(a.body) > 0:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	case openapi.IsSafeMethod(a.method):
		// Without a body net/http repeats these requests when an idle connection breaks, even after the server received them. Over
		// HTTP/1.1, the only version in use here, net/http finds this body empty before it writes anything.
		r.Body, r.ContentLength = emptyBody{}, -1
	}
	return r
}

// emptyBody is a body without bytes.
type emptyBody struct{}

func (emptyBody) Read([]byte) (int, error) { return 0, io.EOF }
func (emptyBody) Close() error             { return nil }
