package mcpserver

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// caller is who a validated credential says it is. Nothing else in a request
// has a say in it.
type caller struct {
	agent     *agent.Agent
	principal uuid.UUID // uuid.Nil: none

	credential audit.Credential
}

// actor is the caller as the audit names it.
func (c caller) actor() audit.Actor {
	if c.principal != uuid.Nil {
		return audit.Person(c.principal)
	}
	return audit.Agent(c.agent.ID)
}

// authenticate finds the caller, or answers. An unknown agent and a key of another agent get the same answer, and so do an
// unknown agent and a token that may not act as this one.
func (x *exchange) authenticate() bool {
	who, err := x.identify()
	var refused *refusal
	switch {
	case err == nil:
		x.caller = who
		x.r = x.r.WithContext(audit.WithCredential(x.r.Context(), who.actor(), who.credential))
		return true
	case errors.As(err, &refused):
		x.turnAway(refused)
	case errors.Is(err, agent.ErrUnauthenticated):
		x.turnAway(x.unknownCredential())
	case errors.Is(err, provider.ErrUnreachable):
		x.logFailure("verify a token", err)
		x.w.Header().Set("Retry-After", "5")
		http.Error(x.w, "the authorization server cannot be asked at present", http.StatusServiceUnavailable)
	default:
		id := x.logFailure("authenticate", err)
		x.w.Header().Set("Retry-After", "1")
		http.Error(x.w, "internal error "+id, http.StatusServiceUnavailable)
	}
	return false
}

func (x *exchange) identify() (caller, error) {
	name := x.r.PathValue("agent")
	token, personal, ok := credential(x.r.Header)
	if !ok {
		return caller{}, agent.ErrUnauthenticated
	}
	who, err := x.asAgent(name, token)
	if errors.Is(err, agent.ErrUnauthenticated) && personal {
		who, err = x.asPerson(name, token)
	}
	if errors.Is(err, agent.ErrUnauthenticated) && personal && len(x.Tokens) > 0 {
		return x.asTokenHolder(name, token)
	}
	return who, err
}

// revoked reports whether the credential that a long response began with is no longer the caller's.
// While that cannot be found out it still is: nothing of use to anybody else can be found out either.
func (x *exchange) revoked() bool {
	who, err := x.identify()
	if err == nil {
		return who.agent.ID != x.agent.ID || who.principal != x.principal
	}
	return errors.Is(err, agent.ErrUnauthenticated)
}

// credential finds the one credential of a request, and whether it may be a
// person's. Two different ones are none.
func credential(h http.Header) (token string, personal, ok bool) {
	key := h.Get("X-Agent-API-Key")
	scheme, bearer, _ := strings.Cut(h.Get("Authorization"), " ")
	bearer = strings.TrimSpace(bearer)
	if !strings.EqualFold(scheme, "Bearer") {
		bearer = ""
	}
	switch {
	case bearer == "":
		return key, false, key != ""
	case key == "" || key == bearer:
		return bearer, key == "", true
	default:
		return "", false, false
	}
}

func (x *exchange) asAgent(name, key string) (caller, error) {
	a, err := x.Agents.Authenticate(x.r.Context(), key)
	if err != nil {
		return caller{}, err
	}
	if a.Name != name {
		return caller{}, agent.ErrUnauthenticated
	}
	return caller{agent: a, credential: audit.Credential{Kind: audit.AgentKey, ID: a.KeyID.String()}}, nil
}

func (x *exchange) asPerson(name, token string) (caller, error) {
	access, err := x.Identity.Authenticate(x.r.Context(), token)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return caller{}, agent.ErrUnauthenticated
	}
	if err != nil {
		return caller{}, err
	}
	if !access.MayActAs(name) {
		return caller{}, agent.ErrUnauthenticated
	}
	a, err := x.Agents.AgentByName(x.r.Context(), name)
	if errors.Is(err, agent.ErrNotFound) {
		return caller{}, agent.ErrUnauthenticated
	}
	if err != nil {
		return caller{}, err
	}
	return caller{agent: a, principal: access.Person.ID, credential: access.AuditCredential()}, nil
}

// originAllowed keeps pages of other sites out. Programs send neither header.
// A page may use the endpoint when its origin is ours or trusted, or when it
// was itself served by this very host under a loopback name; comparing with the
// Host header alone would let a rebound DNS name in.
func (s *Server) originAllowed(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		site := r.Header.Get("Sec-Fetch-Site")
		return site == "" || site == "same-origin" || site == "none"
	}
	if s.origins[origin] {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && from.Host != "" && from.Host == r.Host && (r.Host == s.host || loopback(from.Hostname()))
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}
