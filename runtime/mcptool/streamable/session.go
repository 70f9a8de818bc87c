package streamable

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/mcptool/session"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Session is a session with a server over streamable HTTP. It implements [session.Session].
type Session struct {
	dial      session.Dial
	config    Config
	server    tool.Server
	endpoint  *url.URL
	host      string // the Host header, if the skill sets one
	transport *http.Transport
	auth      *authorizer
	header    http.Header // of all our requests, without the headers of one request
	info      session.Info
	sessionID string
	client    *mcp.ClientSession

	ctx        context.Context // ends with the session
	cancel     context.CancelCauseFunc
	background session.Background
	questions  *session.Questions // before 2026-07-28
	lastID     atomic.Int64
	answers    chan struct{} // holds one for each message that sendLater is sending
	readers    sync.Pool     // of *bufio.Reader
	headers    sync.Map      // tool.Pin → []Binding

	// streamOpen is closed when the stream of announcements was opened or refused, or is no longer waited for.
	streamOpen          chan struct{}
	startOnce, openOnce sync.Once
	reopen              chan struct{} // holds one if the stream of announcements should be opened again
	isGone              atomic.Bool   // the server no longer knows the session
}

// Config has the settings of connections. All fields but OAuth, TLS and TrustedHosts are required.
type Config struct {
	OAuth          *oauthclient.Service
	TLS            *tls.Config
	TrustedHosts   []string
	ConnectTimeout time.Duration // bounds connecting and negotiating
	IdleTimeout    time.Duration // how long an unused connection is kept
	MaxIdle        int           // unused connections that are kept
}

// Connect connects and negotiates. ctx bounds only that.
func Connect(ctx context.Context, d session.Dial, config Config) (*Session, *tool.Failure) {
	ctx, cancel := context.WithTimeout(ctx, config.ConnectTimeout)
	defer cancel()
	endpoint, err := url.Parse(d.Server.URL)
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || endpoint.Host == "" {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "connect: the skill's URL is not an http or https URL")
	}
	s := &Session{
		dial: d, config: config, server: d.Server, endpoint: endpoint,
		transport: newTransport(config, d.Server), auth: newAuthorizer(config.OAuth, d.Server),
		answers: make(chan struct{}, maxAnswers), streamOpen: make(chan struct{}), reopen: make(chan struct{}, 1),
	}
	s.readers.New = func() any { return bufio.NewReaderSize(nil, 4096) }
	s.lastID.Store(session.FirstID)
	s.questions = session.NewQuestions(&s.background, s.sendAnswer, s.sendLater)
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if failure := s.negotiate(ctx); failure != nil {
		s.cancel(session.ErrClosed)
		s.transport.CloseIdleConnections()
		return nil, failure
	}
	if d.Announces(s.info.Capabilities) {
		s.startListening()
	}
	return s, nil
}

func newTransport(config Config, server tool.Server) *http.Transport {
	return outbound.NewTransport(outbound.Config{
		// An operator entered the URL, so it may be private.
		Policy:         outbound.Policy{AllowPrivate: true, PublicHosts: server.PublicHosts, TrustedHosts: config.TrustedHosts},
		DialTimeout:    config.ConnectTimeout,
		IdleTimeout:    config.IdleTimeout,
		MaxIdlePerHost: config.MaxIdle,
		TLS:            config.TLS,
		Wrap:           outbound.Count,
	})
}

