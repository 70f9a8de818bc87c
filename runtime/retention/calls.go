package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// KindContent is the kind of deleted contents of calls.
const KindContent = "content"

// oldCall is a call that a batch examines.
type oldCall struct {
	ID           uuid.UUID
	Conversation *uuid.UUID
	Over         bool // it ended long enough ago
	Held         bool // by a legal hold
	Due          bool // nothing else keeps it
}

// overSQL holds for a call that ended before $1 and whose idempotency key is free again. $2 is the time.
const overSQL = `c.finished_at < $1 AND c.status NOT IN ('needs_connection', 'parked', 'approved', 'executing')
	AND (c.keyed_until IS NULL OR c.keyed_until < $2)`

// heldCallSQL returns SQL: a hold covers the call c.
func (b *batch) heldCallSQL() string {
	return "NOT (" + b.unlessHeld("c.agent_id", "c.created_at", "coalesce(c.finished_at, c.created_at)") + ")"
}

// contentRule deletes the arguments and results of calls. It examines each call once, in the order of ids, and keeps its position in the
// database. A call that has not ended when it is examined is noted in retention_skipped and examined again in each run.
func (s *Service) contentRule(age time.Duration) rule {
	var again uuid.UUID // position among the skipped calls
	againDone := false
	return rule{
		kind: KindContent, age: age,
		oldest: `SELECT min(created_at) FROM (SELECT created_at FROM calls WHERE content_deleted_at IS NULL
				AND id > coalesce((SELECT cursor FROM retention_progress WHERE kind = 'content'), '00000000-0000-0000-0000-000000000000') ORDER BY id LIMIT 1) AS first`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			if !againDone {
				n, last, err := sweepSkipped(ctx, tx, b, again)
				if err != nil {
					return 0, false, err
				}
				againDone, again = last == uuid.Nil, last
				return n, false, nil
			}
			return sweepContents(ctx, tx, b)
		},
	}
}

// sweepContents examines the next calls after the stored position.
func sweepContents(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
	var position *uuid.UUID
	if err := tx.QueryRow(ctx, `SELECT cursor FROM retention_progress WHERE kind = $1`, KindContent).Scan(&position); err != nil {
		return 0, false, err
	}
	rows, _ := tx.Query(ctx, `SELECT c.id, c.conversation_id, `+overSQL+`, `+b.heldCallSQL()+`, c.content_deleted_at IS NULL FROM calls c
		WHERE ($3::uuid IS NULL OR c.id > $3) AND c.id < $4 ORDER BY c.id LIMIT $5`,
		b.cutoff, b.now, position, call.FirstID(b.cutoff), b.limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oldCall])
	if err != nil || len(found) == 0 {
		return 0, true, err
	}
	var due, skipped []uuid.UUID
	var conversations []uuid.UUID
	for _, c := range found {
		switch {
		case c.Held: // examined again when a hold is lifted
		case !c.Over:
			skipped = append(skipped, c.ID)
		case c.Due:
			due = append(due, c.ID)
			if c.Conversation != nil {
				conversations = append(conversations, *c.Conversation)
			}
		}
	}
	if err := deleteContents(ctx, tx, b, due, conversations); err != nil {
		return 0, false, err
	}
	if len(skipped) > 0 {
		if _, err := tx.Exec(ctx, `INSERT INTO retention_skipped (call_id) SELECT unnest($1::uuid[]) ON CONFLICT DO NOTHING`, skipped); err != nil {
			return 0, false, fmt.Errorf("note calls that have not ended: %w", err)
		}
	}
	_, err = tx.Exec(ctx, `UPDATE retention_progress SET cursor = $2 WHERE kind = $1`, KindContent, found[len(found)-1].ID)
	return int64(len(due)), len(found) < b.limit, err
}

// sweepSkipped examines calls again that had not ended. last is the position of the next batch; uuid.Nil: this was the last one.
func sweepSkipped(ctx context.Context, tx pgx.Tx, b batch, after uuid.UUID) (deleted int64, last uuid.UUID, err error) {
	rows, _ := tx.Query(ctx, `SELECT s.call_id, c.conversation_id, coalesce(c.id IS NULL OR `+overSQL+`, false), coalesce(`+b.heldCallSQL()+`, false),
			coalesce(c.content_deleted_at IS NULL AND c.id IS NOT NULL, false)
		FROM retention_skipped s LEFT JOIN calls c ON c.id = s.call_id WHERE s.call_id > $3 ORDER BY s.call_id LIMIT $4`,
		b.cutoff, b.now, after, b.limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oldCall])
	if err != nil || len(found) == 0 {
		return 0, uuid.Nil, err
	}
	var due, gone, conversations []uuid.UUID
	for _, c := range found {
		if c.Held || !c.Over {
			continue
		}
		gone = append(gone, c.ID)
		if c.Due {
			due = append(due, c.ID)
			if c.Conversation != nil {
				conversations = append(conversations, *c.Conversation)
			}
		}
	}
	if err := deleteContents(ctx, tx, b, due, conversations); err != nil {
		return 0, uuid.Nil, err
	}
	if len(gone) > 0 {
		if _, err := tx.Exec(ctx, `DELETE FROM retention_skipped WHERE call_id = ANY($1)`, gone); err != nil {
			return 0, uuid.Nil, err
		}
	}
	if len(found) == b.limit {
		last = found[len(found)-1].ID
	}
	return int64(len(due)), last, nil
}

