package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultMaxConns is the default of [Config].MaxConns.
const DefaultMaxConns = 20

// Config configures the database to open.
type Config struct {
	// DatabaseURL names a PostgreSQL 14 or newer, as a URL or as
	// keyword=value pairs. Empty: the embedded cluster in DataDir.
	DatabaseURL string

	// SessionURL names the same database, past a pooler in transaction mode that DatabaseURL leads to. What needs a session of
	// its own uses it: notifications, migrations and [DB.SessionConfig]. Empty: DatabaseURL, which must then keep sessions.
	SessionURL string

	// ReadURL names a standby of the database of DatabaseURL, for [DB.Reader]. Empty: there is none.
	ReadURL string

	// DataDir is the directory of the embedded cluster, see [DefaultDataDir]. It is made if it does not exist, and not used
	// with a DatabaseURL.
	DataDir string

	// AwaitServer is how long a server that is not up yet is waited for. Zero: it is not waited for.
	AwaitServer time.Duration

	// MaxConns limits the pool. Zero: [DefaultMaxConns].
	MaxConns int

	// StatementLimit limits the time of a statement on the pool's connections. The server then ends the statement, unless the
	// transaction sets another statement_timeout. If the server does not answer for a quarter longer, the connection is
	// closed. Zero: [DefaultStatementLimit].
	StatementLimit time.Duration

	// Logger logs starts and stops of the cluster, and lost connections. Nil: nothing is logged.
	Logger *slog.Logger

	// BinDirs are searched in order for the server programs of the embedded cluster. Nil: the usual directories.
	BinDirs []string

	// Settings override Holdpoint's own settings of the embedded cluster's server. They take effect only if this process
	// starts the server. Tests trade durability for speed here.
	Settings map[string]string

	// Tracer sees the statements of the pool. Tests count them. Nil: none.
	Tracer pgx.QueryTracer
}

// SessionURLVariable is the variable of [Config].SessionURL.
const SessionURLVariable = "HOLDPOINT_LISTEN_DATABASE_URL"

// DB is an open database. It is safe for concurrent use.
type DB struct {
	url     string
	conn    *pgx.ConnConfig // of connections outside the pool
	session *pgxpool.Config // of pools whose connections keep their sessions
	secrets []string        // of the URLs
	pool    *pgxpool.Pool
	reader  *Reader
	cluster *cluster // nil: the database is not embedded
	log     *slog.Logger

	timeline atomic.Uint32             // see [DB.Timeline]
	heard    atomic.Pointer[time.Time] // see [DB.ListenerSilence]
	closing  sync.Once
	closeErr error
}

// Open connects to the database. It starts an embedded one first. The schema may be out of date: see [Migrate].
func Open(ctx context.Context, cfg Config) (*DB, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxConns == 0 {
		cfg.MaxConns = DefaultMaxConns
	}
	if cfg.MaxConns < 0 {
		return nil, fmt.Errorf("open database: MaxConns is %d", cfg.MaxConns)
	}
	if cfg.DatabaseURL == "" && cfg.DataDir == "" {
		return nil, errors.New("open database: neither a database URL nor a data directory is set")
	}
	if cfg.SessionURL != "" && cfg.DatabaseURL == "" {
		return nil, fmt.Errorf("%s: must be set together with DATABASE_URL", SessionURLVariable)
	}
	if cfg.ReadURL != "" && cfg.DatabaseURL == "" {
		return nil, fmt.Errorf("%s: must be set together with DATABASE_URL", ReadURLVariable)
	}
	db := &DB{url: cfg.DatabaseURL, log: cfg.Logger}
	if cfg.DatabaseURL == "" {
		c, err := joinCluster(ctx, cfg)
		if err != nil {
			return nil, err
		}
		db.cluster, db.url = c, c.databaseURL(databaseName)
	}
	limit := cmp.Or(cfg.StatementLimit, DefaultStatementLimit)
	if err := db.connectPool(ctx, cfg); err != nil {
		return nil, errors.Join(err, db.leaveCluster(ctx))
	}
	db.reader = NewReader(db.pool)
	if cfg.ReadURL != "" {
		if err := db.openStandby(ctx, cfg.ReadURL, db.pool.Config().MaxConns, limit); err != nil {
			db.pool.Close()
			return nil, db.redact(err)
		}
	}
	if db.cluster != nil {
		db.cluster.superviseServer(ctx)
	}
	return db, nil
}

// Pool returns the pool, open until [DB.Close].
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// Reader returns the reader of history. It uses the standby of [Config].ReadURL.
func (db *DB) Reader() *Reader { return db.reader }

// StandbyTrouble returns why the standby of [Config].ReadURL is not used. Nil: it is.
func (db *DB) StandbyTrouble() error {
	if db.reader.standby == nil {
		return nil
	}
	if trouble := db.reader.standby.trouble.Load(); trouble != nil {
		return *trouble
	}
	return nil
}

// SessionConfig returns the configuration of a further pool whose connections keep their sessions and do not wait behind those of
// [DB.Pool].
func (db *DB) SessionConfig() *pgxpool.Config { return db.session.Copy() }

// URL returns the connection string. Do not show it: it may contain a password.
func (db *DB) URL() string { return db.url }

// Embedded reports whether the database is the embedded cluster.
func (db *DB) Embedded() bool { return db.cluster != nil }

// Close waits for the pool's connections to be released, until the context ends. Then it leaves the embedded cluster, which
// stops if no other process uses it. A second Close does nothing.
func (db *DB) Close(ctx context.Context) error {
	db.closing.Do(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if db.reader.standby != nil {
				db.reader.standby.closePool()
			}
			db.pool.Close()
		}()
		var late error
		select {
		case <-closed:
		case <-ctx.Done():
			late = fmt.Errorf("close database pool: %w", context.Cause(ctx))
		}
		db.closeErr = errors.Join(late, db.leaveCluster(ctx))
	})
	return db.closeErr
}

// leaveCluster leaves the embedded cluster even if the context has ended, so that no server stays behind.
func (db *DB) leaveCluster(ctx context.Context) error {
	if db.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return db.cluster.leaveCluster(ctx)
}

// SocketDirs returns the directories of the database's Unix sockets. There are none if the connections are over the network.
func (db *DB) SocketDirs() []string {
	dirs := []string{db.pool.Config().ConnConfig.Host, db.conn.Host}
	if db.reader.standby != nil {
		dirs = append(dirs, db.reader.standby.pool.Config().ConnConfig.Host)
	}
	return slices.Compact(slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) }))
}
