package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
)

// nameClaims returns the claims with a person's name, the preferred first.
func nameClaims() []string { return []string{"name", "preferred_username", "email"} }

// maxGroups bounds the groups of a person. Real people have hundreds.
const maxGroups = 5000

// editableClaims returns claims that people can change themselves, or that a provider may later give to another person.
func editableClaims() []string {
	return []string{"name", "given_name", "family_name", "nickname", "preferred_username", "email", "upn", "phone_number"}
}

func checkIdentityClaim(claim string) error {
	if slices.Contains(editableClaims(), claim) || !isPrintable(claim) {
		return fault.Invalid("identity_claim", fmt.Sprintf("%q: must be a claim that is unique and never changes, such as sub or oid", claim))
	}
	return nil
}

// subjectClaim returns the value of the configured identity claim; false: the claim is missing.
func (c claimSet) subjectClaim(sub, claim string) (string, bool) {
	if claim == "" || claim == "sub" {
		return sub, true
	}
	subject := c.textClaim(claim)
	return subject, subject != ""
}

// hasVerifiedEmail reports whether the email address is verified. unsaid is the result without the claim email_verified.
func (c claimSet) hasVerifiedEmail(unsaid bool) bool {
	switch said := string(c["email_verified"]); said {
	case "true", `"true"`:
		return true
	case "", "null":
		return unsaid
	}
	return false
}

func (p *Provider) buildClaims(subject string, c claimSet) (identity.Claims, error) {
	groups, err := c.groupNames(p.cfg.GroupsClaim)
	if err != nil {
		return identity.Claims{}, err
	}
	subject, ok := c.subjectClaim(subject, p.cfg.IdentityClaim)
	if !ok {
		return identity.Claims{}, &Error{Text: "The identity provider's claim " + p.cfg.IdentityClaim + ", which says who you are here, is missing."}
	}
	return identity.Claims{
		Issuer: p.cfg.Issuer, Subject: subject, Name: c.textClaim(nameClaims()...), Email: c.textClaim("email"),
		EmailVerified: c.hasVerifiedEmail(p.cfg.TrustEmail), Roles: p.cfg.rolesFor(groups), Teams: p.cfg.Teams.teamsFor(groups),
	}, nil
}

func (c *Config) rolesFor(groups []string) []identity.Role {
	roles := slices.Clone(c.DefaultRoles)
	for role, of := range c.Roles {
		if slices.ContainsFunc(of, func(group string) bool { return slices.Contains(groups, group) }) {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func (t Teams) teamsFor(groups []string) []string {
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

// findClaim finds a claim by its whole name, or else by its name as a dotted path.
func (c claimSet) findClaim(name string) (json.RawMessage, bool) {
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
	return inner.findClaim(rest)
}

// groupNames reads the groups claim: a list or a single string.
func (c claimSet) groupNames(claim string) ([]string, error) {
	value, ok := c.findClaim(claim)
	if !ok || string(value) == "null" {
		var elsewhere map[string]json.RawMessage
		if json.Unmarshal(c["_claim_names"], &elsewhere) == nil && elsewhere[claim] != nil {
			return nil, &Error{Text: "You have too many groups for the identity provider to list. Ask its administrators to send only those that are assigned to Holdpoint."}
		}
		return nil, nil
	}
	var groups []string
	if err := json.Unmarshal(value, &groups); err != nil {
		var one string
		if json.Unmarshal(value, &one) != nil {
			return nil, &Error{Text: "The identity provider sent your groups in an unknown form.", Err: err}
		}
		groups = []string{one}
	}
	if len(groups) > maxGroups {
		return nil, &Error{Text: "You have too many groups at the identity provider."}
	}
	return groups, nil
}

func isPrintable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !plain.IsVisible(r) })
}
