// Package wire owns what the providers that are reached over HTTP have in common: the bounds of an exchange, what its failures are
// called, and how pieces of a conversation are made fit for servers that are strict about them. It knows no
// provider's format.
package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// Client makes a client's exchanges bounded: in bytes, in time without any. Answers that are no success come back as
// *model.Error, whose text never has the secret in it. It follows no redirect, for whoever a server names is not whom the
// credential was given for.
func Client(client *http.Client, limits model.Limits, secret string) *http.Client {
	bounded := *client
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	bounded.Transport = &transport{next: next, limits: limits, secret: secret}
	bounded.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	bounded.Timeout = 0 // it would cut long answers
	return &bounded
}

type transport struct {
	next   http.RoundTripper
	limits model.Limits
	secret string
}

var errStalled = errors.New("stalled")

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	stall := time.AfterFunc(t.limits.FirstByte, func() { cancel(errStalled) })
	end := func() {
		stall.Stop()
		cancel(nil)
	}
	request = request.Clone(ctx)
	for name := range request.Header {
		if strings.HasPrefix(name, "X-Stainless-") { // what the libraries tell of this machine
			request.Header.Del(name)
		}
	}
	request.Header.Set("User-Agent", "holdpoint")
	response, err := t.next.RoundTrip(request)
	stall.Stop()
	if err != nil {
		err = t.broken(ctx, err, t.limits.FirstByte)
		end()
		return nil, err
	}
	body := &body{ReadCloser: response.Body, transport: t, ctx: ctx, stall: stall, end: end, left: t.limits.AnswerBytes}
	if response.StatusCode/100 != 2 {
		defer body.Close()
		return nil, t.refused(response, body)
	}
	response.Body = body
	return response, nil
}

// body is an answer's, bounded.
type body struct {
	io.ReadCloser

	transport *transport
	ctx       context.Context
	stall     *time.Timer
	end       func()
	left      int64
	waited    bool // the first byte was there
}

func (b *body) Read(p []byte) (int, error) {
	limit := b.transport.limits.FirstByte
	if b.waited {
		limit = b.transport.limits.Stall
	}
	b.stall.Reset(limit) // whoever reads slowly is not the server's fault
	n, err := b.ReadCloser.Read(p)
	b.stall.Stop()
	b.waited = b.waited || n > 0
	if b.left -= int64(n); b.left < 0 {
		return n, tooMuch()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, b.transport.broken(b.ctx, err, limit)
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func tooMuch() error {
	return &model.Error{Message: "the answer is longer than is taken"}
}

// broken says what broke an exchange off.
func (t *transport) broken(ctx context.Context, err error, silence time.Duration) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return &model.Error{Retryable: true, Message: "nothing came for " + silence.String()}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return unreachable(err, t.secret)
}
