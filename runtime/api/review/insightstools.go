package review

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

// ToolInsights are figures of the calls in a time range by tool. Times are exact to a sixteenth.
type ToolInsights struct {
	From         time.Time      `json:"from" doc:"The start of the range, a whole hour."`
	To           time.Time      `json:"to" doc:"The end of the range (exclusive), a whole hour."`
	Total        int            `json:"total" doc:"The number of tools; at most 1000 are listed."`
	Tools        []ToolFigures  `json:"tools" nullable:"false"`
	HTTPStatuses []StatusFigure `json:"http_statuses" nullable:"false" doc:"HTTP statuses, steps and errors are those of all selected calls."`
	Steps        []StepFigure   `json:"steps" nullable:"false" doc:"In order; steps that did not run are omitted."`
	Errors       []ErrorFigure  `json:"errors" nullable:"false" doc:"The 20 most frequent errors."`
}

// ToolFigures are about the calls of one tool.
type ToolFigures struct {
	Skill      *string        `json:"skill" doc:"Null if it was deleted."`
	Tool       string         `json:"tool" doc:"The skill's own name for the tool."`
	Calls      int            `json:"calls"`
	ByStatus   map[string]int `json:"by_status" doc:"Entries without calls are omitted."`
	ErrorShare *float64       `json:"error_share" doc:"The share of failed and unknown calls among those that were sent and have ended, from 0 to 1; null if there are none."`
	Latency    Latency        `json:"latency" doc:"The server's time: the step call."`
	Measured   int            `json:"measured" doc:"The number of calls with known sizes."`
	Sent       int64          `json:"bytes_sent"`
	Received   int64          `json:"bytes_received"`
	LastCallAt time.Time      `json:"last_call_at"`
}

// Latency says how long half, 95 and 99 in a hundred took at most.
type Latency struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50_seconds" doc:"Null if there are none."`
	P95   *float64 `json:"p95_seconds"`
	P99   *float64 `json:"p99_seconds"`
}

// StatusFigure is how many calls got an HTTP status.
type StatusFigure struct {
	HTTPStatus int `json:"http_status"`
	Calls      int `json:"calls"`
}

// StepFigure is how long a step took.
type StepFigure struct {
	Step string `json:"step" enum:"validate,resolve,credentials,call,transform,log"`
	Latency
}

// ErrorFigure are calls that went wrong alike.
type ErrorFigure struct {
	Skill      *string   `json:"skill"`
	Tool       string    `json:"tool"`
	Status     string    `json:"status" enum:"failed,unknown,invalid,denied"`
	Code       *string   `json:"code"`
	HTTPStatus *int      `json:"http_status"`
	Line       *string   `json:"line" doc:"The error without arguments, names and numbers; may be text of the skill's server. Null: see the code."`
	Calls      int       `json:"calls"`
	LastCallAt time.Time `json:"last_call_at"`
}

type toolInsightsInput struct {
	From  string `query:"from" doc:"Calls made at or after this time: RFC 3339, or a day, or a day and a time in the zone; rounded down to a whole hour. Default: seven days before to; at most 400 days before it."`
	To    string `query:"to" doc:"Calls made before this time; a day is included as a whole. Default: now."`
	Zone  string `query:"zone" doc:"The time zone of days, weeks and hours, such as Europe/Berlin. Default: UTC."`
	Skill string `query:"skill" doc:"Only calls of the skill with this name or id, even if it was deleted."`
	Agent string `query:"agent" doc:"Only calls of the agent with this name or id, even if it was deleted."`
	Tool  string `query:"tool" doc:"Only calls of the tool with the skill's name for it."`
	Sort  string `query:"sort" enum:"calls,errors,p50,p95,bytes,last,name" doc:"The order of the tools: highest first, or by name. Default: calls."`
}

func (h *insightHandlers) getToolInsights(ctx context.Context, input *toolInsightsInput) (*rest.Output[ToolInsights], error) {
	found, err := h.figures.ReadTools(ctx, figures.ToolQuery{
		Query: figures.Query{From: input.From, To: input.To, Zone: input.Zone, Skill: input.Skill, Agent: input.Agent},
		Tool:  input.Tool, Sort: input.Sort, Details: true,
	})
	if errors.Is(err, figures.ErrTimeout) {
		return nil, rest.NewProblem(http.StatusServiceUnavailable, rest.CodeNotAvailable, "the figures of this range take too long: choose a shorter range")
	}
	if err != nil {
		return nil, rest.InPart("query", err)
	}
	return rest.NewOutput(newToolInsights(&found)), nil
}

func newToolInsights(i *figures.ToolInsights) ToolInsights {
	view := ToolInsights{
		From: i.Window.From, To: i.Window.To, Total: i.Total,
		Tools: make([]ToolFigures, len(i.Tools)), HTTPStatuses: []StatusFigure{}, Steps: []StepFigure{}, Errors: []ErrorFigure{},
	}
	for k := range i.Tools {
		f := &i.Tools[k]
		counts := make(map[string]int, len(f.Calls))
		for status, n := range f.Calls {
			counts[string(status)] = n
		}
		view.Tools[k] = ToolFigures{
			Skill: rest.OrNull(i.SkillNames[f.SkillID]), Tool: f.Tool, Calls: f.Calls.Total(), ByStatus: counts, Latency: newLatency(f.Latency),
			Measured: f.Exchanged, Sent: f.Sent, Received: f.Received, LastCallAt: f.Last,
		}
		if wrong, sent := f.Errors(); sent > 0 {
			share := float64(wrong) / float64(sent)
			view.Tools[k].ErrorShare = &share
		}
	}
	for _, s := range i.HTTPStatuses {
		view.HTTPStatuses = append(view.HTTPStatuses, StatusFigure(s))
	}
	for _, s := range i.Steps {
		view.Steps = append(view.Steps, StepFigure{Step: string(s.Step), Latency: newLatency(s.Latency)})
	}
	for k := range i.Errors {
		e := &i.Errors[k]
		figure := ErrorFigure{
			Skill: rest.OrNull(i.SkillNames[e.SkillID]), Tool: e.Tool, Status: string(e.Status), Code: rest.OrNull(e.Code), Line: rest.OrNull(e.Line),
			Calls: e.Calls, LastCallAt: e.Last,
		}
		if e.HTTPStatus > 0 {
			figure.HTTPStatus = &e.HTTPStatus
		}
		view.Errors = append(view.Errors, figure)
	}
	return view
}

func newLatency(l figures.Latency) Latency {
	if l.Count == 0 {
		return Latency{}
	}
	p50, p95, p99 := l.P50.Seconds(), l.P95.Seconds(), l.P99.Seconds()
	return Latency{Count: l.Count, P50: &p50, P95: &p95, P99: &p99}
}
