package approval

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Request asks for a decision about a call.
type Request struct {
	CallID      uuid.UUID
	AgentID     uuid.UUID
	PrincipalID uuid.UUID // uuid.Nil: none
	SkillID     uuid.UUID
	Tool        string
	Digest      Digest
	Rule        Rule
	Timeout     time.Duration
	Validity    time.Duration // how long the approval counts after the decision; zero: as long as was given for the decision
	Team        string        // whose queue it is in first; empty: everybody's
	EscalateTo  string        // the team that is asked at half of the deadline; empty: none
}

// Insert queues requests in tx, with deadlines by the database's clock.
func Insert(ctx context.Context, tx pgx.Tx, requests []Request) (map[uuid.UUID]time.Time, error) {
	n := len(requests)
	ids, agents, skills := make([]uuid.UUID, n), make([]uuid.UUID, n), make([]uuid.UUID, n)
	principals, digests := make([]*uuid.UUID, n), make([][]byte, n)
	tools, rules, timeouts, validities := make([]string, n), make([]string, n), make([]int64, n), make([]int64, n)
	teams, escalations := make([]string, n), make([]string, n)
	for i, r := range requests {
		ids[i], agents[i], skills[i], principals[i] = r.CallID, r.AgentID, r.SkillID, postgres.OrNull(r.PrincipalID)
		tools[i], digests[i], rules[i], timeouts[i] = r.Tool, r.Digest[:], string(r.Rule), r.Timeout.Microseconds()
		validities[i] = r.Validity.Milliseconds()
		teams[i], escalations[i] = r.Team, r.EscalateTo
	}
	rows, err := tx.Query(ctx, `INSERT INTO approvals (call_id, agent_id, principal_id, skill_id, tool, digest, status, rule,
			team, escalate_to, deadline, validity_ms)
		SELECT id, agent, principal, skill, tool, digest, 'pending', rule, nullif(team, ''), nullif(escalate, ''),
			holdpoint_now() + timeout * interval '1 microsecond', nullif(validity, 0)
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::bytea[], $7::text[], $8::bigint[],
			$9::text[], $10::text[], $11::bigint[]) AS r(id, agent, principal, skill, tool, digest, rule, timeout, team, escalate, validity)
		RETURNING call_id, deadline`, ids, agents, principals, skills, tools, digests, rules, timeouts, teams, escalations, validities)
	if err != nil {
		return nil, fmt.Errorf("insert approvals: %w", err)
	}
	deadlines := make(map[uuid.UUID]time.Time, n)
	var id uuid.UUID
	var deadline time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &deadline}, func() error {
		deadlines[id] = deadline
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("insert approvals: %w", err)
	}
	return deadlines, nil
}

const columns = `call_id, agent_id, principal_id, skill_id, tool, digest, original_digest, edit_envelope, edited_by, edited_at, created_at, deadline, extended_ms,
	decided_at, decided_by, status, rule, coalesce(team, ''), coalesce(escalate_to, ''), escalated_at, coalesce(note, ''),
	CASE WHEN status = 'approved' THEN ` + lapsesAt + ` END,
	coalesce(decided_credential_kind, ''), coalesce(decided_credential_id, ''), coalesce(decided_address, '')`

// validity is SQL: how long an approval counts after its decision.
const validity = `coalesce(validity_ms * interval '1 millisecond', (deadline - created_at) - extended_ms * interval '1 millisecond')`

// lapsesAt is SQL: when an approval lapses whose call was not sent.
const lapsesAt = `coalesce(approved_until, decided_at + ` + validity + `)`

func scan(row pgx.CollectableRow) (Approval, error) {
	var a Approval
	var digest, original, edit []byte
	var principal, editor, by *uuid.UUID
	var extended int64
	err := row.Scan(&a.CallID, &a.AgentID, &principal, &a.SkillID, &a.Tool, &digest, &original, &edit, &editor, &a.EditedAt, &a.CreatedAt,
		&a.Deadline, &extended, &a.DecidedAt, &by, &a.Status, &a.Rule, &a.Team, &a.EscalateTo, &a.EscalatedAt, &a.Note, &a.ApprovedUntil,
		&a.DecidedVia.Credential.Kind, &a.DecidedVia.Credential.ID, &a.DecidedVia.Address)
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
	if editor != nil {
		a.EditedBy = *editor
	}
	if principal != nil {
		a.PrincipalID = *principal
	}
	if by != nil {
		a.DecidedBy = *by
	}
	a.Extended = time.Duration(extended) * time.Millisecond
	return a, nil
}

// Lock takes the approval's row lock and returns it with the database's time,
// read once the lock was held.
func Lock(ctx context.Context, tx pgx.Tx, callID uuid.UUID) (Approval, time.Time, error) {
	var a Approval
	var now time.Time
	batch := &pgx.Batch{}
	batch.Queue(`SELECT `+columns+` FROM approvals WHERE call_id = $1 FOR UPDATE`, callID)
	batch.Queue(`SELECT holdpoint_now()`)
	results := tx.SendBatch(ctx, batch)
	rows, _ := results.Query() // an error here is an error of rows
	a, err := pgx.CollectExactlyOneRow(rows, scan)
	if err == nil {
		err = results.QueryRow().Scan(&now)
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return a, now, ErrNotFound
	}
	if err != nil {
		return a, now, fmt.Errorf("lock approval %s: %w", callID, err)
	}
	return a, now, nil
}

