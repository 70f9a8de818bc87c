package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Fast is a decision time below which hardly anybody has read what they decided about.
const Fast = 3 * time.Second

// takenUp is the earliest that the person $3 can have turned to the approval that is settled: when it came, or when
// they decided the one before, if that was later. What is decided within 400 ms was sent together: the
// dashboard takes no two decisions in less.
const takenUp = `CASE WHEN $3::uuid IS NOT NULL THEN greatest(created_at, (SELECT max(decided_at) FROM approvals
	WHERE decided_by = $3 AND decided_at <= (SELECT holdpoint_now()) - interval '400 ms')) END`

// FigureFilter selects the approvals that figures are about.
type FigureFilter struct {
	From, To time.Time   // asked for in [From, To)
	Skills   []uuid.UUID // nil: all
	Agents   []uuid.UUID // nil: all

	// Buckets begin every Bucket from Origin on. Zero: there are none.
	Bucket time.Duration
	Origin time.Time
}

// Totals are the figures of one stretch of time.
type Totals struct {
	Asked     int
	Pending   int
	Approved  int
	Rejected  int
	Expired   int
	Cancelled int

	Fast    int    // decisions in less than [Fast]
	Waiting Spread // from the request to its end, whatever ended it
	// Deciding is, of what people decided, from when they can have turned to it (when it came, or when
	// they decided the one before, if that was later) to the decision.
	Deciding Spread
}

// Decisions are those that people made.
func (t *Totals) Decisions() int { return t.Approved + t.Rejected }

// Spread says how long half, and nine tenths, of something took at most. Of nothing it is zero.
type Spread struct {
	Count    int
	P50, P90 time.Duration
}

// Share is what became of requests that have something in common. Fields that are not in common are zero.
type Share struct {
	SkillID uuid.UUID
	Tool    string
	Rule    Rule
	Totals
}

// Decider is how one person decided.
type Decider struct {
	PersonID  uuid.UUID
	Decisions int
	Fast      int
}

// Figures are about the requests of a stretch of time.
type Figures struct {
	Totals   Totals
	Buckets  map[time.Time]Totals // by their beginning; those without requests are left out
	Skills   []Share              // most requests first, as the others
	Tools    []Share
	Rules    []Share
	Deciders []Decider // most decisions first
}

// figuresOf are the requests, $1 being now: an expired one ended at its deadline, whoever noticed when.
const figuresOf = `FROM (SELECT created_at, skill_id, tool, rule, decided_by,
		CASE WHEN status = 'pending' AND deadline <= $1 THEN 'expired' ELSE status END AS outcome,
		date_part('epoch', CASE WHEN status = 'expired' OR status = 'pending' AND deadline <= $1 THEN deadline ELSE decided_at END
			- created_at) AS waited,
		CASE WHEN decided_by IS NOT NULL THEN date_part('epoch', decided_at - coalesce(taken_up_at, created_at)) END AS took
	FROM approvals
	WHERE created_at >= $2 AND created_at < $3
		AND ($4::uuid[] IS NULL OR skill_id = ANY($4)) AND ($5::uuid[] IS NULL OR agent_id = ANY($5))) AS a`

const figureCounts = `count(*), count(*) FILTER (WHERE outcome = 'pending'), count(*) FILTER (WHERE outcome = 'approved'),
	count(*) FILTER (WHERE outcome = 'rejected'), count(*) FILTER (WHERE outcome = 'expired'),
	count(*) FILTER (WHERE outcome = 'cancelled'), count(*) FILTER (WHERE took < $6)`

const figureSpreads = `count(waited), percentile_disc(ARRAY[.5, .9]) WITHIN GROUP (ORDER BY waited),
	count(took), percentile_disc(ARRAY[.5, .9]) WITHIN GROUP (ORDER BY took)`

func (f *FigureFilter) args(now time.Time) []any {
	return []any{now, f.From, f.To, f.Skills, f.Agents, Fast.Seconds()}
}

// ReadTotals returns the totals alone. now is the database's.
func ReadTotals(ctx context.Context, tx pgx.Tx, f FigureFilter, now time.Time) (Totals, error) {
	f.Bucket = 0
	totals, _, err := f.series(ctx, tx, now)
	return totals, err
}

