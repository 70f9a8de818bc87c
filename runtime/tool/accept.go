package tool

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Accept makes a tool's present definition the accepted one, in tx, and takes back that it was refused. The
// pin is what the operator saw: [ErrNotCurrent] when the server offers something else by now, [ErrNotFound]
// when there is no such tool. Accepting what was accepted does nothing. The caller drops its memory after the
// commit, see [Discovery.Invalidate].
func (d *Discovery) Accept(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin, by audit.Actor) error {
	s, err := presentTool(ctx, tx, skillID, toolName, pin)
	if err == nil && (!s.IsAccepted() || s.IsRefused()) {
		err = settle(ctx, tx, `accepted_pin = current_pin, refused_pin = nullif(refused_pin, current_pin)`, skillID, toolName,
			audit.Event{Actor: by, Action: "tool.accepted", Subject: skillID, Data: map[string]any{
				"tool": toolName, "pin": pin.String(), "before": s.Accepted.String(),
			}})
	}
	if err != nil {
		return fmt.Errorf("accept tool %q of skill %s: %w", toolName, skillID, err)
	}
	return nil
}

// Refuse says of a tool's present definition, in tx, that no call of it is sent. Pin and errors are as with
// [Discovery.Accept]. Of the definitions of a tool the one that was refused last is remembered; another one that
// the server offers later is one that changed.
func (d *Discovery) Refuse(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin, by audit.Actor) error {
	s, err := presentTool(ctx, tx, skillID, toolName, pin)
	if err == nil && !s.IsRefused() {
		err = settle(ctx, tx, `refused_pin = current_pin`, skillID, toolName,
			audit.Event{Actor: by, Action: "tool.refused", Subject: skillID, Data: map[string]any{
				"tool": toolName, "pin": pin.String(),
			}})
	}
	if err != nil {
		return fmt.Errorf("refuse tool %q of skill %s: %w", toolName, skillID, err)
	}
	return nil
}

// presentTool locks a tool that the server offers with this pin.
func presentTool(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin) (PinStatus, error) {
	_, err := tx.Exec(ctx, `SELECT FROM skill_tools WHERE skill_id = $1 AND name = $2 FOR UPDATE`, skillID, toolName)
	if err != nil {
		return PinStatus{}, err
	}
	pins, err := readPins(ctx, tx, skillID)
	switch status := pins[toolName]; {
	case err != nil:
		return PinStatus{}, err
	case !status.Known:
		return PinStatus{}, ErrNotFound
	case status.Current != pin:
		return PinStatus{}, ErrNotCurrent
	default:
		return status, nil
	}
}

// settle writes what an operator said of a tool.
func settle(ctx context.Context, tx pgx.Tx, change string, skillID uuid.UUID, toolName string, event audit.Event) error {
	_, err := tx.Exec(ctx, `UPDATE skill_tools SET `+change+` WHERE skill_id = $1 AND name = $2`, skillID, toolName)
	if err != nil {
		return err
	}
	if err := audit.Write(ctx, tx, event); err != nil {
		return err
	}
	return registry.Notify(ctx, tx)
}
