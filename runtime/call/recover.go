package call

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	recoverInterval = 30 * time.Second
	recoverLimit    = 5 * time.Minute
)

// openCall is a call that is approved or executing.
type openCall struct {
	ID        uuid.UUID
	Status    Status
	ClaimedBy *uuid.UUID // nil: nobody claimed it, or something else carries it
	Gated     bool
}

// readOpen returns the calls that are approved or executing. They are among those with recent ids and the stragglers: no
// index speaks of the status of a call, and the table is large.
func readOpen(ctx context.Context, tx pgx.Tx) ([]openCall, error) {
	from, err := openFrom(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, readOpenSQL, from)
	if err != nil {
		return nil, fmt.Errorf("read open calls: %w", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openCall])
	if err != nil {
		return nil, fmt.Errorf("read open calls: %w", err)
	}
	return open, nil
}

// openFrom returns the id from which on calls may be open that are not stragglers: that of the watermark's hour. uuid.Nil: nothing
// was counted yet.
func openFrom(ctx context.Context, tx pgx.Tx) (uuid.UUID, error) {
	watermark, err := readWatermark(ctx, tx)
	if err != nil || watermark.IsZero() {
		return uuid.Nil, err
	}
	clock, err := ReadClock(ctx, tx)
	if err != nil {
		return uuid.Nil, err
	}
	from, _ := clock.idRange(watermark, watermark)
	return from, nil
}

// The ids of the stragglers are an array: joined, a table that was never analyzed would have all calls read.
const readOpenSQL = `SELECT id, status, claimed_by, gated FROM calls
	WHERE (id >= $1 OR id = ANY(ARRAY(SELECT call_id FROM call_stragglers))) AND status IN ('approved', 'executing')`

// hurry has recover look at once for claims that this instance may have made without knowing.
func (s *Service) hurry() {
	select {
	case s.doubt <- struct{}{}:
	default:
	}
}

// keepRecovering recovers calls every 30 seconds, and at once when an instance is gone or a commit is in doubt.
func (s *Service) keepRecovering() {
	last := s.Now()
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	for first := true; ; first = false {
		due := first
		select {
		case <-s.running.Done():
			return
		case <-s.doubt:
			due = true
		case <-ticker.C:
		}
		gone := s.pulse.gone()
		if !due && len(gone) == 0 && s.Now().Sub(last) < recoverInterval {
			continue
		}
		last = s.Now()
		ctx, cancel := context.WithTimeout(s.running, recoverLimit)
		err := s.recover(ctx, gone)
		cancel()
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("recovering calls; trying again", "error", err)
			if pause.For(s.running, retryDelay) == nil {
				s.hurry()
			}
		}
	}
}

// recover puts open calls right that nothing else moves on:
//
//   - claims of instances that are gone become unknown,
//   - claims of this instance that it is not sending are given back, or become unknown if it sent the call before,
//   - approved calls that no job will send get a job; those whose time is over expire.
func (s *Service) recover(ctx context.Context, gone map[uuid.UUID]string) error {
	var own []openCall
	var approved, alive []uuid.UUID
	var lost []*move
	err := postgres.InTx(ctx, s.vital, func(tx pgx.Tx) error {
		removed, err := removeInstances(ctx, tx, gone)
		if err != nil {
			return err
		}
		open, err := readOpen(ctx, tx)
		if err != nil {
			return err
		}
		if alive, err = readIDs(ctx, tx, LiveInstances); err != nil {
			return fmt.Errorf("read instances: %w", err)
		}
		own, approved = nil, nil
		var claims, strangers []uuid.UUID
		for _, c := range open {
			switch claimant := deref(c.ClaimedBy); {
			case c.Status == Approved:
				approved = append(approved, c.ID)
			case claimant == uuid.Nil:
			case claimant == s.Instance:
				own = append(own, c)
			case slices.Contains(alive, claimant):
			default:
				if _, ok := gone[claimant]; ok {
					claims = append(claims, c.ID)
				} else {
					strangers = append(strangers, claimant)
				}
			}
		}
		s.pulse.suspect(strangers)
		if removed > 0 || len(claims) > 0 {
			s.Logger.Warn("instances are gone; taking over", "instances", removed, "calls", len(claims))
		}
		// A claim that somebody has locked is left to a later run, when its instance is a stranger.
		lost, err = s.markUnknown(ctx, tx, claims, slices.Collect(maps.Keys(gone)), lostMessage)
		return err
	})
	if err != nil {
		return fmt.Errorf("recover calls: %w", err)
	}
	s.pulse.forget(gone)
	s.announceMoves(ctx, lost...)
	for _, c := range own {
		if !s.flights.add(c.ID, s.pulse.currentRun()) {
			continue
		}
		err := s.giveBack(ctx, c.ID, c.Gated)
		s.flights.release(c.ID)
		if err != nil {
			return err
		}
	}
	return s.recoverApproved(ctx, approved, alive)
}

