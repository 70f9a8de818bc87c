package converse

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// draftPace is how often what has come of a reply is written down for those who follow. Nothing depends on it.
const draftPace = 100 * time.Millisecond

// drafter writes down what a model has said so far.
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

// draft begins to. Close ends it.
func (s *Service) draft(ctx context.Context, id uuid.UUID, step int64) *drafter {
	d := &drafter{s: s, id: id, step: step, news: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{})}
	go d.write(ctx)
	return d
}

// hear takes what a model says. It does not block.
func (d *drafter) hear(delta model.Delta) {
	d.mu.Lock()
	if delta.Restart {
		d.text = ""
	}
	d.text += delta.Text
	d.mu.Unlock()
	signal(d.news)
}

func (d *drafter) close() {
	close(d.done)
	<-d.over
}

func (d *drafter) write(ctx context.Context) {
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
		if err := d.store(ctx, text); err != nil && ctx.Err() == nil {
			d.s.Logger.Warn("writing a draft", "conversation", d.id, "error", err)
		}
		pace.Reset(draftPace)
		select {
		case <-d.done:
			return
		case <-pace.C:
		}
	}
}

func (d *drafter) store(ctx context.Context, text string) error {
	return postgres.InTx(ctx, d.s.Pool, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		batch.Queue(`INSERT INTO loop_drafts (conversation_id, step, text) VALUES ($1, $2, $3)
			ON CONFLICT (conversation_id) DO UPDATE SET step = excluded.step, text = excluded.text`, d.id, d.step, storable(text))
		batch.Queue(`SELECT pg_notify($1, $2)`, Channel, d.id.String())
		return tx.SendBatch(ctx, batch).Close()
	})
}

// storable is a text as PostgreSQL takes it.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
