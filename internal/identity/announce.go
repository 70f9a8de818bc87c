package identity

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Announcements are what people are to be told until it changes.
type Announcements struct {
	// First is the person who took their roles by the bootstrap token, as long as there is no second operator. Nil: none.
	First *Person
	// Ends says of people with tokens that end within [EndingSoon] when the first of these ends.
	Ends map[uuid.UUID]time.Time
}

// Announcements returns them from memory.
func (s *Service) Announcements(ctx context.Context) (Announcements, error) {
	return s.announced.Get(ctx, struct{}{}, func(ctx context.Context) (Announcements, error) {
		found := Announcements{Ends: map[uuid.UUID]time.Time{}}
		first, err := s.FirstPerson(ctx)
		switch {
		case err == nil:
			found.First = &first
		case !errors.Is(err, ErrNotFound):
			return Announcements{}, err
		}
		tokens, err := s.EndingTokens(ctx, uuid.Nil)
		if err != nil {
			return Announcements{}, err
		}
		for i := range tokens {
			if _, known := found.Ends[tokens[i].Person.ID]; !known {
				found.Ends[tokens[i].Person.ID] = tokens[i].ExpiresAt
			}
		}
		return found, nil
	})
}

// LogAnnouncements writes a line for each token that ends soon, and one for the first person.
func (s *Service) LogAnnouncements(ctx context.Context) error {
	tokens, err := s.EndingTokens(ctx, uuid.Nil)
	if err != nil {
		return err
	}
	for i := range tokens {
		t := &tokens[i]
		s.log.WarnContext(ctx, "personal token ends soon: its person makes a new one with holdpoint token create",
			"person", t.Person.ID, "subject", t.Person.Subject, "issuer", t.Person.Issuer, "token", t.ID, "ends", t.ExpiresAt.UTC())
	}
	first, err := s.FirstPerson(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		s.log.WarnContext(ctx, "the first person took their roles by the bootstrap token, and there is no second operator: invite one", "person", first.ID)
	}
	return err
}
