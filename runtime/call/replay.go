package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Limits of a replay.
const (
	MaxReplayed    = 100_000 // calls in the rule's scope
	MaxReplayShown = 200     // differences
	replayScanned  = 1_000_000
	replayTime     = 20 * time.Second
	replayBatch    = 2000
	replayBytes    = 32 << 20 // of arguments in a batch; one call may exceed it

	maxReplayedHistory = 2 * MaxReplayed // calls that a rule counts
	maxReplayedBytes   = 128 << 20       // of their arguments
)

// Replay is the judgement of a rule on calls of the past, as if it had been in force beside the rules of their time.
type Replay struct {
	Judged  int // calls in the rule's scope
	Matched int
	Failed  int        // calls for which the condition could not be evaluated
	Since   *time.Time // when the oldest judged call was made; nil: none was judged
	// Complete means that all recorded calls were considered, and not only the newest ones.
	Complete    bool
	Differing   int          // calls with another verdict
	Rejected    int          // of these, calls that a reviewer rejected
	Differences []Difference // those that a reviewer rejected first, then by time, the newest first; at most [MaxReplayShown]
}

// Difference is a call whose verdict would have been another one.
type Difference struct {
	CallID    uuid.UUID
	Agent     string
	Skill     string
	Tool      string
	CreatedAt time.Time
	Before    approval.Action
	After     approval.Action
	Decision  approval.Status // of a parked call; empty: it was not parked
	Failure   string          // of the condition
}

// replayedCall is a call of the past, as far as rules need it.
type replayedCall struct {
	id, agentID, skillID uuid.UUID
	principalID          uuid.UUID
	conversationID       uuid.UUID
	tool                 string
	pin                  tool.Pin
	arguments            json.RawMessage
	claims               GateBinding // of a gate-only call
	gated, granted       bool
	status               Status
	code                 string
	createdAt            time.Time
	rules                []rule.Applied
}

// replayer judges the calls of one replay.
type replayer struct {
	*Service
	covered []uuid.UUID // skills that the rule is about
	book    *rule.Book  // with the one rule
	agents  map[uuid.UUID]string
	skills  map[uuid.UUID]string
	open    map[uuid.UUID]bool // skills that are auto-approved now
	people  map[uuid.UUID]identity.Person
	history *rule.History // nil: the rule asks nothing about earlier calls
	queries []condition.Query
	// remembered is the time from which on the history has all that calls ask. Zero: all.
	remembered time.Time
	cut        bool // whether calls before that were left out
	found      Replay
	rejected   []Difference
	others     []Difference
}

// ReplayRule judges recorded calls by a rule that need not be stored, whatever its mode. It replaces the rule of its name. The newest calls come first.
// A call without content is left out, and so is one that settings denied. A process replays one rule at a time; others wait.
func (s *Service) ReplayRule(ctx context.Context, spec rule.Spec) (Replay, error) {
	select {
	case s.replays <- struct{}{}:
		defer func() { <-s.replays }()
	case <-ctx.Done():
		return Replay{}, ctx.Err()
	}
	programs := rule.NewPrograms(s.Now)
	defer programs.Close()
	spec = spec.Normalize()
	spec.Mode = rule.Enforce
	covered, err := s.Agents.FindCoveredSkills(ctx, &spec)
	if err != nil {
		return Replay{}, fmt.Errorf("replay rule %s: %w", spec.Name, err)
	}
	r := &replayer{
		Service: s, covered: covered, book: rule.NewBook(0, []rule.Rule{{Spec: spec}}, nil, programs),
		agents: map[uuid.UUID]string{}, skills: map[uuid.UUID]string{}, open: map[uuid.UUID]bool{}, people: map[uuid.UUID]identity.Person{},
	}
	if err := r.readHistory(ctx); err != nil {
		return Replay{}, fmt.Errorf("replay rule %s: %w", spec.Name, err)
	}
	began, before := s.Now(), uuid.Max
	for scanned := 0; scanned < replayScanned && r.found.Judged < MaxReplayed && elapsedTime(s.Now(), began) < replayTime; scanned += replayBatch {
		calls, next, err := r.readBatch(ctx, before)
		if err == nil {
			err = r.judgeBatch(ctx, calls)
		}
		if err != nil {
			return Replay{}, fmt.Errorf("replay rule %s: %w", spec.Name, err)
		}
		if r.found.Complete = next == uuid.Nil && !r.cut; r.found.Complete || r.cut {
			break
		}
		before = next
	}
	all := slices.Concat(r.rejected, r.others)
	r.found.Differences = all[:min(len(all), MaxReplayShown)]
	return r.found, nil
}

