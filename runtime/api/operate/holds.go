package operate

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
)

type holdHandlers struct {
	*rest.Directory

	holds *legalhold.Service
}

// LegalHold keeps rows from being deleted.
type LegalHold struct {
	ID         uuid.UUID  `json:"id" format:"uuid"`
	AgentID    *uuid.UUID `json:"agent_id" format:"uuid" doc:"It covers this agent's rows; null: rows of all agents, and of none."`
	Agent      *string    `json:"agent" doc:"The agent's name."`
	From       *time.Time `json:"from" doc:"It covers rows from this time on; null: since the beginning."`
	To         *time.Time `json:"to" doc:"It covers rows before this time; null: without an end."`
	Reason     string     `json:"reason"`
	CreatedBy  *string    `json:"created_by"`
	CreatedAt  time.Time  `json:"created_at"`
	LiftedBy   *string    `json:"lifted_by"`
	LiftedAt   *time.Time `json:"lifted_at" doc:"Null: it is in force."`
	LiftReason *string    `json:"lift_reason"`
}

func (h *holdHandlers) holdViews(ctx context.Context, holds ...legalhold.Hold) (func(legalhold.Hold) LegalHold, error) {
	var people, agents []uuid.UUID
	for i := range holds {
		people, agents = append(people, holds[i].CreatedBy, holds[i].LiftedBy), append(agents, holds[i].AgentID)
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil {
		return nil, err
	}
	known, err := h.Agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	return func(one legalhold.Hold) LegalHold {
		return LegalHold{
			ID: one.ID, AgentID: rest.IDOrNull(one.AgentID), Agent: rest.OrNull(known[one.AgentID]), From: rest.UTCOrNull(one.From), To: rest.UTCOrNull(one.To),
			Reason: one.Reason, CreatedBy: rest.OrNull(names.NameOf(one.CreatedBy)), CreatedAt: one.CreatedAt.UTC(),
			LiftedBy: rest.OrNull(names.NameOf(one.LiftedBy)), LiftedAt: rest.UTCOrNull(one.LiftedAt), LiftReason: rest.OrNull(one.LiftReason),
		}
	}, nil
}

func (h *holdHandlers) oneHold(ctx context.Context, one legalhold.Hold) (*rest.Output[LegalHold], error) {
	view, err := h.holdViews(ctx, one)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(view(one)), nil
}

// listHolds has no pages: there are few holds.
func (h *holdHandlers) listHolds(ctx context.Context, _ *rest.None) (*rest.ListOutput[LegalHold], error) {
	holds, err := h.holds.List(ctx)
	if err != nil {
		return nil, err
	}
	view, err := h.holdViews(ctx, holds...)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(holds, "", view), nil
}

type setHoldInput struct {
	Body struct {
		Agent  string     `json:"agent,omitempty" doc:"The name or id of an agent, which may be deleted. Omitted: rows of all agents, and of none."`
		From   *time.Time `json:"from,omitempty" doc:"Omitted: since the beginning."`
		To     *time.Time `json:"to,omitempty" doc:"Exclusive. Omitted: without an end."`
		Reason string     `json:"reason" doc:"1 to 2,000 bytes."`
	} `nameHint:"LegalHoldRequest"`
}

func (h *holdHandlers) setHold(ctx context.Context, input *setHoldInput) (*rest.Output[LegalHold], error) {
	asked := legalhold.Hold{From: input.Body.From, To: input.Body.To, Reason: input.Body.Reason}
	if input.Body.Agent != "" {
		found, err := h.Agents.AgentsNamed(ctx, input.Body.Agent)
		if err != nil {
			return nil, err
		}
		if len(found) != 1 {
			return nil, rest.InvalidField("body.agent", "must be the name of one agent, or its id; %d have this name", len(found))
		}
		asked.AgentID = found[0]
	}
	set, err := h.holds.Set(ctx, rest.CallerOf(ctx).Actor(), asked)
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok {
		return nil, rest.InvalidFields("body", wrong)
	}
	if err != nil {
		return nil, err
	}
	return h.oneHold(ctx, set)
}

type liftHoldInput struct {
	rest.ByID
	Body struct {
		Reason string `json:"reason" doc:"1 to 2,000 bytes."`
	} `nameHint:"LegalHoldEnd"`
}

func (h *holdHandlers) liftHold(ctx context.Context, input *liftHoldInput) (*rest.Output[LegalHold], error) {
	id, err := rest.ParseID("legal hold", input.ID)
	if err != nil {
		return nil, err
	}
	lifted, err := h.holds.Lift(ctx, rest.CallerOf(ctx).Actor(), id, input.Body.Reason)
	if wrong, ok := errors.AsType[*fault.InvalidError](err); ok {
		return nil, rest.InvalidFields("body", wrong)
	}
	if err != nil {
		return nil, rest.WithName(err, "legal hold", input.ID)
	}
	return h.oneHold(ctx, lifted)
}
