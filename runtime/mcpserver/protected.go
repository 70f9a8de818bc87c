package mcpserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Each endpoint is a protected resource of OAuth 2.1 (RFC 9728, RFC 6750). Its identifier is its URL.

const wellKnown = "/.well-known/oauth-protected-resource"

func endpoint(agentName string) string { return "/agents/" + url.PathEscape(agentName) + "/mcp" }

// resource is the identifier of an agent's endpoint.
func (s *Server) resource(agentName string) string { return s.PublicURL + endpoint(agentName) }

// resourceMetadata is the document of RFC 9728. It says nothing of whether there is such an agent.
func (s *Server) resourceMetadata(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("agent")
	document := map[string]any{
		"resource":                 s.resource(name),
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

// refusal is a credential that does not let its holder in, as the client is told.
type refusal struct {
	status      int
	code        string // of RFC 6750, section 3.1; empty: there is nothing to mend
	description string // fits into a quoted string
	scopes      []string
	text        string // of the body
	cause       error  // for the log; nil: there is nothing to say
}

func (r *refusal) Error() string { return r.text }

// Is makes it what it is to whoever only asks whether the credential is still one.
func (r *refusal) Is(target error) bool { return target == agent.ErrUnauthenticated }

const callerWanted = "a key of this agent, or the token of a person who may act as it, is required"

// unknownCredential is that there is none, or one that nobody knows.
func (x *exchange) unknownCredential() *refusal {
	r := &refusal{status: http.StatusUnauthorized, text: callerWanted, scopes: x.Tokens.CommonScopes()}
	if scheme, _, _ := strings.Cut(x.r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		r.code, r.description = "invalid_token", "this is no credential of this endpoint"
	}
	return r
}

// turnAway answers with the challenge of RFC 6750, section 3, and RFC 9728, section 5.1.
func (x *exchange) turnAway(r *refusal) {
	if _, _, presented := credential(x.r.Header); presented && r.status == http.StatusUnauthorized {
		x.Failures.Refuse(x.r.Context(), authfail.Endpoint)
	}
	var challenge strings.Builder
	challenge.WriteString(`Bearer resource_metadata="` + x.PublicURL + wellKnown + endpoint(x.r.PathValue("agent")) + `"`)
	for _, parameter := range [][2]string{{"error", r.code}, {"error_description", r.description}, {"scope", strings.Join(r.scopes, " ")}} {
		if parameter[1] != "" {
			challenge.WriteString(", " + parameter[0] + `="` + parameter[1] + `"`)
		}
	}
	if r.cause != nil {
		x.Logger.Info("a token was refused", "agent", x.r.PathValue("agent"), "status", r.status, "error", r.cause)
	}
	x.w.Header().Set("WWW-Authenticate", challenge.String())
	http.Error(x.w, r.text, r.status)
}

// asTokenHolder is the caller with an access token of an authorization server that is configured.
func (x *exchange) asTokenHolder(name, raw string) (caller, error) {
	token, err := x.Tokens.Verify(x.r.Context(), raw, x.resource(name))
	if err != nil {
		return caller{}, x.notAccepted(err)
	}
	if !token.MayActAs(name) {
		return caller{}, mayNot(errors.New("its claims map to other agents, or to none"))
	}
	a, err := x.Agents.AgentByName(x.r.Context(), name)
	if errors.Is(err, agent.ErrNotFound) {
		return caller{}, mayNot(err)
	}
	credential := audit.Credential{Kind: audit.AccessToken, ID: cmp.Or(token.ID, token.ClientID)}
	if err != nil || token.NoPerson {
		return caller{agent: a, credential: credential}, err
	}
	person, err := x.Identity.Vouched(x.r.Context(), identity.Claims{
		Issuer: token.Issuer, Subject: token.Subject, Name: token.Name, Email: token.Email,
	})
	var invalid *identity.InvalidError
	if errors.Is(err, identity.ErrBlocked) || errors.As(err, &invalid) {
		return caller{}, mayNot(err)
	}
	return caller{agent: a, principal: person, credential: credential}, err
}

// mayNot is a token that is good, and not for this. No other scope would make it so.
func mayNot(cause error) *refusal {
	return &refusal{status: http.StatusForbidden, text: "this token may not act as this agent", cause: cause}
}

func (x *exchange) notAccepted(err error) error {
	var bad *provider.TokenError
	var scopes *provider.ScopeError
	switch {
	case errors.As(err, &bad):
		return &refusal{
			status: http.StatusUnauthorized, code: "invalid_token", description: bad.Description, scopes: x.Tokens.CommonScopes(),
			text: callerWanted + ": " + bad.Description, cause: bad,
		}
	case errors.As(err, &scopes):
		return &refusal{
			status: http.StatusForbidden, code: "insufficient_scope", scopes: scopes.Scopes,
			text: "the token lacks scopes", cause: scopes,
		}
	}
	return err
}
