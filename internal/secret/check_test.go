package secret_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// otherProcess calls start before the first query, as a concurrent process could.
type otherProcess struct {
	postgres.Querier
	start func()
}

func (p *otherProcess) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if start := p.start; start != nil {
		p.start = nil
		start()
	}
	return p.Querier.Query(ctx, sql, args...)
}

// TestOpenForWhileAnotherProcessStarts: between our search for the file and for secrets, another process creates the
// key and stores a value with it.
func TestOpenForWhileAnotherProcessStarts(t *testing.T) {
	ctx := t.Context()
	db := postgrestest.New(t).Pool()
	cfg := secret.Config{File: filepath.Join(t.TempDir(), "secret.keyset.json")}
	startOther := func() {
		box, err := secret.OpenFor(ctx, db, cfg)
		if err == nil {
			err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error { return secret.CheckKey(ctx, tx, box) })
		}
		if err != nil {
			t.Error(err)
		}
	}
	box, err := secret.OpenFor(ctx, &otherProcess{db, startOther}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := secret.VerifyKey(ctx, db, box); err != nil || !stored {
		t.Errorf("VerifyKey gives %t, %v", stored, err)
	}

	if err := os.Remove(cfg.File); err != nil {
		t.Fatal(err)
	}
	if _, err := secret.OpenFor(ctx, db, cfg); !errors.Is(err, secret.ErrOtherKey) {
		t.Errorf("without the file: %v", err)
	}
}
