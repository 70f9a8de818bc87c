package identity_test

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/clientaddr"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// newLocalService returns a service without identity providers.
func newLocalService(t *testing.T, db *postgres.DB, bootstrap string, ttl time.Duration) *identity.Service {
	t.Helper()
	s, err := identity.New(identity.Config{
		Pool: db.Pool(), BootstrapToken: bootstrap, TokenTTL: ttl, Logger: slog.New(slog.DiscardHandler), Now: time.Now,
	})
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

func invitePerson(t *testing.T, s *identity.Service, by uuid.UUID, name string, list ...identity.Role) identity.Access {
	t.Helper()
	_, secret, err := s.Invite(t.Context(), audit.Person(by), identity.NewInvitation{Name: name, Roles: list})
	check(t, err)
	made, err := s.Redeem(t.Context(), secret)
	check(t, err)
	access, err := s.Authenticate(t.Context(), made.Secret)
	check(t, err)
	return access
}

// The holder of the bootstrap token can create one linked person.
func TestFirstPerson(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newLocalService(t, db, bootToken, 0)
	boot, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	made, err := s.CreateFirstToken(t.Context(), boot, "rita", listRoles(identity.Reviewer), nil)
	check(t, err)
	if made.Person.Name != "rita" || !made.Person.First || !made.Person.Verified() {
		t.Errorf("made %+v", made.Person)
	}
	if same, err := identity.Same(t.Context(), db.Pool(), made.Person.ID, boot.Person.ID); err != nil || !same {
		t.Errorf("the first person is not the bootstrap token's: %v", err)
	}
	if _, err := s.CreateFirstToken(t.Context(), boot, "alice", listRoles(identity.Reviewer), nil); !errors.Is(err, identity.ErrNotFirst) {
		t.Errorf("a token for a second person: %v", err)
	}
	rita, err := s.Authenticate(t.Context(), made.Secret)
	check(t, err)
	if _, err := s.CreateFirstToken(t.Context(), rita, "rita", listRoles(identity.Operator), nil); !errors.Is(err, identity.ErrOtherPerson) {
		t.Errorf("a first token without the bootstrap token: %v", err)
	}
	operator := identity.MemberChange{Roles: &[]identity.Role{identity.Operator}}
	if _, err := s.ChangeMember(t.Context(), audit.Person(boot.Person.ID), rita.Person.ID, operator); err != nil {
		t.Errorf("the first person's role by the bootstrap token: %v", err)
	}
	if first, err := s.FirstPerson(t.Context()); err != nil || first.ID != rita.Person.ID {
		t.Errorf("first person %+v, %v", first, err)
	}
	invitePerson(t, s, boot.Person.ID, "olga", identity.Operator)
	if _, err := s.FirstPerson(t.Context()); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("first person beside a second operator: %v", err)
	}
	if _, err := s.CreateFirstToken(t.Context(), boot, "rita", listRoles(identity.Operator), nil); !errors.Is(err, identity.ErrNotFirst) {
		t.Errorf("the first person's token beside a second operator: %v", err)
	}
	both := identity.MemberChange{Roles: &[]identity.Role{identity.Operator, identity.Reviewer}}
	if _, err := s.ChangeMember(t.Context(), audit.Person(boot.Person.ID), rita.Person.ID, both); !errors.Is(err, identity.ErrSelfGrant) {
		t.Errorf("the first person's role beside a second operator: %v", err)
	}
}

// Operators cannot add a role or an agent to themselves, directly or through people whom they invited.
func TestNobodyGrantsThemselves(t *testing.T) {
	t.Parallel()
	s := newLocalService(t, postgrestest.New(t), bootToken, 0)
	boot, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	olga := invitePerson(t, s, boot.Person.ID, "olga", identity.Operator)
	puppet := invitePerson(t, s, olga.Person.ID, "puppet", identity.Operator)
	inner := invitePerson(t, s, puppet.Person.ID, "inner", identity.Operator)
	other := invitePerson(t, s, boot.Person.ID, "omar", identity.Operator)
	reviewer := identity.MemberChange{Roles: &[]identity.Role{identity.Reviewer}}
	agents := identity.MemberChange{Agents: &[]string{"billing"}}
	for name, by := range map[string]identity.Access{"herself": olga, "one she invited": puppet, "one that one invited": inner} {
		for _, change := range []identity.MemberChange{reviewer, agents} {
			if _, err := s.ChangeMember(t.Context(), audit.Person(by.Person.ID), olga.Person.ID, change); !errors.Is(err, identity.ErrSelfGrant) {
				t.Errorf("granted by %s: %v", name, err)
			}
		}
	}
	if m, err := s.ChangeMember(t.Context(), audit.Person(other.Person.ID), olga.Person.ID, reviewer); err != nil || len(m.GrantedRoles) != 1 {
		t.Errorf("granted by another operator: %+v, %v", m, err)
	}
	if _, err := s.CreateOwnToken(t.Context(), olga, listRoles(identity.Reviewer), nil); err == nil {
		t.Error("a token of one's own with a role that one lacks")
	}
	narrow, err := s.CreateOwnToken(t.Context(), olga, nil, []string{"billing"})
	check(t, err)
	access, err := s.Authenticate(t.Context(), narrow.Secret)
	check(t, err)
	for _, agents := range [][]string{nil, {"*"}, {"other"}} {
		wider, err := s.CreateOwnToken(t.Context(), access, nil, agents)
		if err == nil {
			if got, err := s.Authenticate(t.Context(), wider.Secret); err != nil || got.MayActAs("other") {
				t.Errorf("a token for %v made of one for billing acts as %v (%v)", agents, got.Agents, err)
			}
		}
	}
}

