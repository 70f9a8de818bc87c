package call_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// limitOf5000 lets calls pass as long as they are at most 5,000 together in an hour.
var limitOf5000 = rule.Spec{Name: "limit", When: `spent("n", "1h") + args.n <= 5000.0`, Effect: rule.Allow}

// submitTogether submits calls from several services at the same time, and returns the tickets.
func (w *world) submitTogether(services []*call.Service, n int, arguments func(i int) string) []call.Ticket {
	w.t.Helper()
	subs, tickets, errs := make([]call.Submission, n), make([]call.Ticket, n), make([]error, n)
	for i := range n {
		subs[i] = w.newSubmission("files__write", arguments(i))
	}
	var together sync.WaitGroup
	for i := range n {
		together.Go(func() { tickets[i], errs[i] = services[i%len(services)].Submit(w.t.Context(), subs[i]) })
	}
	together.Wait()
	for _, err := range errs {
		check(w.t, err)
	}
	return tickets
}

func countStatuses(tickets []call.Ticket) map[call.Status]int {
	counts := map[call.Status]int{}
	for _, ticket := range tickets {
		counts[ticket.Status]++
	}
	return counts
}

// TestLimitHoldsInAllProcesses: of 64 calls of 2,000 that come in at once in two processes, a limit of 5,000 lets two pass, and the others are parked
// or denied in the same submission.
func TestLimitHoldsInAllProcesses(t *testing.T) {
	t.Parallel()
	deny := rule.Spec{Name: "limit", When: `spent("n", "1h") + args.n > 5000.0`, Effect: rule.Deny, Message: "Wait an hour."}
	for _, tc := range []struct {
		rules []rule.Spec
		rest  call.Status
	}{
		{[]rule.Spec{limitOf5000}, call.Parked},
		{[]rule.Spec{{Name: "all", Effect: rule.Allow}, deny}, call.Denied},
	} {
		w := newWorld(t)
		for _, spec := range tc.rules {
			w.setRule(spec)
		}
		tickets := w.submitTogether([]*call.Service{w.calls, w.start()}, 64, func(i int) string { return fmt.Sprintf(`{"n":2000,"i":%d}`, i) })
		if got := countStatuses(tickets); got[call.Executing] != 2 || got[tc.rest] != 62 {
			t.Errorf("%s: the calls are %v, want 2 executing and 62 %s", tc.rules[0].Name, got, tc.rest)
		}
		if got := len(w.source.Arguments()); got > 2 {
			t.Errorf("%s: %d calls were sent", tc.rules[0].Name, got)
		}
		for _, ticket := range tickets {
			if ticket.Status == call.Executing {
				w.waitForEnd(ticket.ID)
			}
		}
		if ticket := w.submit("files__write", `{"n":1000}`); ticket.Status != call.Executing {
			t.Errorf("%s: the last 1,000 are %s", tc.rules[0].Name, ticket.Status)
		}
		if ticket := w.submit("files__write", `{"n":0.01}`); ticket.Status != tc.rest {
			t.Errorf("%s: a cent more is %s", tc.rules[0].Name, ticket.Status)
		}
		if tc.rest == call.Denied {
			continue
		}
		parked := w.getApproval(w.submit("files__write", `{"n":2}`).ID)
		if parked.Approval.Rule != approval.RuleGated || len(parked.Call.Rules) != 0 {
			t.Errorf("parked by %s with %+v", parked.Approval.Rule, parked.Call.Rules)
		}
		if got := w.db.Actions(parked.Call.ID); got != "call.parked" {
			t.Errorf("audit log of a parked call: %s", got)
		}
	}
}

