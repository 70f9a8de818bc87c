package live

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	// SeenFor is how long a person counts as a viewer after a report of their page. Pages report every 10 seconds.
	SeenFor = 25 * time.Second
	// keptFor is how long reports are kept.
	keptFor = 10 * time.Minute
)

// Presence records who has which call on the screen, for all processes, in the table call_viewers.
type Presence struct {
	Pool *pgxpool.Pool
}

// Seen records that a person has a call on the screen.
func (p Presence) Seen(ctx context.Context, callID, person uuid.UUID) error {
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO call_viewers (call_id, person_id) VALUES ($1, $2)
		ON CONFLICT (call_id, person_id) DO UPDATE SET seen_at = holdpoint_now()`, callID, person)
	batch.Queue(`DELETE FROM call_viewers WHERE person_id = $1 AND call_id <> $2 OR seen_at < holdpoint_now() - $3 * interval '1 second'`,
		person, callID, keptFor.Seconds())
	if err := p.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("record viewer of call %s: %w", callID, err)
	}
	return nil
}

// Viewers returns the people who view calls.
func (p Presence) Viewers(ctx context.Context, callIDs ...uuid.UUID) (map[uuid.UUID][]uuid.UUID, error) {
	viewers := map[uuid.UUID][]uuid.UUID{}
	if len(callIDs) == 0 {
		return viewers, nil
	}
	rows, err := p.Pool.Query(ctx, `SELECT call_id, person_id FROM call_viewers
		WHERE call_id = ANY($1) AND seen_at > holdpoint_now() - $2 * interval '1 second'
		ORDER BY call_id, person_id`, callIDs, SeenFor.Seconds())
	if err != nil {
		return nil, fmt.Errorf("read viewers of calls: %w", err)
	}
	var callID, person uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&callID, &person}, func() error {
		viewers[callID] = append(viewers[callID], person)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read viewers of calls: %w", err)
	}
	return viewers, nil
}

// QueueViewers adds the read of the people who view a call to a batch.
func (Presence) QueueViewers(batch *pgx.Batch, callID uuid.UUID, into *[]uuid.UUID) {
	postgres.QueueAll(batch, into, "read viewers of call "+callID.String(), pgx.RowTo[uuid.UUID], `SELECT person_id FROM call_viewers
		WHERE call_id = $1 AND seen_at > holdpoint_now() - $2 * interval '1 second' ORDER BY person_id`, callID, SeenFor.Seconds())
}

// maxViewings bounds the result of [Presence.Viewings].
const maxViewings = 500

// Viewing is a person with a call on the screen.
type Viewing struct {
	CallID, Person uuid.UUID
}

// Viewings returns who has which call on the screen, at most 500 in a fixed order.
func (p Presence) Viewings(ctx context.Context) ([]Viewing, error) {
	rows, _ := p.Pool.Query(ctx, `SELECT call_id, person_id FROM call_viewers
		WHERE seen_at > holdpoint_now() - $1 * interval '1 second' ORDER BY call_id, person_id LIMIT $2`, SeenFor.Seconds(), maxViewings)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Viewing])
	if err != nil {
		return nil, fmt.Errorf("read viewers of calls: %w", err)
	}
	return list, nil
}
