package retention

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Errors about erasures.
var (
	ErrNoPerson  = fault.NotFound("person not found")
	ErrNoErasure = fault.NotFound("no erasure of this person was asked for")
	// ErrNotBlocked: a person who can still sign in cannot be erased.
	ErrNotBlocked = errors.New("block the person first")
)

// erasedIssuer is the issuer of erased people. No identity provider has it.
const erasedIssuer = "erased"

// Erasure is the erasure of a person's data, done or under way.
type Erasure struct {
	PersonID   uuid.UUID
	Pseudonym  string
	AskedBy    uuid.UUID
	AskedAt    time.Time
	Erased     Counts
	Left       Counts     // what was left: by a legal hold, or because a call has not ended
	FinishedAt *time.Time // nil: it is under way
}

const erasureColumns = `person_id, pseudonym, asked_by, asked_at, erased, held, finished_at`

func scanErasure(row pgx.CollectableRow) (Erasure, error) {
	var e Erasure
	var by *uuid.UUID
	err := row.Scan(&e.PersonID, &e.Pseudonym, &by, &e.AskedAt, &e.Erased, &e.Left, &e.FinishedAt)
	e.AskedBy = postgres.OrNil(by)
	return e, err
}

// pseudonymOf returns the name that an erased person has from then on. The same person always gets the same one.
func pseudonymOf(person uuid.UUID) string { return "erased-" + hex.EncodeToString(person[10:]) }

// ReadErasure returns the last erasure of a person, or [ErrNoErasure].
func (s *Service) ReadErasure(ctx context.Context, person uuid.UUID) (Erasure, error) {
	e, err := postgres.CollectOne(ctx, s.Pool, scanErasure, `SELECT `+erasureColumns+` FROM person_erasures WHERE person_id = $1`, person)
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrNoErasure
	}
	if err != nil {
		return Erasure{}, fmt.Errorf("read erasure of person %s: %w", person, err)
	}
	return e, nil
}

// Erase begins to erase the data of a blocked person, in a job. An erasure that left something can be asked for again. Errors:
// [ErrNoPerson], [ErrNotBlocked].
func (s *Service) Erase(ctx context.Context, by audit.Actor, person uuid.UUID) (Erasure, error) {
	var e Erasure
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		var blocked bool
		err := tx.QueryRow(ctx, `SELECT blocked_at IS NOT NULL FROM people WHERE id = $1 FOR UPDATE`, person).Scan(&blocked)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNoPerson
		case err != nil:
			return err
		case !blocked:
			return ErrNotBlocked
		}
		e, err = postgres.CollectOne(ctx, tx, scanErasure, `INSERT INTO person_erasures AS e (person_id, pseudonym, asked_by) VALUES ($1, $2, $3)
			ON CONFLICT (person_id) DO UPDATE SET asked_by = excluded.asked_by, asked_at = holdpoint_now(), step = 'calls', cursor = NULL, held = '{}', finished_at = NULL
			RETURNING `+erasureColumns, person, pseudonymOf(person), postgres.OrNull(by.ID))
		if err != nil {
			return err
		}
		if _, err := s.river.InsertTx(ctx, tx, eraseArgs{PersonID: person}, nil); err != nil {
			return err
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: by, Action: audit.PersonErased, Subject: person, Data: map[string]any{"pseudonym": e.Pseudonym, "state": "asked"},
		})
	})
	if err != nil {
		return Erasure{}, fmt.Errorf("erase person %s: %w", person, err)
	}
	return e, nil
}

// eraser is a transaction of an erasure.
type eraser struct {
	pgx.Tx

	person uuid.UUID
	batch  batch
	cursor string // of the step; empty: its beginning
	erased Counts
	left   Counts
}

// eraseStep erases the next batch, and reports whether the step is over.
type eraseStep struct {
	name string
	run  func(ctx context.Context, e *eraser) (done bool, err error)
}

