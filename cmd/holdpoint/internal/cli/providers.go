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
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider"
)

// Providers is the server's setting of identity providers for people.
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

// Open reads the file and makes the providers, without contacting them. The caller closes them.
func (p *Providers) Open(getenv func(string) string, s provider.Surroundings) ([]*provider.Provider, error) {
	return openEntries("oidc-config", p.File, manifest.ParseProviders, getenv, func(e *providerEntry, opened []*provider.Provider) (*provider.Provider, error) {
		return openProvider(e, opened, s)
	})
}

// openEntries reads a file of a flag and opens each of its entries. It locates errors about fields of an entry in the file.
func openEntries[E any, P interface{ Close() }](
	flag, path string, parse func(string, []byte, manifest.Options) (*manifest.Manifest, error), getenv func(string) string,
	open func(e *E, opened []P) (P, error),
) (opened []P, err error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	file, err := parse(path, text, manifest.Options{Getenv: getenv})
	if err != nil {
		return nil, misusef("%w", err)
	}
	var entries []E
	if err := json.Unmarshal(file.Spec, &entries); err != nil {
		return nil, misusef("%s: %w", path, err)
	}
	for i := range entries {
		one, err := open(&entries[i], opened)
		if invalid, ok := errors.AsType[*fault.InvalidError](err); ok {
			err = misusef("%w", file.Locate(fmt.Sprintf("[%d].%s", i, invalid.Fields[0].Name), invalid.Fields[0].Expected))
		}
		if err != nil {
			for _, earlier := range opened {
				earlier.Close()
			}
			return nil, err
		}
		opened = append(opened, one)
	}
	return opened, nil
}

// openProvider makes a provider that differs from the others.
func openProvider(e *providerEntry, there []*provider.Provider, s provider.Surroundings) (*provider.Provider, error) {
	for _, other := range there {
		if other.Name() == e.Name {
			return nil, fault.Invalid("name", "another provider has it")
		}
		if other.Issuer() == e.Issuer {
			return nil, fault.Invalid("issuer", "another provider has it")
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
			return nil, fault.Invalid("default_roles", fmt.Sprintf("%q is neither reviewer nor operator", role))
		}
	}
	if e.Session != "" {
		session, err := time.ParseDuration(e.Session)
		if err != nil {
			return nil, fault.Invalid("session", err.Error())
		}
		cfg.Session = session
	}
	return provider.New(cfg, s)
}
