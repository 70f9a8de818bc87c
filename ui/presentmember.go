package ui

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/view"
)

func memberURL(id uuid.UUID) string { return "/members/" + id.String() }

func presentMemberRow(m *identity.Member) view.MemberRow {
	return view.MemberRow{
		URL: memberURL(m.ID), State: memberState(m), Name: m.Name, Issuer: m.Issuer, Subject: m.Subject,
		Roles: rolesOf(m), Teams: strings.Join(m.Teams, ", "), Sessions: m.Sessions, Tokens: m.Tokens, SignedInAt: m.SignedInAt,
	}
}

// memberRoles are those of the person, without those that only a token or a link gives.
func memberRoles(m *identity.Member) []identity.Role {
	roles := slices.Concat(m.ClaimedRoles, m.GrantedRoles)
	slices.Sort(roles)
	return slices.Compact(roles)
}

// rolesOf are all roles of a person; those that only a credential of theirs gives are said to be that.
func rolesOf(m *identity.Member) string {
	own := memberRoles(m)
	text := roleList(own)
	extra := slices.DeleteFunc(slices.Clone(m.CredentialRoles), func(role identity.Role) bool { return slices.Contains(own, role) })
	if len(extra) == 0 {
		return text
	}
	if text != "" {
		text += ", "
	}
	return text + roleList(extra) + " by token or link"
}

func memberState(m *identity.Member) view.Badge {
	switch {
	case m.BlockedAt != nil:
		return view.Badge{Word: "Blocked", Icon: "rejected", Level: view.Danger}
	case rolesOf(m) == "":
		return view.Badge{Word: "No role", Icon: "unknown", Level: view.Warn, Note: "nothing that they have lets them in"}
	}
	return view.Badge{Word: "Member", Icon: "good", Level: view.Good}
}

func roleList(roles []identity.Role) string {
	list := make([]string, len(roles))
	for i, role := range roles {
		list[i] = string(role)
	}
	return strings.Join(list, ", ")
}

func presentMember(m *identity.Member, reader identity.Access) view.Member {
	shown := view.Member{
		URL: memberURL(m.ID), State: memberState(m), Name: m.Name, Self: m.ID == reader.Person.ID, Blocked: m.BlockedAt != nil,
		Facts: []view.Fact{
			{Name: "Known by", Text: m.Issuer, Code: true}, {Name: "As", Text: m.Subject, Code: true}, {Name: "Id here", Text: m.ID.String(), Code: true},
		},
		Grant: view.Grant{
			Reviewer: slices.Contains(m.GrantedRoles, identity.Reviewer), Operator: slices.Contains(m.GrantedRoles, identity.Operator),
			Teams: strings.Join(m.GrantedTeams, ", "), WasTeams: m.GrantedTeams,
		},
		New: view.NewToken{Action: memberURL(m.ID) + "/tokens#tokens", Reviewer: reader.Has(identity.Reviewer), Operator: true},
	}
	if m.Email != "" {
		shown.Facts = append(shown.Facts, view.Fact{Name: "E-mail", Text: m.Email})
	}
	for _, role := range m.GrantedRoles {
		shown.Grant.WasRoles = append(shown.Grant.WasRoles, string(role))
	}
	shown.Facts = append(shown.Facts, view.Fact{Name: "Here since", Time: &m.CreatedAt})
	if m.SignedInAt != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: "Signed in last", Time: m.SignedInAt})
	}
	if m.BlockedAt != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: "Blocked", Time: m.BlockedAt})
	}
	if m.Issuer != identity.LocalIssuer {
		shown.Claimed = []view.Fact{
			{Name: "Roles", Text: orNothing(roleList(m.ClaimedRoles))}, {Name: "Teams", Text: orNothing(strings.Join(m.ClaimedTeams, ", "))},
		}
	}
	return shown
}

func orNothing(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func (u *UI) presentTokens(tokens []identity.Token) []view.TokenRow {
	rows := make([]view.TokenRow, len(tokens))
	for i := range tokens {
		t := &tokens[i]
		rows[i] = view.TokenRow{
			ID: t.ID.String(), Hint: t.Hint, Roles: roleList(t.Roles), Agents: orNothing(strings.Join(t.Agents, ", ")), Created: t.CreatedAt, Ends: t.ExpiresAt, EndsSoon: u.cfg.Identity.EndsSoon(t.ExpiresAt),
		}
		if slices.Contains(t.Agents, identity.AnyAgent) {
			rows[i].Agents = "every agent"
		}
	}
	return rows
}
