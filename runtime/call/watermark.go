package call

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The watermark, call_counting.until, is the end of the hours that are counted. Every call made before it has ended and is counted,
// except for the stragglers in call_stragglers. No index has the status of a call, so recovery depends on this: an open call has
// a recent id, or it is a straggler. Package figures decides when to count, and moves the watermark with the functions below.

// idSlack is how far the clocks of processes, from which ids are made, may be from the database's.
const idSlack = time.Hour

// endedSQL holds for calls whose status does not change any more.
const endedSQL = `status NOT IN ('needs_connection', 'parked', 'approved', 'executing')`

// Clock is the database's time, and how far tests have moved it.
type Clock struct {
	Now    time.Time
	offset time.Duration
}

// ReadClock reads the database's time.
func ReadClock(ctx context.Context, tx pgx.Tx) (Clock, error) {
	var c Clock
	var offset float64
	err := tx.QueryRow(ctx, `SELECT now, date_part('epoch', now - clock_timestamp()) FROM (SELECT holdpoint_now() AS now) c`).
		Scan(&c.Now, &offset)
	if err != nil {
		return Clock{}, fmt.Errorf("read clock: %w", err)
	}
	c.offset = time.Duration(offset * float64(time.Second))
	return c, nil
}

// idRange returns the range of ids, without its end, that holds all calls made in [from, to). It holds others too.
func (c Clock) idRange(from, to time.Time) (first, end uuid.UUID) {
	return FirstID(from.Add(-idSlack - max(c.offset, 0))), FirstID(to.Add(idSlack - min(c.offset, 0)))
}

// readWatermark returns the watermark. It is zero if nothing was counted yet.
func readWatermark(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	return queryWatermark(ctx, tx, `SELECT until FROM call_counting`)
}

// LockWatermark locks and returns the watermark. It starts at the hour of the first call, and is zero if there are no calls.
func LockWatermark(ctx context.Context, tx pgx.Tx) (time.Time, error) {
	// No call is older than the one with the first id by more than clocks may differ.
	_, err := tx.Exec(ctx, `INSERT INTO call_counting (until)
		SELECT date_bin(interval '1 hour', created_at - $1 * interval '1 second', 'epoch') FROM calls
		WHERE NOT EXISTS (SELECT FROM call_counting) ORDER BY id LIMIT 1 ON CONFLICT DO NOTHING`, idSlack.Seconds())
	if err != nil {
		return time.Time{}, fmt.Errorf("start watermark: %w", err)
	}
	return queryWatermark(ctx, tx, `SELECT until FROM call_counting FOR UPDATE`)
}

func queryWatermark(ctx context.Context, tx pgx.Tx, sql string) (time.Time, error) {
	var until time.Time
	err := tx.QueryRow(ctx, sql).Scan(&until)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, fmt.Errorf("read watermark: %w", err)
	}
	return until, nil
}

// AdvanceWatermark moves the locked watermark from one hour to another. The ended calls made between the two become the relation
// done of the SQL add; the others become stragglers. It is one statement, so a call that ends meanwhile is counted once. The SQL
// continues a WITH list and may use arg as $1.
func AdvanceWatermark(ctx context.Context, tx pgx.Tx, clock Clock, from, to time.Time, add string, arg any) error {
	first, end := clock.idRange(from, to)
	_, err := tx.Exec(ctx, `WITH made AS (SELECT id, `+countedColumns+`
			FROM calls WHERE id >= $2 AND id < $3 AND created_at >= $4 AND created_at < $5
				AND NOT EXISTS (SELECT FROM call_stragglers WHERE call_id = id)),
		done AS (SELECT `+countedColumns+` FROM made WHERE `+endedSQL+`),
		open AS (INSERT INTO call_stragglers SELECT id FROM made WHERE NOT `+endedSQL+`)`+add+`
		UPDATE call_counting SET until = $5`, arg, first, end, from, to)
	if err != nil {
		return fmt.Errorf("advance watermark from %s to %s: %w", from, to, err)
	}
	return nil
}

