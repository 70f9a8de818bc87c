package file

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

const (
	sweepInterval = 10 * time.Minute
	sweepTimeout  = 10 * time.Minute
	sweepAtOnce   = 500

	unattachedLifetime = 24 * time.Hour
	// An upload that is under way has an object that no file has yet.
	objectGrace = 2 * uploadLimit
)

// sweepArgs is the job that deletes what nobody attached, and what uploads that broke off left behind.
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

// Start has one of all processes sweep every few minutes.
func (s *Service) Start(client *river.Client[pgx.Tx]) {
	client.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(sweepInterval),
		func() (river.JobArgs, *river.InsertOpts) { return sweepArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}))
}

// Sweep deletes files that were not uploaded in time, or attached to nothing for a day, and objects that no file has.
func (s *Service) Sweep(ctx context.Context) error {
	_, err := s.Pool.Exec(ctx, `DELETE FROM files WHERE attached_at IS NULL AND (created_at < holdpoint_now() - $1 * interval '1 second'
		OR uploaded_at IS NULL AND upload_until < holdpoint_now() - $2 * interval '1 second')`,
		unattachedLifetime.Seconds(), uploadLimit.Seconds())
	if err != nil {
		return fmt.Errorf("delete files that nobody attached: %w", err)
	}
	return s.dropOrphans(ctx, `o.created_at < holdpoint_now() - $1 * interval '1 second'`, objectGrace.Seconds())
}

// dropObjects drops those of a file that is gone.
func (s *Service) dropObjects(ctx context.Context, id uuid.UUID) error {
	return s.dropOrphans(ctx, `o.file_id = $1 AND NOT EXISTS (SELECT FROM files f WHERE f.id = o.file_id)`, id)
}

// dropOrphans drops objects that no file has, and for which a condition with $1 holds.
func (s *Service) dropOrphans(ctx context.Context, condition string, arg any) error {
	for {
		rows, err := s.Pool.Query(ctx, `SELECT object FROM file_objects o
			WHERE NOT EXISTS (SELECT FROM files f WHERE f.id = o.file_id AND f.object = o.object) AND `+condition+`
			ORDER BY created_at LIMIT $2`, arg, sweepAtOnce)
		if err != nil {
			return fmt.Errorf("find objects of no file: %w", err)
		}
		objects, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("find objects of no file: %w", err)
		}
		var failures error
		for _, object := range objects {
			failures = errors.Join(failures, s.drop(ctx, object))
		}
		if failures != nil || len(objects) < sweepAtOnce {
			return failures
		}
	}
}
