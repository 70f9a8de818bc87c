package converse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
)

const (
	pollInterval = 2 * time.Second // finds work if a notification was lost
	lease        = 8 * time.Second // a process that did not renew it for so long loses its turn
	enqueueLimit = 500             // turns in one transaction
	recheckLimit = 2000            // calls in one query

	// recheckPolls is the number of polls between two checks for problems that no notification reports.
	recheckPolls = 4
	// suspectAfter is the age at which a short operation is checked.
	suspectAfter = 10 * time.Second
	// The first immediateAttempts of a turn start at once, the next ones after growing pauses. A turn has at most maxAttempts.
	immediateAttempts = 3
	maxAttempts       = 25
	maxPause          = 30 * time.Second
)

// scheduler gives due turns their jobs. It takes over turns from processes that stopped, and finds turns that are stuck.
type scheduler struct {
	*Service
	wake    chan struct{}
	checked uuid.UUID // the last call that recheckWaiting looked at
}

// wakeUp makes the scheduler look for due turns now. It does not block.
func (s *scheduler) wakeUp() {
	trySignal(s.wake)
}

// keepEnqueueing gives due turns their jobs, and takes over turns from other processes, until the service stops.
func (s *scheduler) keepEnqueueing() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for polls := 0; ; {
		for n := enqueueLimit; n == enqueueLimit; {
			var err error
			if n, err = s.enqueueDue(s.running); err != nil && !errors.Is(err, context.Canceled) {
				s.Logger.Warn("queue turns", "error", err)
			}
		}
		select {
		case <-s.running.Done():
			return
		case <-s.wake:
			continue
		case <-ticker.C:
		}
		err := s.takeOver(s.running)
		if polls++; polls%recheckPolls == 0 {
			err = errors.Join(err, s.recheckQueued(s.running), s.recheckWaiting(s.running))
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			s.Logger.Warn("take over turns", "error", err)
		}
	}
}

// enqueueDue gives due turns their jobs, the longest due first. Several processes can do so at once, because each skips locked
// rows.
func (s *scheduler) enqueueDue(ctx context.Context) (n int, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, `SELECT conversation_id, step, attempts FROM loops WHERE status = 'due'
			ORDER BY moved_at LIMIT $1 FOR UPDATE SKIP LOCKED`, enqueueLimit)
		var ids []uuid.UUID
		var jobs []river.InsertManyParams
		var id uuid.UUID
		var step int64
		var attempts int
		_, err := pgx.ForEachRow(rows, []any{&id, &step, &attempts}, func() error {
			ids = append(ids, id)
			job := river.InsertManyParams{Args: turnArgs{Conversation: id, Step: step + 1}}
			if attempts >= immediateAttempts { // later after several failed attempts
				pause := min(time.Second<<min(attempts-immediateAttempts, 10), maxPause)
				job.InsertOpts = &river.InsertOpts{ScheduledAt: s.Now().Add(pause)}
			}
			jobs = append(jobs, job)
			return nil
		})
		if n = len(jobs); err != nil || n == 0 {
			return err
		}
		inserted, err := s.river.InsertManyTx(ctx, tx, jobs)
		if err != nil {
			return err
		}
		numbers := make([]int64, n)
		for i := range inserted {
			numbers[i] = inserted[i].Job.ID
		}
		_, err = tx.Exec(ctx, `UPDATE loops SET status = 'queued', step = step + 1, job_id = j.job, moved_at = holdpoint_now()
			FROM unnest($1::uuid[], $2::bigint[]) AS j(id, job) WHERE conversation_id = j.id`, ids, numbers)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("queue turns: %w", err)
	}
	return n, nil
}

// keepLeases renews the leases of the turns that this process runs.
func (s *scheduler) keepLeases() {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.running.Done():
			return
		case <-ticker.C:
		}
		ours := s.turns.listRunning()
		if len(ours) == 0 {
			continue
		}
		_, err := s.Pool.Exec(s.running, `UPDATE loops SET leased_at = holdpoint_now()
			WHERE conversation_id = ANY($1) AND status = 'running' AND claimed_by = $2`, ours, s.Instance)
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("renew leases of turns", "error", err)
		}
	}
}

