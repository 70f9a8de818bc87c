package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Record is what is known of one tool that a skill's server offers, or offered.
type Record struct {
	Name string
	PinStatus

	FirstSeen time.Time  // when it was offered first
	RemovedAt *time.Time // nil: it is offered
}

// Records returns what is known of all tools that a skill ever had, by name, from the database.
func (d *Discovery) Records(ctx context.Context, skillID uuid.UUID) ([]Record, error) {
	return readRecords(ctx, d.pool, skillID)
}

func readRecords(ctx context.Context, db querier, skillID uuid.UUID) ([]Record, error) {
	rows, err := db.Query(ctx, `SELECT name, current_pin, accepted_pin, refused_pin, first_seen, changed_at, removed_at
		FROM skill_tools WHERE skill_id = $1 ORDER BY name COLLATE "C"`, skillID)
	if err != nil {
		return nil, fmt.Errorf("read tools of skill %s: %w", skillID, err)
	}
	records, err := pgx.CollectRows(rows, scanRecord)
	if err != nil {
		return nil, fmt.Errorf("read tools of skill %s: %w", skillID, err)
	}
	return records, nil
}

func scanRecord(row pgx.CollectableRow) (Record, error) {
	var r Record
	var stored [3][]byte
	if err := row.Scan(&r.Name, &stored[0], &stored[1], &stored[2], &r.FirstSeen, &r.Changed, &r.RemovedAt); err != nil {
		return r, err
	}
	var errs [3]error
	for i, pin := range []*Pin{&r.Current, &r.Accepted, &r.Refused} {
		*pin, errs[i] = storedPin(stored[i])
	}
	r.Known = r.RemovedAt == nil
	return r, errors.Join(errs[:]...)
}
