package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// querier reads: the pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Status returns a tool's pins, from memory. The zero PinStatus: the skill never had such a tool.
func (d *Discovery) Status(ctx context.Context, skillID uuid.UUID, toolName string) (PinStatus, error) {
	pins, err := d.Statuses(ctx, skillID)
	if err != nil {
		return PinStatus{}, err
	}
	return pins[toolName], nil
}

// Statuses returns the pins of all tools that a skill ever had, by name, from
// memory. The map is shared: it is not to be changed.
func (d *Discovery) Statuses(ctx context.Context, skillID uuid.UUID) (map[string]PinStatus, error) {
	return d.statuses.Get(ctx, skillID, func(ctx context.Context) (map[string]PinStatus, error) {
		return readPins(ctx, d.pool, skillID)
	})
}

// Accepted returns the definitions of a skill's tools as they were accepted last, by name: what may be
// offered while its server cannot be asked.
func (d *Discovery) Accepted(ctx context.Context, skillID uuid.UUID) ([]Definition, error) {
	statuses, err := d.Statuses(ctx, skillID)
	if err != nil {
		return nil, err
	}
	var pins []Pin
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		if status := statuses[name]; status.Known && !status.Accepted.IsZero() {
			pins = append(pins, status.Accepted)
		}
	}
	found, err := d.Definitions(ctx, pins)
	if err != nil {
		return nil, err
	}
	accepted := make([]Definition, len(pins))
	for i, pin := range pins {
		accepted[i] = found[pin]
	}
	return accepted, nil
}

// Accept makes a tool's present definition the accepted one, in tx. The pin
// is what the operator saw: [ErrNotCurrent] when the server offers something else by
// now, [ErrNotFound] when there is no such tool. Accepting what was accepted does nothing.
// The caller drops its memory after the commit, see [Discovery.Invalidate].
func (d *Discovery) Accept(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin, by audit.Actor) error {
	if err := accept(ctx, tx, skillID, toolName, pin, by); err != nil {
		return fmt.Errorf("accept tool %q of skill %s: %w", toolName, skillID, err)
	}
	return nil
}

func accept(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin, by audit.Actor) error {
	rows, err := tx.Query(ctx, `SELECT current_pin, accepted_pin FROM skill_tools
		WHERE skill_id = $1 AND name = $2 AND removed_at IS NULL FOR UPDATE`, skillID, toolName)
	if err != nil {
		return err
	}
	var stored, before []byte
	found := false
	if _, err := pgx.ForEachRow(rows, []any{&stored, &before}, func() error { found = true; return nil }); err != nil {
		return err
	}
	if !found {
		return ErrNotFound
	}
	current, err := storedPin(stored)
	if err != nil {
		return err
	}
	accepted, err := storedPin(before)
	if err != nil || accepted == pin && current == pin {
		return err
	}
	if current != pin {
		return ErrNotCurrent
	}
	_, err = tx.Exec(ctx, `UPDATE skill_tools SET accepted_pin = current_pin WHERE skill_id = $1 AND name = $2`,
		skillID, toolName)
	if err != nil {
		return err
	}
	if err := audit.Write(ctx, tx, audit.Event{
		Actor: by, Action: "tool.accepted", Subject: skillID,
		Data: map[string]any{"tool": toolName, "pin": pin.String(), "before": accepted.String()},
	}); err != nil {
		return err
	}
	return registry.Notify(ctx, tx)
}

// Definition returns the definition with a pin. [ErrNotFound] when none was ever stored.
func (d *Discovery) Definition(ctx context.Context, pin Pin) (Definition, error) {
	return d.definitions.Get(ctx, pin, func(ctx context.Context) (Definition, error) {
		found, err := d.readDefinitions(ctx, []Pin{pin})
		if err != nil {
			return Definition{}, err
		}
		return found[pin], nil
	})
}

// Definitions returns the definitions with these pins. [ErrNotFound] when one of them was never stored.
func (d *Discovery) Definitions(ctx context.Context, pins []Pin) (map[Pin]Definition, error) {
	found := make(map[Pin]Definition, len(pins))
	var missing []Pin
	for _, pin := range pins {
		if definition, ok := d.definitions.Peek(pin); ok {
			found[pin] = definition
		} else {
			missing = append(missing, pin)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	read, err := d.readDefinitions(ctx, missing)
	if err != nil {
		return nil, err
	}
	for pin, definition := range read {
		found[pin] = definition
		d.definitions.Put(pin, definition)
	}
	return found, nil
}

// readDefinitions reads definitions and checks that they are what their pins say.
func (d *Discovery) readDefinitions(ctx context.Context, pins []Pin) (map[Pin]Definition, error) {
	keys := make([][]byte, len(pins))
	for i := range pins {
		keys[i] = pins[i][:]
	}
	rows, err := d.pool.Query(ctx, `SELECT definition::text FROM tool_definitions WHERE pin = ANY($1)`, keys)
	if err != nil {
		return nil, fmt.Errorf("read tool definitions: %w", err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read tool definitions: %w", err)
	}
	found := make(map[Pin]Definition, len(pins))
	for _, text := range texts {
		definition, err := ParseDefinition([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("read tool definitions: %w", err)
		}
		found[definition.pin] = definition
	}
	for _, pin := range pins {
		if _, ok := found[pin]; !ok {
			return nil, fmt.Errorf("read tool definition %s: %w", pin, ErrNotFound)
		}
	}
	return found, nil
}
