package guarded

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Watch looks for guards whose reports ended, until ctx ends. Each process does: one of them finds each.
func (s *Service) Watch(ctx context.Context) {
	ticker := time.NewTicker(s.Interval)
	defer ticker.Stop()
	reached := s.Now() // since then the database was reached each time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var err error
		if s.Now().Sub(reached) >= s.Grace {
			err = s.findSilent(ctx)
		} else {
			err = s.Pool.Ping(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("look for silent guards", "error", err)
			reached = s.Now()
		}
	}
}

// findSilent marks the guards whose reports ended, and alerts people.
func (s *Service) findSilent(ctx context.Context) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		silent, err := postgres.Collect(ctx, tx, scanGuard, `SELECT `+columns+` FROM guarded_hosts
			WHERE state = $1 AND watched_at < holdpoint_now() - greatest($2, 3 * every_seconds) * interval '1 second' ORDER BY id FOR UPDATE SKIP LOCKED`,
			Holds, int(quiet/time.Second))
		if err != nil {
			return err
		}
		for i := range silent {
			g := silent[i]
			g.State = Silent
			if err := s.changeState(ctx, tx, &silent[i], &g, audit.System()); err != nil {
				return err
			}
		}
		return nil
	})
}
