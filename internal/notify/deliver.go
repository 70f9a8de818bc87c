package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// deliverArgs is a job that sends the unsent notices of a target.
type deliverArgs struct {
	Table  targetTable `json:"table"`
	Target uuid.UUID   `json:"target"`
}

func (deliverArgs) Kind() string { return "notify_deliver" }

// maxAttempts lets a message be retried for some hours. It is dropped earlier if its calls are no longer pending.
const maxAttempts = 50

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (deliverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: JobQueue, MaxAttempts: maxAttempts}
}

// minSchedule is the shortest time for which a job is scheduled instead of snoozing: River looks for scheduled jobs only this
// often.
const minSchedule = 5 * time.Second

func (s *Service) deliverJob(table targetTable, target uuid.UUID, seconds float64) river.InsertManyParams {
	opts := &river.InsertOpts{}
	if seconds > minSchedule.Seconds() {
		opts.ScheduledAt = s.Now().Add(time.Duration(seconds * float64(time.Second)))
	}
	return river.InsertManyParams{Args: deliverArgs{table, target}, InsertOpts: opts}
}

type deliverWorker struct {
	river.WorkerDefaults[deliverArgs]
	service *Service
}

// turnMargin is the time of a turn besides the request.
const turnMargin = 15 * time.Second

// Timeout is shorter than the turn, so that no two jobs send to one target.
func (w *deliverWorker) Timeout(*river.Job[deliverArgs]) time.Duration {
	return w.service.Timeout + turnMargin/2
}

// NextRetry implements [river.Worker].
func (w *deliverWorker) NextRetry(job *river.Job[deliverArgs]) time.Time {
	return w.service.Now().Add(retryDelay(job.Attempt))
}

// retryDelay returns the delay after an attempt, the first being 1.
func retryDelay(attempt int) time.Duration {
	const first, last = time.Second, 5 * time.Minute
	if attempt > 9 {
		return last
	}
	return min(first<<max(attempt-1, 0), last)
}

// Work sends the target's unsent notices in its turn.
func (w *deliverWorker) Work(ctx context.Context, job *river.Job[deliverArgs]) error {
	s := w.service
	t, wait, err := s.beginTurn(ctx, job.Args)
	if err != nil {
		return fmt.Errorf("notify %s: %w", job.Args.Target, err)
	}
	if wait > 0 {
		return river.JobSnooze(wait)
	}
	if t == nil {
		return nil
	}
	if err := s.splitEvents(ctx, t); err != nil {
		return fmt.Errorf("notify %s: %w", job.Args.Target, err)
	}
	out := s.sendMessage(ctx, t)
	if out.state == later && out.wait == 0 {
		out.wait = retryDelay(job.Attempt)
		if job.Attempt >= job.MaxAttempts {
			out.state = refused
		}
	}
	// The result is recorded even if the process is stopping.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), turnMargin/2)
	defer cancel()
	if err := s.endTurn(ctx, t, out); err != nil {
		return fmt.Errorf("notify %s: %w", job.Args.Target, err)
	}
	switch {
	case out.state == later && out.asked:
		return river.JobSnooze(out.wait)
	case out.state == later:
		return out.err
	case t.left && out.state == delivered:
		return river.JobSnooze(s.Gap)
	case t.left:
		return river.JobSnooze(max(out.wait, s.Gap))
	}
	return nil
}

// state is the result of a delivery.
type state int

const (
	delivered state = iota
	nothing         // there was nothing to send
	later           // a retry may succeed
	refused         // a retry will not succeed
	gone            // the subscription no longer exists at its push service
)

// outcome is the outcome of an attempt. The error is for people: it holds no address.
type outcome struct {
	state state
	err   error
	wait  time.Duration // before the next message; zero: by the number of attempts
	asked bool          // the receiver asked for the wait
}

// turn is the right to send one message to a target, until it ends or expires.
type turn struct {
	deliverArgs
	webhook *webhookRow
	browser *browserRow

	taken []Event // all unsent events
	news  []Event // those of pending calls
	ends  []Event // ends of calls that a browser may show
	left  bool    // more events are unsent
}

