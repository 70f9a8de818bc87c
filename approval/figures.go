package approval

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// FastDecision is a decision time that is too short to have read the request.
const FastDecision = 3 * time.Second

// takenUpSQL is the earliest time at which the reviewer $3 can have begun to read the approval: its creation, or the
// reviewer's previous decision if that is later. Decisions less than 400 ms ago were made together with this one, since the
// dashboard accepts no two single decisions in that time.
const takenUpSQL = `CASE WHEN $3::uuid IS NOT NULL THEN greatest(created_at, (SELECT max(decided_at) FROM approvals
	WHERE decided_by = $3 AND decided_at <= (SELECT holdpoint_now()) - interval '400 ms')) END`

// FigureFilter selects the approvals that figures are about.
type FigureFilter struct {
	From, To time.Time   // created in [From, To)
	Skills   []uuid.UUID // nil: all
	Agents   []uuid.UUID // nil: all

	// Starts are the starts of the buckets; the first is From. Nil: no buckets.
	Starts []time.Time
}

// Totals are the figures of a period.
type Totals struct {
	Asked     int
	Pending   int
	Approved  int
	Rejected  int
	Expired   int
	Cancelled int

	Fast    int    // decisions in less than [FastDecision]
	Waiting Spread // from the request to its end, by decision, deadline or cancellation
	// Deciding is about decisions by people: from the earliest time at which the reviewer can have begun to read (the
	// request's creation, or their previous decision if that is later) to the decision.
	Deciding Spread
}

// Decisions returns the number of decisions by people.
func (t *Totals) Decisions() int { return t.Approved + t.Rejected }

// Spread is the median and the 90th percentile of durations; zero if there are none.
type Spread struct {
	Count    int
	P50, P90 time.Duration
}

// Share holds the totals of the requests with a common skill, tool or rule. The other fields are zero.
type Share struct {
	SkillID uuid.UUID
	Tool    string
	Rule    Rule
	Totals
}

// Decider holds the figures of one reviewer.
type Decider struct {
	PersonID  uuid.UUID
	Decisions int
	Fast      int
}

// Figures are the figures of the requests of a period.
type Figures struct {
	Totals   Totals
	Buckets  map[int]Totals // by their place in Starts; buckets without requests are left out
	Skills   []Share        // each list begins with the most requests
	Tools    []Share
	Rules    []Share
	Deciders []Decider // the most decisions first
	Unusual  Unusual
}

// figuresSQL selects the requests, $1 being now. An expired request ended at its deadline, even if that was recorded later.
const figuresSQL = `FROM (SELECT created_at, skill_id, tool, rule, decided_by,
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

func (f *FigureFilter) queryArgs(now time.Time) []any {
	return []any{now, f.From, f.To, f.Skills, f.Agents, FastDecision.Seconds()}
}

// ReadTotals returns the totals alone. now is the database's time.
func ReadTotals(ctx context.Context, tx pgx.Tx, f FigureFilter, now time.Time) (Totals, error) {
	f.Starts = nil
	totals, _, err := f.readSeries(ctx, tx, now)
	return totals, err
}

// ReadFigures returns all figures. now is the database's time; tx needs the isolation that gives all statements the same
// snapshot.
func ReadFigures(ctx context.Context, tx pgx.Tx, f FigureFilter, now time.Time) (Figures, error) {
	totals, buckets, err := f.readSeries(ctx, tx, now)
	if err != nil {
		return Figures{}, err
	}
	figures := Figures{Totals: totals, Buckets: buckets}
	if err := f.readShares(ctx, tx, now, &figures); err != nil {
		return Figures{}, err
	}
	figures.Unusual, err = f.readUnusual(ctx, tx)
	return figures, err
}

// readSeries returns the totals of the whole period and of each bucket.
func (f *FigureFilter) readSeries(ctx context.Context, tx pgx.Tx, now time.Time) (Totals, map[int]Totals, error) {
	sql, args := `SELECT NULL::int, `+figureCounts+`, `+figureSpreads+` `+figuresSQL, f.queryArgs(now)
	if f.Starts != nil {
		sql = `SELECT bucket, ` + figureCounts + `, ` + figureSpreads + ` FROM (SELECT outcome, waited, took,
				width_bucket(created_at, $7::timestamptz[]) - 1 AS bucket ` + figuresSQL + `) AS b GROUP BY GROUPING SETS ((bucket), ())`
		args = append(args, f.Starts)
	}
	rows, _ := tx.Query(ctx, sql, args...)
	var totals Totals
	buckets := map[int]Totals{}
	var place *int
	var t Totals
	var waiting, deciding []float64
	fields := append(append([]any{&place}, t.countFields()...), &t.Waiting.Count, &waiting, &t.Deciding.Count, &deciding)
	_, err := pgx.ForEachRow(rows, fields, func() error {
		t.Waiting.setPercentiles(waiting)
		t.Deciding.setPercentiles(deciding)
		if place != nil {
			buckets[*place] = t
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

// countFields returns the fields that figureCounts fills, in order.
func (t *Totals) countFields() []any {
	return []any{&t.Asked, &t.Pending, &t.Approved, &t.Rejected, &t.Expired, &t.Cancelled, &t.Fast}
}

func (s *Spread) setPercentiles(seconds []float64) {
	s.P50, s.P90 = 0, 0
	if len(seconds) == 2 {
		s.P50, s.P90 = parseSeconds(seconds[0]), parseSeconds(seconds[1])
	}
}

func parseSeconds(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond)
}

// Values of grouping(skill_id, tool, rule, decided_by): a bit is set if the row is not grouped by that column.
const (
	bySkill   = 0b0111
	byTool    = 0b0011
	byRule    = 0b1101
	byDecider = 0b1110
)

// readShares reads the shares and the deciders into figures.
func (f *FigureFilter) readShares(ctx context.Context, tx pgx.Tx, now time.Time, figures *Figures) error {
	rows, _ := tx.Query(ctx, `SELECT grouping(skill_id, tool, rule, decided_by), skill_id, coalesce(tool, ''), coalesce(rule, ''),
			decided_by, `+figureCounts+` `+figuresSQL+`
		GROUP BY GROUPING SETS ((skill_id), (skill_id, tool), (rule), (decided_by))
		ORDER BY count(*) DESC, skill_id, tool, rule, decided_by`, f.queryArgs(now)...)
	var grouping int
	var skill, person *uuid.UUID
	var s Share
	fields := append([]any{&grouping, &skill, &s.Tool, &s.Rule, &person}, s.countFields()...)
	_, err := pgx.ForEachRow(rows, fields, func() error {
		s.SkillID = postgres.OrNil(skill)
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
