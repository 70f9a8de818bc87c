package operate

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/retention"
)

type erasureHandlers struct {
	*rest.Directory

	retention *retention.Service
}

// Erasure is the erasure of a person's data.
type Erasure struct {
	PersonID   uuid.UUID        `json:"person_id" format:"uuid"`
	Pseudonym  string           `json:"pseudonym" doc:"The person's name from then on; always the same for a person."`
	AskedBy    *string          `json:"asked_by"`
	AskedAt    time.Time        `json:"asked_at"`
	Erased     map[string]int64 `json:"erased" doc:"The number of erased records by kind."`
	Left       map[string]int64 `json:"left" doc:"The number of records that were left by kind: held_… by a legal hold, open_… because they have not ended. Ask again later."`
	FinishedAt *time.Time       `json:"finished_at" doc:"Null: it is under way."`
}

func (h *erasureHandlers) erasureView(ctx context.Context, e retention.Erasure) (*rest.Output[Erasure], error) {
	names, err := h.NamePeople(ctx, e.AskedBy)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(Erasure{
		PersonID: e.PersonID, Pseudonym: e.Pseudonym, AskedBy: rest.OrNull(names.NameOf(e.AskedBy)), AskedAt: e.AskedAt.UTC(),
		Erased: e.Erased, Left: e.Left, FinishedAt: rest.UTCOrNull(e.FinishedAt),
	}), nil
}

func (h *erasureHandlers) erasePerson(ctx context.Context, input *rest.ByID) (*rest.Output[Erasure], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	e, err := h.retention.Erase(ctx, rest.CallerOf(ctx).Actor(), id)
	if err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	return h.erasureView(ctx, e)
}

func (h *erasureHandlers) getErasure(ctx context.Context, input *rest.ByID) (*rest.Output[Erasure], error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	e, err := h.retention.ReadErasure(ctx, id)
	if err != nil {
		return nil, rest.WithName(err, "erasure of person", input.ID)
	}
	return h.erasureView(ctx, e)
}

func (h *erasureHandlers) exportPerson(ctx context.Context, input *rest.ByID) (*huma.StreamResponse, error) {
	id, err := rest.ParseID("person", input.ID)
	if err != nil {
		return nil, err
	}
	write, err := h.retention.Export(ctx, rest.CallerOf(ctx).Actor(), id)
	if err != nil {
		return nil, rest.WithName(err, "person", input.ID)
	}
	return &huma.StreamResponse{Body: func(c huma.Context) {
		_, w := humago.Unwrap(c)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Disposition", `attachment; filename="person-`+id.String()+`.json"`)
		if err := write(c.Context(), w); err != nil {
			panic(http.ErrAbortHandler) // the client sees that the export is incomplete
		}
	}}, nil
}
