// Package audit owns the audit_events table: one row for every call, decision
// and operator's act, written in the transaction of the change it describes.
// Nothing here changes or deletes an event.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Actor is who did what an event tells of.
type Actor struct {
	Kind string // person, agent, system
	ID   uuid.UUID
}

// The kinds of actors.
const (
	KindPerson = "person"
	KindAgent  = "agent"
	KindSystem = "system"
)

// Person is a signed-in person, or one with a token.
func Person(id uuid.UUID) Actor { return Actor{Kind: KindPerson, ID: id} }

// Agent is an agent, known by its key.
func Agent(id uuid.UUID) Actor { return Actor{Kind: KindAgent, ID: id} }

// System is Holdpoint itself: a deadline, a takeover, a discovery.
func System() Actor { return Actor{Kind: KindSystem} }

// Event is one fact.
type Event struct {
	ID      int64
	At      time.Time // set by the database
	Actor   Actor
	Action  string         // noun.verb, "call.parked"
	Subject uuid.UUID      // the call, skill, agent, person it is about
	Data    map[string]any // small, nothing secret
	// Origin is how the actor came in. Zero: Holdpoint itself, or an event of an older version.
	Origin Origin

	// Raw is Data as it is stored, of events that were read. Nil: there is none.
	Raw json.RawMessage
}

const (
	eventColumns = `subject_id, actor_id, actor_kind, action, data, credential_kind, credential_id, address`
	insertOneSQL = `INSERT INTO audit_events (` + eventColumns + `)
SELECT ` + eventColumns + `
FROM (SELECT $1::uuid, $2::uuid, $3::text, $4::text, $5::jsonb, nullif($6::text, ''), nullif($7::text, ''), nullif($8::text, ''))
	AS e(` + eventColumns + `)`
	insertSQL = `INSERT INTO audit_events (` + eventColumns + `)
SELECT subject_id, actor_id, actor_kind, action, data, nullif(credential_kind, ''), nullif(credential_id, ''), nullif(address, '')
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::text[], $8::text[]) AS e(` + eventColumns + `)`
)

// few events are cheaper as statements of their own than as one that unnests arrays.
const few = 4

// Queue adds the writing of events to a batch, for transactions that are one
// round trip.
func Queue(batch *pgx.Batch, events ...Event) error {
	return QueueIf(batch, "true", events...)
}

// QueueIf adds the writing of those events for which a condition holds when their turn comes: SQL
// of the caller's, about its own tables, in which e.subject_id is the event's subject.
func QueueIf(batch *pgx.Batch, condition string, events ...Event) error {
	if len(events) > few {
		args, err := columns(events)
		if err != nil {
			return err
		}
		batch.Queue(insertSQL+" WHERE "+condition, args...)
		return nil
	}
	for _, e := range events {
		actor, data, err := e.optional()
		if err != nil {
			return err
		}
		batch.Queue(insertOneSQL+" WHERE "+condition, e.Subject, actor, e.Actor.Kind, e.Action, data,
			e.Origin.Credential.Kind, e.Origin.Credential.ID, e.Origin.Address)
	}
	return nil
}

// optional are the columns that may be null.
func (e *Event) optional() (actor *uuid.UUID, data *string, err error) {
	if e.Actor.ID != uuid.Nil {
		actor = &e.Actor.ID
	}
	if len(e.Data) == 0 {
		return actor, nil, nil
	}
	text, err := json.Marshal(e.Data)
	if err != nil {
		return nil, nil, fmt.Errorf("encode audit event %s: %w", e.Action, err)
	}
	encoded := string(text)
	return actor, &encoded, nil
}

// Write writes events in tx, with the origin that ctx carries.
func Write(ctx context.Context, tx pgx.Tx, events ...Event) error {
	if len(events) == 0 {
		return nil
	}
	events = slices.Clone(events)
	for i := range events {
		events[i].SetOrigin(ctx)
	}
	args, err := columns(events)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insertSQL, args...); err != nil {
		return fmt.Errorf("write audit event %s: %w", events[0].Action, err)
	}
	return nil
}

func columns(events []Event) ([]any, error) {
	n := len(events)
	subjects, actors := make([]uuid.UUID, n), make([]*uuid.UUID, n)
	kinds, actions, data := make([]string, n), make([]string, n), make([]*string, n)
	credentialKinds, credentialIDs, addresses := make([]string, n), make([]string, n), make([]string, n)
	for i := range events {
		e := &events[i]
		subjects[i], kinds[i], actions[i] = e.Subject, e.Actor.Kind, e.Action
		credentialKinds[i], credentialIDs[i], addresses[i] = e.Origin.Credential.Kind, e.Origin.Credential.ID, e.Origin.Address
		var err error
		if actors[i], data[i], err = e.optional(); err != nil {
			return nil, err
		}
	}
	return []any{subjects, actors, kinds, actions, data, credentialKinds, credentialIDs, addresses}, nil
}