// readHistory reads the calls that the rule counts, the newest first, if it counts any.
func (r *replayer) readHistory(ctx context.Context) error {
	spec := &r.book.Rules[0].Spec
	if spec.When == "" {
		return nil
	}
	program, err := condition.Compile(spec.When, nil) // what compiles for a tool compiles for arguments of any shape
	if err != nil || len(program.Queries()) == 0 {
		return nil //nolint:nilerr // the rule fails for each call
	}
	r.queries = program.Queries()
	type sentCall struct {
		replayedCall

		deleted bool
		at      time.Time
	}
	var sent []sentCall
	bytes := 0
	if slices.ContainsFunc(r.queries, func(q condition.Query) bool { return q.Function != condition.After }) {
		err = r.Reader.InTx(ctx, func(tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, `SELECT id, agent_id, skill_id, principal_id, conversation_id, tool, arguments, content_deleted_at IS NOT NULL, claimed_at
				FROM calls c WHERE skill_id = ANY($1) AND `+countedSQL+` ORDER BY claimed_at DESC LIMIT $2`, r.covered, maxReplayedHistory)
			var c sentCall
			var principal, conversation *uuid.UUID
			_, err := pgx.ForEachRow(rows, []any{&c.id, &c.agentID, &c.skillID, &principal, &conversation, &c.tool, (*[]byte)(&c.arguments), &c.deleted, &c.at}, func() error {
				c.principalID, c.conversationID = postgres.OrNil(principal), postgres.OrNil(conversation)
				if bytes += len(c.arguments); bytes <= maxReplayedBytes {
					sent = append(sent, c)
				}
				return nil
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("read earlier calls: %w", err)
		}
	}
	ids := map[uuid.UUID]bool{}
	for i := range sent {
		ids[sent[i].agentID], ids[sent[i].skillID] = true, true
	}
	names, err := r.Agents.Names(ctx, slices.Collect(maps.Keys(ids)))
	if err != nil {
		return err
	}
	calls := make([]rule.Call, len(sent))
	for i := range sent {
		c := &sent[i]
		calls[i] = newRuleCall(c.id, rule.Subject{Agent: names[c.agentID], Skill: names[c.skillID], Tool: c.tool}, c.principalID, c.conversationID, c.arguments, c.at)
		calls[i].Deleted = c.deleted
	}
	r.history = rule.NewHistory(calls)
	if len(sent) == maxReplayedHistory || bytes > maxReplayedBytes {
		for _, q := range r.queries {
			if from := sent[len(sent)-1].at.Add(q.Window); r.remembered.Before(from) {
				r.remembered = from
			}
		}
	}
	return nil
}

// newRuleCall makes a call as rules remember it.
func newRuleCall(id uuid.UUID, of rule.Subject, principal, conversation uuid.UUID, arguments json.RawMessage, at time.Time) rule.Call {
	c := rule.Call{Subject: of, ID: id, Arguments: arguments, At: at}
	if principal != uuid.Nil {
		c.Principal = principal.String()
	}
	if conversation != uuid.Nil {
		c.Conversation = conversation.String()
	}
	return c
}

// noteTools adds the tools that the conversations of calls used to the history, as far as the rule asks for them.
func (r *replayer) noteTools(ctx context.Context, calls []replayedCall) error {
	var tools []string
	for _, q := range r.queries {
		if q.Function == condition.After {
			_, name, both := strings.Cut(q.Tool, "/")
			if !both {
				name = q.Tool
			}
			tools = append(tools, name)
		}
	}
	if len(tools) == 0 {
		return nil
	}
	conversations := map[uuid.UUID]bool{}
	for i := range calls {
		conversations[calls[i].conversationID] = true
	}
	type firstCall struct {
		Conversation, Skill uuid.UUID
		Tool                string
		At                  time.Time
	}
	first, err := postgres.Collect(ctx, r.Pool, pgx.RowToStructByPos[firstCall], `SELECT conversation_id, skill_id, tool, min(claimed_at) FROM calls c
		WHERE conversation_id = ANY($1) AND tool = ANY($2) AND `+countedSQL+` GROUP BY 1, 2, 3`, slices.Collect(maps.Keys(conversations)), tools)
	if err != nil {
		return fmt.Errorf("read the tools of conversations: %w", err)
	}
	var skills []uuid.UUID
	for _, c := range first {
		skills = append(skills, c.Skill)
	}
	names, err := r.Agents.Names(ctx, skills)
	if err != nil {
		return err
	}
	for _, c := range first {
		r.history.NoteTool(c.Conversation.String(), names[c.Skill], c.Tool, c.At)
	}
	return nil
}

// readBatch reads calls that are older than one, newest first, and returns the position of the next batch; uuid.Nil: there is none. It leaves out
// most of those that are out of scope.
func (r *replayer) readBatch(ctx context.Context, before uuid.UUID) (calls []replayedCall, next uuid.UUID, err error) {
	type batchBound struct {
		Oldest     *uuid.UUID
		Rows, Seen int // calls in the batch; calls that were considered for it
	}
	var bound batchBound
	err = r.Reader.InTx(ctx, func(tx pgx.Tx) (err error) {
		bound, err = postgres.CollectOne(ctx, tx, pgx.RowToStructByPos[batchBound], `SELECT min(id::text) FILTER (WHERE newer < $3)::uuid, count(*) FILTER (WHERE newer < $3), count(*)
			FROM (SELECT id, coalesce(sum(octet_length(coalesce(submitted, arguments)) + coalesce(octet_length(request), 0)) OVER (ORDER BY id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS newer
				FROM calls WHERE id < $1 ORDER BY id DESC LIMIT $2) AS newest`, before, replayBatch, replayBytes)
		if err != nil || bound.Oldest == nil {
			return err
		}
		calls, err = postgres.Collect(ctx, tx, scanReplayed, `SELECT id, agent_id, skill_id, principal_id, conversation_id, tool, pin, coalesce(submitted, arguments), gated, status,
				coalesce(code, ''), created_at, rules, grant_id IS NOT NULL,
				CASE WHEN gate_host IS NOT NULL THEN request END
			FROM calls WHERE id < $1 AND id >= $2 AND skill_id = ANY($3) AND content_deleted_at IS NULL AND status NOT IN ('needs_connection', 'invalid')
			ORDER BY id DESC`, before, *bound.Oldest, r.covered)
		return err
	})
	if err != nil || bound.Rows == bound.Seen && bound.Seen < replayBatch {
		return calls, uuid.Nil, err
	}
	return calls, *bound.Oldest, nil
}

func scanReplayed(row pgx.CollectableRow) (c replayedCall, err error) {
	var principal, conversation *uuid.UUID
	var pin, request []byte
	err = row.Scan(&c.id, &c.agentID, &c.skillID, &principal, &conversation, &c.tool, &pin, (*[]byte)(&c.arguments), &c.gated, &c.status, &c.code, &c.createdAt, &c.rules,
		&c.granted, &request)
	c.claims = readBinding(request)
	copy(c.pin[:], pin)
	c.principalID, c.conversationID = postgres.OrNil(principal), postgres.OrNil(conversation)
	return c, err
}

// judgeBatch judges calls, and notes those with another verdict.
func (r *replayer) judgeBatch(ctx context.Context, calls []replayedCall) error {
	calls = slices.DeleteFunc(calls, func(c replayedCall) bool { return c.status == Denied && c.code != CodeRuleDenied })
	decided, definitions, err := r.readContext(ctx, calls)
	if err == nil && r.history != nil {
		err = r.noteTools(ctx, calls)
	}
	if err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		subject := rule.Subject{Agent: r.agents[c.agentID], Skill: r.skills[c.skillID], Tool: c.tool}
		rules := r.book.Find(subject)
		definition := definitions[c.pin]
		if len(rules) == 0 || definition.Name == "" {
			continue
		}
		if r.cut = c.createdAt.Before(r.remembered); r.cut {
			return nil
		}
		r.found.Judged++
		r.found.Since = &c.createdAt
		in := newInput(subject, c.arguments, c.claims, definition)
		in.Now = c.createdAt
		if p, exists := r.people[c.principalID]; exists {
			in.Principal = newPrincipal(&p)
		}
		prepared := r.book.Prepare(ctx, rules, rule.Schema{Pin: c.pin, JSON: definition.InputSchema})
		var memory rule.Memory
		if r.history != nil {
			judged := newRuleCall(c.id, subject, c.principalID, c.conversationID, c.arguments, c.createdAt)
			memory = r.history.Remember(ctx, prepared, in, &judged)
		}
		applied := prepared.Apply(ctx, in, memory)
		r.noteVerdict(c, subject, decided[c.id], applied)
	}
	return nil
}

// readContext reads what the judgement of calls needs besides the calls.
func (r *replayer) readContext(ctx context.Context, calls []replayedCall) (map[uuid.UUID]approval.Approval, map[tool.Pin]tool.Definition, error) {
	var ids, people, gated []uuid.UUID
	definitions := map[tool.Pin]tool.Definition{}
	for i := range calls {
		c := &calls[i]
		if _, known := r.agents[c.agentID]; !known {
			ids = append(ids, c.agentID)
		}
		if _, known := r.skills[c.skillID]; !known {
			ids = append(ids, c.skillID)
		}
		if _, known := r.people[c.principalID]; !known && c.principalID != uuid.Nil {
			people = append(people, c.principalID)
		}
		if c.gated {
			gated = append(gated, c.id)
		}
		if _, known := definitions[c.pin]; !known {
			definition, err := r.Discovery.Definition(ctx, c.pin)
			if err != nil && !errors.Is(err, tool.ErrNotFound) { // it was deleted by age
				return nil, nil, err
			}
			definitions[c.pin] = definition
		}
	}
	names, err := r.Agents.Names(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	for i := range calls {
		c := &calls[i]
		r.agents[c.agentID] = cmp.Or(r.agents[c.agentID], names[c.agentID])
		if r.skills[c.skillID] == "" {
			r.skills[c.skillID] = names[c.skillID]
			if skill, _, err := r.Agents.Skill(ctx, c.skillID); err == nil {
				r.open[c.skillID] = skill.AutoApprove
			}
		}
	}
	batch := &pgx.Batch{}
	identity.QueuePeople(batch, people, r.people)
	if err := r.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, err
	}
	approvals, err := approval.ListByCall(ctx, r.Pool, gated...)
	if err != nil {
		return nil, nil, err
	}
	decided := make(map[uuid.UUID]approval.Approval, len(approvals))
	for _, a := range approvals {
		decided[a.CallID] = a
	}
	return decided, definitions, nil
}

// restoreSettings returns the verdict of operators' settings on a call of the past, without that of rules. parkedBy is why it was parked; open tells
// whether its skill is auto-approved now.
func restoreSettings(c *replayedCall, parkedBy approval.Rule, open bool) approval.Verdict {
	switch allowed := slices.ContainsFunc(c.rules, func(a rule.Applied) bool { return a.Mode == rule.Enforce && a.Effect == rule.Allow }); {
	case c.gated && parkedBy != approval.RuleParked && parkedBy != approval.RuleFailed && parkedBy != "":
		return approval.Verdict{Action: approval.Park, Rule: parkedBy}
	case !open || allowed:
		return approval.Verdict{Action: approval.Park, Rule: approval.RuleGated}
	}
	return approval.Verdict{Action: approval.Allow, Rule: approval.RuleAutoApproved}
}

// noteVerdict compares the verdict that a call got with the one that it would get.
func (r *replayer) noteVerdict(c *replayedCall, subject rule.Subject, decided approval.Approval, applied []rule.Applied) {
	if len(applied) > 0 && applied[0].Failure != "" {
		r.found.Failed++
	} else if len(applied) > 0 {
		r.found.Matched++
	}
	settings := restoreSettings(c, decided.Rule, r.open[c.skillID])
	name := r.book.Rules[0].Name
	others := slices.DeleteFunc(slices.Clone(c.rules), func(a rule.Applied) bool { return a.Name == name })
	before, after := rule.Combine(settings, c.rules), rule.Combine(settings, append(others, applied...))
	if c.granted {
		if before.Action = approval.Allow; after.AllowsGrants(true) {
			after.Action = approval.Allow
		}
	}
	if before.Action == after.Action {
		return
	}
	d := Difference{
		CallID: c.id, Agent: subject.Agent, Skill: subject.Skill, Tool: subject.Tool, CreatedAt: c.createdAt,
		Before: before.Action, After: after.Action, Decision: decided.Status,
	}
	if len(applied) > 0 {
		d.Failure = applied[0].Failure
	}
	r.found.Differing++
	list := &r.others
	if decided.Status == approval.Rejected {
		r.found.Rejected++
		list = &r.rejected
	}
	if len(*list) < MaxReplayShown {
		*list = append(*list, d)
	}
}
