package ui

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

const logPage = 50

func statuses() []string {
	return []string{
		string(call.Parked), string(call.Approved), string(call.Executing), string(call.Succeeded), string(call.Failed),
		string(call.Unknown), string(call.Rejected), string(call.Expired), string(call.Cancelled), string(call.Denied),
		string(call.Invalid), string(call.NeedsConnection),
	}
}

// showLog lists all calls, newest first. What cannot be read of the filter selects all.
func (u *UI) showLog(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	status := query.Get("status")
	if !slices.Contains(statuses(), status) {
		status = ""
	}
	before, err := uuid.Parse(query.Get("before"))
	if err != nil {
		before = uuid.Nil
	}
	filter := call.Filter{Before: before, Limit: logPage}
	if status != "" {
		filter.Statuses = []call.Status{call.Status(status)}
	}
	found, err := u.cfg.Calls.Search(r.Context(), filter)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	calls, next := found.Calls, found.Next
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	people := make([]uuid.UUID, len(calls))
	for i := range calls {
		people[i] = calls[i].PrincipalID
	}
	names, err := u.names(r.Context(), people...)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	log := view.Log{Status: status, Statuses: statuses(), Newest: before == uuid.Nil, Rows: logRows(calls, names)}
	if next != uuid.Nil {
		log.Next = "/calls?" + url.Values{"status": {status}, "before": {next.String()}}.Encode()
	}
	u.render(w, r, http.StatusOK, view.LogPage(u.page(r, view.SectionCalls, "Calls", pulse), log))
}

func logRows(calls []call.Call, names map[uuid.UUID]string) []view.LogRow {
	rows := make([]view.LogRow, len(calls))
	for i := range calls {
		c := &calls[i]
		rows[i] = view.LogRow{
			URL: callURL(c.ID), Status: statusBadge(c.Status), Agent: c.Agent, Skill: c.Skill, Tool: c.Tool,
			Principal: personName(c.PrincipalID, names), At: c.CreatedAt,
		}
	}
	return rows
}
