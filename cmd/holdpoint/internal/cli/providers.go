package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
)

// Providers is the setting of the server about identity providers that people sign in with.
type Providers struct {
	File string // empty: there are none
}

// Bind adds the flag to a command of the server.
func (p *Providers) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.File, "oidc-config", "", "file of the OpenID Connect providers that people sign in with")
}

// providerEntry is a provider in the file.
type providerEntry struct {
	Name          string   `json:"name"`
	Issuer        string   `json:"issuer"`
	ClientID      string   `json:"client_id"`
	ClientSecret  string   `json:"client_secret"`
	Scopes        []string `json:"scopes"`
	GroupsClaim   string   `json:"groups_claim"`
	IdentityClaim string   `json:"identity_claim"`
	TrustEmail    bool     `json:"trust_email"`
	Session       string   `json:"session"`
	Roles         struct {
		Reviewer []string `json:"reviewer"`
		Operator []string `json:"operator"`
	} `json:"roles"`
	DefaultRoles []identity.Role `json:"default_roles"`
	Teams        struct {
		Prefix string              `json:"prefix"`
		Groups map[string][]string `json:"groups"`
	} `json:"teams"`
}

// Open reads the file and makes the providers. Nothing is asked of them yet. Whoever opens them closes them.
func (p *Providers) Open(getenv func(string) string, s provider.Surroundings) (_ []*provider.Provider, err error) {
	if p.File == "" {
		return nil, nil
	}
	text, err := os.ReadFile(p.File)
	if err != nil {
		return nil, fmt.Errorf("--oidc-config: %w", err)
	}
	file, err := manifest.ParseProviders(p.File, text, manifest.Options{Getenv: getenv})
	if err != nil {
		return nil, misuse("%w", err)
	}
	var entries []providerEntry
	if err := json.Unmarshal(file.Spec, &entries); err != nil {
		return nil, misuse("%s: %w", p.File, err)
	}
	var opened []*provider.Provider
	defer func() {
		if err != nil {
			for _, one := range opened {
				one.Close()
			}
		}
	}()
	for i := range entries {
		made, err := open(&entries[i], opened, s)
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

// open makes one provider, beside those that are there.
func open(e *providerEntry, there []*provider.Provider, s provider.Surroundings) (*provider.Provider, error) {
	for _, other := range there {
		if other.Name() == e.Name {
			return nil, &provider.InvalidError{Field: "name", Expected: "another provider has it"}
		}
		if other.Issuer() == e.Issuer {
			return nil, &provider.InvalidError{Field: "issuer", Expected: "another provider has it"}
		}
	}
	cfg := provider.Config{
		Name: e.Name, Issuer: e.Issuer, ClientID: e.ClientID, ClientSecret: e.ClientSecret, Scopes: e.Scopes, GroupsClaim: e.GroupsClaim, IdentityClaim: e.IdentityClaim, TrustEmail: e.TrustEmail,
		Roles: map[identity.Role][]string{}, DefaultRoles: e.DefaultRoles, Teams: provider.Teams{Prefix: e.Teams.Prefix, Groups: e.Teams.Groups},
	}
	for role, groups := range map[identity.Role][]string{identity.Reviewer: e.Roles.Reviewer, identity.Operator: e.Roles.Operator} {
		if len(groups) > 0 {
			cfg.Roles[role] = groups
		}
	}
	for _, role := range e.DefaultRoles {
		if !slices.Contains([]identity.Role{identity.Reviewer, identity.Operator}, role) {
			return nil, &provider.InvalidError{Field: "default_roles", Expected: fmt.Sprintf("%q is neither reviewer nor operator", role)}
		}
	}
	if e.Session != "" {
		session, err := time.ParseDuration(e.Session)
		if err != nil {
			return nil, &provider.InvalidError{Field: "session", Expected: err.Error()}
		}
		cfg.Session = session
	}
	return provider.New(cfg, s)
}
