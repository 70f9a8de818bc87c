// Package review has the API's operations on calls and their files, on decisions about them, and on figures and the audit log.
package review

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/figures"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// maxApproveBody is the greatest body of an approval, in bytes: edited arguments.
const maxApproveBody = call.MaxArgumentBytes + 64<<10

// Services are the services that the operations use.
type Services struct {
	Calls     *call.Service
	Figures   *figures.Service
	History   *history.Service
	Discovery *tool.Discovery
	Audit     audit.Database
	Logger    *slog.Logger
}

// Handlers has the handlers of the operations.
type Handlers struct {
	calls     *callHandlers
	files     *fileHandlers
	approvals *approvalHandlers
	insights  *insightHandlers
	audit     *auditHandlers
}

// New makes the handlers.
func New(d *rest.Directory, s Services) *Handlers {
	calls := &callHandlers{d, s.Calls, s.History, s.Logger}
	return &Handlers{
		calls:     calls,
		files:     &fileHandlers{calls},
		approvals: &approvalHandlers{d, s.Calls, s.Discovery},
		insights:  &insightHandlers{d, s.Figures},
		audit:     &auditHandlers{d, s.Audit, s.Calls, s.Logger},
	}
}

// ExportCalls starts an export for a person who may see all calls.
func (h *Handlers) ExportCalls(ctx context.Context, by audit.Actor, f history.Filter, format string) (http.Handler, error) {
	return h.calls.startExport(ctx, by, f, format)
}

// ExportAudit starts an export of audit events, newest first, as JSON Lines. The event about the export is the first, if the
// filter selects it.
func (h *Handlers) ExportAudit(ctx context.Context, by audit.Actor, f audit.Filter) (http.Handler, error) {
	return h.audit.startExport(ctx, by, f)
}

// Routes lists the operations.
func (h *Handlers) Routes() []rest.Route {
	own := rest.Rule{Own: true, Roles: rest.Readers().Roles}
	ownOrOperator := rest.Rule{Own: true, Roles: rest.Operators().Roles}
	mine := rest.Rule{Own: true}
	return []rest.Route{
		rest.NewRoute("listCalls", "GET calls", "List calls, newest first", own, h.calls.listCalls),
		rest.NewRoute("exportCalls", "GET calls/export", "Export all calls that match a query, newest first, as JSON Lines or CSV", rest.Readers(), h.calls.exportCalls).Streams("application/jsonl", "text/csv"),
		rest.NewRoute("getCall", "GET calls/{id}", "Get a call", own, h.calls.getCall),
		rest.NewRoute("cancelCall", "POST calls/{id}/cancel", "Cancel a call that has not been sent, even if it is approved", ownOrOperator, h.calls.cancelCall),
		rest.NewRoute("resolveCall", "POST calls/{id}/resolve", "Record the real outcome of a call whose status is unknown", rest.Operators(), h.calls.resolveCall),

		rest.NewRoute("presignUpload", "POST files/presign-upload", "Announce a file and get a URL for one upload with PUT, without a credential", mine, h.files.presignUpload).Creates(),
		rest.NewRoute("getFile", "GET files/{id}", "Get an announced file, without its content", mine, h.files.getFile),
		rest.NewRoute("deleteFile", "DELETE files/{id}", "Delete a file that is not attached to a call", mine, h.files.deleteFile),
		rest.NewRoute("downloadFile", "GET calls/{id}/files/{file}", "Download the content of a file that is attached to a call", own, h.files.downloadFile).Streams("application/octet-stream"),

		rest.NewRoute("listApprovals", "GET approvals", "List approvals, newest first", rest.Readers(), h.approvals.listApprovals),
		rest.NewRoute("getApproval", "GET approvals/{id}", "Get an approval", rest.Readers(), h.approvals.getApproval),
		rest.NewRoute("approve", "POST approvals/{id}/approve", "Approve the call exactly as shown, or with other arguments", rest.Reviewers(), h.approvals.approveCall).ChecksBody().Takes(maxApproveBody),
		rest.NewRoute("reject", "POST approvals/{id}/reject", "Reject the call, with a reason for its agent", rest.Reviewers(), h.approvals.rejectCall).ChecksBody(),
		rest.NewRoute("withdrawVote", "POST approvals/{id}/withdraw", "Take your vote on a call with a policy back, while the call waits", rest.Reviewers(), h.approvals.withdrawVote),
		rest.NewRoute("reviewBreakGlass", "POST approvals/{id}/review", "Record that you reviewed an approval that one person gave alone", rest.Reviewers(), h.approvals.reviewGlass),
		rest.NewRoute("extend", "POST approvals/{id}/extend", "Extend the deadline of a parked call", rest.Reviewers(), h.approvals.extendApproval),
		rest.NewRoute("claimApproval", "POST approvals/{id}/claim", "Tell other reviewers that you work on a parked call; they may still decide it", rest.Reviewers(), h.approvals.claimApproval),
		rest.NewRoute("releaseApproval", "POST approvals/{id}/release", "Remove the claim or assignment of a parked call", rest.Reviewers(), h.approvals.releaseApproval),
		rest.NewRoute("assignApproval", "POST approvals/{id}/assign", "Ask another reviewer to decide a parked call", rest.Reviewers(), h.approvals.assignApproval),
		rest.NewRoute("commentOnApproval", "POST approvals/{id}/comments", "Add a comment for other reviewers, which agents never see", rest.Reviewers(), h.approvals.commentApproval),
		rest.NewRoute("previewCall", "GET approvals/{id}/preview", "Get the current state of the data that a parked call would change", rest.Readers(), h.approvals.previewCall),
		rest.NewRoute("listQuestions", "GET questions", "List the questions of skills' servers that wait for a reviewer, most urgent first, at most 200", rest.Readers(), h.approvals.listQuestions),
		rest.NewRoute("approveQuestion", "POST approvals/{id}/questions/{number}/approve", "Approve a server's question with its answer, or the opening of a URL, exactly as shown", rest.Reviewers(), h.approvals.approveQuestion).ChecksBody(),
		rest.NewRoute("rejectQuestion", "POST approvals/{id}/questions/{number}/reject", "Reject a server's question; the server gets a refusal without data", rest.Reviewers(), h.approvals.rejectQuestion).ChecksBody(),

		rest.NewRoute("getInsights", "GET insights", "Get figures of calls and approvals in a time range", rest.Readers(), h.insights.getInsights),
		rest.NewRoute("getToolInsights", "GET insights/tools", "Get figures of calls by tool: outcomes, HTTP statuses, step times, sizes, errors", rest.Readers(), h.insights.getToolInsights),
		rest.NewRoute("listAudit", "GET audit", "List audit events, newest first", rest.Operators(), h.audit.listAudit),
		rest.NewRoute("exportAudit", "GET audit/export", "Export audit events, newest first, as JSON Lines", rest.Operators(), h.audit.exportAudit).Streams("application/jsonl"),
	}
}
