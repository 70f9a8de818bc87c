package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// spreadArgs is a job that spreads events to targets.
type spreadArgs struct {
	Events []Event `json:"events"`
}

func (spreadArgs) Kind() string { return "notify_spread" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (spreadArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: JobQueue} }

type spreadWorker struct {
	river.WorkerDefaults[spreadArgs]
	service *Service
}

// spreadTimeout is short: the job of a killed process is retried after it.
const spreadTimeout = 20 * time.Second

func (w *spreadWorker) Timeout(*river.Job[spreadArgs]) time.Duration { return spreadTimeout }

// Work completes the job in the transaction that spreads its events, so they are spread once.
func (w *spreadWorker) Work(ctx context.Context, job *river.Job[spreadArgs]) error {
	reviewers, err := w.service.Identity.Reviewers(ctx)
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, w.service.Pool, func(tx pgx.Tx) error {
		if err := w.service.spreadEvents(ctx, tx, reviewers, job.Args.Events); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// notice is an event to be sent to a target.
type notice struct {
	target uuid.UUID
	event  Event
}

// spreadEvents inserts notices of events for their targets. It locks the targets before it writes, in one order, to avoid
// deadlocks. A delivery that runs at the same time holds the same lock, and so sees all notices or none.
func (s *Service) spreadEvents(ctx context.Context, tx pgx.Tx, reviewers []identity.Eligible, events []Event) error {
	var news []Event
	ends := map[uuid.UUID]Event{}
	for _, e := range events {
		if e.Kind == Decided {
			ends[e.CallID] = e
		} else {
			news = append(news, e)
		}
	}
	hooks, err := hooksFor(ctx, tx, news)
	if err != nil {
		return err
	}
	browsers, err := s.browsersFor(ctx, tx, reviewers, news)
	if err != nil {
		return err
	}
	told, err := findNotified(ctx, tx, slices.Collect(maps.Keys(ends)))
	if err != nil {
		return err
	}
	for _, to := range []struct {
		table   targetTable
		notices []notice
	}{{webhookTable, hooks}, {pushTable, browsers}} {
		if err := s.leaveNotices(ctx, tx, to.table, to.notices, told, ends); err != nil {
			return err
		}
	}
	return nil
}

// hooksFor pairs webhooks with the events that ask their team.
func hooksFor(ctx context.Context, tx pgx.Tx, news []Event) ([]notice, error) {
	if len(news) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT id, team FROM webhooks`)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	var notices []notice
	var id uuid.UUID
	var team *string
	_, err = pgx.ForEachRow(rows, []any{&id, &team}, func() error {
		for _, e := range news {
			if team == nil || e.asksTeam(*team) {
				notices = append(notices, notice{id, e})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return notices, nil
}

// browsersFor pairs browsers with the events of which their people are notified.
func (s *Service) browsersFor(ctx context.Context, tx pgx.Tx, reviewers []identity.Eligible, news []Event) ([]notice, error) {
	if len(news) == 0 {
		return nil, nil
	}
	of, err := readSubscribers(ctx, tx)
	if err != nil || len(of) == 0 {
		return nil, err
	}
	who, err := readAudience(ctx, tx, reviewers, news)
	if err != nil {
		return nil, err
	}
	var notices []notice
	for _, e := range news {
		for _, person := range who.listConcerned(&e, s.AllowSelfApproval) {
			for _, id := range of[person] {
				notices = append(notices, notice{id, e})
			}
		}
	}
	return notices, nil
}

// readSubscribers returns subscriptions by person.
func readSubscribers(ctx context.Context, tx pgx.Tx) (map[uuid.UUID][]uuid.UUID, error) {
	rows, err := tx.Query(ctx, `SELECT person_id, id FROM push_subscriptions ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read push subscriptions: %w", err)
	}
	of := map[uuid.UUID][]uuid.UUID{}
	var person, id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&person, &id}, func() error {
		of[person] = append(of[person], id)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read push subscriptions: %w", err)
	}
	return of, nil
}

// audience is who can be notified of events, and which teams they are members of at this moment.
type audience struct {
	reviewers   []identity.Eligible
	sames       map[uuid.UUID]uuid.UUID
	memberships []identity.Membership
	substituted map[uuid.UUID][]uuid.UUID // by person, those who are away
	people      map[uuid.UUID]identity.Person
}

