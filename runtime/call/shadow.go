package call

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
)

// Limits of the record of a rule in shadow mode.
const (
	MaxShadowed    = 20_000  // calls that the rule matched
	MaxShadowShown = 100     // calls that are listed
	shadowSearched = 100_000 // calls that any rule matched
)

// ShadowRecord is what a rule in shadow mode would have done with the calls that it matched, beside what people decided.
type ShadowRecord struct {
	Since    time.Time // older calls were not considered
	Complete bool      // these are all calls since the rule says what it says
	Matched  int
	Failed   int              // of these, calls for which the condition could not be evaluated
	Outcomes [3]ShadowOutcome // of the calls that would have been allowed, parked and denied
	// Rejected are the calls that it would have allowed and a reviewer rejected, the newest first, at most [MaxShadowShown].
	Rejected []ShadowCall
}

// ShadowOutcome is what became of the calls with which a rule would have done the same.
type ShadowOutcome struct {
	Action approval.Action
	Calls  int
	// The calls by the state of their approvals. NotAsked needed none; Approved were not edited.
	Approved, Edited, Rejected, Expired, Cancelled, Waiting, NotAsked int
}

// ShadowCall is a call that a rule in shadow mode matched.
type ShadowCall struct {
	ID          uuid.UUID
	Agent       string
	Skill, Tool string
	CreatedAt   time.Time
}

// ReadShadow returns the record of a rule in shadow mode, by its versions, the newest first. Only the versions count that judge as the newest
// one does. Nil: the rule is not in shadow mode.
func (s *Service) ReadShadow(ctx context.Context, versions []agent.RuleVersion) (*ShadowRecord, error) {
	if len(versions) == 0 || versions[0].Spec == nil || versions[0].Spec.Mode != rule.Shadow {
		return nil, nil
	}
	alike := findAlike(versions)
	name := versions[0].Name
	calls, record, err := s.readShadowed(ctx, name, versions[len(alike)-1].ChangedAt)
	if err != nil {
		return nil, fmt.Errorf("read shadow of rule %s: %w", name, err)
	}
	var gated []uuid.UUID
	for i := range calls {
		if calls[i].gated {
			gated = append(gated, calls[i].id)
		}
	}
	outcomes, err := approval.ReadOutcomes(ctx, s.Pool, gated)
	if err != nil {
		return nil, fmt.Errorf("read shadow of rule %s: %w", name, err)
	}
	open := map[uuid.UUID]bool{}
	var rejected []*replayedCall
	for i := range calls {
		c := &calls[i]
		at := slices.IndexFunc(c.rules, func(a rule.Applied) bool {
			return a.Name == name && a.Mode == rule.Shadow && slices.Contains(alike, a.Revision)
		})
		if at < 0 {
			continue
		}
		record.Matched++
		if c.rules[at].Failure != "" {
			record.Failed++
		}
		if _, known := open[c.skillID]; !known {
			skill, _, err := s.Agents.Skill(ctx, c.skillID)
			open[c.skillID] = err == nil && skill.AutoApprove
		}
		decided := outcomes[c.id]
		settings := restoreSettings(c, decided.Rule, open[c.skillID])
		enforced := slices.Clone(c.rules)
		enforced[at] = enforced[at].Enforce(versions[0].Spec)
		action := rule.Combine(settings, enforced).Action
		record.Outcomes[approval.Allow-action].count(decided)
		if action == approval.Allow && decided.Status == approval.Rejected && len(rejected) < MaxShadowShown {
			rejected = append(rejected, c)
		}
	}
	record.Rejected, err = s.nameShadowed(ctx, rejected)
	if err != nil {
		return nil, fmt.Errorf("read shadow of rule %s: %w", name, err)
	}
	return record, nil
}

// count adds a call.
func (o *ShadowOutcome) count(decided approval.Outcome) {
	o.Calls++
	switch {
	case decided.Status == approval.Approved && decided.Edited:
		o.Edited++
	case decided.Status == approval.Approved:
		o.Approved++
	case decided.Status == approval.Rejected:
		o.Rejected++
	case decided.Status == approval.Expired:
		o.Expired++
	case decided.Status == approval.Cancelled:
		o.Cancelled++
	case decided.Status == approval.Pending:
		o.Waiting++
	default:
		o.NotAsked++
	}
}

// findAlike returns the revisions of the newest versions that judge calls in the same way.
func findAlike(versions []agent.RuleVersion) []int64 {
	var alike []int64
	for i := range versions {
		spec := versions[i].Spec
		if spec == nil || !spec.JudgesAs(versions[0].Spec) {
			break
		}
		alike = append(alike, versions[i].Revision)
	}
	return alike
}

// readShadowed reads the newest calls that a rule in shadow mode matched, the newest first.
func (s *Service) readShadowed(ctx context.Context, name string, since time.Time) (calls []replayedCall, record *ShadowRecord, err error) {
	record = &ShadowRecord{Since: since, Complete: true}
	for i := range record.Outcomes {
		record.Outcomes[i].Action = approval.Allow - approval.Action(i)
	}
	wanted, err := json.Marshal([]map[string]string{{"name": name, "mode": string(rule.Shadow)}})
	if err != nil {
		return nil, nil, err
	}
	err = s.Reader.InTx(ctx, func(tx pgx.Tx) error {
		oldest, err := postgres.Collect(ctx, tx, pgx.RowTo[uuid.UUID], `SELECT id FROM calls WHERE rules IS NOT NULL ORDER BY id DESC OFFSET $1 LIMIT 1`, shadowSearched)
		if err != nil {
			return err
		}
		from := uuid.Nil
		if len(oldest) > 0 {
			from = oldest[0]
		}
		calls, err = postgres.Collect(ctx, tx, scanShadowed, `SELECT id, agent_id, skill_id, tool, gated, created_at, rules FROM calls
			WHERE rules IS NOT NULL AND id > $1 AND created_at >= $2 AND rules @> $3::jsonb AND status <> 'needs_connection'
			ORDER BY id DESC LIMIT $4`, from, since, string(wanted), MaxShadowed+1)
		if err != nil || from == uuid.Nil && len(calls) <= MaxShadowed {
			return err
		}
		start, err := postgres.CollectOne(ctx, tx, pgx.RowTo[time.Time], `SELECT coalesce((SELECT created_at FROM calls WHERE id >= $1 ORDER BY id LIMIT 1), holdpoint_now())`, from)
		if len(calls) > MaxShadowed {
			calls = calls[:MaxShadowed]
			start = calls[MaxShadowed-1].createdAt
		}
		if start.After(since) {
			record.Since, record.Complete = start, false
		}
		return err
	})
	return calls, record, err
}

func scanShadowed(row pgx.CollectableRow) (c replayedCall, err error) {
	err = row.Scan(&c.id, &c.agentID, &c.skillID, &c.tool, &c.gated, &c.createdAt, &c.rules)
	return c, err
}

// nameShadowed returns calls with the names of their agents and skills.
func (s *Service) nameShadowed(ctx context.Context, calls []*replayedCall) ([]ShadowCall, error) {
	var ids []uuid.UUID
	for _, c := range calls {
		ids = append(ids, c.agentID, c.skillID)
	}
	names, err := s.Agents.Names(ctx, ids)
	list := make([]ShadowCall, len(calls))
	for i, c := range calls {
		list[i] = ShadowCall{ID: c.id, Agent: names[c.agentID], Skill: names[c.skillID], Tool: c.tool, CreatedAt: c.createdAt}
	}
	return list, err
}
