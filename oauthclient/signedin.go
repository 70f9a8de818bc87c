package oauthclient

import (
	"context"

	"github.com/google/uuid"
)

// SignedIn takes over what an enterprise's identity provider said when a person signed in with it: their own connections of
// skills that it manages (grant enterprise_managed, [Config.Managed]) are made by that ID token, so that nobody has to
// connect them. It does not wait for that. What fails is logged, and the person connects the skill.
func (s *Service) SignedIn(person uuid.UUID, issuer, clientID, idToken string) {
	if s.Managed == nil || idToken == "" {
		return
	}
	go func() {
		name := "signed in " + person.String() + " " + issuer + " " + clientID
		err := s.attempts.run(s.base, s.base, name, func(ctx context.Context) error {
			return s.connectManaged(ctx, person, issuer, clientID, idToken)
		})
		if err != nil && s.base.Err() == nil {
			s.Logger.Warn("connecting what an identity provider manages", "person", person, "issuer", issuer, "error", err)
		}
	}()
}

func (s *Service) connectManaged(ctx context.Context, person uuid.UUID, issuer, clientID, idToken string) error {
	skills, err := s.Managed(ctx, issuer, clientID)
	if err != nil {
		return err
	}
	for _, skill := range skills {
		key, err := s.KeyFor(ctx, skill, true, person)
		if err != nil {
			return err
		}
		if err := s.UseIdentity(ctx, person, key, idToken); err != nil {
			s.Logger.Warn("connecting what an identity provider manages", "person", person, "issuer", issuer, "skill_id", skill, "error", err)
		}
	}
	return nil
}
