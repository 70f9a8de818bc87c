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
// Errors: *[query.InvalidError], [ErrTimeout].
func (s *Service) ReadInsights(ctx context.Context, q Query) (Insights, error) {
	var r query.Reader
	filter := s.parseQuery(ctx, &r, q)
	if err := r.Err(); err != nil {
		return Insights{}, err
	}
	var found Insights
	err := s.inSnapshot(ctx, func(tx pgx.Tx, clock call.Clock) (err error) {
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
	if found.SkillNames, err = s.agents.Names(ctx, ids); err != nil {
		return Insights{}, err
	}
	return found, nil
}

func readInsights(ctx context.Context, tx pgx.Tx, clock call.Clock, f approval.FigureFilter) (Insights, error) {
	found := Insights{Now: clock.Now}
	var err error
	if found.Window, err = NewWindow(f.From, f.To, clock.Now); err != nil {
		return Insights{}, err
	}
	now, before := f, f
	now.From, now.To = found.Window.From, found.Window.To
	now.Bucket, now.Origin = found.Window.Bucket.duration(), bucketOrigin()
	before.From, before.To = found.Window.BeforeFrom, found.Window.BeforeTo
	if found.Calls, err = readCalls(ctx, tx, clock, now); err != nil {
		return Insights{}, err
	}
	if found.CallsBefore, err = readCalls(ctx, tx, clock, before); err != nil {
		return Insights{}, err
	}
	if found.Approvals, err = approval.ReadFigures(ctx, tx, now, clock.Now); err != nil {
		return Insights{}, err
	}
	if found.ApprovalsBefore, err = approval.ReadTotals(ctx, tx, before, clock.Now); err != nil {
		return Insights{}, err
	}
	for _, s := range found.Window.splitSpans() {
		counts := found.Calls.Buckets[s.start]
		if counts == nil {
			counts = Counts{}
		}
		found.Series = append(found.Series, Bucket{From: s.from, To: s.to, Calls: counts, Approvals: found.Approvals.Buckets[s.start]})
	}
	return found, nil
}
