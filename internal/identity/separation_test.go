package identity_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
)

// startService starts a service with settings of its own.
func startService(t *testing.T, db *postgres.DB, change func(*identity.Config)) *identity.Service {
	t.Helper()
	cfg := identity.Config{Pool: db.Pool(), Issuers: []string{issuer}, Logger: slog.New(slog.DiscardHandler), Now: time.Now}
	change(&cfg)
	s, err := identity.New(cfg)
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

func claimsOf(subject string, list ...identity.Role) identity.Claims {
	c := claimsOfVera(list...)
	c.Subject, c.Name, c.Email = subject, subject, ""
	return c
}

func TestSeparateRoles(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := startService(t, db, func(c *identity.Config) { c.SeparateRoles, c.BootstrapToken = true, bootToken })
	ctx := t.Context()
	boot, err := s.Authenticate(ctx, bootToken)
	check(t, err)
	if !slices.Equal(boot.Roles, listRoles(identity.Operator)) {
		t.Errorf("roles of the bootstrap token: %v", boot.Roles)
	}
	if err := s.StartSeparation(ctx); err == nil || !strings.Contains(err.Error(), "nobody would be reviewer") {
		t.Errorf("without a reviewer: %v", err)
	}
	rita := signIn(t, s, claimsOf("rita", identity.Reviewer))
	check(t, s.StartSeparation(ctx))
	by := audit.Person(boot.Person.ID)
	both := listRoles(identity.Operator, identity.Reviewer)
	if _, err := s.ChangeMember(ctx, by, rita.Person, identity.MemberChange{Roles: &both}); !errors.Is(err, identity.ErrBothRoles) {
		t.Errorf("the second role: %v", err)
	}
	if _, _, err := s.Invite(ctx, by, identity.NewInvitation{Name: "olga", Issuer: issuer, Subject: "olga", Roles: both}); !errors.Is(err, identity.ErrBothRoles) {
		t.Errorf("an invitation: %v", err)
	}
	// The provider gives the role of operator later: it does not count.
	again := signIn(t, s, claimsOf("rita", both...))
	if got := rolesOf(t, s, again.ID); !slices.Equal(got, listRoles(identity.Reviewer)) {
		t.Errorf("roles of a reviewer who became operator: %v", got)
	}
	// Nobody knows which role was first: the reviewer's does not count.
	olga := signIn(t, s, claimsOf("olga", both...))
	if got := rolesOf(t, s, olga.ID); !slices.Equal(got, listRoles(identity.Operator)) {
		t.Errorf("roles of a new person with both: %v", got)
	}
	lost, err := s.ListWithBoth(ctx)
	check(t, err)
	if len(lost) != 2 || lost[0].Lost == lost[1].Lost {
		t.Errorf("people with both: %+v", lost)
	}
	if m, err := s.Member(ctx, rita.Person); err != nil || m.LostRole != identity.Operator {
		t.Errorf("member %+v, %v", m, err)
	}
	reviewers, err := s.Reviewers(ctx)
	check(t, err)
	if len(reviewers) != 1 || reviewers[0].Person != rita.Person {
		t.Errorf("reviewers %+v", reviewers)
	}
	// Linked people are one person.
	otto := signIn(t, s, claimsOf("otto", identity.Operator))
	vera := signIn(t, s, claimsOf("vera", identity.Reviewer))
	if err := s.Link(ctx, by, otto.Person, vera.Person); !errors.Is(err, identity.ErrBothRoles) {
		t.Errorf("link an operator with a reviewer: %v", err)
	}
	check(t, startService(t, db, func(c *identity.Config) { c.SeparateRoles = true }).StartSeparation(ctx))
	// A server without the setting counts both.
	if got := rolesOf(t, newService(t, db, ""), olga.ID); !slices.Equal(got, both) {
		t.Errorf("roles without the setting: %v", got)
	}
}

func TestPersonTokensAreSwitchedOff(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	before := newService(t, db, bootToken)
	ctx := t.Context()
	_, token, err := before.CreateToken(ctx, uuid.Nil, "Vera", listRoles(identity.Operator), nil)
	check(t, err)
	access, err := before.Authenticate(ctx, token)
	check(t, err)
	session, err := before.BeginSession(ctx, access, identity.NewSession{Lifetime: day})
	check(t, err)

	s := startService(t, db, func(c *identity.Config) { c.TokensOff, c.BootstrapToken = true, bootToken })
	if _, err := s.Authenticate(ctx, token); !errors.Is(err, identity.ErrUnauthenticated) || !errors.Is(err, identity.ErrTokensOff) {
		t.Errorf("authenticate: %v", err)
	}
	if _, err := s.Recheck(ctx, access.Credential); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("recheck: %v", err)
	}
	if !hasEnded(t, s, session.ID) {
		t.Error("a session of a token goes on")
	}
	if operators, err := s.ListOperators(ctx, db.Pool()); err != nil || slices.Contains(operators, access.Person.ID) {
		t.Errorf("operators %v, %v", operators, err)
	}
	olga := signIn(t, s, claimsOf("olga", identity.Operator))
	provided, err := s.SessionAccess(ctx, olga.ID)
	check(t, err)
	if _, err := s.CreateOwnToken(ctx, provided, nil, nil); !errors.Is(err, identity.ErrTokensOff) {
		t.Errorf("create: %v", err)
	}
	boot, err := s.Authenticate(ctx, bootToken)
	check(t, err)
	if _, err := s.CreateFirstToken(ctx, boot, "Otto", nil, nil); err == nil {
		t.Error("the bootstrap token made a personal token")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	limit := &identity.Limit{Teams: []string{"finance"}, Skills: []string{"ledger*"}}
	for name, c := range map[string]struct {
		limit *identity.Limit
		scope identity.Scope
		want  bool
	}{
		"no limit":         {nil, identity.Scope{Skill: "mail"}, true},
		"covered":          {limit, identity.Scope{Teams: []string{"finance"}, Skill: "ledger-eu", Agent: "a"}, true},
		"escalated there":  {limit, identity.Scope{Teams: []string{"payments", "finance"}, Skill: "ledger"}, true},
		"another team":     {limit, identity.Scope{Teams: []string{"payments"}, Skill: "ledger"}, false},
		"no team":          {limit, identity.Scope{Teams: []string{""}, Skill: "ledger"}, false},
		"another skill":    {limit, identity.Scope{Teams: []string{"finance"}, Skill: "mail"}, false},
		"of another agent": {&identity.Limit{Agents: []string{"b"}}, identity.Scope{Agent: "a"}, false},
	} {
		if got := c.limit.Covers(c.scope); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, c := range map[string]struct {
		wide, narrow *identity.Limit
		want         bool
	}{
		"of no limit":          {nil, limit, true},
		"no limit":             {limit, nil, false},
		"the same":             {limit, limit, true},
		"fewer":                {&identity.Limit{Teams: []string{"a", "b"}}, &identity.Limit{Teams: []string{"a"}}, true},
		"more":                 {&identity.Limit{Teams: []string{"a"}}, &identity.Limit{Teams: []string{"a", "b"}}, false},
		"another list":         {&identity.Limit{Teams: []string{"a"}}, &identity.Limit{Skills: []string{"b"}}, false},
		"one list in addition": {&identity.Limit{Teams: []string{"a"}}, &identity.Limit{Teams: []string{"a"}, Skills: []string{"b"}}, true},
	} {
		if got := c.wide.Contains(c.narrow); got != c.want {
			t.Errorf("contains %s: %t", name, got)
		}
	}
}

func TestOperatorsLimitReviewers(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	ctx := t.Context()
	rita, olga := signIn(t, s, claimsOf("rita", identity.Reviewer)), signIn(t, s, claimsOf("olga", identity.Operator, identity.Reviewer))
	by := audit.Person(olga.Person)
	limit := identity.Limit{Teams: []string{"finance", "finance"}, Skills: []string{"ledger", "*"}}
	m, err := s.ChangeMember(ctx, by, rita.Person, identity.MemberChange{Limit: &limit})
	check(t, err)
	if got := m.Limit.String(); got != "teams: finance" {
		t.Errorf("limit %q", got)
	}
	access, err := s.SessionAccess(ctx, rita.ID)
	check(t, err)
	own, err := s.CreateOwnToken(ctx, access, nil, nil)
	check(t, err)
	byToken, err := s.Authenticate(ctx, own.Secret)
	check(t, err)
	if access.Person.Limit.String() != "teams: finance" || byToken.Person.Limit.String() != "teams: finance" {
		t.Errorf("by session %v, by token %v", access.Person.Limit, byToken.Person.Limit)
	}
	if _, err := s.ChangeMember(ctx, by, rita.Person, identity.MemberChange{Limit: &identity.Limit{Skills: []string{"a\x00"}}}); err == nil {
		t.Error("a name with a control character")
	}
	_, err = s.ChangeMember(ctx, by, olga.Person, identity.MemberChange{Limit: &limit})
	check(t, err)
	if _, err := s.ChangeMember(ctx, by, olga.Person, identity.MemberChange{Limit: &identity.Limit{}}); !errors.Is(err, identity.ErrSelfGrant) {
		t.Errorf("lifted the own limit: %v", err)
	}
	if got := auditOf(t, db, rita.Person); got[1] != "person.limited" && !slices.Contains(got, "person.limited") {
		t.Errorf("audit %v", got)
	}
}

// newControlledPeople starts a service under dual control.
func newControlledPeople(t *testing.T, db *postgres.DB) (*identity.Service, *dualcontrol.Service) {
	t.Helper()
	var s *identity.Service
	control, err := dualcontrol.New(dualcontrol.Config{
		Pool: db.Pool(), Box: runtimetest.NewBox(t), On: true, MayBeOne: identity.MayBeOne,
		Operators: func(ctx context.Context, db postgres.Querier) ([]uuid.UUID, error) { return s.ListOperators(ctx, db) },
	})
	check(t, err)
	s = startService(t, db, func(c *identity.Config) { c.Control = control })
	return s, control
}

// TestEveryGrantLoosensOrNot fails for a new field of what operators give people until somebody decides whether a change of it loosens.
func TestEveryGrantLoosensOrNot(t *testing.T) {
	t.Parallel()
	type grant struct{ tight, loose *identity.MemberChange } // loose nil: it does not loosen
	change := func(set func(*identity.MemberChange)) *identity.MemberChange {
		c := &identity.MemberChange{}
		set(c)
		return c
	}
	grants := map[string]grant{
		"Roles": {
			change(func(c *identity.MemberChange) { c.Roles = new(listRoles()) }),
			change(func(c *identity.MemberChange) { c.Roles = new(listRoles(identity.Operator)) }),
		},
		"Teams": {
			change(func(c *identity.MemberChange) { c.Teams = new([]string{}) }),
			change(func(c *identity.MemberChange) { c.Teams = new([]string{"finance"}) }),
		},
		"Limit": {
			change(func(c *identity.MemberChange) { c.Limit = &identity.Limit{Teams: []string{"finance"}} }),
			change(func(c *identity.MemberChange) { c.Limit = &identity.Limit{} }),
		},
		"Blocked": {
			change(func(c *identity.MemberChange) { c.Blocked = new(true) }),
			change(func(c *identity.MemberChange) { c.Blocked = new(false) }),
		},
		"Agents": {change(func(c *identity.MemberChange) { c.Agents = new([]string{"billing"}) }), nil}, // its calls are judged
		"Was":    {},                                                                                    // only compared
	}
	for field := range reflect.TypeFor[identity.MemberChange]().Fields() {
		g, decided := grants[field.Name]
		if !decided {
			t.Errorf("field %s: say here whether a change of it loosens, and see grantState.loosens", field.Name)
			continue
		}
		t.Run(field.Name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.New(t)
			s, control := newControlledPeople(t, db)
			ctx := t.Context()
			alice, bob := signIn(t, s, claimsOf("alice", identity.Operator)), signIn(t, s, claimsOf("bob", identity.Operator))
			rita := signIn(t, s, claimsOf("rita", identity.Reviewer))
			if g.tight != nil {
				_, err := s.ChangeMember(ctx, audit.Person(alice.Person), rita.Person, *g.tight)
				check(t, err)
			}
			if g.loose == nil {
				return
			}
			_, err := s.ChangeMember(ctx, audit.Person(alice.Person), rita.Person, *g.loose)
			waiting, ok := errors.AsType[*dualcontrol.WaitsError](err)
			if !ok {
				t.Fatalf("it does not wait: %v", err)
			}
			before, err := s.Member(ctx, rita.Person)
			check(t, err)
			if _, err := control.Approve(ctx, alice.Person, waiting.Change.ID, ""); !errors.Is(err, dualcontrol.ErrOwn) {
				t.Errorf("approved alone: %v", err)
			}
			_, err = control.Approve(ctx, bob.Person, waiting.Change.ID, "")
			check(t, err)
			after, err := s.Member(ctx, rita.Person)
			check(t, err)
			if reflect.DeepEqual(before, after) {
				t.Error("nothing has changed")
			}
		})
	}
}

func TestInvitationsWaitForASecondOperator(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s, control := newControlledPeople(t, db)
	ctx := t.Context()
	if err := control.Start(ctx); err == nil || !strings.Contains(err.Error(), "two operators") {
		t.Errorf("started without operators: %v", err)
	}
	alice := signIn(t, s, claimsOf("alice", identity.Operator))
	if err := control.Start(ctx); err == nil {
		t.Error("started with one operator")
	}
	by := audit.Person(alice.Person)
	wanted := identity.NewInvitation{Name: "olga", Issuer: issuer, Subject: "olga", Roles: listRoles(identity.Reviewer), Limit: &identity.Limit{Skills: []string{"ledger"}}}
	if _, _, err := s.Invite(ctx, by, wanted); !errors.Is(err, dualcontrol.ErrAlone) {
		t.Errorf("without a second operator: %v", err)
	}
	bob := signIn(t, s, claimsOf("bob", identity.Operator))
	check(t, control.Start(ctx))
	made, secret, err := s.Invite(ctx, by, wanted)
	check(t, err)
	if !made.Waits {
		t.Errorf("invitation %+v", made)
	}
	if _, err := s.SignInInvited(ctx, claimsOf("olga"), secret, identity.NewSession{Lifetime: day}); !errors.Is(err, identity.ErrInvitation) {
		t.Errorf("redeemed before the approval: %v", err)
	}
	pending, _, err := control.List(ctx, uuid.Nil, 0, true)
	check(t, err)
	_, err = control.Approve(ctx, bob.Person, pending[0].ID, "")
	check(t, err)
	session, err := s.SignInInvited(ctx, claimsOf("olga"), secret, identity.NewSession{Lifetime: day})
	check(t, err)
	if access, err := s.SessionAccess(ctx, session.ID); err != nil || access.Person.Limit.String() != "skills: ledger" {
		t.Errorf("access %+v, %v", access, err)
	}
	// A server that had it on starts again, though one operator is left.
	_, err = s.ChangeMember(ctx, by, bob.Person, identity.MemberChange{Blocked: new(true)})
	check(t, err)
	check(t, control.Start(ctx))
}
