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
)

// Advances reports whether the next call opens after a decision of the person.
func (h *Handler) Advances(ctx context.Context, person uuid.UUID) (bool, error) {
	advance := true
	err := h.pool.QueryRow(ctx, `SELECT advance FROM queue_settings WHERE person_id = $1`, person).Scan(&advance)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return false, fmt.Errorf("read settings of the queue: %w", err)
	}
	return advance, nil
}

// SetAdvance stores whether the next call opens after a decision of the reader.
func (h *Handler) SetAdvance(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	_, err := h.pool.Exec(r.Context(), `INSERT INTO queue_settings (person_id, advance) VALUES ($1, $2)
		ON CONFLICT (person_id) DO UPDATE SET advance = excluded.advance`, access.Person.ID, shell.Ticked(r, "advance"))
	if err != nil {
		h.Fail(w, r, fmt.Errorf("store settings of the queue: %w", err))
		return
	}
	shell.RedirectDone(w, r, "/settings", shell.ChoiceSaved)
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
