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
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/registry"
)

// Member is a person with their roles, teams and agents, and where each comes from.
type Member struct {
	Person

	ClaimedRoles []Role // from the groups of the last sign-in with an identity provider
	GrantedRoles []Role // from an operator
	// CredentialRoles are those of valid personal tokens, of sessions that a sign-in link began, and of the bootstrap token.
	CredentialRoles []Role
	ClaimedTeams    []string
	GrantedTeams    []string
	GrantedAgents   []string // that they may act as, besides those of their roles; from an operator
	LostRole        Role     // that does not count, because roles are separate on this server; empty: all count
	SignedInAt      *time.Time
	BlockedAt       *time.Time // when all their credentials became invalid; nil: they are not blocked
	Sessions        int        // valid sessions
	Tokens          int        // valid tokens
}

// memberColumns reads a member. Only valid tokens and sessions count.
const memberColumns = personColumns + `, p.claimed_roles, p.granted_roles, p.claimed_teams, p.granted_teams, p.granted_agents, p.signed_in_at, p.blocked_at,
	ARRAY(SELECT DISTINCT unnest(t.roles) FROM person_tokens t WHERE t.person_id = p.id AND ` + tokenValidSQL + `
		UNION SELECT unnest(s.roles) FROM person_sessions s WHERE s.person_id = p.id AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now()
		ORDER BY 1),
	(SELECT count(*) FROM person_sessions s LEFT JOIN person_tokens t ON t.id = s.token_id
		WHERE s.person_id = p.id AND s.revoked_at IS NULL AND s.expires_at > holdpoint_now() AND (t.id IS NULL OR ` + tokenValidSQL + `)),
	(SELECT count(*) FROM person_tokens t WHERE t.person_id = p.id AND ` + tokenValidSQL + `)`

// MemberFilter selects people. Zero fields select all.
type MemberFilter struct {
	Text   string    // contained in name, email or subject
	Before uuid.UUID // only older people: the cursor
	Limit  int
}

