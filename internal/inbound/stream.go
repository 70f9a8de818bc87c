package inbound

import (
	"net/http"
	"time"
)

// limitStreams sets deadlines for writing responses over HTTP/2. There, a client that does not read stops its stream by flow
// control, and the writes of the connection make progress for the others.
func (l *Listener) limitStreams(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 {
			next.ServeHTTP(w, r)
			return
		}
		s := &streamWriter{ResponseWriter: w, cfg: &l.cfg, control: http.NewResponseController(w)}
		next.ServeHTTP(s, r)
		s.extendDeadline() // net/http writes the rest
	})
}

// streamWriter is the response of a stream whose client has to read 64 KiB within the stall timeout.
type streamWriter struct {
	http.ResponseWriter

	cfg     *Config
	control *http.ResponseController
}

// Write implements [http.ResponseWriter]. It writes in pieces, each with its own deadline.
func (s *streamWriter) Write(p []byte) (written int, err error) {
	defer s.setDeadline(time.Time{}) // a response that the server holds open has none
	for {
		s.extendDeadline()
		n, err := s.ResponseWriter.Write(p[written:min(len(p), written+maxPiece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// FlushError lets [http.ResponseController] flush.
func (s *streamWriter) FlushError() error {
	defer s.setDeadline(time.Time{})
	s.extendDeadline()
	return s.control.Flush()
}

// Flush implements [http.Flusher].
func (s *streamWriter) Flush() { _ = s.FlushError() } // the next write fails, too

// Unwrap lets [http.ResponseController] reach the connection.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func (s *streamWriter) extendDeadline() { s.setDeadline(s.cfg.Now().Add(s.cfg.StallTimeout)) }

// setDeadline ignores errors: a closed stream fails at the next write.
func (s *streamWriter) setDeadline(at time.Time) { _ = s.control.SetWriteDeadline(at) }
