package operate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type changeHandlers struct {
	*rest.Directory

	control *dualcontrol.Service
}

// ControlledChange is a change that loosens, which waits for a second operator or waited for one.
type ControlledChange struct {
	ID         uuid.UUID           `json:"id" format:"uuid"`
	Kind       dualcontrol.Kind    `json:"kind" enum:"skill,tool,rule,policy,grant,person,invitation" doc:"The kind of thing that it changes."`
	Subject    uuid.UUID           `json:"subject" format:"uuid" doc:"The thing. Rules, policies and tools have ids that follow from their names."`
	Name       string              `json:"name"`
	Action     string              `json:"action" enum:"create,update,delete"`
	Fields     []dualcontrol.Field `json:"fields" nullable:"false" doc:"All differences. Secret values are not shown."`
	Status     dualcontrol.Status  `json:"status" enum:"pending,approved,rejected,expired,replaced,stale" doc:"stale: the thing was changed after the proposal. replaced: another change of the same thing was proposed."`
	ProposedBy *rest.PersonName    `json:"proposed_by"`
	ProposedAt time.Time           `json:"proposed_at"`
	ExpiresAt  time.Time           `json:"expires_at"`
	DecidedBy  *rest.PersonName    `json:"decided_by"`
	DecidedAt  *time.Time          `json:"decided_at"`
	Note       *string             `json:"note"`
}

func (h *changeHandlers) changeViews(ctx context.Context, changes ...dualcontrol.Change) (func(dualcontrol.Change) ControlledChange, error) {
	var people []uuid.UUID
	for i := range changes {
		people = append(people, changes[i].ProposedBy, changes[i].DecidedBy)
		if changes[i].Kind == dualcontrol.Person {
			people = append(people, changes[i].Subject)
		}
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	return func(c dualcontrol.Change) ControlledChange {
		if c.Kind == dualcontrol.Person {
			c.Name = names.NameOf(c.Subject)
		}
		return ControlledChange{
			ID: c.ID, Kind: c.Kind, Subject: c.Subject, Name: c.Name, Action: c.Action, Fields: rest.OrEmpty(c.Fields), Status: c.Status,
			ProposedBy: names.RefOf(c.ProposedBy), ProposedAt: c.ProposedAt.UTC(), ExpiresAt: c.ExpiresAt.UTC(),
			DecidedBy: names.RefOf(c.DecidedBy), DecidedAt: rest.UTCOrNull(c.DecidedAt), Note: rest.OrNull(c.Note),
		}
	}, nil
}

func (h *changeHandlers) oneChange(ctx context.Context, c dualcontrol.Change) (*rest.Output[ControlledChange], error) {
	view, err := h.changeViews(ctx, c)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(c)), nil
}

type listChangesInput struct {
	rest.Page

	Pending bool `query:"pending" doc:"Only those that wait."`
}

func (h *changeHandlers) listChanges(ctx context.Context, input *listChangesInput) (*rest.ListOutput[ControlledChange], error) {
	before, err := input.IDCursor()
	if err != nil {
		return nil, err
	}
	found, next, err := h.control.List(ctx, before, input.Limit, input.Pending)
	if err != nil {
		return nil, err
	}
	view, err := h.changeViews(ctx, found...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, rest.CursorOf(next), view), nil
}

func (h *changeHandlers) getChange(ctx context.Context, input *rest.ByID) (*rest.Output[ControlledChange], error) {
	id, err := rest.ParseID("change", input.ID)
	if err != nil {
		return nil, err
	}
	found, err := h.control.Get(ctx, id)
	if err != nil {
		return nil, rest.WithName(err, "change", input.ID)
	}
	return h.oneChange(ctx, found)
}

type decideChangeInput struct {
	rest.ByID
	Body struct {
		Note string `json:"note,omitempty" maxLength:"2000" doc:"For the other operators."`
	} `nameHint:"ChangeDecision"`
}

func (h *changeHandlers) approveChange(ctx context.Context, input *decideChangeInput) (*rest.Output[ControlledChange], error) {
	return h.decideChange(ctx, input, h.control.Approve)
}

func (h *changeHandlers) rejectChange(ctx context.Context, input *decideChangeInput) (*rest.Output[ControlledChange], error) {
	return h.decideChange(ctx, input, h.control.Reject)
}

func (h *changeHandlers) decideChange(ctx context.Context, input *decideChangeInput,
	decide func(ctx context.Context, by, id uuid.UUID, note string) (dualcontrol.Change, error),
) (*rest.Output[ControlledChange], error) {
	id, err := rest.ParseID("change", input.ID)
	if err != nil {
		return nil, err
	}
	if err := rest.CheckStorable("body.note", input.Body.Note); err != nil {
		return nil, err
	}
	decided, err := decide(ctx, rest.CallerOf(ctx).Actor().ID, id, input.Body.Note)
	if err != nil {
		return nil, rest.WithName(err, "change", input.ID)
	}
	return h.oneChange(ctx, decided)
}
