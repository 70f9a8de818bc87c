package identity

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Way is how a person is a member of a team at a moment.
type Way string

// The ways to be a member, the strongest first.
const (
	ByMembership   Way = "membership"   // a provider's group or an operator says so
	ByDelegation   Way = "delegation"   // an operator or a member delegated it until a time
	BySubstitution Way = "substitution" // a member is away, and the person stands in
	ByOnCall       Way = "on_call"      // the team's calendar names the person
)

// Membership is that a person is a member of a team at a moment. A person may be one in several ways.
type Membership struct {
	Person uuid.UUID
	Team   string
	Way    Way
	// For is the member whose place the person takes: who delegated it, or who is away. uuid.Nil: it is the person's own place.
	For uuid.UUID
	// OnCall: the team's calendar names the person, or the member who is away, for this moment. A calendar is written by another
	// system and matched by address or name: it says who is asked first, and proves nothing.
	OnCall bool
	Until  *time.Time // nil: no end is known
}

// Counts reports whether the membership is one that operators or members gave. Others only order who is asked.
func (m *Membership) Counts() bool {
	return m.Way != ByOnCall && (m.Way != BySubstitution || !m.OnCall)
}

// QueueMemberships adds a read to a batch: how these people are members of teams at the moment of the database's clock. Nil teams: of all.
// A blocked person is a member of no team, and no one takes a blocked person's place. Whether a person may decide is another question:
// memberships give no role.
func QueueMemberships(batch *pgx.Batch, people []uuid.UUID, teams []string, into *[]Membership) {
	postgres.QueueAll(batch, into, "read memberships", scanMembership, membershipsSQL, people, teams)
}

// Memberships is [QueueMemberships] at once.
func Memberships(ctx context.Context, db postgres.Querier, people []uuid.UUID, teams []string) ([]Membership, error) {
	found, err := postgres.Collect(ctx, db, scanMembership, membershipsSQL, people, teams)
	if err != nil {
		return nil, fmt.Errorf("read memberships: %w", err)
	}
	return found, nil
}

// membershipsSQL selects the memberships of people $1 in teams $2. Substitution is not transitive: places are those of the person or
// delegated to the person, and are taken once.
const membershipsSQL = `WITH present AS (SELECT holdpoint_now() AS now),
	standing AS (
		SELECT a.substitute_id AS person, a.person_id AS member, a.ends_at FROM absences a, present
		WHERE a.substitute_id = ANY($1) AND a.starts_at <= now AND a.ends_at > now),
	known AS (SELECT id, claimed_teams || granted_teams AS teams FROM people
		WHERE blocked_at IS NULL AND (id = ANY($1) OR id IN (SELECT member FROM standing))),
	places AS (
		SELECT DISTINCT id AS person, team, 'membership' AS way, NULL::uuid AS taken, false AS on_call, NULL::timestamptz AS until
			FROM known, unnest(teams) AS team
		UNION ALL
		SELECT d.person_id, d.team, 'delegation', d.member_id, false, max(d.ends_at) FROM delegations d JOIN known k ON k.id = d.person_id, present
			WHERE d.created_at <= now AND d.ends_at > now AND (d.member_id IS NULL OR EXISTS (SELECT FROM people m
				WHERE m.id = d.member_id AND m.blocked_at IS NULL AND d.team = ANY(m.claimed_teams || m.granted_teams)))
			GROUP BY d.person_id, d.team, d.member_id
		UNION ALL
		SELECT k.id, s.team, 'on_call', NULL, true, max(s.ends_at) FROM shifts s JOIN known k ON k.id = ANY(s.people), present
			WHERE s.starts_at <= now AND s.ends_at > now GROUP BY k.id, s.team)
	SELECT person, team, way, taken, on_call, until FROM places WHERE person = ANY($1) AND ($2::text[] IS NULL OR team = ANY($2))
	UNION ALL
	SELECT s.person, p.team, 'substitution', s.member, p.on_call, least(s.ends_at, p.until) FROM standing s JOIN places p ON p.person = s.member
		JOIN known k ON k.id = s.person
		WHERE $2::text[] IS NULL OR p.team = ANY($2)
	ORDER BY 1, 2, 3, 4`

func scanMembership(row pgx.CollectableRow) (Membership, error) {
	var m Membership
	var member *uuid.UUID
	err := row.Scan(&m.Person, &m.Team, &m.Way, &member, &m.OnCall, &m.Until)
	m.For = postgres.OrNil(member)
	return m, err
}

// Duty is what a person is asked about at a moment.
type Duty struct {
	Memberships []Membership
	Teams       []string    // of the memberships
	People      []uuid.UUID // the person, and those who are away and whose substitute they are
}

// Duty returns what a person is asked about now. From the cache.
func (s *Service) Duty(ctx context.Context, person uuid.UUID) (Duty, error) {
	return s.duties.Get(ctx, person, func(ctx context.Context) (Duty, error) {
		d, batch := Duty{}, &pgx.Batch{}
		QueueMemberships(batch, []uuid.UUID{person}, nil, &d.Memberships)
		substituted := map[uuid.UUID][]uuid.UUID{}
		QueueSubstituted(batch, []uuid.UUID{person}, substituted)
		if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
			return Duty{}, fmt.Errorf("read duties of person %s: %w", person, err)
		}
		for i := range d.Memberships {
			d.Teams = append(d.Teams, d.Memberships[i].Team)
		}
		slices.Sort(d.Teams)
		d.Teams = slices.Compact(d.Teams)
		d.People = append([]uuid.UUID{person}, substituted[person]...)
		return d, nil
	})
}

// QueueSubstituted adds a read to a batch: by person, those who are away at this moment and whose substitute the person is.
func QueueSubstituted(batch *pgx.Batch, people []uuid.UUID, into map[uuid.UUID][]uuid.UUID) {
	batch.Queue(`SELECT DISTINCT a.substitute_id, a.person_id FROM absences a JOIN people p ON p.id = a.person_id
		WHERE a.substitute_id = ANY($1) AND a.starts_at <= holdpoint_now() AND a.ends_at > holdpoint_now() AND p.blocked_at IS NULL
		ORDER BY 1, 2`, people).Query(func(rows pgx.Rows) error {
		var person, member uuid.UUID
		_, err := pgx.ForEachRow(rows, []any{&person, &member}, func() error {
			into[person] = append(into[person], member)
			return nil
		})
		if err != nil {
			return fmt.Errorf("read substitutes: %w", err)
		}
		return nil
	})
}

// Roster returns the memberships of all reviewers at this moment.
func (s *Service) Roster(ctx context.Context) ([]Membership, error) {
	reviewers, err := s.Reviewers(ctx)
	if err != nil {
		return nil, err
	}
	people := make([]uuid.UUID, len(reviewers))
	for i := range reviewers {
		people[i] = reviewers[i].Person
	}
	return Memberships(ctx, s.pool, people, nil)
}
