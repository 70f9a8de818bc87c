package identity_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

func TestPrincipalName(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t)
	s := newService(t, db, "")
	for subject, want := range map[string]string{
		"vera": issuer + "#vera", "a#b%23": issuer + "#a%23b%2523", "Zo\u00eb x": issuer + "#Zo%C3%AB%20x",
	} {
		id, err := s.Vouched(t.Context(), identity.Claims{Issuer: issuer, Subject: subject})
		check(t, err)
		if got, err := identity.PrincipalName(t.Context(), db.Pool(), id); err != nil || got != want {
			t.Errorf("%s: %s, %v", subject, got, err)
		}
	}
	if got, err := identity.PrincipalName(t.Context(), db.Pool(), uuid.Nil); got != "" || err != nil {
		t.Errorf("nobody: %s, %v", got, err)
	}
	if _, err := identity.PrincipalName(t.Context(), db.Pool(), uuid.New()); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("who does not exist: %v", err)
	}
}
