package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// errTooLarge is an event, a frame or a body beyond its bound.
var errTooLarge = errors.New("larger than allowed")

// eventReader reads a stream of server-sent events, holding at most one event
// of limit bytes.
type eventReader struct {
	source *bufio.Reader
	limit  int64

	lastID  string        // of the last event that had one
	retry   time.Duration // the server's wish, 0 if none
	partial bool          // the event just returned lacked its end
	long    []byte        // a line longer than the source's buffer
}

// event is what has been read of one.
type event struct {
	data           []byte
	id, name       string
	hasData, hasID bool
	size           int64
}

// message reports whether a finished event carries a message.
func (e *event) message() bool {
	return len(e.data) > 0 && (e.name == "" || e.name == "message")
}

// next returns the data of the next event that carries a message. The slice is
// the caller's. io.EOF: the stream ended between events. With another error
// comes the beginning of the event it happened in.
func (r *eventReader) next() ([]byte, error) {
	var e event
	for {
		line, err := r.line(r.limit - e.size)
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return r.ended(&e, line, err)
		}
		e.size += int64(len(line))
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			r.field(&e, line)
			continue
		}
		if e.hasID {
			r.lastID = e.id
		}
		if e.message() {
			return e.data, nil
		}
		e = event{}
	}
}

// ended is what next returns when the stream ends or breaks.
func (r *eventReader) ended(e *event, line []byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, io.EOF) && e.message():
		r.partial = true
		return e.data, nil
	case len(e.data) == 0:
		return line, err
	}
	return e.data, err
}

// field reads one line of an event.
func (r *eventReader) field(e *event, line []byte) {
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		e.data, e.hasData = r.addData(e.data, e.hasData, value), true
	case "event":
		e.name = string(value)
	case "id":
		e.id, e.hasID = string(value), true
	case "retry":
		r.setRetry(value)
	}
}

// addData joins the lines of one event. The first line becomes the data itself
// when it was long enough to have been copied already.
func (r *eventReader) addData(data []byte, more bool, value []byte) []byte {
	if !more && len(r.long) > 0 {
		r.long = nil
		return value
	}
	if more {
		data = append(data, '\n')
	}
	return append(data, value...)
}

func (r *eventReader) setRetry(value []byte) {
	if n, err := strconv.ParseInt(string(value), 10, 32); err == nil && n >= 0 {
		r.retry = time.Duration(n) * time.Millisecond
	}
}

// line reads one line of at most limit bytes. It is valid until the next call,
// unless it was taken out of r.long.
func (r *eventReader) line(limit int64) ([]byte, error) {
	r.long = r.long[:0]
	for {
		piece, err := r.source.ReadSlice('\n')
		if int64(len(r.long)+len(piece)) > limit {
			r.long = append(r.long, piece[:min(int64(len(piece)), max(0, limit-int64(len(r.long))))]...)
			return r.long, fmt.Errorf("event: %w", errTooLarge)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			r.long = append(r.long, piece...)
			continue
		}
		if len(r.long) == 0 {
			return piece, err
		}
		r.long = append(r.long, piece...)
		return r.long, err
	}
}

// readBounded reads all of body, or limit bytes and errTooLarge. size is the
// announced length, -1 when there is none.
func readBounded(body io.Reader, size, limit int64) ([]byte, error) {
	room := int64(512)
	if size >= 0 {
		room = min(size, limit, 1<<20) + 1 // one more, to meet the end without growing
	}
	data := make([]byte, 0, room)
	for {
		if int64(len(data)) > limit {
			return data[:limit], errTooLarge
		}
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := body.Read(data[len(data):min(int64(cap(data)), limit+1)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) && int64(len(data)) <= limit {
			return data, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return data, err
		}
	}
}