// restartContent has the next run examine all calls again, because a hold that kept some of them was lifted.
func restartContent(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `UPDATE retention_progress SET cursor = NULL WHERE kind = $1`, KindContent); err != nil {
		return fmt.Errorf("restart the deletion of contents: %w", err)
	}
	return nil
}

// deleteContents deletes the arguments, edits, results and questions of ended calls, and the references to their files. Files that no
// other call refers to go too. conversations are those of the calls.
func deleteContents(ctx context.Context, tx pgx.Tx, b batch, calls, conversations []uuid.UUID) error {
	if len(calls) == 0 {
		return nil
	}
	for _, sql := range []string{
		`UPDATE calls SET arguments = '{}', submitted = NULL, made = NULL, request = NULL, result = NULL, message = NULL, caller = NULL,
			late = CASE WHEN late IS NOT NULL THEN json_build_object('status', late -> 'status', 'code', late -> 'code', 'effect', late -> 'effect') END,
			content_deleted_at = holdpoint_now() WHERE id = ANY($1)`,
		`UPDATE call_questions SET params = NULL, answer = NULL, error = NULL WHERE call_id = ANY($1)`,
	} {
		if _, err := tx.Exec(ctx, sql, calls); err != nil {
			return fmt.Errorf("delete arguments and results: %w", err)
		}
	}
	if err := deleteReturned(ctx, tx, calls, conversations); err != nil {
		return err
	}
	return deleteAttachments(ctx, tx, b, calls)
}

// deleteReturned deletes the notes of resources that calls returned.
func deleteReturned(ctx context.Context, tx pgx.Tx, calls, conversations []uuid.UUID) error {
	if len(conversations) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `DELETE FROM call_resources WHERE conversation_id = ANY($2) AND call_id = ANY($1)`, calls, conversations)
	if err != nil {
		return fmt.Errorf("delete returned resources: %w", err)
	}
	return nil
}

// deleteAttachments deletes the references of calls to files, and the files that no other call refers to. The sweep of files deletes
// their objects.
func deleteAttachments(ctx context.Context, tx pgx.Tx, b batch, calls []uuid.UUID) error {
	rows, _ := tx.Query(ctx, `DELETE FROM call_files WHERE call_id = ANY($1) RETURNING file_id`, calls)
	files, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err == nil && len(files) > 0 {
		_, err = tx.Exec(ctx, `DELETE FROM files f WHERE f.id IN (SELECT id FROM files WHERE id = ANY($1) ORDER BY id FOR UPDATE)
			AND NOT EXISTS (SELECT FROM call_files r WHERE r.file_id = f.id) AND `+b.unlessHeld("f.agent_id", "f.created_at", "f.attached_at"), files)
	}
	if err != nil {
		return fmt.Errorf("delete references to files: %w", err)
	}
	return nil
}

// callRule deletes calls with all that belongs to them. A call stays until it is counted, and as long as a conversation that Holdpoint
// runs might submit it again.
func callRule(age time.Duration) rule {
	var position uuid.UUID
	return rule{
		kind: "calls", age: age,
		oldest: `SELECT min(created_at) FROM (SELECT created_at FROM calls ORDER BY id LIMIT 1) AS first`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			var counted *time.Time
			err := tx.QueryRow(ctx, `SELECT until FROM call_counting`).Scan(&counted)
			if errors.Is(err, pgx.ErrNoRows) {
				return 0, true, nil
			}
			if err != nil {
				return 0, false, err
			}
			rows, _ := tx.Query(ctx, `SELECT c.id, c.conversation_id, `+overSQL+`, `+b.heldCallSQL()+`, c.created_at < $6
					AND NOT EXISTS (SELECT FROM call_stragglers s WHERE s.call_id = c.id)
					AND NOT EXISTS (SELECT FROM loop_calls l WHERE l.call_id = c.id AND NOT l.ended)
				FROM calls c WHERE c.id > $3 AND c.id < $4 ORDER BY c.id LIMIT $5`,
				b.cutoff, b.now, position, call.FirstID(b.cutoff), b.limit, counted)
			found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oldCall])
			if err != nil || len(found) == 0 {
				return 0, true, err
			}
			var due, conversations []uuid.UUID
			for _, c := range found {
				if !c.Over || c.Held || !c.Due {
					continue
				}
				due = append(due, c.ID)
				if c.Conversation != nil {
					conversations = append(conversations, *c.Conversation)
				}
			}
			if err := deleteCalls(ctx, tx, b, due, conversations); err != nil {
				return 0, false, err
			}
			position = found[len(found)-1].ID
			return int64(len(due)), len(found) < b.limit, nil
		},
	}
}

// deleteCalls deletes calls. Their facts and audit events have ages of their own.
func deleteCalls(ctx context.Context, tx pgx.Tx, b batch, calls, conversations []uuid.UUID) error {
	if len(calls) == 0 {
		return nil
	}
	if err := deleteReturned(ctx, tx, calls, conversations); err != nil {
		return err
	}
	if err := deleteAttachments(ctx, tx, b, calls); err != nil {
		return err
	}
	for _, table := range []string{"approval_comments", "approval_votes", "approvals", "call_questions", "call_connections", "call_viewers", "notices", "retention_skipped"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE call_id = ANY($1)`, calls); err != nil {
			return fmt.Errorf("delete %s: %w", table, err)
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM calls WHERE id = ANY($1)`, calls); err != nil {
		return fmt.Errorf("delete calls: %w", err)
	}
	return nil
}
