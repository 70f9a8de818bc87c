package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// jobTopics are the channels of the job queue, without the schema of its tables.
func jobTopics() []string { return []string{"river_control", "river_insert", "river_leadership"} }

// jobBacklog bounds the notifications that the job queue has not read. It finds what was dropped by polling.
const jobBacklog = 1000

// jobDriver is the job queue's access to the database. It listens on this process's listening connection instead of one of its own.
type jobDriver struct {
	*riverpgxv5.Driver
	listener *jobListener
}

// GetListener implements [riverdriver.Driver].
func (d jobDriver) GetListener(*riverdriver.GetListenenerParams) riverdriver.Listener {
	return d.listener
}

// jobListener passes on the notifications of the job queue. [postgres.DB.Listen] connects and reconnects.
type jobListener struct {
	schema string
	queue  chan *riverdriver.Notification
}

var _ riverdriver.Listener = (*jobListener)(nil)

func newJobListener() *jobListener {
	return &jobListener{queue: make(chan *riverdriver.Notification, jobBacklog)}
}

// listChannels returns the channels to listen to. Their names have the schema of the job queue's tables.
func (l *jobListener) listChannels(ctx context.Context, db postgres.Querier) ([]postgres.Channel, error) {
	var err error
	l.schema, err = postgres.CollectOne(ctx, db, pgx.RowTo[string], "SELECT coalesce(current_schema(), '')")
	if err != nil {
		return nil, fmt.Errorf("find the schema of the job queue: %w", err)
	}
	var channels []postgres.Channel
	for _, topic := range jobTopics() {
		channels = append(channels, postgres.Channel(l.prefix()+topic))
	}
	return channels, nil
}

func (l *jobListener) prefix() string {
	if l.schema == "" {
		return ""
	}
	return l.schema + "."
}

// handleNotification passes a notification on if it is the job queue's.
func (l *jobListener) handleNotification(channel postgres.Channel, payload string) {
	topic, ok := strings.CutPrefix(string(channel), l.prefix())
	if !ok || !strings.HasPrefix(topic, "river_") {
		return
	}
	select {
	case l.queue <- &riverdriver.Notification{Topic: topic, Payload: payload}:
	default:
	}
}

// WaitForNotification implements [riverdriver.Listener].
func (l *jobListener) WaitForNotification(ctx context.Context) (*riverdriver.Notification, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case notification := <-l.queue:
		return notification, nil
	}
}

// Listen implements [riverdriver.Listener].
func (l *jobListener) Listen(_ context.Context, topic string) error {
	if slices.Contains(jobTopics(), topic) {
		return nil
	}
	return fmt.Errorf("listen to %s: must be one of %s", topic, strings.Join(jobTopics(), ", "))
}

// Schema implements [riverdriver.Listener].
func (l *jobListener) Schema() string { return l.schema }

// Connect implements [riverdriver.Listener].
func (l *jobListener) Connect(context.Context) error { return nil }

// Ping implements [riverdriver.Listener].
func (l *jobListener) Ping(context.Context) error { return nil }

// Unlisten implements [riverdriver.Listener].
func (l *jobListener) Unlisten(context.Context, string) error { return nil }

// Close implements [riverdriver.Listener].
func (l *jobListener) Close(context.Context) error { return nil }

// SetAfterConnectExec implements [riverdriver.Listener].
func (l *jobListener) SetAfterConnectExec(string) {}
