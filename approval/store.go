package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Request is a request for a decision on a call.
type Request struct {
	CallID      uuid.UUID
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: none
	SkillID     uuid.UUID
	Tool        string
	Destructive bool // as the tool's server claims
	Unusual     int  // arguments that differ from those of approved calls
	Digest      Digest
	Rule        Rule
	Timeout     time.Duration
	Validity    time.Duration    // how long an approval is valid after the decision; zero: Timeout
	Team        string           // the team that is asked first; empty: none
	EscalateTo  string           // the team that is also asked when half of the time is over; empty: none
	Escalation  []EscalationStep // in place of EscalateTo
	Policies    []policy.Policy
}

// Insert adds pending approvals and returns their deadlines.
func Insert(ctx context.Context, tx pgx.Tx, requests []Request) (map[uuid.UUID]time.Time, error) {
	n := len(requests)
	ids, agents, skills := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	principals, digests := make([]*uuid.UUID, n), make([][]byte, n)
	tools, rules, timeouts, validities := make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	teams, escalations, destructive, unusual := make([]string, n), make([]string, n), make([]bool, n), make([]int, n)
	policies, policyTeams, steps := make([]*string, n), make([]*string, n), make([]*string, n)
	for i, r := range requests {
		ids[i], agents[i], skills[i], principals[i] = r.CallID, r.AgentID, r.SkillID, postgres.OrNull(r.PrincipalID)
		tools[i], digests[i], rules[i], timeouts[i] = r.Tool, r.Digest[:], string(r.Rule), r.Timeout.Microseconds()
		validities[i] = r.Validity.Milliseconds()
		teams[i], escalations[i], destructive[i], unusual[i] = r.Team, r.EscalateTo, r.Destructive, r.Unusual
		policies[i], policyTeams[i], steps[i] = postgres.JSONOrNull(r.Policies), encodeTeams(r.Policies), postgres.JSONOrNull(r.Escalation)
	}
	rows, _ := tx.Query(ctx, `INSERT INTO approvals (call_id, agent_id, principal_id, skill_id, tool, digest, status, rule,
			team, escalate_to, deadline, validity_ms, destructive, unusual, policies, policy_teams, escalation)
		SELECT id, agent, principal, skill, tool, digest, 'pending', rule, nullif(team, ''), nullif(escalate, ''),
			holdpoint_now() + timeout * interval '1 microsecond', nullif(validity, 0), destructive, unusual,
			policies, ARRAY(SELECT jsonb_array_elements_text(policy_teams)), steps
		FROM unnest((SELECT $1::uuid[]), $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::bytea[], $7::text[], $8::bigint[],
			$9::text[], $10::text[], $11::bigint[], $12::boolean[], $13::integer[], $14::jsonb[], $15::jsonb[], $16::jsonb[]) AS r(id, agent, principal, skill, tool, digest, rule,
			timeout, team, escalate, validity, destructive, unusual, policies, policy_teams, steps)
		RETURNING call_id, deadline`,
		ids, agents, principals, skills, tools, digests, rules, timeouts, teams, escalations, validities, destructive, unusual, policies, policyTeams, steps)
	deadlines := make(map[uuid.UUID]time.Time, n)
	var id uuid.UUID
	var deadline time.Time
	_, err := pgx.ForEachRow(rows, []any{&id, &deadline}, func() error {
		deadlines[id] = deadline
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("insert approvals: %w", err)
	}
	return deadlines, nil
}

const approvalColumns = `call_id, agent_id, principal_id, skill_id, tool, digest, original_digest, edit_envelope, edited_by, edited_at, created_at, deadline, extended_ms,
	decided_at, decided_by, status, rule, coalesce(team, ''), coalesce(escalate_to, ''), escalated_at, coalesce(note, ''),
	CASE WHEN status = 'approved' THEN ` + lapsesAtSQL + ` END,
	coalesce(decided_credential_kind, ''), coalesce(decided_credential_id, ''), coalesce(decided_address, ''),
	undo_until, seen_rows, seen_of, seen_unusual, seen_ms, second_step, destructive, unusual, held_by, held_at, assigned_by, comments, policies,
	broke_glass, glass_reviewed_by, glass_reviewed_at, coalesce(glass_note, ''),
	escalation, escalated_times, asked_teams, asked_people, coalesce(asked_at, created_at)`

// validitySQL is how long an approval is valid after its decision.
const validitySQL = `coalesce(validity_ms * interval '1 millisecond', (deadline - created_at) - extended_ms * interval '1 millisecond')`

// lapsesAtSQL is when an approval lapses if its call has not been sent.
const lapsesAtSQL = `coalesce(approved_until, decided_at + ` + validitySQL + `)`

func scanApproval(row pgx.CollectableRow) (Approval, error) {
	var a Approval
	var digest, original, edit []byte
	var principal, editor, by, holder, assigner, glassReviewer *uuid.UUID
	var glassReviewed *time.Time
	var glassNote string
	var extended int64
	var rows, of, unusual *int
	var shown *int64
	var second *bool
	err := row.Scan(&a.CallID, &a.AgentID, &principal, &a.SkillID, &a.Tool, &digest, &original, &edit, &editor, &a.EditedAt, &a.CreatedAt,
		&a.Deadline, &extended, &a.DecidedAt, &by, &a.Status, &a.Rule, &a.Team, &a.EscalateTo, &a.EscalatedAt, &a.Note, &a.ApprovedUntil,
		&a.DecidedVia.Credential.Kind, &a.DecidedVia.Credential.ID, &a.DecidedVia.Address, &a.UndoUntil, &rows, &of, &unusual, &shown, &second,
		&a.Destructive, &a.Unusual, &holder, &a.HeldAt, &assigner, &a.Comments, &a.Policies,
		&a.BrokeGlass, &glassReviewer, &glassReviewed, &glassNote,
		&a.Escalation, &a.EscalatedTimes, &a.AskedTeams, &a.AskedPeople, &a.AskedAt)
	if err != nil {
		return a, err
	}
	for _, stored := range []struct {
		bytes []byte
		to    *Digest
	}{{digest, &a.Digest}, {original, &a.Original}, {edit, &a.editEnvelope}} {
		if stored.bytes != nil && (copy(stored.to[:], stored.bytes) != len(stored.bytes) || len(stored.bytes) != len(stored.to)) {
			return a, fmt.Errorf("digest of %d bytes", len(stored.bytes))
		}
	}
	a.PrincipalID, a.EditedBy, a.DecidedBy = postgres.OrNil(principal), postgres.OrNil(editor), postgres.OrNil(by)
	a.HeldBy, a.AssignedBy = postgres.OrNil(holder), postgres.OrNil(assigner)
	a.Extended = time.Duration(extended) * time.Millisecond
	if rows != nil && of != nil && unusual != nil && shown != nil && second != nil {
		a.Seen = &Seen{Rows: *rows, Of: *of, Unusual: *unusual, Shown: time.Duration(*shown) * time.Millisecond, SecondStep: *second}
	}
	if glassReviewer != nil && glassReviewed != nil {
		a.GlassReview = &GlassReview{*glassReviewer, *glassReviewed, glassNote}
	}
	return a, nil
}

// Lock takes the approval's row lock. It returns the approval and the database's time, read after the lock was taken.
func Lock(ctx context.Context, tx pgx.Tx, callID uuid.UUID) (a Approval, now time.Time, err error) {
	batch := &pgx.Batch{}
	QueueLock(batch, callID, &a, &now)
	err = tx.SendBatch(ctx, batch).Close()
	return a, now, err
}

// QueueLock adds [Lock] to a batch. Closing the batch returns [ErrNotFound] if there is no such approval.
func QueueLock(batch *pgx.Batch, callID uuid.UUID, a *Approval, now *time.Time) {
	batch.Queue(`SELECT `+approvalColumns+` FROM approvals WHERE call_id = $1 FOR UPDATE`, callID).Query(readInto(a, "lock", callID))
	batch.Queue(`SELECT holdpoint_now()`).QueryRow(func(row pgx.Row) error { return row.Scan(now) })
}

// readInto returns the callback of a query for one approval. Its error is [ErrNotFound] if there is none.
func readInto(a *Approval, action string, callID uuid.UUID) func(pgx.Rows) error {
	return func(rows pgx.Rows) (err error) {
		*a, err = pgx.CollectExactlyOneRow(rows, scanApproval)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return ErrNotFound
		case err != nil:
			return fmt.Errorf("%s approval %s: %w", action, callID, err)
		}
		return nil
	}
}

