package streamable

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"sync"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/skillauth"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// connectWatch sends the SDK's requests. It adds the skill's headers and tokens, bounds the answers, and records the details that the
// SDK's errors do not have.
type connectWatch struct {
	session   *Session
	handshake *session.Handshake

	mu     sync.Mutex
	done   bool   // connected or failed: requests are only sent, not recorded
	dialed bool   // a request got a connection
	first  string // method of the latest request before a connection

	refused *tool.Failure // the failure of authorization

	err    error // of the last request
	status int   // of its answer
	header http.Header
	body   []byte // the answer's beginning
}

// maxHandshake bounds each answer while connecting, in bytes.
const maxHandshake = 1 << 20

// RoundTrip implements [http.RoundTripper].
func (w *connectWatch) RoundTrip(r *http.Request) (*http.Response, error) {
	s := w.session
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	release := func() { stop(); cancel(nil) }

	skill := http.Header{}
	host := setSkillHeaders(skill, s.server.Headers)
	maps.Copy(skill, r.Header)
	limited, release := w.beginRequest(ctx, r, release)
	r = r.Clone(httptrace.WithClientTrace(limited, w.watchDial()))
	r.Header = skill
	if host != "" {
		r.Host = host
	}
	response, err := w.sendAuthorized(r)
	if err != nil {
		release()
		w.recordAnswer(nil, err)
		return nil, err
	}
	w.recordAnswer(response, nil)
	response.Body = &watchedBody{source: response.Body, left: maxHandshake, release: release, watch: w}
	return response, nil
}

// beginRequest records the step that a request belongs to. server/discover gets half of the time, so that a server that does not answer it
// can still be initialized.
func (w *connectWatch) beginRequest(ctx context.Context, r *http.Request, release func()) (context.Context, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done || r.Method != http.MethodPost {
		return ctx, release
	}
	method := readMethod(r)
	switch {
	case w.dialed:
		w.handshake.BeginMethod(method)
	case w.first == "":
		w.handshake.BeginStep("connect", "")
		fallthrough
	default:
		w.first = method
	}
	if method != "server/discover" {
		return ctx, release
	}
	limited, cancel := context.WithTimeout(ctx, w.session.config.ConnectTimeout/2)
	return limited, func() { cancel(); release() }
}

// watchDial ends the first step when there is a connection.
func (w *connectWatch) watchDial() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.dialed || w.done {
			return
		}
		w.dialed = true
		w.handshake.FinishStep(info.Conn.RemoteAddr().String(), nil)
		w.handshake.BeginMethod(w.first)
	}}
}

// sendAuthorized is exchange.sendAuthorized for the SDK's requests. Authorization that failed for one of them is not tried again for the
// next.
func (w *connectWatch) sendAuthorized(r *http.Request) (*http.Response, error) {
	auth := w.session.auth
	for round := 1; ; round++ {
		attempt, signed, err := w.signRequest(r)
		if err != nil {
			return nil, err
		}
		response, err := w.session.transport.RoundTrip(attempt)
		if err != nil {
			return nil, err
		}
		if auth != nil && response.StatusCode == http.StatusUnauthorized {
			w.handshake.BeginStep("authorize", "the server requires a token")
		}
		again, failure := auth.judgeAnswer(r.Context(), attempt, readMethod(r), response, signed, round)
		switch {
		case failure != nil:
			skillauth.FinishRefused(response)
			w.handshake.Fail(failure)
			return nil, w.keepRefusal(failure)
		case !again && auth == nil:
			return response, nil
		case !again && response.StatusCode == http.StatusUnauthorized:
			// The next request, which the SDK sends in another revision, would be refused too.
			refused := session.WithoutEffect(failStatus(w.session.origin()+" answered", response.StatusCode, response.Header, nil, nil).Failure)
			w.handshake.Fail(refused)
			_ = w.keepRefusal(refused)
			return response, nil
		case !again:
			if !w.isDone() {
				auth.setAccount(signed.Account)
			}
			return response, nil
		}
		skillauth.FinishRefused(response)
		w.handshake.BeginMethod(readMethod(r))
	}
}

