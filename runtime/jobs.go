package runtime

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// restoreJobsEvery is how often jobs are looked for that another version has discarded.
const restoreJobsEvery = time.Minute

// restoreJobs makes available again what an older version discarded during an upgrade: River's leader discards the jobs of a killed
// process whose kinds it does not know, whatever attempts they have left. No other job is discarded before its last attempt.
func (rt *Runtime) restoreJobs(ctx context.Context) {
	ticker := time.NewTicker(restoreJobsEvery)
	defer ticker.Stop()
	for {
		restored, err := restoreDiscardedJobs(ctx, rt.DB.Pool())
		switch {
		case err != nil && ctx.Err() == nil:
			rt.Logger.Warn("restoring jobs that another version discarded", "error", err)
		case restored > 0:
			rt.Logger.Info("restored jobs that another version discarded", "jobs", restored)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// restoreDiscardedJobs returns the number of restored jobs. River deletes discarded jobs after 7 days.
func restoreDiscardedJobs(ctx context.Context, pool *pgxpool.Pool) (int64, error) {
	tag, err := pool.Exec(ctx, `UPDATE river_job SET state = 'available', finalized_at = NULL, scheduled_at = now()
		WHERE state = 'discarded' AND finalized_at IS NOT NULL AND attempt < max_attempts`)
	if err != nil {
		return 0, fmt.Errorf("restore discarded jobs: %w", err)
	}
	return tag.RowsAffected(), nil
}