// Settlement is the outcome of an approval.
type Settlement struct {
	Status Status
	By     uuid.UUID // uuid.Nil: no person decided
	Note   string
	Seen   *Seen // nil: not measured
	// Undo is how long an approved call is not claimed, so that the reviewer can take the approval back. Zero: it is sent at once.
	Undo time.Duration
	// BreakGlass: one person approves alone, though policies ask for others.
	BreakGlass bool
}

// Seen has the dashboard's measurements before a decision. The reviewer's browser reports it, so it is a record and no proof.
type Seen struct {
	Rows, Of   int           // arguments that were on the screen, of all
	Unusual    int           // of all, those that differ from approved calls
	Shown      time.Duration // how long the call was on the screen
	SecondStep bool          // the reviewer confirmed in a second step
}

// QueueSettle adds the only outcome of a pending approval to a batch, with the origin of the decision of a person, under an SQL condition
// in which e.subject_id is the call. Once the batch is closed, a is the settled approval. Closing it returns a *[ConflictError] if the
// approval was settled before, or the condition does not hold.
func QueueSettle(batch *pgx.Batch, condition string, a *Approval, s Settlement, via audit.Origin) {
	if s.By == uuid.Nil {
		via = audit.Origin{}
	}
	var seen Seen
	if s.Seen != nil {
		seen = *s.Seen
	}
	queuePending(batch, a, "settle", condition, `status = $2, policies_met = $2 = 'approved', decided_at = holdpoint_now(), decided_by = $3, note = nullif($4, ''),
			taken_up_at = `+takenUpSQL+`, decided_credential_kind = nullif($5, ''), decided_credential_id = nullif($6, ''),
			decided_address = nullif($7, ''), undo_until = holdpoint_now() + nullif($8::bigint, 0) * interval '1 millisecond',
			seen_rows = CASE WHEN $9 THEN $10::int END, seen_of = CASE WHEN $9 THEN $11::int END, seen_unusual = CASE WHEN $9 THEN $12::int END,
			seen_ms = CASE WHEN $9 THEN $13::bigint END, second_step = CASE WHEN $9 THEN $14::boolean END, broke_glass = $15`,
		s.Status, postgres.OrNull(s.By), s.Note, via.Credential.Kind, via.Credential.ID, via.Address, s.Undo.Milliseconds(),
		s.Seen != nil, seen.Rows, seen.Of, seen.Unusual, seen.Shown.Milliseconds(), seen.SecondStep, s.BreakGlass)
}

