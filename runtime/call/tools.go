package call

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/query"
)

// ToolQuery selects the calls that figures by tool are about.
type ToolQuery struct {
	InsightQuery
	Tool string // the skill's own name of it
	Sort string // one of [ToolSorts]; empty: the first
	// Details are the figures of all that is selected: by HTTP status, by step, and the errors. They take longer.
	Details bool
}

// ToolInsights are figures of calls by tool.
type ToolInsights struct {
	Window Window
	Now    time.Time // of the database
	Tools  []ToolFigures
	Total  int // how many tools there are; Tools are at most [MaxTools] of them

	// Details; see [ToolQuery].
	HTTPStatuses []StatusFigures // the smallest status first
	Steps        []StepFigures   // those that were taken, in their order
	Errors       []ErrorFigures  // at most [MaxErrors], the most frequent first

	Names map[uuid.UUID]string // of the skills
}

// ToolFigures are about the calls of one tool.
type ToolFigures struct {
	SkillID        uuid.UUID
	Tool           string
	Calls          Counts
	Last           time.Time // when the last call was made
	Exchanged      int       // calls that it came to a request of, and that were measured
	Sent, Received int64     // bytes of all of these
	Took           Times     // of the step call
}

// Times say how long half, 95 and 99 in a hundred took at most, to within a sixteenth. Of nothing they are zero.
type Times struct {
	Count         int
	P50, P95, P99 time.Duration
}

// StatusFigures are how many calls got an HTTP status.
type StatusFigures struct {
	HTTPStatus int
	Calls      int
}

// StepFigures are how long a step took.
type StepFigures struct {
	Step PipelineStep
	Took Times
}

// ErrorFigures are calls that failed alike.
type ErrorFigures struct {
	SkillID    uuid.UUID
	Tool       string
	Status     Status
	Code       string
	HTTPStatus int    // zero: none
	Line       string // what went wrong, generally; empty: the code says it
	Calls      int
	Last       time.Time
}

// The bounds of [ToolInsights].
const (
	MaxTools  = 1000
	MaxErrors = 20
)

// ToolSorts are the orders that tools may be listed in: the most first, and names by the alphabet.
func ToolSorts() []string {
	return []string{"calls", "errors", "p50", "p95", "bytes", "last", "name"}
}

// Errors is how many calls went wrong, or may have, of those that were sent and have ended.
func (f *ToolFigures) Errors() (errors, sent int) {
	errors = f.Calls[Failed] + f.Calls[Unknown]
	return errors, errors + f.Calls[Succeeded]
}

func (f *ToolFigures) errorShare() float64 {
	errors, sent := f.Errors()
	return float64(errors) / float64(max(sent, 1))
}

// ToolInsights reads the figures of a window by tool, all of them as of one moment.
// Errors: *[query.InvalidError], ErrInsightsTimeout.
func (s *Service) ToolInsights(ctx context.Context, q ToolQuery) (ToolInsights, error) {
	var r query.Reader
	f := s.figureFilter(ctx, &r, q.InsightQuery)
	name := r.Text("tool", q.Tool, maxToolName)
	if q.Sort != "" && !slices.Contains(ToolSorts(), q.Sort) {
		r.Refuse("sort", "expected one of "+strings.Join(ToolSorts(), ", "))
	}
	if err := r.Err(); err != nil {
		return ToolInsights{}, err
	}
	var found ToolInsights
	err := s.readFigures(ctx, func(tx pgx.Tx, clock clock) (err error) {
		found, err = readTools(ctx, tx, clock, f, name, q.Details)
		return err
	})
	if err != nil {
		return ToolInsights{}, err
	}
	ids := make([]uuid.UUID, 0, len(found.Tools))
	for i := range found.Tools {
		ids = append(ids, found.Tools[i].SkillID)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if found.Names, err = s.Agents.Names(ctx, slices.Compact(ids)); err != nil {
		return ToolInsights{}, err
	}
	found.sort(q.Sort)
	return found, nil
}

// sort puts the tools in order, and keeps as many as may be told.
func (i *ToolInsights) sort(by string) {
	slices.SortFunc(i.Tools, func(a, b ToolFigures) int {
		order := 0
		switch by {
		case "errors":
			order = cmp.Compare(b.errorShare(), a.errorShare())
		case "p50":
			order = cmp.Compare(b.Took.P50, a.Took.P50)
		case "p95":
			order = cmp.Compare(b.Took.P95, a.Took.P95)
		case "bytes":
			order = cmp.Compare(b.Sent+b.Received, a.Sent+a.Received)
		case "last":
			order = b.Last.Compare(a.Last)
		case "name":
		default:
			order = cmp.Compare(b.Calls.Total(), a.Calls.Total())
		}
		return cmp.Or(order, cmp.Compare(i.Names[a.SkillID], i.Names[b.SkillID]), cmp.Compare(a.Tool, b.Tool), slices.Compare(a.SkillID[:], b.SkillID[:]))
	})
	i.Total = len(i.Tools)
	i.Tools = i.Tools[:min(len(i.Tools), MaxTools)]
}

func readTools(ctx context.Context, tx pgx.Tx, clock clock, f approval.FigureFilter, name string, details bool) (ToolInsights, error) {
	found := ToolInsights{Now: clock.now}
	var err error
	if found.Window, err = NewWindow(f.From, f.To, clock.now); err != nil {
		return ToolInsights{}, err
	}
	f.From, f.To = found.Window.From, found.Window.To
	r := toolReader{tx: tx, found: &found}
	if r.args, err = toolArgs(ctx, tx, f, clock, name); err != nil {
		return ToolInsights{}, err
	}
	read := []func(context.Context) error{r.counts, r.times}
	if details {
		read = append(read, r.statuses, r.steps, r.errors)
	}
	for _, part := range read {
		if err := part(ctx); err != nil {
			return ToolInsights{}, fmt.Errorf("read figures of tools: %w", err)
		}
	}
	return found, nil
}

// What level of the tables of counts has days.
const (
	daysOfAgents = 1
	daysOfAll    = 2
)

// toolArgs are the parameters of callsByTool and timesByTool.
func toolArgs(ctx context.Context, tx pgx.Tx, f approval.FigureFilter, clock clock, name string) ([]any, error) {
	tail, first, last, err := uncounted(ctx, tx, f, clock)
	if err != nil {
		return nil, err
	}
	firstDay, lastDay := f.From.Truncate(day), f.To.Truncate(day)
	if firstDay.Before(f.From) {
		firstDay = firstDay.Add(day)
	}
	if !firstDay.Before(lastDay) { // no whole day
		firstDay, lastDay = f.To, f.To
	}
	level := daysOfAll
	if f.Agents != nil {
		level = daysOfAgents
	}
	var tool *string
	if name != "" {
		tool = &name
	}
	return []any{f.From, f.To, tail, first, last, f.Skills, f.Agents, tool, firstDay, lastDay, level}, nil
}
