package inbound

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// limitBodies gives the reading of each request body deadlines. net/http reads what a handler leaves, so the
// deadline stands from the start of a request, and is a short one once the handler has returned.
func (l *Listener) limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, cfg: &l.cfg, control: http.NewResponseController(w), began: l.cfg.Now()}
		b.extend()
		r = r.WithContext(r.Context()) // a copy: net/http looks at the body of its own
		r.Body = b
		next.ServeHTTP(w, r)
		if !b.ended {
			b.setDeadline(l.cfg.Now().Add(l.cfg.DrainTimeout))
		}
	})
}

// body is a request body that has to arrive at a certain rate.
type body struct {
	io.ReadCloser

	cfg      *Config
	control  *http.ResponseController
	began    time.Time
	received int64
	ended    bool // read to its end; net/http watches the connection now, without a deadline
	broken   bool // a read failed: its deadline stays
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if !b.ended && !b.broken {
		b.extend()
	}
	n, err := b.ReadCloser.Read(p)
	b.received += int64(n)
	b.ended = b.ended || errors.Is(err, io.EOF)
	b.broken = b.broken || err != nil
	return n, err
}

// extend sets the deadline of the next bytes: soon, and at the latest when the body as a whole is too slow.
func (b *body) extend() {
	at := b.cfg.Now().Add(b.cfg.StallTimeout)
	slowest := b.began.Add(b.cfg.StallTimeout + time.Duration(b.received/minBodyRate)*time.Second)
	longest := b.began.Add(b.cfg.BodyTimeout)
	for _, earlier := range []time.Time{slowest, longest} {
		if earlier.Before(at) {
			at = earlier
		}
	}
	b.setDeadline(at)
}

// setDeadline fails for connections that are gone, which the next read tells, and in tests without a connection.
func (b *body) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }
