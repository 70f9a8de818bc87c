package identity_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func claimsOfVera(list ...identity.Role) identity.Claims {
	return identity.Claims{
		Issuer: issuer, Subject: "4711", Name: "Vera", Email: "vera@example.com", Roles: list, Teams: []string{"payments"}, ProofAge: new(time.Duration),
	}
}

func signIn(t *testing.T, s *identity.Service, c identity.Claims) identity.Session {
	t.Helper()
	session, err := s.SignIn(t.Context(), c, identity.NewSession{Client: "Firefox", Lifetime: day})
	check(t, err)
	return session
}

func rolesOf(t *testing.T, s *identity.Service, session uuid.UUID) []identity.Role {
	t.Helper()
	access, err := s.SessionAccess(t.Context(), session)
	if errors.Is(err, identity.ErrUnauthenticated) {
		return nil
	}
	check(t, err)
	return access.Roles
}

func TestClaimsAreThoseOfTheLastSignIn(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	first := signIn(t, s, claimsOfVera(identity.Reviewer, identity.Operator))
	if got := rolesOf(t, s, first.ID); !slices.Equal(got, listRoles(identity.Operator, identity.Reviewer)) {
		t.Errorf("roles %v", got)
	}
	changed := claimsOfVera(identity.Reviewer)
	changed.Name, changed.Teams = "Vera Cruz", []string{"refunds", "bad\x00team", ""}
	second := signIn(t, s, changed)
	access, err := s.SessionAccess(t.Context(), first.ID)
	check(t, err)
	if second.Person != first.Person || !slices.Equal(access.Roles, listRoles(identity.Reviewer)) || access.Person.Name != "Vera Cruz" ||
		!slices.Equal(access.Person.Teams, []string{"refunds"}) {
		t.Errorf("the first session now: %+v", access)
	}
	if _, err := s.SignIn(t.Context(), claimsOfVera(), identity.NewSession{Lifetime: day}); !errors.Is(err, identity.ErrNoRole) {
		t.Errorf("without a role: %v", err)
	}
	if !hasEnded(t, s, first.ID) || !hasEnded(t, s, second.ID) {
		t.Error("sessions go on without a role")
	}
	want := []string{"person.claimed", "session.created", "person.claimed", "session.created", "person.created"}
	if got := auditOf(t, db, first.Person); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
}