// takeOver makes turns due again whose lease has expired, and turns that this process claimed but does not run. If the other
// process was only slow, its writes fail. At worst the model was asked twice.
func (s *scheduler) takeOver(ctx context.Context) error {
	rows, err := s.Pool.Query(ctx, `SELECT conversation_id, step, claimed_by = $1 FROM loops
		WHERE status = 'running' AND (claimed_by = $1 OR coalesce(leased_at, '-infinity') < holdpoint_now() - $2 * interval '1 second')`, s.Instance, lease.Seconds())
	if err != nil {
		return fmt.Errorf("find abandoned turns: %w", err)
	}
	type claim struct {
		ID   uuid.UUID
		Step int64
		Ours bool
	}
	claims, err := pgx.CollectRows(rows, pgx.RowToStructByPos[claim])
	if err != nil {
		return fmt.Errorf("find abandoned turns: %w", err)
	}
	for _, c := range claims {
		if c.Ours && s.turns.isRunning(c.ID) {
			continue
		}
		if err := s.giveBack(ctx, c.ID, c.Step, false); err != nil {
			return err
		}
	}
	return nil
}

// giveBack makes a turn due again if it still runs at this step. An interruption does not count as an attempt.
func (s *scheduler) giveBack(ctx context.Context, id uuid.UUID, step int64, interrupted bool) error {
	err := s.changeLoop(ctx, id, func(tx pgx.Tx, l *loop) error {
		if l.Status != Running || l.step != step {
			return nil
		}
		if interrupted && l.attempts > 0 {
			l.attempts--
		}
		if l.attempts >= maxAttempts {
			l.attempts = 0
			return s.finishRun(ctx, tx, l, ending{
				code: CodeModelFailed, notice: "The turn failed repeatedly. Send a message to try again, or ask an operator to check the log.",
			})
		}
		l.setStatus(Due)
		return nil
	})
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("give back turn of conversation %s: %w", id, err)
	}
	return nil
}

