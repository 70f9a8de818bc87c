package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/ui/view"
)

// showToolInsights shows figures by tool. Its address says of what, as that of all figures, and of which tool, and in what order.
func (u *UI) showToolInsights(w http.ResponseWriter, r *http.Request) {
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	asked := readInsightRange(r.URL.Query())
	asked.tools, asked.tool, asked.sort = true, r.URL.Query().Get("tool"), r.URL.Query().Get("sort")
	filter, err := u.insightFilter(r.Context(), asked)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	insights, status := view.ToolInsights{Filter: filter}, http.StatusOK
	found, err := u.cfg.Figures.ReadTools(r.Context(), figures.ToolQuery{
		Query: asked.query(pulse.Now), Tool: asked.tool, Sort: asked.sort, Details: true,
	})
	wrong, invalid := errors.AsType[*query.InvalidError](err)
	switch {
	case invalid:
		status, insights.Filter.Errors = http.StatusUnprocessableEntity, fieldErrors(wrong)
	case errors.Is(err, figures.ErrTimeout):
		u.log.Warn("dashboard", "path", r.URL.Path, "error", err)
		status, insights.Trouble = http.StatusServiceUnavailable, tooLong()
	case err != nil:
		u.fail(w, r, err)
		return
	default:
		presentToolInsights(&insights, &found, &asked)
	}
	u.render(w, r, status, view.ToolInsightsPage(u.page(r, view.SectionInsights, "Tools", pulse), insights))
}

const mostCalledShown = 10

// mostCalled are the tools on the page of all figures. It goes without them where they take too long.
func (u *UI) mostCalled(ctx context.Context, asked *insightRange, now time.Time) (*view.ToolTable, error) {
	found, err := u.cfg.Figures.ReadTools(ctx, figures.ToolQuery{Query: asked.query(now)})
	if errors.Is(err, figures.ErrTimeout) {
		u.log.Warn("dashboard", "figures", "tools", "error", err)
		return nil, nil
	}
	if err != nil || len(found.Tools) == 0 {
		return nil, err
	}
	table := presentTools(&found, asked, mostCalledShown)
	table.All = &view.Tab{Word: "All tools, with times and errors", URL: asked.ofTools(url.Values{})}
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
