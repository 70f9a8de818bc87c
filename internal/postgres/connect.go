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

// connectPool opens a pool and makes sure that its server will do.
func connectPool(ctx context.Context, databaseURL string, maxConns int) (*pgxpool.Pool, error) {
	cfg, err := poolConfig(databaseURL, maxConns)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database pool: %w", redact(err, databaseURL, cfg.ConnConfig.Password))
	}
	if err := checkServer(ctx, pool); err != nil {
		pool.Close()
		return nil, redact(err, databaseURL, cfg.ConnConfig.Password)
	}
	return pool, nil
}

func poolConfig(databaseURL string, maxConns int) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, errBadURL
	}
	cfg.MaxConns = int32(min(maxConns, 1<<16)) //nolint:gosec // G115: bounded here
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" {
		cfg.ConnConfig.RuntimeParams["application_name"] = "holdpoint"
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		readTimesAsUTC(conn)
		pgxuuid.Register(conn.TypeMap()) // else each goes through text
		return plainPlans(ctx, conn)
	}
	return cfg, nil
}

// plainPlans keeps the plans of prepared statements from depending on how full a
// table was when they were made. On a new database a scan of a whole table is cheapest, and a
// connection that remembers it would go on scanning when there are millions of rows. Every statement
// here that is run often has its index. (Discouraged scans look so expensive that
// they would be compiled; hence jit.)
func plainPlans(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, `SET enable_seqscan = off; SET jit = off`); err != nil {
		return fmt.Errorf("set up connection: %w", err)
	}
	return nil
}

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
