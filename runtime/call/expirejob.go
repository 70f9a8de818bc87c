package call

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
)

// expireArgs is the job that expires an approval when nobody waits for it any more.
type expireArgs struct {
	CallID uuid.UUID `json:"call_id"`
}

func (expireArgs) Kind() string { return "call_expire" }

func expireJob(id uuid.UUID, deadline time.Time) river.InsertManyParams {
	return river.InsertManyParams{Args: expireArgs{CallID: id}, InsertOpts: &river.InsertOpts{ScheduledAt: deadline}}
}

type expireWorker struct {
	river.WorkerDefaults[expireArgs]
	service *Service
}

// Work trusts no schedule: the deadline is read again, and may have moved.
func (w *expireWorker) Work(ctx context.Context, job *river.Job[expireArgs]) error {
	left, err := w.service.expire(ctx, job.Args.CallID)
	if err != nil {
		return err
	}
	if left > 0 {
		return river.JobSnooze(left)
	}
	return nil
}
