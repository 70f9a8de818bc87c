package call

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/postgres"
)

// Limits of what one query reads. A condition whose window has more fails.
const (
	maxRemembered      = 100_000  // calls
	maxRememberedBytes = 64 << 20 // of their arguments
)

// openVerdict is the verdict on a call that depends on earlier calls. It is settled in the transaction that claims the call, under the locks
// of [lockMemory], so that no other call that counts comes between.
type openVerdict struct {
	call      *Call
	settings  approval.Verdict
	prepared  *rule.Prepared
	in        *condition.Input
	asks      []ask
	approvals bool // whether calls that are approved and not claimed count too
	book      *rule.Book
	decided   *approval.Approval // of an approved call; nil: it is none
	policies  []policy.Policy    // of an approved call, without those of rules

	now     time.Time    // by the database's clock, after the locks were taken
	verdict rule.Verdict // after judge
}

// ask is what a rule asks about earlier calls, with the ids of what the rule is about.
type ask struct {
	rule.Ask

	skills []uuid.UUID
	agents []uuid.UUID            // nil: all
	named  map[string][]uuid.UUID // the skills that queries of after name
}

// openVerdict prepares the verdict of rules that ask about earlier calls. A transaction must not wait for another connection, so it finds the
// ids of skills and agents before.
func (s *Service) openVerdict(ctx context.Context, book *rule.Book, c *Call, prepared *rule.Prepared, in *condition.Input, asks []rule.Ask) (*openVerdict, error) {
	o := &openVerdict{book: book, call: c, prepared: prepared, in: in, asks: make([]ask, len(asks))}
	for i, of := range asks {
		a := ask{Ask: of, named: map[string][]uuid.UUID{}}
		var err error
		if a.skills, err = s.Agents.FindCoveredSkills(ctx, &of.Rule.Spec); err == nil && len(of.Rule.Agents) > 0 {
			a.agents, err = s.Agents.FindCoveredAgents(ctx, &of.Rule.Spec)
		}
		for _, q := range of.Program.Queries() {
			if skill, _, both := strings.Cut(q.Tool, "/"); both && err == nil {
				a.named[skill], err = s.Agents.FindCoveredSkills(ctx, &rule.Spec{Skills: []string{skill}})
			}
		}
		if err != nil {
			return nil, err
		}
		o.asks[i] = a
	}
	return o, nil
}

