package operate

import (
	"context"
	"time"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

// HealthHistory is how listings of a skill's tools went over time. Those that went the same way within
// a minute count once.
type HealthHistory struct {
	From     time.Time       `json:"from"`
	Until    time.Time       `json:"until"`
	Spans    []HealthSpan    `json:"spans" nullable:"false" doc:"The periods in which the server was checked, oldest first."`
	Troubles []HealthTrouble `json:"troubles" nullable:"false" doc:"The kinds of failures, latest first; at most 20."`
}

// HealthSpan is how listings went within a span of time.
type HealthSpan struct {
	From      time.Time `json:"from"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
}

// HealthTrouble is a way in which listings failed.
type HealthTrouble struct {
	Kind  string    `json:"kind" doc:"The kind of failure, as in the skill's health."`
	Error string    `json:"error"`
	Times int       `json:"times"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

type skillHealthInput struct {
	rest.ByName
	Range string `query:"range" enum:"24h,30d" default:"24h" doc:"Periods are half an hour or half a day long."`
}

func (h *skillHandlers) skillHealth(ctx context.Context, input *skillHealthInput) (*rest.Output[HealthHistory], error) {
	skill, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	pulse, err := h.calls.ReadPulse(ctx)
	if err != nil {
		return nil, err
	}
	length, width := 24*time.Hour, 30*time.Minute
	if input.Range == "30d" {
		length, width = agent.ListingsKept, 12*time.Hour
	}
	from := pulse.Now.Add(-length)
	spans, troubles, err := h.Agents.Listings(ctx, skill.ID, from, width)
	if err != nil {
		return nil, err
	}
	view := HealthHistory{From: from.UTC(), Until: pulse.Now.UTC(), Spans: []HealthSpan{}, Troubles: []HealthTrouble{}}
	for _, s := range spans {
		view.Spans = append(view.Spans, HealthSpan{From: s.From.UTC(), Succeeded: s.Succeeded, Failed: s.Failed})
	}
	for _, t := range troubles {
		view.Troubles = append(view.Troubles, HealthTrouble{Kind: t.Kind, Error: t.Error, Times: t.Times, First: t.First.UTC(), Last: t.Last.UTC()})
	}
	return rest.NewOutput(view), nil
}