func TestInvitations(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newLocalService(t, db, bootToken, 0)
	boot, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	by := audit.Person(boot.Person.ID)
	made, secret, err := s.Invite(t.Context(), by, identity.NewInvitation{Name: "rita", Roles: listRoles(identity.Reviewer), Agents: []string{"billing"}})
	check(t, err)
	token, err := s.Redeem(clientaddr.WithAddr(t.Context(), netip.MustParseAddr("192.0.2.7")), secret)
	check(t, err)
	if token.Person.InvitedBy != boot.Person.ID || token.Person.Verified() {
		t.Errorf("redeemed by %+v", token.Person)
	}
	if _, err := s.Redeem(t.Context(), secret); !errors.Is(err, identity.ErrInvitation) {
		t.Errorf("redeemed twice: %v", err)
	}
	events, err := audit.List(t.Context(), db.Pool(), audit.Filter{Action: "invitation.redeemed"})
	if err != nil || len(events) != 1 || events[0].Origin != (audit.Origin{Credential: audit.Credential{Kind: audit.Invitation, ID: made.ID.String()}, Address: "192.0.2.7"}) {
		t.Errorf("audit %+v, %v", events, err)
	}
	olga := invitePerson(t, s, boot.Person.ID, "olga", identity.Operator)
	for _, name := range []string{"rita", "olga"} { // invited by another person, or by no one
		_, _, err := s.Invite(t.Context(), audit.Person(olga.Person.ID), identity.NewInvitation{Name: name, Roles: listRoles(identity.Reviewer)})
		if _, ok := errors.AsType[*identity.KnownError](err); !ok {
			t.Errorf("%s invited again by another person: %v", name, err)
		}
	}
	created, err := audit.List(t.Context(), db.Pool(), audit.Filter{Action: "person.created", Subject: token.Person.ID})
	if err != nil || len(created) != 1 || created[0].Actor != by || created[0].Origin != (audit.Origin{}) {
		t.Errorf("the inviter's part has the client of the invited person: %+v, %v", created, err)
	}
	// The same inviter may invite again, which ends the earlier credentials.
	was, err := s.Authenticate(t.Context(), token.Secret)
	check(t, err)
	session, err := s.BeginSession(t.Context(), was, identity.NewSession{Client: "Firefox", Lifetime: time.Hour})
	check(t, err)
	invitePerson(t, s, boot.Person.ID, "rita", identity.Reviewer)
	if _, err := s.Authenticate(t.Context(), token.Secret); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("the token of before: %v", err)
	}
	if _, err := s.SessionAccess(t.Context(), session.ID); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("the session of before: %v", err)
	}
	var invalid *fault.InvalidError
	for field, wrong := range map[string]identity.NewInvitation{
		"name": {Name: " x", Roles: listRoles(identity.Reviewer)}, "roles": {Name: "x"}, "issuer": {Name: "x", Roles: listRoles(identity.Reviewer), Email: "x@example.com"},
		"ttl": {Name: "x", Roles: listRoles(identity.Reviewer), TTL: 365 * 24 * time.Hour},
	} {
		if _, _, err := s.Invite(t.Context(), by, wrong); !errors.As(err, &invalid) || invalid.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, end := range map[string]func(identity.Invitation){
		"late":    func(identity.Invitation) { advanceSessions(t, db, "73 hours") },
		"revoked": func(i identity.Invitation) { check(t, s.RevokeInvitation(t.Context(), by, i.ID)) },
	} {
		i, secret, err := s.Invite(t.Context(), by, identity.NewInvitation{Name: name, Roles: listRoles(identity.Reviewer)})
		check(t, err)
		end(i)
		if _, err := s.Redeem(t.Context(), secret); !errors.Is(err, identity.ErrInvitation) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// With an identity provider, the account in the invitation must match.
func TestInvitationsOfProviders(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), bootToken)
	boot, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	by := audit.Person(boot.Person.ID)
	var invalid *fault.InvalidError
	if _, _, err := s.Invite(t.Context(), by, identity.NewInvitation{Name: "Vera", Roles: listRoles(identity.Reviewer)}); !errors.As(err, &invalid) {
		t.Errorf("an invitation for nobody in particular: %v", err)
	}
	invite := func() string {
		_, secret, err := s.Invite(t.Context(), by, identity.NewInvitation{Name: "Vera", Email: "Vera.S@example.com", Roles: listRoles(identity.Reviewer)})
		check(t, err)
		return secret
	}
	secret := invite()
	if _, err := s.Redeem(t.Context(), secret); !errors.Is(err, identity.ErrInvitedByProvider) {
		t.Errorf("redeemed without the provider: %v", err)
	}
	begin := identity.NewSession{Client: "Firefox", Lifetime: time.Hour}
	for name, wrong := range map[string]identity.Claims{
		"another address":  {Issuer: issuer, Subject: "m1", Email: "mallory@example.com", EmailVerified: true},
		"a look-alike":     {Issuer: issuer, Subject: "m2", Email: "vera.ſ@example.com", EmailVerified: true},
		"no address":       {Issuer: issuer, Subject: "vera@example.com", EmailVerified: true},
		"another provider": {Issuer: issuer + "/other", Subject: "m3", Email: "vera.s@example.com", EmailVerified: true},
	} {
		if _, err := s.SignInInvited(t.Context(), wrong, secret, begin); !errors.Is(err, identity.ErrInvitedOther) {
			t.Errorf("%s: %v", name, err)
		}
	}
	vera := identity.Claims{Issuer: issuer, Subject: "v1", Name: "Vera", Email: "vera.s@example.com"}
	if _, err := s.SignInInvited(t.Context(), vera, secret, begin); !errors.Is(err, identity.ErrUnverifiedEmail) {
		t.Errorf("an address that the provider does not call verified: %v", err)
	}
	vera.EmailVerified = true
	session, err := s.SignInInvited(t.Context(), vera, secret, begin)
	check(t, err)
	access, err := s.SessionAccess(t.Context(), session.ID)
	if err != nil || !access.Has(identity.Reviewer) || !access.Person.Verified() {
		t.Errorf("access %+v, %v", access, err)
	}
	if _, err := s.SignInInvited(t.Context(), vera, secret, begin); !errors.Is(err, identity.ErrInvitation) {
		t.Errorf("redeemed twice: %v", err)
	}
}

