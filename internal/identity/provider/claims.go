package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// nameClaims are what a person may be called by, best first.
func nameClaims() []string { return []string{"name", "preferred_username", "email"} }

// maxGroups bounds the groups of one person: real ones have hundreds.
const maxGroups = 5000

// editableClaims are those that people may change of themselves, or that a provider gives to another person later.
func editableClaims() []string {
	return []string{"name", "given_name", "family_name", "nickname", "preferred_username", "email", "upn", "phone_number"}
}

func checkIdentityClaim(claim string) error {
	if slices.Contains(editableClaims(), claim) || !printable(claim) {
		return &InvalidError{"identity_claim", fmt.Sprintf("%q: want a claim that is unique and never changes, such as sub or oid", claim)}
	}
	return nil
}

// subject is who a person is, by the claim that is configured; false if the claim is missing.
func (c claimSet) subject(sub, claim string) (string, bool) {
	if claim == "" || claim == "sub" {
		return sub, true
	}
	subject := c.text(claim)
	return subject, subject != ""
}

// verified reports whether the e-mail address is the person's, where nothing is said as the setting has it.
func (c claimSet) verified(unsaid bool) bool {
	switch said := string(c["email_verified"]); said {
	case "true", `"true"`:
		return true
	case "", "null":
		return unsaid
	}
	return false
}

// claims are what is said of a person, in this server's words.
func (p *Provider) claims(subject string, c claimSet) (identity.Claims, error) {
	groups, err := c.groups(p.cfg.GroupsClaim)
	if err != nil {
		return identity.Claims{}, err
	}
	subject, ok := c.subject(subject, p.cfg.IdentityClaim)
	if !ok {
		return identity.Claims{}, &Error{Text: "The identity provider's claim " + p.cfg.IdentityClaim + ", which says who you are here, is missing."}
	}
	return identity.Claims{
		Issuer: p.cfg.Issuer, Subject: subject, Name: c.text(nameClaims()...), Email: c.text("email"),
		EmailVerified: c.verified(p.cfg.TrustEmail), Roles: p.cfg.roles(groups), Teams: p.cfg.Teams.of(groups),
	}, nil
}

func (c *Config) roles(groups []string) []identity.Role {
	roles := slices.Clone(c.DefaultRoles)
	for role, of := range c.Roles {
		if slices.ContainsFunc(of, func(group string) bool { return slices.Contains(groups, group) }) {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func (t Teams) of(groups []string) []string {
	var teams []string
	switch {
	case len(t.Groups) > 0:
		for team, of := range t.Groups {
			if slices.ContainsFunc(of, func(group string) bool { return slices.Contains(groups, group) }) {
				teams = append(teams, team)
			}
		}
	default:
		for _, group := range groups {
			if team, ok := strings.CutPrefix(group, t.Prefix); ok && team != "" {
				teams = append(teams, team)
			}
		}
	}
	slices.Sort(teams)
	return slices.Compact(teams)
}

// find looks for a claim by its whole name, then as a path of names with dots between them.
func (c claimSet) find(name string) (json.RawMessage, bool) {
	if value, ok := c[name]; ok {
		return value, true
	}
	first, rest, dotted := strings.Cut(name, ".")
	if !dotted {
		return nil, false
	}
	inner := claimSet{}
	if json.Unmarshal(c[first], &inner) != nil {
		return nil, false
	}
	return inner.find(rest)
}

// groups reads the claim of groups: a list, or a single one.
func (c claimSet) groups(claim string) ([]string, error) {
	value, ok := c.find(claim)
	if !ok || string(value) == "null" {
		var elsewhere map[string]json.RawMessage
		if json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[claim] != nil {
			return nil, &Error{Text: "Your groups are too many for the identity provider to list. Ask its administrators to send only those that are assigned to Holdpoint."}
		}
		return nil, nil
	}
	var groups []string
	if err := json.Unmarshal(value, &groups); err != nil {
		var one string
		if json.Unmarshal(value, &one) != nil {
			return nil, &Error{Text: "The identity provider's list of your groups is no list.", Err: err}
		}
		groups = []string{one}
	}
	if len(groups) > maxGroups {
		return nil, &Error{Text: "The identity provider lists too many groups of yours."}
	}
	return groups, nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !plain.IsVisible(r) })
}
