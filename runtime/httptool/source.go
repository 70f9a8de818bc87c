package httptool

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Source carries the tools of HTTP APIs. It keeps idle connections, and the definitions that were made of documents; both are no more
// than savings, so there is nothing to lose when it ends.
type Source struct {
	config Config
	// own dials what operators named, also on private networks; foreign what documents and redirects named, and names of operators
	// that were public then. Neither dials link-local or
	// cloud-metadata addresses.
	own, foreign *http.Transport
	documents    *documents
	selecting    bounded
}

var _ tool.Source = (*Source)(nil)

// New returns a Source. The caller closes it.
func New(config Config) *Source {
	s := &Source{config: config.withDefaults(), documents: newDocuments(), selecting: make(bounded, maxSelecting)}
	s.own = s.transport(outbound.Policy{AllowPrivate: true})
	s.foreign = s.transport(outbound.Policy{TrustedHosts: s.config.TrustedHosts})
	return s
}

// ownFor is the transport to a host that an operator named: one that was public then may not have become private.
func (s *Source) ownFor(publicHosts []string, host string) *http.Transport {
	if slices.Contains(publicHosts, strings.ToLower(host)) {
		return s.foreign
	}
	return s.own
}

// transport speaks HTTP/1.1 only. Over HTTP/2 a body whose length is not known (see attempt.build) goes out as an empty DATA frame, so each
// GET would be one with a body, which some servers refuse (https://go.dev/issue/18891); and of requests that share a connection it is not
// known which of them was written.
func (s *Source) transport(policy outbound.Policy) *http.Transport {
	return outbound.NewTransport(outbound.Config{
		Policy: policy, TLS: s.config.TLS, DialTimeout: s.config.Limits.Connect,
		IdleTimeout: s.config.Limits.Idle, MaxIdlePerHost: s.config.Limits.IdlePerHost, Wrap: outbound.Count, HTTP1Only: true,
	})
}

// Close closes the connections that are not in use. Calls on their way still get their answers.
func (s *Source) Close() {
	s.own.CloseIdleConnections()
	s.foreign.CloseIdleConnections()
}

// Forget implements [tool.Source]. There is nothing of a skill to close: what is kept is kept by document and by host.
func (*Source) Forget(uuid.UUID) {}

// Request implements [tool.Source]: an HTTP API has no other methods of MCP.
func (*Source) Request(_ context.Context, server tool.Server, request tool.Request) (json.RawMessage, error) {
	failure := failed(tool.JSONRPCError, nil, "%s: skill %s is an HTTP API, which has tools only", request.Method, server.Skill)
	failure.RPC = json.RawMessage(`{"code":-32601,"message":"Method not found"}`)
	return nil, failure
}

// Capabilities implements [tool.Source].
func (*Source) Capabilities(context.Context, tool.Server) (tool.Capabilities, error) {
	return tool.Capabilities{Tools: true}, nil
}