// beginTurn begins the target's turn, or returns how long to wait for it. Neither: there is nothing to send.
func (s *Service) beginTurn(ctx context.Context, args deliverArgs) (t *turn, wait time.Duration, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var seconds float64
		t, seconds, err = s.readTarget(ctx, tx, args)
		if errors.Is(err, pgx.ErrNoRows) {
			t = nil
			return nil
		}
		if err != nil {
			return err
		}
		if seconds > 0 {
			t, wait = nil, max(time.Duration(seconds*float64(time.Second)), 50*time.Millisecond)
			return nil
		}
		if t.taken, err = takeNotices(ctx, tx, args.Target); err != nil {
			return err
		}
		lease := s.Timeout + turnMargin
		if len(t.taken) == 0 {
			t, lease = nil, 0
		}
		_, err = tx.Exec(ctx, `UPDATE `+string(args.Table)+` SET wake_at = NULL, next_at = holdpoint_now() + $2 * interval '1 microsecond'
			WHERE id = $1`, args.Target, lease.Microseconds())
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return t, wait, nil
}

// readTarget locks and reads a target, and returns the seconds until its next turn.
func (s *Service) readTarget(ctx context.Context, tx pgx.Tx, args deliverArgs) (*turn, float64, error) {
	t := &turn{deliverArgs: args}
	const wait = `coalesce(extract(epoch FROM next_at - holdpoint_now()), 0)::float8`
	var seconds float64
	if args.Table == pushTable {
		t.browser = &browserRow{id: args.Target}
		err := tx.QueryRow(ctx, `SELECT coalesce(session_id, '00000000-0000-0000-0000-000000000000'), sealed, `+wait+` FROM push_subscriptions WHERE id = $1 FOR NO KEY UPDATE`, args.Target).
			Scan(&t.browser.session, &t.browser.sealed, &seconds)
		return t, seconds, err
	}
	t.webhook = &webhookRow{id: args.Target}
	err := tx.QueryRow(ctx, `SELECT sealed, `+wait+` FROM webhooks WHERE id = $1 FOR NO KEY UPDATE`, args.Target).
		Scan(&t.webhook.sealed, &seconds)
	return t, seconds, err
}

// takeNotices returns a target's unsent events, and marks them as tried.
func takeNotices(ctx context.Context, tx pgx.Tx, target uuid.UUID) ([]Event, error) {
	events, err := postgres.Collect(ctx, tx, pgx.RowTo[Event], `UPDATE notices SET tried_at = coalesce(tried_at, holdpoint_now())
		WHERE target_id = $1 AND sent_at IS NULL RETURNING event`, target)
	if err != nil {
		return nil, fmt.Errorf("take notices: %w", err)
	}
	return events, nil
}

// maxEnds is how many ended calls one message retracts.
const maxEnds = 20

// splitEvents splits the events of a turn into those of pending calls and ends of calls.
func (s *Service) splitEvents(ctx context.Context, t *turn) error {
	var calls []uuid.UUID
	var taken []Event
	for _, e := range t.taken {
		switch {
		case e.Kind != Decided:
			calls = append(calls, e.CallID)
		case len(t.ends) == maxEnds:
			continue // the next message has them
		default:
			t.ends = append(t.ends, e)
		}
		taken = append(taken, e)
	}
	t.taken = taken
	pending, unreviewed, err := s.Waiting(ctx, calls)
	if err != nil {
		return fmt.Errorf("read which calls are pending: %w", err)
	}
	t.news = newestByCall(taken, pending, unreviewed)
	t.ends = slices.DeleteFunc(t.ends, func(end Event) bool { // what the message shows of the call takes the place of what was shown
		return slices.ContainsFunc(t.news, func(e Event) bool { return e.CallID == end.CallID })
	})
	return nil
}

func (s *Service) sendMessage(ctx context.Context, t *turn) outcome {
	if t.webhook != nil {
		return s.sendWebhook(ctx, t)
	}
	return s.sendPush(ctx, t)
}

// refusalPause is the pause after a refusal.
const refusalPause = time.Minute

