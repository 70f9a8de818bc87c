package httptool

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// methodCall is what package oauthclient knows a call by.
const methodCall = "tools/call"

var _ tool.Source = (*Source)(nil)

// exchange is one call on its way.
type exchange struct {
	source  *Source
	ctx     context.Context
	server  tool.Server
	request tool.CallRequest
	binding *Binding
	out     *outboundRequest
	auth    *skillauth.Authorizer
	ready   *signed // what is sent first
	told    tool.Exchange
	secrets []string
	limit   int64 // bytes of an answer that are read
	stay    bool  // redirects to other origins are not followed
}

// Call implements [tool.Source]. It sends a request once more when no byte of it had been written, and after a 401 that a token mends. An
// argument that cannot be sent is a result that is an error.
func (s *Source) Call(ctx context.Context, server tool.Server, request tool.CallRequest) (tool.Result, error) {
	if request.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, request.Timeout)
		defer cancel()
	}
	x := &exchange{source: s, ctx: ctx, server: server, request: request, auth: s.authorizer(server), limit: s.config.Limits.ResultBytes}
	result, failure := x.run()
	if failure != nil {
		skillauth.Hide(failure, x.secrets...)
		failure.Exchange = x.told
		return tool.Result{}, failure
	}
	result.Exchange = x.told
	return result, nil
}

func (x *exchange) run() (tool.Result, *tool.Failure) {
	var err error
	x.step(stepResolve, func() error {
		var base string
		if x.binding, base, err = bindOf(x.server, x.request.Definition); err == nil {
			x.out, err = resolve(x.binding, base, x.request.Arguments, false)
		}
		return err
	})
	if err != nil {
		return x.unsendable(err)
	}
	var failure *tool.Failure
	x.step(stepCredentials, func() error {
		if err = x.out.authenticate(x.server, x.request.Caller); err != nil {
			return err
		}
		x.secrets = x.out.hidden()
		var first *attempt
		if first, err = x.first(); err != nil {
			return err
		}
		if x.ready, failure = x.sign(first); failure != nil {
			return failure
		}
		return nil
	})
	switch {
	case err != nil:
		return x.unsendable(err)
	case failure != nil:
		return tool.Result{}, failure
	}
	x.told.Sent = int64(len(x.out.body))
	var got *reply
	x.step(stepCall, func() error {
		if got, failure = x.redirected(); failure != nil {
			return failure
		}
		return nil
	})
	if failure != nil {
		return tool.Result{}, failure
	}
	var result tool.Result
	x.step(stepTransform, func() error {
		result, failure = x.result(got)
		return nil
	})
	return result, failure
}

// unsendable is what becomes of a call for which there is no request: the model can mend arguments, nobody but the operator all else.
func (x *exchange) unsendable(err error) (tool.Result, *tool.Failure) {
	if isArgumentError(err) {
		return errorResult("Nothing was sent: "+err.Error(), tool.EffectNone), nil
	}
	return tool.Result{}, prepareFailure(x.server, err)
}

// reply is an answer, read as far as it is of use.
type reply struct {
	status int
	header http.Header
	body   []byte
	cut    bool     // there was more
	from   *url.URL // where it came from
	note   string   // what has to be said of it besides
}

// what names the request in failures, without anything of its arguments.
func (x *exchange) what() string { return "skill " + x.server.Skill + ": " + x.out.method }

// attempt is one HTTP request: of the call itself, or of a redirect.
type attempt struct {
	method  string
	url     *url.URL
	host    string
	header  http.Header
	body    []byte
	foreign bool // it goes where no operator sent it: not to private addresses
	// stranger: it goes to another origin than the skill's, which gets nothing of its own, and no token.
	stranger bool
}

// first is the attempt that the arguments make.
func (x *exchange) first() (*attempt, error) {
	u, err := x.out.target()
	if err != nil {
		return nil, err
	}
	return &attempt{
		method: x.out.method, url: u, host: x.out.host, header: x.out.httpHeader(x.source.config.Version), body: x.out.body,
		foreign: !x.operators(),
	}, nil
}

// operators reports whether the base URL is the operator's word: set by them, or of the origin of the document that they named.
func (x *exchange) operators() bool {
	if x.server.URL != "" {
		return true
	}
	if x.server.API == nil || x.server.API.Spec == "" {
		return false
	}
	spec, err := url.Parse(x.server.API.Spec)
	return err == nil && originOf(spec) == originOf(x.out.base)
}

// signed is an attempt with a token, if there is one.
type signed struct {
	*attempt
	request *http.Request
	with    oauthclient.Signed
}

// sign puts a token on an attempt, if there is one and it may have it.
func (x *exchange) sign(a *attempt) (*signed, *tool.Failure) {
	s := &signed{attempt: a, request: a.build()}
	if a.stranger || x.auth == nil {
		return s, nil
	}
	var failure *tool.Failure
	s.with, failure = x.auth.Sign(x.ctx, s.request)
	if token := skillauth.Token(s.request.Header.Get(authorizationHeader)); token != "" {
		x.secrets = append(x.secrets, token)
	}
	return s, failure
}

// authorized sends an attempt, and once more with a better token where the server refuses the first: by 401 it says that it did not act.
func (x *exchange) authorized(a *attempt) (*reply, *tool.Failure) {
	for round := 1; ; round++ {
		s := x.ready
		if x.ready = nil; s == nil || s.attempt != a {
			var failure *tool.Failure
			if s, failure = x.sign(a); failure != nil {
				return nil, failure
			}
		}
		response, failure := x.post(s) //nolint:bodyclose // read closes it, or FinishRefused
		if failure != nil {
			return nil, failure
		}
		if a.stranger || x.auth == nil {
			return x.read(response, a)
		}
		again, failure := x.auth.Answered(x.ctx, s.request, methodCall, response, s.with, round)
		switch {
		case failure != nil:
			skillauth.FinishRefused(response)
			x.told.Status = response.StatusCode
			return nil, failure
		case !again:
			return x.read(response, a)
		}
		skillauth.FinishRefused(response)
	}
}

// build makes the HTTP request. Its body is never one that net/http could send again on its own.
func (a *attempt) build() *http.Request {
	r := &http.Request{
		Method: a.method, URL: a.url, Host: a.host, Header: a.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	switch {
	case len(a.body) > 0:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	case tool.ReadOnlyMethod(a.method):
		// Without a body net/http sends these a second time when a connection that it had kept breaks, also after the server got them.
		// Over HTTP/1.1, which is all that is spoken here, this one is found to be empty before anything is written.
		r.Body, r.ContentLength = nothing{}, -1
	}
	return r
}

// nothing is a body without anything in it.
type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, io.EOF }
func (nothing) Close() error             { return nil }
