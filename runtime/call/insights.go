package call

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/query"
)

// InsightQuery selects the calls that insights are about, as people write it down. Empty fields select all.
type InsightQuery struct {
	From, To     string // see [query.ParseTime] and [NewWindow]
	Skill, Agent string // names, or ids
}

// Insights are figures of calls and approvals.
type Insights struct {
	Window    Window
	Now       time.Time // of the database
	Calls     Figures
	Approvals approval.Figures
	Series    []InsightBucket // all buckets of the window, also those without calls

	// Of the stretch of time before.
	CallsBefore     Figures
	ApprovalsBefore approval.Totals

	Names map[uuid.UUID]string // of the skills in Approvals
}

// InsightBucket is what happened in a part of the window.
type InsightBucket struct {
	From, To  time.Time
	Calls     Counts
	Approvals approval.Totals
}

// ErrInsightsTimeout says that the figures took longer than the database is kept busy for them.
var ErrInsightsTimeout = errors.New("figures took too long")

const insightsAtOnce = 2 // in each process, so that connections are left for calls

// insightsSetup bounds what figures may take from the database. They read whole tables where other statements must not.
const insightsSetup = `SET LOCAL statement_timeout = '5s'; SET LOCAL work_mem = '32MB'; SET LOCAL enable_seqscan = on`

// Insights reads the figures of a window, all of them as of one moment.
// Errors: *[query.InvalidError], ErrInsightsTimeout.
func (s *Service) Insights(ctx context.Context, q InsightQuery) (Insights, error) {
	var r query.Reader
	filter := s.figureFilter(ctx, &r, q)
	if err := r.Err(); err != nil {
		return Insights{}, err
	}
	var found Insights
	err := s.readFigures(ctx, func(tx pgx.Tx, clock clock) (err error) {
		found, err = readInsights(ctx, tx, clock, filter)
		return err
	})
	if err != nil {
		return Insights{}, err
	}
	ids := make([]uuid.UUID, len(found.Approvals.Skills))
	for i, share := range found.Approvals.Skills {
		ids[i] = share.SkillID
	}
	if found.Names, err = s.Agents.Names(ctx, ids); err != nil {
		return Insights{}, err
	}
	return found, nil
}

// figureFilter reads what figures are to be about.
func (s *Service) figureFilter(ctx context.Context, r *query.Reader, q InsightQuery) approval.FigureFilter {
	return approval.FigureFilter{
		From: r.Time("from", q.From, false), To: r.Time("to", q.To, true),
		Skills: r.Names(ctx, "skill", q.Skill, s.Agents.SkillsNamed, true),
		Agents: r.Names(ctx, "agent", q.Agent, s.Agents.AgentsNamed, true),
	}
}

// readFigures has figures read in a transaction that sees one moment, and that is bounded in what it may take.
func (s *Service) readFigures(ctx context.Context, read func(tx pgx.Tx, clock clock) error) error {
	select {
	case s.insights <- struct{}{}:
		defer func() { <-s.insights }()
	case <-ctx.Done():
		return fmt.Errorf("read insights: %w", ctx.Err())
	}
	err := pgx.BeginTxFunc(ctx, s.Pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, insightsSetup); err != nil {
			return fmt.Errorf("set up: %w", err)
		}
		clock, err := readClock(ctx, tx)
		if err != nil {
			return err
		}
		return read(tx, clock)
	})
	if isStatementTimeout(err) {
		err = fmt.Errorf("%w: %w", ErrInsightsTimeout, err)
	}
	if err != nil {
		return fmt.Errorf("read insights: %w", err)
	}
	return nil
}

func readInsights(ctx context.Context, tx pgx.Tx, clock clock, f approval.FigureFilter) (Insights, error) {
	found := Insights{Now: clock.now}
	var err error
	if found.Window, err = NewWindow(f.From, f.To, clock.now); err != nil {
		return Insights{}, err
	}
	now, before := f, f
	now.From, now.To = found.Window.From, found.Window.To
	now.Bucket, now.Origin = found.Window.Bucket.duration(), bucketOrigin()
	before.From, before.To = found.Window.BeforeFrom, found.Window.BeforeTo
	if found.Calls, err = readFigures(ctx, tx, now, clock); err != nil {
		return Insights{}, err
	}
	if found.CallsBefore, err = readFigures(ctx, tx, before, clock); err != nil {
		return Insights{}, err
	}
	if found.Approvals, err = approval.ReadFigures(ctx, tx, now, clock.now); err != nil {
		return Insights{}, err
	}
	if found.ApprovalsBefore, err = approval.ReadTotals(ctx, tx, before, clock.now); err != nil {
		return Insights{}, err
	}
	for _, s := range found.Window.spans() {
		counts := found.Calls.Buckets[s.start]
		if counts == nil {
			counts = Counts{}
		}
		found.Series = append(found.Series, InsightBucket{
			From: s.from, To: s.to, Calls: counts, Approvals: found.Approvals.Buckets[s.start],
		})
	}
	return found, nil
}
