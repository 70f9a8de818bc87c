package notify

import (
	"context"

	"github.com/riverqueue/river"
)

// spreadArgs are events that nobody was told of yet.
type spreadArgs struct {
	Events []Event `json:"events"`
}

func (spreadArgs) Kind() string { return "notify_spread" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (spreadArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: JobQueue} }

type spreadWorker struct {
	river.WorkerDefaults[spreadArgs]
	service *Service
}

// Work finds whom the events concern.
func (w *spreadWorker) Work(_ context.Context, job *river.Job[spreadArgs]) error {
	w.service.Logger.Debug("events to notify of", "count", len(job.Args.Events))
	return nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &spreadWorker{service: s})
}
