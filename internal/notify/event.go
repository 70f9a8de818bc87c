package notify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/plain"
)

// Kind is what happened.
type Kind string

// The kinds of events.
const (
	Parked     Kind = "parked"      // a call waits for a decision
	Escalated  Kind = "escalated"   // half of its time is over: another team is asked
	NoReviewer Kind = "no_reviewer" // a call waits that nobody may decide
	Asked      Kind = "asked"       // a call is on its way, and a question of its server waits for a decision
	Decided    Kind = "decided"     // it waits no longer: decided, expired, cancelled
)

// Event is what happened to a call. Names may be anything: they are cleaned when they are shown.
type Event struct {
	Kind        Kind      `json:"kind"`
	CallID      uuid.UUID `json:"call_id"`
	Agent       string    `json:"agent"`
	Skill       string    `json:"skill"`
	Tool        string    `json:"tool"`
	Team        string    `json:"team,omitempty"` // whose attention is wanted; empty: everybody's
	Deadline    time.Time `json:"deadline"`
	PrincipalID uuid.UUID `json:"principal_id"` // on whose behalf; uuid.Nil: nobody's
}

// bounded keeps a row small, whatever a server calls its tools.
func (e Event) bounded() Event {
	e.Agent, e.Skill, e.Tool = plain.Line(e.Agent, maxName), plain.Line(e.Skill, maxName), plain.Line(e.Tool, maxName)
	return e
}

const (
	maxName    = 80  // bytes of a name in a message
	eventsEach = 100 // in one job
)

// rank orders kinds: of several of one call, the highest is told.
func (k Kind) rank() int { return slices.Index([]Kind{Parked, Escalated, NoReviewer, Asked}, k) }

// newest returns one event of each of the calls that wait, the most urgent first.
func newest(events []Event, waiting []uuid.UUID) []Event {
	byCall := make(map[uuid.UUID]Event, len(waiting))
	for _, e := range events {
		if known, ok := byCall[e.CallID]; !ok || e.Kind.rank() > known.Kind.rank() {
			byCall[e.CallID] = e
		}
	}
	news := make([]Event, 0, len(waiting))
	for _, id := range waiting {
		if e, ok := byCall[id]; ok && e.Kind != Decided {
			news = append(news, e)
			delete(byCall, id)
		}
	}
	slices.SortFunc(news, func(a, b Event) int {
		return cmp.Or(a.Deadline.Compare(b.Deadline), bytes.Compare(a.CallID[:], b.CallID[:]))
	})
	return news
}

// Queue has events told to those who want to know, once tx commits. When nobody does, it does nothing.
func (s *Service) Queue(ctx context.Context, tx pgx.Tx, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	if s.river == nil {
		return fmt.Errorf("queue %d events: notifications have not been started", len(events))
	}
	wants, err := s.wanted(ctx, tx)
	if err != nil {
		return err
	}
	interesting := make([]Event, 0, len(events))
	for _, e := range events {
		if wants.event(e) {
			interesting = append(interesting, e.bounded())
		}
	}
	jobs := make([]river.InsertManyParams, 0, len(interesting)/eventsEach+1)
	for chunk := range slices.Chunk(interesting, eventsEach) {
		jobs = append(jobs, river.InsertManyParams{Args: spreadArgs{Events: chunk}})
	}
	if len(jobs) == 0 {
		return nil
	}
	if _, err := s.river.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert jobs that notify of %d events: %w", len(interesting), err)
	}
	return nil
}
