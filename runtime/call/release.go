package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Passage is the answer to the caller of a gate-only call. A passage that is neither allowed nor pending is a denial.
type Passage struct {
	ID            uuid.UUID
	Allowed       bool      // the caller may execute the call, once
	Pending       bool      // nobody has decided yet
	Final         bool      // the denial is the end of the call
	Alone         bool      // no reviewer may decide it
	Code          string    // stable, for programs
	Message       string    // for models
	Deadline      time.Time // of a pending call; zero: none
	ReleasedUntil time.Time // of an allowed call: the caller must have begun before
	// Edited are the arguments with which the caller must execute an allowed call. Nil: its own.
	Edited json.RawMessage
}

const (
	releasedMessage          = "This call was approved. You execute it yourself."
	releasedElsewhereMessage = "This approval was used by another identical call. This call must not be executed. You may make the call again; it needs a new approval."
	releaseExpiredMessage    = "This call was released before, and its release has expired. It must not be executed now. You may make the call again; it needs a new approval."
	alreadyReportedMessage   = "The outcome of this call was reported before. It must not be executed again."
	pendingMessage           = "This call was not executed: it is waiting for approval by a person. It is not lost: make the same call again, and you get the decision."
)

// gateRelease is the release of a call to a request.
type gateRelease struct {
	key   []byte // nil: a request without a name
	until time.Time
	lives bool // until is still ahead

	lasts time.Duration // of a release that is about to be made
}

func newRelease(c *Call, name string, skill *agent.Skill) *gateRelease {
	lasts := skill.ReleaseTime
	if lasts == 0 {
		lasts = agent.DefaultReleaseTime
	}
	return &gateRelease{key: c.gateKey(name), lasts: lasts}
}

// queue adds the release of a call to the batch that claims it.
func (r *gateRelease) queue(batch *pgx.Batch, id uuid.UUID) {
	batch.Queue(`INSERT INTO gate_releases (call_id, request_key, until)
		SELECT e.subject_id, $2, holdpoint_now() + $3 * interval '1 microsecond' FROM (SELECT $1::uuid AS subject_id) AS e
		WHERE `+justWritten+` RETURNING until`, id, r.key, r.lasts.Microseconds()).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&r.until}, func() error { return nil })
		return err
	})
	// Another request with these arguments is a new call.
	batch.Queue(`UPDATE calls SET attach_key = NULL WHERE id = $1
		AND EXISTS (SELECT FROM (SELECT $1::uuid AS subject_id) AS e WHERE `+justWritten+`)`, id)
}

// releaseRetry is the pause before a caller asks again about a call that cannot be released for a moment.
const releaseRetry = 50 * time.Millisecond

// passageLimit bounds one look at a call. It does not end with the request: an answer may be on its way to the database.
const passageLimit = 30 * time.Second

// AwaitPassage returns the answer to a request about a gate-only call. It waits while nobody has decided, until wait ends: then the answer is
// pending. An approved call is compared with the present state again and released to this request, in the transaction that says so. The same
// named request gets the same answer again, until its release expires or its outcome is reported. Errors: ErrNotFound.
func (s *Service) AwaitPassage(ctx, wait context.Context, viewer Viewer, id uuid.UUID, name string) (Passage, error) {
	w := s.hub.add(id, false)
	defer s.hub.remove(id, w)
	for woken := false; ; woken = true {
		if woken && !s.takeWakingPlace(wait) {
			return pendingPassage(id), ctx.Err()
		}
		p, again, err := s.lookAtPassage(ctx, viewer, id, name)
		if woken {
			<-s.waking
		}
		switch {
		case err != nil && !errors.Is(err, errUnsettled):
			return Passage{}, fmt.Errorf("ask about call %s: %w", id, err)
		case err != nil:
			p, again = pendingPassage(id), retryDelay
		case !p.Pending:
			return p, nil
		}
		if ended, err := waitForPassage(ctx, wait, w, again); ended || err != nil {
			return p, err
		}
	}
}

func pendingPassage(id uuid.UUID) Passage {
	return Passage{ID: id, Pending: true, Code: codeWaiting, Message: pendingMessage}
}