// Members returns people, the newest first, and the cursor of the next page; uuid.Nil: this is the last page.
func (s *Service) Members(ctx context.Context, f MemberFilter) ([]Member, uuid.UUID, error) {
	limit := postgres.PageLength(f.Limit)
	members, err := s.queryMembers(ctx, s.pool, `($1::uuid IS NULL OR p.id < $1)
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

// Member returns a person, or [ErrNotFound].
func (s *Service) Member(ctx context.Context, id uuid.UUID) (Member, error) {
	return s.readMember(ctx, s.pool, id)
}

func (s *Service) readMember(ctx context.Context, db postgres.Querier, id uuid.UUID) (Member, error) {
	members, err := s.queryMembers(ctx, db, `p.id = $1`, id)
	if err == nil && len(members) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Member{}, fmt.Errorf("read person %s: %w", id, err)
	}
	return members[0], nil
}

func (s *Service) queryMembers(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Member, error) {
	members, err := postgres.Collect(ctx, db, scanMember, `SELECT `+memberColumns+` FROM people p WHERE `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("read people: %w", err)
	}
	for i := range members {
		if m := &members[i]; s.bootstrap != nil && m.Issuer == LocalIssuer && m.Subject == Bootstrap {
			m.CredentialRoles = s.bootstrapRoles()
		}
		if s.separate {
			if members[i].LostRole, err = readLostRole(ctx, db, members[i].ID); err != nil {
				return nil, err
			}
		}
	}
	return members, nil
}

func scanMember(row pgx.CollectableRow) (Member, error) {
	var m Member
	err := row.Scan(append(m.scanTargets(), &m.ClaimedRoles, &m.GrantedRoles, &m.ClaimedTeams, &m.GrantedTeams, &m.GrantedAgents, &m.SignedInAt, &m.BlockedAt,
		&m.CredentialRoles, &m.Sessions, &m.Tokens)...)
	return m, err
}

// MemberChange is a change that an operator makes to a person. Nil fields stay as they are.
type MemberChange struct {
	Roles   *[]Role   // granted
	Teams   *[]string // granted
	Agents  *[]string // granted
	Limit   *Limit    // of the calls that they may decide; without names: none
	Blocked *bool
	// Was holds the grants that the operator saw. If they have changed since, the result is [ErrChanged]. Nil: not compared.
	Was *Grants
}

// Grants are the roles and teams that operators gave a person.
type Grants struct {
	Roles []Role
	Teams []string
}

// Errors about changes of members.
var (
	// ErrChanged: the grants have changed since the operator saw them.
	ErrChanged = errors.New("the grants have changed: reload them and try again")
	// ErrSelf: operators do not block themselves.
	ErrSelf = errors.New("you cannot block yourself: another operator can")
	// ErrSelfGrant: operators do not add roles or agents to themselves.
	ErrSelfGrant = errors.New("you cannot add a role or an agent to yourself: another operator can")
	// ErrSelfLink: operators do not link or unlink themselves.
	ErrSelfLink = errors.New("you cannot link or unlink yourself: another operator can")
	// ErrLastOperator: the change would leave no operator.
	ErrLastOperator = errors.New("the change would leave no operator")
)

// ChangeMember changes the grants of a person, or blocks or unblocks them. It takes effect at once in every process. Errors:
// [ErrNotFound], [ErrSelf], [ErrSelfGrant], [ErrLastOperator], [ErrChanged], [ErrBothRoles], *[fault.InvalidError], *[dualcontrol.WaitsError] if the change waits for a second operator.
func (s *Service) ChangeMember(ctx context.Context, by audit.Actor, id uuid.UUID, change MemberChange) (Member, error) {
	if err := change.checkFields(); err != nil {
		return Member{}, fmt.Errorf("change person %s: %w", id, err)
	}
	if change.Blocked != nil && *change.Blocked && by == audit.Person(id) {
		return Member{}, fmt.Errorf("change person %s: %w", id, ErrSelf)
	}
	var changed Member
	var waits *dualcontrol.Change
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		changed, waits, err = s.changeMember(ctx, tx, by, id, change)
		return err
	})
	if err == nil {
		err = waits.AsError()
	}
	if err != nil {
		return Member{}, fmt.Errorf("change person %s: %w", id, err)
	}
	s.Invalidate()
	return changed, nil
}

// changeMember makes the change under a lock, since two operators could remove each other's role at the same time.
func (s *Service) changeMember(ctx context.Context, tx pgx.Tx, by audit.Actor, id uuid.UUID, change MemberChange) (Member, *dualcontrol.Change, error) {
	if _, err := tx.Exec(ctx, peopleLock); err != nil {
		return Member{}, nil, err
	}
	was, err := s.readMember(ctx, tx, id)
	if err != nil {
		return Member{}, nil, err
	}
	if g := change.Was; g != nil && (!slices.Equal(unionSorted(g.Roles), unionSorted(was.GrantedRoles)) || !slices.Equal(unionSorted(g.Teams), unionSorted(was.GrantedTeams))) {
		return Member{}, nil, ErrChanged
	}
	if err := s.checkGrant(ctx, tx, by, was, change); err != nil {
		return Member{}, nil, err
	}
	waits, err := s.proposeGrant(ctx, tx, by, &was, change)
	if err != nil || waits != nil {
		return was, waits, err
	}
	changed, err := s.storeChange(ctx, tx, by, was, change)
	return changed, nil, err
}

// storeChange makes a change that may be made. The caller holds the lock.
func (s *Service) storeChange(ctx context.Context, tx pgx.Tx, by audit.Actor, was Member, change MemberChange) (Member, error) {
	before, err := s.countOperators(ctx, tx)
	if err != nil {
		return Member{}, err
	}
	events, err := applyChange(ctx, tx, by, was, change)
	if err != nil || len(events) == 0 {
		return was, err
	}
	after, err := s.countOperators(ctx, tx)
	if err != nil {
		return Member{}, err
	}
	if before > 0 && after == 0 {
		return Member{}, ErrLastOperator
	}
	if change.Roles != nil && addsAny(*change.Roles, was.GrantedRoles) || change.Blocked != nil && !*change.Blocked {
		if err := s.checkSeparate(ctx, tx, was.ID); err != nil {
			return Member{}, err
		}
	}
	if err := noteSoleRole(ctx, tx, was.ID); err != nil {
		return Member{}, err
	}
	if err := errors.Join(audit.Write(ctx, tx, events...), registry.Notify(ctx, tx)); err != nil {
		return Member{}, err
	}
	return s.readMember(ctx, tx, was.ID)
}

func (c *MemberChange) checkFields() error {
	if err := c.Limit.check(); err != nil {
		return err
	}
	if c.Roles != nil {
		for _, role := range *c.Roles {
			if role != Reviewer && role != Operator {
				return fault.Invalid("roles", fmt.Sprintf("%q is neither reviewer nor operator", role))
			}
		}
	}
	if c.Agents != nil {
		for _, agent := range *c.Agents {
			if err := validName(agent); err != nil {
				return fault.Invalid("agents", fmt.Sprintf("%q is not an agent's name", agent))
			}
		}
	}
	if c.Teams != nil {
		if len(*c.Teams) > maxTeams {
			return fault.Invalid("teams", fmt.Sprintf("must be at most %d", maxTeams))
		}
		for _, team := range *c.Teams {
			if err := validTeam(team); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkGrant refuses people who would add grants to themselves, or to people whose identity is tied to theirs. The first
// person may, with the bootstrap token, until there is a second operator.
func (s *Service) checkGrant(ctx context.Context, tx pgx.Tx, by audit.Actor, was Member, change MemberChange) error {
	after := grantsOf(&was)
	after = change.applyTo(after)
	added := !was.Limit.Contains(after.Limit) || change.Roles != nil && addsAny(*change.Roles, was.GrantedRoles) || change.Agents != nil && addsAny(*change.Agents, was.GrantedAgents)
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

// addsAny reports whether list has an element that before lacks.
func addsAny[T comparable](list, before []T) bool {
	return slices.ContainsFunc(list, func(one T) bool { return !slices.Contains(before, one) })
}

// applyChange writes the differences and returns the audit events for them.
func applyChange(ctx context.Context, tx pgx.Tx, by audit.Actor, was Member, change MemberChange) ([]audit.Event, error) {
	var events []audit.Event
	record := func(action audit.Action, data map[string]any) {
		events = append(events, audit.Event{Actor: by, Action: action, Subject: was.ID, Data: data})
	}
	before := grantsOf(&was)
	after := change.applyTo(before)
	if !slices.Equal(after.Roles, before.Roles) || !slices.Equal(after.Teams, before.Teams) || !slices.Equal(after.Agents, before.Agents) {
		record(audit.PersonGranted, map[string]any{"roles": after.Roles, "teams": after.Teams, "agents": after.Agents})
	}
	if after.Limit.String() != before.Limit.String() {
		record(audit.PersonLimited, map[string]any{"limit": after.Limit, "before": before.Limit})
	}
	if after.Blocked != before.Blocked {
		record(map[bool]audit.Action{true: audit.PersonBlocked, false: audit.PersonUnblocked}[after.Blocked], nil)
	}
	if len(events) == 0 {
		return nil, nil
	}
	_, err := tx.Exec(ctx, `UPDATE people SET granted_roles = $2, granted_teams = $3,
		blocked_at = CASE WHEN $4 THEN coalesce(blocked_at, holdpoint_now()) END, granted_agents = $5, review_limit = $6 WHERE id = $1`,
		was.ID, after.Roles, after.Teams, after.Blocked, after.Agents, after.Limit)
	return events, err
}

// countOperators returns the number of people who are operators or can sign in as one. At zero, no one could appoint another.
func (s *Service) countOperators(ctx context.Context, tx pgx.Tx) (int, error) {
	if s.bootstrap != nil {
		if _, err := ensurePersonInTx(ctx, tx, audit.System(), Bootstrap); err != nil {
			return 0, err
		}
	}
	found, err := s.listHolders(ctx, tx, Operator)
	return len(found), err
}

// peopleLock serializes changes of people's rights.
const peopleLock = `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_people', 0))`
