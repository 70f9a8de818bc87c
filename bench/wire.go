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

// target is a tool behind an MCP endpoint, and the credential for it.
type target struct {
	addr string // host:port
	path string
	get  bool   // requests are GET, and not POST
	key  string // bearer token; empty: none
	tool string

	stateless bool // the server has no sessions
}

// wire is the connection of one client. It does little, so that the figures show the cost of the servers. One goroutine uses it at a
// time.
type wire struct {
	target
	session string
	conn    net.Conn
	in      *bufio.Reader
	out     []byte
	calls   int
}

const wirePatience = time.Minute

func dialTarget(ctx context.Context, t target) (*wire, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", t.addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", t.addr, err)
	}
	return &wire{target: t, conn: conn, in: bufio.NewReaderSize(conn, 2048)}, nil
}

// openSession connects to a target and starts a session.
func openSession(ctx context.Context, t target) (*wire, error) {
	w, err := dialTarget(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := w.startSession(); err != nil {
		w.close()
		return nil, fmt.Errorf("start a session at %s%s: %w", t.addr, t.path, err)
	}
	return w, nil
}

// close resets the connection. Thousands of lingering connections would use up the ports.
func (w *wire) close() {
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed either way
	}
	_ = w.conn.Close()
}

const initializeBody = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`

func (w *wire) startSession() error {
	response, err := w.roundTrip([]byte(initializeBody))
	if err != nil {
		return err
	}
	w.session = response.header.Get("Mcp-Session-Id")
	if response.status != http.StatusOK || w.session == "" && !w.stateless {
		return fmt.Errorf("HTTP %d, no session: %s", response.status, response.body)
	}
	response, err = w.roundTrip([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err == nil && response.status != http.StatusAccepted {
		err = fmt.Errorf("HTTP %d: %s", response.status, response.body)
	}
	return err
}

// callBody returns a tools/call message with a text. Its ID is unique in the session.
func (w *wire) callBody(text string) []byte {
	w.calls++
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"%s/%d","method":"tools/call","params":{"name":"%s","arguments":{"text":"%s"}}}`,
		w.conn.LocalAddr(), w.calls, w.tool, text)
}

// callTool makes a call and checks that the result contains its text.
func (w *wire) callTool(text string) error {
	response, err := w.roundTrip(w.callBody(text))
	if err != nil {
		return err
	}
	if response.status != http.StatusOK || !bytes.Contains(response.body, []byte(text)) || bytes.Contains(response.body, []byte(`"isError":true`)) {
		return fmt.Errorf("call %s at %s%s: HTTP %d: %s", w.tool, w.addr, w.path, response.status, response.body)
	}
	return nil
}

// reply is a complete response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (w *wire) roundTrip(body []byte) (reply, error) {
	response, err := w.sendRequest(body) //nolint:bodyclose // it is read to its end, and the connection is used again
	if err != nil {
		return reply{}, err
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, fmt.Errorf("read response: %w", err)
	}
	return reply{response.StatusCode, response.Header, text}, nil
}

// sendRequest sends a request in one write and reads the head of its response.
func (w *wire) sendRequest(body []byte) (*http.Response, error) {
	w.appendHead(len(body))
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

func (w *wire) appendHead(length int) {
	method := "POST "
	if w.get {
		method = "GET "
	}
	w.out = append(append(w.out[:0], method...), w.path...)
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

// heldCall is a parked call whose client waits for the response.
type heldCall struct {
	wire     *wire
	id       string // of the call
	response *http.Response
}

var errNotHeld = errors.New("the call was answered instead of parked")

// parkCall makes a call and returns when the server holds it: after the head of the response and the first keep-alive.
func (w *wire) parkCall(text string) (heldCall, error) {
	response, err := w.sendRequest(w.callBody(text)) //nolint:bodyclose // it stays open until the connection is closed
	if err != nil {
		return heldCall{}, err
	}
	first := make([]byte, len(": keepalive"))
	if _, err := io.ReadFull(response.Body, first); err != nil {
		return heldCall{}, fmt.Errorf("read response: %w", err)
	}
	if first[0] != ':' {
		rest, _ := io.ReadAll(response.Body)
		return heldCall{}, fmt.Errorf("%w: HTTP %d: %s%s", errNotHeld, response.StatusCode, first, rest)
	}
	w.out = nil // thousands are kept
	return heldCall{w, response.Header.Get("Holdpoint-Call"), response}, nil
}

// waitForOutcome waits for the answer to the call until the deadline. The answer must contain the text.
func (h heldCall) waitForOutcome(until time.Time, text string) error {
	answer, err := h.waitForAnswer(until)
	if err == nil && !bytes.Contains(answer, []byte(text)) {
		err = fmt.Errorf("wait for call %s: it answered %s", h.id, answer)
	}
	return err
}

// waitForAnswer returns the answer to the call, as JSON-RPC.
func (h heldCall) waitForAnswer(until time.Time) ([]byte, error) {
	if err := h.wire.conn.SetDeadline(until); err != nil {
		return nil, fmt.Errorf("wait for call %s: %w", h.id, err)
	}
	lines := bufio.NewScanner(h.response.Body)
	for lines.Scan() {
		if answer, found := bytes.CutPrefix(lines.Bytes(), []byte("data:")); found {
			return answer, nil
		}
	}
	return nil, fmt.Errorf("wait for call %s: %w", h.id, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// isConnected reports whether the response is still open.
func (h heldCall) isConnected() bool {
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
