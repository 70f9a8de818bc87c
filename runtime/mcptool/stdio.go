package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// stdioPeer is a server that is a child process. One goroutine writes to it and
// one reads from it; requests wait for the answer with their id.
type stdioPeer struct {
	config   Config
	server   tool.Server
	child    *child
	agreed   negotiated
	session  *mcp.ClientSession
	sdk      *sdkConn
	listener listener

	queue   chan *message
	gone    chan struct{} // closed when nothing can be asked any more
	end     sync.Once
	closing atomic.Bool // it was this side that ended it
	tasks   tasks
	asked   *asked // what the server asks during calls
	lastID  atomic.Int64

	mu      sync.Mutex
	waiting map[int64]chan reply

	listening sync.Mutex
	listens   int64 // the id of the request whose stream it is; 0: none. listening

	noise atomic.Int64 // lines that were not MCP
	last  atomic.Pointer[string]
}

// reply is an answer to a request, or what is known of one that was too large.
type reply struct {
	envelope envelope
	tooLarge []byte
}

// message is one line on its way to the child.
type message struct {
	data  []byte
	state atomic.Int32
	done  chan struct{} // closed when the line was written, or was not
	// confirm is asked right before the line is written; refused is closed when it returns an error. Nil: nothing is asked.
	confirm func() error
	refused chan struct{}
	bytes   int // written; read after done
	err     error
}

// The states of a message.
const (
	queued int32 = iota
	writing
	withdrawn
)

func newMessage(data []byte) *message {
	return &message{data: oneLine(data), done: make(chan struct{})}
}

// oneLine makes a line of a JSON text. Line breaks in it are white space
// between tokens, since within a string they are escaped.
func oneLine(data []byte) []byte {
	for i, b := range data {
		if b == '\n' || b == '\r' {
			data[i] = ' '
		}
	}
	return append(data, '\n')
}

// connectStdio starts the child and negotiates. ctx bounds that only.
func connectStdio(ctx context.Context, config Config, server tool.Server, e era, h *handshake, to listener) (*stdioPeer, *tool.Failure) {
	if len(server.Command) == 0 {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "start skill %s: it has no command", server.Skill)
	}
	for _, refusal := range config.Stdio.Check(server.Command, server.RunAs, server.Paths, slices.Sorted(maps.Keys(server.Env))) {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "start skill %s: %s", server.Skill, plain(refusal.Error(), 500))
	}
	h.begin("connect", "")
	c, err := startChild(ctx, config, server)
	if err != nil {
		return nil, tool.BrokeOff(tool.EffectNone, err, "start skill %s: %s", server.Skill, plain(err.Error(), 500))
	}
	h.finish(strings.Join(append([]string{fmt.Sprintf("process %d", c.process.PID)}, c.process.Notes...), "; "), nil)
	p := &stdioPeer{
		config: config, server: server, child: c, listener: to,
		queue: make(chan *message, 64), gone: make(chan struct{}),
		waiting: map[int64]chan reply{},
	}
	p.lastID.Store(firstID)
	p.asked = newAsked(&p.tasks, p.postNow, p.post)
	p.sdk = newSDKConn(p, h)
	p.tasks.run(p.write)
	p.tasks.run(p.read)
	if failure := p.negotiate(ctx, e, h); failure != nil {
		stop, cancel := context.WithCancel(context.Background())
		cancel() // no patience with a child that could not even begin
		p.close(stop)
		return nil, failure
	}
	if p.agreed.modern() && config.announced(p.agreed.offers) {
		p.listen()
	}
	return p, nil
}

// listen asks a server of 2026-07-28 to announce what is listened to by now, and not what was before.
func (p *stdioPeer) listen() {
	p.listening.Lock()
	defer p.listening.Unlock()
	ask, id := listenRequest(p.agreed.offers, p.listener), p.lastID.Add(1)
	p.post(ask.encode(id, p.agreed.metaOf(ask)))
	if p.listens != 0 {
		p.post(cancelled(p.listens))
	}
	p.listens = id
}

