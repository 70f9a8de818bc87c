package identity_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	s := newService(t, postgrestest.New(t), "")
	ctx := t.Context()
	person := func(name string) uuid.UUID {
		t.Helper()
		_, token, err := s.CreateToken(ctx, uuid.Nil, name, listRoles(identity.Reviewer), nil)
		check(t, err)
		access, err := s.Authenticate(ctx, token)
		check(t, err)
		return access.Person.ID
	}
	vera, work, olga := person("vera"), person("vera at work"), person("olga")
	same := func(of, want uuid.UUID) {
		t.Helper()
		if got, err := s.SameAs(ctx, of); err != nil || got != want {
			t.Errorf("same as %s, %v, want %s", got, err, want)
		}
	}
	same(work, work)
	check(t, s.Link(ctx, audit.Person(olga), work, vera))
	same(work, vera)
	same(vera, vera)
	same(uuid.Nil, uuid.Nil)
	links, err := s.Links(ctx, []uuid.UUID{vera, work, olga})
	check(t, err)
	if got := links[work]; len(links) != 1 || got.SameAs != vera || got.By != olga || got.At.IsZero() {
		t.Errorf("links %+v", links)
	}
	var invalid *fault.InvalidError
	for _, wrong := range [][2]uuid.UUID{{vera, vera}, {vera, work}, {olga, work}, {vera, olga}} {
		if err := s.Link(ctx, audit.System(), wrong[0], wrong[1]); !errors.As(err, &invalid) || invalid.Fields[0].Name != "same_as" {
			t.Errorf("link %v: %v", wrong, err)
		}
	}
	if err := s.Link(ctx, audit.System(), uuid.New(), vera); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("link nobody: %v", err)
	}
	check(t, s.Link(ctx, audit.System(), work, olga))
	same(work, olga)
	if links, err = s.Links(ctx, []uuid.UUID{work}); err != nil || links[work].By != uuid.Nil {
		t.Errorf("linked by the system: %+v, %v", links, err)
	}
	for _, self := range []uuid.UUID{olga, work} { // they could then decide their own calls
		if err := s.Unlink(ctx, audit.Person(self), work); !errors.Is(err, identity.ErrSelfLink) {
			t.Errorf("unlink oneself: %v", err)
		}
		if err := s.Link(ctx, audit.Person(self), work, vera); !errors.Is(err, identity.ErrSelfLink) {
			t.Errorf("link oneself to another person: %v", err)
		}
	}
	same(work, olga)
	check(t, s.Unlink(ctx, audit.Person(vera), work))
	same(work, work)
	for _, pair := range [][2]uuid.UUID{{olga, vera}, {vera, olga}} { // each could use the other's connections
		if err := s.Link(ctx, audit.Person(olga), pair[0], pair[1]); !errors.Is(err, identity.ErrSelfLink) {
			t.Errorf("link oneself: %v", err)
		}
	}
	same(olga, olga)
	same(vera, vera)
	if err := s.Unlink(ctx, audit.Person(vera), work); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("unlink twice: %v", err)
	}
}
