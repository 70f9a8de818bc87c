package call_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// setRule stores a rule about the gated tool write.
func (w *world) setRule(spec rule.Spec) {
	w.t.Helper()
	if spec.Tools == nil {
		spec.Tools = []string{"write"}
	}
	_, err := w.agents.SetRule(w.t.Context(), audit.Person(w.reviewer), spec, nil)
	check(w.t, err)
}

// TestRulesJudgeCalls: the verdict on a call is that of settings and rules together, and the call keeps the rules that matched.
func TestRulesJudgeCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "small", When: `args.n <= 100.0`, Effect: rule.Allow})
	w.setRule(rule.Spec{Name: "round", When: `args.n == 50.0`, Effect: rule.Park})
	w.setRule(rule.Spec{Name: "never", When: `args.n > 1000.0`, Effect: rule.Deny, Message: "Ask the CFO in person."})
	w.setRule(rule.Spec{Name: "maybe", When: `args.n == 20.0`, Effect: rule.Deny, Mode: rule.Shadow})
	w.setRule(rule.Spec{Name: "unused", Effect: rule.Deny, Mode: rule.Off})
	w.setRule(rule.Spec{Name: "other", Effect: rule.Deny, Tools: []string{"writ"}})
	for _, tc := range []struct {
		arguments string
		status    call.Status
		why       approval.Rule // of parked calls
		rules     string
	}{
		{`{"n":10}`, call.Executing, "", "small"},
		{`{"n":20}`, call.Executing, "", "maybe small"},
		{`{"n":50}`, call.Parked, approval.RuleParked, "round small"},
		{`{"n":500}`, call.Parked, approval.RuleGated, ""},
		{`{"n":5000}`, call.Denied, "", "never"},
	} {
		ticket := w.submit("files__write", tc.arguments)
		if ticket.Status != tc.status {
			t.Errorf("%s: the call is %s, want %s", tc.arguments, ticket.Status, tc.status)
		}
		c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		var names []string
		for _, applied := range c.Rules {
			names = append(names, applied.Name)
			if applied.Revision == 0 || applied.Failure != "" {
				t.Errorf("%s: the call keeps %+v", tc.arguments, applied)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tc.rules {
			t.Errorf("%s: the call keeps the rules %q, want %q", tc.arguments, got, tc.rules)
		}
		switch tc.status {
		case call.Parked:
			if a := w.getApproval(ticket.ID).Approval; a.Rule != tc.why {
				t.Errorf("%s: parked by %s, want %s", tc.arguments, a.Rule, tc.why)
			}
		case call.Denied:
			if c.Code != call.CodeRuleDenied || c.Message != "Ask the CFO in person." {
				t.Errorf("%s: denied with code %s and %q", tc.arguments, c.Code, c.Message)
			}
		default:
			w.waitForEnd(ticket.ID)
		}
	}
}

// TestFailedRuleParks: a condition that cannot be evaluated parks the call, also in an auto-approved skill, whatever the rule's effect.
func TestFailedRuleParks(t *testing.T) {
	t.Parallel()
	for _, effect := range rule.Effects() {
		w := newWorld(t)
		w.setRule(rule.Spec{Name: "limit", Tools: []string{"echo"}, When: `args.amount < 10`, Effect: effect})
		ticket := w.submit("open__echo", `{}`)
		if ticket.Status != call.Parked {
			t.Fatalf("%s: without the argument the call is %s", effect, ticket.Status)
		}
		waiting := w.getApproval(ticket.ID)
		if waiting.Approval.Rule != approval.RuleFailed || len(waiting.Call.Rules) != 1 || !strings.Contains(waiting.Call.Rules[0].Failure, "amount") {
			t.Errorf("%s: parked by %s with %+v", effect, waiting.Approval.Rule, waiting.Call.Rules)
		}
	}
}

// TestRulesRunAgain: before an approved call is sent, a new rule that denies ends it, and a new rule that parks asks people again.
func TestRulesRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	park := func(arguments string) uuid.UUID {
		t.Helper()
		ticket := w.submit("files__write", arguments)
		if ticket.Status != call.Parked {
			t.Fatalf("the call is %s", ticket.Status)
		}
		return ticket.ID
	}
	denied, parked, same := park(`{"n":1}`), park(`{"n":2}`), park(`{"n":3}`)
	w.setRule(rule.Spec{Name: "no-ones", When: `args.n == 1.0`, Effect: rule.Deny})
	w.setRule(rule.Spec{Name: "ask-twos", When: `args.n == 2.0`, Effect: rule.Park})
	w.setRule(rule.Spec{Name: "allow-threes", When: `args.n == 3.0`, Effect: rule.Allow})
	for _, id := range []uuid.UUID{denied, parked, same} {
		check(t, w.decide(id, true))
	}
	if c := w.waitForEnd(denied); c.Status != call.Denied || c.Code != call.CodeRuleDenied {
		t.Errorf("the call that a rule denies now is %s, %s", c.Status, c.Code)
	}
	if c := w.waitForEnd(same); c.Status != call.Succeeded {
		t.Errorf("the call that no rule parks is %s, %s", c.Status, c.Message)
	}
	w.waitForStatus(parked, call.Parked)
	again := w.getApproval(parked)
	if again.Approval.Status != approval.Pending || again.Approval.Rule != approval.RuleParked || again.Approval.DecidedBy != uuid.Nil {
		t.Errorf("asked again, the approval is %s by %s, decided by %s", again.Approval.Status, again.Approval.Rule, again.Approval.DecidedBy)
	}
	if left := again.Approval.Deadline.Sub(again.Approval.CreatedAt) - again.Approval.Extended; left.Round(time.Second) != time.Minute {
		t.Errorf("the new decision has %s", left)
	}
	check(t, w.decide(parked, true))
	if c := w.waitForEnd(parked); c.Status != call.Succeeded {
		t.Errorf("approved again, the call is %s, %s", c.Status, c.Message)
	}
	if got, want := w.db.Actions(parked), "call.parked approval.approved approval.asked_again approval.approved call.executing call.succeeded"; got != want {
		t.Errorf("audit log: %s, want %s", got, want)
	}
	for _, arguments := range []string{`{"n":2}`, `{"n":3}`} {
		if n := len(slices.DeleteFunc(w.source.Arguments(), func(sent string) bool { return sent != arguments })); n != 1 {
			t.Errorf("%s was sent %d times", arguments, n)
		}
	}
}

