// Package worldtest owns the parts that the test worlds of many packages share: a leased database with shorthands, the job queue,
// the handling of notifications, a clock, and a recorded log. Only tests import it. Package runtimetest adds the registry of
// agents and a skill server.
package worldtest

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// Check ends the test if there is an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// DB is the database of a test.
type DB struct {
	*postgres.DB
	t testing.TB
}

// NewDB leases a migrated, empty database.
func NewDB(t testing.TB) *DB {
	t.Helper()
	return &DB{postgrestest.New(t), t}
}

// At returns the shorthands for other connections to a database.
func (db *DB) At(connections *postgres.DB) *DB { return &DB{connections, db.t} }

// Exec executes a statement.
func (db *DB) Exec(sql string, args ...any) {
	db.t.Helper()
	_, err := db.Pool().Exec(db.t.Context(), sql, args...)
	Check(db.t, err)
}

// Count counts the rows of a table. A condition may follow the table.
func (db *DB) Count(from string) int {
	db.t.Helper()
	var n int
	Check(db.t, db.Pool().QueryRow(db.t.Context(), `SELECT count(*) FROM `+from).Scan(&n))
	return n
}

// MoveClock sets how far the database's clock is ahead.
func (db *DB) MoveClock(by string) {
	db.t.Helper()
	db.Exec(`UPDATE clock_offset SET value = $1::text::interval`, by)
}

// Actions returns the audit actions of a subject, oldest first, with spaces between them.
func (db *DB) Actions(subject uuid.UUID) string {
	db.t.Helper()
	events, err := audit.List(db.t.Context(), db.Pool(), audit.Filter{Subject: subject})
	Check(db.t, err)
	var actions []string
	for _, e := range slices.Backward(events) {
		actions = append(actions, string(e.Action))
	}
	return strings.Join(actions, " ")
}

// Handle calls the handlers on notifications, and caughtUp whenever the connection is made, until stop is called.
func (db *DB) Handle(handlers map[postgres.Channel]func(payload string), caughtUp func()) (stop func()) {
	var channels []postgres.Channel
	for channel := range handlers {
		channels = append(channels, channel)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	listening.Go(func() {
		db.Listen(ctx, channels, func(channel postgres.Channel, payload string) { handlers[channel](payload) }, caughtUp)
	})
	return func() {
		cancel()
		listening.Wait()
	}
}

// Workers adds the workers of a service.
type Workers interface{ AddWorkers(workers *river.Workers) }

// NewQueue returns the client of a job queue with a number of workers for each queue. New jobs are announced. The queue looks for
// others, which a test made due, four times a second.
func (db *DB) NewQueue(log *slog.Logger, instance uuid.UUID, queues map[string]int, services ...Workers) *river.Client[pgx.Tx] {
	db.t.Helper()
	workers := river.NewWorkers()
	for _, s := range services {
		s.AddWorkers(workers)
	}
	configs := make(map[string]river.QueueConfig, len(queues))
	for name, n := range queues {
		configs[name] = river.QueueConfig{MaxWorkers: n}
	}
	client, err := river.NewClient(riverpgxv5.New(db.Pool()), &river.Config{
		ID: instance.String(), Logger: log, Workers: workers, Queues: configs,
		FetchCooldown: time.Millisecond, FetchPollInterval: 250 * time.Millisecond, FetchOnlyKnownKinds: true,
	})
	Check(db.t, err)
	return client
}

// Clock shows a time that tests move. The zero value shows 1970.
type Clock struct{ at atomic.Int64 }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return time.Unix(0, c.at.Load()) }

// Forward moves the clock.
func (c *Clock) Forward(d time.Duration) { c.at.Add(int64(d)) }

// Log records what is logged.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the recorded text.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Logger returns a logger that records from a level on.
func (l *Log) Logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}
