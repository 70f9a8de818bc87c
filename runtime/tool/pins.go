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
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// PinStatus has the pins of one tool of a skill.
type PinStatus struct {
	Current  Pin  // the definition that the server offered last
	Accepted Pin  // the accepted definition; zero: none
	Refused  Pin  // the refused definition; zero: none
	Known    bool // the server offers the tool now

	Changed time.Time // when the server began to offer Current
}

// IsRefused reports whether an operator refused the current definition: no call of it is sent.
func (s PinStatus) IsRefused() bool { return s.Known && s.Current == s.Refused }

// IsAccepted reports whether the current definition is the accepted one.
func (s PinStatus) IsAccepted() bool { return s.Known && s.Current == s.Accepted }

// change is a difference that a listing found in one tool.
type change struct {
	// action is ToolsAccepted (in the first listing, or new and trusted), ToolAdded (new or offered again, and not accepted), ToolChanged,
	// ToolRestored (the accepted definition again) or ToolRemoved.
	action        audit.Action
	name          string
	from, current Pin
}

// compareListing returns the differences between a listing and the pins of a skill. In a partial listing, tools of other people, or tools
// that callers named, may be missing.
func compareListing(known map[string]PinStatus, tools []Definition, partial, acceptNew bool) []change {
	var changes []change
	offered := make(map[string]bool, len(tools))
	for _, tool := range tools {
		offered[tool.Name] = true
		was := known[tool.Name]
		found := change{audit.ToolAdded, tool.Name, was.Current, tool.pin}
		switch {
		case was.Accepted.IsZero() && acceptNew && was.Refused != tool.pin:
			found.action = audit.ToolsAccepted
		case was.Known && was.Current == tool.pin:
			continue
		case was.Accepted == tool.pin:
			found.action = audit.ToolRestored
		case was.Known:
			found.action = audit.ToolChanged
		}
		changes = append(changes, found)
	}
	if partial {
		return changes
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if was := known[name]; was.Known && !offered[name] {
			changes = append(changes, change{audit.ToolRemoved, name, was.Current, Pin{}})
		}
	}
	return changes
}

// recordListing stores the outcome of a listing. It stores the definitions of every success, and changes pins only if no later listing was
// recorded.
func (d *Discovery) recordListing(ctx context.Context, attempt Attempt, tools []Definition, partial, trustNewTools bool) (changes []change, err error) {
	first := &pgx.Batch{}
	var records []Record
	record := d.listed(first, attempt)
	postgres.QueueAll(first, &records, "read pins", scanRecord, recordsSQL, []uuid.UUID{attempt.SkillID})
	err = postgres.InBatchTx(ctx, d.pool, first, func(tx pgx.Tx) (*pgx.Batch, error) {
		last := &pgx.Batch{}
		standing := record(last)
		if standing == Superseded {
			return nil, ErrSuperseded
		}
		if attempt.Succeeded() {
			changes, err = storeListing(ctx, tx, attempt, standing, indexPins(records)[attempt.SkillID], tools, partial, trustNewTools)
		}
		return last, err
	})
	return changes, err
}

// storeListing stores the definitions of a listing, and its changes to the known pins.
func storeListing(ctx context.Context, tx pgx.Tx, attempt Attempt, standing Standing, known map[string]PinStatus, tools []Definition, partial, trustNewTools bool) ([]change, error) {
	var news []Definition
	for _, tool := range tools {
		if known[tool.Name].Current != tool.pin {
			news = append(news, tool)
		}
	}
	if len(news) > 0 {
		if err := StoreDefinitions(ctx, tx, news); err != nil {
			return nil, err
		}
	}
	if standing == Outdated || standing == Overtaken && !partial {
		return nil, nil
	}
	changes := compareListing(known, tools, partial, standing == First || trustNewTools)
	if len(changes) == 0 {
		return nil, nil
	}
	if err := storePins(ctx, tx, attempt.SkillID, changes); err != nil {
		return nil, err
	}
	if err := audit.Write(ctx, tx, auditEvents(attempt.SkillID, changes)...); err != nil {
		return nil, err
	}
	return changes, registry.Notify(ctx, tx)
}

// QueuePin adds the read of a tool's pins to a batch. They stay zero if the skill's server never offered the tool.
func QueuePin(batch *pgx.Batch, skillID uuid.UUID, name string, into *PinStatus) {
	batch.Queue(recordsSQL+" AND name = $2", []uuid.UUID{skillID}, name).Query(func(rows pgx.Rows) error {
		records, err := pgx.CollectRows(rows, scanRecord)
		if err != nil {
			return fmt.Errorf("read pins: %w", err)
		}
		for _, r := range records {
			*into = r.PinStatus
		}
		return nil
	})
}

func readPins(ctx context.Context, db postgres.Querier, skillID uuid.UUID) (map[string]PinStatus, error) {
	all, err := readPinsOf(ctx, db, skillID)
	return all[skillID], err
}

