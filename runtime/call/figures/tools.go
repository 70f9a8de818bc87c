package figures

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// ToolQuery selects the calls of figures by tool.
type ToolQuery struct {
	Query
	Tool string // the skill's own name of the tool
	Sort string // one of calls (the default), errors, p50, p95, bytes and last, the most first, and name

	// Details also reads the figures of all selected calls together: by HTTP status, by step, and the errors. They take longer.
	Details bool
}

// ToolInsights are the figures of the calls of a window by tool.
type ToolInsights struct {
	Window Window
	Now    time.Time // of the database
	Tools  []ToolFigures
	Total  int // the number of tools; Tools has at most [MaxTools] of them

	// Details; see [ToolQuery].
	HTTPStatuses []StatusFigures // the smallest status first
	Steps        []StepFigures   // the steps that were taken, in their order
	Errors       []ErrorFigures  // at most [MaxErrors], the most frequent first

	SkillNames map[uuid.UUID]string
}

// ToolFigures are the figures of one tool.
type ToolFigures struct {
	SkillID        uuid.UUID
	Tool           string
	Calls          Counts
	Last           time.Time // the time of the last call
	Exchanged      int       // the calls that sent a request and were measured
	Sent, Received int64     // bytes, of these calls
	Latency        Latency   // of the step call
}

// Latency has the median and two high percentiles of durations, at most a sixteenth off. They are zero if Count is.
type Latency struct {
	Count         int
	P50, P95, P99 time.Duration
}

// StatusFigures is the number of calls with an HTTP status.
type StatusFigures struct {
	HTTPStatus int
	Calls      int
}

// StepFigures is the latency of a step.
type StepFigures struct {
	Step    call.PipelineStep
	Latency Latency
}

// ErrorFigures are calls that failed alike.
type ErrorFigures struct {
	SkillID    uuid.UUID
	Tool       string
	Status     call.Status
	Code       string
	HTTPStatus int    // zero: none
	Line       string // the general text of the error; empty: there is only the code
	Calls      int
	Last       time.Time
}

// The bounds of [ToolInsights].
const (
	MaxTools  = 1000
	MaxErrors = 20
)

// Errors returns how many of the sent and ended calls failed or have an unknown outcome.
func (f *ToolFigures) Errors() (errors, sent int) {
	errors = f.Calls[call.Failed] + f.Calls[call.Unknown]
	return errors, errors + f.Calls[call.Succeeded]
}

func (f *ToolFigures) errorShare() float64 {
	errors, sent := f.Errors()
	return float64(errors) / float64(max(sent, 1))
}

// toolOrders returns the values of [ToolQuery.Sort].
func toolOrders() []string {
	return []string{"calls", "errors", "p50", "p95", "bytes", "last", "name"}
}

// ReadTools reads the figures of a window by tool, at one moment.
// Errors: *[fault.InvalidError], [ErrTimeout].
func (s *Service) ReadTools(ctx context.Context, q ToolQuery) (ToolInsights, error) {
	var r query.Reader
	f := s.parseQuery(ctx, &r, q.Query)
	name := r.Text("tool", q.Tool, call.MaxToolName)
	if q.Sort != "" && !slices.Contains(toolOrders(), q.Sort) {
		r.Refuse("sort", "must be one of "+strings.Join(toolOrders(), ", "))
	}
	if err := r.Err(); err != nil {
		return ToolInsights{}, err
	}
	var found ToolInsights
	err := s.inSnapshot(ctx, func(tx pgx.Tx, clock call.Clock) (err error) {
		found = ToolInsights{Now: clock.Now}
		if found.Window, err = NewWindow(f.From, f.To, clock.Now, r.Zone); err != nil {
			return err
		}
		f.From, f.To = found.Window.From, found.Window.To
		r := toolReader{tx: tx, found: &found}
		if r.args, err = toolArgs(ctx, tx, clock, f, name); err != nil {
			return err
		}
		parts := []func(context.Context) error{r.readCounts, r.readTimes}
		if q.Details {
			parts = append(parts, r.readStatuses, r.readSteps, r.readErrors)
		}
		for _, read := range parts {
			if err := read(ctx); err != nil {
				return fmt.Errorf("read figures of tools: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return ToolInsights{}, err
	}
	ids := make([]uuid.UUID, 0, len(found.Tools))
	for i := range found.Tools {
		ids = append(ids, found.Tools[i].SkillID)
	}
	slices.SortFunc(ids, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
	if found.SkillNames, err = s.agents.Names(ctx, slices.Compact(ids)); err != nil {
		return ToolInsights{}, err
	}
	found.sortTools(q.Sort)
	return found, nil
}

// sortTools sorts the tools and drops those after [MaxTools].
func (i *ToolInsights) sortTools(order string) {
	slices.SortFunc(i.Tools, func(a, b ToolFigures) int {
		first := 0
		switch order {
		case "errors":
			first = cmp.Compare(b.errorShare(), a.errorShare())
		case "p50":
			first = cmp.Compare(b.Latency.P50, a.Latency.P50)
		case "p95":
			first = cmp.Compare(b.Latency.P95, a.Latency.P95)
		case "bytes":
			first = cmp.Compare(b.Sent+b.Received, a.Sent+a.Received)
		case "last":
			first = b.Last.Compare(a.Last)
		case "name":
		default:
			first = cmp.Compare(b.Calls.Total(), a.Calls.Total())
		}
		return cmp.Or(first, cmp.Compare(i.SkillNames[a.SkillID], i.SkillNames[b.SkillID]), cmp.Compare(a.Tool, b.Tool),
			slices.Compare(a.SkillID[:], b.SkillID[:]))
	})
	i.Total = len(i.Tools)
	i.Tools = i.Tools[:min(len(i.Tools), MaxTools)]
}
