package postgrestest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// RoundTrips records the round trips to databases of [New] that were made with its context.
type RoundTrips struct {
	mu   sync.Mutex
	list []string
}

// List returns the SQL of each round trip. Statements of a batch are one round trip.
func (r *RoundTrips) List() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

type roundTripsKey struct{}

// RecordRoundTrips returns a context whose round trips are recorded.
func RecordRoundTrips(ctx context.Context) (context.Context, *RoundTrips) {
	r := &RoundTrips{}
	return context.WithValue(ctx, roundTripsKey{}, r), r
}

// tracer records round trips.
type tracer struct{}

func (tracer) record(ctx context.Context, sql string) context.Context {
	if r, ok := ctx.Value(roundTripsKey{}).(*RoundTrips); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, sql)
	}
	return ctx
}

// TraceQueryStart implements [pgx.QueryTracer].
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return t.record(ctx, data.SQL)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	var statements []string
	for _, q := range data.Batch.QueuedQueries {
		statements = append(statements, q.SQL)
	}
	return t.record(ctx, strings.Join(statements, ";\n"))
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}
