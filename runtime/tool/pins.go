package tool

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// PinStatus is where one tool of a skill stands.
type PinStatus struct {
	Current  Pin  // the definition that the server offered last
	Accepted Pin  // the one that was accepted; zero: none ever was
	Refused  Pin  // the one that an operator refused; zero: none
	Known    bool // the server offers the tool now

	Changed time.Time // when the server began to offer Current
}

// IsRefused reports whether an operator refused the definition that the server offers: no call of it is sent.
func (s PinStatus) IsRefused() bool { return s.Known && s.Current == s.Refused }

// IsAccepted reports whether the tool is offered as it was accepted.
func (s PinStatus) IsAccepted() bool { return s.Known && s.Current == s.Accepted }

// change is what a listing found about one tool.
type change struct {
	name          string
	from, current Pin
}

// changes are what a listing found that was not known before.
type changes struct {
	accepted []change // of the first listing, or new and trusted
	added    []change // new, or offered again, and not accepted
	changed  []change
	restored []change // again as it was accepted
	removed  []change
}

func (c changes) empty() bool {
	return len(c.accepted)+len(c.added)+len(c.changed)+len(c.restored)+len(c.removed) == 0
}

// compare tells what a listing changes in the pins of a skill. What one person is not offered (partial) may be
// offered to others.
func compare(known map[string]PinStatus, tools []Definition, partial, acceptNew bool) changes {
	var c changes
	offered := make(map[string]bool, len(tools))
	for _, tool := range tools {
		offered[tool.Name] = true
		was := known[tool.Name]
		found := change{tool.Name, was.Current, tool.pin}
		switch {
		case was.Accepted.IsZero() && acceptNew && was.Refused != tool.pin:
			c.accepted = append(c.accepted, found)
		case was.Known && was.Current == tool.pin:
		case was.Accepted == tool.pin:
			c.restored = append(c.restored, found)
		case was.Known:
			c.changed = append(c.changed, found)
		default:
			c.added = append(c.added, found)
		}
	}
	if partial {
		return c
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if was := known[name]; was.Known && !offered[name] {
			c.removed = append(c.removed, change{name, was.Current, Pin{}})
		}
	}
	return c
}

// record stores how a listing went. The definitions of a successful one are stored
// in any case; the pins move only if no later listing was recorded.
func (d *Discovery) record(ctx context.Context, tx pgx.Tx, attempt Attempt, tools []Definition, partial, trustNewTools bool) (changes, error) {
	standing, err := d.listed(ctx, tx, attempt)
	if err != nil {
		return changes{}, err
	}
	if standing == Superseded {
		return changes{}, ErrSuperseded
	}
	if !attempt.Succeeded() {
		return changes{}, nil
	}
	known, err := readPins(ctx, tx, attempt.SkillID)
	if err != nil {
		return changes{}, err
	}
	if err := storeDefinitions(ctx, tx, known, tools); err != nil {
		return changes{}, err
	}
	if standing == Outdated || standing == Overtaken && !partial {
		return changes{}, nil
	}
	c := compare(known, tools, partial, standing == First || trustNewTools)
	if c.empty() {
		return c, nil
	}
	if err := storePins(ctx, tx, attempt.SkillID, c); err != nil {
		return changes{}, err
	}
	if err := audit.Write(ctx, tx, c.events(attempt.SkillID)...); err != nil {
		return changes{}, err
	}
	return c, registry.Notify(ctx, tx)
}

func readPins(ctx context.Context, db querier, skillID uuid.UUID) (map[string]PinStatus, error) {
	records, err := readRecords(ctx, db, skillID)
	if err != nil {
		return nil, err
	}
	pins := make(map[string]PinStatus, len(records))
	for _, r := range records {
		pins[r.Name] = r.PinStatus
	}
	return pins, nil
}

// storedPin takes a pin as it is stored; null is the zero one.
func storedPin(stored []byte) (Pin, error) {
	if stored == nil {
		return Pin{}, nil
	}
	if len(stored) != len(Pin{}) {
		return Pin{}, fmt.Errorf("pin of %d bytes", len(stored))
	}
	return Pin(stored), nil
}

