package converse

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// store reads the tables of conversations.
type store struct{ pool *pgxpool.Pool }

func (s *store) readLoops(ctx context.Context, where string, args ...any) ([]*loop, error) {
	rows, _ := s.pool.Query(ctx, `SELECT `+loopColumns+` FROM loops WHERE `+where, args...)
	list, err := pgx.CollectRows(rows, scanLoop)
	if err != nil {
		return nil, fmt.Errorf("read conversations: %w", err)
	}
	return list, nil
}

func (s *store) readPending(ctx context.Context, id uuid.UUID) ([]Message, error) {
	rows, _ := s.pool.Query(ctx, `SELECT data FROM loop_inbox WHERE conversation_id = $1 ORDER BY id`, id)
	list, err := pgx.CollectRows(rows, scanMessage)
	if err != nil {
		return nil, fmt.Errorf("read waiting messages: %w", err)
	}
	return list, nil
}

func (s *store) readEntries(ctx context.Context, id uuid.UUID, where string, args ...any) ([]Entry, error) {
	rows, _ := s.pool.Query(ctx, `SELECT seq, kind, at, data FROM loop_entries WHERE conversation_id = $1 AND `+where,
		append([]any{id}, args...)...)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e Entry, err error) {
		var data []byte
		if err = row.Scan(&e.Seq, &e.Kind, &e.At, &data); err != nil {
			return e, err
		}
		content := e.content()
		if content == nil {
			return e, fmt.Errorf("entry of unknown kind %q", e.Kind)
		}
		return e, json.Unmarshal(data, content)
	})
	if err != nil {
		return nil, fmt.Errorf("read entries of conversation %s: %w", id, err)
	}
	return list, nil
}

func scanMessage(row pgx.CollectableRow) (m Message, err error) {
	var data []byte
	if err = row.Scan(&data); err == nil {
		err = json.Unmarshal(data, &m)
	}
	return m, err
}

// readTranscript returns the entries that the model knows: messages, replies and results.
func (s *store) readTranscript(ctx context.Context, id uuid.UUID) ([]Entry, error) {
	return s.readEntries(ctx, id, `kind IN ('user', 'assistant', 'tools') ORDER BY seq`)
}

// content returns the part of an entry that is stored as JSON. It makes it if there is none; nil: the kind is unknown.
func (e *Entry) content() any {
	switch e.Kind {
	case KindUser:
		e.User = cmp.Or(e.User, &Message{})
		return e.User
	case KindAssistant:
		e.Assistant = cmp.Or(e.Assistant, &Reply{})
		return e.Assistant
	case KindTools:
		e.Tools = cmp.Or(e.Tools, &Results{})
		return e.Tools
	case KindCall:
		e.Call = cmp.Or(e.Call, &CallNews{})
		return e.Call
	case KindNotice:
		e.Notice = cmp.Or(e.Notice, &Notice{})
		return e.Notice
	}
	return nil
}