// TestAskAgainIsTooLate: a call that was cancelled or claimed while another process compared it keeps its approval.
func TestAskAgainIsTooLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for status, end := range map[call.Status]func(id uuid.UUID){
		call.Cancelled: func(id uuid.UUID) {
			_, err := w.calls.Cancel(t.Context(), call.Viewer{}, uuid.Nil, id)
			check(t, err)
		},
		call.Succeeded: func(id uuid.UUID) {
			w.db.Exec(`UPDATE approvals SET undo_until = NULL WHERE call_id = $1`, id)
			w.waitForEnd(id)
		},
	} {
		id := w.submit("files__write", fmt.Sprintf(`{"n":1,"end":%q}`, status)).ID
		w.approveWithUndo(id)
		compared, err := w.calls.Get(t.Context(), call.Viewer{}, id)
		check(t, err)
		decided := w.getApproval(id).Approval
		end(id)
		check(t, w.calls.AskAgain(t.Context(), &compared, &decided, rule.Applied{Name: "new", Revision: 1, Effect: rule.Park, Mode: rule.Enforce}))
		after := w.getApproval(id)
		if after.Call.Status != status || after.Approval.Status != approval.Approved || len(after.Call.Rules) != 0 {
			t.Errorf("the call is %s with approval %s and rules %+v, want %s and approved", after.Call.Status, after.Approval.Status, after.Call.Rules, status)
		}
	}
}

