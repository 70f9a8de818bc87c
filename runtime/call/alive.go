package call

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Instance is a process that sends calls.
type Instance struct {
	ID        uuid.UUID
	StartedAt time.Time
	Own       bool // it is this one
}

// Instances are those that are alive, the oldest first.
func (s *Service) Instances(ctx context.Context) ([]Instance, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, started_at, id = $2 FROM instances
		WHERE heartbeat_at >= holdpoint_now() - $1 * interval '1 second' ORDER BY started_at, id`, silence.Seconds(), s.Instance)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Instance])
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return list, nil
}
