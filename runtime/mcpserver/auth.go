package mcpserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/internal/outbound"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// caller is the agent and principal of a validated credential. Nothing else in a request changes them.
type caller struct {
	agent     *agent.Agent
	principal uuid.UUID // uuid.Nil: none

	credential audit.Credential
}

// auditActor returns the caller for the audit log.
func (c caller) auditActor() audit.Actor {
	if c.principal != uuid.Nil {
		return audit.Person(c.principal)
	}
	return audit.Agent(c.agent.ID)
}

// login finds the caller of a request.
type login struct{ *response }

// answerUnidentified answers a request whose caller was not identified. Unknown agents, keys of other agents, and tokens that may
// not act as the agent get the same answer.
func (l *login) answerUnidentified(err error) {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		l.writeChallenge(refused)
	case errors.Is(err, agent.ErrUnauthenticated):
		l.writeChallenge(l.unknownCredential())
	case errors.Is(err, provider.ErrUnreachable):
		l.logFailure("verify a token", err)
		l.w.Header().Set("Retry-After", "5")
		http.Error(l.w, "the authorization server cannot be asked at present", http.StatusServiceUnavailable)
	default:
		id := l.logFailure("authenticate", err)
		l.w.Header().Set("Retry-After", "1")
		http.Error(l.w, "internal error "+id, http.StatusServiceUnavailable)
	}
}

// identifyCaller returns the caller by the request's one credential: an agent's key, a person's token, or an access token.
func (l *login) identifyCaller() (caller, error) {
	name := l.r.PathValue("agent")
	token, personal, ok := readCredential(l.r.Header)
	if !ok {
		return caller{}, agent.ErrUnauthenticated
	}
	a, err := l.Agents.Authenticate(l.r.Context(), token)
	if err == nil && a.Name == name {
		return caller{agent: a, credential: audit.Credential{Kind: audit.AgentKey, ID: a.KeyID.String()}}, nil
	}
	if err != nil && !errors.Is(err, agent.ErrUnauthenticated) {
		return caller{}, err
	}
	if !personal {
		return caller{}, agent.ErrUnauthenticated
	}
	who, err := l.authenticatePerson(name, token)
	if errors.Is(err, agent.ErrUnauthenticated) && len(l.Tokens) > 0 {
		return l.authenticateTokenHolder(name, token)
	}
	return who, err
}

// isRevoked reports whether the credential of a long response no longer belongs to the caller. If the check fails, the response
// continues: it holds nothing that another caller could use.
func (x *exchange) isRevoked() bool {
	who, err := (&login{&x.response}).identifyCaller()
	if err == nil {
		return who.agent.ID != x.agent.ID || who.principal != x.principal
	}
	return errors.Is(err, agent.ErrUnauthenticated)
}

// readCredential returns the one credential of a request and whether it may be a person's. Two different credentials are
// refused.
func readCredential(h http.Header) (token string, personal, ok bool) {
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

func (l *login) authenticatePerson(name, token string) (caller, error) {
	access, err := l.Identity.Authenticate(l.r.Context(), token)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return caller{}, agent.ErrUnauthenticated
	}
	if err != nil {
		return caller{}, err
	}
	if !access.MayActAs(name) {
		return caller{}, agent.ErrUnauthenticated
	}
	a, err := l.Agents.AgentByName(l.r.Context(), name)
	if errors.Is(err, agent.ErrNotFound) {
		return caller{}, agent.ErrUnauthenticated
	}
	if err != nil {
		return caller{}, err
	}
	return caller{agent: a, principal: access.Person.ID, credential: access.AuditCredential()}, nil
}

// originAllowed refuses browser pages of other sites. Programs send neither header. A page may use the endpoint if its origin
// is the server's own or trusted, or if this host served it under a loopback name. Comparing with the Host header alone would
// admit a rebound DNS name.
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
	if err != nil || from.Host == "" || from.Host != r.Host {
		return false
	}
	return r.Host == s.host || outbound.IsLoopbackHost(from.Hostname())
}

// Each endpoint is a protected resource of OAuth 2.1 (RFC 9728, RFC 6750), identified by its URL.

const wellKnown = "/.well-known/oauth-protected-resource"

func endpointPath(agentName string) string { return "/agents/" + url.PathEscape(agentName) + "/mcp" }

// resourceID returns the resource identifier of an agent's endpoint.
func (s *Server) resourceID(agentName string) string { return s.PublicURL + endpointPath(agentName) }