// signRequest returns a copy of a request with a token, if there is one.
func (w *connectWatch) signRequest(r *http.Request) (*http.Request, oauthclient.Signed, error) {
	if failure := w.currentRefusal(); failure != nil {
		return nil, oauthclient.Signed{}, failure
	}
	attempt, err := copyRequest(r)
	if err != nil {
		return nil, oauthclient.Signed{}, err
	}
	signed, failure := w.session.auth.signRequest(r.Context(), attempt)
	if failure != nil {
		return nil, signed, w.keepRefusal(failure)
	}
	if w.isDone() && w.session.auth.isForeign(signed) {
		return nil, signed, session.ErrClosed // the session is another account's
	}
	return attempt, signed, nil
}

// copyRequest returns a copy of a request whose body may have been read.
func copyRequest(r *http.Request) (*http.Request, error) {
	attempt := r.Clone(r.Context())
	if r.GetBody == nil {
		return attempt, nil
	}
	body, err := r.GetBody()
	attempt.Body = body
	return attempt, err
}

// readMethod returns the JSON-RPC method of a request whose body can be read again.
func readMethod(r *http.Request) string {
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
	m, err := session.ParseMessage(text)
	if err != nil {
		return ""
	}
	return m.Method
}

// keepRefusal records a failure of authorization. Connecting fails with it.
func (w *connectWatch) keepRefusal(failure *tool.Failure) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = failure
	return failure
}

func (w *connectWatch) currentRefusal() *tool.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refused
}

func (w *connectWatch) isDone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done
}

// recordAnswer records the last answer for describeFailure. A 401 is not replaced by the failure of a later request, which has no token
// either.
func (w *connectWatch) recordAnswer(response *http.Response, err error) {
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

// recordBody records the beginning of the last answer's body.
func (w *connectWatch) recordBody(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.body = append(w.body, p[:min(len(p), max(0, tool.MaxEvidence-len(w.body)))]...)
	}
}

// markDone ends the recording.
func (w *connectWatch) markDone() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done, w.header, w.body = true, nil, nil
}

// describeFailure returns why connecting failed. It has no effect, because no tool was called.
func (w *connectWatch) describeFailure(ctx context.Context, err error) *tool.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done = true
	s := w.session
	switch {
	case w.refused != nil:
		skillauth.Hide(w.refused, skillauth.Token(s.auth.lastAuthorization()))
		return w.refused
	case w.err != nil && ctx.Err() == nil:
		return tool.BrokeOff(tool.EffectNone, w.err, "connect to %s: %s", s.origin(), plain.Line(w.err.Error(), 300))
	case w.status >= 300:
		out := failStatus(s.origin()+" answered", w.status, w.header, w.body, errors.New(plain.Line(err.Error(), 1000)))
		skillauth.Hide(out.Failure, skillauth.Token(s.auth.lastAuthorization()))
		return session.WithoutEffect(out.Failure)
	case ctx.Err() != nil:
		return session.WithoutEffect(tool.Ended(ctx, tool.EffectNone, "connect to "+s.origin()))
	}
	if m, parsed := session.ParseMessage(w.body); parsed == nil && m.IsError() {
		return session.NewRPCFailure(m.Err)
	}
	return session.WithoutEffect(session.NewProtocolFailure(w.body, errors.New(plain.Line(err.Error(), 1000)),
		"connect to %s: the answer to initialize is not MCP: %s", s.origin(), plain.Line(w.header.Get("Content-Type"), 100)))
}

// watchedBody bounds an answer and records its beginning.
type watchedBody struct {
	source  io.ReadCloser
	left    int64
	release func()
	watch   *connectWatch
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, session.ErrTooLarge
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.source.Read(p)
	b.left -= int64(n)
	b.watch.recordBody(p[:n])
	return n, err
}

func (b *watchedBody) Close() error {
	err := b.source.Close()
	b.release()
	return err
}
