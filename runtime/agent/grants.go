package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// MaxGrants bounds the grants that count at a time.
const MaxGrants = 10_000

// GrantState says whether a grant counts.
type GrantState string

// The states of a grant.
const (
	GrantActive  GrantState = "active"
	GrantWaiting GrantState = "waiting" // for a second person
	GrantUsedUp  GrantState = "used_up"
	GrantEnded   GrantState = "ended"
	GrantRevoked GrantState = "revoked"
	GrantVoid    GrantState = "void" // its person lost the right, the agent or the skill was deleted, or the tool has another definition
)

// GrantStates returns all states.
func GrantStates() []GrantState {
	return []GrantState{GrantActive, GrantWaiting, GrantUsedUp, GrantEnded, GrantRevoked, GrantVoid}
}

// Grant is a stored grant.
type Grant struct {
	grant.Spec
	ID        uuid.UUID
	State     GrantState
	Agent     string
	Skill     string
	CallID    uuid.UUID // the call that it was made from; uuid.Nil: a plan
	PlanID    uuid.UUID // the plan that it belongs to; uuid.Nil: none
	GrantedAt time.Time
	GrantedBy uuid.UUID
	// NeedsSecond: a call that it allows was rejected once, so another person has to confirm it.
	NeedsSecond bool
	SecondAt    *time.Time
	SecondBy    uuid.UUID
	EndsAt      time.Time
	Uses        *int64     // nil: any number
	Taken       int64      // only counted with a number of uses
	UsedAt      *time.Time // to about a minute; nil: never
	RevokedAt   *time.Time
	RevokedBy   uuid.UUID // uuid.Nil: unknown
	Unused      bool      // it was not used for three days
}

// IsWide reports whether the grant leaves an argument open.
func (g *Grant) IsWide() bool {
	return slices.ContainsFunc(g.Arguments, func(m grant.Matcher) bool { return m.IsOpen() })
}

// NewGrant is a grant to be made.
type NewGrant struct {
	grant.Spec
	CallID      uuid.UUID
	Time        time.Duration // how long it lasts; zero: [grant.DefaultTime], or the longest time if that is shorter
	Uses        *int64        // nil: any number
	NeedsSecond bool
	Risky       bool     // the tool is destructive or of high risk
	Secret      []string // arguments whose values are secrets
}

// Errors about grants.
var (
	// ErrGrantOver: the grant has been revoked, has ended, or is used up.
	ErrGrantOver = errors.New("the grant no longer counts")
	// ErrNoSecond: the grant needs no confirmation, or has it.
	ErrNoSecond = errors.New("the grant needs no confirmation")
)

// MaxGrantTime returns how long a grant may last.
func (s *Service) MaxGrantTime() time.Duration { return s.maxGrantTime }

// hasLost is an SQL condition: a person of the grant g has lost the right to make it.
var hasLost = `(` + identity.HasLostRights("g.granted_by", "g.granted_via") + ` OR ` + identity.HasLostRights("g.second_by", "g.second_via") + `)` //nolint:gochecknoglobals // a constant

// stands is an SQL condition: calls that the grant g let pass may be sent.
var stands = `g.revoked_at IS NULL AND (g.second_by IS NOT NULL OR NOT g.needs_second) AND NOT ` + hasLost //nolint:gochecknoglobals // a constant

// counts is an SQL condition: the grant g lets calls pass.
var counts = `g.ends_at > holdpoint_now() AND (g.uses IS NULL OR g.taken < g.uses) AND ` + stands //nolint:gochecknoglobals // a constant

// Grants returns the grants that may count. They are cached.
func (s *Service) Grants(ctx context.Context) (*grant.Book, error) {
	return s.grants.Get(ctx, struct{}{}, s.loadGrants)
}

// DropGrants drops the cached grants, because one of them no longer counts.
func (s *Service) DropGrants() { s.grants.Drop() }