// TestWhatCounts: calls count if they were sent, unless they certainly had no effect, within the window.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "one", When: `calls("1h") < 1`, Effect: rule.Allow})
	first := w.submit("files__write", `{"n":1}`)
	w.waitForEnd(first.ID)
	for set, counts := range map[string]bool{
		`status = 'succeeded'`:                                                             true,
		`status = 'executing'`:                                                             true,
		`status = 'unknown'`:                                                               true,
		`status = 'failed', effect = 'possible'`:                                           true,
		`status = 'failed', effect = NULL`:                                                 true,
		`status = 'failed', effect = 'none'`:                                               false,
		`status = 'denied', effect = 'none'`:                                               false,
		`status = 'expired', effect = 'none'`:                                              false,
		`status = 'unknown', resolution = '{"outcome":"failed"}'`:                          false,
		`status = 'unknown', resolution = '{"outcome":"succeeded"}'`:                       true,
		`status = 'succeeded', claimed_at = holdpoint_now() - interval '59 minutes'`:       true,
		`status = 'succeeded', claimed_at = holdpoint_now() - interval '61 minutes'`:       false,
		`status = 'executing', finished_at = NULL, claimed_at = holdpoint_now() + '1 day'`: true, // the clock was set back
		`status = 'parked', claimed_at = NULL`:                                             false,
		`status = 'rejected', claimed_at = NULL`:                                           false,
		`content_deleted_at = holdpoint_now(), arguments = '{}'`:                           true, // for calls
	} {
		w.db.Exec(`UPDATE calls SET status = 'succeeded', effect = NULL, resolution = NULL, content_deleted_at = NULL, claimed_at = holdpoint_now() WHERE id = $1`, first.ID)
		w.db.Exec(`UPDATE calls SET `+set+` WHERE id = $1`, first.ID)
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":2,"set":%q}`, set))
		if parked := ticket.Status == call.Parked; parked != counts {
			t.Errorf("%s: the next call is %s", set, ticket.Status)
		}
		if ticket.Status == call.Executing {
			w.waitForEnd(ticket.ID)
			w.db.Exec(`UPDATE calls SET claimed_at = holdpoint_now() - interval '2 hours' WHERE id = $1`, ticket.ID)
		}
	}
}