// TestEditIsAskedAgain: a proposed edit that a rule parks again has the digest that it had when it was proposed, and its editor still may not approve it.
func TestEditIsAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.secondReviewers(agent.EditsSecond, nil)
	editor, other := w.reviewer, uuid.New()
	id := w.submit("files__write", `{"n":1}`).ID
	proposed, err := w.decideAs(editor, id, `{"n":2}`)
	check(t, err)
	w.setRule(rule.Spec{Name: "ask-twos", When: `args.n == 2.0`, Effect: rule.Park})
	_, err = w.decideAs(other, id, "")
	check(t, err)
	w.waitForStatus(id, call.Parked)
	if again := w.getApproval(id).Approval; again.Digest != proposed.Approval.Digest || again.EditedBy != editor {
		t.Errorf("asked again about %s of %s, want %s of %s", again.Digest, again.EditedBy, proposed.Approval.Digest, editor)
	}
	if _, err := w.decideAs(editor, id, ""); !errors.Is(err, approval.ErrOwnEdit) {
		t.Errorf("the editor approves: %v, want ErrOwnEdit", err)
	}
	_, err = w.decideAs(other, id, "")
	check(t, err)
	if c := w.waitForEnd(id); c.Status != call.Succeeded || string(c.Arguments) != `{"n":2}` {
		t.Errorf("approved again, the call is %s, %s", c.Status, c.Message)
	}
}

// TestRuleConditionIsTyped: a rule whose condition does not fit a tool that it is about is refused, with the field and the tool.
func TestRuleConditionIsTyped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.submit("files__write", `{"n":1}`) // the tools are listed
	for when, says := range map[string]string{
		`args.m < 1.0`: "tool write of skill files",
		`args.n < 1`:   "1.0",
		`args.n <`:     "1:",

		`spent("m", "1h") < 1.0`: "1:7: args has no field m",
		`spent("n", "1h") < 1`:   "1:18: cannot compare a number with an integer: write 1.0",
		`calls("1 hour") < 1`:    "1:7: the window must be",
	} {
		_, err := w.agents.SetRule(t.Context(), audit.System(), rule.Spec{Name: "r", Tools: []string{"write"}, When: when, Effect: rule.Allow}, nil)
		invalid, ok := errors.AsType[*fault.InvalidError](err)
		if !ok || invalid.Fields[0].Name != "when" || !strings.Contains(fmt.Sprint(invalid.Fields), says) {
			t.Errorf("%s: %v, want field when with %q", when, err, says)
		}
	}
	rules, err := w.agents.ListRules(t.Context())
	check(t, err)
	if len(rules) != 0 {
		t.Errorf("stored: %+v", rules)
	}
}

// TestRuleVersions: each change of a rule is a version, and a change with an old revision is refused.
func TestRuleVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	by := audit.Person(w.reviewer)
	spec := rule.Spec{Name: "small", Skills: []string{"*"}, Effect: rule.Allow}
	first, err := w.agents.SetRule(t.Context(), by, spec, new(int64(0)))
	check(t, err)
	spec.Effect = rule.Park
	second, err := w.agents.SetRule(t.Context(), by, spec, &first.Revision)
	check(t, err)
	if _, err := w.agents.SetRule(t.Context(), by, spec, &first.Revision); !errors.Is(err, agent.ErrChanged) {
		t.Errorf("a change of an old revision: %v", err)
	}
	unchanged, err := w.agents.SetRule(t.Context(), by, spec, nil)
	check(t, err)
	if second.Revision <= first.Revision || unchanged.Revision != second.Revision {
		t.Errorf("revisions %d, %d, %d", first.Revision, second.Revision, unchanged.Revision)
	}
	check(t, w.agents.DeleteRule(t.Context(), by, "small"))
	if err := w.agents.DeleteRule(t.Context(), by, "small"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("deleted again: %v", err)
	}
	history, err := w.agents.RuleHistory(t.Context(), "small")
	check(t, err)
	if len(history) != 3 || history[0].Spec != nil || history[1].Spec.Effect != rule.Park || history[2].Spec.Effect != rule.Allow || history[2].ChangedBy != w.reviewer {
		t.Errorf("history: %+v", history)
	}
	eventually.Holds(t, "the rule to be gone", func() bool {
		book, err := w.agents.Rules(t.Context())
		return err == nil && len(book.Rules) == 0
	})
}