// recoverApproved ends approved calls whose approval has lapsed, and gives a job to those that no job will send.
func (s *Service) recoverApproved(ctx context.Context, approved, alive []uuid.UUID) error {
	if len(approved) == 0 {
		return nil
	}
	lapsed, err := readIDs(ctx, s.vital, `SELECT id FROM unnest($1::uuid[]) AS open(id) WHERE `+approval.Lapsed("open.id"), approved)
	if err != nil {
		return fmt.Errorf("find lapsed approvals: %w", err)
	}
	for _, id := range lapsed {
		if _, err := s.endUnsent(ctx, s.vital, onLapse, id, approvalLapsed()); err != nil {
			return err
		}
	}
	// A running job is left to its process. That of this one is lost if its call is not in flight: River fetched it, and the answer got lost.
	others := slices.DeleteFunc(slices.Clone(alive), func(id uuid.UUID) bool { return id == s.Instance })
	unsent, err := readIDs(ctx, s.vital, `SELECT id FROM unnest($1::uuid[]) AS open(id) WHERE NOT EXISTS (SELECT FROM river_job j
			WHERE j.kind = $2 AND j.args @> jsonb_build_object('call_id', open.id) AND j.finalized_at IS NULL
				AND (j.state <> 'running' OR j.attempted_by[cardinality(j.attempted_by)] = ANY($3::text[])))`,
		approved, executeArgs{}.Kind(), texts(others))
	if err != nil {
		return fmt.Errorf("find approved calls without a job: %w", err)
	}
	unsent = slices.DeleteFunc(unsent, s.flights.has)
	return postgres.InTx(ctx, s.vital, func(tx pgx.Tx) error { return s.enqueue(ctx, tx, unsent) })
}

func texts(ids []uuid.UUID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return list
}

// removeInstances removes the instances that are gone, but not one that has written a heartbeat since.
func removeInstances(ctx context.Context, tx pgx.Tx, gone map[uuid.UUID]string) (int64, error) {
	if len(gone) == 0 {
		return 0, nil
	}
	ids, beats := make([]uuid.UUID, 0, len(gone)), make([]string, 0, len(gone))
	for id, beat := range gone {
		ids, beats = append(ids, id), append(beats, beat)
	}
	tag, err := tx.Exec(ctx, `DELETE FROM instances USING unnest($1::uuid[], $2::text[]) AS g(id, beat)
		WHERE instances.id = g.id AND extract(epoch FROM heartbeat_at)::text = g.beat`, ids, beats)
	if err != nil {
		return 0, fmt.Errorf("remove instances that are gone: %w", err)
	}
	return tag.RowsAffected(), nil
}

const (
	lostMessage      = "the process that sent the call stopped before an answer came; the call may have been executed"
	forgottenMessage = "this process had sent the call before, and the database has forgotten it; the call may have been executed"
	restoredMessage  = "the database was restored; the call may have been executed since the backup"
)