// updatePending runs an UPDATE with these assignments on a pending approval, and returns the new row. Parameter $1 is the
// call's id, args begin at $2. If the approval is not pending it returns a *[ConflictError] with a.
func updatePending(ctx context.Context, tx pgx.Tx, a Approval, action, assignments string, args ...any) (Approval, error) {
	batch := &pgx.Batch{}
	queuePending(batch, &a, action, "true", assignments, args...)
	err := tx.SendBatch(ctx, batch).Close()
	return a, err
}

// queuePending adds [updatePending] to a batch, under an SQL condition in which e.subject_id is the call.
func queuePending(batch *pgx.Batch, a *Approval, action, condition, assignments string, args ...any) {
	batch.Queue(`UPDATE approvals SET `+assignments+` FROM (SELECT $1::uuid AS subject_id) AS e
			WHERE call_id = e.subject_id AND decided_at IS NULL AND `+condition+` RETURNING `+approvalColumns,
		append([]any{a.CallID}, args...)...).Query(func(rows pgx.Rows) error {
		var updated Approval
		switch err := readInto(&updated, action, a.CallID)(rows); {
		case errors.Is(err, ErrNotFound):
			return &ConflictError{Approval: *a}
		case err != nil:
			return err
		}
		*a = updated
		return nil
	})
}

