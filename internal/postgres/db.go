package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultMaxConns is the size of the pool when [Config] names none.
const DefaultMaxConns = 20

// Config says which database to open, and how.
type Config struct {
	// DatabaseURL names a PostgreSQL 14 or newer, as a URL or as
	// keyword=value pairs. Empty: the embedded cluster in DataDir.
	DatabaseURL string

	// DataDir is where the embedded cluster lives, see [DefaultDataDir].
	// It is made if it does not exist. Not used with a DatabaseURL.
	DataDir string

	// MaxConns bounds the pool. Zero: [DefaultMaxConns].
	MaxConns int

	// StatementLimit is how long a statement on the pool's connections may run. The server ends it then, unless the
	// transaction sets another statement_timeout. A connection whose server does not answer for a quarter longer is
	// closed. Zero: [DefaultStatementLimit].
	StatementLimit time.Duration

	// Logger is told of the cluster's comings and goings, and of lost
	// connections. Nil: nothing is logged.
	Logger *slog.Logger

	// BinDirs are searched for the server programs of the embedded cluster,
	// in order. Nil: where this machine usually has them.
	BinDirs []string

	// Settings are given to the embedded cluster's server, over Holdpoint's own.
	// They apply to the process that starts it; one that joins takes it as
	// it is. Tests trade durability for speed here.
	Settings map[string]string
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	url     string
	conn    *pgx.ConnConfig // what the URL says
	pool    *pgxpool.Pool
	cluster *cluster // nil: the database is not ours
	log     *slog.Logger

	heard    atomic.Pointer[time.Time] // see [DB.ListenerSilence]
	closing  sync.Once
	closeErr error
}

// Open connects to the database, which it starts first if it is the embedded
// one. The database is ready when Open returns, but may be behind: see [Migrate].
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
	db := &DB{url: cfg.DatabaseURL, log: cfg.Logger}
	if cfg.DatabaseURL == "" {
		c, err := joinCluster(ctx, cfg)
		if err != nil {
			return nil, err
		}
		db.cluster, db.url = c, c.url(databaseName)
	}
	if err := db.connectPool(ctx, cfg.MaxConns, cmp.Or(cfg.StatementLimit, DefaultStatementLimit)); err != nil {
		return nil, errors.Join(err, db.leaveCluster(ctx))
	}
	if db.cluster != nil {
		db.cluster.supervise(ctx)
	}
	return db, nil
}

// Pool returns the pool, open until [DB.Close].
func (db *DB) Pool() *pgxpool.Pool { return db.pool }

// URL returns the connection string. It may hold a password: it is for
// connecting, not for showing.
func (db *DB) URL() string { return db.url }

// Embedded reports whether the database is the embedded cluster.
func (db *DB) Embedded() bool { return db.cluster != nil }

// Close waits, until the context ends, for the pool's connections to be given back,
// and leaves the embedded cluster, which stops it if no other process uses it.
// A second Close does nothing.
func (db *DB) Close(ctx context.Context) error {
	db.closing.Do(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
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

// leaveCluster leaves the embedded cluster, even when the context has
// already ended: a server without a process is what it exists to prevent.
func (db *DB) leaveCluster(ctx context.Context) error {
	if db.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return db.cluster.leave(ctx)
}

// SocketDir is the directory of the Unix socket that the database is reached by. Empty: it is reached over the network.
func (db *DB) SocketDir() string {
	if host := db.pool.Config().ConnConfig.Host; filepath.IsAbs(host) {
		return host
	}
	return ""
}
