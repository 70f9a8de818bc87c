package stdio

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
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Session is a session with a child process. It implements [session.Session]. One goroutine writes to the child and one reads from it;
// requests wait for the response with their id.
type Session struct {
	dial   session.Dial
	config Config
	server tool.Server
	child  *child
	info   session.Info
	client *mcp.ClientSession
	sdk    *sdkConn

	queue      chan *outgoingLine
	gone       chan struct{} // closed when the session is broken
	end        sync.Once
	closing    atomic.Bool // Close was called
	background session.Background
	questions  *session.Questions // before 2026-07-28
	lastID     atomic.Int64

	mu      sync.Mutex
	waiting map[int64]chan reply

	listening sync.Mutex
	listenID  int64 // id of the request for announcements; 0: none. listening

	noise     atomic.Int64 // lines that were not MCP
	lastNoise atomic.Pointer[string]
}

// Config has the settings of child processes. All fields are required.
type Config struct {
	Policy  tool.StdioPolicy
	DataDir string
	Path    string // the PATH of children
	Lang    string // the LANG of children

	StartTimeout    time.Duration // bounds starting and negotiating
	DiscoverTimeout time.Duration // how long server/discover may stay without an answer
	StopTimeout     time.Duration // a child's time to end by itself, and again after SIGTERM
	MaxResult       int64         // bytes of a result
}

// Connect starts the child and negotiates. ctx bounds only that.
func Connect(ctx context.Context, d session.Dial, config Config) (*Session, *tool.Failure) {
	ctx, cancel := context.WithTimeout(ctx, config.StartTimeout)
	defer cancel()
	server, h := d.Server, d.Handshake
	if len(server.Command) == 0 {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "start skill %s: it has no command", server.Skill)
	}
	for _, refusal := range config.Policy.Check(server.Command, server.RunAs, server.Paths, slices.Sorted(maps.Keys(server.Env))) {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "start skill %s: %s", server.Skill, plain.Line(refusal.Error(), 500))
	}
	h.BeginStep("connect", "")
	c, err := startChild(ctx, config, server, d.Logger)
	if err != nil {
		return nil, tool.BrokeOff(tool.EffectNone, err, "start skill %s: %s", server.Skill, plain.Line(err.Error(), 500))
	}
	h.FinishStep(strings.Join(append([]string{fmt.Sprintf("process %d", c.process.PID)}, c.process.Notes...), "; "), nil)
	s := &Session{
		dial: d, config: config, server: server, child: c,
		queue: make(chan *outgoingLine, 64), gone: make(chan struct{}),
		waiting: map[int64]chan reply{},
	}
	s.lastID.Store(session.FirstID)
	s.questions = session.NewQuestions(&s.background, s.postOrWait, s.postLine)
	s.sdk = newSDKConn(s)
	s.background.Go(s.writeLines)
	s.background.Go(s.readLines)
	if failure := s.negotiate(ctx); failure != nil {
		stop, cancel := context.WithCancel(context.Background())
		cancel() // a child that could not start gets no time to stop
		s.Close(stop)
		return nil, failure
	}
	if s.info.IsStateless() && d.Announces(s.info.Capabilities) {
		s.requestAnnouncements()
	}
	return s, nil
}

// Info implements [session.Session].
func (s *Session) Info() session.Info { return s.info }

// IsBroken implements [session.Session].
func (s *Session) IsBroken() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// Close stops the child. Running requests fail.
func (s *Session) Close(ctx context.Context) {
	s.closing.Store(true)
	s.markBroken()
	if s.client != nil {
		_ = s.client.Close()
	}
	s.child.stopProcess(ctx, s.config.StopTimeout)
	s.background.Stop()
}

// markBroken marks the session as broken.
func (s *Session) markBroken() { s.end.Do(func() { close(s.gone) }) }

// RefreshUpdates implements [session.Session].
func (s *Session) RefreshUpdates(context.Context) {
	if s.info.IsStateless() {
		s.requestAnnouncements()
	}
}

// requestAnnouncements requests announcements from a server of 2026-07-28 with the current subscriptions, and cancels the previous
// request.
func (s *Session) requestAnnouncements() {
	s.listening.Lock()
	defer s.listening.Unlock()
	ask, id := session.NewListenRequest(s.info.Capabilities, s.dial.Listener), s.lastID.Add(1)
	s.postLine(ask.Encode(id, s.info))
	if s.listenID != 0 {
		s.postLine(session.EncodeCancel(s.listenID))
	}
	s.listenID = id
}

