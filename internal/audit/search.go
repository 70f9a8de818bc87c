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

// Filter selects events. Zero fields select all. A list that is empty but not nil selects none.
type Filter struct {
	Actors   []uuid.UUID // by one of them
	Kind     string      // of actor; empty: any
	Action   Action      // or its noun alone: "call" is every action of calls
	Subject  uuid.UUID
	From, To time.Time // at From or later, and before To
	Before   int64     // events with a lower id; zero: all
	Limit    int       // at most 200; zero: 50
}

// Found is a page of events, newest first.
type Found struct {
	Events []Event
	Next   int64 // the cursor of the next page; zero: there is none
	// Stopped says that the search read its maximum of events, down to Next.
	Stopped bool
}

const (
	spanSize = 50_000 // of one statement

	// MaxSearched is the approximate number of events that one search reads.
	MaxSearched = 500_000
)

// clockSlack is the tolerated difference between the order of events' times and of their ids: many transactions write at
// once, and the database's clock may be set.
const clockSlack = time.Hour

// List returns the first page of a search.
func List(ctx context.Context, db postgres.Querier, f Filter) ([]Event, error) {
	found, err := Search(ctx, db, f)
	return found.Events, err
}

// Search returns the events that a filter selects, newest first. It reads a limited number of events, so a page may be short
// or empty and still have a next page.
func Search(ctx context.Context, db postgres.Querier, f Filter) (Found, error) {
	s := searcher{db: db, filter: f, limit: f.Limit}
	if s.limit <= 0 || s.limit > 200 {
		s.limit = 50
	}
	if err := s.searchSpans(ctx); err != nil {
		return Found{}, fmt.Errorf("search audit events: %w", err)
	}
	return s.found, nil
}

// SearchFrom is [Search] for readers of the past.
func SearchFrom(ctx context.Context, from *postgres.Reader, f Filter) (found Found, err error) {
	err = from.InTx(ctx, func(tx pgx.Tx) (err error) {
		found, err = Search(ctx, tx, f)
		return err
	})
	return found, err
}

// searcher reads events from the newest to the oldest, in spans of ids.
type searcher struct {
	db     postgres.Querier
	filter Filter
	limit  int
	found  Found
}

func (s *searcher) searchSpans(ctx context.Context) error {
	f := &s.filter
	if f.Actors != nil && len(f.Actors) == 0 {
		return nil
	}
	if f.Subject != uuid.Nil || f.Actors == nil && f.Kind == "" && f.Action == "" && f.From.IsZero() && f.To.IsZero() {
		return s.collectEvents(ctx, f.Before, 0) // an index finds them
	}
	before, lowest, err := s.findBounds(ctx)
	if err != nil {
		return err
	}
	for looked := 0; before > lowest && s.found.Next == 0; looked += spanSize {
		if looked >= MaxSearched {
			s.found.Next, s.found.Stopped = before, true
			return nil
		}
		end := max(before-spanSize, lowest)
		if err := s.collectEvents(ctx, before, end); err != nil {
			return err
		}
		before = end
	}
	return nil
}

// findBounds returns the range of ids: below before, and lowest or above.
func (s *searcher) findBounds(ctx context.Context) (before, lowest int64, err error) {
	newest, _, err := s.firstEvent(ctx, `SELECT id, at FROM audit_events WHERE id >= $1 ORDER BY id DESC LIMIT 1`, 0)
	if err != nil {
		return 0, 0, err
	}
	before, lowest = newest+1, 1
	if s.filter.Before > 0 {
		before = min(before, s.filter.Before)
	}
	if !s.filter.To.IsZero() {
		latest, err := s.findIDAt(ctx, s.filter.To.Add(clockSlack), newest)
		if err != nil {
			return 0, 0, err
		}
		before = min(before, latest)
	}
	if !s.filter.From.IsZero() {
		lowest, err = s.findIDAt(ctx, s.filter.From.Add(-clockSlack), newest)
	}
	return before, lowest, err
}

// findIDAt finds the first id written at a time or later, approximately, by binary search.
func (s *searcher) findIDAt(ctx context.Context, t time.Time, newest int64) (int64, error) {
	low, high := int64(1), newest+1
	for low < high {
		middle := low + (high-low)/2
		id, at, err := s.firstEvent(ctx, `SELECT id, at FROM audit_events WHERE id >= $1 ORDER BY id LIMIT 1`, middle)
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

// firstEvent returns the first row of a query by id, or zero.
func (s *searcher) firstEvent(ctx context.Context, sql string, id int64) (found int64, at time.Time, err error) {
	rows, err := s.db.Query(ctx, sql, id)
	if err != nil {
		return 0, at, err
	}
	_, err = pgx.ForEachRow(rows, []any{&found, &at}, func() error { return nil })
	return found, at, err
}

// collectEvents collects the events in a range of ids. A before of zero is no limit.
func (s *searcher) collectEvents(ctx context.Context, before, lowest int64) error {
	conditions, args := s.filter.buildConditions(before, lowest)
	found, err := postgres.Collect(ctx, s.db, scanEvent, `SELECT id, at, subject_id, actor_id, actor_kind, action, data, data::text,
			coalesce(credential_kind, ''), coalesce(credential_id, ''), coalesce(address, '') FROM audit_events
		WHERE `+conditions+` ORDER BY id DESC LIMIT `+strconv.Itoa(s.limit+1-len(s.found.Events)), args...)
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

func (f *Filter) buildConditions(before, lowest int64) (where string, args []any) {
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
	switch noun, _, whole := strings.Cut(string(f.Action), "."); {
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

func scanEvent(row pgx.CollectableRow) (Event, error) {
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

// Database is a pool, to read and write.
type Database interface {
	postgres.Querier
	Begin(ctx context.Context) (pgx.Tx, error)
}

// RecordExport records that a person exports all events that a filter selects.
func RecordExport(ctx context.Context, db Database, by Actor, f Filter) error {
	filter := map[string]any{}
	if f.Actors != nil {
		filter["actors"] = f.Actors
	}
	for name, text := range map[string]string{"kind": f.Kind, "action": string(f.Action)} {
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
	event := Event{Actor: by, Action: AuditExported, Subject: by.ID, Data: map[string]any{"filter": filter}}
	if err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return Write(ctx, tx, event) }); err != nil {
		return fmt.Errorf("record the export: %w", err)
	}
	return nil
}

const recentEvents = 1000

// Actions returns the actions of recent events in alphabetical order.
func Actions(ctx context.Context, db postgres.Querier) ([]string, error) {
	actions, err := postgres.Collect(ctx, db, pgx.RowTo[string], `SELECT DISTINCT action FROM (SELECT action FROM audit_events ORDER BY id DESC LIMIT $1) AS recent
		ORDER BY action`, recentEvents)
	if err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	return actions, nil
}
