package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
)

// TokenIssuers is the setting of the server about authorization servers whose access tokens agents' endpoints take.
type TokenIssuers struct {
	File string // empty: there are none
}

const agentOAuthConfig = "agent-oauth-config"

// Bind adds the flag to a command of the server.
func (t *TokenIssuers) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.File, agentOAuthConfig, "", "file of the authorization servers whose access tokens agents' endpoints take")
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

// Open reads the file. Nothing is asked of the servers yet. Whoever opens them closes them.
func (t *TokenIssuers) Open(getenv func(string) string, s provider.Surroundings) (_ provider.TokenIssuers, err error) {
	if t.File == "" {
		return nil, nil
	}
	text, err := os.ReadFile(t.File)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", agentOAuthConfig, err)
	}
	file, err := manifest.ParseTokenIssuers(t.File, text, manifest.Options{Getenv: getenv})
	if err != nil {
		return nil, misuse("%w", err)
	}
	var entries []issuerEntry
	if err := json.Unmarshal(file.Spec, &entries); err != nil {
		return nil, misuse("%s: %w", t.File, err)
	}
	var opened provider.TokenIssuers
	defer func() {
		if err != nil {
			for _, one := range opened {
				one.Close()
			}
		}
	}()
	for i := range entries {
		made, err := openIssuer(&entries[i], opened, s)
		if invalid, ok := errors.AsType[*provider.InvalidError](err); ok {
			err = misuse("%w", file.Locate(fmt.Sprintf("[%d].%s", i, invalid.Field), invalid.Expected))
		}
		if err != nil {
			return nil, err
		}
		opened = append(opened, made)
	}
	return opened, nil
}

// openIssuer makes one, beside those that are there.
func openIssuer(e *issuerEntry, there provider.TokenIssuers, s provider.Surroundings) (*provider.TokenIssuer, error) {
	for _, other := range there {
		if other.Issuer() == e.Issuer {
			return nil, &provider.InvalidError{Field: "issuer", Expected: "another entry has it"}
		}
	}
	if e.Principal != "" && e.Principal != "subject" && e.Principal != "none" {
		return nil, &provider.InvalidError{Field: "principal", Expected: "want subject or none"}
	}
	return provider.NewTokenIssuer(provider.TokenConfig{
		Issuer: e.Issuer, Audience: e.Audience, IdentityClaim: e.IdentityClaim, Scopes: e.Scopes, AgentClaim: e.AgentClaim, Agents: e.Agents,
		NoPerson: e.Principal == "none", ServiceClients: e.ServiceClients,
	}, s)
}
