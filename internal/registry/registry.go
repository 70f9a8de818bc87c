// Package registry owns the notice of changes in the registry (credentials, agents,
// skills, assignments, tools' pins) and the caches that it invalidates. It owns no table:
// identity, agent and tool own the registry and cache its rows here.
//
// A change calls [Notify] in its transaction and drops its own caches after the commit.
// Every process listens on [Channel] and drops its caches on each notice, and whenever it
// starts to listen, since it may have missed one.
package registry

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Channel is the PostgreSQL channel of the notices. They have no payload.
const Channel postgres.Channel = "holdpoint_registry"

// Notify sends a notice when tx commits.
func Notify(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, '')`, Channel); err != nil {
		return fmt.Errorf("notify %s: %w", Channel, err)
	}
	return nil
}