// eraseSteps are the steps of an erasure, in order. The account is last, because calls that are held keep it.
func eraseSteps() []eraseStep {
	return []eraseStep{
		{"calls", eraseCalls},
		{"conversations", eraseConversations},
		{"files", eraseFiles},
		{"decisions", eraseDecisions},
		{"comments", eraseComments},
		{"grants", eraseGrants},
		{"votes", eraseVotes},
		{"events", eraseEvents},
		{"account", eraseAccount},
	}
}

// continueErasure runs the steps of an erasure that are left. Each batch is a transaction, so that it can be interrupted at any time.
func (s *Service) continueErasure(ctx context.Context, person uuid.UUID) error {
	for {
		began := s.Now()
		done, err := s.eraseBatch(ctx, person)
		if err != nil {
			return fmt.Errorf("erase person %s: %w", person, err)
		}
		if s.AfterBatch != nil {
			s.AfterBatch("erasure")
		}
		if done {
			return nil
		}
		if err := pause.For(ctx, max(s.Now().Sub(began), minPause)); err != nil {
			return fmt.Errorf("erase person %s: %w", person, err)
		}
	}
}

func (s *Service) eraseBatch(ctx context.Context, person uuid.UUID) (done bool, err error) {
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		e := &eraser{Tx: tx, person: person}
		var name string
		var by *uuid.UUID
		err := tx.QueryRow(ctx, `SELECT step, coalesce(cursor, ''), erased, held, asked_by, holdpoint_now() FROM person_erasures
			WHERE person_id = $1 AND finished_at IS NULL FOR UPDATE`, person).Scan(&name, &e.cursor, &e.erased, &e.left, &by, &e.batch.now)
		if errors.Is(err, pgx.ErrNoRows) {
			done = true
			return nil
		}
		if err != nil {
			return err
		}
		e.batch.cutoff, e.batch.limit = e.batch.now, s.BatchSize
		if e.batch.held, err = legalhold.Guard(ctx, tx); err != nil {
			return err
		}
		steps := eraseSteps()
		at := slices.IndexFunc(steps, func(s eraseStep) bool { return s.name == name })
		if at < 0 {
			return fmt.Errorf("step %q: must be one that this version knows", name)
		}
		over, err := steps[at].run(ctx, e)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if over {
			if at++; at < len(steps) {
				name, e.cursor = steps[at].name, ""
			}
		}
		done = at == len(steps)
		_, err = tx.Exec(ctx, `UPDATE person_erasures SET step = $2, cursor = nullif($3, ''), erased = $4, held = $5,
			finished_at = CASE WHEN $6 THEN holdpoint_now() END WHERE person_id = $1`, person, name, e.cursor, e.erased, e.left, done)
		if err != nil || !done {
			return err
		}
		actor := audit.System()
		if by != nil {
			actor = audit.Person(*by)
		}
		return audit.Write(ctx, tx, audit.Event{
			Actor: actor, Action: audit.PersonErased, Subject: person,
			Data: map[string]any{"pseudonym": pseudonymOf(person), "state": "done", "erased": e.erased, "left": e.left},
		})
	})
	return done, err
}

// findSpan reads how far the next batch of a table reaches, in the order of a key of a type: to as many rows of the person as a batch may have, or
// to the end of a limited range. It moves the cursor. No index has the people of these tables in this order, so their rows are read. mine
// is an SQL condition, in which $2 is the person.
func (e *eraser) findSpan(ctx context.Context, table, key, kind, mine string) (after, end string, done bool, err error) {
	lowest, highest := uuid.Nil.String(), uuid.Max.String()
	if kind == "bigint" {
		lowest, highest = "0", strconv.FormatInt(math.MaxInt64, 10)
	}
	after = cmp.Or(e.cursor, lowest)
	var found *string
	err = e.QueryRow(ctx, `SELECT coalesce(
			(SELECT key FROM (SELECT `+key+` AS key, `+mine+` AS mine FROM `+table+` WHERE `+key+` > $1::text::`+kind+` ORDER BY `+key+` LIMIT $4) AS next
				WHERE mine ORDER BY key OFFSET $3::bigint - 1 LIMIT 1),
			(SELECT `+key+` FROM `+table+` WHERE `+key+` > $1::text::`+kind+` ORDER BY `+key+` OFFSET $4::bigint - 1 LIMIT 1))::text`,
		after, e.person, e.batch.limit, e.batch.limit*pinsSpan).Scan(&found)
	if err != nil || found == nil {
		return after, highest, true, err
	}
	e.cursor = *found
	return after, *found, false, nil
}

