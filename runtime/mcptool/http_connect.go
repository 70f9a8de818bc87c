package mcptool

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync"

	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxHandshake bounds each answer while connecting.
const maxHandshake = 1 << 20

// connectWatch carries the SDK's requests: it adds the skill's headers, bounds
// what is read, and remembers what the SDK's errors do not tell.
type connectWatch struct {
	peer      *httpPeer
	handshake *handshake

	mu     sync.Mutex
	done   bool   // connected, or given up: from now on only carry
	dialed bool   // a request got a connection
	first  string // method of the latest request before that

	refused *tool.Failure // what came of the demand for authorization

	err    error // of the last request
	status int   // of its answer
	header http.Header
	body   []byte // the answer's beginning
}

// RoundTrip implements [http.RoundTripper].
func (w *connectWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	p := w.peer
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	release := func() { stop(); cancel(nil) }

	skill := http.Header{}
	host := setSkillHeaders(skill, p.server.Headers)
	maps.Copy(skill, r.Header)
	limited, release := w.begin(ctx, r, release)
	r = r.Clone(httptrace.WithClientTrace(limited, w.watchDial()))
	r.Header = skill
	if host != "" {
		r.Host = host
	}
	response, err := w.authorized(r)
	if err != nil {
		release()
		w.record(nil, err)
		return nil, err
	}
	w.record(response, nil)
	response.Body = &watchedBody{source: response.Body, left: maxHandshake, release: release, watch: w}
	return response, nil
}

// authorized is httpExchange.authorized for the SDK's requests. What could not be had for
// one of them is not asked for again for the next.
func (w *connectWatch) authorized(r *http.Request) (*http.Response, error) {
	auth := w.peer.auth
	for round := 1; ; round++ {
		attempt, signed, err := w.signed(r)
		if err != nil {
			return nil, err
		}
		response, err := w.peer.transport.RoundTrip(attempt)
		if err != nil {
			return nil, err
		}
		if auth != nil && response.StatusCode == http.StatusUnauthorized {
			w.handshake.begin("authorize", "the server wants a token")
		}
		again, failure := auth.answered(r.Context(), attempt, methodOf(r), response, signed, round)
		switch {
		case failure != nil:
			skillauth.FinishRefused(response)
			w.handshake.fail(failure)
			return nil, w.refuse(failure)
		case !again && auth == nil:
			return response, nil
		case !again && response.StatusCode == http.StatusUnauthorized:
			// So it will be with the next request, which the SDK sends in another revision.
			refused := without(statusFailure(w.peer.origin()+" answered", response.StatusCode, response.Header, nil, nil).failure)
			w.handshake.fail(refused)
			_ = w.refuse(refused)
			return response, nil
		case !again:
			if !w.isDone() {
				auth.opened(signed.Account)
			}
			return response, nil
		}
		skillauth.FinishRefused(response)
		w.handshake.beginMethod(methodOf(r))
	}
}

// signed is a request to be sent, with a token if there is one.
func (w *connectWatch) signed(r *http.Request) (*http.Request, oauthclient.Signed, error) {
	if failure := w.refusal(); failure != nil {
		return nil, oauthclient.Signed{}, failure
	}
	attempt, err := copyOf(r)
	if err != nil {
		return nil, oauthclient.Signed{}, err
	}
	signed, failure := w.peer.auth.sign(r.Context(), attempt)
	if failure != nil {
		return nil, signed, w.refuse(failure)
	}
	if w.isDone() && w.peer.auth.foreign(signed) {
		return nil, signed, errPeerClosed // the session is another account's
	}
	return attempt, signed, nil
}

func (w *connectWatch) refusal() *tool.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

func (w *connectWatch) isDone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

// refuse keeps a failure of authorization, which is what connecting fails with.
func (w *connectWatch) refuse(failure *tool.Failure) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = failure
	return failure
}

