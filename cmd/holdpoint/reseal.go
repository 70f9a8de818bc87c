package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime"
)

// resealer owns tables with encrypted columns.
type resealer interface {
	// Reseal encrypts rows with the primary key that another key encrypted, and returns their number.
	Reseal(ctx context.Context, tx pgx.Tx) (int, error)
}

// keyCheck reseals the value that detects a wrong key.
type keyCheck struct{ box *secret.Box }

// Reseal implements resealer.
func (c keyCheck) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	return secret.ResealCheck(ctx, tx, c.box)
}

// resealers are all owners of encrypted values.
func resealers(rt *runtime.Runtime, box *secret.Box) []resealer {
	return []resealer{rt.Agents, rt.Control, rt.OAuth, rt.Notify, rt.OnCall, rt.Callbacks, keyCheck{box}}
}

// resealSecrets encrypts secrets with the primary key that another key encrypted, each owner's rows in one transaction. The
// runtime is made for its services, and never started.
func resealSecrets(ctx context.Context, db *postgres.DB, box *secret.Box) (n int, err error) {
	rt, err := runtime.New(runtime.Config{
		DB: db, Box: box, Logger: slog.New(slog.DiscardHandler), Now: time.Now, PublicURL: "http://" + defaultAddr,
	})
	if err != nil {
		return 0, err
	}
	for _, owner := range resealers(rt, box) {
		changed := 0
		err := postgres.InTx(ctx, db.Pool(), func(tx pgx.Tx) (err error) {
			changed, err = owner.Reseal(ctx, tx)
			return err
		})
		if err != nil {
			return n, fmt.Errorf("re-encrypt secrets: %w", err)
		}
		n += changed
	}
	return n, nil
}