func TestPeopleAreIssuerAndSubject(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	a := signIn(t, s, claimsOfVera(identity.Reviewer))
	other := claimsOfVera(identity.Reviewer)
	other.Subject = "4712"
	if b := signIn(t, s, other); a.Person == b.Person {
		t.Error("two subjects are one person")
	}
	for _, wrong := range []identity.Claims{
		{Issuer: issuer, Subject: ""}, {Issuer: issuer, Subject: "a\x00"}, {Issuer: "", Subject: "x"}, {Issuer: identity.LocalIssuer, Subject: "bootstrap"},
	} {
		wrong.Roles = listRoles(identity.Operator)
		var invalid *fault.InvalidError
		if _, err := s.SignIn(t.Context(), wrong, identity.NewSession{Lifetime: day}); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

func TestSessionOfAProviderThatIsGone(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	gone := claimsOfVera(identity.Reviewer)
	gone.Issuer = "https://old.example.com"
	if session := signIn(t, s, gone); !hasEnded(t, s, session.ID) {
		t.Error("its people are still let in")
	}
	if found, err := s.Reviewers(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("reviewers: %v, %v", found, err)
	}
}

func TestSigningInAgainIsTheSamePerson(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	session := signIn(t, s, claimsOfVera(identity.Reviewer))
	advanceSessions(t, db, "1 hour")
	other := claimsOfVera(identity.Operator)
	other.Subject = "4712"
	if _, err := s.SignInAgain(t.Context(), other, session.ID); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("another person: %v", err)
	}
	if people, _, err := s.Members(t.Context(), identity.MemberFilter{}); err != nil || len(people) != 1 {
		t.Errorf("the other person is known now: %v, %v", people, err)
	}
	again, err := s.SignInAgain(t.Context(), claimsOfVera(identity.Reviewer, identity.Operator), session.ID)
	check(t, err)
	if again.ID != session.ID || again.AuthenticatedAt.Sub(session.AuthenticatedAt) < time.Hour || !again.ExpiresAt.Equal(session.ExpiresAt) {
		t.Errorf("again: %+v, before %+v", again, session)
	}
	if got := rolesOf(t, s, session.ID); len(got) != 2 {
		t.Errorf("roles after it: %v", got)
	}
}

// A session starts with the age of the proof that the provider states, or without a proof.
func TestProofsAreAsOldAsTheProviderSays(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	fresh := func(session identity.Session, within time.Duration) bool {
		t.Helper()
		fresh, err := s.SessionFresh(t.Context(), session.ID, within)
		check(t, err)
		return fresh
	}
	age := 8 * time.Hour
	claims := claimsOfVera(identity.Reviewer)
	claims.ProofAge = &age
	old := signIn(t, s, claims)
	if fresh(old, 15*time.Minute) || !fresh(old, 9*time.Hour) || old.CreatedAt.Sub(old.AuthenticatedAt).Round(time.Minute) != age {
		t.Errorf("after eight hours: %+v", old)
	}
	claims.ProofAge = nil
	unknown := signIn(t, s, claims)
	if fresh(unknown, 1000*time.Hour) || !unknown.AuthenticatedAt.IsZero() {
		t.Errorf("nobody knows: %+v", unknown)
	}
	if again, err := s.SignInAgain(t.Context(), claimsOfVera(identity.Reviewer), unknown.ID); err != nil || !fresh(again, time.Minute) {
		t.Errorf("proved: %+v, %v", again, err)
	}
}

// The bootstrap person has its roles while the token is configured.
func TestTheBootstrapTokenIsACredential(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	with := newService(t, db, bootToken)
	access, err := with.Authenticate(t.Context(), bootToken)
	check(t, err)
	for what, tt := range map[string]struct {
		service *identity.Service
		want    []identity.Role
	}{"with": {with, listRoles(identity.Operator, identity.Reviewer)}, "without": {newService(t, db, ""), listRoles()}} {
		m, err := tt.service.Member(t.Context(), access.Person.ID)
		if err != nil || !slices.Equal(m.CredentialRoles, tt.want) {
			t.Errorf("%s: %v, %v", what, m.CredentialRoles, err)
		}
		list, _, err := tt.service.Members(t.Context(), identity.MemberFilter{})
		if err != nil || len(list) != 1 || !slices.Equal(list[0].CredentialRoles, tt.want) {
			t.Errorf("%s: %+v, %v", what, list, err)
		}
	}
	olga, _ := byToken(t, with, "olga", identity.Reviewer)
	if m, err := with.Member(t.Context(), olga.Person); err != nil || !slices.Equal(m.CredentialRoles, listRoles(identity.Reviewer)) {
		t.Errorf("somebody else: %v, %v", m.CredentialRoles, err)
	}
}

func TestGrantsHoldAtOnce(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	olga, _ := byToken(t, s, "olga", identity.Operator)
	by := audit.Person(olga.Person)
	session := signIn(t, s, claimsOfVera(identity.Reviewer))
	change := func(c identity.MemberChange) identity.Member {
		t.Helper()
		m, err := s.ChangeMember(t.Context(), by, session.Person, c)
		check(t, err)
		return m
	}
	m := change(identity.MemberChange{Roles: &[]identity.Role{identity.Operator}, Teams: &[]string{"refunds", "refunds"}})
	if !slices.Equal(m.GrantedRoles, listRoles(identity.Operator)) || !slices.Equal(m.ClaimedRoles, listRoles(identity.Reviewer)) ||
		!slices.Equal(m.Teams, []string{"payments", "refunds"}) || m.Sessions != 1 || m.SignedInAt == nil || m.BlockedAt != nil {
		t.Errorf("granted: %+v", m)
	}
	if got := rolesOf(t, s, session.ID); len(got) != 2 {
		t.Errorf("roles %v", got)
	}
	change(identity.MemberChange{Roles: &[]identity.Role{}})
	if got := rolesOf(t, s, session.ID); !slices.Equal(got, listRoles(identity.Reviewer)) {
		t.Errorf("roles after they were taken: %v", got)
	}
	change(identity.MemberChange{Roles: &[]identity.Role{}}) // no change: no event
	want := []string{"person.granted", "person.granted", "session.created", "person.created"}
	if got := auditOf(t, db, session.Person); !slices.Equal(got, want) {
		t.Errorf("audit %v, want %v", got, want)
	}
	var invalid *fault.InvalidError
	for _, wrong := range []identity.MemberChange{{Roles: &[]identity.Role{"root"}}, {Teams: &[]string{"a\nb"}}} {
		if _, err := s.ChangeMember(t.Context(), by, session.Person, wrong); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	if _, err := s.ChangeMember(t.Context(), by, uuid.New(), identity.MemberChange{}); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("nobody: %v", err)
	}
}

func TestBlockedPeopleGetInByNothing(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	here, there := newService(t, db, bootToken), newService(t, db, bootToken)
	dropped := listen(t, db, there.Invalidate)
	_, token, err := here.CreateToken(t.Context(), uuid.Nil, "vera", listRoles(identity.Reviewer), nil)
	check(t, err)
	<-dropped
	access, err := there.Authenticate(t.Context(), token)
	check(t, err)
	session := byLink(t, here, "vera", identity.Reviewer)
	<-dropped
	link, err := here.CreateSignInLink(t.Context(), "vera", listRoles(identity.Reviewer), time.Minute)
	check(t, err)
	<-dropped
	if hasEnded(t, there, session.ID) {
		t.Fatal("the session is over too soon")
	}
	yes, no := true, false
	_, err = here.ChangeMember(t.Context(), audit.System(), access.Person.ID, identity.MemberChange{Blocked: &yes})
	check(t, err)
	<-dropped
	for name, s := range map[string]*identity.Service{"here": here, "there": there} {
		if _, err := s.Authenticate(t.Context(), token); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%s: the token works: %v", name, err)
		}
		if !hasEnded(t, s, session.ID) {
			t.Errorf("%s: the session goes on", name)
		}
		if _, err := s.UseSignInLink(t.Context(), link); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("%s: the link works: %v", name, err)
		}
		if found, err := s.Reviewers(t.Context()); err != nil || len(found) != 1 || found[0].Person == access.Person.ID {
			t.Errorf("%s: reviewers %v, %v", name, found, err)
		}
	}
	boot, err := here.Authenticate(t.Context(), bootToken)
	check(t, err)
	if _, err := here.ChangeMember(t.Context(), audit.Person(boot.Person.ID), boot.Person.ID, identity.MemberChange{Blocked: &yes}); !errors.Is(err, identity.ErrSelf) {
		t.Errorf("blocking oneself: %v", err)
	}
	if _, err = here.ChangeMember(t.Context(), audit.System(), access.Person.ID, identity.MemberChange{Blocked: &no}); err != nil || hasEnded(t, here, session.ID) {
		t.Errorf("unblocked: %v", err)
	}
	signIn(t, here, claimsOfVera(identity.Reviewer))
	people, _, err := here.Members(t.Context(), identity.MemberFilter{Text: "VERA@"})
	if err != nil || len(people) != 1 || people[0].Issuer != issuer {
		t.Fatalf("found %+v, %v", people, err)
	}
	_, err = here.ChangeMember(t.Context(), audit.System(), people[0].ID, identity.MemberChange{Blocked: &yes})
	check(t, err)
	if _, err := here.SignIn(t.Context(), claimsOfVera(identity.Reviewer), identity.NewSession{Lifetime: day}); !errors.Is(err, identity.ErrBlocked) {
		t.Errorf("by the provider: %v", err)
	}
}