// storeDefinitions stores those that are not current already. They are sorted, so that
// two transactions never wait for each other.
func storeDefinitions(ctx context.Context, tx pgx.Tx, known map[string]PinStatus, tools []Definition) error {
	var news []Definition
	for _, tool := range tools {
		if known[tool.Name].Current != tool.pin {
			news = append(news, tool)
		}
	}
	if len(news) == 0 {
		return nil
	}
	return StoreDefinitions(ctx, tx, news)
}

// StoreDefinitions stores those that are not stored yet, so that their pins find them. Those that a skill's server lists are stored
// by themselves.
func StoreDefinitions(ctx context.Context, tx pgx.Tx, news []Definition) error {
	slices.SortFunc(news, func(a, b Definition) int { return slices.Compare(a.pin[:], b.pin[:]) })
	pins, texts := make([][]byte, len(news)), make([]string, len(news))
	for i := range news {
		pins[i], texts[i] = news[i].pin[:], string(news[i].raw)
	}
	_, err := tx.Exec(ctx, `INSERT INTO tool_definitions (pin, definition)
		SELECT pin, definition::json FROM unnest($1::bytea[], $2::text[]) WITH ORDINALITY AS d(pin, definition, n)
		ORDER BY n ON CONFLICT (pin) DO NOTHING`, pins, texts)
	if err != nil {
		return fmt.Errorf("store tool definitions: %w", err)
	}
	return nil
}

func storePins(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, c changes) error {
	var names []string
	var pins [][]byte
	var accepted []bool
	add := func(list []change, accept bool) {
		for i := range list {
			names, pins, accepted = append(names, list[i].name), append(pins, list[i].current[:]), append(accepted, accept)
		}
	}
	add(c.accepted, true)
	add(c.added, false)
	add(c.changed, false)
	add(c.restored, false)
	_, err := tx.Exec(ctx, `INSERT INTO skill_tools AS t (skill_id, name, current_pin, accepted_pin)
		SELECT $1, name, pin, CASE WHEN accept THEN pin END
		FROM unnest($2::text[], $3::bytea[], $4::boolean[]) AS n(name, pin, accept)
		ON CONFLICT (skill_id, name) DO UPDATE SET current_pin = excluded.current_pin, removed_at = NULL,
			accepted_pin = coalesce(excluded.accepted_pin, t.accepted_pin),
			changed_at = CASE WHEN t.current_pin = excluded.current_pin THEN t.changed_at ELSE holdpoint_now() END`,
		skillID, names, pins, accepted)
	if err != nil {
		return fmt.Errorf("store pins of skill %s: %w", skillID, err)
	}
	gone := make([]string, len(c.removed))
	for i := range c.removed {
		gone[i] = c.removed[i].name
	}
	_, err = tx.Exec(ctx, `UPDATE skill_tools SET removed_at = holdpoint_now()
		WHERE skill_id = $1 AND name = ANY($2)`, skillID, gone)
	if err != nil {
		return fmt.Errorf("store removed tools of skill %s: %w", skillID, err)
	}
	return nil
}

// events tell the changes: what was accepted in one event, everything that
// somebody may have to look at in one each.
func (c changes) events(skillID uuid.UUID) []audit.Event {
	var events []audit.Event
	add := func(action string, data map[string]any) {
		events = append(events, audit.Event{Actor: audit.System(), Action: action, Subject: skillID, Data: data})
	}
	if len(c.accepted) > 0 {
		pins := make(map[string]string, len(c.accepted))
		for _, found := range c.accepted {
			pins[found.name] = found.current.String()
		}
		add("tools.accepted", map[string]any{"tools": pins})
	}
	each := func(action string, list []change) {
		for _, found := range list {
			data := map[string]any{"tool": found.name}
			if !found.from.IsZero() {
				data["from"] = found.from.String()
			}
			if !found.current.IsZero() {
				data["pin"] = found.current.String()
			}
			add(action, data)
		}
	}
	each("tool.added", c.added)
	each("tool.changed", c.changed)
	each("tool.restored", c.restored)
	each("tool.removed", c.removed)
	slices.SortStableFunc(events, func(a, b audit.Event) int { return cmp.Compare(a.Action, b.Action) })
	return events
}
