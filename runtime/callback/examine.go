package callback

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Receivers returns all callbacks that are not disabled, with their URLs. It takes no service.
func Receivers(ctx context.Context, db postgres.Querier, box *secret.Box) ([]receiver.Stored, error) {
	rows, err := db.Query(ctx, `SELECT k.id, a.name, k.name, k.hint, k.sealed FROM callbacks k JOIN agents a ON a.id = k.agent_id
		WHERE k.disabled_at IS NULL ORDER BY a.name, k.name`)
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (receiver.Stored, error) {
		var id uuid.UUID
		var agent, name, host string
		var sealed []byte
		if err := row.Scan(&id, &agent, &name, &host, &sealed); err != nil {
			return receiver.Stored{}, err
		}
		address, err := box.Open(sealed, secret.For(callbackPurpose, id))
		return receiver.Stored{Name: fmt.Sprintf("callback %s of agent %s", name, agent), Host: host, Address: string(address)}, err
	})
	if err != nil {
		return nil, fmt.Errorf("read callbacks: %w", err)
	}
	return found, nil
}