// eraseCalls deletes the arguments, results and facts of calls on the person's behalf.
func eraseCalls(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "calls", "id", "uuid", "principal_id = $2")
	if err != nil {
		return false, err
	}
	rows, _ := e.Query(ctx, `SELECT c.id, c.conversation_id, c.finished_at IS NOT NULL AND c.finished_at <= $1, `+e.batch.heldCallSQL()+`, c.content_deleted_at IS NULL
		FROM calls c WHERE c.id > $2::text::uuid AND c.id <= $3::text::uuid AND c.principal_id = $4`, e.batch.now, after, end, e.person)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oldCall])
	if err != nil {
		return false, err
	}
	var due, conversations, over []uuid.UUID
	for _, c := range found {
		switch {
		case c.Held:
			e.left["held_calls"]++
			continue
		case !c.Over:
			e.left["open_calls"]++
			continue
		}
		if over = append(over, c.ID); c.Due {
			due = append(due, c.ID)
			if c.Conversation != nil {
				conversations = append(conversations, *c.Conversation)
			}
		}
	}
	if err := deleteContents(ctx, e, e.batch, due, conversations); err != nil {
		return false, err
	}
	if _, err := e.Exec(ctx, `DELETE FROM call_facts WHERE call_id = ANY($1)`, over); err != nil {
		return false, err
	}
	e.erased["calls"] += int64(len(due))
	return done, eraseEventsOf(ctx, e, over)
}

// eraseConversations deletes the person's conversations.
func eraseConversations(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "conversations", "id", "uuid", "principal_id = $2")
	if err != nil {
		return false, err
	}
	rows, _ := e.Query(ctx, `SELECT c.id, NULL::uuid, NOT EXISTS (SELECT FROM calls k WHERE k.conversation_id = c.id AND k.finished_at IS NULL)
			AND NOT EXISTS (SELECT FROM loops l WHERE l.conversation_id = c.id AND l.status NOT IN ('ended', 'idle')),
			NOT (`+e.batch.unlessHeld("c.agent_id", "c.created_at", "coalesce(c.ended_at, 'infinity')")+`), true
		FROM conversations c WHERE c.id > $1::text::uuid AND c.id <= $2::text::uuid AND c.principal_id = $3`, after, end, e.person)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[oldCall])
	if err != nil {
		return false, err
	}
	var due []uuid.UUID
	for _, c := range found {
		switch {
		case c.Held:
			e.left["held_conversations"]++
		case !c.Over:
			e.left["open_conversations"]++
		default:
			due = append(due, c.ID)
		}
	}
	e.erased["conversations"] += int64(len(due))
	return done, deleteConversations(ctx, e, due)
}

// eraseFiles deletes the content and the names of files that were uploaded on the person's behalf.
func eraseFiles(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "files", "id", "uuid", "principal_id = $2")
	if err != nil {
		return false, err
	}
	held := e.batch.unlessHeld("f.agent_id", "f.created_at", "coalesce(f.attached_at, f.created_at)")
	const open = `EXISTS (SELECT FROM call_files r JOIN calls k ON k.id = r.call_id WHERE r.file_id = f.id AND k.finished_at IS NULL)`
	const mine = `f.id > $1::text::uuid AND f.id <= $2::text::uuid AND f.principal_id = $3`
	if err := e.countHeld(ctx, "held_files", `files f WHERE `+mine+` AND NOT (`+held+`)`, after, end, e.person); err != nil {
		return false, err
	}
	tag, err := e.Exec(ctx, `UPDATE files f SET object = '', content_deleted_at = holdpoint_now(), filename = 'erased'
		WHERE `+mine+` AND `+held+` AND NOT `+open+` AND f.content_deleted_at IS NULL AND f.uploaded_at IS NOT NULL`, after, end, e.person)
	e.erased["files"] += tag.RowsAffected()
	return done, err
}

