package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// negotiate lets the SDK negotiate the revision.
func (s *Session) negotiate(ctx context.Context) *tool.Failure {
	client, info, err := s.dial.Negotiate(ctx, s.sdk)
	s.client, s.info = client, info
	if err == nil {
		s.dial.Handshake.FinishNegotiation(s.info)
		return nil
	}
	var rpc *jsonrpc.Error
	switch {
	case s.IsBroken():
		return tool.BrokeOff(tool.EffectNone, err, "start skill %s: %s%s", s.server.Skill, s.child.describeEnding(), s.describeNoise(0))
	case ctx.Err() != nil:
		f := tool.Ended(ctx, tool.EffectNone, "start skill "+s.server.Skill)
		f.Message += s.child.lastWords()
		if said := s.describeNoise(0); said != "" {
			f.Kind, f.Message = tool.ProtocolFailure, f.Message+said
		}
		return f
	case errors.As(err, &rpc):
		text, marshalErr := json.Marshal(rpc)
		if marshalErr == nil {
			return session.NewRPCFailure(text)
		}
	}
	return session.WithoutEffect(session.NewProtocolFailure(nil, err, "start skill %s: the answer to initialize is not MCP: %s", s.server.Skill, plain.Line(err.Error(), 300)))
}

// sdkConn is the part of the child's pipes that the SDK sees while it negotiates: its own requests and the responses to them.
type sdkConn struct {
	session *Session

	in     chan jsonrpc.Message
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	probe   *time.Timer // runs until server/discover is answered
	ignored map[jsonrpc.ID]bool
}

func newSDKConn(s *Session) *sdkConn {
	return &sdkConn{
		session: s, in: make(chan jsonrpc.Message, 16),
		closed: make(chan struct{}), ignored: map[jsonrpc.ID]bool{},
	}
}

// Connect implements [mcp.Transport].
func (c *sdkConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements [mcp.Connection].
func (c *sdkConn) SessionID() string { return "" }

// Close implements [mcp.Connection]. It does not stop the child.
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
	case <-c.session.gone:
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
		c.beginRequest(request)
	}
	line := newLine(data)
	select {
	case c.session.queue <- line:
	case <-c.closed:
		return io.EOF
	case <-c.session.gone:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-line.done:
		return line.err
	case <-c.session.gone:
		return io.EOF
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginRequest begins the step of a request. If server/discover gets no response for a while, it is answered with an error here, so that
// the SDK goes on to initialize: servers of earlier revisions may ignore unknown methods.
func (c *sdkConn) beginRequest(r *jsonrpc.Request) {
	c.session.dial.Handshake.BeginMethod(r.Method)
	if r.Method != "server/discover" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probe = time.AfterFunc(c.session.config.DiscoverTimeout, func() {
		c.mu.Lock()
		c.ignored[r.ID] = true
		c.mu.Unlock()
		c.giveMessage(&jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer to server/discover"}})
	})
}

// handleLine handles the response to a request of the SDK.
func (c *sdkConn) handleLine(line []byte) {
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		c.session.recordNoise(line)
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
		c.giveMessage(response)
	}
}

// giveMessage passes a message to the SDK, which always reads.
func (c *sdkConn) giveMessage(message jsonrpc.Message) {
	select {
	case c.in <- message:
	default:
	}
}
