package api

import (
	"context"
	"maps"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// AuditEvent is one fact.
type AuditEvent struct {
	ID      int64          `json:"id"`
	At      time.Time      `json:"at"`
	Actor   AuditActor     `json:"actor"`
	Action  string         `json:"action" doc:"What was done: call.parked, approval.approved, …"`
	Subject uuid.UUID      `json:"subject" format:"uuid" doc:"The call, skill, agent or person it is about."`
	Data    map[string]any `json:"data" doc:"Null when there is nothing more to say."`
}

// AuditActor is who did it.
type AuditActor struct {
	Kind string     `json:"kind" enum:"person,agent,system"`
	ID   *uuid.UUID `json:"id" format:"uuid"`
	Name *string    `json:"name"`
}

type listAuditInput struct {
	Page
	Subject string `query:"subject" format:"uuid" doc:"Only events about this call, skill, agent or person."`
}

func (a *API) listAudit(ctx context.Context, input *listAuditInput) (*listOutput[AuditEvent], error) {
	before, err := input.numberCursor()
	if err != nil {
		return nil, err
	}
	filter := audit.Filter{Before: before, Limit: input.Limit}
	if input.Subject != "" {
		if filter.Subject, err = uuid.Parse(input.Subject); err != nil {
			return nil, invalid("query.subject", "expected an id")
		}
	}
	events, err := audit.List(ctx, a.audit, filter)
	if err != nil {
		return nil, err
	}
	names, err := a.actors(ctx, events)
	if err != nil {
		return nil, err
	}
	next := ""
	if len(events) == filter.Limit {
		next = strconv.FormatInt(events[len(events)-1].ID, 10)
	}
	return listOf(events, next, func(e audit.Event) AuditEvent {
		return AuditEvent{
			ID: e.ID, At: e.At.UTC(), Action: e.Action, Subject: e.Subject, Data: e.Data,
			Actor: AuditActor{Kind: e.Actor.Kind, ID: idOrNull(e.Actor.ID), Name: orNull(names[e.Actor.ID])},
		}
	}), nil
}

// actors returns the names of those who acted.
func (a *API) actors(ctx context.Context, events []audit.Event) (map[uuid.UUID]string, error) {
	var people, agents []uuid.UUID
	for _, e := range events {
		switch e.Actor.Kind {
		case audit.KindPerson:
			people = append(people, e.Actor.ID)
		case audit.KindAgent:
			agents = append(agents, e.Actor.ID)
		}
	}
	names, err := a.people(ctx, people...)
	if err != nil || len(agents) == 0 {
		return names, err
	}
	agentNames, err := a.agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	maps.Copy(names, agentNames)
	return names, nil
}