// TestReplay: a candidate is judged on recorded calls. Calls that a reviewer rejected and that would pass come first.
func TestReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.setRule(rule.Spec{Name: "tiny", When: `args.n < 5.0`, Effect: rule.Allow})
	var rejected uuid.UUID
	for _, n := range []int{1, 10, 20, 30, 500} {
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n))
		if n >= 5 {
			check(t, w.decide(ticket.ID, n != 20))
		}
		if n == 20 {
			rejected = ticket.ID
		}
		w.waitForEnd(ticket.ID)
	}
	w.waitForEnd(w.submit("open__echo", `{}`).ID) // out of scope
	candidate := rule.Spec{Name: "small", Tools: []string{"write"}, When: `args.n <= 100.0`, Effect: rule.Allow, Mode: rule.Off}
	found, err := w.calls.ReplayRule(t.Context(), candidate)
	check(t, err)
	if found.Judged != 5 || found.Matched != 4 || found.Failed != 0 || found.Differing != 3 || found.Rejected != 1 || !found.Complete {
		t.Errorf("replay: %+v", found)
	}
	first := found.Differences[0]
	if first.CallID != rejected || first.Before != approval.Park || first.After != approval.Allow || first.Decision != approval.Rejected || first.Skill != "files" {
		t.Errorf("first difference: %+v", first)
	}
	candidate = rule.Spec{Name: "tiny", Tools: []string{"write"}, When: `args.n < 5.0`, Effect: rule.Deny}
	found, err = w.calls.ReplayRule(t.Context(), candidate) // replaces the rule that allowed the call
	check(t, err)
	if found.Differing != 1 || found.Differences[0].Before != approval.Allow || found.Differences[0].After != approval.Deny {
		t.Errorf("replay of a rule that is in force: %+v", found)
	}
}

// TestShadow: the record of a rule in shadow mode counts what it would have done beside what people decided, by its present condition.
func TestShadow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	read := func() *call.ShadowRecord {
		t.Helper()
		versions, err := w.agents.RuleHistory(t.Context(), "small")
		check(t, err)
		record, err := w.calls.ReadShadow(t.Context(), versions)
		check(t, err)
		return record
	}
	end := func(n int, approve bool) uuid.UUID {
		t.Helper()
		id := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n)).ID
		check(t, w.decide(id, approve))
		w.waitForEnd(id)
		return id
	}
	w.setRule(rule.Spec{Name: "small", When: `args.n < 5.0`, Effect: rule.Allow, Mode: rule.Shadow})
	end(1, false) // judged by another condition
	w.setRule(rule.Spec{Name: "small", When: `args.n < 100.0`, Effect: rule.Allow, Mode: rule.Shadow})
	if record := read(); record.Matched != 0 || !record.Complete {
		t.Errorf("with a new condition: %+v", record)
	}
	end(10, true)
	rejected := end(20, false)
	w.submit("files__write", `{"n":30}`)
	end(500, true) // does not match
	w.setRule(rule.Spec{Name: "asks", When: `args.n == 40.0`, Effect: rule.Park})
	end(40, false) // would wait for another rule
	w.setRule(rule.Spec{Name: "small", When: `args.n < 100.0`, Effect: rule.Allow, Mode: rule.Enforce})
	if record := read(); record != nil {
		t.Errorf("of a rule that is enforced: %+v", record)
	}
	w.setRule(rule.Spec{Name: "small", When: `args.n < 100.0`, Effect: rule.Allow, Mode: rule.Shadow})
	record := read()
	if record.Matched != 4 || record.Failed != 0 || !record.Complete {
		t.Errorf("record: %+v", record)
	}
	allowed, parked := record.Outcomes[0], record.Outcomes[1]
	if allowed != (call.ShadowOutcome{Action: approval.Allow, Calls: 3, Approved: 1, Rejected: 1, Waiting: 1}) {
		t.Errorf("would be allowed: %+v", allowed)
	}
	if parked != (call.ShadowOutcome{Action: approval.Park, Calls: 1, Rejected: 1}) {
		t.Errorf("would be parked: %+v", parked)
	}
	if len(record.Rejected) != 1 || record.Rejected[0].ID != rejected || record.Rejected[0].Skill != "files" || record.Rejected[0].Tool != "write" {
		t.Errorf("rejected: %+v", record.Rejected)
	}
}
