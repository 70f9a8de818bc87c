package agent

import (
	"net/textproto"

	"github.com/google/uuid"
)

// IdentityHeaders are headers that name the agent, call and principal to a skill's server. The zero value sends none.
type IdentityHeaders struct {
	Enabled   bool   `json:"enabled" doc:"Whether requests have these headers." manifest:"required,short"`
	Agent     string `json:"agent,omitempty" doc:"The header with the agent's name. Omitted: X-Holdpoint-Agent." otherwise:"X-Holdpoint-Agent"`
	Call      string `json:"call,omitempty" doc:"The header with the call's id. Requests other than calls do not have it. Omitted: X-Holdpoint-Call." otherwise:"X-Holdpoint-Call"`
	Principal string `json:"principal,omitempty" doc:"The header with the person on whose behalf the call is made, if there is one. Omitted: X-Holdpoint-Principal." otherwise:"X-Holdpoint-Principal"`
}

// The default names of the identity headers.
const (
	HeaderAgent     = "X-Holdpoint-Agent"
	HeaderCall      = "X-Holdpoint-Call"
	HeaderPrincipal = "X-Holdpoint-Principal"
)

// normalizeIdentityHeaders fills in default names. Disabled headers have no names.
func normalizeIdentityHeaders(h *IdentityHeaders) IdentityHeaders {
	if h == nil || !h.Enabled {
		return IdentityHeaders{}
	}
	name := func(given, otherwise string) string {
		if given == "" {
			given = otherwise
		}
		return textproto.CanonicalMIMEHeaderKey(given)
	}
	return IdentityHeaders{
		Enabled: true, Agent: name(h.Agent, HeaderAgent), Call: name(h.Call, HeaderCall), Principal: name(h.Principal, HeaderPrincipal),
	}
}

// validate refuses names with another meaning. own are the skill's headers.
func (h *IdentityHeaders) validate(r report, own map[string]string) {
	if !h.Enabled {
		return
	}
	seen := map[string]bool{}
	for _, f := range listIdentityHeaders(*h) {
		member := f.name[len("identity_headers."):]
		_, taken := own[f.value]
		switch {
		case !headerForm.MatchString(f.value):
			r.add(member, "is not a valid name of an HTTP header")
		case isReservedHeader(f.value), f.value == "Authorization", f.value == "Cookie":
			r.add(member, "is a header with another meaning")
		case taken:
			r.add(member, "is among the skill's headers")
		case seen[f.value]:
			r.add(member, "is named twice")
		}
		seen[f.value] = true
	}
}

func listIdentityHeaders(h IdentityHeaders) []field {
	if !h.Enabled {
		return nil
	}
	return []field{
		{name: "identity_headers.agent", value: h.Agent},
		{name: "identity_headers.call", value: h.Call},
		{name: "identity_headers.principal", value: h.Principal},
	}
}

// Of returns the headers of one request, or nil if they are disabled. Call is uuid.Nil in requests that are not a call, and
// principal is empty without a person; see [identity.PrincipalName].
func (h *IdentityHeaders) Of(agent string, call uuid.UUID, principal string) map[string]string {
	if !h.Enabled {
		return nil
	}
	headers := map[string]string{h.Agent: agent}
	if call != uuid.Nil {
		headers[h.Call] = call.String()
	}
	if principal != "" {
		headers[h.Principal] = principal
	}
	return headers
}
