// Package registry owns the notice that something in the registry changed
// (a credential, an agent, a skill, an assignment, a tool's pin) and the memory that
// is dropped by it. It owns no table: identity, agent and tool keep the registry
// and remember what they read of it.
//
// Whoever changes the registry calls [Notify] in the transaction of the
// change and, after the commit, drops its own memory. Every process listens
// on [Channel] and drops its memory on each notice, and whenever it begins
// to listen, since it may have missed one.
package registry

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Channel is the PostgreSQL notification channel of the notices. They have no payload.
const Channel = "holdpoint_registry"

// Notify sends the notice when tx commits.
func Notify(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, `SELECT pg_notify($1, '')`, Channel); err != nil {
		return fmt.Errorf("notify %s: %w", Channel, err)
	}
	return nil
}
