package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// HealthHistory is how listings of a skill's tools went over time. Those that went the same way within
// a minute count once.
type HealthHistory struct {
	From     time.Time       `json:"from"`
	Until    time.Time       `json:"until"`
	Spans    []HealthSpan    `json:"spans" nullable:"false" doc:"The spans in which the server was asked, oldest first."`
	Troubles []HealthTrouble `json:"troubles" nullable:"false" doc:"The ways in which that failed, the latest first; at most 20."`
}

// HealthSpan is how listings went within a span of time.
type HealthSpan struct {
	From      time.Time `json:"from"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
}

// HealthTrouble is a way in which listings failed.
type HealthTrouble struct {
	Kind  string    `json:"kind" doc:"As that of the skill's health."`
	Error string    `json:"error"`
	Times int       `json:"times"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
}

type skillHealthInput struct {
	ByName
	Range string `query:"range" enum:"24h,30d" default:"24h" doc:"Spans are of half an hour, or of half a day."`
}

func (a *API) skillHealth(ctx context.Context, input *skillHealthInput) (*bodyOutput[HealthHistory], error) {
	skill, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	pulse, err := a.calls.Pulse(ctx)
	if err != nil {
		return nil, err
	}
	length, width := 24*time.Hour, 30*time.Minute
	if input.Range == "30d" {
		length, width = agent.ListingsKept, 12*time.Hour
	}
	return a.healthHistory(ctx, skill.ID, pulse.Now.Add(-length), pulse.Now, width)
}

func (a *API) healthHistory(ctx context.Context, skillID uuid.UUID, from, until time.Time, width time.Duration) (*bodyOutput[HealthHistory], error) {
	spans, troubles, err := a.agents.Listings(ctx, skillID, from, width)
	if err != nil {
		return nil, err
	}
	view := HealthHistory{From: from.UTC(), Until: until.UTC(), Spans: []HealthSpan{}, Troubles: []HealthTrouble{}}
	for _, s := range spans {
		view.Spans = append(view.Spans, HealthSpan{From: s.From.UTC(), Succeeded: s.Succeeded, Failed: s.Failed})
	}
	for _, t := range troubles {
		view.Troubles = append(view.Troubles, HealthTrouble{Kind: t.Kind, Error: t.Error, Times: t.Times, First: t.First.UTC(), Last: t.Last.UTC()})
	}
	return output(view), nil
}