// lockMemory locks what verdicts count, until the end of the transaction. Every call that a rule may count was judged by the rule, so the rule
// and the group of calls are the key. The transaction takes these locks before all others.
func lockMemory(ctx context.Context, tx pgx.Tx, verdicts ...*openVerdict) error {
	var keys []string
	for _, o := range verdicts {
		for _, a := range o.asks {
			for _, q := range a.Program.Queries() {
				if q.Function != condition.After {
					keys = append(keys, a.Rule.Name+"/"+q.Of+"/"+o.groupOf(q))
				}
			}
		}
	}
	batch := &pgx.Batch{}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		batch.Queue(`SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_memory/' || $1::text, 0))`, key)
	}
	var now time.Time
	batch.Queue(`SELECT holdpoint_now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("lock what rules count: %w", err)
	}
	for _, o := range verdicts {
		o.now, o.in.Now = now, now
	}
	return nil
}

// groupOf names the group of calls that a query counts for the call.
func (o *openVerdict) groupOf(q condition.Query) string {
	switch q.Of {
	case condition.OfAgent:
		return o.call.AgentID.String()
	case condition.OfPrincipal:
		return o.call.PrincipalID.String()
	case condition.OfTool:
		return o.call.SkillID.String() + "/" + o.call.Tool
	}
	return ""
}

// judge reads the earlier calls and settles the verdict.
func (o *openVerdict) judge(ctx context.Context, tx pgx.Tx) error {
	memory := rule.Memory{}
	for i := range o.asks {
		a := &o.asks[i]
		answers := condition.Answers{}
		for _, q := range a.Program.Queries() {
			var err error
			if answers[q], err = o.answer(ctx, tx, a, q); err != nil {
				return fmt.Errorf("read what rule %s counts: %w", a.Rule.Name, err)
			}
		}
		memory[a.Rule.Name] = answers
	}
	o.verdict = rule.Combine(o.settings, o.prepared.Apply(ctx, o.in, memory))
	return ctx.Err() // a condition that was interrupted has not failed
}

// countedSQL holds for calls that rules count: those that were sent, unless they certainly had no effect.
const countedSQL = `c.claimed_at IS NOT NULL AND (c.status IN ('executing', 'succeeded')
	OR c.status = 'failed' AND c.effect IS DISTINCT FROM 'none'
	OR c.status = 'unknown' AND c.resolution ->> 'outcome' IS DISTINCT FROM 'failed')`

// rememberedSQL is a relation of the calls that a query counts: those that were sent within the window and, if $8, those that are approved and
// not claimed, which have a job. It has the time and the jobs as values, because the planner would scan all calls otherwise.
const rememberedSQL = `(SELECT c.arguments, c.content_deleted_at FROM calls c
		WHERE c.skill_id = ANY($1) AND c.claimed_at >= $2 AND ` + countedSQL + ` AND ` + groupSQL + `
	UNION ALL SELECT c.arguments, c.content_deleted_at FROM calls c WHERE c.id = ANY(ARRAY(
			SELECT (args ->> 'call_id')::uuid FROM river_job WHERE $8 AND kind = $7 AND state IN ('available', 'pending', 'running', 'retryable', 'scheduled')))
		AND c.skill_id = ANY($1) AND c.status = 'approved' AND ` + groupSQL + `
	LIMIT $9) AS c`

const groupSQL = `c.id <> $3 AND ($4::text[] IS NULL OR c.tool LIKE ANY($4)) AND ($5::uuid[] IS NULL OR c.agent_id = ANY($5))
	AND ($6::uuid IS NULL OR c.principal_id = $6)`

// answer answers a query from the database.
func (o *openVerdict) answer(ctx context.Context, tx pgx.Tx, a *ask, q condition.Query) (condition.Answer, error) {
	c := o.call
	if q.Function == condition.After {
		return o.answerAfter(ctx, tx, a, q)
	}
	skills, tools, agents := a.skills, likePatterns(a.Rule.Tools), a.agents
	var principal *uuid.UUID
	switch q.Of {
	case condition.OfAgent:
		agents = []uuid.UUID{c.AgentID}
	case condition.OfTool:
		skills, tools = []uuid.UUID{c.SkillID}, likePatterns([]string{c.Tool})
	case condition.OfPrincipal:
		if c.PrincipalID == uuid.Nil {
			return condition.AnswerError(rule.NoPrincipal), nil
		}
		principal = &c.PrincipalID
	}
	args := []any{skills, o.now.Add(-q.Window), c.ID, tools, agents, principal, executeArgs{}.Kind(), o.approvals, maxRemembered + 1}
	tooMany := condition.AnswerError(fmt.Sprintf("%s: the window has more than %d calls, or more than %d MiB of arguments", q.Function, maxRemembered, maxRememberedBytes>>20))
	if q.Function == condition.Calls {
		var n int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM `+rememberedSQL, args...).Scan(&n)
		if n > maxRemembered {
			return tooMany, err
		}
		return condition.AnswerCount(n), err
	}
	tally, calls, bytes := a.Program.NewTally(q), 0, 0
	rows, _ := tx.Query(ctx, `SELECT c.arguments, c.content_deleted_at FROM `+rememberedSQL, args...)
	var arguments pgtype.DriverBytes // valid until the next row
	var deleted *time.Time
	_, err := pgx.ForEachRow(rows, []any{&arguments, &deleted}, func() error {
		calls, bytes = calls+1, bytes+len(arguments)
		switch {
		case calls > maxRemembered || bytes > maxRememberedBytes:
			return errTooManyRemembered
		case deleted != nil:
			tally.Add(tally.DeletedShare())
		default:
			tally.Add(tally.Read([]byte(arguments)))
		}
		return nil
	})
	if errors.Is(err, errTooManyRemembered) {
		return tooMany, nil
	}
	if q.Function == condition.Distinct {
		tally.Add(tally.ReadOwn(o.in.Arguments))
	}
	return tally.Answer(), err
}

// errTooManyRemembered ends the reading of calls.
var errTooManyRemembered = errors.New("too many calls")

