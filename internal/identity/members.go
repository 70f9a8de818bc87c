package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Member is a person with what they may do, and by what.
type Member struct {
	Person

	ClaimedRoles []Role // by the groups of their last sign-in with an identity provider
	GrantedRoles []Role // by an operator
	// CredentialRoles are those of valid personal tokens, of sessions that a link began, and of the bootstrap token.
	CredentialRoles []Role
	ClaimedTeams    []string
	GrantedTeams    []string
	GrantedAgents   []string // that they may act as, besides those of their roles; by an operator
	SignedInAt      *time.Time
	BlockedAt       *time.Time // none of their credentials is valid
	Sessions        int        // that are not over
	Tokens          int        // that are valid
}

// memberColumns read a member; tokens and sessions only as far as they are valid.
const memberColumns = personColumns + `, p.claimed_roles, p.granted_roles, p.claimed_teams, p.granted_teams, p.granted_agents, p.signed_in_at, p.blocked_at,
	ARRAY(SELECT DISTINCT unnest(t.roles) FROM person_tokens t WHERE t.person_id = p.id AND ` + tokenValid + `
		UNION SELECT unnest(s.roles) FROM person_sessions s WHERE s.person_id = p.id AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now()
		ORDER BY 1),
	(SELECT count(*) FROM person_sessions s LEFT JOIN person_tokens t ON t.id = s.token_id
		WHERE s.person_id = p.id AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() AND (t.id IS NULL OR ` + tokenValid + `)),
	(SELECT count(*) FROM person_tokens t WHERE t.person_id = p.id AND ` + tokenValid + `)`

func scanMember(row pgx.CollectableRow) (Member, error) {
	var m Member
	err := row.Scan(append(m.targets(), &m.ClaimedRoles, &m.GrantedRoles, &m.ClaimedTeams, &m.GrantedTeams, &m.GrantedAgents, &m.SignedInAt, &m.BlockedAt,
		&m.CredentialRoles, &m.Sessions, &m.Tokens)...)
	return m, err
}

// MemberFilter selects people. Zero fields select all.
type MemberFilter struct {
	Text   string    // in name, e-mail, subject
	Before uuid.UUID // older ones
	Limit  int
}

// Members returns people, newest first, and the cursor of the next page (uuid.Nil: none).
func (s *Service) Members(ctx context.Context, f MemberFilter) ([]Member, uuid.UUID, error) {
	limit := postgres.PageLength(f.Limit)
	members, err := s.members(ctx, s.pool, `($1::uuid IS NULL OR p.id < $1)
		AND ($2 = '' OR position(lower($2) IN lower(concat_ws(' ', p.name, p.email, p.subject))) > 0)
		ORDER BY p.id DESC LIMIT $3`, postgres.OrNull(f.Before), f.Text, limit+1)
	if err != nil {
		return nil, uuid.Nil, err
	}
	if len(members) <= limit {
		return members, uuid.Nil, nil
	}
	return members[:limit], members[limit-1].ID, nil
}

// Member returns one person. ErrNotFound when there is none of this id.
func (s *Service) Member(ctx context.Context, id uuid.UUID) (Member, error) {
	return s.member(ctx, s.pool, id)
}

func (s *Service) member(ctx context.Context, db postgres.Querier, id uuid.UUID) (Member, error) {
	members, err := s.members(ctx, db, `p.id = $1`, id)
	if err == nil && len(members) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Member{}, fmt.Errorf("read person %s: %w", id, err)
	}
	return members[0], nil
}

