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
	err := s.inSnapshot(ctx, func(tx pgx.Tx, clock call.Clock) (err error) {
		found = Insights{Now: clock.Now}
		if found.Window, err = NewWindow(filter.From, filter.To, clock.Now); err != nil {
			return err
		}
		now, before := filter, filter
		now.From, now.To = found.Window.From, found.Window.To
		now.Bucket, now.Origin = found.Window.Bucket.duration(), bucketOrigin()
		before.From, before.To = found.Window.BeforeFrom, found.Window.BeforeTo
		if found.Calls, err = readCalls(ctx, tx, clock, now); err != nil {
			return err
		}
		if found.CallsBefore, err = readCalls(ctx, tx, clock, before); err != nil {
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
	found.splitWindow()
	ids := make([]uuid.UUID, len(found.Approvals.Skills))
	for i, share := range found.Approvals.Skills {
		ids[i] = share.SkillID
	}
	if found.SkillNames, err = s.agents.Names(ctx, ids); err != nil {
		return Insights{}, err
	}
	return found, nil
}

// splitWindow makes the series: each bucket has the part that is within the window.
func (i *Insights) splitWindow() {
	w, length := &i.Window, i.Window.Bucket.duration()
	start := bucketOrigin().Add(w.From.Sub(bucketOrigin()).Truncate(length))
	for ; start.Before(w.To); start = start.Add(length) {
		b := Bucket{From: start, To: start.Add(length), Calls: i.Calls.Buckets[start], Approvals: i.Approvals.Buckets[start]}
		if b.From.Before(w.From) {
			b.From = w.From
		}
		if b.To.After(w.To) {
			b.To = w.To
		}
		if b.Calls == nil {
			b.Calls = Counts{}
		}
		i.Series = append(i.Series, b)
	}
}
