package review

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

type auditHandlers struct {
	*rest.Directory

	audit audit.Database
	calls *call.Service
	log   *slog.Logger
}

// AuditEvent is one fact.
type AuditEvent struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	Actor   AuditActor      `json:"actor"`
	Action  string          `json:"action" doc:"For example call.parked or approval.approved."`
	Subject uuid.UUID       `json:"subject" format:"uuid" doc:"The call, skill, agent or person it is about."`
	Data    json.RawMessage `json:"data" doc:"An object with details, or null."`

	Credential *rest.Credential `json:"credential" doc:"The actor's credential; null: Holdpoint itself, or an event of an older version."`
	Address    *string          `json:"address" doc:"The actor's network address."`
}

// AuditActor is the person, agent or system that acted.
type AuditActor struct {
	Kind string     `json:"kind" enum:"person,agent,system"`
	ID   *uuid.UUID `json:"id" format:"uuid"`
	Name *string    `json:"name"`

	Issuer  *string `json:"issuer" doc:"For people: the identity provider."`
	Subject *string `json:"subject" doc:"For people: their id at the issuer."`
	Alike   bool    `json:"alike" doc:"For people: another person has the same or a similar-looking name."`
}

// AuditQuery is the part of a request that selects events.
type AuditQuery struct {
	Actor   string `query:"actor" doc:"Only events of this person or agent: a name or an id, or system for Holdpoint itself."`
	Action  string `query:"action" maxLength:"100" doc:"Only this action; a noun alone, such as call, selects all its actions."`
	Subject string `query:"subject" format:"uuid" doc:"Only events about this call, skill, agent or person."`
	From    string `query:"from" doc:"Only events at or after this time: RFC 3339, or a day, or a day and a time in UTC."`
	To      string `query:"to" doc:"Only events before this time; a day is included as a whole."`
}

type listAuditInput struct {
	rest.Page
	AuditQuery
}

func (h *auditHandlers) listAudit(ctx context.Context, input *listAuditInput) (*rest.ListOutput[AuditEvent], error) {
	before, err := input.NumberCursor()
	if err != nil {
		return nil, err
	}
	filter, err := h.auditFilter(ctx, input.AuditQuery)
	if err != nil {
		return nil, err
	}
	filter.Before, filter.Limit = before, input.Limit
	found, err := audit.SearchFrom(ctx, h.calls.Reader, filter)
	if err != nil {
		return nil, err
	}
	view, err := h.auditViews(ctx, found.Events)
	if err != nil {
		return nil, err
	}
	next := ""
	if found.Next > 0 {
		next = strconv.FormatInt(found.Next, 10)
	}
	return rest.ListOf(found.Events, next, view), nil
}

func (h *auditHandlers) auditFilter(ctx context.Context, q AuditQuery) (audit.Filter, error) {
	filter, err := audit.Query{Actor: q.Actor, Action: q.Action, Subject: q.Subject, From: q.From, To: q.To}.Parse(ctx, h.findActors)
	return filter, rest.InPart("query", err)
}

// auditViews returns a function that adds the actors' names.
func (h *auditHandlers) auditViews(ctx context.Context, events []audit.Event) (func(audit.Event) AuditEvent, error) {
	people, agents, err := h.nameActors(ctx, events)
	if err != nil {
		return nil, err
	}
	return func(e audit.Event) AuditEvent {
		return AuditEvent{
			ID: e.ID, At: e.At.UTC(), Action: string(e.Action), Subject: e.Subject, Data: e.Raw,
			Credential: rest.NewCredential(e.Origin), Address: rest.OrNull(e.Origin.Address),
			Actor: AuditActor{
				Kind: e.Actor.Kind, ID: rest.IDOrNull(e.Actor.ID), Name: rest.OrNull(cmp.Or(people.NameOf(e.Actor.ID), agents[e.Actor.ID])),
				Issuer: rest.OrNull(people[e.Actor.ID].Issuer), Subject: rest.OrNull(people[e.Actor.ID].Subject), Alike: people[e.Actor.ID].Alike,
			},
		}
	}, nil
}

type exportAuditInput struct {
	AuditQuery
}

func (h *auditHandlers) exportAudit(ctx context.Context, input *exportAuditInput) (*huma.StreamResponse, error) {
	filter, err := h.auditFilter(ctx, input.AuditQuery)
	if err != nil {
		return nil, err
	}
	return streamExport(h.startExport(ctx, rest.CallerOf(ctx).Actor(), filter))
}

// startExport starts an export. The event about the export is the first, if the filter selects it.
func (h *auditHandlers) startExport(ctx context.Context, by audit.Actor, f audit.Filter) (http.Handler, error) {
	if err := audit.RecordExport(ctx, h.audit, by, f); err != nil {
		return nil, err
	}
	f.Limit = auditPage
	found, err := audit.SearchFrom(ctx, h.calls.Reader, f)
	return newDownload("audit", FormatJSONLines, func(w io.Writer) error {
		for {
			if err == nil {
				var view func(audit.Event) AuditEvent
				view, err = h.auditViews(ctx, found.Events)
				for i := 0; err == nil && i < len(found.Events); i++ {
					err = rest.WriteLine(w, view(found.Events[i]))
				}
			}
			if err != nil {
				return exportError(ctx, h.log, "audit", err)
			}
			if found.Next == 0 {
				return nil
			}
			f.Before = found.Next
			found, err = audit.SearchFrom(ctx, h.calls.Reader, f)
		}
	}), err
}

const auditPage = 200

// findActors returns the people and agents that a name may mean.
func (h *auditHandlers) findActors(ctx context.Context, name string) ([]uuid.UUID, error) {
	people, err := h.Identity.Named(ctx, name)
	if err != nil {
		return nil, err
	}
	agents, err := h.Agents.AgentsNamed(ctx, name)
	return append(people, agents...), err
}

// nameActors returns the names of the events' actors.
func (h *auditHandlers) nameActors(ctx context.Context, events []audit.Event) (rest.PersonNames, map[uuid.UUID]string, error) {
	var people, agents []uuid.UUID
	for _, e := range events {
		switch e.Actor.Kind {
		case audit.KindPerson:
			people = append(people, e.Actor.ID)
		case audit.KindAgent:
			agents = append(agents, e.Actor.ID)
		}
	}
	names, err := h.NamePeople(ctx, people...)
	if err != nil || len(agents) == 0 {
		return names, nil, err
	}
	agentNames, err := h.Agents.Names(ctx, agents)
	return names, agentNames, err
}
