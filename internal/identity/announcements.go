package identity

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
)

// Announcements are facts that people are told until they change.
type Announcements struct {
	// First is the first person (see [Service.CreateFirstToken]) while there is no second operator; else nil.
	First *Person
	// Ends is when the first token of a person expires, if that is within [EndingSoon].
	Ends map[uuid.UUID]time.Time
	// Changes is the number of changes that wait for a second operator.
	Changes int
}

// HasDualControl reports whether changes that loosen wait for a second operator.
func (s *Service) HasDualControl() bool { return s.control.IsOn() }

// Announcements returns the announcements. From the cache.
func (s *Service) Announcements(ctx context.Context) (Announcements, error) {
	return s.announcements.Get(ctx, struct{}{}, func(ctx context.Context) (Announcements, error) {
		found := Announcements{Ends: map[uuid.UUID]time.Time{}}
		first, err := s.FirstPerson(ctx)
		switch {
		case err == nil:
			found.First = &first
		case !errors.Is(err, ErrNotFound):
			return Announcements{}, err
		}
		if found.Changes, err = s.control.CountPending(ctx); err != nil {
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

// LogAnnouncements logs each token that expires soon, and the first person.
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
		s.log.WarnContext(ctx, "the first person got their roles with the bootstrap token, and there is no second operator: invite one", "person", first.ID)
	}
	return err
}