// TestUnknownCallCounts: a call whose process died counts, whatever happened to it.
func TestUnknownCallCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(limitOf5000)
	silent, release := uuid.New(), make(chan struct{})
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		<-release
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	t.Cleanup(func() { close(release) })
	ticket := w.submit("files__write", `{"n":4000}`)
	if ticket.Status != call.Executing {
		t.Fatalf("the first call is %s", ticket.Status)
	}
	w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES ($1, holdpoint_now() - interval '20 seconds')`, silent)
	w.db.Exec(`UPDATE calls SET claimed_by = $2 WHERE id = $1`, ticket.ID, silent)
	w.waitForStatus(ticket.ID, call.Unknown)
	if next := w.submit("files__write", `{"n":2000}`); next.Status != call.Parked {
		t.Errorf("after an unknown call of 4,000, one of 2,000 is %s", next.Status)
	}
	_, err := w.calls.Resolve(t.Context(), ticket.ID, call.Resolution{Outcome: call.ResolvedFailed, Note: "not in the ledger", By: w.reviewer})
	check(t, err)
	if next := w.submit("files__write", `{"n":3000}`); next.Status != call.Executing {
		t.Errorf("after an operator found that it failed, a call of 3,000 is %s", next.Status)
	}
}

// TestRecalledCallCounts: a call that becomes unknown without a claim in the database counts from then on.
func TestRecalledCallCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(limitOf5000)
	id := w.submit("files__write", `{"n":6000}`).ID
	w.approveWithUndo(id)
	restored := w.startOn(w.db.DB, true)
	if c := w.waitForEnd(id); c.Status != call.Unknown {
		t.Fatalf("the approved call of a restored database is %s", c.Status)
	}
	ticket, err := restored.Submit(t.Context(), w.newSubmission("files__write", `{"n":1}`))
	check(t, err)
	if ticket.Status != call.Parked {
		t.Errorf("the next call is %s", ticket.Status)
	}
}

// TestApprovedCallsCount: calls that are approved count for new ones, but not for one another: those that were claimed before count.
func TestApprovedCallsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []uuid.UUID
	for i := range 4 { // before there is a rule
		ids = append(ids, w.submit("files__write", fmt.Sprintf(`{"n":2000,"i":%d}`, i)).ID)
	}
	w.setRule(rule.Spec{Name: "limit", When: `spent("n", "1h") + args.n > 5000.0`, Effect: rule.Deny})
	w.setRule(rule.Spec{Name: "small", When: `spent("n", "1h") + args.n <= 1500.0`, Effect: rule.Allow})
	if early := w.submit("files__write", `{"n":1000}`); early.Status != call.Executing {
		t.Fatalf("parked calls count: a call of 1,000 is %s", early.Status)
	}
	w.approveWithUndo(ids[0]) // it is held back
	if next := w.submit("files__write", `{"n":100}`); next.Status != call.Parked {
		t.Errorf("beside an approved call of 2,000, one of 100 is %s", next.Status)
	}
	w.db.Exec(`UPDATE approvals SET undo_until = NULL WHERE call_id = $1`, ids[0])
	for _, id := range ids[1:] {
		check(t, w.decide(id, true))
	}
	ends := map[call.Status]int{}
	for _, id := range ids {
		c := w.waitForEnd(id)
		ends[c.Status]++
		if c.Status == call.Denied && c.Code != call.CodeRuleDenied {
			t.Errorf("denied with code %s: %s", c.Code, c.Message)
		}
	}
	if ends[call.Succeeded] != 2 || ends[call.Denied] != 2 {
		t.Errorf("after 1,000, four approved calls of 2,000 with a limit of 5,000 ended as %v, want 2 succeeded and 2 denied", ends)
	}
}

// TestParkedByLimitAtClaim: a rule that counts and parks an approved call at its claim asks people again, once.
func TestParkedByLimitAtClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit("files__write", `{"n":2000}`).ID
	w.setRule(rule.Spec{Name: "limit", When: `spent("n", "1h") + args.n > 5000.0`, Effect: rule.Park})
	w.setRule(rule.Spec{Name: "rest", When: `args.n > 3000.0`, Effect: rule.Allow})
	w.waitForEnd(w.submit("files__write", `{"n":4000}`).ID)
	check(t, w.decide(id, true))
	w.waitForStatus(id, call.Parked)
	again := w.getApproval(id)
	if again.Approval.Rule != approval.RuleParked || len(again.Call.Rules) != 1 || again.Call.Rules[0].Name != "limit" {
		t.Errorf("asked again by %s with %+v", again.Approval.Rule, again.Call.Rules)
	}
	check(t, w.decide(id, true))
	if c := w.waitForEnd(id); c.Status != call.Succeeded {
		t.Errorf("approved again, the call is %s, %s", c.Status, c.Message)
	}
}

// TestLimitWithPolicy: a call that a limit parks has to meet the policy of the rule.
func TestLimitWithPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setPolicy(nil)
	w.setRule(rule.Spec{Name: "all", Effect: rule.Allow})
	w.setRule(rule.Spec{Name: "limit", When: `spent("n", "1h") + args.n > 5000.0`, Effect: rule.Park, Policy: "bank"})
	w.waitForEnd(w.submit("files__write", `{"n":4000}`).ID)
	waiting := w.getApproval(w.submit("files__write", `{"n":2000}`).ID)
	if a := waiting.Approval; a.Rule != approval.RuleParked || len(a.Policies) != 1 || a.Policies[0].Name != "bank" {
		t.Errorf("parked by %s with policies %+v, want bank", a.Rule, a.Policies)
	}
}

// TestGroups: calls count for the rule, and with a group only those of the same agent, principal or tool.
func TestGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyTwoSkills(nil, agent.AgentSpec{Name: "billing"}, agent.AgentSpec{Name: "support"})
	ada, bob := uuid.New(), uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'test', 'ada', 'Ada'), ($2, 'test', 'bob', 'Bob')`, ada, bob)
	submit := func(by string, principal uuid.UUID, name, arguments string) call.Ticket {
		t.Helper()
		w.agent = w.registry.Agent(by)
		sub := w.newSubmission(name, arguments)
		sub.PrincipalID = principal
		ticket, err := w.calls.Submit(t.Context(), sub)
		check(t, err)
		return ticket
	}
	w.setRule(rule.Spec{Name: "first", When: `args.n == 0.0`, Effect: rule.Allow})
	w.waitForEnd(submit("billing", ada, "files__write", `{"n":0}`).ID)
	for group, want := range map[string]string{
		``:              "parked parked parked parked",
		`, "agent"`:     "parked parked executing executing",
		`, "principal"`: "parked executing parked parked",
		`, "tool"`:      "parked parked parked parked",
	} {
		w.setRule(rule.Spec{Name: "one", When: `calls("1h"` + group + `) < 1`, Effect: rule.Allow})
		var got []string
		for i, of := range []struct {
			by        string
			principal uuid.UUID
		}{{"billing", ada}, {"billing", bob}, {"support", ada}, {"support", uuid.Nil}} {
			w.db.Exec(`DELETE FROM calls WHERE rules @> '[{"name":"one"}]' AND status = 'succeeded'`)
			ticket := submit(of.by, of.principal, "files__write", fmt.Sprintf(`{"n":1,"group":%q,"i":%d}`, group, i))
			got = append(got, string(ticket.Status))
			if ticket.Status == call.Executing {
				w.waitForEnd(ticket.ID)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("calls%s: %s, want %s", group, got, want)
		}
	}
	w.setRule(rule.Spec{Name: "one", When: `calls("1h", "principal") < 1`, Effect: rule.Allow})
	waiting := w.getApproval(submit("billing", uuid.Nil, "files__write", `{"n":7}`).ID)
	if waiting.Approval.Rule != approval.RuleFailed || waiting.Call.Rules[0].Failure != rule.NoPrincipal {
		t.Errorf("without a principal, parked by %s with %+v", waiting.Approval.Rule, waiting.Call.Rules)
	}
}

