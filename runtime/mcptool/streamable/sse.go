package streamable

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
)

// eventReader reads a stream of server-sent events. It holds at most one event, of at most limit bytes.
type eventReader struct {
	source *bufio.Reader
	limit  int64

	lastID  string        // of the last event that had one
	retry   time.Duration // the pause that the server wishes before resuming; 0: none
	partial bool          // the last event ended with the stream
	long    []byte        // a line longer than the source's buffer
}

// event is the part of an event that was read.
type event struct {
	data           []byte
	id, name       string
	hasData, hasID bool
	size           int64
}

// isMessage reports whether a complete event has a message.
func (e *event) isMessage() bool {
	return len(e.data) > 0 && (e.name == "" || e.name == "message")
}

// nextEvent returns the data of the next event with a message. The caller owns the slice. io.EOF means that the stream ended between
// events. Any other error comes with the beginning of its event.
func (r *eventReader) nextEvent() ([]byte, error) {
	var e event
	for {
		line, err := r.readLine(r.limit - e.size)
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			return r.endStream(&e, line, err)
		}
		e.size += int64(len(line))
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			r.readField(&e, line)
			continue
		}
		if e.hasID {
			r.lastID = e.id
		}
		if e.isMessage() {
			return e.data, nil
		}
		e = event{}
	}
}

// endStream returns the results of nextEvent at the end or a failure of the stream.
func (r *eventReader) endStream(e *event, line []byte, err error) ([]byte, error) {
	switch {
	case errors.Is(err, io.EOF) && e.isMessage():
		r.partial = true
		return e.data, nil
	case len(e.data) == 0:
		return line, err
	}
	return e.data, err
}

// readField parses one line of an event.
func (r *eventReader) readField(e *event, line []byte) {
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

// addData appends a line of data. A first line that was already copied becomes the data itself.
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

// readLine reads one line of at most limit bytes. The line is valid until the next call, unless addData took it out of r.long.
func (r *eventReader) readLine(limit int64) ([]byte, error) {
	r.long = r.long[:0]
	for {
		piece, err := r.source.ReadSlice('\n')
		if int64(len(r.long)+len(piece)) > limit {
			r.long = append(r.long, piece[:min(int64(len(piece)), max(0, limit-int64(len(r.long))))]...)
			return r.long, fmt.Errorf("event: %w", session.ErrTooLarge)
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

// readBounded reads all of body, or limit bytes and session.ErrTooLarge. size is the announced length, or -1.
func readBounded(body io.Reader, size, limit int64) ([]byte, error) {
	room := int64(512)
	if size >= 0 {
		room = min(size, limit, 1<<20) + 1 // one more, so that the end is found without growing
	}
	data := make([]byte, 0, room)
	for {
		if int64(len(data)) > limit {
			return data[:limit], session.ErrTooLarge
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
