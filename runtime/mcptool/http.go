package mcptool

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// httpPeer is a server over streamable HTTP.
type httpPeer struct {
	config    Config
	server    tool.Server
	endpoint  *url.URL
	host      string // Host header, when the skill's headers name one
	transport *http.Transport
	auth      *authorizer
	header    http.Header // of every request of ours, before what the request adds
	agreed    negotiated
	sessionID string
	session   *mcp.ClientSession
	listener  listener

	ctx    context.Context // ends with the peer
	cancel context.CancelCauseFunc
	tasks  tasks
	asked  *asked // what the server asks during calls
	lastID atomic.Int64
	// answers bounds the answers to a server's requests that are being sent.
	answers chan struct{}
	readers sync.Pool // of *bufio.Reader
	headers sync.Map  // tool.Pin → []binding
	// heard is closed when the server's own stream was opened, or refused.
	heard            chan struct{}
	listens, opening sync.Once
	anew             chan struct{} // holds one: the server's own stream is to be opened anew
	gone             atomic.Bool   // the server has said that it does not know the session any more
}

// connectHTTP connects and negotiates. ctx bounds that only.
func connectHTTP(ctx context.Context, config Config, server tool.Server, e era, h *handshake, to listener) (*httpPeer, *tool.Failure) {
	endpoint, err := url.Parse(server.URL)
	if err != nil || (endpoint.Scheme != "http" && endpoint.Scheme != "https") || endpoint.Host == "" {
		return nil, tool.BrokeOff(tool.EffectNone, nil, "connect: the skill's URL is not an http or https URL")
	}
	p := &httpPeer{
		config: config, server: server, endpoint: endpoint, listener: to,
		transport: newTransport(config, server), auth: config.authorizer(server), answers: make(chan struct{}, maxAnswers), heard: make(chan struct{}),
		anew: make(chan struct{}, 1),
	}
	p.readers.New = func() any { return bufio.NewReaderSize(nil, 4096) }
	p.lastID.Store(firstID)
	p.asked = newAsked(&p.tasks, p.sendAnswer, p.sendLater)
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	if failure := p.negotiate(ctx, e, h); failure != nil {
		p.cancel(errPeerClosed)
		p.transport.CloseIdleConnections()
		return nil, failure
	}
	if config.announced(p.agreed.offers) {
		p.startListening()
	}
	return p, nil
}

// maxAnswers bounds how many answers to a server's requests are sent at once.
const maxAnswers = 64

// errPeerClosed is why a request ends that outlives its peer.
var errPeerClosed = errors.New("the connection to the skill was closed")

func newTransport(config Config, server tool.Server) *http.Transport {
	return outbound.NewTransport(outbound.Config{
		// The URL is the operator's.
		Policy:         outbound.Policy{AllowPrivate: true, PublicHosts: server.PublicHosts, TrustedHosts: config.TrustedHosts},
		DialTimeout:    config.Limits.Connect,
		IdleTimeout:    config.Limits.Idle,
		MaxIdlePerHost: config.Limits.IdlePerSkill,
		TLS:            config.TLS,
		Wrap:           outbound.Count,
	})
}

// negotiate lets the SDK find the server's revision, and a session where there
// is one.
func (p *httpPeer) negotiate(ctx context.Context, e era, h *handshake) *tool.Failure {
	watch := &connectWatch{peer: p, handshake: h}
	session, err := newClient(p.config, tool.HTTP).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint:             p.server.URL,
		HTTPClient:           &http.Client{Transport: watch, CheckRedirect: noRedirect},
		DisableStandaloneSSE: true, // ours: see listen
		MaxRetries:           -1,
		MaxEventSize:         maxHandshake,
	}, e.options())
	if err == nil {
		p.agreed, err = newNegotiated(session, p.config)
	}
	if err != nil {
		return watch.failure(ctx, err)
	}
	watch.established()
	p.session, p.sessionID = session, session.ID()
	p.header = p.baseHeader()
	h.finishNegotiation(p.agreed)
	return nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// setSkillHeaders puts the skill's own headers on a request. The protocol's
// headers go on top of them.
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

// baseHeader is the header that all our requests of this session share.
func (p *httpPeer) baseHeader() http.Header {
	header := http.Header{}
	p.host = setSkillHeaders(header, p.server.Headers)
	for name := range header {
		if strings.HasPrefix(name, "Mcp-") || name == headerLastEvent {
			header.Del(name)
		}
	}
	if user := p.endpoint.User; user != nil && header.Get("Authorization") == "" {
		password, _ := user.Password()
		(&http.Request{Header: header}).SetBasicAuth(user.Username(), password)
	}
	header.Set("Content-Type", "application/json")
	header.Set("Accept", "application/json, text/event-stream")
	header.Set(headerVersion, p.agreed.version)
	if p.sessionID != "" {
		header.Set(headerSession, p.sessionID)
	}
	return header
}

func (p *httpPeer) negotiated() negotiated { return p.agreed }

// broken reports whether the server ended the session while nobody asked it anything. Else what ends an HTTP session is an answer
// to a request.
func (p *httpPeer) broken() bool { return p.gone.Load() }

// close ends the session with the SDK's DELETE.
func (p *httpPeer) close(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := p.session.Close()
		if inURL, ok := errors.AsType[*url.Error](err); ok {
			err = inURL.Err // without the URL, which may hold a secret
		}
		if err != nil {
			p.config.Logger.Debug("end MCP session", "skill", p.server.Skill, "error", err)
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	p.cancel(errPeerClosed) // the SDK's DELETE, if it hangs, and all else
	p.tasks.stop()
	<-done
	p.transport.CloseIdleConnections()
}

// origin is where the endpoint is, without anything secret a URL may hold.
func (p *httpPeer) origin() string { return p.endpoint.Scheme + "://" + p.endpoint.Host }