// TestScopeOfMemory: the calls of all tools and agents that the rule is about count, and no others.
func TestScopeOfMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set := func(spec rule.Spec) {
		t.Helper()
		spec.Name, spec.When, spec.Effect = "limit", `calls("1h") >= 1`, rule.Deny
		_, err := w.agents.SetRule(t.Context(), audit.System(), spec, nil)
		check(t, err)
	}
	w.waitForEnd(w.submit("open__echo", `{"n":0}`).ID)
	for i, tc := range []struct {
		spec rule.Spec
		name string
		want call.Status
	}{
		{rule.Spec{}, "files__write", call.Denied},
		{rule.Spec{Tools: []string{"write"}}, "files__write", call.Parked},
		{rule.Spec{Tools: []string{"write", "ec%o", "e_ho"}}, "files__write", call.Parked},
		{rule.Spec{Tools: []string{"write", "ec*"}}, "files__write", call.Denied},
		{rule.Spec{Skills: []string{"files"}}, "files__write", call.Parked},
		{rule.Spec{Skills: []string{"files", "op*"}}, "files__write", call.Denied},
		{rule.Spec{Agents: []string{"billing"}}, "files__write", call.Denied},
	} {
		set(tc.spec)
		if ticket := w.submit(tc.name, fmt.Sprintf(`{"n":%d}`, i)); ticket.Status != tc.want {
			t.Errorf("%+v: %s, want %s", tc.spec, ticket.Status, tc.want)
		}
	}
}

