package notify

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// wants says what anybody subscribed to.
type wants struct {
	teams []string // of webhooks; "": one of them is for every team
	push  bool     // some browser has subscribed
}

// event reports whether somebody could want to know. Only what was shown in a browser can be taken back.
func (w wants) event(e Event) bool {
	if w.push {
		return true
	}
	return e.Kind != Decided && (slices.Contains(w.teams, "") || slices.Contains(w.teams, e.Team))
}

// wanted is answered from memory. When nothing is remembered, it asks in the caller's own transaction, so
// that no transaction waits for a second connection, and remembers for the next one.
func (s *Service) wanted(ctx context.Context, tx pgx.Tx) (wants, error) {
	if w, ok := s.wants.Peek(struct{}{}); ok {
		return w, nil
	}
	s.wants.Start(ctx, struct{}{}, s.readWants)
	return queryWants(ctx, tx)
}

func (s *Service) readWants(ctx context.Context) (wants, error) { return queryWants(ctx, s.Pool) }

func queryWants(ctx context.Context, db postgres.Querier) (wants, error) {
	rows, err := db.Query(ctx, `SELECT array(SELECT DISTINCT coalesce(team, '') FROM webhooks), EXISTS (SELECT FROM push_subscriptions)`)
	if err != nil {
		return wants{}, fmt.Errorf("read who is to be notified: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (wants, error) {
		var w wants
		err := row.Scan(&w.teams, &w.push)
		return w, err
	})
	if err != nil {
		return wants{}, fmt.Errorf("read who is to be notified: %w", err)
	}
	return found, nil
}
