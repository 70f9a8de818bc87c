package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/runtime/tool"
)

// negotiate lets the SDK find the server's revision.
func (p *stdioPeer) negotiate(ctx context.Context, e era, h *handshake) *tool.Failure {
	session, err := newClient(p.config, tool.Stdio).Connect(ctx, p.sdk, e.options())
	if err == nil {
		p.session = session
		p.agreed, err = newNegotiated(session, p.config)
	}
	if err == nil {
		h.finishNegotiation(p.agreed)
		return nil
	}
	var rpc *jsonrpc.Error
	switch {
	case p.broken():
		return tool.BrokeOff(tool.EffectNone, err, "start skill %s: %s%s", p.server.Skill, p.child.ending(), p.noiseSince(0))
	case ctx.Err() != nil:
		f := tool.Ended(ctx, tool.EffectNone, "start skill "+p.server.Skill)
		f.Message += p.child.lastWords()
		if said := p.noiseSince(0); said != "" {
			f.Kind, f.Message = tool.ProtocolFailure, f.Message+said
		}
		return f
	case errors.As(err, &rpc):
		text, marshalErr := json.Marshal(rpc)
		if marshalErr == nil {
			return rpcFailure(text)
		}
	}
	return without(protocolFailure(nil, err, "start skill %s: the answer to initialize is not MCP: %s", p.server.Skill, plain(err.Error(), 300)))
}

// sdkConn is the part of a child's pipes that the SDK uses while it
// negotiates: it sees the answers to its own requests and nothing else.
type sdkConn struct {
	peer      *stdioPeer
	handshake *handshake

	in     chan jsonrpc.Message
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	probe   *time.Timer // runs while server/discover is not answered
	ignored map[jsonrpc.ID]bool
}

func newSDKConn(p *stdioPeer, h *handshake) *sdkConn {
	return &sdkConn{
		peer: p, handshake: h, in: make(chan jsonrpc.Message, 16),
		closed: make(chan struct{}), ignored: map[jsonrpc.ID]bool{},
	}
}

// Connect implements [mcp.Transport].
func (c *sdkConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (c *sdkConn) SessionID() string { return "" }

// Close implements [mcp.Connection]. The child lives on; its peer ends it.
func (c *sdkConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// Read implements [mcp.Connection].
func (c *sdkConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case message := <-c.in:
		return message, nil
	case <-c.closed:
	case <-c.peer.gone:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return nil, io.EOF
}

// Write implements [mcp.Connection].
func (c *sdkConn) Write(ctx context.Context, message jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	if request, ok := message.(*jsonrpc.Request); ok {
		c.begin(request)
	}
	m := newMessage(data)
	select {
	case c.peer.queue <- m:
	case <-c.closed:
		return io.EOF
	case <-c.peer.gone:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-m.done:
		return m.err
	case <-c.peer.gone:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin notes the step. A server that is silent about server/discover is
// answered for after a while, so that the SDK goes on to initialize; servers
// of earlier revisions may ignore what they do not know.
func (c *sdkConn) begin(r *jsonrpc.Request) {
	c.handshake.beginMethod(r.Method)
	if r.Method != "server/discover" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = time.AfterFunc(c.peer.config.Limits.DiscoverProbe, func() {
		c.mu.Lock()
		c.ignored[r.ID] = true
		c.mu.Unlock()
		c.give(&jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer to server/discover"}})
	})
}

// received takes an answer to a request of the SDK's.
func (c *sdkConn) received(line []byte) {
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		c.peer.noted(line)
		return
	}
	response, ok := message.(*jsonrpc.Response)
	if !ok {
		return
	}
	c.mu.Lock()
	if c.probe != nil {
		c.probe.Stop()
	}
	late := c.ignored[response.ID]
	c.mu.Unlock()
	if !late {
		c.give(response)
	}
}

// give hands a message to the SDK, which reads all the time.
func (c *sdkConn) give(message jsonrpc.Message) {
	select {
	case c.in <- message:
	default:
	}
}
