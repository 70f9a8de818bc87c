package queue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

const (
	maxViews    = 20 // of a person
	maxViewName = 60 // characters

	// ViewsPath is the page of saved views.
	ViewsPath = "/queue/views"
)

// Views is the page of a reader's saved views.
type Views struct {
	List  []View
	Query string // of the list that the reader came from
	URL   string // of that list
	Name  string // as typed
	Error text.Message
}

// viewsURL returns the URL of the page that saves a list with this query.
func viewsURL(query url.Values) string {
	if kept := keepViewParams(query); len(kept) > 0 {
		return ViewsPath + "?" + kept.Encode()
	}
	return ViewsPath
}

// keepViewParams returns the parameters that a saved view keeps.
func keepViewParams(query url.Values) url.Values {
	kept := url.Values{}
	for _, name := range listViewParams() {
		if v := query.Get(name); v != "" && shell.Clean(v) == v {
			kept.Set(name, v)
		}
	}
	return kept
}

// listURL returns the URL of the queue with a view's parameters.
func listURL(query string) string {
	if query == "" {
		return "/"
	}
	return "/?" + query
}

// ShowViews shows the saved views, and the form that saves another one.
func (h *Handler) ShowViews(w http.ResponseWriter, r *http.Request) {
	h.answerWithViews(w, r, http.StatusOK, Views{Query: keepViewParams(r.URL.Query()).Encode()})
}

func (h *Handler) answerWithViews(w http.ResponseWriter, r *http.Request, status int, v Views) {
	access, _ := login.Access(r.Context())
	pulse, err := h.calls.ReadPulse(r.Context())
	if err == nil {
		v.List, err = h.listViews(r.Context(), access.Person.ID)
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v.URL = listURL(v.Query)
	h.Render(w, r, status, ViewsPage(h.Page(r, view.SectionQueue, text.QueueViewsTitle(), pulse), v))
}

// SaveView saves a view under a new name, and opens it.
func (h *Handler) SaveView(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	v := Views{Name: strings.TrimSpace(r.PostFormValue("name"))}
	if query, err := url.ParseQuery(r.PostFormValue("query")); err == nil {
		v.Query = keepViewParams(query).Encode()
	}
	switch n := utf8.RuneCountInString(v.Name); {
	case n == 0:
		v.Error = text.QueueViewNeedsName()
	case n > maxViewName:
		v.Error = text.QueueViewNameTooLong(n, maxViewName)
	case shell.Clean(v.Name) != v.Name:
		v.Name, v.Error = shell.Clean(v.Name), text.QueueViewNameUnprintable()
	default:
		err := h.insertView(r.Context(), access.Person.ID, v.Name, v.Query)
		switch {
		case errors.Is(err, errViewExists):
			v.Error = text.QueueViewExists()
		case errors.Is(err, errTooManyViews):
			v.Error = text.QueueViewsFull(maxViews)
		case err != nil:
			h.Fail(w, r, err)
			return
		default:
			shell.RedirectDone(w, r, listURL(v.Query), shell.ViewSaved)
			return
		}
	}
	h.answerWithViews(w, r, http.StatusUnprocessableEntity, v)
}

// DeleteView deletes a saved view of the reader.
func (h *Handler) DeleteView(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	_, err := h.pool.Exec(r.Context(), `DELETE FROM queue_views WHERE person_id = $1 AND name = $2`, access.Person.ID, shell.Clean(r.PostFormValue("name")))
	if err != nil {
		h.Fail(w, r, fmt.Errorf("delete view of the queue: %w", err))
		return
	}
	shell.RedirectDone(w, r, ViewsPath, shell.ViewDeleted)
}

// ToQueue leads from a form's address to the queue, after a sign-in.
func (h *Handler) ToQueue(w http.ResponseWriter, r *http.Request) { shell.Redirect(w, r, "/") }

var (
	errViewExists   = errors.New("a view with this name exists")
	errTooManyViews = errors.New("too many views")
)

// insertView saves a view. Errors: errViewExists, errTooManyViews.
func (h *Handler) insertView(ctx context.Context, person uuid.UUID, name, query string) error {
	return postgres.InTx(ctx, h.pool, func(tx pgx.Tx) error {
		// Saves of one person wait for each other, so that the limit holds.
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended('queue_views ' || $1, 0))`, person.String()); err != nil {
			return fmt.Errorf("lock views of the queue: %w", err)
		}
		var all, same int
		err := tx.QueryRow(ctx, `SELECT count(*), count(*) FILTER (WHERE name = $2) FROM queue_views WHERE person_id = $1`, person, name).Scan(&all, &same)
		switch {
		case err != nil:
			return fmt.Errorf("count views of the queue: %w", err)
		case same > 0:
			return errViewExists
		case all >= maxViews:
			return errTooManyViews
		}
		if _, err := tx.Exec(ctx, `INSERT INTO queue_views (person_id, name, query) VALUES ($1, $2, $3)`, person, name, query); err != nil {
			return fmt.Errorf("save view of the queue: %w", err)
		}
		return nil
	})
}

// listViews returns a person's saved views by name.
func (h *Handler) listViews(ctx context.Context, person uuid.UUID) ([]View, error) {
	rows, _ := h.pool.Query(ctx, `SELECT name, query FROM queue_views WHERE person_id = $1 ORDER BY name`, person)
	views, err := pgx.CollectRows(rows, pgx.RowToStructByPos[View])
	if err != nil {
		return nil, fmt.Errorf("list views of the queue: %w", err)
	}
	for i := range views {
		views[i].URL = listURL(views[i].URL)
	}
	return views, nil
}