// RemoveStragglers removes the stragglers made before the watermark that have ended. As in [AdvanceWatermark], they become the
// relation done of the SQL add.
func RemoveStragglers(ctx context.Context, tx pgx.Tx, add string, arg any) error {
	_, err := tx.Exec(ctx, `WITH done AS (DELETE FROM call_stragglers USING calls WHERE id = call_id AND `+endedSQL+`
			AND created_at < (SELECT until FROM call_counting) RETURNING `+countedColumns+`)`+add+` SELECT`, arg)
	if err != nil {
		return fmt.Errorf("remove stragglers: %w", err)
	}
	return nil
}

// countedColumns are the columns of calls that figures are about.
const countedColumns = `created_at, agent_id, skill_id, tool, status, failure, code, measured, error_line`

// UncountedCalls is SQL for the rows of the calls made in a range of time that no counted hour has: those that are not counted, and those of
// cut hours. Its parameters, $1 to $8, are those that [UncountedArgs] returns.
const UncountedCalls = `(SELECT ` + countedColumns + ` FROM calls WHERE id IN (SELECT call_id FROM call_stragglers)
		AND created_at >= $1 AND created_at < $2 AND NOT (id >= $4 AND id < $5 AND created_at >= $3)
	UNION ALL SELECT ` + countedColumns + ` FROM calls WHERE id >= $4 AND id < $5 AND created_at >= $3 AND created_at < $2
	UNION ALL SELECT ` + countedColumns + ` FROM unnest($6::timestamptz[], $7::uuid[], $8::uuid[]) AS cut (hour, first_id, end_id)
		JOIN calls ON id >= first_id AND id < end_id AND created_at >= hour AND created_at < hour + interval '1 hour'
		WHERE created_at >= $1 AND created_at < $2 AND created_at < $3 AND id NOT IN (SELECT call_id FROM call_stragglers))`

// UncutHour is a condition in SQL: an hour of the counts is in the range of [UncountedArgs], and all of it is in one bucket.
const UncutHour = `hour >= $1 AND hour < $2 AND hour <> ALL($6)`

// UncountedArgs returns the parameters of [UncountedCalls]: the range [from, to), the start of its part after the watermark, the ids of
// that part, and the hours that the range or one of the times within it cuts, with their ids. Counts are of whole hours in UTC.
func UncountedArgs(ctx context.Context, tx pgx.Tx, clock Clock, from, to time.Time, within ...time.Time) ([]any, error) {
	tail, err := readWatermark(ctx, tx)
	if err != nil {
		return nil, err
	}
	if tail.Before(from) {
		tail = from
	}
	first, end := clock.idRange(tail, to)
	if !tail.Before(to) {
		end = first
	}
	cut, firsts, ends := []time.Time{}, []uuid.UUID{}, []uuid.UUID{}
	for _, t := range slices.Concat([]time.Time{from, to}, within) {
		hour := t.UTC().Truncate(time.Hour)
		if hour.Equal(t) || slices.Contains(cut, hour) {
			continue
		}
		first, end := clock.idRange(hour, hour.Add(time.Hour))
		cut, firsts, ends = append(cut, hour), append(firsts, first), append(ends, end)
	}
	return []any{from, to, tail, first, end, cut, firsts, ends}, nil
}

// findStragglers returns the ids of new calls that are much older than the calls, or have no time in them. Recovery and figures do not
// find such calls by recent ids.
func (s *Service) findStragglers(items []*intakeItem) []uuid.UUID {
	var ids []uuid.UUID
	limit := FirstID(s.Now().Add(s.pulse.clockSkew() - idSlack/2))
	for _, item := range items {
		if id := item.call.ID; id.Version() != 7 || bytes.Compare(id[:], limit[:]) < 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

const insertStragglersSQL = `INSERT INTO call_stragglers SELECT unnest($1::uuid[]) ON CONFLICT DO NOTHING`

// FirstID returns the smallest UUID of version 7 that has a time.
func FirstID(t time.Time) uuid.UUID {
	var id uuid.UUID
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(max(t.UnixMilli(), 0)))
	copy(id[:6], ms[2:])
	return id
}