// Exchange implements [session.Session]. Each request is a line.
func (s *Session) Exchange(ctx context.Context, r *session.Request) session.Outcome {
	defer s.questions.Track(r, s.info)()
	id := s.lastID.Add(1)
	session.RecordRequestID(ctx, id)
	answer := make(chan reply, 1)
	s.mu.Lock()
	s.waiting[id] = answer
	s.mu.Unlock()
	defer s.abandonRequest(id)

	noise := s.noise.Load()
	line := newLine(r.Encode(id, s.info))
	if r.Confirm != nil {
		// Here an unavailable database delays only this request. The writer, which confirms again, is shared.
		if err := r.Confirm(ctx); err != nil {
			return session.Failed(tool.NotConfirmed(err, r.Label))
		}
		line.confirm, line.refused = func() error { return r.Confirm(ctx) }, make(chan struct{})
	}
	select {
	case s.queue <- line:
	case <-s.gone:
		return s.failLost(line, r, noise)
	case <-ctx.Done():
		return session.Failed(tool.Ended(ctx, tool.EffectNone, r.Label))
	}
	select {
	case got := <-answer:
		return s.readReply(got, r)
	case <-line.refused:
		return session.Failed(tool.NotConfirmed(line.err, r.Label))
	case <-s.gone:
		select {
		case got := <-answer: // it came first
			return s.readReply(got, r)
		default:
			return s.failLost(line, r, noise)
		}
	case <-ctx.Done():
		return s.failEnded(ctx, line, id, r, noise)
	}
}

func (s *Session) abandonRequest(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
}

func (s *Session) readReply(got reply, r *session.Request) session.Outcome {
	switch {
	case got.tooLarge != nil:
		return session.Failed(session.NewProtocolFailure(got.tooLarge, session.ErrTooLarge, "%s: the answer is larger than %d bytes", r.Label, r.Limit))
	case got.message.IsError():
		return session.Failed(session.NewRPCFailure(got.message.Err))
	case int64(len(got.message.Result)) > r.Limit:
		return session.Failed(session.NewProtocolFailure(got.message.Result, session.ErrTooLarge, "%s: the answer is larger than %d bytes", r.Label, r.Limit))
	}
	return session.Outcome{Result: got.message.Result}
}

// failLost returns the outcome of a request whose child is gone.
func (s *Session) failLost(line *outgoingLine, r *session.Request, noise int64) session.Outcome {
	if line.withdraw() {
		out := session.Failed(tool.BrokeOff(tool.EffectNone, line.writeError(), "%s: not sent, because the server's process takes no more input%s", r.Label, s.child.lastWords()))
		out.Unsent = true
		return out
	}
	how := session.ErrClosed.Error()
	if !s.closing.Load() {
		how = s.child.describeEnding()
	}
	return session.Failed(tool.BrokeOff(tool.EffectPossible, line.writeError(), "%s: no answer came: %s%s", r.Label, how, s.describeNoise(noise)))
}

// failEnded returns the outcome of a request whose context ended.
func (s *Session) failEnded(ctx context.Context, line *outgoingLine, id int64, r *session.Request, noise int64) session.Outcome {
	if line.withdraw() {
		return session.Failed(tool.Ended(ctx, tool.EffectNone, r.Label+": the server reads nothing"))
	}
	s.postLine(session.EncodeCancel(id))
	f := tool.Ended(ctx, tool.EffectPossible, r.Label)
	if said := s.describeNoise(noise); said != "" {
		f.Kind = tool.ProtocolFailure
		f.Message += said
		f.Raw = tool.Evidence([]byte(*s.lastNoise.Load()))
	}
	return session.Failed(f)
}

// describeNoise describes the lines that were not MCP and came since the count was n.
func (s *Session) describeNoise(n int64) string {
	text := s.lastNoise.Load()
	if s.noise.Load() == n || text == nil {
		return ""
	}
	return "; meanwhile the server wrote what is not MCP: " + *text
}

// readLines is the goroutine that reads from the child.
func (s *Session) readLines() {
	defer s.markBroken()
	frames := newFrameReader(s.child.stdout, s.config.MaxResult+session.EnvelopeRoom)
	for {
		f, err := frames.nextFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.dial.Logger.Debug("read skill server", "skill", s.server.Skill, "error", err)
			}
			return
		}
		s.dispatchLine(f)
	}
}

// reply is the response to a request, or the beginning of one that was too large.
type reply struct {
	message  session.Message
	tooLarge []byte
}