// Filter selects approvals. Zero fields select all.
type Filter struct {
	Status Status
	Before uuid.UUID // only older approvals
	Limit  int
}

// List returns approvals, the newest first. A pending approval whose deadline has passed is returned as expired.
func List(ctx context.Context, db postgres.Querier, f Filter) ([]Approval, error) {
	if f.Status == Pending {
		return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM approvals
			WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) AND ($1::uuid IS NULL OR call_id < $1)
			ORDER BY call_id DESC LIMIT $2`, postgres.OrNull(f.Before), f.Limit)
	}
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM (`+presentSQL+`) AS approvals
		WHERE ($1 = '' OR status = $1) AND ($2::uuid IS NULL OR call_id < $2)
		ORDER BY call_id DESC LIMIT $3`, string(f.Status), postgres.OrNull(f.Before), f.Limit)
}

// presentSQL selects from approvals and returns overdue ones as expired before that is recorded.
const presentSQL = `SELECT call_id, agent_id, principal_id, skill_id, tool, digest, original_digest, edit_envelope, edited_by, edited_at, created_at,
	deadline, extended_ms,
	decided_at, decided_by, rule, team, escalate_to, escalated_at, note, approved_until, validity_ms,
	decided_credential_kind, decided_credential_id, decided_address, undo_until, seen_rows, seen_of, seen_unusual, seen_ms, second_step,
	destructive, unusual, held_by, held_at, assigned_by, comments, policies, policy_teams, broke_glass, glass_reviewed_by, glass_reviewed_at, glass_note,
	escalation, escalated_times, asked_teams, asked_people, asked_at,
	CASE WHEN status = 'pending' AND deadline <= holdpoint_now() THEN 'expired' ELSE status END AS status
	FROM approvals`

// Get returns a call's approval, or [ErrNotFound].
func Get(ctx context.Context, db postgres.Querier, callID uuid.UUID) (Approval, error) {
	return queryApproval(ctx, db, `SELECT `+approvalColumns+` FROM (`+presentSQL+`) AS approvals WHERE call_id = $1`, callID)
}

// QueueGet adds the read of a call's approval to a batch. Closing the batch returns [ErrNotFound] if there is none.
func QueueGet(batch *pgx.Batch, callID uuid.UUID, into *Approval) {
	batch.Queue(`SELECT `+approvalColumns+` FROM (`+presentSQL+`) AS approvals WHERE call_id = $1`, callID).Query(readInto(into, "read", callID))
}

// QueueFind adds the read of a call's approval to a batch. into becomes nil if there is none.
func QueueFind(batch *pgx.Batch, callID uuid.UUID, into **Approval) {
	batch.Queue(`SELECT `+approvalColumns+` FROM (`+presentSQL+`) AS approvals WHERE call_id = $1`, callID).Query(func(rows pgx.Rows) error {
		var found Approval
		switch err := readInto(&found, "read", callID)(rows); {
		case errors.Is(err, ErrNotFound):
			*into = nil
		case err != nil:
			return err
		default:
			*into = &found
		}
		return nil
	})
}

