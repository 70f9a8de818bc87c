package notify

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Reseal encrypts again what another key than the primary one of the keyset had encrypted, and returns
// how many rows it changed.
func (s *Service) Reseal(ctx context.Context, tx pgx.Tx) (int, error) {
	total := 0
	for _, c := range []struct{ table, purpose string }{
		{"webhooks", webhookPurpose}, {"push_keys", pushKeyPurpose}, {"push_subscriptions", subscriptionPurpose},
	} {
		n, err := s.Box.Reseal(ctx, tx, c.table, c.purpose)
		if err != nil {
			return 0, fmt.Errorf("reseal what notifications keep: %w", err)
		}
		total += n
	}
	return total, nil
}
