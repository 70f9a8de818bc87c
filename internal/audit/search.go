package audit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Filter selects events. Zero fields select all; a list that is not nil and empty selects none.
type Filter struct {
	Actors   []uuid.UUID // by one of them
	Kind     string      // of actor; empty: any
	Action   string      // an action, or its noun alone: "call" is every action of calls
	Subject  uuid.UUID
	From, To time.Time // at From or later, and before To
	Before   int64     // events with a lower id; zero: from the newest on
	Limit    int       // at most 200; zero: 50
}

// Found is a page of events, newest first.
type Found struct {
	Events []Event
	Next   int64 // the cursor of the next page; zero: there is none
	// Stopped: the search looked at as many events as it may at once, those down to Next.
	Stopped bool
}

const (
	spanSize = 50_000 // of one statement

	// MaxSearched is about how many events a search looks through before it stops.
	MaxSearched = 500_000
)

// clockSlack is how far the order of events' times may be from that of their ids: they are written by
// many at once, and the database's clock may be set.
const clockSlack = time.Hour

// List returns the first page of a search.
func List(ctx context.Context, db postgres.Querier, f Filter) ([]Event, error) {
	found, err := Search(ctx, db, f)
	return found.Events, err
}

// Search returns the events that a filter selects, newest first. It looks at a bounded number of them, so a page may be
// short or empty and have a next one.
func Search(ctx context.Context, db postgres.Querier, f Filter) (Found, error) {
	s := searcher{db: db, filter: f, limit: clamp(f.Limit)}
	if err := s.run(ctx); err != nil {
		return Found{}, fmt.Errorf("search audit events: %w", err)
	}
	return s.found, nil
}

func clamp(limit int) int {
	if limit <= 0 || limit > 200 {
		return 50
	}
	return limit
}

// searcher goes through events from the newest to the oldest, span by span of ids.
type searcher struct {
	db     postgres.Querier
	filter Filter
	limit  int
	found  Found
}

func (s *searcher) run(ctx context.Context) error {
	f := &s.filter
	if f.Actors != nil && len(f.Actors) == 0 {
		return nil
	}
	if f.Subject != uuid.Nil || f.Actors == nil && f.Kind == "" && f.Action == "" && f.From.IsZero() && f.To.IsZero() {
		return s.collect(ctx, f.Before, 0) // an index leads to them
	}
	before, lowest, err := s.bounds(ctx)
	if err != nil {
		return err
	}
	for looked := 0; before > lowest && s.found.Next == 0; looked += spanSize {
		if looked >= MaxSearched {
			s.found.Next, s.found.Stopped = before, true
			return nil
		}
		end := max(before-spanSize, lowest)
		if err := s.collect(ctx, before, end); err != nil {
			return err
		}
		before = end
	}
	return nil
}

// bounds are the ids between which the events are: below the first, and not below the second.
func (s *searcher) bounds(ctx context.Context) (before, lowest int64, err error) {
	newest, _, err := s.first(ctx, `SELECT id, at FROM audit_events WHERE id >= $1 ORDER BY id DESC LIMIT 1`, 0)
	if err != nil {
		return 0, 0, err
	}
	before, lowest = newest+1, 1
	if s.filter.Before > 0 {
		before = min(before, s.filter.Before)
	}
	if !s.filter.To.IsZero() {
		latest, err := s.reached(ctx, s.filter.To.Add(clockSlack), newest)
		if err != nil {
			return 0, 0, err
		}
		before = min(before, latest)
	}
	if !s.filter.From.IsZero() {
		lowest, err = s.reached(ctx, s.filter.From.Add(-clockSlack), newest)
	}
	return before, lowest, err
}

// reached finds, by halving, about the first id that was written at a time or later.
func (s *searcher) reached(ctx context.Context, t time.Time, newest int64) (int64, error) {
	low, high := int64(1), newest+1
	for low < high {
		middle := low + (high-low)/2
		id, at, err := s.first(ctx, `SELECT id, at FROM audit_events WHERE id >= $1 ORDER BY id LIMIT 1`, middle)
		switch {
		case err != nil:
			return 0, err
		case id == 0 || !at.Before(t):
			high = middle
		default:
			low = id + 1
		}
	}
	return low, nil
}

