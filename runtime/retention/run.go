package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Counts are numbers of rows by kind.
type Counts map[string]int64

// rule deletes one kind of record. Its functions keep the position of a run.
type rule struct {
	kind string
	age  time.Duration
	// sweep deletes one batch in a transaction, and reports whether it was the last one.
	sweep func(ctx context.Context, tx pgx.Tx, b batch) (deleted int64, done bool, err error)
	// oldest is SQL for the time of the oldest row that is left.
	oldest string
	// pause is the least time between two runs of the rule. Zero: each run.
	pause time.Duration
}

// batch has the bounds of one transaction.
type batch struct {
	now    time.Time // by the database's clock
	cutoff time.Time // older rows go
	limit  int       // of rows
	held   bool      // there are legal holds
}

// unlessHeld returns an SQL condition for rows that no hold covers. See [legalhold.HeldSQL].
func (b *batch) unlessHeld(agent, from, to string) string {
	if !b.held {
		return "true"
	}
	return "NOT " + legalhold.HeldSQL(agent, from, to)
}

// Run deletes all records that are old enough, in small transactions, for at most nine tenths of the interval between two runs. It
// resumes where an earlier run was interrupted. It returns the numbers of deleted rows.
func (s *Service) Run(ctx context.Context) (Counts, error) {
	deleted := Counts{}
	ctx, cancel := context.WithTimeout(ctx, s.Interval*9/10)
	defer cancel()
	rules := s.rules()
	var failures error
	// Each rule gets its share of the time, so that a backlog of one does not delay the others. Then the unfinished ones go on.
	for len(rules) > 0 && ctx.Err() == nil {
		var unfinished []rule
		for i, r := range rules {
			deadline, _ := ctx.Deadline()
			share := deadline.Sub(s.Now()) / time.Duration(len(rules)-i)
			n, done, err := s.applyRule(ctx, &r, share)
			if n > 0 {
				deleted[r.kind] += n
			}
			switch {
			case ctx.Err() != nil: // the next run continues
			case err != nil:
				failures = errors.Join(failures, fmt.Errorf("delete %s: %w", r.kind, err))
			case !done:
				unfinished = append(unfinished, r)
			}
		}
		rules = unfinished
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	failures = errors.Join(failures, s.endRun(ctx))
	if len(deleted) > 0 {
		s.Logger.Info("deleted old records", "rows", deleted)
	}
	return deleted, failures
}

const recordTimeout = 30 * time.Second

// beginRun writes the first event of a run, in the transaction of its first deletion. So no row is deleted without an event, and a run has
// two of them, however many batches it has.
func (s *Service) beginRun(ctx context.Context, tx pgx.Tx) error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("begin run: %w", err)
	}
	if _, err := tx.Exec(ctx, `UPDATE retention_progress SET run_id = $2 WHERE kind = $1`, runLock, id); err != nil {
		return fmt.Errorf("begin run: %w", err)
	}
	return s.recordRun(ctx, tx, id, map[string]any{"state": "begun"})
}

// endRun writes the second event of a run, with the numbers of deleted rows. Each batch adds to them in its transaction, so the run after a
// crash reports them too.
func (s *Service) endRun(ctx context.Context) error {
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var run *uuid.UUID
		err := tx.QueryRow(ctx, `SELECT run_id FROM retention_progress WHERE kind = $1 FOR UPDATE`, runLock).Scan(&run)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && run == nil {
			return nil
		}
		if err != nil {
			return err
		}
		rows, _ := tx.Query(ctx, `WITH before AS (SELECT kind, unreported FROM retention_progress WHERE run_id IS NOT NULL OR unreported > 0)
			UPDATE retention_progress AS p SET run_id = NULL, unreported = 0 FROM before WHERE p.kind = before.kind RETURNING p.kind, before.unreported`)
		deleted := Counts{}
		var kind string
		var n int64
		_, err = pgx.ForEachRow(rows, []any{&kind, &n}, func() error {
			if n > 0 {
				deleted[kind] = n
			}
			return nil
		})
		if err != nil {
			return err
		}
		return s.recordRun(ctx, tx, *run, map[string]any{"state": "done", "deleted": deleted})
	})
	if err != nil {
		return fmt.Errorf("record deletions: %w", err)
	}
	return nil
}

// recordRun writes an audit event of a run.
func (s *Service) recordRun(ctx context.Context, tx pgx.Tx, run uuid.UUID, data map[string]any) error {
	ages := map[string]string{}
	for _, one := range s.Ages.Named() {
		if one.Age > 0 {
			ages[one.Kind] = lifetime.FormatAge(one.Age)
		}
	}
	data["ages"] = ages
	return audit.Write(ctx, tx, audit.Event{Actor: audit.System(), Action: audit.RetentionSwept, Subject: run, Data: data})
}

// runLock is the row of retention_progress that each batch locks.
const runLock = "run"

// errBusy means that another process deletes at this moment, or that a row is locked for long.
var errBusy = errors.New("another process is at it")

