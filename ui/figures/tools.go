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

// ShowToolInsights shows figures by tool. Its address says of what, as that of all figures, and of which tool, and in what order.
func (h *Handler) ShowToolInsights(w http.ResponseWriter, r *http.Request) {
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	asked := readInsightRange(r.URL.Query())
	asked.tools, asked.tool, asked.sort = true, r.URL.Query().Get("tool"), r.URL.Query().Get("sort")
	filter, err := h.insightFilter(r.Context(), asked)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	insights, status := ToolInsights{Filter: filter}, http.StatusOK
	found, err := h.figures.ReadTools(r.Context(), figures.ToolQuery{
		Query: asked.query(pulse.Now), Tool: asked.tool, Sort: asked.sort, Details: true,
	})
	wrong, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case invalid:
		status, insights.Filter.Errors = http.StatusUnprocessableEntity, fieldErrors(wrong)
	case errors.Is(err, figures.ErrTimeout):
		h.Log.Warn("dashboard", "path", r.URL.Path, "error", err)
		status, insights.Trouble = http.StatusServiceUnavailable, tooLong()
	case err != nil:
		h.Fail(w, r, err)
		return
	default:
		presentToolInsights(&insights, &found, &asked)
	}
	h.Render(w, r, status, ToolInsightsPage(h.Page(r, view.SectionInsights, text.Literal("Tools"), pulse), insights))
}

const mostCalledShown = 10

// mostCalled are the tools on the page of all figures. It goes without them where they take too long.
func (h *Handler) mostCalled(ctx context.Context, asked *insightRange, now time.Time) (*ToolTable, error) {
	found, err := h.figures.ReadTools(ctx, figures.ToolQuery{Query: asked.query(now)})
	if errors.Is(err, figures.ErrTimeout) {
		h.Log.Warn("dashboard", "figures", "tools", "error", err)
		return nil, nil
	}
	if err != nil || len(found.Tools) == 0 {
		return nil, err
	}
	table := presentTools(&found, asked, mostCalledShown)
	table.All = &view.Tab{Word: text.Literal("All tools, with times and errors"), URL: asked.ofTools(url.Values{})}
	return table, nil
}

// ofTools is the address of the page of tools, with other values than the page has.
func (a *insightRange) ofTools(other url.Values) string {
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
