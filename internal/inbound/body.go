package inbound

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// limitBodies sets deadlines for reading request bodies. net/http reads the rest that a handler leaves, so the deadline is set
// at the start of a request, and a short one after the handler.
func (l *Listener) limitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, cfg: &l.cfg, control: http.NewResponseController(w), began: l.cfg.Now()}
		b.extendDeadline()
		r = r.WithContext(r.Context()) // a copy, because net/http needs the original body
		r.Body = b
		next.ServeHTTP(w, r)
		if !b.ended {
			b.setDeadline(l.cfg.Now().Add(l.cfg.DrainTimeout))
		}
	})
}

// body is a request body with a minimum rate.
type body struct {
	io.ReadCloser

	cfg      *Config
	control  *http.ResponseController
	began    time.Time
	received int64
	ended    bool // read to the end; net/http then watches the connection without a deadline
	broken   bool // a read failed; the deadline stays
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if !b.ended && !b.broken {
		b.extendDeadline()
	}
	n, err := b.ReadCloser.Read(p)
	b.received += int64(n)
	b.ended = b.ended || errors.Is(err, io.EOF)
	b.broken = b.broken || err != nil
	return n, err
}

// extendDeadline sets the deadline for the next bytes, bounded by the minimum rate and the timeout of the whole body.
func (b *body) extendDeadline() {
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

// setDeadline ignores errors: a closed connection fails at the next read, and tests may have no connection.
func (b *body) setDeadline(at time.Time) { _ = b.control.SetReadDeadline(at) }
