package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Choices returns a person's settings of the queue.
func (h *Handler) Choices(ctx context.Context, person uuid.UUID) (view.QueueChoices, error) {
	c := view.QueueChoices{Advance: true}
	err := h.pool.QueryRow(ctx, `SELECT advance, undo FROM queue_settings WHERE person_id = $1`, person).Scan(&c.Advance, &c.Undo)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return c, fmt.Errorf("read settings of the queue: %w", err)
	}
	return c, nil
}

// SetChoices stores the reader's settings of the queue.
func (h *Handler) SetChoices(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	_, err := h.pool.Exec(r.Context(), `INSERT INTO queue_settings (person_id, advance, undo) VALUES ($1, $2, $3)
		ON CONFLICT (person_id) DO UPDATE SET advance = excluded.advance, undo = excluded.undo`, access.Person.ID, shell.Ticked(r, "advance"), shell.Ticked(r, "undo"))
	if err != nil {
		h.Fail(w, r, fmt.Errorf("store settings of the queue: %w", err))
		return
	}
	shell.Redirect(w, r, "/settings#look")
}

// nextWindow bounds the search for a call that the reader may decide.
const nextWindow = 20

// ShowNext leads to the most urgent call that the reader may decide, or to the queue if there is none.
func (h *Handler) ShowNext(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	waiting, _, err := h.calls.ListQueue(r.Context(), approval.QueueFilter{Teams: access.Person.Teams, Limit: nextWindow})
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range waiting {
		c := &waiting[i].Call
		err := h.calls.CheckDecider(r.Context(), c, access.Person.ID)
		switch {
		case err == nil:
			shell.Redirect(w, r, present.CallURL(c.ID))
			return
		case errors.Is(err, approval.ErrSelfApproval), errors.Is(err, approval.ErrInvitedApproval): // another reviewer decides it
		default:
			h.Fail(w, r, err)
			return
		}
	}
	shell.Redirect(w, r, "/")
}
