package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/holdpoint/holdpoint/internal/pause"
)

const (
	// migrationLock is the advisory lock that migrating processes hold: "holdpnt\0".
	migrationLock     = 0x686f6c64706e7400
	migrationLockPoll = 50 * time.Millisecond

	// While a migration waits for a table's lock, all later statements wait behind it. So it waits only for a short time,
	// lets them pass, and tries again after growing pauses: a backup may hold the lock for an hour.
	migrationLockTimeout = 3 * time.Second
	migrationPause       = time.Second
	maxMigrationPause    = 30 * time.Second

	migrationApplication = "holdpoint migrate" // application_name of the connections that migrate
)

// ErrSchemaNewer means that a newer Holdpoint has migrated the database.
var ErrSchemaNewer = errors.New("the database was migrated by a newer Holdpoint")

// Applied is one migration that [Migrate] applied.
type Applied struct {
	Set     string // "river" or "holdpoint"
	Version int
	Name    string
}

// Migrate brings the database up to date: first the tables of the job queue, then the files NNNN_name.sql in order, each in one
// transaction with its record. Any number of processes may call it at once; one migrates and the others wait.
//
// The statements of a file that begins with "-- no transaction" run one by one, as CREATE INDEX CONCURRENTLY requires. If such
// a file is interrupted, it runs again from its beginning.
//
// No reader waits for a migration longer than three seconds, plus the time of the file itself: if a lock is not free by then,
// the file is rolled back and tried again, until the context ends. So files should be small steps. Migrate logs the sessions
// that it waits for.
//
// It returns the applied migrations even with an error. It does nothing and returns an error if an applied file has changed,
// or if the database has more migrations than these files ([ErrSchemaNewer]).
func Migrate(ctx context.Context, db *DB, files fs.FS) ([]Applied, error) {
	known, err := readMigrations(files)
	if err != nil {
		return nil, err
	}
	var conn *pgx.Conn
	err = RetryFull(ctx, db.log, func() (err error) {
		conn, err = db.connectWith(ctx, db.migrationConfig())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("migrate database: %w", err)
	}
	defer closeConn(ctx, conn) // releases the lock
	if err := db.lockMigrations(ctx, conn); err != nil {
		return nil, fmt.Errorf("migrate database: %w", err)
	}
	pending, err := pendingMigrations(ctx, conn, known)
	if err != nil {
		return nil, fmt.Errorf("migrate database: %w", err)
	}
	applied, err := migrateRiver(ctx, db)
	if err != nil {
		return applied, fmt.Errorf("migrate the job queue's tables: %w", err)
	}
	for _, m := range pending {
		if err := db.retryLocked(ctx, m.file, func() error { return m.applyFile(ctx, conn) }); err != nil {
			return applied, err
		}
		applied = append(applied, Applied{Set: "holdpoint", Version: m.version, Name: m.name})
		db.log.Info("migration applied", "version", m.version, "name", m.name)
	}
	return applied, nil
}

// migrationConfig is for connections that migrate.
func (db *DB) migrationConfig() *pgx.ConnConfig {
	cfg := db.patientConfig(setting{"lock_timeout", formatMilliseconds(migrationLockTimeout)})
	cfg.RuntimeParams["application_name"] = migrationApplication
	return cfg
}

// lockMigrations polls for the lock. A session that waited in the database would hold a snapshot, and a CREATE INDEX
// CONCURRENTLY under the lock would wait for it.
func (db *DB) lockMigrations(ctx context.Context, conn *pgx.Conn) error {
	report := time.Now().Add(firstReport)
	for {
		var locked bool
		if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", int64(migrationLock)).Scan(&locked); err != nil {
			return fmt.Errorf("take the migration lock: %w", err)
		}
		if locked {
			return nil
		}
		if time.Now().After(report) {
			db.reportLockHolder(ctx, conn)
			report = time.Now().Add(nextReport)
		}
		if err := pause.For(ctx, migrationLockPoll); err != nil {
			return fmt.Errorf("wait for the migration lock: %w", err)
		}
	}
}

// retryLocked runs f until it gets its locks in time.
func (db *DB) retryLocked(ctx context.Context, name string, f func() error) error {
	for wait := migrationPause; ; wait = min(2*wait, maxMigrationPause) {
		stop := db.reportBlockers(ctx, name)
		err := f()
		stop()
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != lockNotAvailable {
			return err
		}
		db.log.Warn("migration: a lock was not free in time, trying again", "migration", name, "waited", migrationLockTimeout)
		if err := pause.For(ctx, wait); err != nil {
			return fmt.Errorf("apply migration %s: wait for a lock: %w", name, err)
		}
	}
}

const lockNotAvailable = "55P03" // SQLSTATE

// migrateRiver migrates the tables of the job queue, on connections without the pool's limits.
func migrateRiver(ctx context.Context, db *DB) ([]Applied, error) {
	cfg := db.pool.Config()
	cfg.ConnConfig = db.migrationConfig()
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", db.redact(err))
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: db.log})
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	var existing []rivermigrate.Migration
	err = RetryFull(ctx, db.log, func() (err error) {
		existing, err = migrator.ExistingVersions(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the applied versions: %w", err)
	}
	if len(existing) == len(migrator.AllVersions()) {
		return nil, nil
	}
	err = db.retryLocked(ctx, "of the job queue", func() error { // each version is a transaction of its own
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("apply: %w", err)
	}
	var applied []Applied
	for _, v := range migrator.AllVersions()[len(existing):] {
		applied = append(applied, Applied{Set: "river", Version: v.Version, Name: v.Name})
	}
	return applied, nil
}

// applyFile applies the file in a transaction, or its statements one by one.
func (m migration) applyFile(ctx context.Context, conn *pgx.Conn) error {
	run := m.applyInTx
	if strings.HasPrefix(m.sql, noTransaction) {
		run = m.applyOneByOne
	}
	if err := run(ctx, conn); err != nil {
		return fmt.Errorf("apply migration %s: %w", m.file, err)
	}
	return nil
}

func (m migration) applyInTx(ctx context.Context, conn *pgx.Conn) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return m.locateError(err)
		}
		return m.recordApplied(ctx, tx)
	})
}

// noTransaction is the first line of a file whose statements run one by one, and all again after one did not get its lock in time. Each
// ends with a semicolon at the end of a line.
const noTransaction = "-- no transaction\n"

// applyOneByOne lets statements with CONCURRENTLY wait for locks without a limit, because no other session waits behind them.
func (m migration) applyOneByOne(ctx context.Context, conn *pgx.Conn) error {
	for statement := range strings.SplitSeq(strings.TrimSpace(m.sql), ";\n") {
		limit := migrationLockTimeout
		if strings.Contains(statement, " CONCURRENTLY ") {
			limit = 0
		}
		if _, err := conn.Exec(ctx, "SET lock_timeout = "+formatMilliseconds(limit)); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if _, err := conn.Exec(ctx, "SET lock_timeout = "+formatMilliseconds(migrationLockTimeout)); err != nil {
		return err
	}
	return m.recordApplied(ctx, conn)
}

func (m migration) recordApplied(ctx context.Context, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
},
) error {
	_, err := db.Exec(ctx, "INSERT INTO schema_migrations (version, name, checksum) VALUES ($1, $2, $3)",
		m.version, m.name, m.checksum[:])
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// locateError adds the line of the error.
func (m migration) locateError(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Position <= 0 {
		return err
	}
	characters := []rune(m.sql)
	before := string(characters[:min(int(pgErr.Position)-1, len(characters))])
	return fmt.Errorf("line %d: %w", strings.Count(before, "\n")+1, err)
}
