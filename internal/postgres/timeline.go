package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Timeline identifies the history of a server. A standby that is promoted, and a server that is restored to a point in time, begin a new
// one, with a higher number. Their last commits may be missing.
type Timeline uint32

// showTimeline is a statement that shows the timeline in hexadecimal, or nothing on a standby.
const showTimeline = "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END"

// timelineKey is the key of a connection's timeline.
const timelineKey = "timeline"

// Timeline returns the highest timeline that a connection has found. Every connection notes its own before it is used. Zero: the
// server does not tell.
func (db *DB) Timeline() Timeline { return Timeline(db.timeline.Load()) }

// TimelineOf returns the timeline that a connection found when it was made. Zero: the server does not tell.
func TimelineOf(conn *pgx.Conn) Timeline {
	timeline, _ := conn.PgConn().CustomData()[timelineKey].(Timeline)
	return timeline
}

// isPresent reports whether a pool may go on using a connection. One from before a promotion that another connection found may lead to the
// old primary.
func (db *DB) isPresent(_ context.Context, conn *pgx.Conn) (bool, error) {
	return TimelineOf(conn) >= db.Timeline(), nil
}

// noteTimeline notes the timeline of a new connection. It refuses an earlier one than another connection found: its server was replaced,
// and still takes writes.
func (db *DB) noteTimeline(conn *pgconn.PgConn, text string) error {
	number, err := strconv.ParseUint(text, 16, 32)
	if err != nil {
		return nil //nolint:nilerr // a standby
	}
	conn.CustomData()[timelineKey] = Timeline(number)
	for {
		known := db.timeline.Load()
		switch {
		case uint32(number) < known:
			return fmt.Errorf("the server is on timeline %d, and another one with the same database was promoted to timeline %d; "+
				"stop the old primary", number, known)
		case db.timeline.CompareAndSwap(known, uint32(number)):
			return nil
		}
	}
}
