package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Limits of plans.
const (
	MaxPlanCalls   = 50
	MaxPlanTitle   = 200     // characters
	MaxPlanNote    = 500     // characters, of one call, and of a decision
	MaxPlanSize    = 1 << 18 // bytes of all arguments
	MaxPlans       = 20      // pending ones of an agent
	MaxListedPlans = 200
)

// PlanStatus says whether a plan counts.
type PlanStatus string

// The statuses of a plan.
const (
	PlanPending   PlanStatus = "pending"
	PlanApproved  PlanStatus = "approved"
	PlanRejected  PlanStatus = "rejected"
	PlanExpired   PlanStatus = "expired"   // nobody decided before the deadline
	PlanCancelled PlanStatus = "cancelled" // by its agent
	PlanRevoked   PlanStatus = "revoked"
	PlanEnded     PlanStatus = "ended" // the time of the approved plan is over
)

// PlanEffect says what a plan means for one of its calls.
type PlanEffect string

// The effects of a plan on a call.
const (
	PlanCovers  PlanEffect = "covered" // it passes when the plan is approved
	PlanAllows  PlanEffect = "allowed" // it needs no approval
	PlanExcepts PlanEffect = "waits"   // it waits for people when it is made, whatever is decided about the plan
)

// PlanCall is a call of a plan, as the agent is going to make it. Plans store it as JSON.
type PlanCall struct {
	Name      string          `json:"name"` // as the agent sees the tool
	SkillID   uuid.UUID       `json:"skill_id"`
	Skill     string          `json:"skill"`
	Tool      string          `json:"tool"`
	Pin       tool.Pin        `json:"pin"`
	Arguments json.RawMessage `json:"arguments"`
	Note      string          `json:"note,omitempty"`
	Effect    PlanEffect      `json:"effect"`
	Reason    string          `json:"reason,omitempty"` // why it waits
}

// Plan is a list of calls to come. Approved, it lets each of them pass once, in order.
type Plan struct {
	ID          uuid.UUID
	AgentID     uuid.UUID
	Agent       string
	PrincipalID uuid.UUID // uuid.Nil: its calls name no person
	Title       string
	Calls       []PlanCall
	Status      PlanStatus
	CreatedAt   time.Time
	Deadline    time.Time
	DecidedAt   *time.Time
	DecidedBy   uuid.UUID
	Note        string
	Struck      []int // the indexes of calls that the decision left out
	EndsAt      *time.Time
	ClosedAt    *time.Time
	ClosedBy    uuid.UUID
	Uses        map[int]PlanUse // by the index of the call; only of those with a grant
}

// IsStruck reports whether the decision left the call at an index out.
func (p *Plan) IsStruck(index int) bool { return slices.Contains(p.Struck, index) }

// PlanUse is the grant of a plan's call.
type PlanUse struct {
	GrantID uuid.UUID
	CallID  uuid.UUID // the call that used it; uuid.Nil: none
}

// Digest identifies what a reviewer sees of a plan and decides about. Empty: a call has arguments that are no JSON, and nobody can decide.
func (p *Plan) Digest() string {
	calls, err := json.Marshal(p.Calls)
	if err != nil {
		return ""
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "plan\x00%s%s%s%q%s", p.ID, p.AgentID, p.PrincipalID, p.Title, calls)
	return hex.EncodeToString(hash.Sum(nil))
}

// NewPlan is a plan to be submitted.
type NewPlan struct {
	AgentID     uuid.UUID
	PrincipalID uuid.UUID
	Title       string
	Calls       []PlanCall
	Timeout     time.Duration // for the decision
}

// Errors about plans.
var (
	// ErrPlanOver: the status of the plan does not allow this.
	ErrPlanOver = errors.New("the plan was decided, or is over")
	// ErrPlanDigest: the reviewer saw another plan.
	ErrPlanDigest = errors.New("the digest is not the plan's")
)

// PlanHook is called in the transaction that submits, decides or ends a plan, with the plan before the change, or the new one.
type PlanHook func(ctx context.Context, tx pgx.Tx, p *Plan) error