// waitForPassage blocks until the waiter is woken or some time has passed. It reports true if the wait ended.
func waitForPassage(ctx, wait context.Context, w *waiter, again time.Duration) (ended bool, err error) {
	timer := time.NewTimer(max(again, 0) + time.Millisecond)
	defer timer.Stop()
	select {
	case <-wait.Done():
		return true, ctx.Err()
	case <-w.ch:
	case <-timer.C:
	}
	return false, ctx.Err()
}

// lookAtPassage returns the answer to a request now, and if it is pending, the time after which to look again.
func (s *Service) lookAtPassage(ctx context.Context, viewer Viewer, id uuid.UUID, name string) (Passage, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), passageLimit)
	defer cancel()
	c, released, err := s.loadGated(ctx, viewer, id)
	if err != nil {
		return Passage{}, 0, err
	}
	switch {
	case c.Status == Parked:
		return s.describeParked(ctx, id)
	case c.Status == Approved:
		return s.releaseApproved(ctx, c, name)
	case released == nil:
		return Passage{ID: id, Final: true, Code: denialCode(c), Message: c.Explain()}, 0, nil
	}
	return describeRelease(c, released, name), 0, nil
}

// describeParked returns the answer about a parked call. It expires an overdue one.
func (s *Service) describeParked(ctx context.Context, id uuid.UUID) (Passage, time.Duration, error) {
	p := pendingPassage(id)
	deadline, left, err := s.pendingUntil(ctx, id)
	switch {
	case errors.Is(err, approval.ErrNotFound): // it was decided meanwhile
		return p, 0, nil
	case err != nil:
		return p, 0, err
	case left <= 0:
		return p, 0, s.Expire(ctx, id)
	}
	p.Deadline = deadline
	p.Message = "This call was not executed: it is waiting for approval by a person until " + deadline.UTC().Format(time.RFC3339) +
		". It is not lost: make the same call again, and you get the decision."
	return p, left, nil
}

// denialCode returns the code of a call that was never released.
func denialCode(c *Call) string {
	if c.Code != "" {
		return c.Code
	}
	return string(c.Status)
}

// describeRelease returns the answer about a call that was released.
func describeRelease(c *Call, r *gateRelease, name string) Passage {
	p := Passage{ID: c.ID}
	switch {
	case r.key == nil || string(r.key) != string(c.gateKey(name)):
		p.Code, p.Message = codeReleasedElsewhere, releasedElsewhereMessage
	case c.Status == Succeeded || c.Status == Failed:
		p.Code, p.Message = codeAlreadyReported, alreadyReportedMessage
	case c.Status != Executing || !r.lives:
		p.Code, p.Message = codeReleaseExpired, releaseExpiredMessage
	default:
		return releasedPassage(c, r)
	}
	return p
}

// releaseApproved compares an approved call with the present state and releases it to a request. If the call moved meanwhile, the answer is
// pending, with the time after which to look again.
func (s *Service) releaseApproved(ctx context.Context, c *Call, name string) (Passage, time.Duration, error) {
	p := pendingPassage(c.ID)
	decided, err := approval.Get(ctx, s.Pool, c.ID)
	if err != nil {
		return p, 0, err
	}
	approved := &approvedCall{id: c.ID, call: c, decided: &decided}
	to, again, err := s.compareApproved(ctx, approved)
	if to == nil || again > 0 || err != nil {
		return p, again, err
	}
	r := newRelease(c, name, to.skill)
	if !s.isSettled() { // what is remembered counts as released when the timeline is compared
		return p, 0, errUnsettled
	}
	s.flights.remember(c) // before the commit: a database that loses it must not release the call again
	ours, err := s.claimApproved(ctx, approved, to, r)
	if err != nil || !ours {
		return p, releaseRetry, err
	}
	return releasedPassage(c, r), 0, nil
}

func releasedPassage(c *Call, r *gateRelease) Passage {
	p := Passage{ID: c.ID, Allowed: true, Code: codeReleased, Message: releasedMessage, ReleasedUntil: r.until}
	if c.Submitted != nil {
		p.Edited = c.Arguments
	}
	return p
}