// ListByCall returns the approvals of the calls. Calls without an approval are left out.
func ListByCall(ctx context.Context, db postgres.Querier, callIDs ...uuid.UUID) ([]Approval, error) {
	return queryApprovals(ctx, db, `SELECT `+approvalColumns+` FROM (`+presentSQL+`) AS approvals WHERE call_id = ANY($1)`, callIDs)
}

// LockOverdue takes the row locks of at most limit pending approvals whose deadline has passed. It leaves out those that are locked.
func LockOverdue(ctx context.Context, tx pgx.Tx, limit int) ([]Approval, error) {
	return queryApprovals(ctx, tx, `SELECT `+approvalColumns+` FROM approvals
		WHERE status = 'pending' AND deadline <= (SELECT holdpoint_now()) LIMIT $1 FOR UPDATE SKIP LOCKED`, limit)
}

// Lapsed returns a condition in SQL: the approval of a call has lapsed, so the call must not be sent. callID is an
// expression of the caller's statement.
func Lapsed(callID string) string {
	return `EXISTS (SELECT FROM approvals WHERE approvals.call_id = ` + callID + ` AND status = 'approved' AND ` + lapsesAtSQL + ` <= holdpoint_now())`
}

// Renew restarts the validity of an approval whose call had to wait for a connection.
func Renew(ctx context.Context, tx pgx.Tx, callID uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE approvals
		SET approved_until = holdpoint_now() + `+validitySQL+`
		WHERE call_id = $1 AND status = 'approved'`, callID)
	if err != nil {
		return fmt.Errorf("renew approval %s: %w", callID, err)
	}
	return nil
}

// TimeLeft returns the time until a pending approval's deadline. It returns [ErrNotFound] if the approval is not pending.
func TimeLeft(ctx context.Context, db postgres.Querier, callID uuid.UUID) (time.Duration, error) {
	rows, _ := db.Query(ctx, `SELECT extract(epoch FROM deadline - holdpoint_now())::float8
		FROM approvals WHERE call_id = $1 AND decided_at IS NULL`, callID)
	seconds, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[float64])
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("read time left of approval %s: %w", callID, err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

// PrincipalOf returns an SQL expression for the principal of a call, NULL if it has none. callID is an expression of the caller's
// statement.
func PrincipalOf(callID string) string {
	return `(SELECT principal_id FROM approvals WHERE approvals.call_id = ` + callID + `)`
}

// DecidedBy returns a condition in SQL: one of people decided on a call. callID (the call's id) and people (an array of ids)
// are expressions of the caller's statement.
func DecidedBy(callID, people string) string {
	return `EXISTS (SELECT FROM approvals WHERE approvals.call_id = ` + callID + ` AND approvals.decided_by = ANY(` + people + `))`
}

// HasStatus returns a condition in SQL: the approval of a call has one of these statuses. callID and statuses (an array) are
// expressions of the caller's statement.
func HasStatus(callID, statuses string) string {
	return `EXISTS (SELECT FROM approvals WHERE approvals.call_id = ` + callID + ` AND approvals.status = ANY(` + statuses + `))`
}

func queryApprovals(ctx context.Context, db postgres.Querier, sql string, args ...any) ([]Approval, error) {
	rows, _ := db.Query(ctx, sql, args...)
	approvals, err := pgx.CollectRows(rows, scanApproval)
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	return approvals, nil
}

// queryApproval returns the only row, or [ErrNotFound].
func queryApproval(ctx context.Context, db postgres.Querier, sql string, args ...any) (Approval, error) {
	found, err := queryApprovals(ctx, db, sql, args...)
	if err != nil {
		return Approval{}, err
	}
	if len(found) == 0 {
		return Approval{}, ErrNotFound
	}
	return found[0], nil
}

// queryRow reads the only row into a T. action is for the error.
func queryRow[T any](ctx context.Context, db postgres.Querier, action, sql string, args ...any) (T, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", action, err)
	}
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[T])
	if err != nil {
		return row, fmt.Errorf("%s: %w", action, err)
	}
	return row, nil
}
