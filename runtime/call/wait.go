package call

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// Listener hears what happens to a call while somebody waits for it. [Service.Wait] calls its functions, one at a
// time, and not after it returned. Any of them may be nil.
type Listener struct {
	// Event takes what happens on the way.
	Event func(Event)
	// Asked takes the questions that are open, whenever that may have changed. Its error ends the wait.
	Asked func([]Question) error
	// Reviewing takes until when a reviewer decides about a question, whenever that may have changed; zero: no question
	// is waiting for that.
	Reviewing func(until time.Time)
}

// Wait returns when the call has reached its end, or ctx ends (then ctx's
// error). However many wait for one call, each gets its outcome. Whoever waits also
// sees to the deadline: an approval that is overdue expires without any job having run.
func (s *Service) Wait(ctx context.Context, id uuid.UUID, l Listener) (Call, error) {
	w := s.waiterFor(id, l)
	defer s.hub.remove(id, w)
	if s.flights.has(id) { // sent by this process, which will wake us: no need to look
		if done, err := s.await(ctx, w, l, &Call{ID: id, Status: Executing}); done != nil || err != nil {
			return value(done), err
		}
	}
	for {
		c, err := s.load(ctx, id)
		if err != nil && ctx.Err() != nil {
			return Call{}, ctx.Err()
		}
		if err != nil {
			if errors.Is(err, ErrNotFound) || !isRetryable(err) {
				return Call{}, err
			}
		} else if c.Status.Final() {
			s.pass(w, l)
			return *c, nil
		} else if err := s.passQuestions(ctx, w, l, c); err != nil {
			return Call{}, err
		}
		done, err := s.await(ctx, w, l, c)
		if err != nil {
			return Call{}, err
		}
		if done != nil {
			return *done, nil
		}
	}
}

func (s *Service) waiterFor(id uuid.UUID, l Listener) *waiter {
	if l.Event != nil {
		return s.hub.listen(id)
	}
	return s.hub.add(id)
}

// pass hands on what was heard.
func (s *Service) pass(w *waiter, l Listener) {
	for _, e := range s.hub.heard(w) {
		l.Event(e)
	}
}

// passQuestions comes after what was heard before them: who wants to hear no more after that is not asked.
func (s *Service) passQuestions(ctx context.Context, w *waiter, l Listener, c *Call) error {
	s.pass(w, l)
	if ctx.Err() != nil || l.Asked == nil && l.Reviewing == nil {
		return ctx.Err()
	}
	open, reviewing, err := s.openQuestions(ctx, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		s.Logger.Warn("looking for questions", "call", c.ID, "error", err)
		return nil
	}
	if l.Reviewing != nil {
		l.Reviewing(reviewing)
	}
	if len(open) == 0 || l.Asked == nil {
		return nil
	}
	return l.Asked(open)
}

func value(c *Call) Call {
	if c == nil {
		return Call{}
	}
	return *c
}

// await blocks until there may be news of the call: a wake-up, or its deadline. A
// database that is away (c is nil) is asked again soon.
func (s *Service) await(ctx context.Context, w *waiter, l Listener, c *Call) (*Call, error) {
	var timer <-chan time.Time
	switch {
	case c == nil:
		t := time.NewTimer(retryDelay)
		defer t.Stop()
		timer = t.C
	case c.waitsForPeople():
		left, err := s.timeLeft(ctx, c)
		if err == nil {
			t := time.NewTimer(max(left, 0) + time.Millisecond)
			defer t.Stop()
			timer = t.C
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.news:
			s.pass(w, l)
		case done := <-w.ch:
			s.pass(w, l)
			if done == nil && c != nil && c.waitsForPeople() {
				return nil, s.expireIfDue(ctx, c.ID)
			}
			return done, nil
		case <-timer:
			if c == nil {
				return nil, nil
			}
			return nil, s.expireIfDue(ctx, c.ID)
		}
	}
}

// waitsForPeople reports whether the call has a deadline.
func (c *Call) waitsForPeople() bool { return c.Status == Parked || c.Status == NeedsConnection }

// timeLeft is how long a call may still wait for people.
func (s *Service) timeLeft(ctx context.Context, c *Call) (time.Duration, error) {
	if c.Status == NeedsConnection {
		return s.waitLeft(ctx, c.ID)
	}
	return approval.TimeLeft(ctx, s.Pool, c.ID)
}

// expireIfDue lets errors of the database pass: the next look will try again.
func (s *Service) expireIfDue(ctx context.Context, id uuid.UUID) error {
	if err := s.Expire(ctx, id); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.Logger.Warn("expiring a call", "call", id, "error", err)
		if pause.For(ctx, retryDelay) != nil {
			return ctx.Err()
		}
	}
	return nil
}
