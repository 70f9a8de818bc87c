package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdpoint/holdpoint/internal/pause"
)

// ReadURLVariable is the variable of [Config].ReadURL.
const ReadURLVariable = "HOLDPOINT_READ_DATABASE_URL"

const (
	// standbyLag is how long a read waits for a standby to replay what the primary has committed.
	standbyLag = 500 * time.Millisecond
	// standbyAcquire limits the wait for a connection to a standby.
	standbyAcquire = 2 * time.Second
	// standbyCheck is the time between checks of a standby.
	standbyCheck = time.Second

	firstLagPoll, lastLagPoll = time.Millisecond, 32 * time.Millisecond
)

var (
	errNoStandby = errors.New("the server is not a standby: it follows no primary")
	errOther     = errors.New("must lead to a standby of the server of DATABASE_URL, and to the same database: it leads to another one")
	errBusy      = errors.New("all connections to the standby are in use")
	errBehind    = fmt.Errorf("the standby has not replayed within %s what the primary has committed", standbyLag)
	errTimeline  = errors.New("the standby follows another timeline than the primary, or made no restart point since a failover " +
		"(it makes one after checkpoint_timeout)")
)

// standby is a pool of connections to a server that follows the primary.
type standby struct {
	pool    *pgxpool.Pool
	log     *slog.Logger
	redact  func(error) error
	trouble atomic.Pointer[error] // why it is not used; nil: it is

	stop    context.CancelFunc
	watcher sync.WaitGroup
}

// openStandby begins to use the standby of a URL once it is found to follow the primary. It refuses another database.
func (db *DB) openStandby(ctx context.Context, readURL string, maxConns int32, limit time.Duration) error {
	cfg, err := parseURL(readURL)
	if err != nil {
		return fmt.Errorf("%s: %w", ReadURLVariable, err)
	}
	db.secrets = append(db.secrets, listSecrets(readURL, cfg)...)
	var identity string
	if err := db.pool.QueryRow(ctx, "SELECT "+databaseIdentity).Scan(&identity); err != nil {
		return fmt.Errorf("%s: identify the primary: %w", ReadURLVariable, err)
	}
	cfg.MaxConns, cfg.PingTimeout, cfg.AfterConnect = maxConns, pingTimeout, setUpTypes
	setUpStandbyConns(cfg, readURL, identity, limit)
	s := &standby{log: db.log, redact: db.redact}
	if s.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("%s: open database pool: %w", ReadURLVariable, err)
	}
	err = s.checkServer(ctx, db.pool)
	if errors.Is(err, errOther) {
		s.pool.Close()
		return fmt.Errorf("%s: %w", ReadURLVariable, errOther)
	}
	s.noteState(err)
	db.reader.standby = s
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.watcher.Go(func() { s.watchServer(ctx, db.pool) })
	return nil
}

// databaseIdentity is an SQL expression that has the same value on a primary and its standbys.
const databaseIdentity = `(SELECT system_identifier FROM pg_control_system()) || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())`

// setUpStandbyConns configures connections to use named statements and settings of a session nowhere, so that they may lead through a
// pooler, and to refuse a server that does not follow the primary. The next host of the URL is tried then.
func setUpStandbyConns(cfg *pgxpool.Config, readURL, identity string, statementLimit time.Duration) {
	cfg.ConnConfig.DialFunc = newDialer(silenceAfter(statementLimit))
	useTransactionSettings(cfg, readURL, poolSettings(statementLimit))
	chosen := cfg.ConnConfig.ValidateConnect // by the URL's target_session_attrs
	cfg.ConnConfig.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if chosen != nil {
			if err := chosen(ctx, conn); err != nil {
				return err
			}
		}
		results, err := conn.Exec(ctx, "SELECT pg_is_in_recovery(), "+databaseIdentity).ReadAll()
		switch {
		case err != nil:
			return fmt.Errorf("set up connection: %w", err)
		case string(results[0].Rows[0][1]) != identity:
			return errOther
		case string(results[0].Rows[0][0]) != "t":
			return errNoStandby
		}
		return nil
	}
}

func (s *standby) isUsable() bool { return s.trouble.Load() == nil }