// CreatePlan stores a plan that waits for a reviewer. It does not check its calls; package call does. Errors: ErrNotFound, *fault.InvalidError.
func (s *Service) CreatePlan(ctx context.Context, by audit.Actor, in *NewPlan, submitted PlanHook) (Plan, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Plan{}, fmt.Errorf("create plan: %w", err)
	}
	calls, err := json.Marshal(in.Calls)
	if err != nil {
		return Plan{}, fmt.Errorf("create plan: %w", err)
	}
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		p := Plan{ID: id, AgentID: in.AgentID, PrincipalID: in.PrincipalID, Title: in.Title, Calls: in.Calls, Status: PlanPending}
		var pending int
		err := tx.QueryRow(ctx, `SELECT name FROM agents WHERE id = $1 AND deleted_at IS NULL FOR NO KEY UPDATE`, in.AgentID).Scan(&p.Agent) // one plan of an agent at a time
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM plans p WHERE p.agent_id = $1 AND `+planWaits, in.AgentID).Scan(&pending); err != nil {
			return err
		}
		if pending >= MaxPlans {
			return fault.Invalid("plan", fmt.Sprintf("must wait until another one is decided: %d plans of this agent wait, and no more may", pending))
		}
		if err := tx.QueryRow(ctx, `INSERT INTO plans AS p (id, agent_id, principal_id, title, calls, deadline)
			VALUES ($1, $2, $3, $4, $5::json, holdpoint_now() + $6 * interval '1 microsecond') RETURNING p.created_at, p.deadline`,
			id, in.AgentID, postgres.OrNull(in.PrincipalID), in.Title, string(calls), in.Timeout.Microseconds()).Scan(&p.CreatedAt, &p.Deadline); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, audit.Event{Actor: by, Action: audit.PlanSubmitted, Subject: id, Data: map[string]any{"agent": p.Agent, "calls": len(in.Calls)}}); err != nil {
			return err
		}
		return submitted(ctx, tx, &p)
	})
	if err != nil {
		return Plan{}, fmt.Errorf("create plan: %w", err)
	}
	return s.GetPlan(ctx, id)
}

// PlanDecision is a reviewer's decision about a plan. Package call checks who may decide.
type PlanDecision struct {
	ID      uuid.UUID
	Approve bool
	Digest  string
	Note    string
	Strike  []int         // the indexes of calls that are left out
	Time    time.Duration // of an approved plan; zero: [grant.DefaultTime], or the longest time if that is shorter
}

// DecidePlan approves or rejects a plan. Approval makes a grant of one use for each call that the plan covers and the reviewer did not strike
// out. Errors: ErrNotFound, ErrPlanOver, ErrPlanDigest, *fault.InvalidError.
func (s *Service) DecidePlan(ctx context.Context, by audit.Actor, d *PlanDecision, decided PlanHook) (Plan, error) {
	lasts := cmp.Or(d.Time, min(grant.DefaultTime, s.maxGrantTime))
	if lasts < grant.MinTime || lasts > s.maxGrantTime {
		return Plan{}, fmt.Errorf("decide plan %s: %w", d.ID, fault.Invalid("time", fmt.Sprintf("must be between %s and %s", Duration(grant.MinTime), Duration(s.maxGrantTime))))
	}
	return s.changePlan(ctx, by, d.ID, decided, func(e *edit, p *Plan) error {
		switch {
		case p.Status != PlanPending:
			return ErrPlanOver
		case d.Digest == "" || p.Digest() != d.Digest:
			return ErrPlanDigest
		case !d.Approve:
			e.recordChange(audit.PlanRejected, p.ID, map[string]any{"agent": p.Agent})
			_, err := e.tx.Exec(ctx, `UPDATE plans SET status = 'rejected', decided_at = holdpoint_now(), decided_by = $2, note = $3 WHERE id = $1`, p.ID, by.ID, d.Note)
			return err
		case e.isControlled() && lasts > grant.DefaultTime:
			return fault.Invalid("time", fmt.Sprintf("must be at most %s: with dual control, one person grants no more", Duration(grant.DefaultTime)))
		}
		struck := append([]int{}, d.Strike...)
		if _, err := e.tx.Exec(ctx, `UPDATE plans SET status = 'approved', decided_at = holdpoint_now(), decided_by = $2, note = $3, struck = $4,
			ends_at = holdpoint_now() + $5 * interval '1 microsecond' WHERE id = $1`, p.ID, by.ID, d.Note, struck, lasts.Microseconds()); err != nil {
			return err
		}
		granted, err := e.grantPlan(ctx, p, struck)
		e.recordChange(audit.PlanApproved, p.ID, map[string]any{"agent": p.Agent, "calls": len(p.Calls), "granted": granted, "struck": struck, "time": Duration(lasts).String(), "digest": d.Digest})
		return err
	})
}

// grantPlan makes the grants of a plan that was just approved. It returns their number.
func (e *edit) grantPlan(ctx context.Context, p *Plan, struck []int) (int, error) {
	batch := &pgx.Batch{}
	for i := range p.Calls {
		c := &p.Calls[i]
		if c.Effect != PlanCovers || slices.Contains(struck, i) {
			continue
		}
		matchers, err := grant.ProposeExact(c.Arguments)
		if err != nil {
			return 0, err
		}
		stored, err := json.Marshal(matchers)
		if err != nil {
			return 0, err
		}
		id, err := uuid.NewV7()
		if err != nil {
			return 0, err
		}
		batch.Queue(`INSERT INTO grants (id, agent_id, principal_id, skill_id, tool, pin, arguments, granted_by, granted_via, needs_second, ends_at, uses, plan_id, plan_call)
			SELECT $1, p.agent_id, p.principal_id, $2, $3, $4, $5::json, p.decided_by, $6, false, p.ends_at, 1, p.id, $7 FROM plans p WHERE p.id = $8`,
			id, c.SkillID, c.Tool, c.Pin[:], string(stored), credentialOf(ctx, e.by), i, p.ID)
	}
	if batch.Len() == 0 {
		return 0, nil
	}
	if err := e.checkGrantRoom(ctx, batch.Len()); err != nil {
		return 0, err
	}
	return batch.Len(), e.tx.SendBatch(ctx, batch).Close()
}

// RevokePlan ends an approved plan: calls that it let pass and that are not sent yet are denied. Errors: ErrNotFound, ErrPlanOver.
func (s *Service) RevokePlan(ctx context.Context, by audit.Actor, id uuid.UUID) (Plan, error) {
	return s.closePlan(ctx, by, id, audit.PlanRevoked, nil, PlanApproved)
}

// CancelPlan ends an agent's plan, pending or approved. Errors: ErrNotFound, ErrPlanOver.
func (s *Service) CancelPlan(ctx context.Context, by audit.Actor, id uuid.UUID, cancelled PlanHook) (Plan, error) {
	return s.closePlan(ctx, by, id, audit.PlanCancelled, cancelled, PlanPending, PlanApproved)
}

func (s *Service) closePlan(ctx context.Context, by audit.Actor, id uuid.UUID, action audit.Action, closed PlanHook, from ...PlanStatus) (Plan, error) {
	status, person := PlanRevoked, (*uuid.UUID)(nil)
	if action == audit.PlanCancelled {
		status = PlanCancelled
	}
	if by.Kind == audit.KindPerson {
		person = postgres.OrNull(by.ID)
	}
	return s.changePlan(ctx, by, id, closed, func(e *edit, p *Plan) error {
		if !slices.Contains(from, p.Status) {
			return ErrPlanOver
		}
		e.recordChange(action, id, map[string]any{"agent": p.Agent})
		batch := &pgx.Batch{}
		batch.Queue(`UPDATE plans SET status = $2, closed_at = holdpoint_now(), closed_by = $3 WHERE id = $1`, id, status, person)
		batch.Queue(`UPDATE grants SET revoked_at = holdpoint_now(), revoked_by = $2 WHERE plan_id = $1 AND revoked_at IS NULL`, id, person)
		return e.tx.SendBatch(ctx, batch).Close()
	})
}

// changePlan changes a plan under the lock of the registry, calls the hook if there is one, and returns the plan after the change.
func (s *Service) changePlan(ctx context.Context, by audit.Actor, id uuid.UUID, hook PlanHook, change func(e *edit, p *Plan) error) (Plan, error) {
	err := s.changeRegistry(ctx, by, false, func(e *edit) error {
		found, err := readPlans(ctx, e.tx, `p.id = $1 FOR NO KEY UPDATE OF p`, id)
		if err == nil && len(found) == 0 {
			err = ErrNotFound
		}
		if err != nil {
			return err
		}
		if err := change(e, &found[0]); err != nil || hook == nil {
			return err
		}
		return hook(ctx, e.tx, &found[0])
	})
	if err != nil {
		return Plan{}, fmt.Errorf("change plan %s: %w", id, err)
	}
	return s.GetPlan(ctx, id)
}

// ExpirePlans ends pending plans whose deadline has passed, at most limit, and returns how many. It leaves those to others that they have locked.
func (s *Service) ExpirePlans(ctx context.Context, limit int, expired PlanHook) (int, error) {
	var overdue []Plan
	err := postgres.InTx(ctx, s.pool, func(tx pgx.Tx) (err error) {
		overdue, err = readPlans(ctx, tx, `p.status = 'pending' AND p.deadline <= (SELECT holdpoint_now()) LIMIT $1 FOR NO KEY UPDATE OF p SKIP LOCKED`, limit)
		if err != nil || len(overdue) == 0 {
			return err
		}
		ids, events := make([]uuid.UUID, len(overdue)), make([]audit.Event, len(overdue))
		for i := range overdue {
			p := &overdue[i]
			ids[i], events[i] = p.ID, audit.Event{Actor: audit.System(), Action: audit.PlanExpired, Subject: p.ID, Data: map[string]any{"agent": p.Agent}}
		}
		if _, err := tx.Exec(ctx, `UPDATE plans SET status = 'expired' WHERE id = ANY($1)`, ids); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, events...); err != nil {
			return err
		}
		for i := range overdue {
			if err := expired(ctx, tx, &overdue[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("expire plans: %w", err)
	}
	return len(overdue), nil
}

// GetPlan returns a plan, with the uses of its grants. ErrNotFound.
func (s *Service) GetPlan(ctx context.Context, id uuid.UUID) (Plan, error) {
	found, err := readPlans(ctx, s.pool, `p.id = $1`, id)
	if err == nil && len(found) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return Plan{}, fmt.Errorf("read plan %s: %w", id, err)
	}
	p := &found[0]
	p.Uses = map[int]PlanUse{}
	rows, _ := s.pool.Query(ctx, `SELECT plan_call, id, used_call FROM grants WHERE plan_id = $1`, id)
	var at int
	var granted uuid.UUID
	var used *uuid.UUID
	if _, err := pgx.ForEachRow(rows, []any{&at, &granted, &used}, func() error {
		p.Uses[at] = PlanUse{granted, postgres.OrNil(used)}
		return nil
	}); err != nil {
		return Plan{}, fmt.Errorf("read grants of plan %s: %w", id, err)
	}
	return *p, nil
}

// ListPlans returns the newest plans, at most limit, without the uses of their grants. pending: only those that wait.
func (s *Service) ListPlans(ctx context.Context, pending bool, limit int) ([]Plan, error) {
	found, err := readPlans(ctx, s.pool, `(NOT $1 OR `+planWaits+`) ORDER BY p.id DESC LIMIT $2`, pending, limit)
	if err != nil {
		return nil, fmt.Errorf("list plans: %w", err)
	}
	return found, nil
}

// ListPendingPlans returns the ids of the plans that wait, the oldest first.
func (s *Service) ListPendingPlans(ctx context.Context) ([]uuid.UUID, error) {
	ids, err := postgres.Collect(ctx, s.pool, pgx.RowTo[uuid.UUID], `SELECT id FROM plans p WHERE `+planWaits+` ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("list pending plans: %w", err)
	}
	return ids, nil
}

