// Package wire is shared by the providers over HTTP. It owns the limits of an exchange, its errors, and the conversion of parts of a
// conversation to the forms that strict servers accept. It knows no provider's format.
package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/runtime/model"
)

// newClient returns a client that limits the bytes of an answer and the silence before and in it. A response whose status is
// not 2xx is a *model.Error. It follows no redirect, because the credential is for the configured server only.
func newClient(client *http.Client, limits model.Limits) *http.Client {
	bounded := *client
	next := client.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	bounded.Transport = &transport{next: next, limits: limits}
	bounded.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	bounded.Timeout = 0 // it would cut long answers
	return &bounded
}

type transport struct {
	next   http.RoundTripper
	limits model.Limits
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
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	stall.Stop()
	if err != nil {
		err = explainBreak(ctx, err, t.limits.FirstByte)
		end()
		return nil, err
	}
	body := &body{ReadCloser: response.Body, limits: t.limits, ctx: ctx, stall: stall, end: end, left: t.limits.AnswerBytes}
	if response.StatusCode/100 != 2 {
		defer body.Close()
		return nil, readRefusal(response, body)
	}
	response.Body = body
	return response, nil
}

// body is the body of an answer, with its limits.
type body struct {
	io.ReadCloser

	limits model.Limits
	ctx    context.Context
	stall  *time.Timer
	end    func()
	left   int64
	waited bool // the first byte has come
}

func (b *body) Read(p []byte) (int, error) {
	limit := b.limits.FirstByte
	if b.waited {
		limit = b.limits.Stall
	}
	b.stall.Reset(limit) // only the time of the server counts, not that of the reader
	n, err := b.ReadCloser.Read(p)
	b.stall.Stop()
	b.waited = b.waited || n > 0
	if b.left -= int64(n); b.left < 0 {
		return n, &model.Error{Message: "the answer exceeds " + strconv.FormatInt(b.limits.AnswerBytes, 10) + " bytes"}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, explainBreak(b.ctx, err, limit)
	}
	return n, err
}

func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

// explainBreak returns the error of a broken connection.
func explainBreak(ctx context.Context, err error, silence time.Duration) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return &model.Error{Retryable: true, Message: "the model server sent nothing for " + silence.String()}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return newUnreachableError(err)
}
