package postgres

import (
	"cmp"
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

// oldestServer is the oldest supported server, as server_version_num.
const oldestServer = 140000

const connectTimeout = 10 * time.Second

// errBadURL replaces the parser's error, which may quote parts of the password.
var errBadURL = errors.New("the database URL is not a PostgreSQL connection string " +
	"(postgres://user:password@host:5432/database, with special characters percent-encoded)")

const (
	// DefaultStatementLimit is the default of [Config].StatementLimit.
	DefaultStatementLimit = time.Minute

	pingTimeout = 2 * time.Second // of a pooled connection that was idle
)

// parseURL parses the database's URL. Connections use copies of the result.
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

// connectPool opens the pool and checks its server.
func (db *DB) connectPool(ctx context.Context, config Config) error {
	sessionURL, statementLimit := config.SessionURL, cmp.Or(config.StatementLimit, DefaultStatementLimit)
	cfg, err := parseURL(db.url)
	if err != nil {
		return err
	}
	limit := silenceAfter(statementLimit)
	settings := poolSettings(statementLimit)
	db.secrets = listSecrets(db.url, cfg)
	db.session = cfg
	if sessionURL != "" {
		if db.session, err = parseURL(sessionURL); err != nil {
			return fmt.Errorf("%s: %w", SessionURLVariable, err)
		}
		db.secrets = append(db.secrets, listSecrets(sessionURL, db.session)...)
	}
	db.conn = db.session.ConnConfig.Copy()
	for _, c := range []*pgxpool.Config{cfg, db.session} {
		c.MaxConns = int32(min(config.MaxConns, 1<<16)) //nolint:gosec // G115: bounded here
		c.PingTimeout = pingTimeout
		c.PrepareConn = db.isPresent
		c.AfterConnect = setUpTypes
	}
	db.setUpConns(db.session.ConnConfig, limit, settings)
	if sessionURL != "" {
		db.setUpSharedConns(cfg, limit, settings)
	}
	cfg.ConnConfig.Tracer = config.Tracer
	if db.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return fmt.Errorf("open database pool: %w", db.redact(err))
	}
	err = awaitServer(ctx, db.log, config.AwaitServer, func() error {
		return RetryFull(ctx, db.log, func() error {
			err := db.checkSessions(ctx)
			if err == nil {
				err = checkServer(ctx, db.pool)
			}
			if err == nil && sessionURL != "" {
				err = db.checkNotifications(ctx)
			}
			return err
		})
	})
	if err != nil {
		db.pool.Close()
		return db.redact(err)
	}
	return nil
}

// silenceAfter returns the time after which a connection is closed if the server, which ends a statement that takes too long, does not.
func silenceAfter(statementLimit time.Duration) time.Duration {
	return statementLimit + statementLimit/4
}

// setUpTypes sets up how a pool's connection reads values.
func setUpTypes(_ context.Context, conn *pgx.Conn) error {
	readTimesAsUTC(conn)
	pgxuuid.Register(conn.TypeMap()) // else each id is converted through text
	return nil
}

// patientConfig is for connections outside the pool, whose statements have no time limit.
func (db *DB) patientConfig(settings ...setting) *pgx.ConnConfig {
	cfg := db.conn.Copy()
	db.setUpConns(cfg, 0, append([]setting{{"statement_timeout", "0"}}, settings...))
	return cfg
}

// connectWith makes a connection outside the pool. The caller closes it.
func (db *DB) connectWith(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to database: %w", db.redact(err))
	}
	readTimesAsUTC(conn)
	return conn, nil
}

func (db *DB) redact(err error) error { return redactSecrets(err, db.secrets) }

// readTimesAsUTC returns timestamps in UTC instead of the time zone of this machine.
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

// redactedError is an error without the secrets in its text.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

// Is keeps errors.Is working. Unwrap would reveal the secret.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }

// listSecrets returns the forms of the password in a connection string.
func listSecrets(databaseURL string, cfg *pgxpool.Config) []string {
	secrets := []string{cfg.ConnConfig.Password}
	if u, err := url.Parse(databaseURL); err == nil && u.User != nil {
		decoded, _ := u.User.Password()
		_, encoded, _ := strings.Cut(u.User.String(), ":")
		secrets = append(secrets, decoded, encoded)
	}
	return secrets
}

// redactSecrets removes the secrets from the text of an error.
func redactSecrets(err error, secrets []string) error {
	text := err.Error()
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "xxxxx")
		}
	}
	if text == err.Error() {
		return err
	}
	return &redactedError{text: text, err: err}
}