// eraseDecisions removes the addresses that the person decided from. The decisions stay.
func eraseDecisions(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "approvals", "call_id", "uuid", "decided_by IS NOT DISTINCT FROM $2")
	if err != nil {
		return false, err
	}
	// The index by reviewers would read all of the person's decisions for each batch. This comparison does not use it.
	const mine = `a.call_id > $1::text::uuid AND a.call_id <= $2::text::uuid AND a.decided_by IS NOT DISTINCT FROM $3`
	held := e.batch.unlessHeld("a.agent_id", "a.created_at", "coalesce(a.decided_at, a.created_at)")
	tag, err := e.Exec(ctx, `UPDATE approvals a SET decided_address = NULL WHERE `+mine+` AND a.decided_address IS NOT NULL AND `+held, after, end, e.person)
	if err != nil {
		return false, err
	}
	e.erased["decisions"] += tag.RowsAffected()
	return done, e.countHeld(ctx, "held_decisions", `approvals a WHERE `+mine+` AND NOT (`+held+`)`, after, end, e.person)
}

// eraseComments removes the texts of the person's comments.
func eraseComments(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "approval_comments", "call_id", "uuid", "person_id = $2")
	if err != nil {
		return false, err
	}
	const mine = `a.call_id = m.call_id AND m.call_id > $1::text::uuid AND m.call_id <= $2::text::uuid AND m.person_id = $3`
	held := e.batch.unlessHeld("a.agent_id", "a.created_at", "coalesce(a.decided_at, a.created_at)")
	tag, err := e.Exec(ctx, `UPDATE approval_comments m SET text = '[erased]' FROM approvals a WHERE `+mine+` AND m.text <> '[erased]' AND `+held, after, end, e.person)
	if err != nil {
		return false, err
	}
	e.erased["comments"] += tag.RowsAffected()
	return done, e.countHeld(ctx, "held_decisions", `approval_comments m, approvals a WHERE `+mine+` AND NOT (`+held+`)`, after, end, e.person)
}

// eraseGrants revokes the grants and cancels the plans for calls on the person's behalf, and deletes what they say about arguments. Grants that
// the person made stay, and no longer count: the person is blocked.
func eraseGrants(ctx context.Context, e *eraser) (done bool, err error) {
	const mine = `g.principal_id = $1`
	held := e.batch.unlessHeld("g.agent_id", "g.granted_at", "least(g.revoked_at, g.ends_at)")
	if err := e.countHeld(ctx, "held_grants", `grants g WHERE `+mine+` AND NOT (`+held+`)`, e.person); err != nil {
		return false, err
	}
	tag, err := e.Exec(ctx, `UPDATE grants g SET arguments = '[]', revoked_at = coalesce(revoked_at, holdpoint_now()) WHERE `+mine+` AND `+held+` AND arguments::text <> '[]'`, e.person)
	if err != nil {
		return false, err
	}
	e.erased["grants"] += tag.RowsAffected()
	held = e.batch.unlessHeld("g.agent_id", "g.created_at", "coalesce(g.closed_at, g.ends_at, g.decided_at, g.deadline)")
	if err := e.countHeld(ctx, "held_plans", `plans g WHERE `+mine+` AND NOT (`+held+`)`, e.person); err != nil {
		return false, err
	}
	if tag, err = e.Exec(ctx, `UPDATE plans g SET title = '', calls = '[]', status = CASE WHEN status IN ('pending', 'approved') THEN 'cancelled' ELSE status END
		WHERE `+mine+` AND `+held+` AND calls::text <> '[]'`, e.person); err != nil {
		return false, err
	}
	e.erased["plans"] += tag.RowsAffected()
	return true, registry.Notify(ctx, e)
}

