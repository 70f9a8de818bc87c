// Package retention deletes records that are older than operators want to keep, and exports and erases the data of one person. It decides
// what may go and when; it is the only package with SQL for the tables of others, because a deletion spans them. It owns the tables
// retention_progress, retention_skipped and person_erasures. Legal holds are in package legalhold.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/lifetime"
)

// factsAge is how far back calls are compared with approved ones. Older facts are read by nothing.
const factsAge = 90 * lifetime.Day

// Config configures a [Service]. Pool and Logger are required.
type Config struct {
	Pool   *pgxpool.Pool
	Logger *slog.Logger
	Now    func() time.Time // measures how long batches take
	Ages   lifetime.Ages

	// Interval is the time between two runs. Zero: 10 minutes. A run ends before the next one begins.
	Interval time.Duration
	// BatchSize bounds the rows of a transaction. Zero: 1,000.
	BatchSize int
	// AfterBatch is called after each transaction. Tests use it. Nil: nothing is called.
	AfterBatch func(kind string)
}

// Service deletes old records.
type Service struct {
	Config
	Holds *legalhold.Service

	river *river.Client[pgx.Tx]
}

const defaultInterval = 10 * time.Minute

// New makes a service. Nothing is deleted before [Service.Start] or [Service.Run].
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Logger == nil || cfg.Now == nil {
		return nil, errors.New("make retention service: Pool, Logger and Now are required")
	}
	if err := cfg.Ages.Check(); err != nil {
		return nil, fmt.Errorf("make retention service: %w", err)
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.BatchSize == 0 {
		cfg.BatchSize = 1000
	}
	return &Service{Config: cfg, Holds: &legalhold.Service{Pool: cfg.Pool, Lifted: restartContent}}, nil
}

// runArgs is the job that deletes old records.
type runArgs struct{}

func (runArgs) Kind() string { return "retention" }

type runWorker struct {
	river.WorkerDefaults[runArgs]
	service *Service
}

// Timeout is longer than a run, which ends by itself.
func (w *runWorker) Timeout(*river.Job[runArgs]) time.Duration { return w.service.Interval }

func (w *runWorker) Work(ctx context.Context, _ *river.Job[runArgs]) error {
	_, err := w.service.Run(ctx)
	return err
}

// eraseArgs is the job that erases the data of a person.
type eraseArgs struct {
	PersonID uuid.UUID `json:"person_id"`
}

func (eraseArgs) Kind() string { return "person_erasure" }

type eraseWorker struct {
	river.WorkerDefaults[eraseArgs]
	service *Service
}

func (w *eraseWorker) Timeout(*river.Job[eraseArgs]) time.Duration { return w.service.Interval }

func (w *eraseWorker) Work(ctx context.Context, job *river.Job[eraseArgs]) error {
	return w.service.continueErasure(ctx, job.Args.PersonID)
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &runWorker{service: s})
	river.AddWorker(workers, &eraseWorker{service: s})
}

// Start schedules the runs, in one process at a time.
func (s *Service) Start(client *river.Client[pgx.Tx]) {
	s.river = client
	client.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(s.Interval),
		func() (river.JobArgs, *river.InsertOpts) { return runArgs{}, &river.InsertOpts{MaxAttempts: 1} },
		&river.PeriodicJobOpts{RunOnStart: true}))
}
