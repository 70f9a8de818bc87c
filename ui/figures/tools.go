package figures

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ShowToolInsights shows figures by tool. The address has the parameters of [Handler.ShowInsights], and may have a tool and an order.
func (h *Handler) ShowToolInsights(w http.ResponseWriter, r *http.Request) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	asked := readInsightRange(r)
	asked.tools, asked.tool, asked.sort = true, r.URL.Query().Get("tool"), r.URL.Query().Get("sort")
	filter, err := h.readFilter(r.Context(), asked)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	insights, status := ToolInsights{Filter: filter}, http.StatusOK
	found, err := h.figures.ReadTools(r.Context(), figures.ToolQuery{
		Query: asked.makeQuery(pulse.Now), Tool: asked.tool, Sort: asked.sort, Details: true,
	})
	wrong, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case invalid:
		status, insights.Filter.Errors = http.StatusUnprocessableEntity, wrong.Fields
	case errors.Is(err, figures.ErrTimeout):
		h.Log.Warn("dashboard", "path", r.URL.Path, "error", err)
		status, insights.Trouble = http.StatusServiceUnavailable, noticeTooSlow()
	case err != nil:
		h.Fail(w, r, err)
		return
	default:
		presentToolInsights(&insights, &found, &asked)
	}
	h.Render(w, r, status, ToolInsightsPage(h.Page(r, view.SectionInsights, text.InsightToolTitle(), pulse), insights))
}

const mostCalledShown = 10

// readMostCalled returns the tools for the page of all figures, or nil if reading them takes too long.
func (h *Handler) readMostCalled(ctx context.Context, asked *insightRange, now time.Time) (*ToolTable, error) {
	found, err := h.figures.ReadTools(ctx, figures.ToolQuery{Query: asked.makeQuery(now)})
	if errors.Is(err, figures.ErrTimeout) {
		h.Log.Warn("dashboard", "figures", "tools", "error", err)
		return nil, nil
	}
	if err != nil || len(found.Tools) == 0 {
		return nil, err
	}
	table := presentTools(&found, asked, mostCalledShown)
	table.All = &view.Tab{Word: text.InsightAllTools(), URL: asked.makeToolsURL(url.Values{})}
	return table, nil
}

// makeToolsURL returns the address of the page of tools with some other values.
func (a *insightRange) makeToolsURL(other url.Values) string {
	values := url.Values{}
	for key, value := range map[string]string{
		"range": a.name, "from": a.from, "to": a.to, "skill": a.skill, "agent": a.agent, "tool": a.tool, "sort": a.sort,
	} {
		if other.Has(key) {
			value = other.Get(key)
		}
		if value != "" {
			values.Set(key, value)
		}
	}
	return "/insights/tools?" + values.Encode()
}
