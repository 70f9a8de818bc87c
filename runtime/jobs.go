package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

// restoreInterval is the time between two searches for discarded jobs.
const restoreInterval = time.Minute

// restoreJobs makes jobs available again that an older version discarded during an upgrade: River's leader discards a killed
// process's jobs of unknown kinds, even with attempts left. River discards no other job before its last attempt.
func (rt *Runtime) restoreJobs(ctx context.Context) {
	ticker := time.NewTicker(restoreInterval)
	defer ticker.Stop()
	for {
		restored, err := restoreDiscardedJobs(ctx, rt.DB.Pool())
		switch {
		case err != nil && ctx.Err() == nil:
			rt.Logger.Warn("restore discarded jobs", "error", err)
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

func newQueueConfig(logger *slog.Logger, workers *river.Workers) *river.Config {
	return &river.Config{
		Logger:  logger,
		Workers: workers,
		Queues:  jobQueues(),
		// During an upgrade, jobs of kinds that only the newer version knows wait for it.
		FetchOnlyKnownKinds: true,
		// The default of 100 ms also holds back the notification of a new job.
		FetchCooldown: time.Millisecond,
		// Another process gets the jobs of a killed process after this time. It does not apply to a job with a longer timeout
		// of its own.
		RescueStuckJobsAfter: 2 * time.Minute,
	}
}

func jobQueues() map[string]river.QueueConfig {
	return map[string]river.QueueConfig{
		river.QueueDefault: {MaxWorkers: 20},
		call.ExecuteQueue:  {MaxWorkers: 1000},
		notify.JobQueue:    {MaxWorkers: 20},
		callback.JobQueue:  {MaxWorkers: callback.JobWorkers},
		converse.JobQueue:  {MaxWorkers: converse.JobWorkers},
	}
}

// quietLogger hides the job queue's entries below warnings.
func quietLogger(log *slog.Logger) *slog.Logger {
	return slog.New(levelHandler{log.Handler(), slog.LevelWarn})
}

// levelHandler hides entries below a level.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.level && h.Handler.Enabled(ctx, level)
}

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.level}
}

// jobs measures the jobs of this process.
type jobs struct {
	river.MiddlewareDefaults
	now       func() time.Time
	durations *prometheus.HistogramVec
}

var _ rivertype.WorkerMiddleware = (*jobs)(nil)

func newJobs(now func() time.Time) *jobs {
	return &jobs{now: now, durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "holdpoint_job_duration_seconds",
		Help:    "Jobs that this process worked on, by kind and outcome: done, snoozed (it comes again), cancelled, failed (it is tried again).",
		Buckets: []float64{.005, .025, .1, .5, 1, 5, 15, 60, 300},
	}, []string{"kind", "outcome"})}
}

// Collectors returns the metrics of jobs.
func (j *jobs) Collectors() []prometheus.Collector { return []prometheus.Collector{j.durations} }

// Work implements [rivertype.WorkerMiddleware].
func (j *jobs) Work(ctx context.Context, job *rivertype.JobRow, work func(context.Context) error) error {
	began, outcome := j.now(), "failed" // also after a panic
	defer func() { j.durations.WithLabelValues(job.Kind, outcome).Observe(j.now().Sub(began).Seconds()) }()
	err := work(ctx)
	var snoozed *rivertype.JobSnoozeError
	var cancelled *rivertype.JobCancelError
	switch {
	case err == nil:
		outcome = "done"
	case errors.As(err, &snoozed):
		outcome = "snoozed"
	case errors.As(err, &cancelled):
		outcome = "cancelled"
	}
	return err
}
