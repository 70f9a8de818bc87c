package retention

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// swept is what a statement that examines rows in the order of a key returns.
type swept[K any] struct {
	Last     *K // the last key; nil: there were none
	Examined int
	Deleted  int64
}

// factRule deletes facts of approved calls that no comparison reads any more.
func factRule(age time.Duration) rule {
	var position uuid.UUID
	return rule{
		kind: "facts", age: age, oldest: `SELECT min(added_at) FROM (SELECT added_at FROM call_facts ORDER BY call_id LIMIT 1) AS first`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			return sweepByKey(ctx, tx, b, &position, `WITH old AS (SELECT call_id AS key, added_at < $2 AND `+b.unlessHeld("f.agent_id", "f.added_at", "f.added_at")+` AS due
					FROM call_facts f WHERE call_id > $1 AND call_id < $4 ORDER BY call_id LIMIT $3),
				gone AS (DELETE FROM call_facts USING old WHERE call_id = key AND due RETURNING 1)`, call.FirstID(b.cutoff))
		},
	}
}

// sweepByKey runs a statement that begins with the relations old (key, due) and gone: the rows after a position, and the deleted ones. Its
// parameters are the position, the cutoff, the limit and those in more. It moves the position.
func sweepByKey[K any](ctx context.Context, tx pgx.Tx, b batch, position *K, with string, more ...any) (int64, bool, error) {
	args := append([]any{*position, b.cutoff, b.limit}, more...)
	rows, _ := tx.Query(ctx, with+` SELECT (SELECT key FROM old ORDER BY key DESC LIMIT 1), (SELECT count(*) FROM old), (SELECT count(*) FROM gone)`, args...)
	found, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[swept[K]])
	if err != nil {
		return 0, false, err
	}
	if found.Last != nil {
		*position = *found.Last
	}
	return found.Deleted, found.Examined < b.limit, nil
}

// openCallSQL returns SQL: the call with an id has not ended.
func openCallSQL(id string) string {
	return `EXISTS (SELECT FROM calls open WHERE open.id = ` + id + ` AND open.status IN ('needs_connection', 'parked', 'approved', 'executing'))`
}

// fileRule deletes the content of attached files. The row stays while calls refer to it; the sweep of files deletes the object.
func fileRule(age time.Duration) rule {
	var position time.Time
	var positionID uuid.UUID
	return rule{
		kind: "files", age: age,
		oldest: `SELECT min(attached_at) FROM files WHERE content_deleted_at IS NULL AND attached_at IS NOT NULL`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			rows, _ := tx.Query(ctx, `WITH old AS (SELECT attached_at, id, `+b.unlessHeld("f.agent_id", "f.created_at", "f.attached_at")+`
					AND NOT EXISTS (SELECT FROM call_files r WHERE r.file_id = f.id AND `+openCallSQL("r.call_id")+`) AS due FROM files f
					WHERE (attached_at, id) > ($1, $2) AND attached_at < $3 AND content_deleted_at IS NULL ORDER BY attached_at, id LIMIT $4),
				gone AS (UPDATE files f SET object = '', content_deleted_at = holdpoint_now() FROM old WHERE f.id = old.id AND due RETURNING f.id)
				SELECT attached_at, id, id IN (SELECT id FROM gone) FROM old ORDER BY attached_at, id`, position, positionID, b.cutoff, b.limit)
			var deleted, examined int64
			var isGone bool
			_, err := pgx.ForEachRow(rows, []any{&position, &positionID, &isGone}, func() error {
				if examined++; isGone {
					deleted++
				}
				return nil
			})
			return deleted, err == nil && examined < int64(b.limit), err
		},
	}
}

// grantRule deletes grants that ended as long ago as the calls whose content goes: they have values of arguments, too.
func grantRule(age time.Duration) rule {
	const ended = `least(g.revoked_at, g.ends_at)`
	return rule{
		kind: "grants", age: age, oldest: `SELECT min(` + ended + `) FROM grants g WHERE ` + ended + ` < holdpoint_now()`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			tag, err := tx.Exec(ctx, `DELETE FROM grants WHERE id IN (SELECT g.id FROM grants g
				WHERE `+ended+` < $1 AND `+b.unlessHeld("g.agent_id", "g.granted_at", ended)+` LIMIT $2 FOR UPDATE SKIP LOCKED)`, b.cutoff, b.limit)
			return tag.RowsAffected(), err == nil && tag.RowsAffected() < int64(b.limit), err
		},
	}
}

