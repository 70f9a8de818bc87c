package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	pgxuuid "github.com/vgarvardt/pgx-google-uuid/v5"
)

// oldestServer is the oldest server that will do, as server_version_num has it.
const oldestServer = 140000

const connectTimeout = 10 * time.Second

// errBadURL hides what the parser said, because it quotes parts of the URL,
// among which may be parts of the password.
var errBadURL = errors.New("the database URL is not a PostgreSQL connection string " +
	"(postgres://user:password@host:5432/database, with special characters percent-encoded)")

const (
	// DefaultStatementLimit is how long a statement may run when [Config] does not say.
	DefaultStatementLimit = time.Minute

	pingTimeout = 2 * time.Second // of a pooled connection that was idle
)

// parseURL reads the database's URL. Connections are made with copies of what it returns.
func parseURL(databaseURL string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, errBadURL
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "holdpoint"
	}
	return cfg, nil
}

// connectPool opens the pool and makes sure that its server will do.
func (db *DB) connectPool(ctx context.Context, maxConns int, statementLimit time.Duration) error {
	cfg, err := parseURL(db.url)
	if err != nil {
		return err
	}
	db.conn = cfg.ConnConfig.Copy()
	cfg.MaxConns = int32(min(maxConns, 1<<16)) //nolint:gosec // G115: bounded here
	cfg.PingTimeout = pingTimeout
	// The server ends a statement that takes too long. A connection is given up if it does not do that either.
	setUp(cfg.ConnConfig, statementLimit+statementLimit/4, poolSettings(statementLimit))
	cfg.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		readTimesAsUTC(conn)
		pgxuuid.Register(conn.TypeMap()) // else each goes through text
		return nil
	}
	if db.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("open database pool: %w", db.redact(err))
	}
	if err = db.checkSessions(ctx); err == nil {
		err = checkServer(ctx, db.pool)
	}
	if err != nil {
		db.pool.Close()
		return db.redact(err)
	}
	return nil
}

// patientConfig is for connections that are not the pool's. Their statements may take as long as they like.
func (db *DB) patientConfig(settings ...setting) *pgx.ConnConfig {
	cfg := db.conn.Copy()
	setUp(cfg, 0, append([]setting{{"statement_timeout", "0"}}, settings...))
	return cfg
}

// connectWith makes a connection that is not one of the pool's. Its caller closes it.
func (db *DB) connectWith(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", db.redact(err))
	}
	readTimesAsUTC(conn)
	return conn, nil
}

func (db *DB) redact(err error) error { return redact(err, db.url, db.conn.Password) }

// readTimesAsUTC makes timestamps come back in UTC instead of the time zone
// of the machine that happens to read them.
func readTimesAsUTC(conn *pgx.Conn) {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name:  "timestamptz",
		OID:   pgtype.TimestamptzOID,
		Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
}

func checkServer(ctx context.Context, pool *pgxpool.Pool) error {
	var number int
	var version string
	err := pool.QueryRow(ctx,
		"SELECT current_setting('server_version_num')::int, current_setting('server_version')").Scan(&number, &version)
	if err != nil {
		return fmt.Errorf("connect to database: %w", err)
	}
	if number < oldestServer {
		return fmt.Errorf("connect to database: its server is PostgreSQL %s, Holdpoint needs %d or newer",
			version, oldestServer/10000)
	}
	return nil
}

// redactedError is an error whose text had a secret in it.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

// Is keeps errors.Is working; Unwrap would give the secret away.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }

// redact returns err without the password, wherever it may have got to.
func redact(err error, databaseURL, password string) error {
	text := err.Error()
	for _, secret := range secretsOf(databaseURL, password) {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, err: err}
}

func secretsOf(databaseURL, password string) []string {
	secrets := []string{password}
	if u, err := url.Parse(databaseURL); err == nil && u.User != nil {
		decoded, _ := u.User.Password()
		_, encoded, _ := strings.Cut(u.User.String(), ":")
		secrets = append(secrets, decoded, encoded)
	}
	kept := secrets[:0]
	for _, secret := range secrets {
		if secret != "" {
			kept = append(kept, secret)
		}
	}
	return kept
}
