package notify

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
)

// Receivers returns all webhooks with their URLs. It takes no service.
func Receivers(ctx context.Context, db postgres.Querier, box *secret.Box) ([]receiver.Stored, error) {
	rows, err := db.Query(ctx, `SELECT id, name, hint, sealed FROM webhooks ORDER BY name`)
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (receiver.Stored, error) {
		var id uuid.UUID
		var name, host string
		var sealed []byte
		if err := row.Scan(&id, &name, &host, &sealed); err != nil {
			return receiver.Stored{}, err
		}
		address, err := box.Open(sealed, secret.For(webhookPurpose, id))
		return receiver.Stored{Name: "webhook " + name, Host: host, Address: string(address)}, err
	})
	if err != nil {
		return nil, fmt.Errorf("read webhooks: %w", err)
	}
	return found, nil
}
