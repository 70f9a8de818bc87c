package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Shift is a time in which a team's calendar names people as on call.
type Shift struct {
	Team   string
	Starts time.Time
	Ends   time.Time
	Label  string // from the calendar
	// Names are lists of e-mail addresses and names. The first list that names anybody counts.
	Names  [][]string
	People []uuid.UUID // whom they name; empty: nobody who is known
}

// ReplaceShifts stores the shifts of a team in place of all earlier ones.
func ReplaceShifts(ctx context.Context, tx pgx.Tx, team string, shifts []Shift) error {
	if err := findPeople(ctx, tx, shifts); err != nil {
		return err
	}
	n := len(shifts)
	starts, ends, labels, names, people := make([]time.Time, n), make([]time.Time, n), make([]string, n), make([]string, n), make([]string, n)
	for i, s := range shifts {
		text, err := json.Marshal(s.Names)
		if err != nil {
			return fmt.Errorf("encode names of a shift: %w", err)
		}
		starts[i], ends[i], labels[i], names[i], people[i] = s.Starts, s.Ends, s.Label, string(text), arrayText(s.People)
	}
	batch := &pgx.Batch{}
	batch.Queue(`DELETE FROM shifts WHERE team = $1`, team)
	batch.Queue(`INSERT INTO shifts (team, number, starts_at, ends_at, label, names, people)
		SELECT $1, number, starts, ends, label, names, people::uuid[]
		FROM unnest($2::timestamptz[], $3::timestamptz[], $4::text[], $5::jsonb[], $6::text[]) WITH ORDINALITY AS s (starts, ends, label, names, people, number)`,
		team, starts, ends, labels, names, people)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("store shifts of team %s: %w", team, err)
	}
	return registry.Notify(ctx, tx)
}

// arrayText returns an array of ids as PostgreSQL writes it.
func arrayText(ids []uuid.UUID) string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = id.String()
	}
	return "{" + strings.Join(list, ",") + "}"
}

// RenameShifts finds again whom the shifts of a team name, because people come, go and change their names.
func RenameShifts(ctx context.Context, tx pgx.Tx, team string) error {
	type row struct {
		Number int
		Names  [][]string
		People []uuid.UUID
	}
	rows, err := postgres.Collect(ctx, tx, pgx.RowToStructByPos[row], `SELECT number, names, people FROM shifts WHERE team = $1 AND ends_at > holdpoint_now() ORDER BY number`, team)
	if err != nil {
		return fmt.Errorf("read shifts of team %s: %w", team, err)
	}
	shifts := make([]Shift, len(rows))
	for i := range rows {
		shifts[i].Names = rows[i].Names
	}
	if err := findPeople(ctx, tx, shifts); err != nil {
		return err
	}
	var numbers []int
	var people []string
	for i := range rows {
		if !slices.Equal(rows[i].People, shifts[i].People) {
			numbers, people = append(numbers, rows[i].Number), append(people, arrayText(shifts[i].People))
		}
	}
	if len(numbers) == 0 {
		return nil
	}
	_, err = tx.Exec(ctx, `UPDATE shifts s SET people = f.people::uuid[] FROM unnest($2::int[], $3::text[]) AS f (number, people)
		WHERE s.team = $1 AND s.number = f.number`, team, numbers, people)
	if err != nil {
		return fmt.Errorf("update shifts of team %s: %w", team, err)
	}
	return registry.Notify(ctx, tx)
}

// findPeople sets the people of shifts. An e-mail address means everyone who has it, a name only the one person who has it.
func findPeople(ctx context.Context, tx pgx.Tx, shifts []Shift) error {
	wanted := map[string]bool{}
	for _, s := range shifts {
		for _, list := range s.Names {
			for _, name := range list {
				wanted[strings.ToLower(name)] = true
			}
		}
	}
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	byEmail, byName := map[string][]uuid.UUID{}, map[string][]uuid.UUID{}
	rows, _ := tx.Query(ctx, `SELECT id, lower(coalesce(email, '')), lower(name) FROM people
		WHERE blocked_at IS NULL AND (lower(email) = ANY($1) OR lower(name) = ANY($1)) ORDER BY id`, names)
	var id uuid.UUID
	var email, name string
	_, err := pgx.ForEachRow(rows, []any{&id, &email, &name}, func() error {
		byEmail[email], byName[name] = append(byEmail[email], id), append(byName[name], id)
		return nil
	})
	if err != nil {
		return fmt.Errorf("find people on call: %w", err)
	}
	for i := range shifts {
		shifts[i].People = []uuid.UUID{}
		for _, list := range shifts[i].Names {
			var found []uuid.UUID
			for _, name := range list {
				if name = strings.ToLower(name); len(byEmail[name]) > 0 {
					found = append(found, byEmail[name]...)
				} else if len(byName[name]) == 1 {
					found = append(found, byName[name]...)
				}
			}
			if len(found) > 0 {
				slices.SortFunc(found, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
				shifts[i].People = slices.Compact(found)
				break
			}
		}
	}
	return nil
}

// CurrentShifts returns the shifts of all teams at this moment, by team.
func (s *Service) CurrentShifts(ctx context.Context) ([]Shift, error) {
	found, err := postgres.Collect(ctx, s.pool, func(row pgx.CollectableRow) (c Shift, err error) {
		err = row.Scan(&c.Team, &c.Starts, &c.Ends, &c.Label, &c.People)
		return c, err
	}, `SELECT team, starts_at, ends_at, label, people FROM shifts WHERE starts_at <= holdpoint_now() AND ends_at > holdpoint_now() ORDER BY team, starts_at, number LIMIT 1000`)
	if err != nil {
		return nil, fmt.Errorf("list who is on call: %w", err)
	}
	return found, nil
}
