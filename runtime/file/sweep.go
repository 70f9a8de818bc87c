package file

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/legalhold"
)

const (
	sweepInterval = 10 * time.Minute
	sweepTimeout  = 10 * time.Minute
	sweepAtOnce   = 500

	unattachedLifetime = 24 * time.Hour
	// During an upload, no file has the object yet.
	objectGrace = 2 * uploadLimit
)

// sweepArgs is the job that deletes unattached files and objects of broken uploads.
type sweepArgs struct{}

func (sweepArgs) Kind() string { return "file_sweep" }

type sweepWorker struct {
	river.WorkerDefaults[sweepArgs]
	service *Service
}

func (*sweepWorker) Timeout(*river.Job[sweepArgs]) time.Duration { return sweepTimeout }

func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[sweepArgs]) error {
	return w.service.Sweep(ctx)
}

// AddWorkers registers the worker of this package's job.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &sweepWorker{service: s})
}

// Start schedules the job, in one process at a time.
func (s *Service) Start(client *river.Client[pgx.Tx]) {
	client.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(sweepInterval),
		func() (river.JobArgs, *river.InsertOpts) { return sweepArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}))
}

// Sweep deletes files that were not uploaded in time or not attached within a day, and objects without a file.
func (s *Service) Sweep(ctx context.Context) error {
	err := legalhold.Exec(ctx, s.Pool, `DELETE FROM files WHERE attached_at IS NULL AND (created_at < holdpoint_now() - $1 * interval '1 second'
		OR uploaded_at IS NULL AND upload_until < holdpoint_now() - $2 * interval '1 second')
		AND NOT `+legalhold.HeldSQL("files.agent_id", "files.created_at", "files.created_at"),
		unattachedLifetime.Seconds(), uploadLimit.Seconds())
	if err != nil {
		return fmt.Errorf("delete files that nobody attached: %w", err)
	}
	return s.objects.dropOrphans(ctx, `o.created_at < holdpoint_now() - $1 * interval '1 second'`, objectGrace.Seconds())
}
