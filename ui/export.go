package ui

import (
	"context"
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Exports begin exports: once one is recorded and begun, the handler sends it. Package api owns their shapes.
type Exports interface {
	ExportCalls(ctx context.Context, by audit.Actor, f call.Filter, format string) (http.Handler, error)
	ExportAudit(ctx context.Context, by audit.Actor, f audit.Filter) (http.Handler, error)
}

// exportCalls sends all calls that the criteria select.
func (u *UI) exportCalls(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	if format != "csv" && format != "jsonl" {
		u.sendExport(w, r, nil, &query.InvalidError{Fields: []query.Problem{{Field: "format", Expected: "expected csv or jsonl"}}})
		return
	}
	filter, err := u.callFilter(r.Context(), criteriaOf(r, callCriteria()...))
	if err != nil {
		u.sendExport(w, r, nil, err)
		return
	}
	export, err := u.cfg.Exports.ExportCalls(r.Context(), actor(r), filter, format)
	u.sendExport(w, r, export, err)
}

// exportAudit sends all events that the criteria select.
func (u *UI) exportAudit(w http.ResponseWriter, r *http.Request) {
	filter, err := u.auditFilter(r.Context(), criteriaOf(r, auditCriteria()...))
	if err != nil {
		u.sendExport(w, r, nil, err)
		return
	}
	export, err := u.cfg.Exports.ExportAudit(r.Context(), actor(r), filter)
	u.sendExport(w, r, export, err)
}

// sendExport sends an export, or says why there is none.
func (u *UI) sendExport(w http.ResponseWriter, r *http.Request, export http.Handler, err error) {
	n := view.Notice{Title: "Nothing was exported"}
	wrong, invalid := errors.AsType[*query.InvalidError](err)
	switch {
	case err == nil:
		export.ServeHTTP(w, r)
		return
	case invalid:
		n.Text = wrong.Error()
	case errors.Is(err, call.ErrSearchTooBroad):
		n.Text = tooBroad
	default:
		u.fail(w, r, err)
		return
	}
	u.render(w, r, http.StatusUnprocessableEntity, view.MessagePage(u.barePage(r, n.Title), n))
}