// eraseVotes removes the addresses that the person voted from. The votes stay.
func eraseVotes(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "approval_votes", "call_id", "uuid", "person_id = $2")
	if err != nil {
		return false, err
	}
	const mine = `a.call_id = m.call_id AND m.call_id > $1::text::uuid AND m.call_id <= $2::text::uuid AND m.person_id = $3`
	held := e.batch.unlessHeld("a.agent_id", "a.created_at", "coalesce(a.decided_at, a.created_at)")
	tag, err := e.Exec(ctx, `UPDATE approval_votes m SET address = NULL FROM approvals a WHERE `+mine+` AND m.address IS NOT NULL AND `+held, after, end, e.person)
	if err != nil {
		return false, err
	}
	e.erased["decisions"] += tag.RowsAffected()
	return done, e.countHeld(ctx, "held_decisions", `approval_votes m, approvals a WHERE `+mine+` AND NOT (`+held+`)`, after, end, e.person)
}

// countHeld counts rows that a hold keeps. from is SQL: their tables and conditions.
func (e *eraser) countHeld(ctx context.Context, kind, from string, args ...any) error {
	if !e.batch.held {
		return nil
	}
	var n int64
	if err := e.QueryRow(ctx, `SELECT count(*) FROM `+from, args...).Scan(&n); err != nil {
		return fmt.Errorf("count rows under a hold: %w", err)
	}
	if n > 0 {
		e.left[kind] += n
	}
	return nil
}

// The members of events' data that an erasure removes, by what the events are about. docs/operating.md lists all actions.
const (
	personMembers  = `'{name,email,subject,issuer,client,hint}'::text[]` // the person or their invitation
	searchedMember = `'{filter,text}'::text[]`                           // a path: what the person searched for in an export
	callMembers    = `'{filename,edited}'::text[]`                       // a call on the person's behalf; filename is of older versions
	chosenMembers  = `'{uri,prompt,url}'::text[]`                        // what the person, or an agent on their behalf, read or tried
)

// chosenActions are the actions whose events have chosenMembers.
func chosenActions() []audit.Action {
	return []audit.Action{audit.ResourceRead, audit.ResourceDenied, audit.ResourceSubscribed, audit.PromptGot, audit.SkillTried}
}

// eraseEventsOf removes values of arguments from the events of calls.
func eraseEventsOf(ctx context.Context, e *eraser, calls []uuid.UUID) error {
	if len(calls) == 0 {
		return nil
	}
	return e.changeEvents(ctx, `data = nullif(e.data - `+callMembers+`, '{}')`, `e.subject_id = ANY($1) AND e.data ?| `+callMembers, calls)
}

// changeEvents sets columns of the events for which a condition holds. It counts those that a hold keeps.
func (e *eraser) changeEvents(ctx context.Context, set, where string, args ...any) error {
	tag, err := e.Exec(ctx, `UPDATE audit_events e SET `+set+` WHERE `+where+` AND `+e.batch.unlessEventHeld(), args...)
	if err != nil {
		return fmt.Errorf("change events: %w", err)
	}
	if tag.RowsAffected() > 0 {
		e.erased["events"] += tag.RowsAffected()
	}
	return e.countHeld(ctx, "held_events", `audit_events e WHERE `+where+` AND NOT (`+e.batch.unlessEventHeld()+`)`, args...)
}

// eraseEvents removes names, addresses, devices and choices of the person from the audit log. Who did what stays: an event has
// the id of the person.
func eraseEvents(ctx context.Context, e *eraser) (done bool, err error) {
	after, end, done, err := e.findSpan(ctx, "audit_events", "id", "bigint", "(actor_id = $2 OR subject_id = $2)")
	if err != nil {
		return false, err
	}
	const span = `e.id > $1::text::bigint AND e.id <= $2::text::bigint AND `
	const about = `e.subject_id IN (SELECT $3::uuid UNION ALL SELECT id FROM invitations WHERE redeemed_by = $3)`
	const chosen = `e.actor_id = $3 AND e.action = ANY($4)`
	err = e.changeEvents(ctx, `data = nullif(CASE WHEN `+about+` THEN (e.data - `+personMembers+`) #- `+searchedMember+`
			WHEN `+chosen+` THEN e.data - `+chosenMembers+` ELSE e.data END, '{}'), address = CASE WHEN e.actor_id = $3 THEN NULL ELSE e.address END`,
		span+`(e.actor_id = $3 AND e.address IS NOT NULL OR `+chosen+` AND e.data ?| `+chosenMembers+`
			OR `+about+` AND (e.data ?| `+personMembers+` OR e.data #> `+searchedMember+` IS NOT NULL))`, after, end, e.person, chosenActions())
	return done, err
}

