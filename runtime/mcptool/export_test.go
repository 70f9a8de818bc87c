package mcptool

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
)

// ReadEvents reads the messages of a stream of events until it ends or breaks.
func ReadEvents(source io.Reader, limit int64) (messages []string, lastID string, err error) {
	r := &eventReader{source: bufio.NewReaderSize(source, 16), limit: limit}
	for {
		data, err := r.next()
		if err != nil {
			return messages, r.lastID, err
		}
		messages = append(messages, string(data))
	}
}

// Line is a line of a child's output, or the id that one had that was too long.
type Line struct {
	Text, ID string
	TooLarge bool
}

// ReadLines reads a child's output to its end.
func ReadLines(source io.Reader, limit int64) []Line {
	r := newFrameReader(source, limit)
	var lines []Line
	for {
		f, err := r.next()
		if err != nil {
			return lines
		}
		lines = append(lines, Line{Text: string(f.data), ID: f.id, TooLarge: f.tooLarge})
	}
}

// Untouched posts a request over a connection and reports whether, after its
// failure, it counts as certainly unwritten.
func Untouched(ctx context.Context, dial func() (net.Conn, error)) (bool, error) {
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		conn, err := dial()
		if err != nil {
			return nil, err
		}
		return countConn(conn), nil
	}}
	defer transport.CloseIdleConnections()
	var w wire
	r, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, w.trace()), http.MethodPost, "http://test.invalid/", strings.NewReader("{}"))
	if err != nil {
		return false, err
	}
	r.GetBody = nil
	response, err := transport.RoundTrip(r)
	if err == nil {
		return false, response.Body.Close()
	}
	return w.untouched(ctx.Err() != nil), err
}