// answerAfter answers whether the conversation sent a call of a tool before this one was made.
func (o *openVerdict) answerAfter(ctx context.Context, tx pgx.Tx, a *ask, q condition.Query) (condition.Answer, error) {
	c := o.call
	if c.ConversationID == uuid.Nil {
		return condition.AnswerError(rule.NoConversation), nil
	}
	skill, name, both := strings.Cut(q.Tool, "/")
	if !both {
		name = q.Tool
	}
	var made *time.Time // nil: now
	if !c.CreatedAt.IsZero() {
		made = &c.CreatedAt
	}
	var sent bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM calls c WHERE c.conversation_id = $1 AND c.id <> $2 AND c.tool = $3
		AND ($4::uuid[] IS NULL OR c.skill_id = ANY($4)) AND ($5::timestamptz IS NULL OR c.claimed_at < $5) AND `+countedSQL+`)`,
		c.ConversationID, c.ID, name, a.named[skill], made).Scan(&sent)
	return condition.AnswerYes(sent), err
}

// likePatterns returns the patterns of SQL for names in which * stands for any characters. Nil: all names.
func likePatterns(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	patterns := make([]string, len(names))
	for i, name := range names {
		patterns[i] = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`, `*`, `%`).Replace(name)
	}
	return patterns
}

// adoptVerdict gives an admission its settled verdict, which does not allow the call.
func (s *Service) adoptVerdict(ctx context.Context, c *Call, a *admission) (err error) {
	book := a.open.book
	a.verdict, a.open = a.open.verdict, nil
	if c.Rules = a.verdict.Applied; a.verdict.Action != approval.Park {
		a.refusal = denyByRule(a.verdict)
		return nil
	}
	a.policies, err = s.findPolicies(ctx, book, a.skill, c.Tool, c.Rules)
	return err
}

// compare compares the settled verdict on an approved call with its approval. Errors: *ruledError.
func (o *openVerdict) compare() (*refusal, error) {
	policies := slices.Clone(o.policies)
	for _, name := range rule.ListPolicies(o.verdict.Applied) {
		if slices.ContainsFunc(policies, func(p policy.Policy) bool { return p.Name == name }) {
			continue
		}
		found, known := o.book.Policies[name]
		if !known {
			return nil, fmt.Errorf("policy %s does not exist", name)
		}
		policies = append(policies, found)
	}
	return compareRules(o.call, o.decided, o.verdict.Applied, policies)
}

// errNotAllowed means that a call that was to be claimed is not allowed by its settled verdict.
var errNotAllowed = errors.New("rules that count earlier calls do not allow the call")

// settleVerdict settles the verdict on a call that is being recorded, if it is open. It reports whether to record the call. The transaction
// has the locks.
func (s *Service) settleVerdict(ctx context.Context, tx pgx.Tx, item *intakeItem) (bool, error) {
	o := item.open
	if o == nil {
		return true, nil
	}
	if item.tried { // an earlier attempt may have committed without an answer
		var recorded bool
		if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM calls WHERE id = $1)`, item.call.ID).Scan(&recorded); err != nil {
			return false, fmt.Errorf("find an earlier attempt: %w", err)
		}
		if recorded {
			o.verdict.Action = approval.Allow
			return true, nil
		}
	}
	item.tried = true
	if err := o.judge(ctx, tx); err != nil {
		return false, err
	}
	item.call.Rules = o.verdict.Applied
	item.move.data = withRules(item.call, nil)
	return o.verdict.Action == approval.Allow, nil
}

// enterMemory reserves one of the few connections that may wait for the locks of [lockMemory], and returns the function that gives it back.
func (s *Service) enterMemory(ctx context.Context) (leave func(), err error) {
	select {
	case s.remembering <- struct{}{}:
		return func() { <-s.remembering }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// maxRemembering is the number of transactions of a process that claim calls one after the other.
const maxRemembering = 2

// claimCounted runs claim in a transaction in which the open verdict on an approved call is settled. A refusal or an error of the verdict
// prevents the claim. Errors: *ruledError.
func (s *Service) claimCounted(ctx context.Context, o *openVerdict, claim *pgx.Batch) (*refusal, error) {
	leave, err := s.enterMemory(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	var refused *refusal
	err = postgres.InTx(ctx, s.Pool, func(tx pgx.Tx) error {
		if err := lockMemory(ctx, tx, o); err != nil {
			return err
		}
		if err := o.judge(ctx, tx); err != nil {
			return err
		}
		if refused, err = o.compare(); refused != nil || err != nil {
			return err
		}
		return s.sendSettled(ctx, tx, claim)
	})
	return refused, err
}
