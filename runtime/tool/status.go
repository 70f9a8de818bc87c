package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Status returns a tool's pins from the cache. The zero PinStatus means that the skill never had such a tool.
func (d *Discovery) Status(ctx context.Context, skillID uuid.UUID, toolName string) (PinStatus, error) {
	pins, err := d.Statuses(ctx, skillID)
	if err != nil {
		return PinStatus{}, err
	}
	return pins[toolName], nil
}

// Statuses returns the pins of all tools that a skill ever had, by name, from the cache. The map is shared and must not be changed.
func (d *Discovery) Statuses(ctx context.Context, skillID uuid.UUID) (map[string]PinStatus, error) {
	return d.statuses.Get(ctx, skillID, func(ctx context.Context) (map[string]PinStatus, error) {
		return readPins(ctx, d.pool, skillID)
	})
}

// StartStatuses reads the pins of many skills that are not cached in one query, in the background. Statuses waits for it.
func (d *Discovery) StartStatuses(ctx context.Context, skillIDs []uuid.UUID) {
	d.statuses.StartAll(ctx, skillIDs, func(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]map[string]PinStatus, error) {
		return readPinsOf(ctx, d.pool, ids...)
	})
}

// HasAccepted reports whether [Discovery.Accepted] has any definitions.
func (d *Discovery) HasAccepted(ctx context.Context, skillID uuid.UUID) (bool, error) {
	statuses, err := d.Statuses(ctx, skillID)
	for _, status := range statuses {
		if status.hasUsable() {
			return true, err
		}
	}
	return false, err
}

// hasUsable reports whether the accepted definition may be offered while the server cannot be asked.
func (s PinStatus) hasUsable() bool {
	return s.Known && !s.IsRefused() && !s.Accepted.IsZero() && s.Accepted != s.Refused
}

// Accepted returns the accepted definitions of a skill's tools, by name. They may be offered while its server cannot be asked.
func (d *Discovery) Accepted(ctx context.Context, skillID uuid.UUID) ([]Definition, error) {
	statuses, err := d.Statuses(ctx, skillID)
	if err != nil {
		return nil, err
	}
	var pins []Pin
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		if status := statuses[name]; status.hasUsable() {
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

// Definition returns the definition with a pin, or [ErrNotFound] if it was never stored.
func (d *Discovery) Definition(ctx context.Context, pin Pin) (Definition, error) {
	return d.definitions.Get(ctx, pin, func(ctx context.Context) (Definition, error) {
		found, err := d.readDefinitions(ctx, []Pin{pin})
		if err != nil {
			return Definition{}, err
		}
		return found[pin], nil
	})
}

// Definitions returns the definitions with these pins, or [ErrNotFound] if one of them was never stored.
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

// readDefinitions reads definitions and compares them with their pins.
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

// Record is the stored state of one tool that a skill's server offers or offered.
type Record struct {
	Name string
	PinStatus

	FirstSeen time.Time  // when it was first offered
	RemovedAt *time.Time // nil: still offered

	skillID uuid.UUID
}

// Records returns the stored state of all tools that a skill ever had, by name, from the database.
func (d *Discovery) Records(ctx context.Context, skillID uuid.UUID) ([]Record, error) {
	records, err := readRecords(ctx, d.pool, skillID)
	if err != nil {
		return nil, fmt.Errorf("read tools of skill %s: %w", skillID, err)
	}
	return records, nil
}

const recordsSQL = `SELECT skill_id, name, current_pin, accepted_pin, refused_pin, first_seen, changed_at, removed_at
	FROM skill_tools WHERE skill_id = ANY($1)`

// readRecords reads the tools of skills, by skill and name.
func readRecords(ctx context.Context, db postgres.Querier, skillIDs ...uuid.UUID) ([]Record, error) {
	rows, _ := db.Query(ctx, recordsSQL+` ORDER BY skill_id, name COLLATE "C"`, skillIDs)
	return pgx.CollectRows(rows, scanRecord)
}

func scanRecord(row pgx.CollectableRow) (Record, error) {
	var r Record
	var stored [3][]byte
	if err := row.Scan(&r.skillID, &r.Name, &stored[0], &stored[1], &stored[2], &r.FirstSeen, &r.Changed, &r.RemovedAt); err != nil {
		return r, err
	}
	for i, pin := range []*Pin{&r.Current, &r.Accepted, &r.Refused} {
		if stored[i] == nil { // the zero pin
			continue
		}
		if len(stored[i]) != len(Pin{}) {
			return r, fmt.Errorf("pin of %d bytes", len(stored[i]))
		}
		*pin = Pin(stored[i])
	}
	r.Known = r.RemovedAt == nil
	return r, nil
}

// Offered is a tool that a skill's server offers.
type Offered struct {
	SkillID uuid.UUID
	Name    string
}

// CurrentPins returns the pins of the present definitions of all tools that the servers of skills offer.
func CurrentPins(ctx context.Context, db postgres.Querier) (map[Offered]Pin, error) {
	rows, _ := db.Query(ctx, `SELECT skill_id, name, current_pin FROM skill_tools WHERE removed_at IS NULL`)
	pins := map[Offered]Pin{}
	var offered Offered
	var pin []byte
	_, err := pgx.ForEachRow(rows, []any{&offered.SkillID, &offered.Name, &pin}, func() error {
		if len(pin) == len(Pin{}) {
			pins[offered] = Pin(pin)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read pins of all tools: %w", err)
	}
	return pins, nil
}

// FindTools returns at most limit offered tools whose name contains a text, without regard to case. Names that begin with it come
// first. Tools of deleted skills are included.
func (d *Discovery) FindTools(ctx context.Context, text string, limit int) ([]Offered, error) {
	rows, _ := d.pool.Query(ctx, `SELECT skill_id, name FROM skill_tools WHERE removed_at IS NULL AND position(lower($1) IN lower(name)) > 0
		ORDER BY position(lower($1) IN lower(name)), name, skill_id LIMIT $2`, text, limit)
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Offered])
	if err != nil {
		return nil, fmt.Errorf("find tools: %w", err)
	}
	return found, nil
}