// ReadFigures returns all figures. now is the database's; the transaction sees to it that they are all about
// the same state of things.
func ReadFigures(ctx context.Context, tx pgx.Tx, f FigureFilter, now time.Time) (Figures, error) {
	var figures Figures
	var err error
	if figures.Totals, figures.Buckets, err = f.series(ctx, tx, now); err != nil {
		return Figures{}, err
	}
	if err := f.shares(ctx, tx, now, &figures); err != nil {
		return Figures{}, err
	}
	return figures, nil
}

// series returns the totals, and those of each bucket.
func (f *FigureFilter) series(ctx context.Context, tx pgx.Tx, now time.Time) (Totals, map[time.Time]Totals, error) {
	sql, args := `SELECT NULL::timestamptz, `+figureCounts+`, `+figureSpreads+` `+figuresOf, f.args(now)
	if f.Bucket > 0 {
		sql = `SELECT bucket, ` + figureCounts + `, ` + figureSpreads + ` FROM (SELECT outcome, waited, took,
				date_bin($7 * interval '1 second', created_at, $8) AS bucket ` + figuresOf + `) AS b GROUP BY GROUPING SETS ((bucket), ())`
		args = append(args, f.Bucket.Seconds(), f.Origin)
	}
	rows, err := tx.Query(ctx, sql, args...)
	if err != nil {
		return Totals{}, nil, fmt.Errorf("read figures of approvals: %w", err)
	}
	var totals Totals
	buckets := map[time.Time]Totals{}
	var start *time.Time
	var t Totals
	var waiting, deciding []float64
	fields := append(append([]any{&start}, t.counts()...), &t.Waiting.Count, &waiting, &t.Deciding.Count, &deciding)
	_, err = pgx.ForEachRow(rows, fields, func() error {
		t.Waiting.set(waiting)
		t.Deciding.set(deciding)
		if start != nil {
			buckets[start.UTC()] = t
		} else {
			totals = t
		}
		return nil
	})
	if err != nil {
		return Totals{}, nil, fmt.Errorf("read figures of approvals: %w", err)
	}
	return totals, buckets, nil
}

// counts are the fields that figureCounts fills.
func (t *Totals) counts() []any {
	return []any{&t.Asked, &t.Pending, &t.Approved, &t.Rejected, &t.Expired, &t.Cancelled, &t.Fast}
}

func (s *Spread) set(seconds []float64) {
	s.P50, s.P90 = 0, 0
	if len(seconds) == 2 {
		s.P50, s.P90 = duration(seconds[0]), duration(seconds[1])
	}
}

func duration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// The bits of PostgreSQL's grouping() for the columns skill_id, tool, rule and decided_by: set where a row is not of one.
const (
	bySkill   = 0b0111
	byTool    = 0b0011
	byRule    = 0b1101
	byDecider = 0b1110
)

// shares fills in what became of the requests by what they have in common.
func (f *FigureFilter) shares(ctx context.Context, tx pgx.Tx, now time.Time, figures *Figures) error {
	rows, err := tx.Query(ctx, `SELECT grouping(skill_id, tool, rule, decided_by), skill_id, coalesce(tool, ''), coalesce(rule, ''),
			decided_by, `+figureCounts+` `+figuresOf+`
		GROUP BY GROUPING SETS ((skill_id), (skill_id, tool), (rule), (decided_by))
		ORDER BY count(*) DESC, skill_id, tool, rule, decided_by`, f.args(now)...)
	if err != nil {
		return fmt.Errorf("read shares of approvals: %w", err)
	}
	var grouping int
	var skill, person *uuid.UUID
	var s Share
	fields := append([]any{&grouping, &skill, &s.Tool, &s.Rule, &person}, s.counts()...)
	_, err = pgx.ForEachRow(rows, fields, func() error {
		s.SkillID = uuid.Nil
		if skill != nil {
			s.SkillID = *skill
		}
		switch grouping {
		case bySkill:
			figures.Skills = append(figures.Skills, s)
		case byTool:
			figures.Tools = append(figures.Tools, s)
		case byRule:
			figures.Rules = append(figures.Rules, s)
		case byDecider:
			if person != nil {
				figures.Deciders = append(figures.Deciders, Decider{PersonID: *person, Decisions: s.Decisions(), Fast: s.Fast})
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read shares of approvals: %w", err)
	}
	return nil
}