// planWaits is an SQL condition: the plan p waits for a reviewer.
const planWaits = `p.status = 'pending' AND p.deadline > holdpoint_now()`

func readPlans(ctx context.Context, db postgres.Querier, where string, args ...any) ([]Plan, error) {
	return postgres.Collect(ctx, db, func(row pgx.CollectableRow) (p Plan, err error) {
		var principal, decider, closer *uuid.UUID
		err = row.Scan(&p.ID, &p.AgentID, &p.Agent, &principal, &p.Title, &p.Calls, &p.Status, &p.CreatedAt, &p.Deadline, &p.DecidedAt, &decider, &p.Note,
			&p.Struck, &p.EndsAt, &p.ClosedAt, &closer)
		p.PrincipalID, p.DecidedBy, p.ClosedBy = postgres.OrNil(principal), postgres.OrNil(decider), postgres.OrNil(closer)
		return p, err
	}, `SELECT p.id, p.agent_id, coalesce((SELECT name FROM agents WHERE id = p.agent_id), ''), p.principal_id, p.title, p.calls,
			CASE WHEN p.status = 'pending' AND p.deadline <= holdpoint_now() THEN 'expired' WHEN p.status = 'approved' AND p.ends_at <= holdpoint_now() THEN 'ended' ELSE p.status END,
			p.created_at, p.deadline, p.decided_at, p.decided_by, p.note, p.struck, p.ends_at, p.closed_at, p.closed_by
		FROM plans p WHERE `+where, args...)
}

// followsPlan is an SQL condition: the earlier calls of the plan of grant g have been made. Each of them has used its grant.
const followsPlan = `NOT EXISTS (SELECT FROM grants e WHERE e.plan_id = g.plan_id AND e.plan_call < g.plan_call AND e.taken = 0)`

// EarlierInPlan is an SQL query: the calls that used the grants before the grant g in its plan.
const EarlierInPlan = `SELECT e.used_call FROM grants e WHERE e.plan_id = g.plan_id AND e.plan_call < g.plan_call`
