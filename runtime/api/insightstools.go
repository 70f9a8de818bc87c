package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/holdpoint/holdpoint/runtime/call/figures"
)

// ToolInsights are figures of the calls made in a range of time, by tool. What is told of times is off by at most a sixteenth.
type ToolInsights struct {
	From         time.Time      `json:"from" doc:"A whole hour; the range begins with it."`
	To           time.Time      `json:"to" doc:"A whole hour; the range ends before it."`
	Total        int            `json:"total" doc:"How many tools there are; at most 1000 of them are listed."`
	Tools        []ToolFigures  `json:"tools" nullable:"false"`
	HTTPStatuses []StatusFigure `json:"http_statuses" nullable:"false" doc:"Of all that is selected, as steps and errors."`
	Steps        []StepFigure   `json:"steps" nullable:"false" doc:"In the order they are taken; those that were not are left out."`
	Errors       []ErrorFigure  `json:"errors" nullable:"false" doc:"The 20 that were most frequent."`
}

// ToolFigures are about the calls of one tool.
type ToolFigures struct {
	Skill      *string        `json:"skill" doc:"Null when it is not known any more."`
	Tool       string         `json:"tool" doc:"The skill's own name of the tool."`
	Calls      int            `json:"calls"`
	ByStatus   map[string]int `json:"by_status" doc:"Those of which there are none are left out."`
	ErrorShare *float64       `json:"error_share" doc:"Of the calls that were sent and have ended, those that failed, or of which nobody knows; from 0 to 1, null when there are none."`
	Latency    Latency        `json:"latency" doc:"Of the step call: what the server took."`
	Measured   int            `json:"measured" doc:"How many calls the bytes are of."`
	Sent       int64          `json:"bytes_sent"`
	Received   int64          `json:"bytes_received"`
	LastCallAt time.Time      `json:"last_call_at"`
}

// Latency says how long half, 95 and 99 in a hundred took at most.
type Latency struct {
	Count int      `json:"count"`
	P50   *float64 `json:"p50_seconds" doc:"Null when there were none."`
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
	Line       *string   `json:"line" doc:"What went wrong, without arguments, names and numbers; it may be the skill server's text. Null: the code says it."`
	Calls      int       `json:"calls"`
	LastCallAt time.Time `json:"last_call_at"`
}

type toolInsightsInput struct {
	From  string `query:"from" doc:"Calls made then or later: RFC 3339, or a day, or a day and a time in UTC; widened to a whole hour. By default seven days before to; at most 400 days before it."`
	To    string `query:"to" doc:"Calls made before then; a day counts as a whole. By default until now."`
	Skill string `query:"skill" doc:"Only calls of the skill of this name or id, also of one that was deleted."`
	Agent string `query:"agent" doc:"Only calls of the agent of this name or id, likewise."`
	Tool  string `query:"tool" doc:"Only calls of the tool that its skill calls so."`
	Sort  string `query:"sort" enum:"calls,errors,p50,p95,bytes,last,name" doc:"How tools are put in order: the most first, or by name. By default calls."`
}

func (a *API) getToolInsights(ctx context.Context, input *toolInsightsInput) (*bodyOutput[ToolInsights], error) {
	found, err := a.figures.ReadTools(ctx, figures.ToolQuery{
		Query: figures.Query{From: input.From, To: input.To, Skill: input.Skill, Agent: input.Agent},
		Tool:  input.Tool, Sort: input.Sort, Details: true,
	})
	if errors.Is(err, figures.ErrTimeout) {
		return nil, problem(http.StatusServiceUnavailable, CodeNotAvailable, "the figures of this range take too long; ask for a shorter one")
	}
	if err != nil {
		return nil, queryProblem(err)
	}
	return output(newToolInsights(&found)), nil
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
			Skill: orNull(i.SkillNames[f.SkillID]), Tool: f.Tool, Calls: f.Calls.Total(), ByStatus: counts, Latency: newLatency(f.Latency),
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
			Skill: orNull(i.SkillNames[e.SkillID]), Tool: e.Tool, Status: string(e.Status), Code: orNull(e.Code), Line: orNull(e.Line),
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