// recheckQueued finds turns whose job was lost before it began.
func (s *scheduler) recheckQueued(ctx context.Context) error {
	stuck, err := s.store.readLoops(ctx, `status = 'queued' AND moved_at < holdpoint_now() - $1 * interval '1 second'
		ORDER BY moved_at LIMIT 100`, suspectAfter.Seconds())
	if err != nil || len(stuck) == 0 {
		return err
	}
	rows, _ := s.Pool.Query(ctx, call.LiveInstances)
	alive, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return fmt.Errorf("read instances: %w", err)
	}
	for _, l := range stuck {
		if l.jobID == nil || s.isJobAlive(ctx, l, alive) {
			continue
		}
		step := l.step
		err := s.changeLoop(ctx, l.ID, func(_ pgx.Tx, l *loop) error {
			if l.Status == Queued && l.step == step {
				l.setStatus(Due)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isJobAlive reports whether a queued turn's job will start. On an error it returns true, so the turn is checked again later. A
// running job of this process without a turn here is lost: River marked it as running, but its response did not arrive.
func (s *scheduler) isJobAlive(ctx context.Context, l *loop, alive []uuid.UUID) bool {
	job, err := s.river.JobGet(ctx, *l.jobID)
	if errors.Is(err, rivertype.ErrNotFound) {
		return false
	}
	if err != nil {
		return true
	}
	switch job.State {
	case rivertype.JobStateAvailable, rivertype.JobStateScheduled, rivertype.JobStateRetryable, rivertype.JobStatePending:
		return true
	case rivertype.JobStateRunning:
		if len(job.AttemptedBy) == 0 {
			return false
		}
		by, err := uuid.Parse(job.AttemptedBy[len(job.AttemptedBy)-1])
		return err == nil && slices.Contains(alive, by) && (by != s.Instance || s.turns.isRunning(l.ID))
	default:
		return false
	}
}

// recheckWaiting finds conversations that missed the end of a call. It checks a batch of the calls that conversations wait for; the next run
// checks the next batch.
func (s *scheduler) recheckWaiting(ctx context.Context) error {
	rows, _ := s.Pool.Query(ctx, `SELECT l.call_id, l.conversation_id FROM loop_calls l JOIN loops ON loops.conversation_id = l.conversation_id
		WHERE loops.status = 'waiting' AND NOT l.ended AND loops.moved_at < holdpoint_now() - $1 * interval '1 second' AND l.call_id > $2
		ORDER BY l.call_id LIMIT $3`, suspectAfter.Seconds(), s.checked, recheckLimit)
	of := map[uuid.UUID]uuid.UUID{}
	var ids []uuid.UUID
	var callID, conversation uuid.UUID
	_, err := pgx.ForEachRow(rows, []any{&callID, &conversation}, func() error {
		of[callID] = conversation
		ids = append(ids, callID)
		return nil
	})
	if err != nil {
		return fmt.Errorf("find waiting conversations: %w", err)
	}
	if s.checked = uuid.Nil; len(ids) == recheckLimit {
		s.checked = ids[len(ids)-1]
	}
	ended, err := s.Calls.ReadEnded(ctx, ids)
	if err != nil {
		return err
	}
	for callID := range ended {
		s.Logger.Warn("conversation missed the end of a call", "call", callID, "conversation", of[callID])
		if err := s.recordMissedEnd(ctx, of[callID], callID); err != nil {
			return err
		}
	}
	return nil
}

// recordMissedEnd does the work of Publish for a call whose end a conversation missed.
func (s *scheduler) recordMissedEnd(ctx context.Context, conversation, callID uuid.UUID) error {
	known, err := s.Calls.ReadCalls(ctx, []uuid.UUID{callID})
	if err != nil {
		return err
	}
	return s.changeLoop(ctx, conversation, func(tx pgx.Tx, l *loop) error {
		tag, err := tx.Exec(ctx, `UPDATE loop_calls SET ended = true WHERE call_id = $1 AND NOT ended`, callID)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		c := known[callID]
		l.appendEntry(Entry{Kind: KindCall, Call: &CallNews{ID: callID, Tool: c.ExposedName, Status: string(c.Status), Code: c.Code}})
		if l.OpenCalls--; l.Status == Waiting && l.OpenCalls == 0 {
			l.setStatus(Due)
		}
		return nil
	})
}

// runningTurns are the turns that this process runs.
type runningTurns struct {
	mu   sync.Mutex
	open map[uuid.UUID]*runningTurn
}

// runningTurn is one of them.
type runningTurn struct {
	step   int64
	cancel context.CancelFunc // ends the turn
	halt   context.CancelFunc // ends the request to the model only: the turn must still record the result
	over   chan struct{}
}

// errStale: this process runs a turn of a later step, so the job of an earlier step has nothing to do.
var errStale = errors.New("a later turn is under way")

// enterTurn waits until this process runs no other turn of the conversation. It cancels a turn of an earlier step, whose writes
// would fail. It returns errStale, or the error of ctx.
func (t *runningTurns) enterTurn(ctx context.Context, id uuid.UUID, step int64, cancel, halt context.CancelFunc) error {
	for {
		t.mu.Lock()
		other := t.open[id]
		if other == nil {
			t.open[id] = &runningTurn{step, cancel, halt, make(chan struct{})}
		}
		t.mu.Unlock()
		switch {
		case other == nil:
			return nil
		case other.step >= step:
			return errStale
		}
		other.cancel()
		select {
		case <-other.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (t *runningTurns) leaveTurn(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.open[id].over)
	delete(t.open, id)
}

func (t *runningTurns) isRunning(id uuid.UUID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id] != nil
}

func (t *runningTurns) listRunning() []uuid.UUID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.open))
}

func (t *runningTurns) haltRequest(id uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.open[id]; r != nil {
		r.halt()
	}
}