// outcomeOf returns the outcome of a receiver's answer. The cause, which may name the address, is only logged.
func (s *Service) outcomeOf(target uuid.UUID, a receiver.Answer) outcome {
	if a.Cause != nil {
		s.Logger.Warn("a notification could not be delivered", "target", target, "error", a.Cause)
	}
	switch {
	case a.Verdict == receiver.Taken:
		return outcome{state: delivered}
	case a.Verdict == receiver.Refused:
		return outcome{state: refused, err: a.Err, wait: refusalPause}
	case a.RetryAfter > 0:
		return outcome{state: later, err: a.Err, wait: min(max(a.RetryAfter, s.Gap), receiver.MaxRetryAfter), asked: true}
	}
	return outcome{state: later, err: a.Err}
}

// endTurn records the outcome of a turn and when the next may begin.
func (s *Service) endTurn(ctx context.Context, t *turn, out outcome) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if out.state == gone {
			if err := deleteBrowsers(ctx, tx, audit.System(), `id = $1`, t.browser.id); err != nil {
				return err
			}
			return registry.Notify(ctx, tx)
		}
		next, set := out.wait, `error = nullif($3, '')`
		switch {
		case out.state == nothing:
			next, set = 0, `error = coalesce(error, nullif($3, ''))` // the earlier error stays
		case out.state == delivered:
			next, set = s.Gap, set+`, sent_at = holdpoint_now()`
		case t.Table == webhookTable:
			set += `, failed_at = holdpoint_now()`
		}
		message := ""
		if out.err != nil {
			message = out.err.Error()
		}
		_, err := tx.Exec(ctx, `UPDATE `+string(t.Table)+` SET next_at = holdpoint_now() + $2 * interval '1 microsecond', `+set+` WHERE id = $1`,
			t.Target, next.Microseconds(), message)
		if err != nil {
			return err
		}
		if err := t.settleNotices(ctx, tx, out.state); err != nil {
			return err
		}
		// Notices that arrived during the turn have a job that waits until the turn would expire. This job runs earlier.
		return tx.QueryRow(ctx, `WITH more AS (SELECT EXISTS (SELECT FROM notices WHERE target_id = $1 AND sent_at IS NULL) AS yes),
				woken AS (UPDATE `+string(t.Table)+` SET wake_at = next_at FROM more WHERE id = $1 AND more.yes)
			SELECT yes FROM more`, t.Target).Scan(&t.left)
	})
}

// settleNotices deletes the notices of a finished turn. Those that a browser shows stay until they are retracted.
func (t *turn) settleNotices(ctx context.Context, tx pgx.Tx, s state) error {
	if s == later {
		return nil
	}
	if s == delivered && t.browser != nil {
		calls, kinds := callsAndKinds(t.news)
		_, err := tx.Exec(ctx, `UPDATE notices n SET sent_at = holdpoint_now() FROM unnest($2::uuid[], $3::text[]) AS t(call_id, kind)
			WHERE n.target_id = $1 AND n.call_id = t.call_id AND n.kind = t.kind`, t.Target, calls, kinds)
		if err != nil {
			return fmt.Errorf("mark notices as sent: %w", err)
		}
	}
	ended, _ := callsAndKinds(t.ends)
	calls, kinds := callsAndKinds(t.taken)
	_, err := tx.Exec(ctx, `DELETE FROM notices n USING unnest($2::uuid[], $3::text[]) AS t(call_id, kind)
		WHERE n.target_id = $1 AND n.sent_at IS NULL AND n.call_id = t.call_id AND n.kind = t.kind`, t.Target, calls, kinds)
	if err != nil {
		return fmt.Errorf("delete notices: %w", err)
	}
	_, err = tx.Exec(ctx, `DELETE FROM notices WHERE target_id = $1 AND (call_id = ANY($2) OR sent_at < holdpoint_now() - interval '7 days')`,
		t.Target, ended)
	if err != nil {
		return fmt.Errorf("delete notices of decided calls: %w", err)
	}
	return nil
}

func callsAndKinds(events []Event) (calls []uuid.UUID, kinds []string) {
	calls, kinds = make([]uuid.UUID, len(events)), make([]string, len(events))
	for i := range events {
		calls[i], kinds[i] = events[i].CallID, events[i].key()
	}
	return calls, kinds
}
