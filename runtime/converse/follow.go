package converse

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// followPoll is the safety net under the notifications.
const followPoll = 10 * time.Second

// Follow tells what happens in a conversation from an entry on (0: from the first), and returns when ctx ends or emit fails.
// Entries come once each and in order, whichever process they are made in; how the conversation stands and what has come
// of a reply are told as they are now. After every batch emit is called with an empty event: a moment to flush. ErrNotFound.
func (s *Service) Follow(ctx context.Context, viewer Viewer, id uuid.UUID, after int64, emit func(Event) error) error {
	f := &follower{s: s, viewer: viewer, id: id, after: after, emit: emit}
	news := s.hub.follow(id)
	defer s.hub.leave(id, news)
	timer := time.NewTimer(followPoll)
	defer timer.Stop()
	for {
		if err := f.look(ctx); err != nil {
			return err
		}
		timer.Reset(followPoll)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-news:
		case <-timer.C:
		}
	}
}

// follower is one who follows a conversation, and what it was told.
type follower struct {
	s      *Service
	viewer Viewer
	id     uuid.UUID
	after  int64
	emit   func(Event) error
	state  *Conversation
	draft  Draft
}

func (f *follower) look(ctx context.Context) error {
	now, err := f.s.Get(ctx, f.viewer, f.id)
	if err != nil {
		return err
	}
	for { // up to where it stands as now says: what is told afterwards of its state is not older than its entries
		list, err := f.s.entries(ctx, f.id, `seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4`, f.after, now.Seq, MaxEntries)
		if err != nil {
			return err
		}
		for i := range list {
			f.after = list[i].Seq
			if err := f.emit(Event{Entry: &list[i]}); err != nil {
				return err
			}
		}
		if len(list) < MaxEntries {
			break
		}
	}
	if f.state == nil || differs(f.state, &now) {
		f.state = &now
		if err := f.emit(Event{Conversation: &now}); err != nil {
			return err
		}
	}
	if err := f.lookAtDraft(ctx); err != nil {
		return err
	}
	return f.emit(Event{})
}

// lookAtDraft tells what has come of the reply. A draft that comes after entries which were not told yet waits for them.
func (f *follower) lookAtDraft(ctx context.Context) error {
	d, err := f.s.Draft(ctx, f.id)
	if err != nil || d.Seq != f.after || d == f.draft {
		return err
	}
	f.draft = d
	return f.emit(Event{Draft: &d})
}

// Draft is what has come of the reply that the model is giving. The zero value: nothing.
func (s *Service) Draft(ctx context.Context, id uuid.UUID) (Draft, error) {
	var d Draft
	err := s.Pool.QueryRow(ctx, `SELECT d.step, d.text, l.seq FROM loop_drafts d JOIN loops l ON l.conversation_id = d.conversation_id
		WHERE d.conversation_id = $1 AND l.status = 'running' AND l.step = d.step AND d.text <> ''`, id).Scan(&d.Step, &d.Text, &d.Seq)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return d, fmt.Errorf("read draft of conversation %s: %w", id, err)
	}
	return d, nil
}

func differs(a, b *Conversation) bool {
	return a.Status != b.Status || a.Code != b.Code || a.Stopping != b.Stopping || a.OpenCalls != b.OpenCalls ||
		a.Turns != b.Turns || len(a.Pending) != len(b.Pending)
}