// negotiate lets the SDK negotiate the revision, and a session if the revision has them.
func (s *Session) negotiate(ctx context.Context) *tool.Failure {
	watch := &connectWatch{session: s, handshake: s.dial.Handshake}
	client, info, err := s.dial.Negotiate(ctx, &mcp.StreamableClientTransport{
		Endpoint:             s.server.URL,
		HTTPClient:           &http.Client{Transport: watch, CheckRedirect: refuseRedirect},
		DisableStandaloneSSE: true, // see keepListening
		MaxRetries:           -1,
		MaxEventSize:         maxHandshake,
	})
	if err != nil {
		return watch.describeFailure(ctx, err)
	}
	watch.markDone()
	s.info, s.client, s.sessionID = info, client, client.ID()
	s.header = s.baseHeader()
	s.dial.Handshake.FinishNegotiation(s.info)
	return nil
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// baseHeader returns the header that all our requests of this session share.
func (s *Session) baseHeader() http.Header {
	header := http.Header{}
	s.host = setSkillHeaders(header, s.server.Headers)
	for name := range header {
		if strings.HasPrefix(name, "Mcp-") || name == headerLastEvent {
			header.Del(name)
		}
	}
	if user := s.endpoint.User; user != nil && header.Get("Authorization") == "" {
		password, _ := user.Password()
		(&http.Request{Header: header}).SetBasicAuth(user.Username(), password)
	}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	header.Set(headerVersion, s.info.Capabilities.ProtocolVersion)
	if s.sessionID != "" {
		header.Set(headerSession, s.sessionID)
	}
	return header
}

// setSkillHeaders sets the skill's own headers, which the headers of the protocol override. It returns the Host header, which may be
// empty.
func setSkillHeaders(header http.Header, skill map[string]string) (host string) {
	header.Set("User-Agent", "holdpoint")
	for name, value := range skill {
		if strings.EqualFold(name, "Host") {
			host = value
			continue
		}
		header.Set(name, value)
	}
	return host
}

// Info implements [session.Session].
func (s *Session) Info() session.Info { return s.info }

// IsBroken reports whether the server ended the session between requests. Otherwise the answer to a request ends an HTTP session.
func (s *Session) IsBroken() bool { return s.isGone.Load() }

// origin returns the origin of the endpoint, which holds no secrets of the URL.
func (s *Session) origin() string { return s.endpoint.Scheme + "://" + s.endpoint.Host }

// Close ends the session with the SDK's DELETE.
func (s *Session) Close(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := s.client.Close()
		if inURL, ok := errors.AsType[*url.Error](err); ok {
			err = inURL.Err // without the URL, which may hold a secret
		}
		if err != nil {
			s.dial.Logger.Debug("end MCP session", "skill", s.server.Skill, "error", err)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel(session.ErrClosed) // ends all requests, and the SDK's DELETE if it hangs
	s.background.Stop()
	<-done
	s.transport.CloseIdleConnections()
}

// handleMessage handles a notification or request of the server that belongs to no request of ours.
func (s *Session) handleMessage(m session.Message) {
	switch {
	case s.dial.Listener.Handle(m), s.info.IsStateless():
	case s.questions.Accepts(m):
		s.questions.Handle(s.ctx, nil, m)
	case m.IsRequest():
		s.sendLater(session.AnswerRequest(m))
	}
}

// sendAnswer posts the answer to a question. It does not end with the call, which may get its result first.
func (s *Session) sendAnswer(_ context.Context, message []byte) {
	s.sendNow(message, s.config.ConnectTimeout)
}

// sendCancelled notifies a server with sessions that an answer is no longer wanted. Since 2026-07-28 the end of the HTTP request has this
// meaning.
func (s *Session) sendCancelled(id int64) {
	if s.info.IsStateless() {
		return
	}
	s.sendLater(session.EncodeCancel(id))
}

// sendLater posts a message that gets no answer. It drops the message if maxAnswers are being sent.
func (s *Session) sendLater(message []byte) {
	select {
	case s.answers <- struct{}{}:
	default:
		return
	}
	started := s.background.Go(func() {
		defer func() { <-s.answers }()
		s.sendNow(message, 2*time.Second)
	})
	if !started {
		<-s.answers
	}
}

// maxAnswers bounds the messages that sendLater sends at the same time.
const maxAnswers = 64

// sendNow posts a message that gets no answer, and waits for the status.
func (s *Session) sendNow(message []byte, limit time.Duration) {
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.server.URL, bytes.NewReader(message))
	if err != nil {
		return
	}
	r.Header, r.Host = maps.Clone(s.header), s.host
	if signed, failure := s.auth.signRequest(ctx, r); failure != nil || s.sessionID != "" && s.auth.isForeign(signed) {
		return
	}
	response, err := s.transport.RoundTrip(r)
	if err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, response.Body, 4096)
	_ = response.Body.Close()
}

// borrowReader returns a pooled reader for a stream, and a function that gives it back.
func (s *Session) borrowReader(source io.Reader) (*bufio.Reader, func()) {
	reader, ok := s.readers.Get().(*bufio.Reader)
	if !ok {
		reader = bufio.NewReader(nil)
	}
	reader.Reset(source)
	return reader, func() {
		reader.Reset(nil)
		s.readers.Put(reader)
	}
}
