package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Reader reads history from a standby that follows the primary, and from the primary while no standby can be used. A read sees all that
// was on the primary's disk when the read began, on either server: asynchronous commits may come up to a second later. Nothing that
// decides reads through it.
type Reader struct {
	primary *pgxpool.Pool
	standby *standby // nil: there is none

	onStandby, onPrimary atomic.Int64 // reads while there is a standby
}

// NewReader returns a reader without a standby.
func NewReader(primary *pgxpool.Pool) *Reader { return &Reader{primary: primary} }

// InTx runs f in a transaction that sees the database at one moment and changes nothing. f may run twice: if the standby fails meanwhile,
// the primary answers.
func (r *Reader) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	if r.standby == nil {
		return r.readPrimary(ctx, f)
	}
	if r.standby.isUsable() {
		err := r.standby.readTx(ctx, r.primary, f)
		if err == nil || IsStatementTimeout(err) || ctx.Err() != nil {
			r.onStandby.Add(1)
			return err
		}
	}
	r.onPrimary.Add(1)
	return r.readPrimary(ctx, f)
}

func (r *Reader) readPrimary(ctx context.Context, f func(tx pgx.Tx) error) error {
	conn, err := r.primary.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	defer conn.Release()
	return inTx(ctx, conn, snapshotOptions(conn.Conn()), f)
}

// snapshotOptions are the options of transactions that read.
func snapshotOptions(conn *pgx.Conn) pgx.TxOptions {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	if local := localSettings(conn); local != "" {
		options.BeginQuery = "BEGIN READ ONLY, ISOLATION LEVEL REPEATABLE READ; " + local
	}
	return options
}

// ReaderStats counts the reads of a reader with a standby.
type ReaderStats struct {
	Usable           bool  // the standby
	Standby, Primary int64 // reads
}

// Stats returns the reader's counts, and whether it has a standby.
func (r *Reader) Stats() (ReaderStats, bool) {
	if r.standby == nil {
		return ReaderStats{}, false
	}
	return ReaderStats{Usable: r.standby.isUsable(), Standby: r.onStandby.Load(), Primary: r.onPrimary.Load()}, true
}
