package identity_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestVouched(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s, other := newService(t, db, ""), newService(t, db, "")
	vera := identity.Claims{Issuer: issuer, Subject: "vera", Name: "Vera", Roles: listRoles(identity.Operator), Teams: []string{"ops"}}
	ids := make([]uuid.UUID, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			of := s
			if i%2 == 0 {
				of = other
			}
			var err error
			if ids[i], err = of.Vouched(t.Context(), vera); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id == uuid.Nil || id != ids[0] {
			t.Fatalf("several people: %v", ids)
		}
	}
	people, err := s.People(t.Context(), ids[:1])
	check(t, err)
	if p := people[ids[0]]; p.Issuer != issuer || p.Subject != "vera" || p.Name != "Vera" || len(p.Teams) != 0 {
		t.Errorf("%+v", p)
	}
	if _, err := s.SignIn(t.Context(), identity.Claims{Issuer: issuer, Subject: "vera"}, identity.NewSession{Lifetime: time.Hour}); !errors.Is(err, identity.ErrNoRole) {
		t.Errorf("a token gave a role: %v", err)
	}
	vera.Roles = listRoles(identity.Reviewer)
	if _, err := s.SignIn(t.Context(), vera, identity.NewSession{Lifetime: time.Hour}); err != nil {
		t.Errorf("signing in: %v", err)
	}
	if again, err := other.Vouched(t.Context(), vera); err != nil || again != ids[0] {
		t.Errorf("who signed in is somebody else: %s, %v", again, err)
	}
	same, err := s.Vouched(t.Context(), identity.Claims{Issuer: "https://other.example", Subject: "vera"})
	if err != nil || same == ids[0] {
		t.Errorf("of another issuer: %s, %v", same, err)
	}
	_, err = s.ChangeMember(t.Context(), audit.System(), ids[0], identity.MemberChange{Blocked: new(true)})
	check(t, err)
	if _, err := s.Vouched(t.Context(), vera); !errors.Is(err, identity.ErrBlocked) {
		t.Errorf("who is blocked: %v", err)
	}
	for _, bad := range []identity.Claims{{Issuer: issuer}, {Issuer: identity.LocalIssuer, Subject: identity.Bootstrap}, {Issuer: issuer, Subject: "a\x00b"}} {
		var invalid *fault.InvalidError
		if _, err := s.Vouched(t.Context(), bad); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
