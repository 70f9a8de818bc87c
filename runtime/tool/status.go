package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
		status := statuses[name]
		if status.Known && !status.IsRefused() && !status.Accepted.IsZero() && status.Accepted != status.Refused {
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
