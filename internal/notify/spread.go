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
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// spreadArgs are events that nobody was told of yet.
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

// spreadTimeout is short: a killed process's job is taken up once it is over.
const spreadTimeout = 20 * time.Second

func (w *spreadWorker) Timeout(*river.Job[spreadArgs]) time.Duration { return spreadTimeout }

// Work is one transaction with the end of the job: events are spread once.
func (w *spreadWorker) Work(ctx context.Context, job *river.Job[spreadArgs]) error {
	reviewers, err := w.service.Identity.Reviewers(ctx)
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, w.service.Pool, func(tx pgx.Tx) error {
		if err := w.service.spread(ctx, tx, reviewers, job.Args.Events); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// notice is that a target is to be told of an event.
type notice struct {
	target uuid.UUID
	event  Event
}

// spread finds whom the events concern, and wakes them. The locks of targets decide which notices a job that looks
// at the same time sees; they come before all that is written, in one order, so that nobody waits in a circle.
func (s *Service) spread(ctx context.Context, tx pgx.Tx, reviewers []identity.Eligible, events []Event) error {
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
	told, err := toldOf(ctx, tx, slices.Collect(maps.Keys(ends)))
	if err != nil {
		return err
	}
	for _, to := range []struct {
		table   targetTable
		notices []notice
	}{{webhookTable, hooks}, {pushTable, browsers}} {
		if err := s.tell(ctx, tx, to.table, to.notices, told, ends); err != nil {
			return err
		}
	}
	return nil
}

// toldOf returns which targets have notices of calls.
func toldOf(ctx context.Context, tx pgx.Tx, calls []uuid.UUID) ([]uuid.UUID, error) {
	if len(calls) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT DISTINCT target_id FROM notices WHERE call_id = ANY($1)`, calls)
	if err != nil {
		return nil, fmt.Errorf("find notices of decided calls: %w", err)
	}
	targets, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("find notices of decided calls: %w", err)
	}
	return targets, nil
}

// targetTable is one of the two tables of targets, whose turns are kept alike.
type targetTable string

const (
	webhookTable targetTable = "webhooks"
	pushTable    targetTable = "push_subscriptions"
)

// tell leaves notices for targets, takes back what those in told were to hear of calls that ended, and has jobs
// look at whoever has something to hear.
func (s *Service) tell(ctx context.Context, tx pgx.Tx, table targetTable, notices []notice, told []uuid.UUID, ends map[uuid.UUID]Event) error {
	targets := slices.Clone(told)
	for _, n := range notices {
		targets = append(targets, n.target)
	}
	locked, err := lock(ctx, tx, table, targets)
	if err != nil || len(locked) == 0 {
		return err
	}
	notices = slices.DeleteFunc(notices, func(n notice) bool {
		_, present := slices.BinarySearchFunc(locked, n.target, compareIDs)
		return !present // it was deleted meanwhile
	})
	shown, err := takeBack(ctx, tx, locked, ends)
	if err != nil {
		return err
	}
	if table == pushTable { // what is written in a chat stays there
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
	return s.wake(ctx, tx, table, awake)
}

func compareIDs(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }

// lock locks those of the targets that are in a table, and returns them by id.
func lock(ctx context.Context, tx pgx.Tx, table targetTable, targets []uuid.UUID) ([]uuid.UUID, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `SELECT id FROM `+string(table)+` WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, targets)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", table, err)
	}
	locked, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", table, err)
	}
	return locked, nil
}

// takeBack forgets what targets were not told yet of calls that ended, and returns whom to tell of
// the end because they may show the call.
func takeBack(ctx context.Context, tx pgx.Tx, targets []uuid.UUID, ends map[uuid.UUID]Event) ([]notice, error) {
	if len(ends) == 0 {
		return nil, nil
	}
	calls := slices.Collect(maps.Keys(ends))
	_, err := tx.Exec(ctx, `DELETE FROM notices WHERE call_id = ANY($1) AND target_id = ANY($2) AND tried_at IS NULL AND kind <> $3`,
		calls, targets, Decided)
	if err != nil {
		return nil, fmt.Errorf("forget notices of decided calls: %w", err)
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
		targets[i], calls[i], kinds[i], events[i] = one.target, one.event.CallID, string(one.event.Kind), string(text)
	}
	_, err := tx.Exec(ctx, `INSERT INTO notices (target_id, call_id, kind, event)
		SELECT target, call, kind, event FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::jsonb[]) AS n(target, call, kind, event)
		ON CONFLICT DO NOTHING`, targets, calls, kinds, events)
	if err != nil {
		return fmt.Errorf("insert notices: %w", err)
	}
	return nil
}

// lostAfter is how late a job may be before another one is inserted in its stead.
const lostAfter = "1 minute"

// wake has a job look at each target once it may be told something, unless one will anyway.
func (s *Service) wake(ctx context.Context, tx pgx.Tx, table targetTable, targets []uuid.UUID) error {
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
		return fmt.Errorf("insert jobs that notify: %w", err)
	}
	return nil
}

// AddWorkers registers the workers of this package's jobs.
func (s *Service) AddWorkers(workers *river.Workers) {
	river.AddWorker(workers, &spreadWorker{service: s})
	river.AddWorker(workers, &deliverWorker{service: s})
}