func (s *searcher) first(ctx context.Context, sql string, id int64) (found int64, at time.Time, err error) {
	rows, err := s.db.Query(ctx, sql, id)
	if err != nil {
		return 0, at, err
	}
	_, err = pgx.ForEachRow(rows, []any{&found, &at}, func() error { return nil })
	return found, at, err
}

// collect finds the events below one id (zero: of any), and not below another.
func (s *searcher) collect(ctx context.Context, before, lowest int64) error {
	conditions, args := s.filter.conditions(before, lowest)
	rows, err := s.db.Query(ctx, `SELECT id, at, subject_id, actor_id, actor_kind, action, data, data::text,
			coalesce(credential_kind, ''), coalesce(credential_id, ''), coalesce(address, '') FROM audit_events
		WHERE `+conditions+` ORDER BY id DESC LIMIT `+strconv.Itoa(s.limit+1-len(s.found.Events)), args...)
	if err != nil {
		return err
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return err
	}
	s.found.Events = append(s.found.Events, found...)
	if len(s.found.Events) > s.limit {
		s.found.Events = s.found.Events[:s.limit]
		s.found.Next = s.found.Events[s.limit-1].ID
	}
	return nil
}

func (f *Filter) conditions(before, lowest int64) (where string, args []any) {
	conditions := []string{"true"}
	and := func(before string, value any, after string) {
		args = append(args, value)
		conditions = append(conditions, before+"$"+strconv.Itoa(len(args))+after)
	}
	if before > 0 {
		and("id < ", before, "")
	}
	if lowest > 0 {
		and("id >= ", lowest, "")
	}
	if f.Subject != uuid.Nil {
		and("subject_id = ", f.Subject, "")
	}
	if f.Actors != nil {
		and("actor_id = ANY(", f.Actors, ")")
	}
	if f.Kind != "" {
		and("actor_kind = ", f.Kind, "")
	}
	switch noun, _, whole := strings.Cut(f.Action, "."); {
	case whole:
		and("action = ", f.Action, "")
	case f.Action != "":
		and("split_part(action, '.', 1) = ", noun, "")
	}
	if !f.From.IsZero() {
		and("at >= ", f.From, "")
	}
	if !f.To.IsZero() {
		and("at < ", f.To, "")
	}
	return strings.Join(conditions, " AND "), args
}

func scan(row pgx.CollectableRow) (Event, error) {
	var e Event
	var actor *uuid.UUID
	var raw *string
	err := row.Scan(&e.ID, &e.At, &e.Subject, &actor, &e.Actor.Kind, &e.Action, &e.Data, &raw,
		&e.Origin.Credential.Kind, &e.Origin.Credential.ID, &e.Origin.Address)
	if actor != nil {
		e.Actor.ID = *actor
	}
	if raw != nil {
		e.Raw = []byte(*raw)
	}
	return e, err
}

// Database is read and written: a pool.
type Database interface {
	postgres.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// RecordExport records that somebody gets all events that a filter selects.
func RecordExport(ctx context.Context, db Database, by Actor, f Filter) error {
	filter := map[string]any{}
	if f.Actors != nil {
		filter["actors"] = f.Actors
	}
	for name, text := range map[string]string{"kind": f.Kind, "action": f.Action} {
		if text != "" {
			filter[name] = text
		}
	}
	if f.Subject != uuid.Nil {
		filter["subject"] = f.Subject
	}
	for name, t := range map[string]time.Time{"from": f.From, "to": f.To} {
		if !t.IsZero() {
			filter[name] = t
		}
	}
	event := Event{Actor: by, Action: "audit.exported", Subject: by.ID, Data: map[string]any{"filter": filter}}
	if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return Write(ctx, tx, event) }); err != nil {
		return fmt.Errorf("record the export: %w", err)
	}
	return nil
}

const recentEvents = 1000

// Actions are those of the recent events, in alphabetical order: what may be searched for.
func Actions(ctx context.Context, db postgres.Querier) ([]string, error) {
	rows, err := db.Query(ctx, `SELECT DISTINCT action FROM (SELECT action FROM audit_events ORDER BY id DESC LIMIT $1) AS recent
		ORDER BY action`, recentEvents)
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	actions, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	return actions, nil
}