// resourceMetadata serves the document of RFC 9728. It does not reveal whether the agent exists.
func (s *Server) resourceMetadata(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("agent")
	document := map[string]any{
		"resource":                 s.resourceID(name),
		"resource_name":            "Holdpoint: " + name,
		"bearer_methods_supported": []string{"header"},
	}
	if len(s.Tokens) > 0 {
		document["authorization_servers"] = s.Tokens.Issuers()
	}
	if scopes := s.Tokens.Scopes(); len(scopes) > 0 {
		document["scopes_supported"] = scopes
	}
	body, err := json.Marshal(document)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Access-Control-Allow-Origin", "*") // it is public, and clients in browsers need it
	if _, err := w.Write(body); err != nil {
		s.Logger.Debug("client left", "path", r.URL.Path, "error", err)
	}
}

// refusal is the answer to a credential without access.
type refusal struct {
	status      int
	code        string // of RFC 6750, section 3.1; empty: no other credential would help
	description string // fits into a quoted string
	scopes      []string
	text        string // of the body
	cause       error  // for the log; nil: it is not logged
}

func (r *refusal) Error() string { return r.text }

// Is makes refusals match [agent.ErrUnauthenticated].
func (r *refusal) Is(target error) bool { return target == agent.ErrUnauthenticated }

const callerWanted = "a key of this agent, or the token of a person who may act as it, is required"

// unknownCredential is the refusal of a missing or unknown credential.
func (l *login) unknownCredential() *refusal {
	r := &refusal{status: http.StatusUnauthorized, text: callerWanted, scopes: l.Tokens.CommonScopes()}
	if scheme, _, _ := strings.Cut(l.r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		r.code, r.description = "invalid_token", "the credential is not valid for this endpoint"
	}
	return r
}

// writeChallenge answers with the challenge of RFC 6750, section 3, and RFC 9728, section 5.1.
func (l *login) writeChallenge(r *refusal) {
	if _, _, presented := readCredential(l.r.Header); presented && r.status == http.StatusUnauthorized {
		l.Failures.Refuse(l.r.Context(), authfail.Endpoint)
	}
	var challenge strings.Builder
	challenge.WriteString(`Bearer resource_metadata="` + l.PublicURL + wellKnown + endpointPath(l.r.PathValue("agent")) + `"`)
	for _, parameter := range [][2]string{{"error", r.code}, {"error_description", r.description}, {"scope", strings.Join(r.scopes, " ")}} {
		if parameter[1] != "" {
			challenge.WriteString(", " + parameter[0] + `="` + parameter[1] + `"`)
		}
	}
	if r.cause != nil {
		l.Logger.Info("a token was refused", "agent", l.r.PathValue("agent"), "status", r.status, "error", r.cause)
	}
	l.w.Header().Set("WWW-Authenticate", challenge.String())
	http.Error(l.w, r.text, r.status)
}

// authenticateTokenHolder returns the caller of an access token from a configured authorization server.
func (l *login) authenticateTokenHolder(name, raw string) (caller, error) {
	token, err := l.Tokens.Verify(l.r.Context(), raw, l.resourceID(name))
	var bad *provider.TokenError
	var scopes *provider.ScopeError
	switch {
	case errors.As(err, &bad):
		return caller{}, &refusal{
			status: http.StatusUnauthorized, code: "invalid_token", description: bad.Description, scopes: l.Tokens.CommonScopes(),
			text: callerWanted + ": " + bad.Description, cause: bad,
		}
	case errors.As(err, &scopes):
		return caller{}, &refusal{
			status: http.StatusForbidden, code: "insufficient_scope", scopes: scopes.Scopes,
			text: "the token lacks scopes", cause: scopes,
		}
	case err != nil:
		return caller{}, err
	}
	if !token.MayActAs(name) {
		return caller{}, notThisAgent(errors.New("its claims map to other agents, or to none"))
	}
	a, err := l.Agents.AgentByName(l.r.Context(), name)
	if errors.Is(err, agent.ErrNotFound) {
		return caller{}, notThisAgent(err)
	}
	credential := audit.Credential{Kind: audit.AccessToken, ID: cmp.Or(token.ID, token.ClientID)}
	if err != nil || token.NoPerson {
		return caller{agent: a, credential: credential}, err
	}
	person, err := l.Identity.Vouched(l.r.Context(), identity.Claims{
		Issuer: token.Issuer, Subject: token.Subject, Name: token.Name, Email: token.Email,
	})
	var invalid *fault.InvalidError
	if errors.Is(err, identity.ErrBlocked) || errors.As(err, &invalid) {
		return caller{}, notThisAgent(err)
	}
	return caller{agent: a, principal: person, credential: credential}, err
}

// notThisAgent is the refusal of a valid token without access to this agent. No other scope would grant it.
func notThisAgent(cause error) *refusal {
	return &refusal{status: http.StatusForbidden, text: "this token may not act as this agent", cause: cause}
}