const (
	// A batch that takes longer is halved, a shorter one grows. It is short because a call that comes meanwhile waits for a part of it.
	batchTarget = 10 * time.Millisecond
	minBatch    = 10
	minPause    = 5 * time.Millisecond
	// The pause after a batch is several times as long as the batch took. The factor grows by as much as a row takes longer than it did in the
	// fastest batch, and so with the load of the database. It is the greatest while requests wait for connections.
	minPauseFactor = 4
	maxPauseFactor = 16
)

// applyRule deletes batch by batch, until there is nothing left or the time is over.
func (s *Service) applyRule(ctx context.Context, r *rule, limit time.Duration) (deleted int64, done bool, err error) {
	began, size := s.Now(), max(min(s.BatchSize/4, 250), minBatch)
	var fastest time.Duration // of a row
	if skip, err := s.isRecent(ctx, r); err != nil || skip {
		return 0, true, err
	}
	for {
		waits := s.Pool.Stat().EmptyAcquireCount()
		start := s.Now()
		n, done, err := s.runBatch(ctx, r, size)
		if errors.Is(err, errBusy) {
			return deleted, true, nil
		}
		if err != nil {
			return deleted, false, err
		}
		if s.AfterBatch != nil {
			s.AfterBatch(r.kind)
		}
		deleted += n
		if done {
			return deleted, true, s.finishRule(ctx, r)
		}
		took := s.Now().Sub(start)
		switch {
		case took > 2*batchTarget:
			size = max(size/2, minBatch)
		case took < batchTarget:
			size = min(size*2, s.BatchSize)
		}
		if s.Now().Sub(began) >= limit {
			return deleted, false, nil
		}
		factor := float64(minPauseFactor)
		if n > int64(size)/2 { // else most of the time went into looking for rows
			perRow := max(took/time.Duration(n), 1)
			if fastest == 0 || perRow < fastest {
				fastest = perRow
			}
			factor = min(minPauseFactor*float64(perRow)/float64(fastest), maxPauseFactor)
		}
		if s.Pool.Stat().EmptyAcquireCount() > waits {
			factor = maxPauseFactor
		}
		rest := time.Duration(float64(max(took, minPause)) * factor)
		if err := pause.For(ctx, rest); err != nil {
			return deleted, false, err
		}
	}
}

// batchSettings keep a batch from waiting for locks. A crash may undo it, and the next run then does it again.
const batchSettings = `SET LOCAL lock_timeout = '1s'; SET LOCAL synchronous_commit = off`

const lockNotAvailable = "55P03" // SQLSTATE

// runBatch deletes one batch of a rule. The lock keeps other processes away.
func (s *Service) runBatch(ctx context.Context, r *rule, size int) (deleted int64, done bool, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, batchSettings); err != nil {
			return err
		}
		b := batch{limit: size}
		var begun bool
		err := tx.QueryRow(ctx, `SELECT holdpoint_now(), run_id IS NOT NULL FROM retention_progress WHERE kind = $1 FOR UPDATE SKIP LOCKED`, runLock).Scan(&b.now, &begun)
		if errors.Is(err, pgx.ErrNoRows) {
			return errBusy
		}
		if err != nil {
			return err
		}
		b.cutoff = b.now.Add(-r.age)
		if b.held, err = legalhold.Guard(ctx, tx); err != nil {
			return err
		}
		if deleted, done, err = r.sweep(ctx, tx, b); err != nil || deleted == 0 {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE retention_progress SET deleted = deleted + $2, unreported = unreported + $2 WHERE kind = $1`, r.kind, deleted)
		if err != nil || begun {
			return err
		}
		return s.beginRun(ctx, tx)
	})
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == lockNotAvailable {
		err = errBusy
	}
	return deleted, done, err
}

// isRecent reports whether a rule ran too recently to run again. It makes the rows of the lock and of the rule's progress.
func (s *Service) isRecent(ctx context.Context, r *rule) (recent bool, err error) {
	_, err = s.Pool.Exec(ctx, `INSERT INTO retention_progress (kind) VALUES ($1), ($2) ON CONFLICT DO NOTHING`, r.kind, runLock)
	if err == nil && r.pause > 0 {
		err = s.Pool.QueryRow(ctx, `SELECT coalesce(ran_at > holdpoint_now() - $2 * interval '1 second', false) FROM retention_progress WHERE kind = $1`,
			r.kind, r.pause.Seconds()).Scan(&recent)
	}
	return recent, err
}

// finishRule notes that a rule ran to its end.
func (s *Service) finishRule(ctx context.Context, r *rule) error {
	_, err := s.Pool.Exec(ctx, `UPDATE retention_progress SET ran_at = holdpoint_now(), oldest = (`+r.oldest+`) WHERE kind = $1`, r.kind)
	return err
}

// rules returns the rules with an age, those on which others depend first.
func (s *Service) rules() []rule {
	ages := &s.Ages
	all := []rule{
		s.contentRule(ages.Content), grantRule(ages.Content), callRule(ages.Calls), factRule(factsAge), fileRule(ages.Files), conversationRule(ages.Conversations),
		catalogRule(ages.Catalogs), definitionRule(ages.Definitions), countRule(ages.Counts), eventRule(ages.Events),
	}
	var applied []rule
	for _, r := range all {
		if r.age > 0 {
			applied = append(applied, r)
		}
	}
	return applied
}
