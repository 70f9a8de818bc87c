package call

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Revealed records that a person is shown values of a call that are hidden from who does not ask: how
// many, and in what form. It comes before they are shown. Errors: ErrNotFound.
func (s *Service) Revealed(ctx context.Context, id, by uuid.UUID, values int, form string) error {
	if _, err := s.load(ctx, id); err != nil {
		return err
	}
	err := postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		return audit.Write(ctx, tx, audit.Event{
			Actor: audit.Person(by), Action: "call.revealed", Subject: id,
			Data: map[string]any{"values": values, "form": form},
		})
	})
	if err != nil {
		return fmt.Errorf("record that call %s was revealed: %w", id, err)
	}
	return nil
}
