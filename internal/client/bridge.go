package client

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Bridge connects a client that speaks MCP over its standard streams, a JSON-RPC message a line, to an agent's endpoint,
// which speaks streamable HTTP (MCP, Transports). Messages pass byte for byte in both directions. The bridge adds the
// headers, and starts sessions again that the server has forgotten.
//
// A message that the server may have received is sent again only if it has no effect. Once the id of a call is known, the
// bridge waits for the call through lost connections and restarts.
type Bridge struct {
	*Client
	BridgeConfig
	endpoint string

	mirrors mirrors
	session sessions
	ctx     context.Context //nolint:containedctx // of the run: sessions that one request renews outlive it
	stop    context.CancelCauseFunc
	notes   chan *message // notifications and responses, in the order in which they came

	requests sync.WaitGroup // and the sending of notes
	streams  sync.WaitGroup // of sessions

	writing sync.Mutex // of Out

	mu      sync.Mutex // guards pending and closing
	pending map[string]*exchange
	closing bool // the client sends no more messages
}

// BridgeConfig configures a [Bridge], besides its [Client].
type BridgeConfig struct {
	Agent string
	In    io.Reader // messages of the client
	Out   io.Writer // messages for the client, and nothing else
	// Log receives notes for people. They contain no secrets, but text from outside.
	Log func(format string, args ...any)
	// MaxLine limits a message of the client, in bytes. The server has a limit of its own. Zero: 16 MiB.
	MaxLine int
	// Linger is how long the bridge waits for answers after the client has closed its end. It does not wait for
	// requests that wait for a person. Zero: 1 s.
	Linger time.Duration
}

const (
	defaultMaxLine = 16 << 20
	maxPending     = 1024 // requests at a time; more are refused
	maxNotes       = 256  // unsent notifications; then reading pauses
	farewell       = 2 * time.Second
)

// NewBridge makes a bridge, which can be run once.
func (c *Client) NewBridge(cfg BridgeConfig) *Bridge {
	if cfg.MaxLine == 0 {
		cfg.MaxLine = defaultMaxLine
	}
	cfg.Linger = cmp.Or(cfg.Linger, time.Second)
	return &Bridge{
		Client: c, BridgeConfig: cfg, endpoint: c.endpointOf(cfg.Agent),
		notes: make(chan *message, maxNotes), pending: map[string]*exchange{},
	}
}

// Run passes messages until the client closes its end or ctx ends, and then ends the session. The error is one of the
// standard streams.
//
// A read of In that is under way when ctx ends cannot be interrupted, and continues.
func (b *Bridge) Run(ctx context.Context) error {
	b.ctx, b.stop = context.WithCancelCause(ctx)
	lines := make(chan line)
	go b.readLines(lines)
	b.requests.Go(b.sendNotes)
	err := b.passMessages(lines)
	b.stop(nil)
	b.requests.Wait()
	b.streams.Wait()
	b.endSession()
	return err
}

// line is one line of In, or why there is none.
type line struct {
	text []byte
	err  error
}

var errTooLong = errors.New("the line is too long")

func (b *Bridge) readLines(lines chan<- line) {
	r := bufio.NewReaderSize(b.In, 64<<10)
	for {
		text, err := readLine(r, b.MaxLine)
		select {
		case lines <- line{text, err}:
		case <-b.ctx.Done():
			return
		}
		if err != nil && !errors.Is(err, errTooLong) {
			return
		}
	}
}

// readLine reads a line of at most limit bytes. A longer one is dropped.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var text []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		long = long || len(text)+len(part) > limit+1
		if long {
			text = nil
		} else {
			text = append(text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil && long:
			return nil, errTooLong
		case errors.Is(err, io.EOF) && len(text) > 0:
			return text, nil // the end of input comes with the next call
		}
		return text, err
	}
}

// passMessages takes lines until there are no more.
func (b *Bridge) passMessages(lines <-chan line) error {
	for {
		select {
		case <-b.ctx.Done():
			if err := context.Cause(b.ctx); errors.Is(err, errOut) {
				return err
			}
			return nil
		case l := <-lines:
			switch text := bytes.TrimSpace(l.text); {
			case errors.Is(l.err, errTooLong):
				b.writeMessage(makeRefusal(nil, fmt.Sprintf("a message has more than %d bytes", b.MaxLine), map[string]any{"code": "too_large"}))
			case errors.Is(l.err, io.EOF):
				b.awaitAnswers()
				return nil
			case l.err != nil:
				return fmt.Errorf("read messages: %w", l.err)
			case len(text) > 0:
				b.handleMessage(parseMessage(text))
			}
		}
	}
}

// handleMessage sees to one message.
func (b *Bridge) handleMessage(m *message) {
	switch {
	case m.wantsAnswer():
		b.beginExchange(m)
	case m.method == "notifications/cancelled" && b.cancelExchange(m):
	default:
		select {
		case b.notes <- m:
		case <-b.ctx.Done():
		}
	}
}

// beginExchange answers a request beside all others.
func (b *Bridge) beginExchange(m *message) {
	x := &exchange{Bridge: b, m: m}
	ctx, cancel := context.WithCancelCause(b.ctx)
	x.cancel = cancel
	key := string(m.id)
	b.mu.Lock()
	full := len(b.pending) >= maxPending
	if !full && key != "" {
		b.pending[key] = x
	}
	b.mu.Unlock()
	if full {
		cancel(nil)
		b.writeMessage(makeRefusal(m.id, fmt.Sprintf("%d requests are waiting already", maxPending), map[string]any{"code": "busy"}))
		return
	}
	done := func() {}
	if m.method == "initialize" && m.version == "" {
		done = b.session.beginStart() // later messages belong to the session that this one starts
	}
	b.requests.Go(func() {
		defer cancel(nil)
		x.answerRequest(ctx)
		done()
		b.mu.Lock()
		if b.pending[key] == x {
			delete(b.pending, key)
		}
		b.mu.Unlock()
	})
}

// errCancelled: the client cancelled the request.
var errCancelled = errors.New("the client cancelled its request")

// cancelExchange ends the wait for a request; its call continues. It returns false if the server has to receive the
// notification too: without sessions, ending the HTTP request is the notification (MCP 2026-07-28, Cancellation).
func (b *Bridge) cancelExchange(m *message) bool {
	b.mu.Lock()
	x := b.pending[string(m.params.RequestID)]
	b.mu.Unlock()
	if x == nil {
		return false
	}
	x.cancel(errCancelled)
	return x.m.version != ""
}

// awaitAnswers gives requests that are being answered a moment. Held waits get none: their outcome must not
// count as delivered to a client that is gone.
func (b *Bridge) awaitAnswers() {
	b.mu.Lock()
	b.closing = true
	for _, x := range b.pending {
		if x.held {
			x.cancel(errCancelled)
		}
	}
	b.mu.Unlock()
	answered := make(chan struct{})
	close(b.notes)
	go func() {
		defer close(answered)
		b.requests.Wait()
	}()
	timer := time.NewTimer(b.Linger)
	defer timer.Stop()
	select {
	case <-answered:
	case <-timer.C:
	case <-b.ctx.Done():
	}
}

// errOut: the client does not read any more.
var errOut = errors.New("write message")

// writeMessage writes one JSON message to the client.
func (b *Bridge) writeMessage(text []byte) {
	text = append(oneLine(text), '\n')
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := b.Out.Write(text); err != nil {
		b.stop(fmt.Errorf("%w: %w", errOut, err))
	}
}