func readPinsOf(ctx context.Context, db postgres.Querier, skillIDs ...uuid.UUID) (map[uuid.UUID]map[string]PinStatus, error) {
	records, err := readRecords(ctx, db, skillIDs...)
	if err != nil {
		return nil, fmt.Errorf("read pins: %w", err)
	}
	return indexPins(records), nil
}

// indexPins returns pins by skill and tool.
func indexPins(records []Record) map[uuid.UUID]map[string]PinStatus {
	all := map[uuid.UUID]map[string]PinStatus{}
	for _, r := range records {
		if all[r.skillID] == nil {
			all[r.skillID] = map[string]PinStatus{}
		}
		all[r.skillID][r.Name] = r.PinStatus
	}
	return all
}

// StoreDefinitions stores definitions that are not stored yet. It sorts them, so that two transactions never wait for each other. Listings
// store their definitions themselves.
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

func storePins(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, changes []change) error {
	var names, gone []string
	var pins [][]byte
	var accepted []bool
	for i := range changes {
		c := &changes[i]
		if c.action == audit.ToolRemoved {
			gone = append(gone, c.name)
			continue
		}
		names, pins, accepted = append(names, c.name), append(pins, c.current[:]), append(accepted, c.action == audit.ToolsAccepted)
	}
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
	_, err = tx.Exec(ctx, `UPDATE skill_tools SET removed_at = holdpoint_now()
		WHERE skill_id = $1 AND name = ANY($2)`, skillID, gone)
	if err != nil {
		return fmt.Errorf("store removed tools of skill %s: %w", skillID, err)
	}
	return nil
}

// auditEvents returns the events of the changes: one for all accepted tools, and one for each change that an operator may have to look at.
func auditEvents(skillID uuid.UUID, changes []change) []audit.Event {
	var events []audit.Event
	add := func(action audit.Action, data map[string]any) {
		events = append(events, audit.Event{Actor: audit.System(), Action: action, Subject: skillID, Data: data})
	}
	accepted := map[string]string{}
	for _, c := range changes {
		if c.action == audit.ToolsAccepted {
			accepted[c.name] = c.current.String()
			continue
		}
		data := map[string]any{"tool": c.name}
		if !c.from.IsZero() {
			data["from"] = c.from.String()
		}
		if !c.current.IsZero() {
			data["pin"] = c.current.String()
		}
		add(c.action, data)
	}
	if len(accepted) > 0 {
		add(audit.ToolsAccepted, map[string]any{"tools": accepted})
	}
	slices.SortStableFunc(events, func(a, b audit.Event) int { return cmp.Compare(a.Action, b.Action) })
	return events
}

// Accept accepts a tool's current definition, and revokes its refusal. The pin is the one that the operator saw: Accept returns
// [ErrNotCurrent] if the server offers another definition now, and [ErrNotFound] if there is no such tool. Accepting twice changes
// nothing. After the commit the caller calls [Discovery.Invalidate].
func (d *Discovery) Accept(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin, by audit.Actor) error {
	s, err := lockOffered(ctx, tx, skillID, toolName, pin)
	if err == nil && (!s.IsAccepted() || s.IsRefused()) {
		err = updateTool(ctx, tx, `accepted_pin = current_pin, refused_pin = nullif(refused_pin, current_pin)`, skillID, toolName,
			audit.Event{Actor: by, Action: audit.ToolAccepted, Subject: skillID, Data: map[string]any{
				"tool": toolName, "pin": pin.String(), "before": s.Accepted.String(),
			}})
	}
	if err != nil {
		return fmt.Errorf("accept tool %q of skill %s: %w", toolName, skillID, err)
	}
	return nil
}

// Refuse refuses a tool's current definition: no call of it is sent. Pin and errors are as in [Discovery.Accept]. Only the last refused
// definition of a tool is stored; another one that the server offers later counts as changed.
func (d *Discovery) Refuse(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin, by audit.Actor) error {
	s, err := lockOffered(ctx, tx, skillID, toolName, pin)
	if err == nil && !s.IsRefused() {
		err = updateTool(ctx, tx, `refused_pin = current_pin`, skillID, toolName,
			audit.Event{Actor: by, Action: audit.ToolRefused, Subject: skillID, Data: map[string]any{
				"tool": toolName, "pin": pin.String(),
			}})
	}
	if err != nil {
		return fmt.Errorf("refuse tool %q of skill %s: %w", toolName, skillID, err)
	}
	return nil
}

// lockOffered locks a tool whose current definition has this pin.
func lockOffered(ctx context.Context, tx pgx.Tx, skillID uuid.UUID, toolName string, pin Pin) (PinStatus, error) {
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

// updateTool stores the decision of an operator about a tool.
func updateTool(ctx context.Context, tx pgx.Tx, change string, skillID uuid.UUID, toolName string, event audit.Event) error {
	_, err := tx.Exec(ctx, `UPDATE skill_tools SET `+change+` WHERE skill_id = $1 AND name = $2`, skillID, toolName)
	if err != nil {
		return err
	}
	if err := audit.Write(ctx, tx, event); err != nil {
		return err
	}
	return registry.Notify(ctx, tx)
}
