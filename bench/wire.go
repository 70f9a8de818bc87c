package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// target is an MCP endpoint, and who calls it.
type target struct {
	addr string // host:port
	path string
	key  string // bearer; empty: none
	tool string
}

// wire is one kept connection of a client that is as light as can be, so that what
// is measured is the servers. It is for one goroutine.
type wire struct {
	target
	session string
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	calls   int
}

const wirePatience = time.Minute

func dial(ctx context.Context, t target) (*wire, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.addr, err)
	}
	return &wire{target: t, conn: conn, in: bufio.NewReaderSize(conn, 2048)}, nil
}

// open connects and starts a session.
func open(ctx context.Context, t target) (*wire, error) {
	w, err := dial(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := w.initialize(); err != nil {
		w.close()
		return nil, fmt.Errorf("start a session at %s%s: %w", t.addr, t.path, err)
	}
	return w, nil
}

// close resets the connection: thousands that linger would use up the ports.
func (w *wire) close() {
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed either way
	}
	_ = w.conn.Close()
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

func (w *wire) initialize() error {
	response, err := w.exchange([]byte(initializeBody))
	if err != nil {
		return err
	}
	w.session = response.header.Get("Mcp-Session-Id")
	if response.status != http.StatusOK || w.session == "" {
		return fmt.Errorf("HTTP %d, no session: %s", response.status, response.body)
	}
	response, err = w.exchange([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err == nil && response.status != http.StatusAccepted {
		err = fmt.Errorf("HTTP %d: %s", response.status, response.body)
	}
	return err
}

// callBody is a tools/call of the tool with a text. Ids of one session differ.
func (w *wire) callBody(text string) []byte {
	w.calls++
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%s/%d","method":"tools/call","params":{"name":"%s","arguments":{"text":"%s"}}}`,
		w.conn.LocalAddr(), w.calls, w.tool, text)
}

// call makes a call and wants to have its text back.
func (w *wire) call(text string) error {
	response, err := w.exchange(w.callBody(text))
	if err != nil {
		return err
	}
	if response.status != http.StatusOK || !bytes.Contains(response.body, []byte(text)) || bytes.Contains(response.body, []byte(`"isError":true`)) {
		return fmt.Errorf("call %s at %s%s: HTTP %d: %s", w.tool, w.addr, w.path, response.status, response.body)
	}
	return nil
}

// reply is a response that was read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (w *wire) exchange(body []byte) (reply, error) {
	response, err := w.post(body) //nolint:bodyclose // it is read to its end, and the connection goes on
	if err != nil {
		return reply{}, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, fmt.Errorf("read response: %w", err)
	}
	return reply{response.StatusCode, response.Header, text}, nil
}

// post sends a request in one write, and reads the head of its response.
func (w *wire) post(body []byte) (*http.Response, error) {
	w.head(len(body))
	w.out = append(w.out, body...)
	if err := w.conn.SetDeadline(time.Now().Add(wirePatience)); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	return response, nil
}

func (w *wire) head(length int) {
	w.out = append(append(w.out[:0], "POST "...), w.path...)
	w.out = append(append(w.out, " HTTP/1.1\r\nHost: "...), w.addr...)
	w.out = append(w.out, "\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"...)
	if w.key != "" {
		w.out = append(append(append(w.out, "Authorization: Bearer "...), w.key...), "\r\n"...)
	}
	if w.session != "" {
		w.out = append(append(w.out, "Mcp-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: "...), w.session...)
		w.out = append(w.out, "\r\n"...)
	}
	w.out = append(w.out, "Content-Length: "...)
	w.out = append(strconv.AppendInt(w.out, int64(length), 10), "\r\n\r\n"...)
}

// held is a call that waits, its client listening.
type held struct {
	wire     *wire
	id       string // of the call
	response *http.Response
}

var errNotHeld = errors.New("the call was answered, not parked")

// park makes a call and returns when the server shows that it holds it: by the
// response's head and the first keep-alive.
func (w *wire) park(text string) (held, error) {
	response, err := w.post(w.callBody(text)) //nolint:bodyclose // it stays open; the connection is closed in the end
	if err != nil {
		return held{}, err
	}
	first := make([]byte, len(": keepalive"))
	if _, err := io.ReadFull(response.Body, first); err != nil {
		return held{}, fmt.Errorf("read response: %w", err)
	}
	if first[0] != ':' {
		rest, _ := io.ReadAll(response.Body)
		return held{}, fmt.Errorf("%w: HTTP %d: %s%s", errNotHeld, response.StatusCode, first, rest)
	}
	w.out = nil // thousands are kept
	return held{w, response.Header.Get("Holdpoint-Call"), response}, nil
}

// outcome reads on until the call's answer comes, or until the deadline.
func (h held) outcome(until time.Time, text string) error {
	if err := h.wire.conn.SetDeadline(until); err != nil {
		return fmt.Errorf("wait for call %s: %w", h.id, err)
	}
	lines := bufio.NewScanner(h.response.Body)
	for lines.Scan() {
		if !bytes.HasPrefix(lines.Bytes(), []byte("data:")) {
			continue
		}
		if !bytes.Contains(lines.Bytes(), []byte(text)) {
			return fmt.Errorf("wait for call %s: it answered %s", h.id, lines.Bytes())
		}
		return nil
	}
	return fmt.Errorf("wait for call %s: %w", h.id, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// connected reports whether the server still holds the response open.
func (h held) connected() bool {
	if h.wire.conn.SetReadDeadline(time.Now().Add(time.Millisecond)) != nil {
		return false
	}
	for {
		if _, err := h.wire.in.Discard(1); err != nil {
			var timeout net.Error
			return errors.As(err, &timeout) && timeout.Timeout()
		}
	}
}
