package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	firstReport = time.Second
	nextReport  = 30 * time.Second
)

// describeSession is SQL that describes the session a for logs.
const describeSession = `format('pid %s (%s from %s, %s for %s s)', a.pid, coalesce(nullif(a.application_name, ''), 'no name'),
	coalesce(a.client_addr::text, 'this machine'), coalesce(a.state, 'hidden'), round(extract(epoch FROM clock_timestamp() - a.state_change)))`

// reportLockHolder logs the session that holds the migration lock. A pooler or a lost connection may have left it open.
func (db *DB) reportLockHolder(ctx context.Context, conn *pgx.Conn) {
	holders, err := listSessions(ctx, conn, `SELECT `+describeSession+` FROM pg_locks l JOIN pg_stat_activity a USING (pid)
		WHERE l.locktype = 'advisory' AND l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = $1`, int64(migrationLock))
	db.log.Warn("migration: waiting for the migration lock, which another session holds; if no Holdpoint is migrating, "+
		"end that session with SELECT pg_terminate_backend(pid)", "held_by", holders, "error", err)
}

// reportBlockers logs the sessions whose locks a migration waits for, until stop is called.
func (db *DB) reportBlockers(ctx context.Context, name string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, firstReport) == nil {
			blockers, err := listSessions(ctx, db.pool, `SELECT DISTINCT `+describeSession+` FROM pg_stat_activity w
				CROSS JOIN unnest(pg_blocking_pids(w.pid)) AS blocking(pid) JOIN pg_stat_activity a ON a.pid = blocking.pid
				WHERE w.datname = current_database() AND w.application_name = $1 AND w.wait_event_type = 'Lock'`, migrationApplication)
			if err == nil && blockers != "" {
				db.log.Warn("migration: waiting for a lock", "migration", name, "held_by", blockers)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func listSessions(ctx context.Context, db Querier, query string, args ...any) (string, error) {
	found, err := Collect(ctx, db, pgx.RowTo[string], query, args...)
	if err != nil {
		return "", fmt.Errorf("list sessions: %w", err)
	}
	return strings.Join(found, ", "), nil
}