// noteState notes the result of a check or of a read, and logs a change.
func (s *standby) noteState(err error) {
	if err == nil {
		if s.trouble.Swap(nil) != nil {
			s.log.Info("standby: follows the primary; history is read from it")
		}
		return
	}
	err = s.redact(err)
	if s.trouble.Swap(&err) == nil {
		s.log.Warn("standby: cannot be used; history is read from the primary", "error", err)
	}
}

// watchServer checks the standby until ctx ends.
func (s *standby) watchServer(ctx context.Context, primary *pgxpool.Pool) {
	for pause.For(ctx, standbyCheck) == nil {
		if err := s.checkServer(ctx, primary); ctx.Err() == nil && !errors.Is(err, errBusy) {
			s.noteState(err)
		}
	}
}

func (s *standby) checkServer(ctx context.Context, primary *pgxpool.Pool) error {
	conn, err := s.acquireConn(ctx, primary)
	if err != nil {
		return err
	}
	conn.Release()
	return nil
}

// readTx runs f in a transaction that sees what the primary had committed before. It notes why the standby cannot be used.
func (s *standby) readTx(ctx context.Context, primary *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	conn, err := s.acquireConn(ctx, primary)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errBusy) {
			s.noteState(err)
		}
		return err
	}
	defer conn.Release()
	err = inTx(ctx, conn, snapshotOptions(conn.Conn()), f)
	if err != nil && ctx.Err() == nil {
		if conn.Conn().IsClosed() {
			s.noteState(err)
		} else if _, refused := errors.AsType[*pgconn.PgError](err); refused && !IsStatementTimeout(err) {
			s.log.Info("standby: a read failed, and is done again on the primary", "error", s.redact(err))
		}
	}
	return err
}

// acquireConn returns a connection to the standby that has replayed all that the primary has committed. A commit is on the primary's disk
// before others see it, so the position of its log on disk is past all of them.
func (s *standby) acquireConn(ctx context.Context, primary *pgxpool.Pool) (*pgxpool.Conn, error) {
	var position, timeline string
	err := primary.QueryRow(ctx, `SELECT flushed::text, left(pg_walfile_name(flushed), 8) FROM pg_current_wal_flush_lsn() AS flushed`).Scan(&position, &timeline)
	if err != nil {
		return nil, fmt.Errorf("read the primary's position: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, standbyAcquire)
	defer cancel()
	conn, err := s.pool.Acquire(limited)
	if err != nil {
		if stat := s.pool.Stat(); stat.AcquiredConns() == stat.MaxConns() {
			return nil, errBusy
		}
		return nil, fmt.Errorf("connect to the standby: %w", err)
	}
	if err := awaitPosition(limited, conn.Conn(), position, timeline); err != nil {
		if errors.Is(err, errNoStandby) {
			_ = conn.Conn().Close(ctx) // the next connection may find another host
		}
		conn.Release()
		return nil, err
	}
	return conn, nil
}

// awaitPosition waits until a standby has replayed a position of its primary's timeline. Positions of different timelines do not compare.
func awaitPosition(ctx context.Context, conn *pgx.Conn, position, timeline string) error {
	late := time.NewTimer(standbyLag)
	defer late.Stop()
	for wait := firstLagPoll; ; wait = min(2*wait, lastLagPoll) {
		var follows, reached bool
		var its string
		err := conn.QueryRow(ctx, `SELECT pg_is_in_recovery(), coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false),
			(SELECT upper(lpad(to_hex(timeline_id), 8, '0')) FROM pg_control_checkpoint())`, position).Scan(&follows, &reached, &its)
		switch {
		case err != nil:
			return fmt.Errorf("read the standby's position: %w", err)
		case !follows:
			return errNoStandby
		case its != timeline:
			return errTimeline
		case reached:
			return nil
		}
		select {
		case <-late.C:
			return errBehind
		default:
		}
		if err := pause.For(ctx, wait); err != nil {
			return fmt.Errorf("wait for the standby: %w", err)
		}
	}
}

func (s *standby) closePool() {
	s.stop()
	s.watcher.Wait()
	s.pool.Close()
}
