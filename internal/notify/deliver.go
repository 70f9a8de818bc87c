package notify

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// deliverArgs name whom to tell; the notices say of what.
type deliverArgs struct {
	Table  targetTable `json:"table"`
	Target uuid.UUID   `json:"target"`
}

func (deliverArgs) Kind() string { return "notify_deliver" }

// maxAttempts lets a message be tried for some hours. It is dropped earlier when its calls wait no longer.
const maxAttempts = 50

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (deliverArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: JobQueue, MaxAttempts: maxAttempts}
}

// soon is how near a time is for which a job had better snooze: those that are scheduled are looked for
// this often only.
const soon = 5 * time.Second

func (s *Service) deliverJob(table targetTable, target uuid.UUID, seconds float64) river.InsertManyParams {
	opts := &river.InsertOpts{}
	if seconds > soon.Seconds() {
		opts.ScheduledAt = s.Now().Add(time.Duration(seconds * float64(time.Second)))
	}
	return river.InsertManyParams{Args: deliverArgs{table, target}, InsertOpts: opts}
}

type deliverWorker struct {
	river.WorkerDefaults[deliverArgs]
	service *Service
}

// margin is what a turn may take besides the request.
const margin = 15 * time.Second

// Timeout ends before the turn does, so that no two jobs send to one target.
func (w *deliverWorker) Timeout(*river.Job[deliverArgs]) time.Duration {
	return w.service.Timeout + margin/2
}

// NextRetry implements [river.Worker].
func (w *deliverWorker) NextRetry(job *river.Job[deliverArgs]) time.Time {
	return w.service.Now().Add(backoff(job.Attempt))
}

// backoff is the pause after an attempt, the first being 1.
func backoff(attempt int) time.Duration {
	const first, last = time.Second, 5 * time.Minute
	if attempt > 9 {
		return last
	}
	return min(first<<max(attempt-1, 0), last)
}

