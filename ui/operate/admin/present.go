package admin

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

func presentMemberRow(m *identity.Member) MemberRow {
	return MemberRow{
		URL: present.MemberURL(m.ID), State: memberState(m), Name: m.Name, Issuer: m.Issuer, Subject: m.Subject,
		Roles: listRoles(m), Teams: strings.Join(m.Teams, ", "), Sessions: m.Sessions, Tokens: m.Tokens, SignedInAt: m.SignedInAt,
	}
}

// memberRoles returns the roles of the person, without those that only a token or a link gives.
func memberRoles(m *identity.Member) []identity.Role {
	roles := slices.Concat(m.ClaimedRoles, m.GrantedRoles)
	slices.Sort(roles)
	return slices.Compact(roles)
}

// listRoles returns all roles of a person and marks those that only a credential gives.
func listRoles(m *identity.Member) text.Message {
	own := memberRoles(m)
	roles := present.RoleList(own)
	extra := slices.DeleteFunc(slices.Clone(m.CredentialRoles), func(role identity.Role) bool { return slices.Contains(own, role) })
	if len(extra) == 0 {
		return roles
	}
	return text.Join(", ", roles, text.MemberRolesByCredential(present.RoleList(extra)))
}

// orNone returns a message, or "none".
func orNone(m text.Message) text.Message {
	if m.IsZero() {
		return text.MemberNobody()
	}
	return m
}

// valueOrNone returns a value from outside, or "none".
func valueOrNone(value string) text.Message { return orNone(text.Literal(value)) }

func memberState(m *identity.Member) view.Badge {
	switch {
	case m.BlockedAt != nil:
		return view.Badge{Word: text.MemberBlocked(), Icon: "rejected", Level: view.Danger}
	case listRoles(m).IsZero():
		return view.Badge{Word: text.MemberNoRole(), Icon: "unknown", Level: view.Warn, Note: text.MemberNoRoleNote()}
	}
	return view.Badge{Word: text.MemberActive(), Icon: "good", Level: view.Good}
}

func presentMember(m *identity.Member, reader identity.Access) Member {
	shown := Member{
		URL: present.MemberURL(m.ID), State: memberState(m), Name: m.Name, Self: m.ID == reader.Person.ID, Blocked: m.BlockedAt != nil,
		Facts: []view.Fact{
			{Name: text.MemberIdentityProvider(), Text: text.Literal(m.Issuer), Code: true},
			{Name: text.MemberSubject(), Text: text.Literal(m.Subject), Code: true},
			{Name: text.MemberID(), Text: text.Literal(m.ID.String()), Code: true},
		},
		Grant: Grant{
			Reviewer: slices.Contains(m.GrantedRoles, identity.Reviewer), Operator: slices.Contains(m.GrantedRoles, identity.Operator),
			Teams: strings.Join(m.GrantedTeams, ", "), WasTeams: m.GrantedTeams, Limit: presentLimit(m.Limit),
		},
		New: NewToken{Action: present.MemberURL(m.ID) + "/tokens#tokens", Reviewer: reader.Has(identity.Reviewer), Operator: true},
	}
	if m.Email != "" {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.MemberEmail(), Text: text.Literal(m.Email)})
	}
	for _, role := range m.GrantedRoles {
		shown.Grant.WasRoles = append(shown.Grant.WasRoles, string(role))
	}
	shown.Facts = append(shown.Facts, view.Fact{Name: text.MemberSince(), Time: &m.CreatedAt})
	if m.SignedInAt != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.MemberLastSignIn(), Time: m.SignedInAt})
	}
	if m.BlockedAt != nil {
		shown.Facts = append(shown.Facts, view.Fact{Name: text.MemberBlocked(), Time: m.BlockedAt})
	}
	if m.LostRole != "" {
		shown.Notice = &view.Notice{Level: view.Warn, Standing: true, Title: text.MemberLostRole(string(m.LostRole)), Text: text.MemberLostRoleNote()}
	}
	if m.Issuer != identity.LocalIssuer {
		shown.Claimed = []view.Fact{
			{Name: text.MemberRoles(), Text: orNone(present.RoleList(m.ClaimedRoles))},
			{Name: text.MemberTeams(), Text: valueOrNone(strings.Join(m.ClaimedTeams, ", "))},
		}
	}
	return shown
}

func presentLimit(l *identity.Limit) Limit {
	if l == nil {
		return Limit{}
	}
	return Limit{Teams: strings.Join(l.Teams, ", "), Skills: strings.Join(l.Skills, ", "), Agents: strings.Join(l.Agents, ", ")}
}

// presentSessions shows sessions; current is the reader's.
func presentSessions(sessions []identity.Session, current uuid.UUID) []Session {
	shown := make([]Session, len(sessions))
	for i := range sessions {
		s := &sessions[i]
		shown[i] = Session{
			ID: s.ID.String(), Client: nameBrowser(s.Client), Current: s.ID == current,
			Facts: []view.Fact{
				{Name: text.SessionSignedIn(), Time: &s.CreatedAt},
				{Name: text.SessionMethod(), Text: nameMethod(s.Method)},
				{Name: text.SessionExpires(), Time: &s.ExpiresAt},
			},
		}
		shown[i].Facts = append(shown[i].Facts, proofFacts(s)...)
	}
	return shown
}

// proofFacts tell when the person last proved who they are, unless that was the sign-in.
func proofFacts(s *identity.Session) []view.Fact {
	const same = time.Minute // providers give seconds, and the redirect takes time
	switch {
	case s.AuthenticatedAt.IsZero():
		return []view.Fact{{Name: text.SessionVerified(), Text: text.SessionVerifiedUnknown()}}
	case s.AuthenticatedAt.After(s.CreatedAt):
		return []view.Fact{{Name: text.SessionVerifiedAgain(), Time: &s.AuthenticatedAt}}
	case s.CreatedAt.Sub(s.AuthenticatedAt) > same:
		return []view.Fact{{Name: text.SessionVerified(), Time: &s.AuthenticatedAt}}
	}
	return nil
}

func nameMethod(method identity.Method) text.Message {
	switch method {
	case identity.ByProvider:
		return text.SessionByProvider()
	case identity.ByLink:
		return text.SessionByLink()
	case identity.ByToken:
		return text.SessionByToken()
	default:
		return text.Literal(string(method))
	}
}

// nameBrowser returns the common name of a browser by its User-Agent. It is only shown.
func nameBrowser(agent string) text.Message {
	first := func(marks ...string) string {
		for _, mark := range marks {
			in, name, named := strings.Cut(mark, "=")
			if strings.Contains(agent, in) {
				if !named {
					name = in
				}
				return name
			}
		}
		return ""
	}
	browser := first("Edg/=Edge", "EdgA/=Edge", "OPR/=Opera", "Firefox/=Firefox", "FxiOS/=Firefox", "SamsungBrowser/=Samsung Internet",
		"CriOS/=Chrome", "HeadlessChrome/=Chrome", "Chrome/=Chrome", "Safari/=Safari")
	system := first("Android", "iPhone", "iPad", "Windows", "CrOS=ChromeOS", "Macintosh=macOS", "Linux")
	switch {
	case agent == "":
		return text.SessionUnnamedBrowser()
	case browser == "":
		return text.Literal(agent)
	case system == "":
		return text.Literal(browser)
	}
	return text.SessionBrowserOn(browser, system)
}