func TestTokensEnd(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newLocalService(t, db, "", 20*24*time.Hour)
	_, token, err := s.CreateToken(t.Context(), uuid.Nil, "vera", listRoles(identity.Reviewer), nil)
	check(t, err)
	access, err := s.Authenticate(t.Context(), token)
	check(t, err)
	session, err := s.BeginSession(t.Context(), access, identity.NewSession{Lifetime: 365 * 24 * time.Hour})
	check(t, err)
	if ending, err := s.EndingTokens(t.Context(), access.Person.ID); err != nil || len(ending) != 0 {
		t.Errorf("announced 20 days before: %v, %v", ending, err)
	}
	advanceSessions(t, db, "7 days")
	if ending, err := s.EndingTokens(t.Context(), uuid.Nil); err != nil || len(ending) != 1 || !ending[0].ExpiresAt.Equal(access.Ends) {
		t.Errorf("announced 13 days before: %v, %v", ending, err)
	}
	advanceSessions(t, db, "14 days")
	s.Invalidate()
	if _, err := s.Authenticate(t.Context(), token); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("a token whose time is over: %v", err)
	}
	if _, err := s.SessionAccess(t.Context(), session.ID); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("a session of a token whose time is over: %v", err)
	}
}

func TestAlike(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	people := map[string]identity.Person{}
	for i, name := range []string{"Alice", "АIice", "Bob"} { // the second begins with a Cyrillic letter and has a capital I
		id, err := s.Vouched(t.Context(), identity.Claims{Issuer: issuer, Subject: string(rune('a' + i)), Name: name})
		check(t, err)
		people[name] = identity.Person{ID: id, Name: name}
	}
	s.Invalidate()
	alike, err := s.Alike(t.Context(), people["Alice"], people["АIice"], people["Bob"])
	if err != nil || !alike[people["Alice"].ID] || !alike[people["АIice"].ID] || alike[people["Bob"].ID] {
		t.Errorf("alike %v, %v", alike, err)
	}
	// A person's name is shown with hidden characters as escapes.
	hidden, err := s.Vouched(t.Context(), identity.Claims{Issuer: issuer, Subject: "hidden", Name: "B\u2800ob"})
	check(t, err)
	s.Invalidate()
	found, err := s.People(t.Context(), []uuid.UUID{hidden})
	check(t, err)
	if alike, err := s.Alike(t.Context(), found[hidden], people["Bob"]); err != nil || len(alike) != 2 {
		t.Errorf("%q is like Bob: %v, %v", found[hidden].Name, alike, err)
	}
	check(t, s.Link(t.Context(), audit.System(), people["Alice"].ID, people["АIice"].ID))
	if alike, err := s.Alike(t.Context(), people["Alice"]); err != nil || len(alike) != 0 {
		t.Errorf("the same person: %v, %v", alike, err)
	}
}
