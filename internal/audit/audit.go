// Package audit owns the audit_events table: one row for every call, decision and change by an operator, written in the
// transaction of the change. Nothing here changes or deletes an event; package retention deletes old ones, if operators want that, and
// removes an erased person's name.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Actor is the person, agent or system that caused an event.
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

// Person returns a person as actor.
func Person(id uuid.UUID) Actor { return Actor{Kind: KindPerson, ID: id} }

// Agent returns an agent as actor.
func Agent(id uuid.UUID) Actor { return Actor{Kind: KindAgent, ID: id} }

// System returns Holdpoint itself as actor: a deadline, a takeover, a discovery.
func System() Actor { return Actor{Kind: KindSystem} }

// Event is an audit event.
type Event struct {
	ID      int64
	At      time.Time // set by the database
	Actor   Actor
	Action  Action
	Subject uuid.UUID      // id of a call, skill, agent, person, …
	Data    map[string]any // small, without secrets
	// Origin is the credential and the address of the actor. Zero: Holdpoint itself, or an event of an older version.
	Origin Origin

	// Raw is Data as stored, in events that were read. Nil: there is none.
	Raw json.RawMessage
}

const (
	eventColumns = `subject_id, actor_id, actor_kind, action, data, credential_kind, credential_id, address`
	insertSQL    = `INSERT INTO audit_events (` + eventColumns + `)
SELECT subject_id, actor_id, actor_kind, action, data, nullif(credential_kind, ''), nullif(credential_id, ''), nullif(address, '')
FROM unnest((SELECT $1::uuid[]), $2::uuid[], $3::text[], $4::text[], $5::jsonb[], $6::text[], $7::text[], $8::text[]) AS e(` + eventColumns + `)`
)

var insertOneSQL = postgres.ForOneRow(insertSQL) //nolint:gochecknoglobals // a constant

// few is the number of events up to which single statements are cheaper than one that unnests arrays.
const few = 4

// Queue adds the inserts of events to a batch, for transactions of one round trip.
func Queue(batch *pgx.Batch, events ...Event) error {
	return QueueIf(batch, "true", events...)
}

// QueueIf is [Queue] for the events that meet a condition when they are inserted. The condition is SQL about the caller's own
// tables, in which e.subject_id is the event's subject.
func QueueIf(batch *pgx.Batch, condition string, events ...Event) error {
	if len(events) > few {
		args, err := eventColumnArrays(events)
		if err != nil {
			return err
		}
		batch.Queue(insertSQL+" WHERE "+condition, args...)
		return nil
	}
	for i := range events {
		args, err := eventColumnArrays(events[i : i+1])
		if err != nil {
			return err
		}
		batch.Queue(insertOneSQL+" WHERE "+condition, postgres.FirstRow(args)...)
	}
	return nil
}

// nullableColumns returns the columns that may be null. It refuses unknown actions.
func (e *Event) nullableColumns() (actor *uuid.UUID, data *string, err error) {
	if e.Action.About() == "" {
		return nil, nil, fmt.Errorf("audit event: action %q is unknown", e.Action)
	}
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
	args, err := eventColumnArrays(events)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, insertSQL, args...); err != nil {
		return fmt.Errorf("write audit event %s: %w", events[0].Action, err)
	}
	return nil
}

// eventColumnArrays returns the arguments of insertSQL: an array for each column.
func eventColumnArrays(events []Event) ([]any, error) {
	n := len(events)
	subjects, actors := make([]uuid.UUID, n), make([]*uuid.UUID, n)
	kinds, actions, data := make([]string, n), make([]Action, n), make([]*string, n)
	credentialKinds, credentialIDs, addresses := make([]string, n), make([]string, n), make([]string, n)
	for i := range events {
		e := &events[i]
		subjects[i], kinds[i], actions[i] = e.Subject, e.Actor.Kind, e.Action
		credentialKinds[i], credentialIDs[i], addresses[i] = e.Origin.Credential.Kind, e.Origin.Credential.ID, e.Origin.Address
		var err error
		if actors[i], data[i], err = e.nullableColumns(); err != nil {
			return nil, err
		}
	}
	return []any{subjects, actors, kinds, actions, data, credentialKinds, credentialIDs, addresses}, nil
}
