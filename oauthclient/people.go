package oauthclient

import (
	"context"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// May says what a person may do with a connection. A shared one is the operators'; one's own only
// oneself can connect, since it is one's own account at the skill, and an operator may end it.
func (s *Service) May(ctx context.Context, access identity.Access, key Key) (connect, disconnect bool, err error) {
	operator := access.Has(identity.Operator)
	if key.Principal == uuid.Nil {
		return operator, operator, nil
	}
	person, err := s.Identity.SameAs(ctx, access.Person.ID)
	if err != nil {
		return false, false, err
	}
	owner, err := s.Identity.SameAs(ctx, key.Principal)
	if err != nil {
		return false, false, err
	}
	return person == owner, person == owner || operator, nil
}

// KeyFor names the connection that a skill has for a person: the one that all share, or that of the person whom they are the
// same as.
func (s *Service) KeyFor(ctx context.Context, skillID uuid.UUID, perUser bool, person uuid.UUID) (Key, error) {
	key := Key{SkillID: skillID}
	var err error
	if perUser {
		key.Principal, err = s.Identity.SameAs(ctx, person)
	}
	return key, err
}
