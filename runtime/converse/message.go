package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// MaxMessageBytes bounds a message. MaxWaiting bounds the messages that wait while a turn is running.
const (
	MaxMessageBytes = 256 << 10
	MaxWaiting      = 50
)

// newMessage validates a message and gives it an id.
func newMessage(text string, by uuid.UUID) (*Message, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return nil, fault.Invalid("message", "must not be empty")
	case len(text) > MaxMessageBytes:
		return nil, fault.Invalid("message", fmt.Sprintf("must be at most %d bytes, not %d", MaxMessageBytes, len(text)))
	case !utf8.ValidString(text):
		return nil, fault.Invalid("message", "must be UTF-8")
	case strings.ContainsRune(text, 0):
		return nil, fault.Invalid("message", "must be text without NUL")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("make message id: %w", err)
	}
	return &Message{ID: id, Text: text, By: by}, nil
}

// Say adds a message. An idle conversation starts to work on it. Otherwise the message waits until the model gets the results
// of its calls. Errors: ErrNotFound, ErrReadOnly, ErrEnded, *fault.InvalidError.
func (s *Service) Say(ctx context.Context, viewer Viewer, id uuid.UUID, text string) (Message, error) {
	return s.SayOnce(ctx, viewer, id, text, "")
}

// SayOnce is Say with an idempotency key. If a message with this key exists, SayOnce returns it and adds nothing, even if the
// conversation has ended since. An empty key is none. It returns ErrKeyReused if that message has another text.
func (s *Service) SayOnce(ctx context.Context, viewer Viewer, id uuid.UUID, text, key string) (Message, error) {
	m, err := newMessage(text, viewer.PrincipalID)
	if err != nil {
		return Message{}, err
	}
	m.Key = key
	err = s.changeLoop(ctx, id, func(tx pgx.Tx, l *loop) error {
		if err := checkSpeaker(viewer, l); err != nil {
			return err
		}
		before, err := findByKey(ctx, tx, id, key)
		switch {
		case err != nil:
			return err
		case before == nil:
			return s.acceptMessage(ctx, tx, l, m)
		case before.Text != text:
			return ErrKeyReused
		}
		m = before
		return nil
	})
	if err != nil {
		return Message{}, err
	}
	return *m, nil
}

// findByKey returns the message with this key in a conversation, or nil.
func findByKey(ctx context.Context, tx pgx.Tx, id uuid.UUID, key string) (*Message, error) {
	if key == "" {
		return nil, nil
	}
	var data []byte
	var pending bool
	err := tx.QueryRow(ctx, `SELECT data, false FROM loop_entries WHERE conversation_id = $1 AND kind = 'user' AND data ->> 'key' = $2
		UNION ALL SELECT data, true FROM loop_inbox WHERE conversation_id = $1 AND data ->> 'key' = $2`, id, key).Scan(&data, &pending)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find message by its key: %w", err)
	}
	m := &Message{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("read message of conversation %s: %w", id, err)
	}
	m.Pending = pending
	return m, nil
}

// acceptMessage starts a run with the message if the conversation is idle, and otherwise puts the message into the inbox.
func (s *Service) acceptMessage(ctx context.Context, tx pgx.Tx, l *loop, m *Message) error {
	switch l.Status {
	case Ended:
		return ErrEnded
	case Idle:
		s.record.beginRun(l, s.record.reserveSpan(ctx))
		l.appendEntry(Entry{Kind: KindUser, User: m})
		l.asked = m.Asked
		l.setStatus(Due)
		return nil
	case Due, Queued, Running, Waiting:
	}
	var waiting int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM loop_inbox WHERE conversation_id = $1`, l.ID).Scan(&waiting); err != nil {
		return fmt.Errorf("count waiting messages: %w", err)
	}
	if waiting >= MaxWaiting {
		return fault.Invalid("message", fmt.Sprintf("must be one of at most %d that wait: stop the run, or wait for it", MaxWaiting))
	}
	m.Trace = s.record.reserveSpan(ctx)
	data, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO loop_inbox (id, conversation_id, asked, data) VALUES ($1, $2, $3, $4::json)`,
		m.ID, l.ID, postgres.OrNull(m.Asked), string(data))
	if err != nil {
		return fmt.Errorf("store waiting message: %w", err)
	}
	m.Pending = true
	return nil
}

// checkSpeaker checks that the viewer may speak in the conversation.
func checkSpeaker(viewer Viewer, l *loop) error {
	switch {
	case viewer.owns(&l.Conversation):
		return nil
	case viewer.sees(&l.Conversation):
		return ErrReadOnly
	}
	return ErrNotFound
}

// addInterjections adds the messages that arrived while calls were open. A message of the tool ask starts a run of its own, so
// it stays in the inbox, with all messages after it.
func (s *Service) addInterjections(ctx context.Context, tx pgx.Tx, l *loop) error {
	said, err := takeMessages(ctx, tx, `DELETE FROM loop_inbox WHERE conversation_id = $1 AND asked IS NULL AND id < coalesce(
		(SELECT id FROM loop_inbox WHERE conversation_id = $1 AND asked IS NOT NULL ORDER BY id LIMIT 1),
		'ffffffff-ffff-ffff-ffff-ffffffffffff') RETURNING id, data`, l.ID)
	for i := range said {
		said[i].Trace = nil // it joins the present run
		l.appendEntry(Entry{Kind: KindUser, User: &said[i]})
	}
	return err
}

// takeMessages deletes messages from the inbox and returns them in the order of their arrival.
func takeMessages(ctx context.Context, tx pgx.Tx, sql string, id uuid.UUID) ([]Message, error) {
	rows, _ := tx.Query(ctx, `WITH taken AS (`+sql+`) SELECT data FROM taken ORDER BY id`, id)
	list, err := pgx.CollectRows(rows, scanMessage)
	if err != nil {
		return nil, fmt.Errorf("take messages: %w", err)
	}
	return list, nil
}