// TestAfter: a rule knows which tools the conversation used before.
func TestAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "all", Effect: rule.Allow})
	w.setRule(rule.Spec{Name: "tainted", When: `after("open/echo")`, Effect: rule.Park})
	in := func(conversation uuid.UUID, name, arguments string) call.Ticket {
		t.Helper()
		sub := w.newSubmission(name, arguments)
		sub.ConversationID = conversation
		ticket, err := w.calls.Submit(t.Context(), sub)
		check(t, err)
		return ticket
	}
	reading, other := w.newSubmission("files__write", `{"n":1}`).ConversationID, w.newSubmission("files__write", `{"n":1}`).ConversationID
	before := in(reading, "files__write", `{"n":1}`)
	w.waitForEnd(before.ID)
	w.waitForEnd(in(reading, "open__echo", `{}`).ID)
	for i, tc := range []struct {
		conversation uuid.UUID
		want         call.Status
		why          approval.Rule
	}{{reading, call.Parked, approval.RuleParked}, {other, call.Executing, ""}, {uuid.Nil, call.Parked, approval.RuleFailed}} {
		ticket := in(tc.conversation, "files__write", fmt.Sprintf(`{"n":2,"i":%d}`, i))
		if ticket.Status != tc.want {
			t.Errorf("%d: the call is %s, want %s", i, ticket.Status, tc.want)
		} else if tc.why != "" && w.getApproval(ticket.ID).Approval.Rule != tc.why {
			t.Errorf("%d: parked by %s, want %s", i, w.getApproval(ticket.ID).Approval.Rule, tc.why)
		}
	}
}

// TestDeletedCallsFailRules: a sum over calls whose arguments were deleted by age is unknown.
func TestDeletedCallsFailRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(limitOf5000)
	first := w.submit("files__write", `{"n":1}`)
	w.waitForEnd(first.ID)
	w.db.Exec(`UPDATE calls SET content_deleted_at = holdpoint_now(), arguments = '{}' WHERE id = $1`, first.ID)
	waiting := w.getApproval(w.submit("files__write", `{"n":2}`).ID)
	if waiting.Approval.Rule != approval.RuleFailed || !strings.Contains(waiting.Call.Rules[0].Failure, "deleted by age") {
		t.Errorf("parked by %s with %+v", waiting.Approval.Rule, waiting.Call.Rules)
	}
}

// TestOnlyRulesThatCountWait: a call whose verdict does not depend on earlier calls takes no lock.
func TestOnlyRulesThatCountWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "limit", When: `args.n > 100.0 && spent("n", "1h") + args.n > 5000.0`, Effect: rule.Deny})
	w.setRule(rule.Spec{Name: "all", Effect: rule.Allow})
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(hashtextextended('holdpoint_memory/limit//', 0))`); err != nil {
			return err
		}
		if c := w.waitForEnd(w.submit("files__write", `{"n":100}`).ID); c.Status != call.Succeeded {
			t.Errorf("the small call is %s", c.Status)
		}
		sub, large := w.newSubmission("files__write", `{"n":101}`), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			_, err := w.calls.Submit(ctx, sub)
			large <- err
		}()
		w.waitForLock()
		select {
		case err := <-large:
			t.Errorf("the large call did not wait: %v", err)
		default:
		}
		t.Cleanup(func() { check(t, <-large) })
		return nil
	}))
}

// waitForLock waits until a transaction waits for an advisory lock.
func (w *world) waitForLock() {
	w.t.Helper()
	eventually.Holds(w.t, "a transaction to wait for a lock", func() bool {
		return w.db.Count(`pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	})
}

// TestResumedCallsCount: a call that waited for a connection is judged when it resumes.
func TestResumedCallsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(limitOf5000)
	w.source.Require(notConnected)
	var ids []uuid.UUID
	for i := range 4 {
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":2000,"i":%d}`, i))
		if ticket.Status != call.NeedsConnection {
			t.Fatalf("the call is %s", ticket.Status)
		}
		ids = append(ids, ticket.ID)
	}
	w.connectSkill("files")
	counts := map[call.Status]int{}
	for _, id := range ids {
		eventually.Holds(t, "a call resumes", func() bool {
			c, err := w.calls.Get(t.Context(), call.Viewer{}, id)
			check(t, err)
			return c.Status == call.Succeeded || c.Status == call.Parked
		})
		c, err := w.calls.Get(t.Context(), call.Viewer{}, id)
		check(t, err)
		counts[c.Status]++
		if c.Gated != (c.Status == call.Parked) {
			t.Errorf("a call that is %s is gated: %t", c.Status, c.Gated)
		}
	}
	if counts[call.Succeeded] != 2 || counts[call.Parked] != 2 {
		t.Errorf("of four calls of 2,000 with a limit of 5,000, %v", counts)
	}
}

