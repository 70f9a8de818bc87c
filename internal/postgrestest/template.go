package postgrestest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/migrations"
)

const (
	lockPoll = 20 * time.Millisecond

	// The numbers of a template's advisory locks. Higher numbers are those of its databases.
	inUse     = 0
	beingMade = -1

	emptyKey = 0x656d7074 // for databases without a template
)

// template is a migrated database that the lent ones are cloned from.
type template struct {
	server server
	key    int32  // of the advisory locks
	name   string // hpt_<digest of the migrations>
}

// findTemplate returns the process's template, and makes it if necessary.
func findTemplate(ctx context.Context) (template, error) {
	server, err := findServer(ctx)
	if err != nil {
		return template{}, err
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.template.name != "" {
		return shared.template, nil
	}
	digest, err := digestMigrations()
	if err != nil {
		return template{}, err
	}
	tmpl := template{
		server: server,
		key:    lockKey(digest),
		name:   "hpt_" + hex.EncodeToString(digest[:8]),
	}
	conn, err := pgx.Connect(ctx, server.adminURL)
	if err != nil {
		return template{}, fmt.Errorf("connect: %w", err)
	}
	if err := tmpl.ensureMade(ctx, conn); err != nil {
		return template{}, fmt.Errorf("make the template: %w", errors.Join(err, conn.Close(ctx)))
	}
	shared.template, shared.conn = tmpl, conn
	return tmpl, nil
}

func lockKey(digest []byte) int32 {
	return int32(binary.BigEndian.Uint32(digest)) //nolint:gosec // G115: any 32 bits will do
}

// shared is the state of all tests of a process. It has no goroutine, which leak detectors would report.
var shared struct { //nolint:gochecknoglobals // package testing has no other place for the state of a process
	sync.Mutex

	server   server
	template template
	conn     *pgx.Conn // stays open, to hold a lock
	users    *os.File  // stays locked
}

// digestMigrations returns a digest of the schema: Holdpoint's migrations and those of the job queue.
func digestMigrations() ([]byte, error) {
	sum := sha256.New()
	add := func(files fs.FS) error {
		return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			content, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			fmt.Fprintf(sum, "%s %d\n", path, len(content))
			sum.Write(content)
			return nil
		})
	}
	if err := errors.Join(add(migrations.FS), add(riverpgxv5.New(nil).GetMigrationFS("main"))); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return sum.Sum(nil), nil
}

// ensureMade makes the template, unless it exists. The connection keeps a lock that tells other processes that the template is
// in use.
func (tm template) ensureMade(ctx context.Context, conn *pgx.Conn) error {
	if err := waitAdvisoryLock(ctx, conn, "pg_try_advisory_lock_shared", tm.key, inUse); err != nil {
		return err
	}
	if exists, err := databaseExists(ctx, conn, tm.name); err != nil || exists {
		return err
	}
	if err := waitAdvisoryLock(ctx, conn, "pg_try_advisory_lock", tm.key, beingMade); err != nil {
		return err
	}
	err := tm.makeOnce(ctx, conn)
	_, unlockErr := conn.Exec(ctx, "SELECT pg_advisory_unlock($1, $2)", tm.key, beingMade)
	return errors.Join(err, unlockErr)
}

func (tm template) makeOnce(ctx context.Context, conn *pgx.Conn) error {
	if exists, err := databaseExists(ctx, conn, tm.name); err != nil || exists {
		return err
	}
	if err := dropUnused(ctx, conn); err != nil {
		return err
	}
	unfinished := tm.name + "_unfinished"
	if err := execAll(ctx, conn, "DROP DATABASE IF EXISTS "+unfinished+" WITH (FORCE)",
		"CREATE DATABASE "+unfinished+" TEMPLATE template0"); err != nil {
		return err
	}
	if err := migrateDatabase(ctx, tm.server.databaseURL(unfinished)); err != nil {
		return err
	}
	return execAll(ctx, conn, "ALTER DATABASE "+unfinished+" ALLOW_CONNECTIONS false",
		"ALTER DATABASE "+unfinished+" RENAME TO "+tm.name)
}

