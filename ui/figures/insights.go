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

// ShowInsights shows figures. The address has a named range, or from and to, and may have a skill and an agent.
func (h *Handler) ShowInsights(w http.ResponseWriter, r *http.Request) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	asked := readInsightRange(r)
	filter, err := h.readFilter(r.Context(), asked)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	insights := Insights{Filter: filter}
	status := http.StatusOK
	found, err := h.figures.ReadInsights(r.Context(), asked.makeQuery(pulse.Now))
	wrong, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case invalid:
		status = http.StatusUnprocessableEntity
		insights.Filter.Errors = wrong.Fields
	case errors.Is(err, figures.ErrTimeout):
		h.Log.Warn("dashboard", "path", r.URL.Path, "error", err)
		status = http.StatusServiceUnavailable
		insights.Trouble = noticeTooSlow()
	case err != nil:
		h.Fail(w, r, err)
		return
	default:
		names, err := h.readDeciders(r.Context(), &found)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		presentInsights(&insights, &found, &asked, names)
		if insights.Tools, err = h.readMostCalled(r.Context(), &asked, pulse.Now); err != nil {
			h.Fail(w, r, err)
			return
		}
	}
	h.Render(w, r, status, InsightsPage(h.Page(r, view.SectionInsights, text.InsightTitle(), pulse), insights))
}

func noticeTooSlow() *view.Notice {
	return &view.Notice{Level: view.Warn, Title: text.InsightTooSlow(), Text: text.InsightTooSlowHelp()}
}

// readDeciders returns the names of the people who decided, or nil if the reader is no operator.
func (h *Handler) readDeciders(ctx context.Context, found *figures.Insights) (map[uuid.UUID]string, error) {
	if access, ok := login.Access(ctx); !ok || !access.Has(identity.Operator) {
		return nil, nil
	}
	ids := make([]uuid.UUID, len(found.Approvals.Deciders))
	for i, d := range found.Approvals.Deciders {
		ids[i] = d.PersonID
	}
	return h.Names(ctx, ids...)
}

// insightRange holds the parameters of the page's address.
type insightRange struct {
	name         string // of a range that ends now; empty: from and to apply
	from, to     string
	skill, agent string

	zone *time.Location // of the reader

	tools      bool // the page is that of tools
	tool, sort string
}

// listPresets returns the ranges with a name.
func listPresets() []insightPreset {
	return []insightPreset{
		{"24h", text.InsightDay(), 1}, {"7d", text.InsightWeek(), 7}, {"30d", text.InsightMonth(), 30}, {"90d", text.InsightQuarter(), 90},
	}
}

type insightPreset struct {
	name  string
	label text.Message
	days  int
}

// endAt returns the range that has now in its last part: an hour if the range is one day, else a day in the zone of now.
func (p *insightPreset) endAt(now time.Time) (from, to time.Time) {
	if p.days == 1 {
		to = now.Truncate(time.Hour).Add(time.Hour)
		return to.Add(-24 * time.Hour), to
	}
	year, month, day := now.Date()
	to = time.Date(year, month, day+1, 0, 0, 0, 0, now.Location())
	return to.AddDate(0, 0, -p.days), to
}

const defaultInsightRange = "7d"

func readInsightRange(r *http.Request) insightRange {
	values := r.URL.Query()
	asked := insightRange{
		name: values.Get("range"), from: values.Get("from"), to: values.Get("to"), skill: values.Get("skill"), agent: values.Get("agent"),
		zone: view.Zone(r.Context()),
	}
	if asked.from != "" || asked.to != "" {
		asked.name = ""
		return asked
	}
	for _, preset := range listPresets() {
		if asked.name == preset.name {
			return asked
		}
	}
	asked.name = defaultInsightRange
	return asked
}

// makeQuery returns the query of the address.
func (a *insightRange) makeQuery(now time.Time) figures.Query {
	q := figures.Query{From: a.from, To: a.to, Zone: a.zone.String(), Skill: a.skill, Agent: a.agent}
	for _, preset := range listPresets() {
		if a.name == preset.name {
			from, to := preset.endAt(now.In(a.zone))
			q.From, q.To = from.Format(time.RFC3339), to.Format(time.RFC3339)
		}
	}
	return q
}

// makeURL returns the page's address with another range.
func (a *insightRange) makeURL(name string) string {
	values := url.Values{"range": {name}}
	for key, value := range map[string]string{"skill": a.skill, "agent": a.agent, "tool": a.tool, "sort": a.sort} {
		if value != "" {
			values.Set(key, value)
		}
	}
	return a.choosePath() + "?" + values.Encode()
}

func (a *insightRange) choosePath() string {
	if a.tools {
		return "/insights/tools"
	}
	return "/insights"
}

const insightNames = 200 // suggestions; other names can be typed

// readFilter returns the form with its current values.
func (h *Handler) readFilter(ctx context.Context, asked insightRange) (InsightFilter, error) {
	filter := InsightFilter{Action: asked.choosePath(), Tools: asked.tools, Tool: asked.tool, Sort: asked.sort, From: asked.from, To: asked.to, Skill: asked.skill, Agent: asked.agent}
	for _, preset := range listPresets() {
		filter.Ranges = append(filter.Ranges, view.Tab{Word: preset.label, URL: asked.makeURL(preset.name), Current: preset.name == asked.name})
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
