package call

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// applyRules gives an admission the verdict by operators' settings and rules, and the policies of a parked call. The verdict stays open if a
// rule has to know earlier calls.
func (s *Service) applyRules(ctx context.Context, c *Call, a *admission, settings approval.Verdict) error {
	if a.verdict = (rule.Verdict{Verdict: settings}); settings.Action == approval.Deny {
		return nil
	}
	book, err := s.Agents.Rules(ctx)
	if err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	applied, open, err := s.matchRules(ctx, book, c, a.definition)
	if err != nil {
		return err
	}
	if a.open = open; open != nil {
		open.settings, open.approvals = settings, true
		return nil
	}
	if a.verdict = rule.Combine(settings, applied); a.verdict.Action == approval.Park {
		a.policies, err = s.findPolicies(ctx, book, a.skill, c.Tool, applied)
	}
	return err
}

// matchRules returns the rules that match a call, and those that failed; or what is open because a rule has to know earlier calls.
func (s *Service) matchRules(ctx context.Context, book *rule.Book, c *Call, definition tool.Definition) ([]rule.Applied, *openVerdict, error) {
	subject := rule.Subject{Agent: c.Agent, Skill: c.Skill, Tool: c.Tool}
	prepared := book.PrepareFor(ctx, subject, rule.Schema{Pin: definition.Pin(), JSON: definition.InputSchema})
	if prepared.IsEmpty() {
		return nil, nil, nil
	}
	in := newInput(subject, c.Arguments, c.Binding(), definition)
	if prepared.ReadsCircumstances() {
		if err := s.readCircumstances(ctx, c.PrincipalID, in); err != nil {
			return nil, nil, err
		}
	}
	if asks := prepared.FindAsks(ctx, in); len(asks) > 0 {
		open, err := s.openVerdict(ctx, book, c, prepared, in, asks)
		return nil, open, err
	}
	applied := prepared.Apply(ctx, in, nil)
	return applied, nil, ctx.Err() // a condition that was interrupted has not failed
}

// newInput returns what conditions read of a call, without its circumstances.
func newInput(of rule.Subject, arguments json.RawMessage, claims GateBinding, definition tool.Definition) *condition.Input {
	hints := definition.Hints()
	return &condition.Input{
		Arguments: arguments, Agent: of.Agent, Skill: of.Skill, Tool: of.Tool, Context: condition.Context{Cwd: claims.Directory, Paths: claims.Paths},
		Claimed: condition.Hints{
			ReadOnly: hints.ReadOnlyHint, Destructive: hints.DestructiveHint, Idempotent: hints.IdempotentHint, OpenWorld: hints.OpenWorldHint,
		},
	}
}

func newPrincipal(p *identity.Person) *condition.Principal {
	return &condition.Principal{ID: p.ID.String(), Email: p.Email, Name: p.Name, Groups: p.Teams}
}

