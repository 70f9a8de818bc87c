// Package figures owns the figures of calls and approvals: how many there were in a range of time, how they ended and how long they
// took. It adds up ended calls by the hour and by the day in the tables call_counts, call_tool_counts, call_tool_errors and
// call_tool_times, with a River job. It does not own the calls: package call says which of them are not counted yet, and
// package approval adds up approvals.
package figures

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Config is the configuration of a [Service]. Pool and Agents are required.
type Config struct {
	Pool   *pgxpool.Pool
	Reader *postgres.Reader // reads the figures; nil: it has no standby
	Agents *agent.Service   // finds the names of agents and skills
}

// Service counts calls and reads figures.
type Service struct {
	pool    *pgxpool.Pool
	reader  *postgres.Reader
	agents  *agent.Service
	reading chan struct{} // holds one element per transaction that reads figures
}

// New makes a service. Reading works at once; [Service.Start] begins the counting.
func New(cfg Config) (*Service, error) {
	if cfg.Pool == nil || cfg.Agents == nil {
		return nil, errors.New("make figures service: Pool and Agents are required")
	}
	if cfg.Reader == nil {
		cfg.Reader = postgres.NewReader(cfg.Pool)
	}
	return &Service{pool: cfg.Pool, reader: cfg.Reader, agents: cfg.Agents, reading: make(chan struct{}, maxReading)}, nil
}

// AddWorkers registers the worker of this package's job.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &countWorker{service: s})
}

// Start has one of all processes count every few minutes.
func (s *Service) Start(client *river.Client[pgx.Tx]) {
	client.PeriodicJobs().Add(river.NewPeriodicJob(river.PeriodicInterval(countInterval),
		func() (river.JobArgs, *river.InsertOpts) { return countArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true}))
}

// ErrTimeout means that the figures took longer than the database may be kept busy for them.
var ErrTimeout = errors.New("figures took too long")

// maxReading bounds the transactions that read figures at a time, so that calls get connections.
const maxReading = 2

// readLimits bounds the time and memory that figures take from the database. They scan whole tables, which other statements may not.
const readLimits = `SET LOCAL statement_timeout = '5s'; SET LOCAL work_mem = '32MB'; SET LOCAL enable_seqscan = on`

// inSnapshot runs read in a bounded transaction that sees the database at one moment.
func (s *Service) inSnapshot(ctx context.Context, read func(tx pgx.Tx, clock call.Clock) error) error {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	case <-ctx.Done():
		return fmt.Errorf("read insights: %w", ctx.Err())
	}
	err := s.reader.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, readLimits); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
		clock, err := call.ReadClock(ctx, tx)
		if err != nil {
			return err
		}
		return read(tx, clock)
	})
	if postgres.IsStatementTimeout(err) {
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	if err != nil {
		return fmt.Errorf("read insights: %w", err)
	}
	return nil
}

// Query selects calls, as people write it. Empty fields select all.
type Query struct {
	From, To     string // see [query.ParseTime] and [NewWindow]
	Zone         string // of days, weeks and hours, such as "Europe/Berlin"; empty: UTC
	Skill, Agent string // names or ids
}

// parseQuery reads a query. r collects the problems and gets the zone.
func (s *Service) parseQuery(ctx context.Context, r *query.Reader, q Query) approval.FigureFilter {
	zone, err := query.ParseZone(q.Zone)
	if err != nil {
		r.Refuse("zone", err.Error())
	}
	r.Zone = zone
	return approval.FigureFilter{
		From: r.Time("from", q.From, false), To: r.Time("to", q.To, true),
		Skills: r.Names(ctx, "skill", q.Skill, s.agents.SkillsNamed, true),
		Agents: r.Names(ctx, "agent", q.Agent, s.agents.AgentsNamed, true),
	}
}
