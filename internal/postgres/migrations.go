package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// migration is one SQL file.
type migration struct {
	version  int
	name     string
	file     string
	sql      string
	checksum [sha256.Size]byte
}

// readMigrations reads the files, which must be numbered from 1 without gaps.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	slices.Sort(names)
	form := regexp.MustCompile(`^(\d{4})_([a-z0-9_]+)\.sql$`)
	all := make([]migration, 0, len(names))
	for i, file := range names {
		parts := form.FindStringSubmatch(file)
		if parts == nil {
			return nil, fmt.Errorf("read migration %s: its name is not NNNN_name.sql", file)
		}
		version, err := strconv.Atoi(parts[1])
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("read migration %s: must have number %04d", file, i+1)
		}
		content, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", file, err)
		}
		all = append(all, migration{
			version: version, name: parts[2], file: file, sql: string(content), checksum: sha256.Sum256(content),
		})
	}
	return all, nil
}

// pendingMigrations returns the files that are not applied yet. It makes the record of migrations if necessary.
func pendingMigrations(ctx context.Context, conn *pgx.Conn, known []migration) ([]migration, error) {
	_, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS schema_migrations (
		version    int PRIMARY KEY,
		name       text NOT NULL,
		checksum   bytea NOT NULL,
		applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
	)`)
	if err != nil {
		return nil, fmt.Errorf("make the record of migrations: %w", err)
	}
	return comparePending(ctx, conn, known)
}

// Pending returns the number of files that are not applied yet. Its errors are those of [Migrate].
func Pending(ctx context.Context, db *DB, files fs.FS) (int, error) {
	known, err := readMigrations(files)
	if err != nil {
		return 0, err
	}
	var recorded bool
	err = db.pool.QueryRow(ctx, "SELECT to_regclass('schema_migrations') IS NOT NULL").Scan(&recorded)
	if err != nil {
		return 0, fmt.Errorf("read the record of migrations: %w", err)
	}
	if !recorded {
		return len(known), nil
	}
	pending, err := comparePending(ctx, db.pool, known)
	return len(pending), err
}

// comparePending compares the files with the record of migrations.
func comparePending(ctx context.Context, db Querier, known []migration) ([]migration, error) {
	rows, err := db.Query(ctx, "SELECT version, checksum FROM schema_migrations")
	if err != nil {
		return nil, fmt.Errorf("read the record of migrations: %w", err)
	}
	recorded := map[int][]byte{}
	var version int
	var checksum []byte
	_, err = pgx.ForEachRow(rows, []any{&version, &checksum}, func() error {
		recorded[version] = slices.Clone(checksum)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the record of migrations: %w", err)
	}
	for version := range recorded {
		if version > len(known) {
			return nil, fmt.Errorf("%w: it has migration %d, this program knows %d", ErrSchemaNewer, version, len(known))
		}
	}
	var pending []migration
	var changed error
	for _, m := range known {
		checksum, applied := recorded[m.version]
		switch {
		case !applied:
			pending = append(pending, m)
		case !slices.Equal(checksum, m.checksum[:]):
			changed = errors.Join(changed, fmt.Errorf("migration %s was changed after it had been applied", m.file))
		}
	}
	return pending, changed
}