// conversationRule deletes conversations that ended, or had no call for the age.
func conversationRule(age time.Duration) rule {
	var position uuid.UUID
	return rule{
		kind: "conversations", age: age,
		oldest: `SELECT min(created_at) FROM (SELECT created_at FROM conversations ORDER BY id LIMIT 1) AS first`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			b.limit = max(b.limit/20, 1) // each may have many entries
			rows, _ := tx.Query(ctx, `SELECT c.id, `+b.unlessHeld("c.agent_id", "c.created_at", "coalesce(c.ended_at, 'infinity')")+` AND coalesce(c.ended_at, c.created_at) < $2
					AND NOT EXISTS (SELECT FROM calls k WHERE k.conversation_id = c.id AND k.id >= $4)
					AND NOT EXISTS (SELECT FROM calls k WHERE k.conversation_id = c.id AND (k.created_at >= $2 OR k.finished_at IS NULL))
					AND NOT EXISTS (SELECT FROM loops l WHERE l.conversation_id = c.id AND (l.status NOT IN ('ended', 'idle') OR l.moved_at >= $2))
				FROM conversations c WHERE c.id > $1 AND c.created_at < $2 ORDER BY c.id LIMIT $3`, position, b.cutoff, b.limit, call.FirstID(b.cutoff))
			var id uuid.UUID
			var isDue bool
			var due []uuid.UUID
			found := 0
			_, err := pgx.ForEachRow(rows, []any{&id, &isDue}, func() error {
				found++
				if isDue {
					due = append(due, id)
				}
				return nil
			})
			if err != nil || found == 0 {
				return 0, true, err
			}
			if err := deleteConversations(ctx, tx, due); err != nil {
				return 0, false, err
			}
			position = id
			return int64(len(due)), found < b.limit, nil
		},
	}
}

// deleteConversations deletes conversations with all that was said in them. Their calls stay.
func deleteConversations(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	for _, table := range []string{"loop_drafts", "loop_inbox", "loop_calls", "loop_entries", "loops", "resource_subscriptions", "call_resources"} {
		if _, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE conversation_id = ANY($1)`, ids); err != nil {
			return fmt.Errorf("delete %s: %w", table, err)
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM conversations WHERE id = ANY($1)`, ids); err != nil {
		return fmt.Errorf("delete conversations: %w", err)
	}
	return nil
}

// catalogRule deletes catalogs of no conversation. A conversation that takes such a catalog at this moment stores it again.
func catalogRule(age time.Duration) rule {
	return rule{
		kind: "catalogs", age: age, oldest: `SELECT min(created_at) FROM catalogues`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			// Processes of older versions may have catalogs without a time in memory: their age counts from now.
			if _, err := tx.Exec(ctx, `UPDATE catalogues SET created_at = holdpoint_now() WHERE created_at IS NULL`); err != nil {
				return 0, false, err
			}
			tag, err := tx.Exec(ctx, `DELETE FROM catalogues WHERE digest IN (SELECT digest FROM catalogues c
				WHERE c.created_at < $1 AND NOT EXISTS (SELECT FROM conversations v WHERE v.catalogue_digest = c.digest)
				LIMIT $2 FOR UPDATE SKIP LOCKED)`, b.cutoff, b.limit)
			return tag.RowsAffected(), err == nil && tag.RowsAffected() < int64(b.limit), err
		},
	}
}

const (
	definitionsPause = lifetime.Day // the search for uses reads all calls
	maxDefinitions   = 500          // candidates of a run
	pinsSpan         = 20           // times the size of a batch; calls are only read
)

// unusedDefinitionsSQL selects from the old definitions d that neither skills nor catalogs have.
const unusedDefinitionsSQL = ` FROM tool_definitions d WHERE d.first_seen < $1
	AND NOT EXISTS (SELECT FROM skill_tools t WHERE d.pin IN (t.current_pin, t.accepted_pin, t.refused_pin))
	AND encode(d.pin, 'hex') NOT IN (SELECT e ->> 'pin' FROM catalogues c, json_array_elements(c.entries) AS e)`

// definitionRule deletes definitions that no skill, no catalog and no call has any more. No index has the pins of calls, so it reads all
// calls, if there are candidates, and once a day.
func definitionRule(age time.Duration) rule {
	var candidates map[string]bool // by pin, in hex; nil: not read yet
	var position uuid.UUID
	return rule{
		kind: "definitions", age: age, pause: definitionsPause, oldest: `SELECT min(first_seen) FROM tool_definitions`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			if candidates == nil {
				rows, _ := tx.Query(ctx, `SELECT encode(d.pin, 'hex')`+unusedDefinitionsSQL+` ORDER BY d.first_seen LIMIT $2`, b.cutoff, maxDefinitions)
				pins, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					return 0, false, err
				}
				candidates = make(map[string]bool, len(pins))
				for _, pin := range pins {
					candidates[pin] = true
				}
				return 0, len(pins) == 0, nil
			}
			pins := slices.Collect(maps.Keys(candidates))
			last, used, err := findUsedPins(ctx, tx, pins, position, b.limit*pinsSpan)
			if err != nil {
				return 0, false, err
			}
			for _, pin := range used {
				delete(candidates, pin)
			}
			if len(candidates) == 0 || last != uuid.Nil {
				position = last
				return 0, len(candidates) == 0, nil
			}
			tag, err := tx.Exec(ctx, `DELETE FROM tool_definitions WHERE encode(pin, 'hex') = ANY($2) AND pin IN (SELECT d.pin`+unusedDefinitionsSQL+` FOR UPDATE SKIP LOCKED)`,
				b.cutoff, slices.Collect(maps.Keys(candidates)))
			return tag.RowsAffected(), true, err
		},
	}
}