// waitAdvisoryLock polls for an advisory lock: a session that waited in the database would block migrations.
func waitAdvisoryLock(ctx context.Context, conn *pgx.Conn, try string, key, number int32) error {
	for {
		var locked bool
		if err := conn.QueryRow(ctx, "SELECT "+try+"($1::int, $2::int)", key, number).Scan(&locked); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if locked {
			return nil
		}
		if err := pause.For(ctx, lockPoll); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
	}
}

func migrateDatabase(ctx context.Context, databaseURL string) error {
	db, err := postgres.Open(ctx, postgres.Config{DatabaseURL: databaseURL})
	if err != nil {
		return fmt.Errorf("open it: %w", err)
	}
	_, err = postgres.Migrate(ctx, db, migrations.FS)
	return joinClose(ctx, err, db)
}

// leaseDatabase finds an unused database, or makes one. The lease lasts while the returned connection is open.
func (tm template) leaseDatabase(ctx context.Context) (*pgx.Conn, string, error) {
	conn, number, err := tm.server.takeNumber(ctx, tm.key)
	if err != nil {
		return nil, "", err
	}
	name := fmt.Sprintf("%s_%d", tm.name, number)
	exists, err := databaseExists(ctx, conn, name)
	if err == nil && !exists {
		err = execAll(ctx, conn, "CREATE DATABASE "+name+" TEMPLATE "+tm.name)
	}
	if err != nil {
		return nil, "", errors.Join(err, conn.Close(ctx))
	}
	return conn, name, nil
}

// takeNumber takes the lowest free number of a key, until the connection is closed.
func (s server) takeNumber(ctx context.Context, key int32) (*pgx.Conn, int, error) {
	conn, err := pgx.Connect(ctx, s.adminURL)
	if err != nil {
		return nil, 0, fmt.Errorf("connect: %w", err)
	}
	var number int
	err = conn.QueryRow(ctx, "SELECT n FROM generate_series(1, $2::int) n WHERE pg_try_advisory_lock($1, n) LIMIT 1",
		key, maxLeases).Scan(&number)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		err = fmt.Errorf("all %d are lent", maxLeases)
	case err != nil:
		err = fmt.Errorf("take a lease: %w", err)
	default:
		return conn, number, nil
	}
	return nil, 0, errors.Join(err, conn.Close(ctx))
}

// dropUnused drops the databases of other states of the migrations, unless a process uses them.
func dropUnused(ctx context.Context, conn *pgx.Conn) error {
	names, err := postgres.Collect(ctx, conn, pgx.RowTo[string], `SELECT datname FROM pg_database WHERE datname ~ '^hpt_[0-9a-f]{16}(_|$)'`)
	if err != nil {
		return fmt.Errorf("list databases: %w", err)
	}
	for _, name := range names {
		digest, err := hex.DecodeString(name[len("hpt_") : len("hpt_")+16])
		if err != nil {
			return fmt.Errorf("read the name of database %s: %w", name, err)
		}
		if err := dropIfUnused(ctx, conn, name, lockKey(digest)); err != nil {
			return fmt.Errorf("drop database %s: %w", name, err)
		}
	}
	return nil
}

func dropIfUnused(ctx context.Context, conn *pgx.Conn, name string, key int32) error {
	var unused bool
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", key, inUse).Scan(&unused); err != nil || !unused {
		return err
	}
	return errors.Join(
		execAll(ctx, conn, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"),
		execAll(ctx, conn, fmt.Sprintf("SELECT pg_advisory_unlock(%d, %d)", key, inUse)),
	)
}

func databaseExists(ctx context.Context, conn *pgx.Conn, name string) (bool, error) {
	var exists bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists)
	if err != nil {
		return false, fmt.Errorf("look for database %s: %w", name, err)
	}
	return exists, nil
}

func execAll(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func joinClose(ctx context.Context, err error, db *postgres.DB) error {
	return errors.Join(err, db.Close(ctx))
}
