package call

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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
	ClaimedBy *uuid.UUID // nil: not claimed, or carried, or released
	Gated     bool
}

// readOpen returns the calls that are approved or executing. There is no index on the status; open calls have recent ids or are
// stragglers.
func readOpen(ctx context.Context, tx pgx.Tx) ([]openCall, error) {
	from, err := openFrom(ctx, tx)
	if err != nil {
		return nil, err
	}
	rows, _ := tx.Query(ctx, readOpenSQL, from)
	open, err := pgx.CollectRows(rows, pgx.RowToStructByPos[openCall])
	if err != nil {
		return nil, fmt.Errorf("read open calls: %w", err)
	}
	return open, nil
}

// openFrom returns the lowest id of an open call that is no straggler: the first id of the watermark's hour. uuid.Nil: nothing was
// counted yet.
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

// readOpenSQL has the stragglers as an array, because a join with a table that was never analyzed would scan all calls.
const readOpenSQL = `SELECT id, status, claimed_by, gated FROM calls
	WHERE (id >= $1 OR id = ANY(ARRAY(SELECT call_id FROM call_stragglers))) AND status IN ('approved', 'executing')`

// triggerRecovery wakes keepRecovering, because a claim may have been committed without an answer.
func (s *Service) triggerRecovery() {
	select {
	case s.recoverNow <- struct{}{}:
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
		case <-s.recoverNow:
			due = true
		case <-ticker.C:
		}
		gone := s.pulse.gonePeers()
		if !due && len(gone) == 0 && s.Now().Sub(last) < recoverInterval {
			continue
		}
		last = s.Now()
		ctx, cancel := context.WithTimeout(s.running, recoverLimit)
		err := s.recoverCalls(ctx, gone)
		cancel()
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("recovering calls; trying again", "error", err)
			if pause.For(s.running, retryDelay) == nil {
				s.triggerRecovery()
			}
		}
	}
}

// recoverCalls moves open calls that nothing else moves:
//
//   - calls claimed by instances that are gone become unknown,
//   - calls claimed by this instance that it is not sending are given back, or become unknown if it sent them before,
//   - approved calls without a job get a job, or expire if their approval has lapsed,
//   - released calls without an outcome become unknown after a day.
func (s *Service) recoverCalls(ctx context.Context, gone map[uuid.UUID]string) error {
	var own []openCall
	var approved, alive, released []uuid.UUID
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
		own, approved, released = nil, nil, nil
		var claims, strangers []uuid.UUID
		for _, c := range open {
			switch claimant := postgres.OrNil(c.ClaimedBy); {
			case c.Status == Approved:
				approved = append(approved, c.ID)
			case claimant == uuid.Nil:
				released = append(released, c.ID) // or carried
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
		s.pulse.watchPeers(strangers)
		if removed > 0 || len(claims) > 0 {
			s.Logger.Warn("instances are gone; taking over", "instances", removed, "calls", len(claims))
		}
		// A later run handles the calls that are locked now; their instance has no row then.
		lost, err = s.markUnknown(ctx, tx, claims, slices.Collect(maps.Keys(gone)), lostMessage)
		return err
	})
	if err != nil {
		return fmt.Errorf("recover calls: %w", err)
	}
	s.pulse.forgetPeers(gone)
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
	if err := s.endUnreported(ctx, released); err != nil {
		return err
	}
	return s.recoverApproved(ctx, approved, alive)
}

// recoverApproved ends approved calls whose approval has lapsed, and gives the others a job if they have none.
func (s *Service) recoverApproved(ctx context.Context, approved, alive []uuid.UUID) error {
	if len(approved) == 0 {
		return nil
	}
	lapsed, err := readIDs(ctx, s.vital, `SELECT id FROM unnest($1::uuid[]) AS open(id) WHERE `+approval.Lapsed("open.id"), approved)
	if err != nil {
		return fmt.Errorf("find lapsed approvals: %w", err)
	}
	for _, id := range lapsed {
		if _, err := s.endUnsent(ctx, s.vital, onLapse, id, lapsedOutcome()); err != nil {
			return err
		}
	}
	// Another process runs its own jobs. A running job of this process without a flight is lost: River fetched it, and the answer was lost.
	others := slices.DeleteFunc(slices.Clone(alive), func(id uuid.UUID) bool { return id == s.Instance })
	unsent, err := readIDs(ctx, s.vital, `SELECT id FROM unnest($1::uuid[]) AS open(id) WHERE NOT EXISTS (SELECT FROM river_job j
			WHERE j.kind = $2 AND j.args @> jsonb_build_object('call_id', open.id) AND j.finalized_at IS NULL
				AND (j.state <> 'running' OR j.attempted_by[cardinality(j.attempted_by)] = ANY($3::uuid[]::text[])))
			AND NOT EXISTS (SELECT FROM calls WHERE calls.id = open.id AND calls.gate_host IS NOT NULL)`,
		approved, executeArgs{}.Kind(), others)
	if err != nil {
		return fmt.Errorf("find approved calls without a job: %w", err)
	}
	unsent = slices.DeleteFunc(unsent, s.flights.has)
	if len(unsent) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	queueExecuteJobs(batch, "true", unsent, 0, nil)
	if err := s.vital.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("insert execute jobs: %w", err)
	}
	return nil
}

// removeInstances removes the instances that are gone, except those that have written a heartbeat since.
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
	lostMessage      = "the process that sent the call stopped before the answer arrived; the call may have been executed"
	forgottenMessage = "this process had sent the call before, but the database has lost the outcome; the call may have been executed"
)

// markUnknown ends open calls as unknown: those that claimants have claimed, except locked ones, or all if claimants is nil.
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

// giveBack makes a gated call claimable again, and ends an auto-approved one as failed. A flight lasts from before the claim until the
// outcome is written, so a claim of this instance without a flight was committed without an answer, and its call was never sent. The
// caller has begun the flight.
func (s *Service) giveBack(ctx context.Context, id uuid.UUID, gated bool) error {
	if s.flights.wasSent(id) { // the database lost the outcome
		var lost []*move
		err := postgres.InTx(ctx, s.vital, func(tx pgx.Tx) (err error) {
			lost, err = s.markUnknown(ctx, tx, []uuid.UUID{id}, []uuid.UUID{s.Instance}, forgottenMessage)
			return err
		})
		s.announceMoves(ctx, lost...)
		return err
	}
	if !gated {
		_, err := s.endUnsent(ctx, s.vital, onRefuse, id, outcome{
			status: Failed, code: string(tool.TransportFailure), failure: tool.TransportFailure, effect: tool.EffectNone,
			message: "the call was recorded but never sent",
		})
		return err
	}
	m := &move{event: onGiveBack, id: id, outcome: outcome{status: Approved}}
	if err := s.moveCalls(ctx, s.vital, m); err != nil {
		return fmt.Errorf("give back call %s: %w", id, err)
	}
	if m.made {
		s.Logger.Warn("a call was claimed and never sent", "call", id)
	}
	s.announceMoves(ctx, m)
	return nil
}

func readIDs(ctx context.Context, db postgres.Querier, sql string, args ...any) ([]uuid.UUID, error) {
	rows, _ := db.Query(ctx, sql, args...)
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}