func TestBlockedBootstrap(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), bootToken)
	byToken(t, s, "olga", identity.Operator)
	boot, err := s.Authenticate(t.Context(), bootToken)
	check(t, err)
	yes := true
	_, err = s.ChangeMember(t.Context(), audit.System(), boot.Person.ID, identity.MemberChange{Blocked: &yes})
	check(t, err)
	if _, err := s.Authenticate(t.Context(), bootToken); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("the bootstrap token works: %v", err)
	}
}

func TestTheLastOperatorStays(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	first := signIn(t, s, claimsOfVera(identity.Reviewer))
	second := claimsOfVera(identity.Reviewer)
	second.Subject = "4712"
	other := signIn(t, s, second)
	people := []uuid.UUID{first.Person, other.Person}
	for _, id := range people {
		_, err := s.ChangeMember(t.Context(), audit.System(), id, identity.MemberChange{Roles: &[]identity.Role{identity.Operator}})
		check(t, err)
	}
	// Each removes the other's role at the same moment.
	var both sync.WaitGroup
	results := make(chan error, 2)
	for i, id := range people {
		both.Go(func() {
			_, err := s.ChangeMember(t.Context(), audit.Person(people[1-i]), id, identity.MemberChange{Roles: &[]identity.Role{}})
			results <- err
		})
	}
	both.Wait()
	a, b := <-results, <-results
	if (a == nil) == (b == nil) || !errors.Is(errors.Join(a, b), identity.ErrLastOperator) {
		t.Errorf("%v and %v, want one to be refused", a, b)
	}
	operator := first.Person
	if !slices.Contains(rolesOf(t, s, first.ID), identity.Operator) {
		operator = other.Person
	}
	yes := true
	if _, err := s.ChangeMember(t.Context(), audit.System(), operator, identity.MemberChange{Blocked: &yes}); !errors.Is(err, identity.ErrLastOperator) {
		t.Errorf("block the last operator: %v", err)
	}
	byToken(t, s, "olga", identity.Operator)
	if _, err := s.ChangeMember(t.Context(), audit.System(), operator, identity.MemberChange{Blocked: &yes}); err != nil {
		t.Errorf("with another operator: %v", err)
	}
}
