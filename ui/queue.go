package ui

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

const (
	queueWindow  = 100 // rows on the page; more than that nobody reads
	queueRenewal = 5   // seconds, without JavaScript
)

func (u *UI) showQueue(w http.ResponseWriter, r *http.Request) {
	waiting, total, err := u.cfg.Calls.Queue(r.Context(), queueWindow)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	queue := view.Queue{Total: total, MayDecide: access.Has(identity.Reviewer), Paused: r.URL.Query().Get("pause") != ""}
	if queue.Rows, err = u.rows(r.Context(), waiting, pulse); err != nil {
		u.fail(w, r, err)
		return
	}
	if queue.Waits, err = u.unconnected(r.Context(), access, pulse.Now); err != nil {
		u.fail(w, r, err)
		return
	}
	if total == 0 {
		if queue.Last, queue.LastURL, err = u.lastDecision(r.Context()); err != nil {
			u.fail(w, r, err)
			return
		}
	}
	if partOnly(r) {
		u.render(w, r, http.StatusOK, view.QueueList(queue))
		return
	}
	pulse.Pending = total
	page := u.page(r, view.SectionQueue, "Queue", pulse)
	if !queue.Paused {
		page.RefreshAfter = queueRenewal
	}
	u.render(w, r, http.StatusOK, view.QueuePage(page, queue))
}

func (u *UI) rows(ctx context.Context, waiting []call.Waiting, pulse approval.Pulse) ([]view.Row, error) {
	pins, people := make([]tool.Pin, len(waiting)), make([]uuid.UUID, len(waiting))
	for i := range waiting {
		pins[i], people[i] = waiting[i].Call.Pin, waiting[i].Call.PrincipalID
	}
	definitions, err := u.cfg.Discovery.Definitions(ctx, pins)
	if err != nil {
		return nil, err
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return nil, err
	}
	rows := make([]view.Row, len(waiting))
	for i := range waiting {
		c := &waiting[i].Call
		risk, err := u.risk(ctx, c, definitions[c.Pin])
		if err != nil {
			return nil, err
		}
		rows[i] = presentRow(&waiting[i], definitions[c.Pin], risk, names[c.PrincipalID], pulse.Now)
	}
	return rows, nil
}

// lastDecision is the latest of the newest few; empty when there was none.
func (u *UI) lastDecision(ctx context.Context) (*view.Decision, string, error) {
	const few = 20
	newest, _, err := u.cfg.Calls.Approvals(ctx, call.QueueFilter{Limit: few})
	if err != nil {
		return nil, "", err
	}
	var last *call.Waiting
	for i := range newest {
		if at := newest[i].Approval.DecidedAt; at != nil && (last == nil || at.After(*last.Approval.DecidedAt)) {
			last = &newest[i]
		}
	}
	if last == nil {
		return nil, "", nil
	}
	names, err := u.names(ctx, last.Approval.DecidedBy)
	if err != nil {
		return nil, "", err
	}
	decision := presentDecision(last.Approval, names)
	decision.About = last.Call.Skill + ": " + last.Call.Tool
	return decision, callURL(last.Call.ID), nil
}