// copyOf is a request that can be sent although its body was read before.
func copyOf(r *http.Request) (*http.Request, error) {
	attempt := r.Clone(r.Context())
	if r.GetBody == nil {
		return attempt, nil
	}
	body, err := r.GetBody()
	attempt.Body = body
	return attempt, err
}

// begin notes which step a request belongs to. server/discover gets half the
// time only: what is left serves a server that does not answer it.
func (w *connectWatch) begin(ctx context.Context, r *http.Request, release func()) (context.Context, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || r.Method != http.MethodPost {
		return ctx, release
	}
	method := methodOf(r)
	switch {
	case w.dialed:
		w.handshake.beginMethod(method)
	case w.first == "":
		w.handshake.begin("connect", "")
		fallthrough
	default:
		w.first = method
	}
	if method != "server/discover" {
		return ctx, release
	}
	limited, cancel := context.WithTimeout(ctx, w.peer.config.Limits.Connect/2)
	return limited, func() { cancel(); release() }
}

// watchDial ends the first step when a connection is there.
func (w *connectWatch) watchDial() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dialed || w.done {
			return
		}
		w.dialed = true
		w.handshake.finish(info.Conn.RemoteAddr().String(), nil)
		w.handshake.beginMethod(w.first)
	}}
}

// methodOf reads the JSON-RPC method of a request that can be read again.
func methodOf(r *http.Request) string {
	if r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer func() { _ = body.Close() }()
	text, err := io.ReadAll(io.LimitReader(body, maxHandshake))
	if err != nil {
		return ""
	}
	e, err := parseEnvelope(text)
	if err != nil {
		return ""
	}
	return e.method
}

// record keeps the last answer for failure. A demand for authorization is not
// displaced by what an attempt without it earns later.
func (w *connectWatch) record(response *http.Response, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || (w.status == http.StatusUnauthorized && (response == nil || response.StatusCode >= 300)) {
		return
	}
	w.err, w.status, w.header, w.body = err, 0, nil, nil
	if response != nil {
		w.status, w.header = response.StatusCode, response.Header
	}
}

// read keeps the beginning of the last answer's body.
func (w *connectWatch) read(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.body = append(w.body, p[:min(len(p), max(0, tool.MaxEvidence-len(w.body)))]...)
	}
}

// established ends the watch.
func (w *connectWatch) established() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.header, w.body = true, nil, nil
}

// failure says why connecting failed. Nothing was called yet: no effect.
func (w *connectWatch) failure(ctx context.Context, err error) *tool.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	p := w.peer
	switch {
	case w.refused != nil:
		skillauth.Hide(w.refused, skillauth.Token(p.auth.last()))
		return w.refused
	case w.err != nil && ctx.Err() == nil:
		return tool.BrokeOff(tool.EffectNone, w.err, "connect to %s: %s", p.origin(), plain(w.err.Error(), 300))
	case w.status >= 300:
		out := statusFailure(p.origin()+" answered", w.status, w.header, w.body, errors.New(plain(err.Error(), 1000)))
		skillauth.Hide(out.failure, skillauth.Token(p.auth.last()))
		return without(out.failure)
	case ctx.Err() != nil:
		return without(tool.Ended(ctx, tool.EffectNone, "connect to "+p.origin()))
	}
	if e, parsed := parseEnvelope(w.body); parsed == nil && e.isError() {
		return rpcFailure(e.err)
	}
	return without(protocolFailure(w.body, errors.New(plain(err.Error(), 1000)),
		"connect to %s: the answer to initialize is not MCP: %s", p.origin(), plain(w.header.Get("Content-Type"), 100)))
}

// watchedBody bounds an answer and shows its beginning to the watch.
type watchedBody struct {
	source  io.ReadCloser
	left    int64
	release func()
	watch   *connectWatch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.source.Read(p)
	b.left -= int64(n)
	b.watch.read(p[:n])
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.source.Close()
	b.release()
	return err
}
