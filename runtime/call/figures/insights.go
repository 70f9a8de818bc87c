package figures

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// Insights are the figures of the calls and approvals of a window.
type Insights struct {
	Window    Window
	Now       time.Time // of the database
	Calls     Calls
	Approvals approval.Figures
	Series    []Bucket // all buckets of the window, with and without calls

	// The figures of the comparison range; see [Window].
	CallsBefore     Calls
	ApprovalsBefore approval.Totals

	SkillNames map[uuid.UUID]string // of the skills in Approvals
}

// Bucket has the figures of a part of the window.
type Bucket struct {
	From, To  time.Time
	Calls     Counts
	Approvals approval.Totals
}

// ReadInsights reads the figures of a window at one moment.
// Errors: *[fault.InvalidError], [ErrTimeout].
func (s *Service) ReadInsights(ctx context.Context, q Query) (Insights, error) {
	var r query.Reader
	filter := s.parseQuery(ctx, &r, q)
	if err := r.Err(); err != nil {
		return Insights{}, err
	}
	var found Insights
	now, before := filter, filter
	err := s.inSnapshot(ctx, func(tx pgx.Tx, clock call.Clock) (err error) {
		found = Insights{Now: clock.Now}
		if found.Window, err = NewWindow(filter.From, filter.To, clock.Now, r.Zone); err != nil {
			return err
		}
		now.From, now.To = found.Window.From, found.Window.To
		now.Starts = found.Window.listStarts()
		before.From, before.To = found.Window.BeforeFrom, found.Window.BeforeTo
		if found.Calls, err = readCalls(ctx, tx, clock, now, r.Zone); err != nil {
			return err
		}
		if found.CallsBefore, err = readCalls(ctx, tx, clock, before, r.Zone); err != nil {
			return err
		}
		if found.Approvals, err = approval.ReadFigures(ctx, tx, now, clock.Now); err != nil {
			return err
		}
		found.ApprovalsBefore, err = approval.ReadTotals(ctx, tx, before, clock.Now)
		return err
	})
	if err != nil {
		return Insights{}, err
	}
	found.makeSeries(now.Starts)
	ids := make([]uuid.UUID, len(found.Approvals.Skills))
	for i, share := range found.Approvals.Skills {
		ids[i] = share.SkillID
	}
	if found.SkillNames, err = s.agents.Names(ctx, ids); err != nil {
		return Insights{}, err
	}
	return found, nil
}

// makeSeries makes the buckets of the window from their starts.
func (i *Insights) makeSeries(starts []time.Time) {
	for n, start := range starts {
		b := Bucket{From: start, To: i.Window.To, Calls: i.Calls.Buckets[n], Approvals: i.Approvals.Buckets[n]}
		if n+1 < len(starts) {
			b.To = starts[n+1]
		}
		if b.Calls == nil {
			b.Calls = Counts{}
		}
		i.Series = append(i.Series, b)
	}
}
