package identity_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/postgrestest"
)

// crew are people of an identity provider.
type crew struct {
	t     *testing.T
	db    *postgres.DB
	s     *identity.Service
	names map[uuid.UUID]string
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	db := postgrestest.New(t)
	return &crew{t: t, db: db, s: newService(t, db, ""), names: map[uuid.UUID]string{uuid.Nil: "-"}}
}

// add adds a person with a role and teams.
func (c *crew) add(name string, role identity.Role, teams ...string) uuid.UUID {
	c.t.Helper()
	id := signIn(c.t, c.s, identity.Claims{
		Issuer: issuer, Subject: name, Name: name, Email: name + "@example.com", Roles: listRoles(role), Teams: teams, ProofAge: new(time.Duration),
	}).Person
	c.s.Invalidate()
	c.names[id] = name
	return id
}

// memberships lists how everybody is a member of teams, such as "ann pay substitution bea".
func (c *crew) memberships(teams ...string) string {
	c.t.Helper()
	var people []uuid.UUID
	for id := range c.names {
		people = append(people, id)
	}
	var found []identity.Membership
	batch := &pgx.Batch{}
	identity.QueueMemberships(batch, people, teams, &found)
	check(c.t, c.db.Pool().SendBatch(c.t.Context(), batch).Close())
	lines := make([]string, len(found))
	for i, m := range found {
		lines[i] = fmt.Sprintf("%s %s %s %s", c.names[m.Person], m.Team, m.Way, c.names[m.For])
		if m.OnCall {
			lines[i] += " on call"
		}
		if !m.Counts() {
			lines[i] += ", does not count"
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (c *crew) want(want ...string) {
	c.t.Helper()
	slices.Sort(want)
	if got := c.memberships(); got != strings.Join(want, "\n") {
		c.t.Errorf("memberships\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestMemberships(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ann, bea, cem, dan := c.add("ann", identity.Reviewer, "pay"), c.add("bea", identity.Reviewer), c.add("cem", identity.Reviewer), c.add("dan", identity.Reviewer)
	olga := c.add("olga", identity.Operator, "ops")
	ctx, now := t.Context(), time.Now()
	c.want("ann pay membership -", "olga ops membership -")

	// Ann is away from tomorrow on, with Bea in her place. Bea is away too: Dan stands in for Bea, and not for Ann.
	_, err := c.s.AddAbsence(ctx, audit.Person(ann), identity.NewAbsence{Person: ann, Substitute: bea, Starts: now.Add(24 * time.Hour), Ends: now.Add(72 * time.Hour)})
	check(t, err)
	_, err = c.s.AddAbsence(ctx, audit.Person(bea), identity.NewAbsence{Person: bea, Substitute: dan, Ends: now.Add(72 * time.Hour)})
	check(t, err)
	// An operator delegates a team to Bea, and Ann delegates hers to Cem.
	_, err = c.s.Delegate(ctx, audit.Person(olga), identity.NewDelegation{Team: "night", Person: bea, Ends: now.Add(48 * time.Hour)})
	check(t, err)
	given, err := c.s.Delegate(ctx, audit.Person(ann), identity.NewDelegation{Team: "pay", Person: cem, Member: ann, Ends: now.Add(48 * time.Hour)})
	check(t, err)
	c.want("ann pay membership -", "olga ops membership -", "bea night delegation -", "cem pay delegation ann", "dan night substitution bea")
	if got := c.memberships("pay"); got != "ann pay membership -\ncem pay delegation ann" {
		t.Errorf("of one team: %s", got)
	}

	advanceSessions(t, c.db, "25 hours")
	c.want("ann pay membership -", "olga ops membership -", "bea night delegation -", "cem pay delegation ann", "dan night substitution bea", "bea pay substitution ann")
	c.s.Invalidate()
	duty, err := c.s.Duty(ctx, bea)
	check(t, err)
	if !slices.Equal(duty.Teams, []string{"night", "pay"}) || !slices.Equal(duty.People, []uuid.UUID{bea, ann}) {
		t.Errorf("duty of bea: %+v", duty)
	}

	// Ann leaves the team: what rests on her membership ends.
	left := identity.Claims{Issuer: issuer, Subject: "ann", Name: "ann", Email: "ann@example.com", Roles: listRoles(identity.Reviewer), ProofAge: new(time.Duration)}
	signIn(t, c.s, left)
	c.want("olga ops membership -", "bea night delegation -", "dan night substitution bea")
	left.Teams = []string{"pay"}
	signIn(t, c.s, left)
	check(t, c.s.EndDelegation(ctx, audit.Person(ann), ann, given.ID))
	c.want("ann pay membership -", "olga ops membership -", "bea night delegation -", "dan night substitution bea", "bea pay substitution ann")

	// A blocked person has no place, and takes none.
	_, err = c.s.ChangeMember(ctx, audit.Person(olga), ann, identity.MemberChange{Blocked: new(true)})
	check(t, err)
	_, err = c.s.ChangeMember(ctx, audit.Person(olga), dan, identity.MemberChange{Blocked: new(true)})
	check(t, err)
	c.want("olga ops membership -", "bea night delegation -")

	advanceSessions(t, c.db, "24 hours")
	c.want("olga ops membership -")
}

func TestOnCallIsAMembershipThatProvesNothing(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ann, bea := c.add("ann", identity.Reviewer, "pay"), c.add("bea", identity.Reviewer)
	c.add("cem", identity.Reviewer)
	c.add("Cem", identity.Reviewer) // an ambiguous name, but not an ambiguous address
	ctx, now := t.Context(), time.Now()
	shifts := []identity.Shift{
		{Starts: now.Add(-time.Hour), Ends: now.Add(time.Hour), Label: "1", Names: [][]string{{"ANN@example.com"}, {"bea"}}},
		{Starts: now.Add(-time.Hour), Ends: now.Add(time.Hour), Label: "2", Names: [][]string{{"nobody@example.com", "CEM"}}},
		{Starts: now.Add(-2 * time.Hour), Ends: now.Add(-time.Hour), Label: "3", Names: [][]string{{"bea"}}},
	}
	check(t, postgres.InTx(ctx, c.db.Pool(), func(tx pgx.Tx) error { return identity.ReplaceShifts(ctx, tx, "pay", shifts) }))
	c.want("ann pay membership -", "ann pay on_call - on call, does not count")
	_, err := c.s.AddAbsence(ctx, audit.Person(ann), identity.NewAbsence{Person: ann, Substitute: bea, Ends: now.Add(time.Hour)})
	check(t, err)
	c.want("ann pay membership -", "ann pay on_call - on call, does not count",
		"bea pay substitution ann", "bea pay substitution ann on call, does not count")
	current, err := c.s.CurrentShifts(ctx)
	check(t, err)
	if len(current) != 2 || current[0].Label != "1" || !slices.Equal(current[0].People, []uuid.UUID{ann}) || len(current[1].People) != 0 {
		t.Errorf("shifts %+v", current)
	}
	// Whom a name means is found again: one of the two people with the same name gets another one.
	signIn(t, c.s, identity.Claims{Issuer: issuer, Subject: "Cem", Name: "Can", Roles: listRoles(identity.Reviewer), ProofAge: new(time.Duration)})
	check(t, postgres.InTx(ctx, c.db.Pool(), func(tx pgx.Tx) error { return identity.RenameShifts(ctx, tx, "pay") }))
	current, err = c.s.CurrentShifts(ctx)
	check(t, err)
	if len(current) != 2 || len(current[1].People) != 1 || c.names[current[1].People[0]] != "cem" {
		t.Errorf("shifts %+v", current)
	}
}

func TestAbsencesAndDelegationsAreRefused(t *testing.T) {
	t.Parallel()
	c := newCrew(t)
	ann, bea, olga := c.add("ann", identity.Reviewer, "pay"), c.add("bea", identity.Reviewer), c.add("olga", identity.Operator)
	ctx, now := t.Context(), time.Now()
	invalid := func(what, field string, err error) {
		t.Helper()
		var wrong *fault.InvalidError
		if !errors.As(err, &wrong) || wrong.Fields[0].Name != field {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, n := range map[string]struct {
		field  string
		wanted identity.NewAbsence
	}{
		"a substitute who may not decide": {"substitute", identity.NewAbsence{Person: ann, Substitute: olga, Ends: now.Add(time.Hour)}},
		"their own substitute":            {"substitute", identity.NewAbsence{Person: ann, Substitute: ann, Ends: now.Add(time.Hour)}},
		"over":                            {"ends", identity.NewAbsence{Person: ann, Substitute: bea, Ends: now.Add(-time.Hour)}},
		"no end":                          {"ends", identity.NewAbsence{Person: ann, Substitute: bea}},
		"too long":                        {"ends", identity.NewAbsence{Person: ann, Substitute: bea, Ends: now.AddDate(2, 0, 0)}},
		"before it begins":                {"ends", identity.NewAbsence{Person: ann, Starts: now.Add(2 * time.Hour), Ends: now.Add(time.Hour)}},
	} {
		_, err := c.s.AddAbsence(ctx, audit.Person(ann), n.wanted)
		invalid(what, n.field, err)
	}
	_, err := c.s.Delegate(ctx, audit.Person(ann), identity.NewDelegation{Team: "pay", Person: olga, Member: ann, Ends: now.Add(time.Hour)})
	invalid("to an operator", "person", err)
	_, err = c.s.Delegate(ctx, audit.Person(ann), identity.NewDelegation{Team: " pay", Person: bea, Member: ann, Ends: now.Add(time.Hour)})
	invalid("no team", "team", err)
	if _, err = c.s.Delegate(ctx, audit.Person(ann), identity.NewDelegation{Team: "ops", Person: bea, Member: ann, Ends: now.Add(time.Hour)}); !errors.Is(err, identity.ErrNotMember) {
		t.Errorf("another team: %v", err)
	}
	if _, err = c.s.Delegate(ctx, audit.Person(ann), identity.NewDelegation{Team: "pay", Person: ann, Member: ann, Ends: now.Add(time.Hour)}); !errors.Is(err, identity.ErrSelfDelegation) {
		t.Errorf("to oneself: %v", err)
	}
	made, err := c.s.AddAbsence(ctx, audit.Person(ann), identity.NewAbsence{Person: ann, Substitute: bea, Ends: now.Add(time.Hour)})
	check(t, err)
	if err := c.s.EndAbsence(ctx, audit.Person(bea), bea, made.ID); !errors.Is(err, identity.ErrNotFound) {
		t.Errorf("another person's absence: %v", err)
	}
	check(t, c.s.EndAbsence(ctx, audit.Person(ann), ann, made.ID))
	if list, err := c.s.Absences(ctx, uuid.Nil); err != nil || len(list) != 0 {
		t.Errorf("absences %v, %v", list, err)
	}
	later, err := c.s.AddAbsence(ctx, audit.Person(olga), identity.NewAbsence{Person: ann, Starts: now.Add(time.Hour), Ends: now.Add(2 * time.Hour)})
	check(t, err)
	check(t, c.s.EndAbsence(ctx, audit.Person(olga), uuid.Nil, later.ID))
	if got := auditOf(t, c.db, ann); !slices.Contains(got, "absence.created") || !slices.Contains(got, "absence.ended") {
		t.Errorf("audit %v", got)
	}
}