// dispatchLine passes a line to its receiver.
func (s *Session) dispatchLine(f frame) {
	if f.tooLarge {
		if id, err := strconv.ParseInt(f.id, 10, 64); err == nil {
			s.deliverReply(id, reply{tooLarge: f.data})
		}
		return
	}
	m, err := session.ParseMessage(f.data)
	switch {
	case err != nil:
		s.recordNoise(f.data)
	case s.dial.Listener.Handle(m):
	case m.Method == session.LogNotification && m.ID == nil:
		s.questions.OnlyOperation().HandleLog(m.Params)
	case s.questions.Accepts(m):
		s.questions.Handle(context.Background(), nil, m)
	case m.IsRequest():
		s.postLine(session.AnswerRequest(m))
	case m.Method != "":
	default:
		id, err := strconv.ParseInt(string(m.ID), 10, 64)
		switch {
		case err != nil:
			s.recordNoise(f.data)
		case id < session.FirstID:
			s.sdk.handleLine(f.data)
		default:
			s.deliverReply(id, reply{message: m})
		}
	}
}

// deliverReply passes a response to its request, if that still waits.
func (s *Session) deliverReply(id int64, r reply) {
	s.mu.Lock()
	waiter := s.waiting[id]
	delete(s.waiting, id)
	s.mu.Unlock()
	if waiter != nil {
		waiter <- r // never blocks: there is room for one, and one is sent
	}
}

// recordNoise records a line that is not MCP. Many servers print their log on stdout, so such a line is not a failure, but it helps to
// explain a request without an answer.
func (s *Session) recordNoise(line []byte) {
	text := plain.Line(s.child.hide.Replace(string(line[:min(len(line), 1000)])), 200)
	s.lastNoise.Store(&text)
	if n := s.noise.Add(1); n&(n-1) == 0 { // the 1st, 2nd, 4th, 8th, …
		s.dial.Logger.Warn("skill server wrote a line that is not MCP", "skill", s.server.Skill, "line", text, "lines", n)
	}
}

// writeLines is the goroutine that writes to the child.
func (s *Session) writeLines() {
	for {
		select {
		case line := <-s.queue:
			if !line.state.CompareAndSwap(queued, writing) {
				continue
			}
			if line.confirm != nil {
				if line.err = line.confirm(); line.err != nil {
					close(line.done)
					close(line.refused)
					continue
				}
			}
			line.bytes, line.err = s.child.stdin.Write(line.data)
			close(line.done)
			if line.err != nil {
				s.markBroken()
				return
			}
		case <-s.gone:
			return
		}
	}
}

// postLine queues a message that gets no answer. It drops the message if the queue is full, because the child does not read.
func (s *Session) postLine(data []byte) {
	select {
	case s.queue <- newLine(data):
	default:
	}
}

// postOrWait queues a message that gets no answer, and waits for room in the queue.
func (s *Session) postOrWait(ctx context.Context, data []byte) {
	select {
	case s.queue <- newLine(data):
	case <-s.gone:
	case <-ctx.Done():
	}
}

// outgoingLine is a line that is sent to the child.
type outgoingLine struct {
	data  []byte
	state atomic.Int32
	done  chan struct{} // closed when the line was written, or will not be
	// confirm is called right before the line is written; refused is closed when it returns an error. May be nil.
	confirm func() error
	refused chan struct{}
	bytes   int // written; read after done
	err     error
}

// The states of a line.
const (
	queued int32 = iota
	writing
	withdrawn
)

func newLine(data []byte) *outgoingLine {
	return &outgoingLine{data: joinLines(data), done: make(chan struct{})}
}

// joinLines makes one line of a JSON text. Line breaks in it are white space between tokens, because strings escape them.
func joinLines(data []byte) []byte {
	for i, b := range data {
		if b == '\n' || b == '\r' {
			data[i] = ' '
		}
	}
	return append(data, '\n')
}

// withdraw withdraws the line if it is still queued. It reports whether it is certain that no byte is written.
func (line *outgoingLine) withdraw() bool {
	if line.state.CompareAndSwap(queued, withdrawn) || line.state.Load() == withdrawn {
		return true
	}
	select {
	case <-line.done:
		return line.err != nil && line.bytes == 0
	default: // being written
		return false
	}
}

// writeError returns the error of writing the line, if there is one yet.
func (line *outgoingLine) writeError() error {
	select {
	case <-line.done:
		return line.err
	default:
		return nil
	}
}
