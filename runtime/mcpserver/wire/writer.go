package wire

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
)

// Writer writes the response to one request: a JSON object, or a stream of events. Messages are written in pieces: results may be
// large, and pass through unchanged. Each method returns the first failed write's error, after which nothing is written.
type Writer struct {
	HasBegun bool
	IsStream bool

	w            http.ResponseWriter
	control      *http.ResponseController
	setDeadline  func(*http.ResponseController)
	firstFailure error
}

// NewWriter makes a writer. SetDeadline sets the deadline of the next write: a client that does not read must not hold a goroutine
// forever.
func NewWriter(w http.ResponseWriter, setDeadline func(*http.ResponseController)) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), setDeadline: setDeadline}
}

// Err returns the error of the first failed write.
func (w *Writer) Err() error { return w.firstFailure }

// SetDeadline sets the deadline of a response that does not go through the writer.
func (w *Writer) SetDeadline() { w.setDeadline(w.control) }

// WriteJSON writes a message as the whole response.
func (w *Writer) WriteJSON(status int, pieces ...[]byte) error {
	length := 0
	for _, piece := range pieces {
		length += len(piece)
	}
	h := w.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(length))
	w.HasBegun = true
	w.setDeadline(w.control)
	w.w.WriteHeader(status)
	for _, piece := range pieces {
		w.put(piece)
	}
	return w.firstFailure
}

// BeginStream makes the response a stream, once.
func (w *Writer) BeginStream() error {
	if w.IsStream {
		return nil
	}
	h := w.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // no proxy shall hold events back
	w.HasBegun, w.IsStream = true, true
	w.w.WriteHeader(http.StatusOK)
	return w.WriteKeepalive()
}

// WriteKeepalive sends a comment, which clients ignore.
func (w *Writer) WriteKeepalive() error { return w.WriteLines(": keepalive\n\n") }

// WriteLines sends lines of the stream.
func (w *Writer) WriteLines(lines string) error {
	w.setDeadline(w.control)
	w.putText(lines)
	return w.Flush()
}

// WriteEvent sends a message on the stream, without line breaks.
func (w *Writer) WriteEvent(pieces ...[]byte) error {
	w.setDeadline(w.control)
	w.putText("event: message\ndata: ")
	for _, piece := range pieces {
		for end := bytes.IndexAny(piece, "\r\n"); end >= 0; end = bytes.IndexAny(piece, "\r\n") {
			w.put(piece[:end])
			w.putText(" ")
			piece = piece[end+1:]
		}
		w.put(piece)
	}
	w.putText("\n\n")
	return w.Flush()
}

func (w *Writer) putText(text string) {
	if w.firstFailure == nil {
		_, w.firstFailure = io.WriteString(w.w, text)
	}
}

func (w *Writer) put(piece []byte) {
	if w.firstFailure == nil && len(piece) > 0 {
		_, w.firstFailure = w.w.Write(piece)
	}
}

// Flush sends the buffered bytes.
func (w *Writer) Flush() error {
	if w.firstFailure == nil {
		if err := w.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
			w.firstFailure = err
		}
	}
	return w.firstFailure
}