// findUsedPins returns which pins the next calls have, and the last of these calls; uuid.Nil: there are no more.
func findUsedPins(ctx context.Context, tx pgx.Tx, pins []string, after uuid.UUID, limit int) (last uuid.UUID, used []string, err error) {
	var end *uuid.UUID
	err = tx.QueryRow(ctx, `SELECT id FROM calls WHERE id > $1 ORDER BY id OFFSET $2 LIMIT 1`, after, limit-1).Scan(&end)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, nil, err
	}
	rows, _ := tx.Query(ctx, `SELECT DISTINCT encode(pin, 'hex') FROM calls WHERE id > $1 AND ($2::uuid IS NULL OR id <= $2)
		AND pin = ANY(ARRAY(SELECT decode(unnest($3::text[]), 'hex')))`, after, end, pins)
	used, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if end != nil {
		last = *end
	}
	return last, used, err
}

// countTables are the tables of counts, with the columns of the time and of the agent.
func countTables() [][2]string {
	return [][2]string{{"call_counts", "hour"}, {"call_tool_counts", "since"}, {"call_tool_errors", "since"}, {"call_tool_times", "since"}}
}

// countRule deletes counts by the hour and by the day. Counts of all agents together are held by every hold of their time.
func countRule(age time.Duration) rule {
	next := 0
	return rule{
		kind: "counts", age: age, oldest: `SELECT min(hour) FROM call_counts`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			tables := countTables()
			table, column := tables[next][0], tables[next][1]
			agent := `CASE WHEN c.agent_id = '` + uuid.Nil.String() + `' THEN hold.agent_id ELSE c.agent_id END`
			where := `c.` + column + ` < $1 AND ` + b.unlessHeld(agent, "c."+column, "c."+column+" + interval '1 day'")
			if table != "call_counts" {
				where = `c.level IN (0, 1, 2) AND ` + where
			}
			tag, err := tx.Exec(ctx, `DELETE FROM `+table+` WHERE ctid = ANY(ARRAY(SELECT c.ctid FROM `+table+` c WHERE `+where+` LIMIT $2))`, b.cutoff.Add(-lifetime.Day), b.limit)
			if err != nil {
				return 0, false, err
			}
			if tag.RowsAffected() < int64(b.limit) {
				next++
			}
			return tag.RowsAffected(), next == len(tables), nil
		},
	}
}

// eventRule deletes events of the audit log, but for those of calls that have not ended.
func eventRule(age time.Duration) rule {
	var position int64
	return rule{
		kind: "events", age: age, oldest: `SELECT min(at) FROM (SELECT at FROM audit_events ORDER BY id LIMIT 1) AS first`,
		sweep: func(ctx context.Context, tx pgx.Tx, b batch) (int64, bool, error) {
			var first *time.Time
			err := tx.QueryRow(ctx, `SELECT at FROM audit_events WHERE id > $1 ORDER BY id LIMIT 1`, position).Scan(&first)
			if errors.Is(err, pgx.ErrNoRows) || err == nil && !first.Before(b.cutoff) {
				return 0, true, nil
			}
			if err != nil {
				return 0, false, err
			}
			return sweepByKey(ctx, tx, b, &position, `WITH old AS (SELECT e.id AS key, e.at < $2 AND NOT `+openCallSQL("e.subject_id")+` AND `+b.unlessEventHeld()+` AS due
					FROM audit_events e WHERE e.id > $1 ORDER BY e.id LIMIT $3),
				gone AS (DELETE FROM audit_events USING old WHERE id = key AND due RETURNING 1)`)
		},
	}
}

// unlessEventHeld returns an SQL condition for events e that no hold covers. An event belongs to the agent that is its subject or its
// actor, or whose call or conversation is its subject.
func (b *batch) unlessEventHeld() string {
	const agent = `coalesce((SELECT k.agent_id FROM calls k WHERE k.id = e.subject_id), (SELECT v.agent_id FROM conversations v WHERE v.id = e.subject_id),
		(SELECT f.agent_id FROM files f WHERE f.id = e.subject_id), CASE WHEN e.actor_kind = 'agent' THEN e.actor_id END, e.subject_id)`
	const made = `coalesce((SELECT k.created_at FROM calls k WHERE k.id = e.subject_id), e.at)`
	return b.unlessHeld(agent, "least("+made+", e.at)", "e.at")
}