// markUnknown ends open calls whose effect cannot be known: those claimed by one of claimants, but locked ones; nil: all.
func (s *Service) markUnknown(ctx context.Context, tx pgx.Tx, ids, claimants []uuid.UUID, message string) ([]*move, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	lock := `FOR UPDATE`
	if claimants != nil {
		lock += ` SKIP LOCKED`
	}
	lost, err := readIDs(ctx, tx, `SELECT id FROM calls WHERE id = ANY($1) AND status IN ('approved', 'executing')
		AND ($2::uuid[] IS NULL OR claimed_by = ANY($2)) `+lock, ids, claimants)
	if err != nil {
		return nil, fmt.Errorf("mark calls unknown: %w", err)
	}
	moves := make([]*move, len(lost))
	for i, id := range lost {
		moves[i] = &move{event: onLose, id: id, outcome: outcome{
			status: Unknown, code: CodeOutcomeUnknown, effect: tool.EffectPossible, message: message,
		}}
	}
	return moves, s.moveInTx(ctx, tx, moves...)
}

// abandonRestored makes every approved and executing call unknown: after a restore from a backup, or a failover
// that lost commits, it may have been sent before.
func (s *Service) abandonRestored(ctx context.Context) error {
	var lost []*move
	err := postgres.InTx(ctx, s.vital, func(tx pgx.Tx) error {
		open, err := readOpen(ctx, tx)
		if err != nil {
			return err
		}
		var ids []uuid.UUID
		for _, c := range open {
			if c.Status == Approved || c.ClaimedBy != nil {
				ids = append(ids, c.ID)
			}
		}
		lost, err = s.markUnknown(ctx, tx, ids, nil, restoredMessage)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark calls of a restored database unknown: %w", err)
	}
	s.Logger.Warn("the database was restored: approved and executing calls are unknown now", "calls", len(lost))
	s.announceMoves(ctx, lost...)
	return nil
}

// giveBack lets an approved call be claimed again, and ends an auto-approved one unsent. A call is in flight from
// before its claim until after its outcome is written; a claim of this instance that was not in flight was
// committed without an answer, and its call never sent. The caller holds the flight.
func (s *Service) giveBack(ctx context.Context, id uuid.UUID, gated bool) error {
	if s.flights.wasSent(id) { // the database lost what was committed since
		return s.abandonSent(ctx, id)
	}
	if !gated {
		_, err := s.endUnsent(ctx, s.vital, onRefuse, id, outcome{
			status: Failed, code: string(tool.TransportFailure), failure: tool.TransportFailure, effect: tool.EffectNone,
			message: "the call was recorded but never sent",
		})
		return err
	}
	m := &move{event: onGiveBack, id: id, outcome: outcome{status: Approved}}
	if err := postgres.InTx(ctx, s.vital, func(tx pgx.Tx) error { return s.moveInTx(ctx, tx, m) }); err != nil {
		return fmt.Errorf("give back call %s: %w", id, err)
	}
	if m.made {
		s.Logger.Warn("a call was claimed and never sent", "call", id)
	}
	s.announceMoves(ctx, m)
	return nil
}

// abandonSent makes a call of this instance unknown that it sent, and whose outcome the database has forgotten.
func (s *Service) abandonSent(ctx context.Context, id uuid.UUID) error {
	var lost []*move
	err := postgres.InTx(ctx, s.vital, func(tx pgx.Tx) (err error) {
		lost, err = s.markUnknown(ctx, tx, []uuid.UUID{id}, []uuid.UUID{s.Instance}, forgottenMessage)
		return err
	})
	s.announceMoves(ctx, lost...)
	return err
}

// enqueue gives calls a job that sends them. A second job of a call finds it claimed.
func (s *Service) enqueue(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	jobs := make([]river.InsertManyParams, len(ids))
	for i, id := range ids {
		jobs[i] = river.InsertManyParams{Args: executeArgs{CallID: id}}
	}
	if _, err := s.river.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("insert execute jobs: %w", err)
	}
	return nil
}

func readIDs(ctx context.Context, db postgres.Querier, sql string, args ...any) ([]uuid.UUID, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