// TestReplayCounts: a replay computes what a rule counts from the calls before each call.
func TestReplayCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "all", Effect: rule.Allow})
	for i := range 5 {
		w.waitForEnd(w.submit("files__write", fmt.Sprintf(`{"n":2000,"i":%d}`, i)).ID)
	}
	limit := rule.Spec{Name: "limit", Tools: []string{"write"}, When: `spent("n", "1h") + args.n > 5000.0`, Effect: rule.Park}
	found, err := w.calls.ReplayRule(t.Context(), limit)
	check(t, err)
	if found.Judged != 5 || found.Matched != 3 || found.Failed != 0 || found.Differing != 3 || !found.Complete {
		t.Errorf("replay of a limit: %+v", found)
	}
	conversation := w.newSubmission("files__write", `{"n":1}`).ConversationID
	for _, name := range []string{"files__write", "open__echo", "files__write"} {
		sub := w.newSubmission(name, fmt.Sprintf(`{"n":%d}`, len(w.source.Arguments())))
		sub.ConversationID = conversation
		ticket, err := w.calls.Submit(t.Context(), sub)
		check(t, err)
		w.waitForEnd(ticket.ID)
	}
	found, err = w.calls.ReplayRule(t.Context(), rule.Spec{Name: "tainted", Tools: []string{"write"}, When: `after("echo")`, Effect: rule.Park})
	check(t, err)
	if found.Judged != 7 || found.Matched != 1 || found.Failed != 0 {
		t.Errorf("replay of after: %+v", found)
	}
}

// TestRepeatWithinLimit: a repeat with the same idempotency key attaches to the earlier call, also when the limit is reached.
func TestRepeatWithinLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(limitOf5000)
	sub := w.newSubmission("files__write", `{"n":3000}`)
	sub.IdempotencyKey = "once"
	first, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	again, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	if first.Status != call.Executing || !again.Attached || again.ID != first.ID {
		t.Errorf("first %+v, then %+v", first, again)
	}
	w.waitForEnd(first.ID)
	if n := len(w.source.Arguments()); n != 1 {
		t.Errorf("%d calls were sent", n)
	}
}

// BenchmarkMemory measures a call that a rule judges by 10,000 calls in its window.
func BenchmarkMemory(b *testing.B) {
	for _, when := range []string{``, `calls("31d") > 1000000`, `spent("n", "31d") < -1.0`, `distinct("n", "31d") > 1000000`} {
		b.Run(when, func(b *testing.B) {
			w := newWorld(b)
			if when != "" {
				w.setRule(rule.Spec{Name: "limit", When: when, Effect: rule.Deny})
			}
			w.setRule(rule.Spec{Name: "all", Effect: rule.Allow})
			first := w.submit("files__write", `{"n":1}`)
			w.waitForEnd(first.ID)
			w.db.Exec(`INSERT INTO calls (id, agent_id, conversation_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments, claimed_at, finished_at)
				SELECT gen_random_uuid(), agent_id, conversation_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin,
					convert_to(json_build_object('n', i, 'currency', 'EUR', 'iban', 'DE89370400440532013000', 'text', repeat('x', 100))::text, 'UTF8'), claimed_at, finished_at
				FROM calls, generate_series(1, 10000) AS i WHERE id = $1`, first.ID)
			w.db.Exec(`ANALYZE calls`)
			i := 0
			for b.Loop() {
				i++
				ticket, err := w.calls.Submit(b.Context(), w.newSubmission("files__write", fmt.Sprintf(`{"n":%d}`, i)))
				check(b, err)
				if ticket.Status != call.Executing {
					b.Fatalf("the call is %s", ticket.Status)
				}
			}
		})
	}
}