func (s *Service) members(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Member, error) {
	rows, err := db.Query(ctx, `SELECT `+memberColumns+` FROM people p WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	members, err := pgx.CollectRows(rows, scanMember)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	for i := range members {
		if m := &members[i]; s.bootstrap != nil && m.Issuer == LocalIssuer && m.Subject == Bootstrap {
			m.CredentialRoles = bootstrapRoles()
		}
	}
	return members, nil
}

// MemberChange is what an operator changes of a person. Nil fields stay as they are.
type MemberChange struct {
	Roles   *[]Role   // granted
	Teams   *[]string // granted
	Agents  *[]string // granted
	Blocked *bool
	// Was is what they had been granted when the change was decided on: ErrChanged where it is other by now. Nil: whatever.
	Was *Grants
}

// Grants are what operators give a person.
type Grants struct {
	Roles []Role
	Teams []string
}

func (g *Grants) of(m *Member) bool {
	return slices.Equal(union(g.Roles), union(m.GrantedRoles)) && slices.Equal(union(g.Teams), union(m.GrantedTeams))
}

// ErrChanged is returned for a change of what is no more as it was when the change was decided on.
var ErrChanged = errors.New("somebody else changed it meanwhile")

func (c *MemberChange) check() error {
	if c.Roles != nil {
		for _, role := range *c.Roles {
			if role != Reviewer && role != Operator {
				return &InvalidError{"roles", fmt.Sprintf("%q is neither reviewer nor operator", role)}
			}
		}
	}
	if c.Agents != nil {
		for _, agent := range *c.Agents {
			if err := validName(agent); err != nil {
				return &InvalidError{"agents", fmt.Sprintf("%q is no agent's name", agent)}
			}
		}
	}
	if c.Teams != nil {
		if len(*c.Teams) > maxTeams {
			return &InvalidError{"teams", fmt.Sprintf("must be at most %d", maxTeams)}
		}
		for _, team := range *c.Teams {
			if err := validTeam(team); err != nil {
				return err
			}
		}
	}
	return nil
}

// ErrSelf is returned when operators would take their own way in.
var ErrSelf = errors.New("nobody blocks themself: another operator can")

// ErrSelfGrant is returned when operators would add to what they may do themselves.
var ErrSelfGrant = errors.New("nobody adds a role or an agent to themselves: another operator can")

// ErrSelfLink is returned when operators would change whom they are the same as.
var ErrSelfLink = errors.New("nobody links or unlinks themselves: another operator can")

// ErrLastOperator is returned for what would leave nobody who is an operator.
var ErrLastOperator = errors.New("nobody would be left who is an operator")

// ChangeMember changes, as an operator's act, what a person may do. It holds at once, in every process. Errors:
// ErrNotFound, ErrSelf, ErrSelfGrant, ErrLastOperator, ErrChanged, *InvalidError.
func (s *Service) ChangeMember(ctx context.Context, by audit.Actor, id uuid.UUID, change MemberChange) (Member, error) {
	if err := change.check(); err != nil {
		return Member{}, fmt.Errorf("change person %s: %w", id, err)
	}
	if change.Blocked != nil && *change.Blocked && by == audit.Person(id) {
		return Member{}, fmt.Errorf("change person %s: %w", id, ErrSelf)
	}
	var changed Member
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		changed, err = s.changeMember(ctx, tx, by, id, change)
		return err
	})
	if err != nil {
		return Member{}, fmt.Errorf("change person %s: %w", id, err)
	}
	s.Invalidate()
	return changed, nil
}

// peopleLock lets one change of what people may do happen at a time.
const peopleLock = `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_people', 0))`

// changeMember changes one member after the other: two operators could take each other's role at once.
func (s *Service) changeMember(ctx context.Context, tx pgx.Tx, by audit.Actor, id uuid.UUID, change MemberChange) (Member, error) {
	if _, err := tx.Exec(ctx, peopleLock); err != nil {
		return Member{}, err
	}
	was, err := s.member(ctx, tx, id)
	if err != nil {
		return Member{}, err
	}
	if change.Was != nil && !change.Was.of(&was) {
		return Member{}, ErrChanged
	}
	if err := s.checkGrant(ctx, tx, by, was, change); err != nil {
		return Member{}, err
	}
	before, err := s.operators(ctx, tx)
	if err != nil {
		return Member{}, err
	}
	events, err := applyChange(ctx, tx, by, was, change)
	if err != nil || len(events) == 0 {
		return was, err
	}
	after, err := s.operators(ctx, tx)
	if err != nil {
		return Member{}, err
	}
	if before > 0 && after == 0 {
		return Member{}, ErrLastOperator
	}
	if err := errors.Join(audit.Write(ctx, tx, events...), registry.Notify(ctx, tx)); err != nil {
		return Member{}, err
	}
	return s.member(ctx, tx, id)
}

// checkGrant refuses what people would give themselves: to their own person, or to one of those on whose word alone they
// are known. The first person may, by the bootstrap token, until there is a second operator.
func (s *Service) checkGrant(ctx context.Context, tx pgx.Tx, by audit.Actor, was Member, change MemberChange) error {
	added := change.Roles != nil && adds(*change.Roles, was.GrantedRoles) || change.Agents != nil && adds(*change.Agents, was.GrantedAgents)
	if by.Kind != audit.KindPerson || !added {
		return nil
	}
	tied, err := isTied(ctx, tx, by.ID, was.ID)
	if err != nil || !tied {
		return err
	}
	if was.First {
		if alone, err := s.isBootstrapAlone(ctx, tx, by.ID); err != nil || alone {
			return err
		}
	}
	return ErrSelfGrant
}

// isBootstrapAlone reports whether a person is that of the bootstrap token, and there is no second operator.
func (s *Service) isBootstrapAlone(ctx context.Context, tx pgx.Tx, id uuid.UUID) (bool, error) {
	people, err := collectPeople(ctx, tx, `SELECT `+personColumns+` FROM people p WHERE p.id = $1`, id)
	if err != nil || len(people) == 0 || !(Access{Person: people[0]}).isBootstrap() {
		return false, err
	}
	return s.isAlone(ctx, tx)
}

// adds reports whether a list has something that another lacks.
func adds[T comparable](list, before []T) bool {
	return slices.ContainsFunc(list, func(one T) bool { return !slices.Contains(before, one) })
}

// applyChange writes what differs, and returns the events that tell of it.
func applyChange(ctx context.Context, tx pgx.Tx, by audit.Actor, was Member, change MemberChange) ([]audit.Event, error) {
	var events []audit.Event
	tell := func(action string, data map[string]any) {
		events = append(events, audit.Event{Actor: by, Action: action, Subject: was.ID, Data: data})
	}
	roles, teams, agents := was.GrantedRoles, was.GrantedTeams, was.GrantedAgents
	if change.Agents != nil {
		agents = union(*change.Agents)
	}
	if change.Roles != nil {
		roles = union(*change.Roles)
	}
	if change.Teams != nil {
		teams = union(*change.Teams)
	}
	if !slices.Equal(roles, was.GrantedRoles) || !slices.Equal(teams, was.GrantedTeams) || !slices.Equal(agents, was.GrantedAgents) {
		tell("person.granted", map[string]any{"roles": roles, "teams": teams, "agents": agents})
	}
	blocked := was.BlockedAt != nil
	if change.Blocked != nil && *change.Blocked != blocked {
		blocked = *change.Blocked
		tell(map[bool]string{true: "person.blocked", false: "person.unblocked"}[blocked], nil)
	}
	if len(events) == 0 {
		return nil, nil
	}
	_, err := tx.Exec(ctx, `UPDATE people SET granted_roles = $2, granted_teams = $3,
		blocked_at = CASE WHEN $4 THEN coalesce(blocked_at, holdpoint_now()) END, granted_agents = $5 WHERE id = $1`, was.ID, roles, teams, blocked, agents)
	return events, err
}

// operators is how many people are operators or could sign in and be. With none, nobody could make one.
func (s *Service) operators(ctx context.Context, tx pgx.Tx) (int, error) {
	if s.bootstrap != nil {
		if _, err := ensurePerson(ctx, tx, audit.System(), Bootstrap); err != nil {
			return 0, err
		}
	}
	found, err := s.holders(ctx, tx, Operator)
	return len(found), err
}