func readAudience(ctx context.Context, tx pgx.Tx, reviewers []identity.Eligible, news []Event) (*audience, error) {
	who := &audience{reviewers: reviewers, substituted: map[uuid.UUID][]uuid.UUID{}, people: map[uuid.UUID]identity.Person{}}
	people, teams := make([]uuid.UUID, 0, len(reviewers)+len(news)), []string{}
	for i := range reviewers {
		people = append(people, reviewers[i].Person)
	}
	batch := &pgx.Batch{}
	for i := range news {
		teams = append(teams, news[i].listAsked()...)
	}
	if slices.ContainsFunc(news, func(e Event) bool { return len(e.Names) > 0 }) {
		identity.QueuePeople(batch, people, who.people)
	}
	identity.QueueMemberships(batch, people, teams, &who.memberships)
	identity.QueueSubstituted(batch, people, who.substituted)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	for i := range news {
		people = append(people, news[i].PrincipalID, news[i].By)
	}
	var err error
	who.sames, err = identity.Sames(ctx, tx, people)
	return who, err
}

// listConcerned returns the people to be notified of a call, each once: those whom the event names and their substitutes, and of each team that
// it asks those members who are on call, or all of them; or all reviewers if none of these may decide. The principal may not decide, under
// any linked identity, nor may reviewers whose limit excludes the call. Who approved alone knows.
func (who *audience) listConcerned(e *Event, allowSelf bool) []uuid.UUID {
	var all, asked []uuid.UUID
	members, onCall := map[string][]uuid.UUID{}, map[string][]uuid.UUID{}
	scope := identity.Scope{Teams: e.Teams, Skill: e.Skill, Agent: e.Agent}
	for i := range who.reviewers {
		person := who.reviewers[i].Person
		if !who.reviewers[i].Limit.Covers(scope) || who.areSame(person, e.PrincipalID) && !allowSelf || who.areSame(person, e.By) {
			continue
		}
		all = append(all, person)
		if who.isNamed(person, e) {
			asked = append(asked, person)
		}
		for _, team := range e.listAsked() {
			isMember := func(m identity.Membership) bool { return m.Person == person && m.Team == team }
			if !slices.ContainsFunc(who.memberships, isMember) {
				continue
			}
			members[team] = append(members[team], person)
			if slices.ContainsFunc(who.memberships, func(m identity.Membership) bool { return isMember(m) && m.OnCall }) {
				onCall[team] = append(onCall[team], person)
			}
		}
	}
	for _, team := range e.listAsked() {
		if len(onCall[team]) > 0 && !e.Whole {
			asked = append(asked, onCall[team]...)
		} else {
			asked = append(asked, members[team]...)
		}
	}
	if len(asked) == 0 || e.Everyone {
		return all
	}
	slices.SortFunc(asked, compareIDs)
	return slices.Compact(asked)
}

// areSame reports whether two people are one, as far as operators declared it. Nobody is the same as uuid.Nil.
func (who *audience) areSame(a, b uuid.UUID) bool {
	self := func(person uuid.UUID) uuid.UUID {
		if same, linked := who.sames[person]; linked {
			return same
		}
		return person
	}
	return b != uuid.Nil && self(a) == self(b)
}

// isNamed reports whether an event asks a person, or somebody who is away and whose substitute the person is. Names are those by which policies
// count people, so they ask no substitute.
func (who *audience) isNamed(person uuid.UUID, e *Event) bool {
	if slices.ContainsFunc(append(who.substituted[person], person), func(id uuid.UUID) bool { return slices.Contains(e.People, id) }) {
		return true
	}
	known := who.people[person]
	return slices.ContainsFunc(known.UniqueNames(), func(name string) bool {
		return slices.ContainsFunc(e.Names, func(asked string) bool { return plain.LowerASCII(asked) == plain.LowerASCII(name) })
	})
}

// findNotified returns the targets that have notices of the calls.
func findNotified(ctx context.Context, tx pgx.Tx, calls []uuid.UUID) ([]uuid.UUID, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	targets, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `SELECT DISTINCT target_id FROM notices WHERE call_id = ANY($1)`, calls)
	if err != nil {
		return nil, fmt.Errorf("find notices of decided calls: %w", err)
	}
	return targets, nil
}

// targetTable is a table of targets. Both tables have the same columns for turns.
type targetTable string

const (
	webhookTable targetTable = "webhooks"
	pushTable    targetTable = "push_subscriptions"
)