// eraseAccount deletes the person's credentials, sessions and settings, and gives the account its pseudonym. The account keeps its name as
// long as something of the person is held, because the name belongs to it.
func eraseAccount(ctx context.Context, e *eraser) (done bool, err error) {
	for _, step := range []struct{ kind, sql string }{
		{"push_subscriptions", `WITH gone AS (DELETE FROM push_subscriptions WHERE person_id = $1 RETURNING id),
			silent AS (DELETE FROM notices WHERE target_id IN (SELECT id FROM gone)) DELETE FROM call_viewers WHERE person_id = $1`},
		{"connections", `DELETE FROM oauth_connections WHERE principal_id = $1`},
		{"", `DELETE FROM oauth_flows WHERE person_id = $1`},
		{"", `DELETE FROM skill_drafts WHERE person_id = $1`},
		{"", `DELETE FROM queue_views WHERE person_id = $1`},
		{"", `DELETE FROM absences WHERE person_id = $1 OR substitute_id = $1`},
		{"", `DELETE FROM delegations WHERE person_id = $1 OR member_id = $1`},
		{"", `DELETE FROM shifts WHERE $1 = ANY(people)`},
		{"", `DELETE FROM queue_settings WHERE person_id = $1`},
		{"", `DELETE FROM sign_in_links WHERE person_id = $1`},
		{"", `DELETE FROM person_links WHERE person_id = $1 OR same_as = $1`},
		{"sessions", `DELETE FROM person_sessions WHERE person_id = $1`},
		{"tokens", `UPDATE person_tokens SET revoked_at = coalesce(revoked_at, holdpoint_now()), hint = '' WHERE person_id = $1 AND hint <> ''`},
	} {
		tag, err := e.Exec(ctx, step.sql, e.person)
		if err != nil {
			return false, err
		}
		if step.kind != "" && tag.RowsAffected() > 0 {
			e.erased[step.kind] += tag.RowsAffected()
		}
	}
	var held bool
	err = e.QueryRow(ctx, `SELECT NOT (`+e.batch.unlessHeld("NULL::uuid", "p.created_at", "holdpoint_now()")+`) FROM people p WHERE p.id = $1`, e.person).Scan(&held)
	if err != nil {
		return false, err
	}
	for kind := range e.left {
		held = held || strings.HasPrefix(kind, "held_")
	}
	if held {
		e.left["held_account"] = 1
		return true, nil
	}
	if _, err := e.Exec(ctx, `UPDATE invitations SET name = $2, email = NULL, subject = CASE WHEN issuer IS NOT NULL THEN $2 END WHERE redeemed_by = $1`,
		e.person, pseudonymOf(e.person)); err != nil {
		return false, err
	}
	tag, err := e.Exec(ctx, `UPDATE people SET issuer = $3, subject = $2, name = $2, email = NULL, verified_email = NULL, claimed_roles = '{}', claimed_teams = '{}', granted_roles = '{}',
			granted_teams = '{}', granted_agents = '{}', signed_in_at = NULL, first = false
		WHERE id = $1 AND issuer <> $3 AND NOT (issuer = $4 AND subject = $5)`, e.person, pseudonymOf(e.person), erasedIssuer, identity.LocalIssuer, identity.Bootstrap)
	if err != nil {
		return false, err
	}
	e.erased["accounts"] += tag.RowsAffected()
	return true, registry.Notify(ctx, e)
}
