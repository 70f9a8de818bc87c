package history

import (
	"errors"
	"net/http"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ExportCalls sends all calls that the criteria select.
func (h *CallsHandler) ExportCalls(w http.ResponseWriter, r *http.Request) {
	format := r.URL.Query().Get("format")
	if format != "csv" && format != "jsonl" {
		h.exporter.sendExport(w, r, nil, fault.Invalid("format", "must be csv or jsonl"))
		return
	}
	filter, err := h.callFilter(r.Context(), shell.CriteriaOf(r, callCriteria()...))
	if err != nil {
		h.exporter.sendExport(w, r, nil, err)
		return
	}
	export, err := h.exports.ExportCalls(r.Context(), shell.Actor(r), filter, format)
	h.exporter.sendExport(w, r, export, err)
}

// ExportAudit sends all events that the criteria select.
func (h *AuditHandler) ExportAudit(w http.ResponseWriter, r *http.Request) {
	filter, err := h.auditFilter(r.Context(), shell.CriteriaOf(r, auditCriteria()...))
	if err != nil {
		h.exporter.sendExport(w, r, nil, err)
		return
	}
	export, err := h.exports.ExportAudit(r.Context(), shell.Actor(r), filter)
	h.exporter.sendExport(w, r, export, err)
}

// sendExport sends an export, or says why there is none.
func (h *exporter) sendExport(w http.ResponseWriter, r *http.Request, export http.Handler, err error) {
	n := view.Notice{Title: text.HistoryNotExported()}
	wrong, invalid := errors.AsType[*fault.InvalidError](err)
	switch {
	case err == nil:
		export.ServeHTTP(w, r)
		return
	case invalid:
		n.Text = text.Literal(wrong.Error())
	case errors.Is(err, history.ErrTooBroad):
		n.Text = text.SearchTooBroad()
	default:
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusUnprocessableEntity, view.MessagePage(h.BarePage(r, n.Title), n))
}