// hearUpdates implements peer.
func (p *stdioPeer) hearUpdates(context.Context) {
	if p.agreed.modern() {
		p.listen()
	}
}

func (p *stdioPeer) negotiated() negotiated { return p.agreed }

func (p *stdioPeer) broken() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// close ends the child. What still waits for an answer fails.
func (p *stdioPeer) close(ctx context.Context) {
	p.closing.Store(true)
	p.finish()
	if p.session != nil {
		_ = p.session.Close()
	}
	p.child.stop(ctx, p.config.Limits.Stop)
	p.tasks.stop()
}

// finish makes the peer broken.
func (p *stdioPeer) finish() { p.end.Do(func() { close(p.gone) }) }

// write is the goroutine that writes to the child.
func (p *stdioPeer) write() {
	for {
		select {
		case m := <-p.queue:
			if !m.state.CompareAndSwap(queued, writing) {
				continue
			}
			if m.confirm != nil {
				if m.err = m.confirm(); m.err != nil {
					close(m.done)
					close(m.refused)
					continue
				}
			}
			m.bytes, m.err = p.child.stdin.Write(m.data)
			close(m.done)
			if m.err != nil {
				p.finish()
				return
			}
		case <-p.gone:
			return
		}
	}
}

// post queues a message that gets no answer, or drops it when the child does
// not read what it is sent.
func (p *stdioPeer) post(data []byte) {
	select {
	case p.queue <- newMessage(data):
	default:
	}
}

// postNow queues a message that gets no answer, waiting for its turn.
func (p *stdioPeer) postNow(ctx context.Context, data []byte) {
	select {
	case p.queue <- newMessage(data):
	case <-p.gone:
	case <-ctx.Done():
	}
}

// read is the goroutine that reads from the child.
func (p *stdioPeer) read() {
	defer p.finish()
	frames := newFrameReader(p.child.stdout, max(p.config.Limits.ResultBytes, p.config.Limits.ListBytes)+envelopeRoom)
	for {
		f, err := frames.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				p.config.Logger.Debug("read skill server", "skill", p.server.Skill, "error", err)
			}
			return
		}
		p.dispatch(f)
	}
}

// dispatch gives a line to whom it concerns.
func (p *stdioPeer) dispatch(f frame) {
	if f.tooLarge {
		if id, err := strconv.ParseInt(f.id, 10, 64); err == nil {
			p.deliver(id, reply{tooLarge: f.data})
		}
		return
	}
	e, err := parseEnvelope(f.data)
	switch {
	case err != nil:
		p.noted(f.data)
	case p.listener.received(e):
	case e.method == logNotification && e.id == nil:
		p.asked.only().logged(e.params)
	case p.asked.takes(e):
		p.asked.received(context.Background(), nil, e)
	case e.isCall():
		p.post(answerTo(e))
	case e.method != "":
	default:
		id, err := strconv.ParseInt(string(e.id), 10, 64)
		switch {
		case err != nil:
			p.noted(f.data)
		case id < firstID:
			p.sdk.received(f.data)
		default:
			p.deliver(id, reply{envelope: e})
		}
	}
}

// deliver hands an answer to the request that waits for it, if one does.
func (p *stdioPeer) deliver(id int64, r reply) {
	p.mu.Lock()
	waiter := p.waiting[id]
	delete(p.waiting, id)
	p.mu.Unlock()
	if waiter != nil {
		waiter <- r // never blocks: there is room for one, and one is sent
	}
}

// noted remembers a line that is not MCP. Many servers print what they should
// write to stderr, so it fails nothing by itself; it explains a request that
// gets no answer.
func (p *stdioPeer) noted(line []byte) {
	text := plain(p.child.hide.Replace(string(line[:min(len(line), 1000)])), 200)
	p.last.Store(&text)
	if n := p.noise.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th, …
		p.config.Logger.Warn("skill server wrote a line that is not MCP", "skill", p.server.Skill, "line", text, "lines", n)
	}
}
