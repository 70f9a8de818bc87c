package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

const (
	checkTable   = "secret_check"
	checkPurpose = "key check"
	checkText    = "the encryption key of this database"
)

// ErrOtherKey says that the database's secrets were encrypted with a key that is not in the keyset.
var ErrOtherKey = errors.New("the secrets of this database were encrypted with another key")

// OpenFor is [OpenContext] for a database. It makes no key if [MayMakeKey] refuses.
func OpenFor(ctx context.Context, db postgres.Querier, cfg Config) (*Box, error) {
	if cfg.isMissing() {
		if err := MayMakeKey(ctx, db, cfg); err != nil {
			return nil, err
		}
	}
	return OpenContext(ctx, cfg)
}

// MayMakeKey returns an [ErrOtherKey] if the keyset's file is missing and the database has secrets, since a new key could not
// decrypt them.
func MayMakeKey(ctx context.Context, db postgres.Querier, cfg Config) error {
	sealed, err := sealedValues(ctx, db)
	if err != nil || len(sealed) == 0 {
		return err
	}
	// A process that starts at the same time makes the file before it stores secrets, so the file has to be looked for after them.
	if !cfg.isMissing() {
		return nil
	}
	return fmt.Errorf("open secret key: %w, and %s is not there: put it back from your copy, or give the keyset in HOLDPOINT_ENCRYPTION_KEY; "+
		"no new key is made while there are secrets in %s", ErrOtherKey, cfg.File, tablesOf(sealed))
}

// isMissing reports whether the keyset should be in a file that does not exist.
func (cfg Config) isMissing() bool {
	if cfg.Keyset != "" || cfg.File == "" {
		return false
	}
	_, err := os.Stat(cfg.File)
	return errors.Is(err, fs.ErrNotExist)
}

// CheckKey checks that the box has the key of the database, and returns an [ErrOtherKey] otherwise. On first use it stores a
// value for this check.
func CheckKey(ctx context.Context, tx pgx.Tx, box *Box) error {
	stored, err := VerifyKey(ctx, tx, box)
	if err != nil || stored {
		return err
	}
	sealed, err := box.Seal([]byte(checkText), For(checkPurpose, uuid.Nil))
	if err != nil {
		return err
	}
	// If several processes start at once, the first one stores the value, and the others verify it.
	if _, err := tx.Exec(ctx, `INSERT INTO `+checkTable+` (id, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING`, uuid.Nil, sealed); err != nil {
		return fmt.Errorf("store check of encryption key: %w", err)
	}
	_, err = VerifyKey(ctx, tx, box)
	return err
}

// VerifyKey is [CheckKey] without storing a value. It returns whether the database has a value to compare with. Without one,
// the key has to fit some secret of the database, if there are any.
func VerifyKey(ctx context.Context, db postgres.Querier, box *Box) (stored bool, err error) {
	values, err := sealedValues(ctx, db)
	if err != nil {
		return false, err
	}
	known := len(values) == 0
	for _, v := range values { // the check is among them
		if v.table == checkTable {
			if _, err := box.Open(v.sealed, For(checkPurpose, uuid.Nil)); err != nil {
				return true, fmt.Errorf("%w: %s does not have it: give the keyset that this database was used with, from your copy if need be", ErrOtherKey, box.Source())
			}
			return true, nil
		}
		known = known || box.hasKeyOf(v.sealed)
	}
	if !known {
		return false, fmt.Errorf("%w: %s does not have it, and there are secrets in %s: give the keyset that this database was used with, "+
			"from your copy if need be", ErrOtherKey, box.Source(), tablesOf(values))
	}
	return false, nil
}

// ResealCheck is [Box.Reseal] for the value that [CheckKey] stores.
func ResealCheck(ctx context.Context, tx pgx.Tx, box *Box) (int, error) {
	return box.Reseal(ctx, tx, checkTable, checkPurpose)
}

// sealedValue is an example of the values in a table that one key sealed.
type sealedValue struct {
	table  string
	sealed []byte
}

// sealedColumnsSQL finds the columns with sealed values of all tables, by their names.
const sealedColumnsSQL = `SELECT c.relname::text, a.attname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
	WHERE (a.attname IN ('sealed', 'secrets') OR c.relname = 'skill_drafts' AND a.attname = 'spec') AND a.atttypid = 'bytea'::regtype
		AND NOT a.attisdropped AND c.relkind IN ('r', 'p') AND pg_table_is_visible(c.oid) ORDER BY c.relname`

// sealedValues returns one value for each key and table with sealed values.
func sealedValues(ctx context.Context, db postgres.Querier) ([]sealedValue, error) {
	columns, err := postgres.Collect(ctx, db, pgx.RowToStructByPos[struct{ Table, Column string }], sealedColumnsSQL)
	if err != nil {
		return nil, fmt.Errorf("list tables with secrets: %w", err)
	}
	var all []sealedValue
	for _, c := range columns {
		column := pgx.Identifier{c.Column}.Sanitize()
		rows, err := db.Query(ctx, `SELECT DISTINCT ON (substring(`+column+` FROM 1 FOR 5)) `+column+
			` FROM `+pgx.Identifier{c.Table}.Sanitize()+` WHERE `+column+` IS NOT NULL`)
		if err != nil {
			return nil, fmt.Errorf("read secrets of %s: %w", c.Table, err)
		}
		found, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return nil, fmt.Errorf("read secrets of %s: %w", c.Table, err)
		}
		for _, sealed := range found {
			all = append(all, sealedValue{c.Table, sealed})
		}
	}
	return all, nil
}

func tablesOf(values []sealedValue) string {
	var names []string
	for _, v := range values {
		if len(names) == 0 || names[len(names)-1] != v.table {
			names = append(names, v.table)
		}
	}
	return strings.Join(names, ", ")
}
