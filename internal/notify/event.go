package notify

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Parked     Kind = "parked"      // a call is pending
	Escalated  Kind = "escalated"   // a step of its escalation is taken: more teams or people are asked
	NoReviewer Kind = "no_reviewer" // a call is pending that no one may decide
	Unmeetable Kind = "unmeetable"  // a call is pending whose policies no reviewers can meet
	Asked      Kind = "asked"       // during a call, a question of its server is pending
	Planned    Kind = "planned"     // a plan, a list of calls to come, is pending
	BrokeGlass Kind = "broke_glass" // one person approved the call alone, which another one has to review
	GuardLost  Kind = "guard_lost"  // the guard of a coding agent no longer holds; the id is that of the alert
	Bypassed   Kind = "bypassed"    // a coding agent ran a call that was not released; the id is that of the alert
	Decided    Kind = "decided"     // the call or the plan is no longer pending: decided, expired or cancelled, or reviewed after BrokeGlass
)

// isGuard reports whether the event is about the guard of a coding agent.
func (k Kind) isGuard() bool { return k == GuardLost || k == Bypassed }

// Event is an event of a call, a plan or a guard. Names are not trusted; messages clean them.
type Event struct {
	Kind        Kind      `json:"kind"`
	CallID      uuid.UUID `json:"call_id"` // of Planned: the id of the plan
	Agent       string    `json:"agent"`
	Skill       string    `json:"skill"`           // of GuardLost and Bypassed: the host
	Tool        string    `json:"tool"`            // empty if Planned; of GuardLost: the machine
	Team        string    `json:"team,omitempty"`  // the first of Asked, for processes of earlier versions
	Teams       []string  `json:"teams,omitempty"` // that the call was given to, for the limits of reviewers
	Deadline    time.Time `json:"deadline"`        // zero: none
	PrincipalID uuid.UUID `json:"principal_id"`    // uuid.Nil: none
	By          uuid.UUID `json:"by,omitzero"`     // of BrokeGlass, who approved alone and is not notified

	GateOnly bool `json:"gate_only,omitempty"` // Holdpoint does not execute the call

	Step int `json:"step,omitempty"` // of an escalation, from 1

	// Asked are the teams that are asked, with People and Names. None of these: all reviewers.
	Asked    []string    `json:"asked,omitempty"`
	People   []uuid.UUID `json:"people,omitempty"`
	Names    []string    `json:"names,omitempty"`    // names of people; see [identity.Person.UniqueNames]
	Whole    bool        `json:"whole,omitempty"`    // all members of the teams are asked, also if some of them are on call
	Everyone bool        `json:"everyone,omitempty"` // all reviewers are asked too
}

// listAsked returns the teams that are asked.
func (e Event) listAsked() []string {
	if len(e.Asked) == 0 && e.Team != "" { // of an earlier version
		return []string{e.Team}
	}
	return e.Asked
}

// asksTeam reports whether a team is asked.
func (e Event) asksTeam(team string) bool { return slices.Contains(e.listAsked(), team) }

// key tells the event from others of its call. One target is told of each once.
func (e Event) key() string {
	if e.Step > 1 {
		return string(e.Kind) + ":" + strconv.Itoa(e.Step)
	}
	return string(e.Kind)
}

const (
	maxName    = 80  // bytes of a name in a message
	eventsEach = 100 // events of one job
)

// Queue sends events to their subscribers after tx commits. Without subscribers it does nothing.
func (s *Service) Queue(ctx context.Context, tx pgx.Tx, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	if s.river == nil {
		return fmt.Errorf("queue %d events: notifications have not been started", len(events))
	}
	wants, isCached := s.wants.Peek(struct{}{})
	if !isCached { // read them in this transaction, so that it does not wait for a second connection, and fill the cache in the background
		s.wants.Start(ctx, struct{}{}, func(ctx context.Context) (subscriptions, error) { return readSubscriptions(ctx, s.Pool) })
		var err error
		if wants, err = readSubscriptions(ctx, tx); err != nil {
			return err
		}
	}
	interesting := make([]Event, 0, len(events))
	for _, e := range events {
		if wants.wantsEvent(e) {
			if len(e.Asked) > 0 {
				e.Team = e.Asked[0]
			}
			e.Agent, e.Skill, e.Tool = plain.Line(e.Agent, maxName), plain.Line(e.Skill, maxName), plain.Line(e.Tool, maxName)
			interesting = append(interesting, e)
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
		return fmt.Errorf("insert jobs for %d events: %w", len(interesting), err)
	}
	return nil
}

// subscriptions summarizes the subscriptions of all targets.
type subscriptions struct {
	teams []string // of webhooks; "": a webhook of all teams
	push  bool     // a browser has subscribed
}

// wantsEvent reports whether the event may have a subscriber. [Decided] only updates messages in browsers.
func (w subscriptions) wantsEvent(e Event) bool {
	if w.push {
		return true
	}
	return e.Kind != Decided && (slices.Contains(w.teams, "") || slices.ContainsFunc(w.teams, e.asksTeam))
}

func readSubscriptions(ctx context.Context, db postgres.Querier) (subscriptions, error) {
	rows, err := db.Query(ctx, `SELECT array(SELECT DISTINCT coalesce(team, '') FROM webhooks), EXISTS (SELECT FROM push_subscriptions)`)
	if err != nil {
		return subscriptions{}, fmt.Errorf("read subscriptions: %w", err)
	}
	found, err := pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (subscriptions, error) {
		var w subscriptions
		err := row.Scan(&w.teams, &w.push)
		return w, err
	})
	if err != nil {
		return subscriptions{}, fmt.Errorf("read subscriptions: %w", err)
	}
	return found, nil
}

// rankOf orders the kinds: of several events of a call, the one with the highest rank is sent.
func (k Kind) rankOf() int {
	return slices.Index([]Kind{Planned, Parked, Escalated, NoReviewer, Unmeetable, Asked, BrokeGlass, GuardLost, Bypassed}, k)
}

// newestByCall returns one event of each call that waits for people, by deadline: of those that wait for a decision, and of those that wait for
// a review.
func newestByCall(events []Event, pending, unreviewed []uuid.UUID) []Event {
	byCall := make(map[uuid.UUID]Event, len(pending)+len(unreviewed))
	for _, e := range events {
		awaited := pending
		if e.Kind == BrokeGlass {
			awaited = unreviewed
		}
		if e.Kind == Decided || !slices.Contains(awaited, e.CallID) {
			continue
		}
		if known, ok := byCall[e.CallID]; !ok || cmp.Or(cmp.Compare(e.Kind.rankOf(), known.Kind.rankOf()), cmp.Compare(e.Step, known.Step)) > 0 {
			byCall[e.CallID] = e
		}
	}
	news := slices.Collect(maps.Values(byCall))
	slices.SortFunc(news, func(a, b Event) int {
		return cmp.Or(a.Deadline.Compare(b.Deadline), bytes.Compare(a.CallID[:], b.CallID[:]))
	})
	return news
}