// Work sends what its target was not told yet, if it is the target's turn.
func (w *deliverWorker) Work(ctx context.Context, job *river.Job[deliverArgs]) error {
	s := w.service
	t, wait, err := s.begin(ctx, job.Args)
	if err != nil {
		return fmt.Errorf("notify %s: %w", job.Args.Target, err)
	}
	if wait > 0 {
		return river.JobSnooze(wait)
	}
	if t == nil {
		return nil
	}
	if err := s.sort(ctx, t); err != nil {
		return fmt.Errorf("notify %s: %w", job.Args.Target, err)
	}
	out := s.send(ctx, t)
	if out.state == later && out.wait == 0 {
		out.wait = backoff(job.Attempt)
		if job.Attempt >= job.MaxAttempts {
			out.state = refused
		}
	}
	// What was sent is written down although the process is about to stop.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), margin/2)
	defer cancel()
	if err := s.end(ctx, t, out); err != nil {
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

// state is what became of a message.
type state int

const (
	delivered state = iota
	nothing         // was to be said
	later           // the receiver may take it when it is tried again
	refused         // it will not
	gone            // the receiver says that nobody listens there any more
)

// outcome of an attempt. The error is fit to be shown: it holds no address.
type outcome struct {
	state state
	err   error
	wait  time.Duration // before anything is sent again; zero: by the number of the attempt
	asked bool          // the receiver asked for the wait
}

// turn is the right to send one message to one target, until it is ended or has run out.
type turn struct {
	deliverArgs
	webhook *webhookRow
	browser *browserRow

	taken []Event // all that were to be told
	news  []Event // of these, what still waits
	ends  []Event // what does not any more, and may be shown
	left  bool    // there is more to tell
}

// begin takes the target's turn. Without one, it says how long to wait; no turn and no wait mean
// that there is nothing to say.
func (s *Service) begin(ctx context.Context, args deliverArgs) (t *turn, wait time.Duration, err error) {
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
		if t.taken, err = take(ctx, tx, args.Target); err != nil {
			return err
		}
		lease := s.Timeout + margin
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

// readTarget locks and reads a target, and returns how many seconds its turn is away.
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

// take marks what a target was not told yet as being told.
func take(ctx context.Context, tx pgx.Tx, target uuid.UUID) ([]Event, error) {
	rows, err := tx.Query(ctx, `UPDATE notices SET tried_at = coalesce(tried_at, holdpoint_now())
		WHERE target_id = $1 AND sent_at IS NULL RETURNING event`, target)
	if err != nil {
		return nil, fmt.Errorf("take notices: %w", err)
	}
	events, err := pgx.CollectRows(rows, pgx.RowTo[Event])
	if err != nil {
		return nil, fmt.Errorf("take notices: %w", err)
	}
	return events, nil
}

// maxEnds is how many calls one message takes back.
const maxEnds = 20

// sort parts what a turn took into what still waits and what does not.
func (s *Service) sort(ctx context.Context, t *turn) error {
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
	waiting, err := s.Waiting(ctx, calls)
	if err != nil {
		return fmt.Errorf("find out which calls still wait: %w", err)
	}
	t.news = newest(taken, waiting)
	return nil
}

func (s *Service) send(ctx context.Context, t *turn) outcome {
	if t.webhook != nil {
		return s.sendWebhook(ctx, t)
	}
	return s.sendPush(ctx, t)
}

// end writes down what became of a turn's message, and when the next may follow.
func (s *Service) end(ctx context.Context, t *turn, out outcome) error {
	return postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if out.state == gone {
			return dropBrowser(ctx, tx, t.browser)
		}
		next, set := out.wait, `error = nullif($3, '')`
		switch {
		case out.state == nothing:
			next, set = 0, `error = coalesce(error, nullif($3, ''))` // it is as it was
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
		if err := t.settle(ctx, tx, out.state); err != nil {
			return err
		}
		// What came meanwhile has a job that would wait until this turn had run out: this one looks earlier.
		return tx.QueryRow(ctx, `WITH more AS (SELECT EXISTS (SELECT FROM notices WHERE target_id = $1 AND sent_at IS NULL) AS yes),
				woken AS (UPDATE `+string(t.Table)+` SET wake_at = next_at FROM more WHERE id = $1 AND more.yes)
			SELECT yes FROM more`, t.Target).Scan(&t.left)
	})
}

// settle forgets notices that are done with. What a browser shows is remembered until it is taken back.
func (t *turn) settle(ctx context.Context, tx pgx.Tx, s state) error {
	if s == later {
		return nil
	}
	if s == delivered && t.browser != nil {
		calls, kinds := keys(t.news)
		_, err := tx.Exec(ctx, `UPDATE notices n SET sent_at = holdpoint_now() FROM unnest($2::uuid[], $3::text[]) AS t(call_id, kind)
			WHERE n.target_id = $1 AND n.call_id = t.call_id AND n.kind = t.kind`, t.Target, calls, kinds)
		if err != nil {
			return fmt.Errorf("mark notices as sent: %w", err)
		}
	}
	ended, _ := keys(t.ends)
	calls, kinds := keys(t.taken)
	_, err := tx.Exec(ctx, `DELETE FROM notices n USING unnest($2::uuid[], $3::text[]) AS t(call_id, kind)
		WHERE n.target_id = $1 AND n.sent_at IS NULL AND n.call_id = t.call_id AND n.kind = t.kind`, t.Target, calls, kinds)
	if err != nil {
		return fmt.Errorf("forget notices: %w", err)
	}
	_, err = tx.Exec(ctx, `DELETE FROM notices WHERE target_id = $1 AND (call_id = ANY($2) OR sent_at < holdpoint_now() - interval '7 days')`,
		t.Target, ended)
	if err != nil {
		return fmt.Errorf("forget notices of decided calls: %w", err)
	}
	return nil
}

func keys(events []Event) (calls []uuid.UUID, kinds []string) {
	calls, kinds = make([]uuid.UUID, len(events)), make([]string, len(events))
	for i, e := range events {
		calls[i], kinds[i] = e.CallID, string(e.Kind)
	}
	return calls, kinds
}