// readCircumstances reads the person and the time that conditions may compare.
func (s *Service) readCircumstances(ctx context.Context, principal uuid.UUID, in *condition.Input) error {
	people, batch := map[uuid.UUID]identity.Person{}, &pgx.Batch{}
	batch.Queue(`SELECT holdpoint_now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&in.Now) })
	if principal != uuid.Nil {
		identity.QueuePeople(batch, []uuid.UUID{principal}, people)
	}
	if err := s.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("read circumstances of a call: %w", err)
	}
	if p, known := people[principal]; known {
		in.Principal = newPrincipal(&p)
	}
	return nil
}

// newRuleDenial makes the refusal of a call that a rule denies.
func newRuleDenial(v rule.Verdict) *refusal {
	return newDenial(CodeRuleDenied, cmp.Or(v.Message, "a rule of an operator denies this call"))
}

// ruledError means that a rule parks an approved call that did not when it was approved, or that it has to meet other policies: people have
// to be asked again.
type ruledError struct {
	rules    []rule.Applied
	policies []policy.Policy
}

func (*ruledError) Error() string {
	return "a rule or a policy applies to the call that did not when it was approved"
}

// recheckRules compares an approved call with the rules and policies in force; revision is that of the last change. A rule that denies the
// call refuses it. What depends on earlier calls stays open until the call is claimed. Errors: *ruledError.
func (s *Service) recheckRules(ctx context.Context, c *Call, decided *approval.Approval, to *target, revision int64) (*refusal, error) {
	book, err := s.Agents.RulesSince(ctx, revision)
	if err != nil || len(book.Rules) == 0 && len(book.Policies) == 0 {
		return nil, err
	}
	by, err := s.Agents.AgentByID(ctx, c.AgentID)
	if err != nil {
		return nil, err
	}
	c.Agent = by.Name
	applied, open, err := s.matchRules(ctx, book, c, to.definition)
	if err != nil {
		return nil, err
	}
	policies, err := s.findPolicies(ctx, book, to.skill, c.Tool, applied)
	if err != nil {
		return nil, err
	}
	if to.open = open; open != nil {
		open.decided, open.policies = decided, policies
		return nil, nil
	}
	return compareRules(c, decided, applied, policies)
}

// compareRules compares the rules and policies that apply to an approved call with those that parked it. Errors: *ruledError.
func compareRules(c *Call, decided *approval.Approval, applied []rule.Applied, policies []policy.Policy) (*refusal, error) {
	if verdict := combineGated(applied); verdict.Action == approval.Deny {
		return newRuleDenial(verdict), nil
	}
	if !hasPolicies(decided, policies) {
		return nil, &ruledError{applied, policies}
	}
	for i := range applied {
		known := slices.ContainsFunc(c.Rules, func(before rule.Applied) bool { return before.Name == applied[i].Name && before.Parks() })
		if applied[i].Parks() && !known {
			return nil, &ruledError{applied, policies}
		}
	}
	return nil, nil
}

// combineGated returns the verdict of rules on a call that is parked in any case.
func combineGated(applied []rule.Applied) rule.Verdict {
	return rule.Combine(approval.Verdict{Action: approval.Park, Rule: approval.RuleGated}, applied)
}

// askAgain parks an approved call that nothing has claimed, because of rules or policies that did not apply when it was approved. Its approval
// gets the time again that it had at first.
func (s *Service) askAgain(ctx context.Context, c *Call, decided *approval.Approval, because *ruledError) error {
	applied := because.rules
	var again *move
	asked := *decided
	if len(because.policies) > 0 {
		asked.Policies = because.policies
	}
	lack, err := s.FindLack(ctx, &asked) // before a transaction takes a connection
	if err != nil {
		s.Logger.Warn("searching for reviewers", "call", c.ID, "error", err)
	}
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		a, _, err := approval.Lock(ctx, tx, c.ID)
		if err != nil {
			return err
		}
		if a.Status != approval.Approved || a.Digest != decided.Digest {
			return nil // another process was first
		}
		again = &move{
			event: onAskAgain, id: c.ID, agentID: c.AgentID, outcome: outcome{status: Parked}, actor: audit.System(),
			data: map[string]any{"digest": a.Digest.String(), "rules": applied},
		}
		if err := s.moveInTx(ctx, tx, again); err != nil || !again.made { // it was claimed or cancelled: its approval stays as it is
			return err
		}
		if a, err = approval.AskAgain(ctx, tx, a, combineGated(applied).Rule, because.policies); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE calls SET rules = $2 WHERE id = $1`, c.ID, postgres.JSONOrNull(applied)); err != nil {
			return err
		}
		notices := []Attention{newAttention(Waits, c, &a)}
		if err := s.scheduleEscalations(ctx, tx, notices...); err != nil {
			return err
		}
		if lack.IsAny() {
			notices = append(notices, newAttention(lack.kind(), c, &a))
			if err := audit.Write(ctx, tx, lack.auditEvent(c.ID)); err != nil {
				return err
			}
		}
		return s.notifyPeople(ctx, tx, notices...)
	})
	if err != nil {
		return fmt.Errorf("ask again about call %s: %w", c.ID, err)
	}
	s.announceMoves(ctx, again)
	return nil
}

// withRules adds the rules that a call was judged by, and the grant that let it pass, to the data of its audit event.
func withRules(c *Call, data map[string]any) map[string]any {
	if len(c.Rules) == 0 && c.GrantID == uuid.Nil {
		return data
	}
	if data == nil {
		data = map[string]any{}
	}
	if len(c.Rules) > 0 {
		data["rules"] = c.Rules
	}
	if c.GrantID != uuid.Nil {
		data["grant"] = c.GrantID
	}
	return data
}
