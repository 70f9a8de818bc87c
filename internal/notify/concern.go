package notify

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// hooksFor pairs webhooks with the events of their team.
func hooksFor(ctx context.Context, tx pgx.Tx, news []Event) ([]notice, error) {
	if len(news) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT id, team FROM webhooks`)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	var notices []notice
	var id uuid.UUID
	var team *string
	_, err = pgx.ForEachRow(rows, []any{&id, &team}, func() error {
		for _, e := range news {
			if team == nil || *team == e.Team {
				notices = append(notices, notice{id, e})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return notices, nil
}

// browsersFor pairs browsers with the events that their people should know of.
func (s *Service) browsersFor(ctx context.Context, tx pgx.Tx, reviewers []identity.Eligible, news []Event) ([]notice, error) {
	if len(news) == 0 {
		return nil, nil
	}
	of, err := subscribers(ctx, tx)
	if err != nil || len(of) == 0 {
		return nil, err
	}
	people := make([]uuid.UUID, 0, len(reviewers)+len(news))
	for _, r := range reviewers {
		people = append(people, r.Person)
	}
	for _, e := range news {
		people = append(people, e.PrincipalID)
	}
	sames, err := identity.Sames(ctx, tx, people)
	if err != nil {
		return nil, err
	}
	var notices []notice
	for _, e := range news {
		for _, person := range s.concerned(reviewers, sames, e) {
			for _, id := range of[person] {
				notices = append(notices, notice{id, e})
			}
		}
	}
	return notices, nil
}

// subscribers returns the subscriptions of people.
func subscribers(ctx context.Context, tx pgx.Tx) (map[uuid.UUID][]uuid.UUID, error) {
	rows, err := tx.Query(ctx, `SELECT person_id, id FROM push_subscriptions ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read push subscriptions: %w", err)
	}
	of := map[uuid.UUID][]uuid.UUID{}
	var person, id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&person, &id}, func() error {
		of[person] = append(of[person], id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read push subscriptions: %w", err)
	}
	return of, nil
}

// concerned returns who should hear of a call: the reviewers of its team, or all of them when it has no team, or
// its team nobody who may decide. Whoever it is made for may not, whichever of their accounts they use.
func (s *Service) concerned(reviewers []identity.Eligible, sames map[uuid.UUID]uuid.UUID, e Event) []uuid.UUID {
	self := func(person uuid.UUID) uuid.UUID {
		if same, ok := sames[person]; ok {
			return same
		}
		return person
	}
	var all, members []uuid.UUID
	for _, r := range reviewers {
		if e.PrincipalID != uuid.Nil && self(r.Person) == self(e.PrincipalID) && !s.AllowSelfApproval {
			continue
		}
		all = append(all, r.Person)
		if e.Team != "" && slices.Contains(r.Teams, e.Team) {
			members = append(members, r.Person)
		}
	}
	if len(members) == 0 {
		return all
	}
	return members
}