// leaveNotices inserts notices for targets, retracts those of ended calls from the targets in told, and inserts delivery jobs.
func (s *Service) leaveNotices(ctx context.Context, tx pgx.Tx, table targetTable, notices []notice, told []uuid.UUID, ends map[uuid.UUID]Event) error {
	targets := slices.Clone(told)
	for _, n := range notices {
		targets = append(targets, n.target)
	}
	locked, err := lockTargets(ctx, tx, table, targets)
	if err != nil || len(locked) == 0 {
		return err
	}
	notices = slices.DeleteFunc(notices, func(n notice) bool {
		_, present := slices.BinarySearchFunc(locked, n.target, compareIDs)
		return !present // the target was deleted
	})
	shown, err := retractNotices(ctx, tx, locked, ends)
	if err != nil {
		return err
	}
	if table == pushTable { // messages in a chat stay as they are
		notices = append(notices, shown...)
	}
	if len(notices) == 0 {
		return nil
	}
	if err := insertNotices(ctx, tx, notices); err != nil {
		return err
	}
	awake := make([]uuid.UUID, len(notices))
	for i, n := range notices {
		awake[i] = n.target
	}
	return s.wakeTargets(ctx, tx, table, awake)
}

// lockTargets locks the targets that are in the table, and returns their ids in order.
func lockTargets(ctx context.Context, tx pgx.Tx, table targetTable, targets []uuid.UUID) ([]uuid.UUID, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	locked, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `SELECT id FROM `+string(table)+` WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, targets)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", table, err)
	}
	return locked, nil
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// retractNotices deletes unsent notices of ended calls, and returns notices of the end for targets that may show the call.
func retractNotices(ctx context.Context, tx pgx.Tx, targets []uuid.UUID, ends map[uuid.UUID]Event) ([]notice, error) {
	if len(ends) == 0 {
		return nil, nil
	}
	calls := slices.Collect(maps.Keys(ends))
	_, err := tx.Exec(ctx, `DELETE FROM notices WHERE call_id = ANY($1) AND target_id = ANY($2) AND tried_at IS NULL AND kind <> $3`,
		calls, targets, Decided)
	if err != nil {
		return nil, fmt.Errorf("delete notices of decided calls: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT target_id, call_id FROM notices WHERE call_id = ANY($1) AND target_id = ANY($2) AND kind <> $3`,
		calls, targets, Decided)
	if err != nil {
		return nil, fmt.Errorf("find notices of decided calls: %w", err)
	}
	var notices []notice
	var target, call uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&target, &call}, func() error {
		notices = append(notices, notice{target, ends[call]})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find notices of decided calls: %w", err)
	}
	return notices, nil
}

func insertNotices(ctx context.Context, tx pgx.Tx, notices []notice) error {
	n := len(notices)
	targets, calls, kinds, events := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]string, n), make([]string, n)
	for i, one := range notices {
		text, err := json.Marshal(one.event)
		if err != nil {
			return fmt.Errorf("encode event of call %s: %w", one.event.CallID, err)
		}
		targets[i], calls[i], kinds[i], events[i] = one.target, one.event.CallID, one.event.key(), string(text)
	}
	_, err := tx.Exec(ctx, `INSERT INTO notices (target_id, call_id, kind, event)
		SELECT target, call, kind, event FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[]) AS n(target, call, kind, event)
		ON CONFLICT DO NOTHING`, targets, calls, kinds, events)
	if err != nil {
		return fmt.Errorf("insert notices: %w", err)
	}
	return nil
}

// lostAfter is how late a job may be before another one replaces it.
const lostAfter = "1 minute"

// wakeTargets inserts a delivery job for each target that has none.
func (s *Service) wakeTargets(ctx context.Context, tx pgx.Tx, table targetTable, targets []uuid.UUID) error {
	rows, err := tx.Query(ctx, `UPDATE `+string(table)+` SET wake_at = greatest(next_at, holdpoint_now())
		WHERE id = ANY($1) AND (wake_at IS NULL OR wake_at < holdpoint_now() - interval '`+lostAfter+`')
		RETURNING id, extract(epoch FROM wake_at - holdpoint_now())::float8`, targets)
	if err != nil {
		return fmt.Errorf("wake %s: %w", table, err)
	}
	var jobs []river.InsertManyParams
	var id uuid.UUID
	var seconds float64
	_, err = pgx.ForEachRow(rows, []any{&id, &seconds}, func() error {
		jobs = append(jobs, s.deliverJob(table, id, seconds))
		return nil
	})
	if err != nil {
		return fmt.Errorf("wake %s: %w", table, err)
	}
	if len(jobs) == 0 {
		return nil
	}
	if _, err := s.river.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert delivery jobs: %w", err)
	}
	return nil
}