func (s *Service) loadGrants(ctx context.Context) (*grant.Book, error) {
	grants, err := postgres.Collect(ctx, s.pool, func(row pgx.CollectableRow) (g grant.Grant, err error) {
		var principal *uuid.UUID
		var pin []byte
		err = row.Scan(&g.ID, &g.AgentID, &principal, &g.SkillID, &g.Tool, &pin, &g.Arguments, &g.Limited, &g.Planned)
		g.PrincipalID = postgres.OrNil(principal)
		copy(g.Pin[:], pin)
		return g, err
	}, `SELECT id, agent_id, principal_id, skill_id, tool, pin, arguments, uses IS NOT NULL, plan_id IS NOT NULL FROM grants g WHERE `+counts+` ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("read grants: %w", err)
	}
	return grant.NewBook(grants), nil
}

// touchAge is how old the stored time of the last use of a grant without a number of uses may be. Writing it for each use would make calls
// wait for each other.
const touchAge = time.Minute

// TakeGrants takes uses of grants in tx for calls: as many of each as it has calls, or fewer. It returns how many it took; the first calls have
// them. A grant without a number of uses is read without a lock, so that calls do not wait for each other. The grants of a plan are taken
// in their order, and only while goesOn holds, an SQL condition about [EarlierInPlan].
func TakeGrants(ctx context.Context, tx pgx.Tx, wanted map[uuid.UUID][]uuid.UUID, goesOn string) (map[uuid.UUID]int, error) {
	took, limited, stale, ofPlan := map[uuid.UUID]int{}, map[uuid.UUID]int64{}, []uuid.UUID{}, map[uuid.UUID]bool{}
	ids := slices.Collect(maps.Keys(wanted))
	batch := &pgx.Batch{}
	batch.Queue(`SELECT id, uses - taken, plan_id IS NOT NULL FROM grants g WHERE id = ANY($1) AND uses IS NOT NULL AND `+counts+` AND (g.plan_id IS NULL OR `+followsPlan+` AND `+goesOn+`) ORDER BY id FOR NO KEY UPDATE OF g`, ids).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var left int64
		var planned bool
		_, err := pgx.ForEachRow(rows, []any{&id, &left, &planned}, func() error {
			ofPlan[id] = planned
			took[id], limited[id] = int(min(int64(len(wanted[id])), left)), left
			return nil
		})
		return err
	})
	batch.Queue(`SELECT id, used_at IS NULL OR used_at < holdpoint_now() - $2 * interval '1 microsecond' FROM grants g
		WHERE id = ANY($1) AND uses IS NULL AND `+counts, ids, touchAge.Microseconds()).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var due bool
		_, err := pgx.ForEachRow(rows, []any{&id, &due}, func() error {
			if took[id] = len(wanted[id]); due {
				stale = append(stale, id)
			}
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("take grants: %w", err)
	}
	batch = &pgx.Batch{}
	var events []audit.Event
	for id, left := range limited {
		batch.Queue(`UPDATE grants SET taken = taken + $2, used_at = holdpoint_now(), used_call = $3 WHERE id = $1`, id, took[id], wanted[id][took[id]-1])
		if int64(took[id]) == left && !ofPlan[id] {
			events = append(events, audit.Event{Actor: audit.System(), Action: audit.GrantUsedUp, Subject: id})
		}
	}
	if len(stale) > 0 {
		batch.Queue(`UPDATE grants SET used_at = holdpoint_now() WHERE id IN (SELECT id FROM grants WHERE id = ANY($1) FOR NO KEY UPDATE SKIP LOCKED)`, stale)
	}
	if err := audit.Queue(batch, events...); err != nil {
		return nil, err
	}
	if batch.Len() == 0 {
		return took, nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("take grants: %w", err)
	}
	return took, nil
}

// GrantStands returns an SQL condition: calls that a grant let pass may be sent. A grant that ended or was used up since still stands for them. id
// is an SQL expression.
func GrantStands(id string) string {
	return `EXISTS (SELECT FROM grants g WHERE g.id = ` + id + ` AND ` + stands + `)`
}

// CreateGrant makes a grant. It does not check who may make it, or whether the tool takes grants; package call does. Errors: *fault.InvalidError,
// *dualcontrol.WaitsError if the grant waits for a second operator.
func (s *Service) CreateGrant(ctx context.Context, by audit.Actor, in NewGrant) (Grant, error) {
	if in.Time == 0 {
		in.Time = min(grant.DefaultTime, s.maxGrantTime)
	}
	invalid := grant.Check(in.Arguments)
	if in.Time < grant.MinTime || in.Time > s.maxGrantTime {
		invalid = append(invalid, fault.Field{Name: "time", Expected: fmt.Sprintf("must be between %s and %s", Duration(grant.MinTime), Duration(s.maxGrantTime))})
	}
	if in.Uses != nil && (*in.Uses < 1 || *in.Uses > grant.MaxUses) {
		invalid = append(invalid, fault.Field{Name: "uses", Expected: fmt.Sprintf("must be 1 to %d, or omitted", grant.MaxUses)})
	}
	if len(invalid) > 0 {
		return Grant{}, fmt.Errorf("create grant: %w", &fault.InvalidError{Fields: invalid})
	}
	var id uuid.UUID
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		waits, err := e.proposeGrant(ctx, in)
		if err != nil || waits {
			return err
		}
		id, err = e.insertGrant(ctx, by.ID, credentialOf(ctx, by), in)
		return err
	})
	if err != nil {
		return Grant{}, fmt.Errorf("create grant: %w", err)
	}
	return s.GetGrant(ctx, id)
}

// checkGrantRoom returns an error if so many more grants would be too many. Error: *fault.InvalidError.
func (e *edit) checkGrantRoom(ctx context.Context, more int) error {
	var active int
	if err := e.tx.QueryRow(ctx, `SELECT count(*) FROM grants g WHERE g.revoked_at IS NULL AND g.ends_at > holdpoint_now()`).Scan(&active); err != nil {
		return err
	}
	if active+more > MaxGrants {
		return fault.Invalid("grant", fmt.Sprintf("must wait until others end: there are %d, and there may be no more than %d", active, MaxGrants))
	}
	return nil
}

// credentialOf returns the id of the token or the session of an actor, or nil for another credential.
func credentialOf(ctx context.Context, by audit.Actor) *uuid.UUID {
	used := audit.OriginOf(ctx, by).Credential
	if used.Kind != audit.PersonalToken && used.Kind != audit.BrowserSession {
		return nil
	}
	id, err := uuid.Parse(used.ID)
	if err != nil {
		return nil
	}
	return &id
}

// ConfirmGrant confirms a grant that needs a second person. It does not check who may do so; package call does. Errors: ErrNotFound, ErrNoSecond,
// ErrGrantOver.
func (s *Service) ConfirmGrant(ctx context.Context, by audit.Actor, id uuid.UUID) (Grant, error) {
	return s.changeGrant(ctx, by, id, audit.GrantConfirmed, func(e *edit, g *Grant) error {
		switch {
		case !g.NeedsSecond || g.SecondAt != nil:
			return ErrNoSecond
		case g.State != GrantWaiting && g.State != GrantActive:
			return ErrGrantOver
		}
		_, err := e.tx.Exec(ctx, `UPDATE grants SET second_at = holdpoint_now(), second_by = $2, second_via = $3 WHERE id = $1`, id, by.ID, credentialOf(ctx, by))
		return err
	})
}

// RevokeGrant revokes a grant. A call that it let pass is not sent any more a second later, in any process. Errors: ErrNotFound, ErrGrantOver.
func (s *Service) RevokeGrant(ctx context.Context, by audit.Actor, id uuid.UUID) (Grant, error) {
	return s.changeGrant(ctx, by, id, audit.GrantRevoked, func(e *edit, g *Grant) error {
		if g.RevokedAt != nil {
			return ErrGrantOver
		}
		var person *uuid.UUID
		if by.Kind == audit.KindPerson {
			person = postgres.OrNull(by.ID)
		}
		_, err := e.tx.Exec(ctx, `UPDATE grants SET revoked_at = holdpoint_now(), revoked_by = $2 WHERE id = $1`, id, person)
		return err
	})
}

// changeGrant changes a grant that it has locked, and returns it after the change.
func (s *Service) changeGrant(ctx context.Context, by audit.Actor, id uuid.UUID, action audit.Action, change func(e *edit, g *Grant) error) (Grant, error) {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		if _, err := e.tx.Exec(ctx, `SELECT FROM grants WHERE id = $1 FOR NO KEY UPDATE`, id); err != nil {
			return err
		}
		found, err := readGrants(ctx, e.tx, `g.id = $1`, id)
		if err == nil && len(found) == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := change(e, &found[0]); err != nil {
			return err
		}
		e.recordChange(action, id, map[string]any{"agent": found[0].Agent, "skill": found[0].Skill, "tool": found[0].Tool})
		return nil
	})
	if err != nil {
		return Grant{}, fmt.Errorf("change grant %s: %w", id, err)
	}
	return s.GetGrant(ctx, id)
}

// GetGrant returns a grant. ErrNotFound.
func (s *Service) GetGrant(ctx context.Context, id uuid.UUID) (Grant, error) {
	found, err := s.listGrants(ctx, `g.id = $1`, id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Grant{}, fmt.Errorf("read grant %s: %w", id, err)
	}
	return found[0], nil
}

// MaxListedGrants bounds [Service.ListGrants].
const MaxListedGrants = 1000

// ListGrants returns the newest grants that belong to no plan, at most [MaxListedGrants]. open: only those that have neither ended nor been revoked.
func (s *Service) ListGrants(ctx context.Context, open bool) ([]Grant, error) {
	found, err := s.listGrants(ctx, `g.plan_id IS NULL AND (NOT $1 OR g.revoked_at IS NULL AND g.ends_at > holdpoint_now() AND (g.uses IS NULL OR g.taken < g.uses))
		ORDER BY g.id DESC LIMIT $2`, open, MaxListedGrants)
	if err != nil {
		return nil, fmt.Errorf("list grants: %w", err)
	}
	return found, nil
}

// listGrants reads grants, and compares them with the present definitions of their tools.
func (s *Service) listGrants(ctx context.Context, where string, args ...any) ([]Grant, error) {
	found, err := readGrants(ctx, s.pool, where, args...)
	if err != nil || len(found) == 0 {
		return found, err
	}
	pins, err := tool.CurrentPins(ctx, s.pool)
	for i := range found {
		g := &found[i]
		if g.State != GrantActive && g.State != GrantWaiting {
			continue
		}
		if current, offered := pins[tool.Offered{SkillID: g.SkillID, Name: g.Tool}]; !offered || current != tool.Pin(g.Pin) {
			g.State = GrantVoid
		}
	}
	return found, err
}

// readGrants reads grants with their states, as far as the definitions of tools do not matter.
func readGrants(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Grant, error) {
	return postgres.Collect(ctx, db, func(row pgx.CollectableRow) (g Grant, err error) {
		var principal, second, revoker, from, plan *uuid.UUID
		var pin []byte
		err = row.Scan(&g.ID, &g.AgentID, &principal, &g.SkillID, &g.Tool, &pin, &g.Arguments, &from, &plan, &g.GrantedAt, &g.GrantedBy, &g.NeedsSecond,
			&g.SecondAt, &second, &g.EndsAt, &g.Uses, &g.Taken, &g.UsedAt, &g.RevokedAt, &revoker, &g.Agent, &g.Skill, &g.State, &g.Unused)
		g.PrincipalID, g.SecondBy, g.RevokedBy = postgres.OrNil(principal), postgres.OrNil(second), postgres.OrNil(revoker)
		g.CallID, g.PlanID = postgres.OrNil(from), postgres.OrNil(plan)
		copy(g.Pin[:], pin)
		return g, err
	}, `SELECT g.id, g.agent_id, g.principal_id, g.skill_id, g.tool, g.pin, g.arguments, g.call_id, g.plan_id, g.granted_at, g.granted_by, g.needs_second,
			g.second_at, g.second_by, g.ends_at, g.uses, g.taken, g.used_at, g.revoked_at, g.revoked_by, coalesce(a.name, ''), coalesce(k.name, ''),
			CASE WHEN g.revoked_at IS NOT NULL THEN 'revoked' WHEN g.taken >= g.uses THEN 'used_up' WHEN g.ends_at <= holdpoint_now() THEN 'ended'
				WHEN a.id IS NULL OR a.deleted_at IS NOT NULL OR k.id IS NULL OR k.deleted_at IS NOT NULL OR `+hasLost+` THEN 'void'
				WHEN g.needs_second AND g.second_by IS NULL THEN 'waiting' ELSE 'active' END,
			coalesce(g.used_at, g.granted_at) < holdpoint_now() - interval '`+unusedAge+`'
		FROM grants g LEFT JOIN agents a ON a.id = g.agent_id LEFT JOIN skills k ON k.id = g.skill_id WHERE `+where, args...)
}
