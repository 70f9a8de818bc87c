package httptool

import (
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/httptool/openapi"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Source is the [tool.Source] of HTTP APIs. It keeps idle connections and caches definitions; losing either costs only time.
type Source struct {
	config Config
	// own dials hosts that operators named, also on private networks. foreign dials hosts that documents and redirects named, and
	// operators' hosts that were public when they were named. Neither dials link-local or cloud-metadata addresses.
	own, foreign *http.Transport
	documents    *documentCache
	programs     limiter
}

var (
	_ tool.Source    = (*Source)(nil)
	_ tool.Previewer = (*Source)(nil)
)

// New returns a Source. The caller closes it.
func New(config Config) *Source {
	s := &Source{
		config: config.withDefaults(), programs: make(limiter, maxPrograms),
		documents: &documentCache{reading: make(chan struct{}, 1), made: map[string]*openapi.Definitions{}, fetched: map[string]validators{}},
	}
	s.own = s.newTransport(outbound.Policy{AllowPrivate: true})
	s.foreign = s.newTransport(outbound.Policy{TrustedHosts: s.config.TrustedHosts})
	return s
}

// ownFor returns the transport to a host that an operator named. A host that was public then may not become private.
func (s *Source) ownFor(publicHosts []string, host string) *http.Transport {
	if slices.Contains(publicHosts, strings.ToLower(host)) {
		return s.foreign
	}
	return s.own
}

// newTransport returns a transport that speaks only HTTP/1.1. Over HTTP/2 a body of unknown length (see attempt.build) is sent as an empty
// DATA frame, so each GET would have a body, which some servers refuse (https://go.dev/issue/18891). And of several requests on one
// connection it is unknown which were written.
func (s *Source) newTransport(policy outbound.Policy) *http.Transport {
	return outbound.NewTransport(outbound.Config{
		Policy: policy, TLS: s.config.TLS, DialTimeout: s.config.Limits.Connect,
		IdleTimeout: s.config.Limits.Idle, MaxIdlePerHost: s.config.Limits.IdlePerHost, Wrap: outbound.Count, HTTP1Only: true,
	})
}

// Close closes idle connections. Running calls still get their answers.
func (s *Source) Close() {
	s.own.CloseIdleConnections()
	s.foreign.CloseIdleConnections()
}

// Forget implements [tool.Source]. There is nothing to close: connections and definitions are kept by host and by document, not by skill.
func (*Source) Forget(uuid.UUID) {}
