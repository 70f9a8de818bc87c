package converse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// followPoll finds changes if a notification was lost.
const followPoll = 10 * time.Second

// Follow emits the events of a conversation after an entry (0: from the first), until ctx ends or emit fails. Each entry comes
// once and in order, from any process. The conversation and the draft are emitted as they are now. An empty event after each
// batch is a moment to flush. ErrNotFound.
func (s *Service) Follow(ctx context.Context, viewer Viewer, id uuid.UUID, after int64, emit func(Event) error) error {
	f := &follower{s: s, viewer: viewer, id: id, after: after, emit: emit}
	news := s.hub.addFollower(id)
	defer s.hub.removeFollower(id, news)
	timer := time.NewTimer(followPoll)
	defer timer.Stop()
	for {
		if err := f.emitNews(ctx); err != nil {
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

// follower emits the events of a conversation to one caller.
type follower struct {
	s      *Service
	viewer Viewer
	id     uuid.UUID
	after  int64
	emit   func(Event) error
	state  *Conversation
	draft  Draft
}

func (f *follower) emitNews(ctx context.Context) error {
	now, err := f.s.Get(ctx, f.viewer, f.id)
	if err != nil {
		return err
	}
	for { // read entries up to now.Seq, so that no entry is newer than the state emitted after it
		list, err := f.s.store.readEntries(ctx, f.id, `seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4`, f.after, now.Seq, MaxEntries)
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
	if f.state == nil || hasChanged(f.state, &now) {
		f.state = &now
		if err := f.emit(Event{Conversation: &now}); err != nil {
			return err
		}
	}
	d, err := f.s.Draft(ctx, f.id)
	if err != nil {
		return err
	}
	if d.Seq == f.after && d != f.draft { // not a draft that follows entries which were not emitted yet
		f.draft = d
		if err := f.emit(Event{Draft: &d}); err != nil {
			return err
		}
	}
	return f.emit(Event{})
}

// Draft returns the draft of the present reply, or a zero value.
func (s *Service) Draft(ctx context.Context, id uuid.UUID) (Draft, error) {
	var d Draft
	err := s.Pool.QueryRow(ctx, `SELECT d.step, d.text, l.seq FROM loop_drafts d JOIN loops l ON l.conversation_id = d.conversation_id
		WHERE d.conversation_id = $1 AND l.status = 'running' AND l.step = d.step AND d.text <> ''`, id).Scan(&d.Step, &d.Text, &d.Seq)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return d, fmt.Errorf("read draft of conversation %s: %w", id, err)
	}
	return d, nil
}

func hasChanged(a, b *Conversation) bool {
	return a.Status != b.Status || a.Code != b.Code || a.Stopping != b.Stopping || a.OpenCalls != b.OpenCalls ||
		a.Turns != b.Turns || len(a.Pending) != len(b.Pending)
}

// draftPace is the least time between two writes of a draft. Nothing depends on it.
const draftPace = 100 * time.Millisecond

// drafter stores the draft of a reply for followers.
type drafter struct {
	s    *Service
	id   uuid.UUID
	step int64

	mu   sync.Mutex
	text string
	news chan struct{}
	done chan struct{}
	over chan struct{}
}

// startDrafter starts a drafter. The caller must close it.
func (s *Service) startDrafter(ctx context.Context, id uuid.UUID, step int64) *drafter {
	d := &drafter{s: s, id: id, step: step, news: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{})}
	go d.writeDrafts(ctx)
	return d
}

// addDelta adds text to the draft. It does not block.
func (d *drafter) addDelta(delta model.Delta) {
	d.mu.Lock()
	if delta.Restart {
		d.text = ""
	}
	d.text += delta.Text
	d.mu.Unlock()
	trySignal(d.news)
}

func (d *drafter) close() {
	close(d.done)
	<-d.over
}

func (d *drafter) writeDrafts(ctx context.Context) {
	defer close(d.over)
	pace := time.NewTimer(draftPace)
	defer pace.Stop()
	for {
		select {
		case <-d.done:
			return
		case <-d.news:
		}
		d.mu.Lock()
		text := d.text
		d.mu.Unlock()
		err := postgres.InTx(ctx, d.s.Pool, func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue(`INSERT INTO loop_drafts (conversation_id, step, text) VALUES ($1, $2, $3)
				ON CONFLICT (conversation_id) DO UPDATE SET step = excluded.step, text = excluded.text`, d.id, d.step, plain.Storable(text, math.MaxInt))
			batch.Queue(`SELECT pg_notify($1, $2)`, Channel, d.id.String())
			return tx.SendBatch(ctx, batch).Close()
		})
		if err != nil && ctx.Err() == nil {
			d.s.Logger.Warn("write draft", "conversation", d.id, "error", err)
		}
		pace.Reset(draftPace)
		select {
		case <-d.done:
			return
		case <-pace.C:
		}
	}
}
