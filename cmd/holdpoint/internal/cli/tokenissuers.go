package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
)

// TokenIssuers is the server's setting of authorization servers whose access tokens agents' endpoints accept.
type TokenIssuers struct {
	File string // empty: there are none
}

const agentOAuthConfig = "agent-oauth-config"

// Bind adds the flag to a command of the server.
func (t *TokenIssuers) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.File, agentOAuthConfig, "", "file of the authorization servers whose access tokens agents' endpoints accept")
}

// issuerEntry is an authorization server in the file.
type issuerEntry struct {
	Issuer         string              `json:"issuer"`
	Audience       string              `json:"audience"`
	IdentityClaim  string              `json:"identity_claim"`
	Scopes         []string            `json:"scopes"`
	AgentClaim     string              `json:"agent_claim"`
	Agents         map[string][]string `json:"agents"`
	Principal      string              `json:"principal"`
	ServiceClients []string            `json:"service_clients"`
}

// Open reads the file and makes the issuers, without contacting them. The caller closes them.
func (t *TokenIssuers) Open(getenv func(string) string, s provider.Surroundings) (provider.TokenIssuers, error) {
	return openEntries(agentOAuthConfig, t.File, manifest.ParseTokenIssuers, getenv, func(e *issuerEntry, opened []*provider.TokenIssuer) (*provider.TokenIssuer, error) {
		return openIssuer(e, opened, s)
	})
}

// openIssuer makes an issuer that differs from the others.
func openIssuer(e *issuerEntry, there provider.TokenIssuers, s provider.Surroundings) (*provider.TokenIssuer, error) {
	for _, other := range there {
		if other.Issuer() == e.Issuer {
			return nil, fault.Invalid("issuer", "another entry has it")
		}
	}
	if e.Principal != "" && e.Principal != "subject" && e.Principal != "none" {
		return nil, fault.Invalid("principal", "must be subject or none")
	}
	return provider.NewTokenIssuer(provider.TokenConfig{
		Issuer: e.Issuer, Audience: e.Audience, IdentityClaim: e.IdentityClaim, Scopes: e.Scopes, AgentClaim: e.AgentClaim, Agents: e.Agents,
		NoPerson: e.Principal == "none", ServiceClients: e.ServiceClients,
	}, s)
}
