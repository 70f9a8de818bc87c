package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	beatInterval = 2 * time.Second
	beatLimit    = 5 * time.Second
	// goneBeats is the number of successful heartbeats of this instance during which another's stays the same, until that one is
	// gone. No clocks are compared, so a pause of a process or the database proves nothing.
	goneBeats = 8
	// silence is the least duration of goneBeats.
	silence = (goneBeats - 1) * beatInterval
	// staleBeat is the age of this instance's last heartbeat above which claims are confirmed before their calls are sent, because
	// others may soon take them.
	staleBeat = silence / 2
)

// pulse is the state of this instance's heartbeat, with the heartbeats of the others.
type pulse struct {
	mu    sync.Mutex
	last  time.Time     // when the last successful heartbeat began
	run   int           // number of gaps between heartbeats that were longer than staleBeat
	skew  time.Duration // the database's clock minus this process's
	peers map[uuid.UUID]peer
}

// peer is another instance that may have claims.
type peer struct {
	heartbeat
	unchanged int // number of our heartbeats since it changed
}

// heartbeat is what the row of an instance says. Zero: it has no row.
type heartbeat struct {
	beat     string
	recalled postgres.Timeline // on which it recalled the calls that it sent; of an earlier version, which does not tell: the highest
}

// writeHeartbeat writes this instance's heartbeat and reads the others'. On a new timeline of the database it first recalls what this
// instance sent, so that its next heartbeat tells the others that it has.
func (s *Service) writeHeartbeat(ctx context.Context) error {
	began := s.Now()
	conn, err := s.vital.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("write heartbeat of instance %s: %w", s.Instance, err)
	}
	defer conn.Release()
	timeline := postgres.TimelineOf(conn.Conn())
	if timeline < s.Timeline() { // its server was replaced
		_ = conn.Conn().Close(ctx) // the next heartbeat has another connection
		return fmt.Errorf("write heartbeat of instance %s: the server of the connection was replaced", s.Instance)
	}
	timeline = min(timeline, s.Timeline()) // zero without timelines
	if s.lineage.needsRecall(timeline) {
		if err := s.followTimeline(ctx, conn.Conn(), timeline); err != nil {
			return err
		}
		if err := s.recallSent(ctx, conn.Conn()); err != nil {
			return err
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO instances (id, timeline) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET heartbeat_at = holdpoint_now(), timeline = $2 RETURNING clock_timestamp()`, s.Instance, int64(timeline))
	batch.Queue(`SELECT id, extract(epoch FROM heartbeat_at)::text, coalesce(timeline, $2) FROM instances WHERE id <> $1`,
		s.Instance, int64(math.MaxUint32))
	results := conn.SendBatch(ctx, batch)
	var now time.Time
	err = results.QueryRow().Scan(&now)
	beats := map[uuid.UUID]heartbeat{}
	if err == nil {
		rows, _ := results.Query() // an error here is an error of rows
		var id uuid.UUID
		var beat heartbeat
		_, err = pgx.ForEachRow(rows, []any{&id, &beat.beat, &beat.recalled}, func() error { beats[id] = beat; return nil })
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return fmt.Errorf("write heartbeat of instance %s: %w", s.Instance, err)
	}
	if !s.noteHeartbeats(began, now, timeline, beats) {
		return nil
	}
	if err := s.checkMark(ctx, timeline); err != nil {
		return err
	}
	s.lineage.settle(timeline)
	s.pulse.mu.Lock()
	s.pulse.run++ // claims from before are confirmed before their calls are sent
	s.pulse.mu.Unlock()
	s.triggerRecovery()
	return nil
}

// noteHeartbeats notes this instance's heartbeat and those of the others. It reports whether the others have recalled their calls on a
// timeline that is not settled yet.
func (s *Service) noteHeartbeats(began, now time.Time, timeline postgres.Timeline, beats map[uuid.UUID]heartbeat) bool {
	s.pulse.mu.Lock()
	defer s.pulse.mu.Unlock()
	if elapsedTime(began, s.pulse.last) > staleBeat {
		s.pulse.run++
	}
	s.pulse.last, s.pulse.skew = began, now.Sub(began)
	for id := range s.pulse.peers {
		if _, ok := beats[id]; !ok {
			beats[id] = heartbeat{}
		}
	}
	for id, beat := range beats {
		p, known := s.pulse.peers[id]
		if p.unchanged++; !known || p.heartbeat != beat {
			p = peer{heartbeat: beat}
		}
		s.pulse.peers[id] = p
	}
	return s.lineage.isRecalledByAll(timeline, s.pulse.peers)
}

func (p *pulse) clockSkew() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skew
}

// gonePeers returns the instances that are gone, with their last heartbeats.
func (p *pulse) gonePeers() map[uuid.UUID]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	gone := map[uuid.UUID]string{}
	for id, peer := range p.peers {
		if peer.unchanged >= goneBeats {
			gone[id] = peer.beat
		}
	}
	return gone
}

// watchPeers observes instances that have claims. One without a row is gone after goneBeats.
func (p *pulse) watchPeers(ids []uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if _, known := p.peers[id]; !known {
			p.peers[id] = peer{}
		}
	}
}

// forgetPeers ends the observation of instances whose claims were taken over.
func (p *pulse) forgetPeers(gone map[uuid.UUID]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.peers, func(id uuid.UUID, peer peer) bool {
		beat, ok := gone[id]
		return ok && beat == peer.beat
	})
}

// lastBeatAge returns how long ago the last successful heartbeat began.
func (p *pulse) lastBeatAge(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return elapsedTime(now, p.last)
}

// currentRun returns the number of the present run of heartbeats without a gap.
func (p *pulse) currentRun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// isUnbroken reports whether there was no gap since a run began.
func (p *pulse) isUnbroken(run int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run == run && elapsedTime(now, p.last) <= staleBeat
}

// elapsedTime returns the time from then to now by the monotonic clock, which may stop while the machine sleeps, or by the wall
// clock, whichever is longer.
func elapsedTime(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// keepBeating writes heartbeats. Their connections are used for nothing that may wait.
func (s *Service) keepBeating() {
	for pause.For(s.running, beatInterval) == nil {
		ctx, cancel := context.WithTimeout(s.running, beatLimit)
		err := s.writeHeartbeat(ctx)
		cancel()
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("heartbeat", "instance", s.Instance, "error", err)
		}
	}
}

// ListStalled returns the names of the parts of this service that have made no progress for limit.
func (s *Service) ListStalled(limit time.Duration) []string {
	var stalled []string
	for _, part := range []struct {
		name string
		age  time.Duration
	}{
		{"recording of calls", s.direct.StuckFor()},
		{"recording of gated calls", s.gated.StuckFor()},
		{"writing of outcomes", s.outcomes.StuckFor()},
		{"heartbeat", s.pulse.lastBeatAge(s.Now())},
	} {
		if part.age > limit {
			stalled = append(stalled, part.name)
		}
	}
	return stalled
}

// Instance is a process that sends calls.
type Instance struct {
	ID        uuid.UUID
	StartedAt time.Time
	Own       bool // it is this one
}

// ListInstances returns the instances whose heartbeat is recent, the oldest first.
func (s *Service) ListInstances(ctx context.Context) ([]Instance, error) {
	rows, _ := s.Pool.Query(ctx, `SELECT id, started_at, id = $2 FROM instances
		WHERE heartbeat_at >= holdpoint_now() - $1 * interval '1 second' ORDER BY started_at, id`, silence.Seconds(), s.Instance)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Instance])
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return list, nil
}

// IsAlone reports whether all other instances have ended or are gone. Unlike [Service.ListInstances], it does not rely on a clock.
func (s *Service) IsAlone(ctx context.Context) (bool, error) {
	ids, err := readIDs(ctx, s.Pool, LiveInstances)
	if err != nil {
		return false, fmt.Errorf("read instances: %w", err)
	}
	return slices.Equal(ids, []uuid.UUID{s.Instance}), nil
}
