package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// NotePromotion has db believe that a connection found a promoted server.
func (db *DB) NotePromotion() { db.timeline.Add(1) }

var (
	ErrBehind   = errBehind
	ErrTimeline = errTimeline
)

// AwaitPosition waits until a standby has replayed a position.
func AwaitPosition(ctx context.Context, conn *pgx.Conn, position, timeline string) error {
	return awaitPosition(ctx, conn, position, timeline)
}
