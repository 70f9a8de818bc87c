package figures

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ShowInsights shows figures. Its address says of what: a range by name, or from and to; a skill and an agent.
func (h *Handler) ShowInsights(w http.ResponseWriter, r *http.Request) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	asked := readInsightRange(r.URL.Query())
	filter, err := h.insightFilter(r.Context(), asked)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	insights := Insights{Filter: filter}
	status := http.StatusOK
	found, err := h.figures.ReadInsights(r.Context(), asked.query(pulse.Now))
	wrong, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case invalid:
		status = http.StatusUnprocessableEntity
		insights.Filter.Errors = fieldErrors(wrong)
	case errors.Is(err, figures.ErrTimeout):
		h.Log.Warn("dashboard", "path", r.URL.Path, "error", err)
		status = http.StatusServiceUnavailable
		insights.Trouble = tooLong()
	case err != nil:
		h.Fail(w, r, err)
		return
	default:
		names, err := h.deciders(r.Context(), &found)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		presentInsights(&insights, &found, &asked, names)
		if insights.Tools, err = h.mostCalled(r.Context(), &asked, pulse.Now); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	h.Render(w, r, status, InsightsPage(h.Page(r, view.SectionInsights, text.Literal("Insights"), pulse), insights))
}

func fieldErrors(wrong *fault.InvalidError) []FieldError {
	list := make([]FieldError, len(wrong.Fields))
	for i, f := range wrong.Fields {
		list[i] = FieldError{Field: f.Name, Text: f.Expected}
	}
	return list
}

func tooLong() *view.Notice {
	return &view.Notice{
		Level: view.Warn, Title: text.Literal("These figures take too long."),
		Text: text.Literal("The database was kept from spending more time on them than calls can spare. Choose a shorter range."),
	}
}

// deciders returns the names of those who decided, for operators; nil for others.
func (h *Handler) deciders(ctx context.Context, found *figures.Insights) (map[uuid.UUID]string, error) {
	if access, ok := login.Access(ctx); !ok || !access.Has(identity.Operator) {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(found.Approvals.Deciders))
	for i, d := range found.Approvals.Deciders {
		ids[i] = d.PersonID
	}
	return h.Names(ctx, ids...)
}

// insightRange is what the page's address asks for.
type insightRange struct {
	name         string // of a range that ends now; empty: from and to say it
	from, to     string
	skill, agent string

	tools      bool // it is the page of tools
	tool, sort string
}

// insightRanges are those with a name.
func insightRanges() []insightPreset {
	const day = 24 * time.Hour
	return []insightPreset{
		{"24h", "24 hours", day, time.Hour},
		{"7d", "7 days", 7 * day, day},
		{"30d", "30 days", 30 * day, day},
		{"90d", "90 days", 90 * day, day},
	}
}

type insightPreset struct {
	name, words string
	length      time.Duration
	part        time.Duration // the range ends when the present one of these does
}

const defaultInsightRange = "7d"

func readInsightRange(values url.Values) insightRange {
	asked := insightRange{
		name: values.Get("range"), from: values.Get("from"), to: values.Get("to"), skill: values.Get("skill"), agent: values.Get("agent"),
	}
	if asked.from != "" || asked.to != "" {
		asked.name = ""
		return asked
	}
	for _, preset := range insightRanges() {
		if asked.name == preset.name {
			return asked
		}
	}
	asked.name = defaultInsightRange
	return asked
}

// query is what the address means at a time.
func (a *insightRange) query(now time.Time) figures.Query {
	q := figures.Query{From: a.from, To: a.to, Skill: a.skill, Agent: a.agent}
	for _, preset := range insightRanges() {
		if a.name == preset.name {
			end := now.UTC().Truncate(preset.part).Add(preset.part)
			q.From, q.To = end.Add(-preset.length).Format(time.RFC3339), end.Format(time.RFC3339)
		}
	}
	return q
}

// url is the page's address with another range.
func (a *insightRange) url(name string) string {
	values := url.Values{"range": {name}}
	for key, value := range map[string]string{"skill": a.skill, "agent": a.agent, "tool": a.tool, "sort": a.sort} {
		if value != "" {
			values.Set(key, value)
		}
	}
	return a.path() + "?" + values.Encode()
}

func (a *insightRange) path() string {
	if a.tools {
		return "/insights/tools"
	}
	return "/insights"
}

const insightNames = 200 // to choose from; others can be written

// insightFilter is the form as it was sent.
func (h *Handler) insightFilter(ctx context.Context, asked insightRange) (InsightFilter, error) {
	filter := InsightFilter{Action: asked.path(), Tools: asked.tools, Tool: asked.tool, Sort: asked.sort, From: asked.from, To: asked.to, Skill: asked.skill, Agent: asked.agent}
	for _, preset := range insightRanges() {
		filter.Ranges = append(filter.Ranges, view.Tab{Word: text.Literal(preset.words), URL: asked.url(preset.name), Current: preset.name == asked.name})
	}
	skills, _, err := h.agents.Skills(ctx, "", insightNames)
	if err != nil {
		return filter, err
	}
	for i := range skills {
		filter.Skills = append(filter.Skills, skills[i].Name)
	}
	agents, _, err := h.agents.Agents(ctx, "", insightNames)
	if err != nil {
		return filter, err
	}
	for i := range agents {
		filter.Agents = append(filter.Agents, agents[i].Name)
	}
	return filter, nil
}