// Settle gives a pending approval its one outcome. When it has one already
// the error is a *[ConflictError]. It keeps the origin of the decision that ctx carries.
func Settle(ctx context.Context, tx pgx.Tx, a Approval, outcome Status, by uuid.UUID, note string) (Approval, error) {
	var via audit.Origin
	if by != uuid.Nil {
		via = audit.OriginOf(ctx, audit.Person(by))
	}
	rows, err := tx.Query(ctx, `UPDATE approvals
		SET status = $2, decided_at = holdpoint_now(), decided_by = $3, note = nullif($4, ''), taken_up_at = `+takenUp+`,
			decided_credential_kind = nullif($5, ''), decided_credential_id = nullif($6, ''), decided_address = nullif($7, '')
		WHERE call_id = $1 AND decided_at IS NULL RETURNING `+columns,
		a.CallID, outcome, postgres.OrNull(by), note, via.Credential.Kind, via.Credential.ID, via.Address)
	if err != nil {
		return a, fmt.Errorf("settle approval %s: %w", a.CallID, err)
	}
	settled, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return a, &ConflictError{Approval: a}
	}
	if err != nil {
		return a, fmt.Errorf("settle approval %s: %w", a.CallID, err)
	}
	return settled, nil
}

// Filter selects approvals. Zero fields select all.
type Filter struct {
	Status Status
	Before uuid.UUID // only older ones
	Limit  int
}

// List returns approvals, newest first. A pending one whose deadline has
// passed counts, and shows, as expired.
func List(ctx context.Context, db postgres.Querier, f Filter) ([]Approval, error) {
	if f.Status == Pending {
		return collect(ctx, db, `SELECT `+columns+` FROM approvals
			WHERE status = 'pending' AND deadline > (SELECT holdpoint_now()) AND ($1::uuid IS NULL OR call_id < $1)
			ORDER BY call_id DESC LIMIT $2`, postgres.OrNull(f.Before), f.Limit)
	}
	return collect(ctx, db, `SELECT `+columns+` FROM (`+present+`) AS approvals
		WHERE ($1 = '' OR status = $1) AND ($2::uuid IS NULL OR call_id < $2)
		ORDER BY call_id DESC LIMIT $3`, string(f.Status), postgres.OrNull(f.Before), f.Limit)
}

// present shows overdue approvals as what they are, before anyone has written it.
const present = `SELECT call_id, agent_id, principal_id, skill_id, tool, digest, original_digest, edit_envelope, edited_by, edited_at, created_at,
	deadline, extended_ms,
	decided_at, decided_by, rule, team, escalate_to, escalated_at, note, approved_until, validity_ms,
	decided_credential_kind, decided_credential_id, decided_address,
	CASE WHEN status = 'pending' AND deadline <= holdpoint_now() THEN 'expired' ELSE status END AS status
	FROM approvals`

// Get returns a call's approval, or ErrNotFound.
func Get(ctx context.Context, db postgres.Querier, callID uuid.UUID) (Approval, error) {
	found, err := collect(ctx, db, `SELECT `+columns+` FROM (`+present+`) AS approvals WHERE call_id = $1`, callID)
	if err != nil {
		return Approval{}, err
	}
	if len(found) == 0 {
		return Approval{}, ErrNotFound
	}
	return found[0], nil
}

// Of returns the approvals of several calls; those that have none are left out.
func Of(ctx context.Context, db postgres.Querier, callIDs ...uuid.UUID) ([]Approval, error) {
	return collect(ctx, db, `SELECT `+columns+` FROM (`+present+`) AS approvals WHERE call_id = ANY($1)`, callIDs)
}

// Lapsed is a condition of SQL: whether the approval of a call has lapsed, so that the call must not be sent any more. callID
// is an expression of the caller's statement.
func Lapsed(callID string) string {
	return `EXISTS (SELECT FROM approvals WHERE approvals.call_id = ` + callID + ` AND status = 'approved' AND ` + lapsesAt + ` <= holdpoint_now())`
}

// Renew starts the time of an approved call anew: it waited for a connection meanwhile.
func Renew(ctx context.Context, tx pgx.Tx, callID uuid.UUID) error {
	_, err := tx.Exec(ctx, `UPDATE approvals
		SET approved_until = holdpoint_now() + `+validity+`
		WHERE call_id = $1 AND status = 'approved'`, callID)
	if err != nil {
		return fmt.Errorf("renew approval %s: %w", callID, err)
	}
	return nil
}

// TimeLeft is how long, by the database's clock, a pending approval still has.
// It is ErrNotFound when none is pending.
func TimeLeft(ctx context.Context, db postgres.Querier, callID uuid.UUID) (time.Duration, error) {
	rows, err := db.Query(ctx, `SELECT extract(epoch FROM deadline - holdpoint_now())::float8
		FROM approvals WHERE call_id = $1 AND decided_at IS NULL`, callID)
	if err != nil {
		return 0, fmt.Errorf("read time left of approval %s: %w", callID, err)
	}
	seconds, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[float64])
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, fmt.Errorf("read time left of approval %s: %w", callID, err)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}

func collect(ctx context.Context, db postgres.Querier, sql string, args ...any) ([]Approval, error) {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	approvals, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	return approvals, nil
}

// DecidedBy is a condition of SQL: whether a person among people decided about a call. Both are expressions
// of the caller's statement, its id of the call and its array of people.
func DecidedBy(callID, people string) string {
	return `EXISTS (SELECT FROM approvals WHERE approvals.call_id = ` + callID + ` AND approvals.decided_by = ANY(` + people + `))`
}
