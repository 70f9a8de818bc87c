package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// registerChanges says how roles and invitations that waited for a second operator are given.
func (s *Service) registerChanges() {
	s.control.Register(dualcontrol.Person, dualcontrol.Applier{Lock: peopleLock, Apply: s.applyGrantProposal, Applied: s.Invalidate})
	s.control.Register(dualcontrol.Invitation, dualcontrol.Applier{
		Lock: peopleLock, Applied: s.Invalidate,
		Apply: func(ctx context.Context, tx pgx.Tx, c dualcontrol.Change, _ []byte, _ uuid.UUID) error {
			tag, err := tx.Exec(ctx, `UPDATE invitations AS i SET waits = false WHERE i.id = $1 AND i.waits AND i.redeemed_at IS NULL AND i.revoked_at IS NULL
				AND i.expires_at > holdpoint_now()`, c.Subject)
			if err == nil && tag.RowsAffected() == 0 {
				err = dualcontrol.ErrStale
			}
			return err
		},
	})
}

// ListOperators returns the people who are operators, now or after signing in.
func (s *Service) ListOperators(ctx context.Context, db postgres.Querier) ([]uuid.UUID, error) {
	found, err := s.listHolders(ctx, db, Operator)
	ids := make([]uuid.UUID, len(found))
	for i := range found {
		ids[i] = found[i].Person
	}
	return ids, err
}

// grantState is what operators gave a person.
type grantState struct {
	Roles   []Role
	Teams   []string
	Agents  []string
	Limit   *Limit
	Blocked bool
}

func grantsOf(m *Member) grantState {
	return grantState{
		Roles: unionSorted(m.GrantedRoles), Teams: unionSorted(m.GrantedTeams), Agents: unionSorted(m.GrantedAgents), Limit: m.Limit, Blocked: m.BlockedAt != nil,
	}
}

// applyTo returns the grants after the change.
func (c *MemberChange) applyTo(g grantState) grantState {
	if c.Roles != nil {
		g.Roles = unionSorted(*c.Roles)
	}
	if c.Teams != nil {
		g.Teams = unionSorted(*c.Teams)
	}
	if c.Agents != nil {
		g.Agents = unionSorted(*c.Agents)
	}
	if c.Limit != nil {
		g.Limit = c.Limit.normalize()
	}
	if c.Blocked != nil {
		g.Blocked = *c.Blocked
	}
	return g
}

func (g *grantState) equals(other *grantState) bool {
	return slices.Equal(g.Roles, other.Roles) && slices.Equal(g.Teams, other.Teams) && slices.Equal(g.Agents, other.Agents) &&
		g.Blocked == other.Blocked && g.Limit.String() == other.Limit.String()
}

// Loosens reports whether other grants let a person decide more: a role, a team, whose votes count, a wider limit, or an end of a block.
// Agents to act as do not: their calls are judged.
func (g *grantState) loosens(was *grantState) bool {
	return addsAny(g.Roles, was.Roles) || addsAny(g.Teams, was.Teams) || !was.Limit.Contains(g.Limit) || was.Blocked && !g.Blocked
}

// listFields returns the differences of two states.
func (g *grantState) listFields(was *grantState) []dualcontrol.Field {
	roles := func(list []Role) string {
		names := make([]string, len(list))
		for i, role := range unionSorted(list) {
			names[i] = string(role)
		}
		return strings.Join(names, ", ")
	}
	list := func(s *grantState) []dualcontrol.Field {
		return []dualcontrol.Field{
			{Field: "granted_roles", New: roles(s.Roles)},
			{Field: "granted_teams", New: strings.Join(s.Teams, ", ")},
			{Field: "granted_agents", New: strings.Join(s.Agents, ", ")},
			{Field: "review_limit", New: s.Limit.String()},
			{Field: "blocked", New: map[bool]string{true: "true", false: "false"}[s.Blocked]},
		}
	}
	var fields []dualcontrol.Field
	for i, before := range list(was) {
		if after := list(g)[i]; before.New != after.New {
			fields = append(fields, dualcontrol.Field{Field: after.Field, Old: before.New, New: after.New})
		}
	}
	return fields
}

// grantProposal is a change of grants that waits for a second operator.
type grantProposal struct{ Was, Now grantState }

// proposeGrant lets a change of grants wait if it loosens. It returns nil if it need not wait.
func (s *Service) proposeGrant(ctx context.Context, tx pgx.Tx, by audit.Actor, m *Member, change MemberChange) (*dualcontrol.Change, error) {
	was := grantsOf(m)
	now := change.applyTo(was)
	if !s.control.IsOn() || !now.loosens(&was) {
		return nil, nil
	}
	return s.control.Propose(ctx, tx, by, dualcontrol.Proposal{
		Kind: dualcontrol.Person, Subject: m.ID, Name: m.ID.String(), Action: "update",
		Fields: now.listFields(&was), Payload: grantProposal{was, now},
	})
}

func (s *Service) applyGrantProposal(ctx context.Context, tx pgx.Tx, c dualcontrol.Change, payload []byte, by uuid.UUID) error {
	var p grantProposal
	if err := json.Unmarshal(payload, &p); err != nil { //nolint:musttag // it has the names of its Go fields, as it was encoded
		return fmt.Errorf("decode change: %w", err)
	}
	m, err := s.readMember(ctx, tx, c.Subject)
	if errors.Is(err, ErrNotFound) {
		return dualcontrol.ErrStale
	}
	if err != nil {
		return err
	}
	if now := grantsOf(&m); !now.equals(&p.Was) {
		return dualcontrol.ErrStale
	}
	limit := p.Now.Limit
	if limit == nil {
		limit = &Limit{}
	}
	change := MemberChange{Roles: &p.Now.Roles, Teams: &p.Now.Teams, Agents: &p.Now.Agents, Limit: limit}
	if p.Was.Blocked != p.Now.Blocked {
		change.Blocked = &p.Now.Blocked
	}
	_, err = s.storeChange(ctx, tx, audit.Person(by), m, change)
	return err
}

// proposeInvitation lets an invitation wait for a second operator. It returns nil if it need not wait.
func (s *Service) proposeInvitation(ctx context.Context, tx pgx.Tx, by audit.Actor, i *Invitation) (*dualcontrol.Change, error) {
	if !s.control.IsOn() {
		return nil, nil
	}
	given := grantState{Roles: i.Roles, Agents: i.Agents, Limit: i.Limit}
	fields := given.listFields(&grantState{})
	for _, of := range []dualcontrol.Field{{Field: "name", New: i.Name}, {Field: "issuer", New: i.Issuer}, {Field: "subject", New: i.Subject}, {Field: "email", New: i.Email}} {
		if of.New != "" {
			fields = append(fields, of)
		}
	}
	waits, err := s.control.Propose(ctx, tx, by, dualcontrol.Proposal{
		Kind: dualcontrol.Invitation, Subject: i.ID, Name: i.Hint, Action: "create", Fields: fields, Payload: i.ID,
	})
	if err != nil || waits == nil {
		return waits, err
	}
	_, err = tx.Exec(ctx, `UPDATE invitations SET waits = true WHERE id = $1`, i.ID)
	i.Waits = true
	return waits, err
}
