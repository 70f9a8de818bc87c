package api

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
)

// AuditEvent is one fact.
type AuditEvent struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   AuditActor      `json:"actor"`
	Action  string          `json:"action" doc:"What was done: call.parked, approval.approved, …"`
	Subject uuid.UUID       `json:"subject" format:"uuid" doc:"The call, skill, agent or person it is about."`
	Data    json.RawMessage `json:"data" doc:"An object; null when there is nothing more to say."`

	Credential *Credential `json:"credential" doc:"What the actor authenticated with; null: Holdpoint itself, or an event of an older version."`
	Address    *string     `json:"address" doc:"The address that the actor came from."`
}

// AuditActor is who did it.
type AuditActor struct {
	Kind string     `json:"kind" enum:"person,agent,system"`
	ID   *uuid.UUID `json:"id" format:"uuid"`
	Name *string    `json:"name"`

	Issuer  *string `json:"issuer" doc:"Of people: who says who they are."`
	Subject *string `json:"subject" doc:"Of people: who they are, to the issuer."`
	Alike   bool    `json:"alike" doc:"Of people: somebody else has an equal name, or one that looks alike."`
}

// AuditQuery is the part of a request that selects events.
type AuditQuery struct {
	Actor   string `query:"actor" doc:"Only events of this person or agent: a name or an id; or system, which is Holdpoint itself."`
	Action  string `query:"action" maxLength:"100" doc:"Only this action; its noun alone, such as call, is all actions of that."`
	Subject string `query:"subject" format:"uuid" doc:"Only events about this call, skill, agent or person."`
	From    string `query:"from" doc:"Only events then or later: RFC 3339, or a day, or a day and a time in UTC."`
	To      string `query:"to" doc:"Only events before then; a day counts as a whole."`
}

type listAuditInput struct {
	Page
	AuditQuery
}

func (a *API) listAudit(ctx context.Context, input *listAuditInput) (*listOutput[AuditEvent], error) {
	before, err := input.numberCursor()
	if err != nil {
		return nil, err
	}
	filter, err := a.auditFilter(ctx, input.AuditQuery)
	if err != nil {
		return nil, err
	}
	filter.Before, filter.Limit = before, input.Limit
	found, err := audit.Search(ctx, a.audit, filter)
	if err != nil {
		return nil, err
	}
	view, err := a.auditViews(ctx, found.Events)
	if err != nil {
		return nil, err
	}
	next := ""
	if found.Next > 0 {
		next = strconv.FormatInt(found.Next, 10)
	}
	return listOf(found.Events, next, view), nil
}

func (a *API) auditFilter(ctx context.Context, q AuditQuery) (audit.Filter, error) {
	filter, err := audit.Query(q).Parse(ctx, a.actorsNamed)
	return filter, queryProblem(err)
}

// actorsNamed returns the people and agents whom a name may mean.
func (a *API) actorsNamed(ctx context.Context, name string) ([]uuid.UUID, error) {
	people, err := a.identity.Named(ctx, name)
	if err != nil {
		return nil, err
	}
	agents, err := a.agents.AgentsNamed(ctx, name)
	return append(people, agents...), err
}

// auditViews adds the names of those who acted.
func (a *API) auditViews(ctx context.Context, events []audit.Event) (func(audit.Event) AuditEvent, error) {
	people, agents, err := a.actors(ctx, events)
	if err != nil {
		return nil, err
	}
	return func(e audit.Event) AuditEvent {
		return AuditEvent{
			ID: e.ID, At: e.At.UTC(), Action: e.Action, Subject: e.Subject, Data: e.Raw,
			Credential: newCredential(e.Origin), Address: orNull(e.Origin.Address),
			Actor: AuditActor{
				Kind: e.Actor.Kind, ID: idOrNull(e.Actor.ID), Name: orNull(cmp.Or(people.of(e.Actor.ID), agents[e.Actor.ID])),
				Issuer: orNull(people[e.Actor.ID].Issuer), Subject: orNull(people[e.Actor.ID].Subject), Alike: people[e.Actor.ID].Alike,
			},
		}
	}, nil
}

type exportAuditInput struct {
	AuditQuery
}

func (a *API) exportAudit(ctx context.Context, input *exportAuditInput) (*huma.StreamResponse, error) {
	filter, err := a.auditFilter(ctx, input.AuditQuery)
	if err != nil {
		return nil, err
	}
	return streamed(a.ExportAudit(ctx, callerOf(ctx).actor(), filter))
}

// ExportAudit begins an export of events, newest first, as JSON Lines. The event that tells of it is the first in it, if
// the filter selects it.
func (a *API) ExportAudit(ctx context.Context, by audit.Actor, f audit.Filter) (http.Handler, error) {
	if err := audit.RecordExport(ctx, a.audit, by, f); err != nil {
		return nil, err
	}
	f.Limit = auditPage
	found, err := audit.Search(ctx, a.audit, f)
	return newDownload("audit", FormatJSONLines, func(w io.Writer) error {
		for {
			if err == nil {
				err = a.writeEvents(ctx, w, found.Events)
			}
			if err != nil {
				return a.exportFailed(ctx, "audit", err)
			}
			if found.Next == 0 {
				return nil
			}
			f.Before = found.Next
			found, err = audit.Search(ctx, a.audit, f)
		}
	}), err
}

const auditPage = 200

func (a *API) writeEvents(ctx context.Context, w io.Writer, events []audit.Event) error {
	view, err := a.auditViews(ctx, events)
	if err != nil {
		return err
	}
	for _, e := range events {
		if err := writeLine(w, view(e)); err != nil {
			return err
		}
	}
	return nil
}

// actors returns the names of those who acted.
func (a *API) actors(ctx context.Context, events []audit.Event) (personNames, map[uuid.UUID]string, error) {
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
		return names, nil, err
	}
	agentNames, err := a.agents.Names(ctx, agents)
	return names, agentNames, err
}
