package client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Bridge joins a client that speaks MCP over its standard streams, a JSON-RPC message a line, with an
// agent's endpoint, which speaks it over streamable HTTP (MCP, Transports). Messages pass byte for byte in both
// directions; what is added is what HTTP has beside them: headers, sessions, their renewal.
//
// Nothing is sent a second time that the server may have got, unless it has no effect. A call
// whose id the server said is waited for over lost connections and restarts.
type Bridge struct {
	*Client
	BridgeConfig
	endpoint string

	mirrors mirrors
	session sessions
	ctx     context.Context //nolint:containedctx // of the run: sessions renewed by one request outlive it
	stop    context.CancelCauseFunc
	notes   chan *message // notifications and responses, in the order in which they came

	requests sync.WaitGroup // and the sending of notes
	streams  sync.WaitGroup // of sessions

	writing sync.Mutex // of Out

	mu      sync.Mutex // guards what follows
	pending map[string]*exchange
	closing bool // the client will say nothing more
}

// BridgeConfig is what a [Bridge] is made of, besides its [Client].
type BridgeConfig struct {
	Agent string
	In    io.Reader // messages of the client
	Out   io.Writer // messages for the client, and nothing else
	// Log is told what a person may want to know. It gets nothing secret, but text from outside.
	Log func(format string, args ...any)
	// MaxLine bounds a message of the client, in bytes; the server has a limit of its own. Zero: 16 MiB.
	MaxLine int
	// Linger is how long requests that are being answered have when the client has closed its end. Those
	// that wait for a person have no such time. Zero: 1 s.
	Linger time.Duration
}

const (
	defaultMaxLine = 16 << 20
	maxPending     = 1024 // requests at a time; more are refused
	maxNotes       = 256  // notifications that are not sent yet; then nothing more is read
	farewell       = 2 * time.Second
)

// NewBridge makes a bridge. It is run once.
func (c *Client) NewBridge(cfg BridgeConfig) *Bridge {
	if cfg.MaxLine == 0 {
		cfg.MaxLine = defaultMaxLine
	}
	cfg.Linger = orDefault(cfg.Linger, time.Second)
	return &Bridge{
		Client: c, BridgeConfig: cfg, endpoint: c.base + "/agents/" + Segment(cfg.Agent) + "/mcp",
		notes: make(chan *message, maxNotes), pending: map[string]*exchange{},
	}
}

// Run passes messages until the client closes its end or ctx ends, and then ends the session. The error
// is what went wrong with the standard streams.
//
// A read of In that is under way when ctx ends goes on: nobody can interrupt it.
func (b *Bridge) Run(ctx context.Context) error {
	b.ctx, b.stop = context.WithCancelCause(ctx)
	lines := make(chan line)
	go b.read(lines)
	b.requests.Go(b.sendNotes)
	err := b.pass(lines)
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

func (b *Bridge) read(lines chan<- line) {
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

// readLine reads a line of at most limit bytes. Of a longer one nothing is kept.
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

// pass takes lines until there are no more.
func (b *Bridge) pass(lines <-chan line) error {
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
				b.write(refusal(nil, fmt.Sprintf("a message has more than %d bytes", b.MaxLine), map[string]any{"code": "too_large"}))
			case errors.Is(l.err, io.EOF):
				b.linger()
				return nil
			case l.err != nil:
				return fmt.Errorf("read messages: %w", l.err)
			case len(text) > 0:
				b.take(parseMessage(text))
			}
		}
	}
}

// take sees to one message.
func (b *Bridge) take(m *message) {
	switch {
	case m.wantsAnswer():
		b.begin(m)
	case m.method == "notifications/cancelled" && b.cancelled(m):
	default:
		select {
		case b.notes <- m:
		case <-b.ctx.Done():
		}
	}
}

// begin answers a request beside all others.
func (b *Bridge) begin(m *message) {
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
		b.write(refusal(m.id, fmt.Sprintf("%d requests are waiting already", maxPending), map[string]any{"code": "busy"}))
		return
	}
	done := func() {}
	if m.method == "initialize" && m.version == "" {
		done = b.session.begin() // what follows belongs to the session that this one starts
	}
	b.requests.Go(func() {
		defer cancel(nil)
		x.run(ctx)
		done()
		b.mu.Lock()
		if b.pending[key] == x {
			delete(b.pending, key)
		}
		b.mu.Unlock()
	})
}

// errCancelled: the client wants no answer any more.
var errCancelled = errors.New("the client cancelled its request")

// cancelled lets go of a request. The call it made goes its way. It reports whether nobody else has to be
// told: where there are no sessions, an ended request says all (MCP 2026-07-28, Cancellation).
func (b *Bridge) cancelled(m *message) bool {
	b.mu.Lock()
	x := b.pending[string(m.params.RequestID)]
	b.mu.Unlock()
	if x == nil {
		return false
	}
	x.cancel(errCancelled)
	return x.m.version != ""
}

// linger gives requests a moment that are being answered; waits that are held open get none: their
// outcome must not count as delivered to a client that is gone.
func (b *Bridge) linger() {
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

// errOut: there is nobody to write to.
var errOut = errors.New("write message")

// write hands one message to the client. JSON is all that ever gets here.
func (b *Bridge) write(text []byte) {
	text = append(oneLine(text), '\n')
	b.writing.Lock()
	defer b.writing.Unlock()
	if _, err := b.Out.Write(text); err != nil {
		b.stop(fmt.Errorf("%w: %w", errOut, err))
	}
}
