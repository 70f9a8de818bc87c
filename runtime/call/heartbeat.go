package call

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	beatInterval = 2 * time.Second
	beatLimit    = 5 * time.Second
	// An instance is gone when its heartbeat stayed the same during goneBeats successful heartbeats of
	// this one. No clock is compared: a process or a database that was away for a while proves nothing.
	goneBeats = 8
	// silence is the least time that goneBeats take.
	silence = (goneBeats - 1) * beatInterval
	// staleBeat is the age of this instance's last heartbeat from which on others may soon take its claims: then
	// each claim is confirmed before its call is sent.
	staleBeat = silence / 2
)

// pulse is this instance's heartbeat, and its observation of all others'.
type pulse struct {
	mu    sync.Mutex
	last  time.Time     // when the last successful heartbeat began
	run   int           // counts the gaps between heartbeats that were long enough for others to take claims
	skew  time.Duration // of the database's clock against this process's
	peers map[uuid.UUID]peer
}

// peer is another instance that may hold claims.
type peer struct {
	beat      string // its heartbeat; "" when it has no row
	unchanged int    // for how many of our heartbeats
}

// beat writes this instance's heartbeat and observes the others'.
func (s *Service) beat(ctx context.Context) error {
	began := s.Now()
	batch := &pgx.Batch{}
	batch.Queue(`INSERT INTO instances (id) VALUES ($1)
		ON CONFLICT (id) DO UPDATE SET heartbeat_at = holdpoint_now() RETURNING clock_timestamp()`, s.Instance)
	batch.Queue(`SELECT id, extract(epoch FROM heartbeat_at)::text FROM instances WHERE id <> $1`, s.Instance)
	results := s.vital.SendBatch(ctx, batch)
	var now time.Time
	err := results.QueryRow().Scan(&now)
	beats := map[uuid.UUID]string{}
	if err == nil {
		rows, _ := results.Query() // an error here is an error of rows
		var id uuid.UUID
		var beat string
		_, err = pgx.ForEachRow(rows, []any{&id, &beat}, func() error { beats[id] = beat; return nil })
	}
	if err = errors.Join(err, results.Close()); err != nil {
		return fmt.Errorf("write heartbeat of instance %s: %w", s.Instance, err)
	}
	s.pulse.mu.Lock()
	defer s.pulse.mu.Unlock()
	if elapsed(began, s.pulse.last) > staleBeat {
		s.pulse.run++
	}
	s.pulse.last, s.pulse.skew = began, now.Sub(began)
	for id := range s.pulse.peers {
		if _, ok := beats[id]; !ok {
			beats[id] = ""
		}
	}
	for id, beat := range beats {
		p, known := s.pulse.peers[id]
		if p.unchanged++; !known || p.beat != beat {
			p = peer{beat: beat}
		}
		s.pulse.peers[id] = p
	}
	return nil
}

func (p *pulse) clockSkew() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.skew
}

// gone returns the instances that are gone, with their last heartbeats.
func (p *pulse) gone() map[uuid.UUID]string {
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

// suspect observes instances that hold claims. Those without a row are gone soon.
func (p *pulse) suspect(ids []uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		if _, known := p.peers[id]; !known {
			p.peers[id] = peer{}
		}
	}
}

// forget ends the observation of instances whose claims are taken over.
func (p *pulse) forget(gone map[uuid.UUID]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.peers, func(id uuid.UUID, peer peer) bool {
		beat, ok := gone[id]
		return ok && beat == peer.beat
	})
}

// age returns how long ago the last successful heartbeat began.
func (p *pulse) age(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return elapsed(now, p.last)
}

// currentRun returns the number of the present run of unbroken heartbeats.
func (p *pulse) currentRun() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

// isUnbroken reports whether no heartbeats were missed since run was the current one.
func (p *pulse) isUnbroken(run int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run == run && elapsed(now, p.last) <= staleBeat
}

// elapsed returns the time from then to now: by the clock that stands still while the machine sleeps, or by the other one,
// whichever says more.
func elapsed(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// keepBeating writes the heartbeat. It shares no connection with anything that may wait.
func (s *Service) keepBeating() {
	for pause.For(s.running, beatInterval) == nil {
		ctx, cancel := context.WithTimeout(s.running, beatLimit)
		err := s.beat(ctx)
		cancel()
		if err != nil && s.running.Err() == nil {
			s.Logger.Warn("heartbeat", "instance", s.Instance, "error", err)
		}
	}
}

// errClaimLost means that a call is not this instance's to send.
var errClaimLost = errors.New("another process took the call over while this one was suspended")

// errApprovalLapsed means that a claimed call must not be sent any more.
var errApprovalLapsed = errors.New("the approval lapsed while this process was suspended")

// confirmClaim returns nil if the call is still this instance's to send. It asks the database only if heartbeats
// were missed since before the claim: the process may have been suspended for so long that others took its claims. A database
// that does not answer is asked again until ctx ends.
func (s *Service) confirmClaim(ctx context.Context, id uuid.UUID) error {
	for run := s.flights.run(id); !s.pulse.isUnbroken(run, s.Now()); {
		attempt, cancel := context.WithTimeout(ctx, beatLimit)
		var ours, lapsed bool
		began := s.Now()
		err := s.vital.QueryRow(attempt, `SELECT EXISTS (SELECT FROM calls
			WHERE id = $1 AND status = 'executing' AND claimed_by = $2), `+approval.Lapsed("$1"), id, s.Instance).Scan(&ours, &lapsed)
		cancel()
		switch {
		case err == nil && !ours:
			return errClaimLost
		case err == nil && lapsed:
			return errApprovalLapsed
		case err == nil && elapsed(s.Now(), began) < staleBeat:
			return nil
		}
		if pause.For(ctx, retryDelay) != nil {
			return fmt.Errorf("confirm the claim of call %s: %w", id, context.Cause(ctx))
		}
	}
	return nil
}

// Stalled returns which parts of this service have made no progress for limit.
func (s *Service) Stalled(limit time.Duration) []string {
	var stalled []string
	for _, part := range []struct {
		name string
		age  time.Duration
	}{
		{"recording of calls", s.direct.stuckFor()},
		{"recording of gated calls", s.gated.stuckFor()},
		{"writing of outcomes", s.outcomes.stuckFor()},
		{"heartbeat", s.pulse.age(s.Now())},
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

// Instances returns the instances whose heartbeat is recent, the oldest first.
func (s *Service) Instances(ctx context.Context) ([]Instance, error) {
	rows, err := s.Pool.Query(ctx, `SELECT id, started_at, id = $2 FROM instances
		WHERE heartbeat_at >= holdpoint_now() - $1 * interval '1 second' ORDER BY started_at, id`, silence.Seconds(), s.Instance)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Instance])
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	return list, nil
}
