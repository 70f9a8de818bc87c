package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view"
)

// Choices returns a person's settings of the queue.
func (h *Handler) Choices(ctx context.Context, person uuid.UUID) (view.QueueChoices, error) {
	var c view.QueueChoices
	batch := &pgx.Batch{}
	h.QueueChoices(batch, person, &c)
	err := h.pool.SendBatch(ctx, batch).Close()
	return c, err
}

// QueueChoices adds the read of a person's settings of the queue to a batch.
func (*Handler) QueueChoices(batch *pgx.Batch, person uuid.UUID, into *view.QueueChoices) {
	*into = view.QueueChoices{Advance: true}
	batch.Queue(`SELECT advance, undo FROM queue_settings WHERE person_id = $1`, person).Query(func(rows pgx.Rows) error {
		if _, err := pgx.ForEachRow(rows, []any{&into.Advance, &into.Undo}, func() error { return nil }); err != nil {
			return fmt.Errorf("read settings of the queue: %w", err)
		}
		return nil
	})
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
	shell.RedirectDone(w, r, "/settings", shell.ChoiceSaved)
}

// nextWindow bounds the search for a call that the reader may decide.
const nextWindow = 20

// viewCookie holds the parameters of the list that the reader opened last in this browser, so that the next call comes from it.
const viewCookie = "holdpoint-queue"

// maxViewCookie bounds the cookie, in bytes.
const maxViewCookie = 1000

// renewalParam marks a page that has reloaded itself.
const renewalParam = "renewed"

// keepView keeps the parameters of the list that the reader opens or chooses. Live updates and reloads of a page by itself, also of tabs in
// the background, keep none.
func keepView(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has(renewalParam) || shell.PartOnly(r) && r.Header.Get("HP-Chosen") == "" {
		return
	}
	value, kept := keepViewParams(r.URL.Query()).Encode(), ""
	if cookie, err := r.Cookie(viewCookie); err == nil {
		kept = cookie.Value
	}
	if len(value) > maxViewCookie {
		value = ""
	}
	if value == kept {
		return
	}
	cookie := &http.Cookie{Name: viewCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode} //nolint:gosec // G124: a choice is no secret
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// ShowNext leads to the next call that the reader may decide and has not voted on, in the list that they opened last: after the call that the parameter "after"
// names, or else from the beginning. Without any call, it leads to the list.
func (h *Handler) ShowNext(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	view := url.Values{}
	if cookie, err := r.Cookie(viewCookie); err == nil {
		if query, err := url.ParseQuery(cookie.Value); err == nil {
			view = keepViewParams(query)
		}
	}
	filter, err := h.readFilter(r.Context(), view, access)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	filter.Limit, filter.Unvoted = nextWindow, access.Person.ID
	if filter.After, err = h.findPlace(r, filter); err != nil {
		h.Fail(w, r, err)
		return
	}
	next, err := h.findNext(r.Context(), filter, access.Person.ID)
	if err == nil && next == uuid.Nil && filter.After.CallID != uuid.Nil {
		filter.After = approval.Position{}
		next, err = h.findNext(r.Context(), filter, access.Person.ID)
	}
	switch {
	case err != nil:
		h.Fail(w, r, err)
	case next != uuid.Nil:
		shell.Redirect(w, r, present.CallURL(next))
	default:
		shell.Redirect(w, r, listURL(view.Encode()))
	}
}

// findPlace returns the position of the call that the parameter "after" names, or the beginning if there is none.
func (h *Handler) findPlace(r *http.Request, f approval.QueueFilter) (approval.Position, error) {
	id, malformed := uuid.Parse(r.URL.Query().Get("after"))
	if malformed != nil {
		return approval.Position{}, nil //nolint:nilerr // the beginning
	}
	decided, err := h.calls.GetApproval(r.Context(), id)
	if errors.Is(err, approval.ErrNotFound) {
		return approval.Position{}, nil
	}
	if err != nil {
		return approval.Position{}, err
	}
	return h.calls.FindPosition(r.Context(), f, &decided.Approval)
}

// findNext returns the first call of a list that a person may decide, or uuid.Nil.
func (h *Handler) findNext(ctx context.Context, f approval.QueueFilter, person uuid.UUID) (uuid.UUID, error) {
	waiting, _, err := h.calls.ListQueue(ctx, f)
	if err != nil {
		return uuid.Nil, err
	}
	for i := range waiting {
		c := &waiting[i].Call
		err := h.calls.CheckDecider(ctx, c, person)
		var limit *identity.LimitError
		switch {
		case err == nil:
			return c.ID, nil
		case errors.Is(err, approval.ErrSelfApproval), errors.Is(err, approval.ErrInvitedApproval), errors.As(err, &limit): // another reviewer decides it
		default:
			return uuid.Nil, err
		}
	}
	return uuid.Nil, nil
}
