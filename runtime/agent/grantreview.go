package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// reviewArgs is the job that looks at grants, and at changes that wait for a second operator.
type reviewArgs struct{}

func (reviewArgs) Kind() string { return "grant_review" }

type reviewWorker struct {
	river.WorkerDefaults[reviewArgs]
	service *Service
}

func (w *reviewWorker) Work(ctx context.Context, _ *river.Job[reviewArgs]) error {
	return errors.Join(w.service.ReviewGrants(ctx), w.service.control.EndExpired(ctx))
}

const (
	reviewPoll     = time.Hour // between two looks at when the last review was
	reviewInterval = 7 * 24 * time.Hour
	// unusedAge is how long a grant may be without a use until it counts as unused.
	unusedAge = "3 days"
	// maxReviewed bounds the grants that an event names.
	maxReviewed = 100
)

// AddWorkers registers the worker of this package's job.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &reviewWorker{service: s})
}

// StartReviews has one of all processes review the grants once a week.
func (s *Service) StartReviews(client *river.Client[pgx.Tx]) {
	client.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(reviewPoll),
		func() (river.JobArgs, *river.InsertOpts) { return reviewArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}))
}

// reviewSubject returns the subject of the events about reviews.
func reviewSubject() uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("holdpoint:grants"))
}

// ReviewGrants writes an event that names the unused and the wide grants which count, unless one was written within a week.
func (s *Service) ReviewGrants(ctx context.Context) error {
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSQL); err != nil {
			return err
		}
		var now time.Time
		if err := tx.QueryRow(ctx, `SELECT holdpoint_now()`).Scan(&now); err != nil {
			return err
		}
		last, err := audit.List(ctx, tx, audit.Filter{Subject: reviewSubject(), Action: audit.GrantReviewed, Limit: 1})
		if err != nil || len(last) > 0 && now.Sub(last[0].At) < reviewInterval {
			return err
		}
		grants, err := readGrants(ctx, tx, `g.plan_id IS NULL AND g.revoked_at IS NULL AND g.ends_at > holdpoint_now() ORDER BY g.id`)
		if err != nil {
			return err
		}
		unused, wide := []uuid.UUID{}, []uuid.UUID{}
		for i := range grants {
			g := &grants[i]
			if g.State != GrantActive {
				continue
			}
			if g.Unused && len(unused) < maxReviewed {
				unused = append(unused, g.ID)
			}
			if g.IsWide() && len(wide) < maxReviewed {
				wide = append(wide, g.ID)
			}
		}
		if len(unused)+len(wide) == 0 {
			return nil
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.System(), Action: audit.GrantReviewed, Subject: reviewSubject(), Data: map[string]any{"unused": unused, "wide": wide},
		})
	})
	if err != nil {
		return fmt.Errorf("review grants: %w", err)
	}
	return nil
}
