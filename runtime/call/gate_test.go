package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// gateWorld is a world whose agent has a skill of a coding agent, which executes the calls itself.
type gateWorld struct{ *world }

func newGateWorld(t testing.TB, change func(*agent.SkillSpec)) *gateWorld {
	t.Helper()
	w := newWorld(t)
	skill := agent.SkillSpec{Name: "laptop", Transport: tool.Gate, Host: "claude-code"}
	if change != nil {
		change(&skill)
	}
	w.registry.Apply(agent.Spec{Skills: []agent.SkillSpec{skill}, Agents: []agent.AgentSpec{{Name: "coder", Skills: &[]agent.AssignmentSpec{{Skill: "laptop"}}}}})
	w.agent = w.registry.Agent("coder")
	return &gateWorld{w}
}

// ended returns a context that has ended: a caller that does not wait.
func (w *gateWorld) ended() context.Context {
	ctx, cancel := context.WithCancel(w.t.Context())
	cancel()
	return ctx
}

// patient returns a context in which a caller waits for as long as a test may.
func (w *gateWorld) patient() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *gateWorld) newAsk(toolName, arguments, name string) call.Submission {
	w.t.Helper()
	entry, err := w.catalog.FindGated(w.t.Context(), w.agent.ID, "laptop", toolName)
	check(w.t, err)
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	return call.Submission{Agent: w.agent, Entry: entry, Arguments: clean, Gate: &call.GateRequest{
		Name: name, GateBinding: call.GateBinding{Directory: "/work"}, GateOrigin: call.GateOrigin{Session: "s1", Subagent: "tester", Version: "2.1"},
	}}
}

// ask asks about a call, without waiting.
func (w *gateWorld) ask(toolName, arguments, name string) call.Passage {
	w.t.Helper()
	p, err := w.calls.Gate(w.t.Context(), w.ended(), w.newAsk(toolName, arguments, name))
	check(w.t, err)
	return p
}

// again asks again about a call, without waiting.
func (w *gateWorld) again(id uuid.UUID, name string) call.Passage {
	w.t.Helper()
	p, err := w.calls.AwaitPassage(w.t.Context(), w.ended(), w.viewer(), id, name)
	check(w.t, err)
	return p
}

func (w *gateWorld) viewer() call.Viewer { return call.Viewer{AgentID: w.agent.ID} }

func (w *gateWorld) get(id uuid.UUID) call.Call {
	w.t.Helper()
	c, err := w.calls.Get(w.t.Context(), call.Viewer{}, id)
	check(w.t, err)
	return c
}

// want checks an answer: allowed, pending or the code of a denial.
func (w *gateWorld) want(p call.Passage, want string) {
	w.t.Helper()
	got := p.Code
	switch {
	case p.Allowed && p.Pending:
		got = "allowed and pending"
	case p.Allowed:
		got = "allowed"
	case p.Pending:
		got = "pending"
	}
	if got != want {
		w.t.Fatalf("the answer is %s, want %s: %+v", got, want, p)
	}
}

const echoHi = `{"command":"echo hi > file"}`

// TestGateBinding: an approval counts for the paths and the file that the caller claims. Another claim is another call.
func TestGateBinding(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	text := "old"
	ask := w.newAsk("Edit", `{"file_path":"/work/a","old_string":"o","new_string":"n"}`, "")
	ask.Gate.Paths = []string{"/work/a"}
	ask.Gate.File = &call.GateFile{Path: "/work/a", Exists: true, Size: 3, Text: &text}
	submit := func() uuid.UUID {
		p, err := w.calls.Gate(t.Context(), w.ended(), ask)
		check(t, err)
		w.want(p, "pending")
		return p.ID
	}
	first := submit()
	if again := submit(); again != first {
		t.Errorf("the repeat is call %s, not %s", again, first)
	}
	c := w.get(first)
	if b := c.Binding(); b.Directory != "/work" || !slices.Equal(b.Paths, ask.Gate.Paths) || b.File == nil || *b.File.Text != "old" {
		t.Errorf("stored: %+v", b)
	}
	changed := "new"
	ask.Gate.File = &call.GateFile{Path: "/work/a", Exists: true, Size: 3, Text: &changed}
	second := submit()
	ask.Gate.Paths = []string{"/etc/a"}
	third := submit()
	if first == second || second == third {
		t.Errorf("other claims attached: %s, %s, %s", first, second, third)
	}
}

// TestGateReleasesOnce: an approved call passes once, to one request, which gets the same answer again until it reports the outcome.
func TestGateReleasesOnce(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	first := w.ask("Bash", echoHi, "toolu_1")
	w.want(first, "pending")
	if first.Deadline.IsZero() || !strings.Contains(first.Message, "make the same call again") {
		t.Errorf("pending: %+v", first)
	}
	second := w.ask("Bash", `{ "command" : "echo hi > file" }`, "toolu_2")
	if second.ID != first.ID {
		t.Fatalf("the repeat is call %s, not %s", second.ID, first.ID)
	}
	c := w.get(first.ID)
	if !c.GateOnly || c.Host != "claude-code" || c.Binding().Directory != "/work" || c.GateOrigin().Session != "s1" || !c.Gated || c.Status != call.Parked {
		t.Errorf("the call: %+v", c)
	}
	check(t, w.decide(first.ID, true))
	if n := w.db.Count(`river_job WHERE kind = 'call_execute'`); n != 0 {
		t.Errorf("%d jobs would send the call", n)
	}
	released := w.again(first.ID, "toolu_2")
	w.want(released, "allowed")
	if left := time.Until(released.ReleasedUntil); left > agent.DefaultReleaseTime || left < agent.DefaultReleaseTime-patience {
		t.Errorf("released until %s", released.ReleasedUntil)
	}
	same := w.again(first.ID, "toolu_2")
	w.want(same, "allowed")
	if !same.ReleasedUntil.Equal(released.ReleasedUntil) {
		t.Errorf("the answer changed from %s to %s", released.ReleasedUntil, same.ReleasedUntil)
	}
	w.want(w.ask("Bash", echoHi, "toolu_2"), "allowed")
	w.want(w.again(first.ID, "toolu_1"), "released_elsewhere")
	w.want(w.again(first.ID, ""), "released_elsewhere")

	report := call.Report{Outcome: call.ReportedSucceeded, Text: "done"}
	if err := w.calls.ReportOutcome(t.Context(), w.viewer(), first.ID, "toolu_1", report); !errors.Is(err, call.ErrNotReleased) {
		t.Errorf("another request reported the outcome: %v", err)
	}
	check(t, w.calls.ReportOutcome(t.Context(), w.viewer(), first.ID, "toolu_2", report))
	check(t, w.calls.ReportOutcome(t.Context(), w.viewer(), first.ID, "toolu_2", call.Report{Outcome: call.ReportedFailed}))
	if c = w.get(first.ID); c.Status != call.Succeeded || !strings.Contains(string(c.Result), "done") {
		t.Errorf("after the report the call is %s with %s", c.Status, c.Result)
	}
	w.want(w.again(first.ID, "toolu_2"), "already_reported")
	if got := w.db.Actions(first.ID); got != "call.parked approval.approved call.released call.succeeded" {
		t.Errorf("events: %s", got)
	}
	third := w.ask("Bash", echoHi, "toolu_3")
	if w.want(third, "pending"); third.ID == first.ID {
		t.Error("a new request attached to a released call")
	}
}

// TestGateBindsToBytes: an approval is for the exact arguments and directory.
func TestGateBindsToBytes(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	first := w.ask("Bash", echoHi, "toolu_1")
	check(t, w.decide(first.ID, true))
	_, err := w.calls.Gate(t.Context(), w.ended(), w.newAsk("Bash", `{"command":"rm -rf /"}`, "toolu_1"))
	if !errors.Is(err, call.ErrKeyReused) {
		t.Errorf("the request with another command: %v", err)
	}
	elsewhere := w.newAsk("Bash", echoHi, "toolu_2")
	elsewhere.Gate.Directory = "/etc"
	p, err := w.calls.Gate(t.Context(), w.ended(), elsewhere)
	check(t, err)
	if w.want(p, "pending"); p.ID == first.ID {
		t.Error("the call in another directory attached")
	}
	elsewhere.Gate.Name = "toolu_1"
	if _, err = w.calls.Gate(t.Context(), w.ended(), elsewhere); !errors.Is(err, call.ErrKeyReused) {
		t.Errorf("the request in another directory: %v", err)
	}
	other := w.ask("Bash", `{"command":"echo hi > file "}`, "")
	if w.want(other, "pending"); other.ID == first.ID {
		t.Error("another command attached")
	}
	w.want(w.again(first.ID, "toolu_1"), "allowed")

	edited := w.ask("Bash", `{"command":"ls"}`, "")
	waiting, err := w.calls.GetApproval(t.Context(), edited.ID)
	check(t, err)
	_, err = w.calls.Decide(t.Context(), call.Decision{
		CallID: edited.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer, Arguments: []byte(`{"command":"true"}`),
	})
	if !errors.Is(err, call.ErrEdit) {
		t.Errorf("an edit: %v", err)
	}
}

// TestGateWithoutName: a request without a name gets its own release once; after that the same call is a new one.
func TestGateWithoutName(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	first := w.ask("Edit", `{"file_path":"/work/a","old_string":"a","new_string":"b"}`, "")
	check(t, w.decide(first.ID, true))
	w.want(w.ask("Edit", `{"file_path":"/work/a","old_string":"a","new_string":"b"}`, ""), "allowed")
	w.want(w.again(first.ID, ""), "released_elsewhere")
	check(t, w.calls.ReportOutcome(t.Context(), w.viewer(), first.ID, "", call.Report{Outcome: call.ReportedNotRun}))
	if c := w.get(first.ID); c.Status != call.Failed || c.Code != call.CodeNotRun || c.Effect != tool.EffectNone {
		t.Errorf("the call is %s, %s, %s", c.Status, c.Code, c.Effect)
	}
	second := w.ask("Edit", `{"file_path":"/work/a","old_string":"a","new_string":"b"}`, "")
	if w.want(second, "pending"); second.ID == first.ID {
		t.Error("the repeat attached to a released call")
	}
}

// TestGateManyClaims: of many requests for one approved call, in two processes, exactly one may execute it.
func TestGateManyClaims(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	processes := []*call.Service{w.calls, w.start()}
	const requests = 64
	id := w.ask("Bash", echoHi, "r0").ID
	for i := 1; i < requests; i++ {
		if p := w.ask("Bash", echoHi, fmt.Sprintf("r%d", i)); p.ID != id {
			t.Fatalf("request %d made call %s", i, p.ID)
		}
	}
	check(t, w.decide(id, true))
	patient := w.patient()
	answers := make([]call.Passage, requests)
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			p, err := processes[i%2].AwaitPassage(t.Context(), patient, w.viewer(), id, fmt.Sprintf("r%d", i))
			if err != nil {
				t.Error(err)
			}
			answers[i] = p
		})
	}
	group.Wait()
	allowed := 0
	for i := range answers {
		if answers[i].Allowed {
			allowed++
		} else {
			w.want(answers[i], "released_elsewhere")
		}
	}
	if allowed != 1 {
		t.Errorf("%d of %d requests may execute the call", allowed, requests)
	}
	if n := w.db.Count(`gate_releases`); n != 1 {
		t.Errorf("%d releases", n)
	}
}

// TestGateManyWait: callers that wait for their calls in one process are woken by decisions in another.
func TestGateManyWait(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	other := w.start()
	const callers = 1000
	patientAgent := *w.agent
	patientAgent.Limits.Pending = callers
	w.agent = &patientAgent
	patient := w.patient()
	answers := make([]call.Passage, callers)
	ids := make(chan uuid.UUID, callers)
	var group sync.WaitGroup
	for i := range callers {
		name := fmt.Sprintf("r%d", i)
		ask := w.newAsk("Bash", fmt.Sprintf(`{"command":"echo %d"}`, i), name)
		group.Go(func() {
			p, err := w.calls.Gate(t.Context(), w.ended(), ask)
			ids <- p.ID
			if err != nil {
				t.Error(err)
				return
			}
			if answers[i], err = w.calls.AwaitPassage(t.Context(), patient, w.viewer(), p.ID, name); err != nil {
				t.Error(err)
			}
		})
	}
	for range callers {
		id := <-ids
		waiting, err := other.GetApproval(t.Context(), id)
		check(t, err)
		_, err = other.Decide(t.Context(), call.Decision{CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer})
		check(t, err)
	}
	group.Wait()
	for i := range answers {
		w.want(answers[i], "allowed")
	}
}

// TestGateDenials: a call that is rejected, overdue, denied by a rule, invalid or switched off must not be executed, and the model learns why.
func TestGateDenials(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, func(s *agent.SkillSpec) {
		s.Tools = map[string]agent.ToolSettings{"WebSearch": {Enabled: new(false)}}
	})
	w.setRule(rule.Spec{Name: "no-force", Skills: []string{"laptop"}, Tools: []string{"Bash"}, When: `args.command.contains("--force")`, Effect: rule.Deny, Message: "Never force."})

	rejected := w.ask("Bash", echoHi, "r1")
	check(t, w.decide(rejected.ID, false))
	p := w.again(rejected.ID, "r1")
	if w.want(p, call.CodeRejected); !p.Final || !strings.Contains(p.Message, "because") {
		t.Errorf("rejected: %+v", p)
	}
	w.want(w.ask("Bash", echoHi, "r2"), call.CodeRejected) // a repeat attaches until the end was delivered
	check(t, w.calls.MarkDelivered(t.Context(), rejected.ID))
	w.want(w.ask("Bash", echoHi, "r3"), "pending")
	w.want(w.ask("Bash", echoHi, "r1"), call.CodeRejected)

	p = w.ask("Bash", `{"command":"git push --force"}`, "r4")
	if w.want(p, call.CodeRuleDenied); !strings.Contains(p.Message, "Never force.") {
		t.Errorf("denied: %+v", p)
	}
	w.want(w.ask("Bash", `{"command":"git push --force"}`, "r4"), call.CodeRuleDenied)
	w.want(w.ask("Bash", `{"cmd":"ls"}`, ""), call.CodeInvalidArguments)
	w.want(w.ask("WebSearch", `{"query":"x"}`, ""), call.CodeToolDisabled)

	overdue := w.ask("Bash", `{"command":"sleep 1"}`, "r5")
	w.db.MoveClock("10 minutes")
	w.want(w.patientAgain(overdue.ID, "r5"), call.CodeExpired)
}

// TestGateRechecks: what holds before a call is sent holds before it is released.
func TestGateRechecks(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, func(s *agent.SkillSpec) { s.ApprovalValidity = new(agent.Duration(time.Minute)) })
	lapsed := w.ask("Bash", `{"command":"a"}`, "r1")
	check(t, w.decide(lapsed.ID, true))
	w.db.MoveClock("2 minutes")
	w.want(w.patientAgain(lapsed.ID, "r1"), call.CodeApprovalLapsed)

	denied := w.ask("Bash", `{"command":"b"}`, "r2")
	check(t, w.decide(denied.ID, true))
	w.setRule(rule.Spec{Name: "late", Skills: []string{"laptop"}, Tools: []string{"Bash"}, When: `args.command == "b"`, Effect: rule.Deny})
	w.want(w.patientAgain(denied.ID, "r2"), call.CodeRuleDenied)

	again := w.ask("Bash", `{"command":"c"}`, "r3")
	check(t, w.decide(again.ID, true))
	w.setRule(rule.Spec{Name: "later", Skills: []string{"laptop"}, Tools: []string{"Bash"}, When: `args.command == "c"`, Effect: rule.Park})
	w.want(w.again(again.ID, "r3"), "pending")
	if c := w.get(again.ID); c.Status != call.Parked {
		t.Errorf("the call is %s", c.Status)
	}
	check(t, w.decide(again.ID, true))
	w.want(w.patientAgain(again.ID, "r3"), "allowed")

	changed := w.ask("Bash", `{"command":"d"}`, "r4")
	check(t, w.decide(changed.ID, true))
	found, err := w.agents.SkillByName(t.Context(), "laptop")
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{ReleaseTime: new(agent.Duration(time.Minute))})
	check(t, err)
	w.want(w.patientAgain(changed.ID, "r4"), call.CodeSkillChanged)
}

// patientAgain asks again and waits for the decision.
func (w *gateWorld) patientAgain(id uuid.UUID, name string) call.Passage {
	w.t.Helper()
	p, err := w.calls.AwaitPassage(w.t.Context(), w.patient(), w.viewer(), id, name)
	check(w.t, err)
	return p
}

// TestGateUndo: a call whose approval can still be taken back is not released.
func TestGateUndo(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	p := w.ask("Bash", echoHi, "r1")
	waiting, err := w.calls.GetApproval(t.Context(), p.ID)
	check(t, err)
	_, err = w.calls.Decide(t.Context(), call.Decision{CallID: p.ID, Approve: true, Undo: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer})
	check(t, err)
	w.want(w.again(p.ID, "r1"), "pending")
	_, err = w.calls.Undo(t.Context(), p.ID, w.reviewer)
	check(t, err)
	w.want(w.again(p.ID, "r1"), "pending")
	check(t, w.decide(p.ID, true))
	w.want(w.patientAgain(p.ID, "r1"), "allowed")
}

// TestGateAllows: a call that needs no approval is recorded and released in the same request; so is one that a grant lets pass.
func TestGateAllows(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	w.setRule(rule.Spec{Name: "status", Skills: []string{"laptop"}, Tools: []string{"Bash"}, When: `args.command == "git status"`, Effect: rule.Allow})
	first := w.ask("Bash", `{"command":"git status"}`, "r1")
	w.want(first, "allowed")
	if first.ReleasedUntil.IsZero() {
		t.Error("it does not say until when")
	}
	if again := w.ask("Bash", `{"command":"git status"}`, "r1"); !again.Allowed || again.ID != first.ID || !again.ReleasedUntil.Equal(first.ReleasedUntil) {
		t.Errorf("again: %+v", again)
	}
	if second := w.ask("Bash", `{"command":"git status"}`, "r2"); !second.Allowed || second.ID == first.ID {
		t.Errorf("another request: %+v", second)
	}
	if got := w.db.Actions(first.ID); got != "call.allowed" {
		t.Errorf("events: %s", got)
	}

	parked := w.ask("Bash", `{"command":"ls -l"}`, "r3")
	check(t, w.decide(parked.ID, true))
	w.want(w.patientAgain(parked.ID, "r3"), "allowed")
	uses := int64(1)
	g, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{
		CallID: parked.ID, Arguments: &[]grant.Matcher{{Argument: "/command", Kind: grant.Prefix, Values: []json.RawMessage{json.RawMessage(`"ls"`)}}}, Uses: &uses,
	})
	check(t, err)
	granted := w.ask("Bash", `{"command":"ls -la"}`, "r4")
	w.want(granted, "allowed")
	if c := w.get(granted.ID); c.GrantID != g.ID {
		t.Errorf("the call has grant %s", c.GrantID)
	}
	w.want(w.ask("Bash", `{"command":"ls -la"}`, "r4"), "allowed")
	w.want(w.ask("Bash", `{"command":"ls -la"}`, "r5"), "pending")
}

// TestGateCountsCalls: a rule that counts calls counts those that were released.
func TestGateCountsCalls(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, func(s *agent.SkillSpec) { s.AutoApprove = true })
	w.setRule(rule.Spec{Name: "two", Skills: []string{"laptop"}, Tools: []string{"Bash"}, When: `calls("1h", "agent") >= 2`, Effect: rule.Park})
	w.want(w.ask("Bash", `{"command":"1"}`, "r1"), "allowed")
	w.want(w.ask("Bash", `{"command":"2"}`, "r2"), "allowed")
	w.want(w.ask("Bash", `{"command":"3"}`, "r3"), "pending")
}

// TestGatePolicy: a call with a policy is released after enough votes.
func TestGatePolicy(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	w.setPolicy(nil)
	w.setRule(rule.Spec{Name: "push", Skills: []string{"laptop"}, Tools: []string{"Bash"}, When: `args.command.startsWith("git push")`, Effect: rule.Park, Policy: "bank"})
	p := w.ask("Bash", `{"command":"git push"}`, "r1")
	for i, by := range []uuid.UUID{w.addReviewer("fin1", "finance"), w.addReviewer("fin2", "finance"), w.addReviewer("comp", "compliance")} {
		w.want(w.again(p.ID, "r1"), "pending")
		want := approval.Pending
		if i == 2 {
			want = approval.Approved
		}
		w.vote(by, p.ID, want)
	}
	w.want(w.patientAgain(p.ID, "r1"), "allowed")
}

// TestGateNotReported: a released call whose caller says nothing ends as unknown after a day. A later report is stored beside it.
func TestGateNotReported(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	p := w.ask("Bash", echoHi, "r1")
	check(t, w.decide(p.ID, true))
	w.want(w.patientAgain(p.ID, "r1"), "allowed")
	w.db.MoveClock("6 minutes")
	w.want(w.again(p.ID, "r1"), "release_expired")
	w.db.MoveClock("25 hours")
	check(t, w.calls.Recover(t.Context()))
	c := w.get(p.ID)
	if c.Status != call.Unknown || c.Code != call.CodeNotReported || c.Effect != tool.EffectPossible {
		t.Errorf("the call is %s, %s, %s", c.Status, c.Code, c.Effect)
	}
	w.want(w.again(p.ID, "r1"), "release_expired")
	check(t, w.calls.ReportOutcome(t.Context(), w.viewer(), p.ID, "r1", call.Report{Outcome: call.ReportedSucceeded, Text: "late"}))
	if c = w.get(p.ID); c.Status != call.Unknown || !strings.Contains(string(c.Late), "late") {
		t.Errorf("after a late report the call is %s with %s", c.Status, c.Late)
	}
}

// TestGateHostCalls: a host reports the outcome of a call under its own name to any process. If it repeats a name, the last call counts.
func TestGateHostCalls(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	other := w.start()
	named := call.HostCall{Session: "s1", ID: "toolu_1", Tool: "Bash"}
	report := call.Report{Outcome: call.ReportedSucceeded, Text: "done"}
	for _, request := range []string{"r1", "r2"} {
		p := w.ask("Bash", echoHi, request)
		check(t, w.calls.NameHostCall(t.Context(), w.viewer(), p.ID, named))
		if err := other.ReportHostCall(t.Context(), w.viewer(), named, report); !errors.Is(err, call.ErrNotReleased) {
			t.Errorf("a report before the release: %v", err)
		}
		check(t, w.decide(p.ID, true))
		w.want(w.patientAgain(p.ID, request), "allowed")
		for _, unknown := range []call.HostCall{{Session: "s2", ID: "toolu_1", Tool: "Bash"}, {Session: "s1", ID: "toolu_2", Tool: "Bash"}, {Session: "s1", ID: "toolu_1", Tool: "Edit"}} {
			if err := other.ReportHostCall(t.Context(), w.viewer(), unknown, report); !errors.Is(err, call.ErrNotFound) {
				t.Errorf("a report about %+v: %v", unknown, err)
			}
		}
		if err := other.ReportHostCall(t.Context(), call.Viewer{AgentID: uuid.New()}, named, report); !errors.Is(err, call.ErrNotFound) {
			t.Errorf("another agent's report: %v", err)
		}
		check(t, other.ReportHostCall(t.Context(), w.viewer(), named, report))
		check(t, other.ReportHostCall(t.Context(), w.viewer(), named, call.Report{Outcome: call.ReportedFailed}))
		if c := w.get(p.ID); c.Status != call.Succeeded || !strings.Contains(string(c.Result), "done") {
			t.Errorf("%s: after the report the call is %s with %s", request, c.Status, c.Result)
		}
	}
}

// TestGateRecalls: a database that lost the release does not release the call again.
func TestGateRecalls(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	p := w.ask("Bash", echoHi, "r1")
	check(t, w.decide(p.ID, true))
	w.want(w.patientAgain(p.ID, "r1"), "allowed")
	w.db.Exec(`DELETE FROM gate_releases`)
	w.db.Exec(`UPDATE calls SET status = 'approved', claimed_at = NULL WHERE id = $1`, p.ID)
	w.timeline.Store(1)
	w.want(w.patientAgain(p.ID, "r2"), call.CodeOutcomeUnknown)
}

// TestGateLeave: a caller that is gone is recorded once, and its call stays.
func TestGateLeave(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	p := w.ask("Bash", echoHi, "r1")
	for range 2 {
		check(t, w.calls.LeaveGate(t.Context(), w.viewer(), p.ID, "r1"))
	}
	if got := w.db.Actions(p.ID); got != "call.parked call.caller_left" {
		t.Errorf("events: %s", got)
	}
	if again := w.ask("Bash", echoHi, "r2"); again.ID != p.ID {
		t.Error("the repeat does not attach")
	}
	unnamed := w.ask("Bash", `{"command":"ls"}`, "")
	for range 2 {
		check(t, w.calls.LeaveGate(t.Context(), w.viewer(), unnamed.ID, ""))
	}
	if got := w.db.Actions(unnamed.ID); got != "call.parked call.caller_left" {
		t.Errorf("events of a request without a name: %s", got)
	}
}

// TestGateIsReleased: a call counts as released from its release to the report of its outcome.
func TestGateIsReleased(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	wantReleased := func(when string, want bool) {
		t.Helper()
		for _, c := range []struct {
			skill, tool, arguments string
			want                   bool
		}{{"laptop", "Bash", echoHi, want}, {"laptop", "Bash", `{"command":"x"}`, false}, {"laptop", "Edit", echoHi, false}, {"other", "Bash", echoHi, false}} {
			clean, err := call.CleanArguments([]byte(c.arguments))
			check(t, err)
			if released, err := w.calls.IsReleased(t.Context(), w.viewer(), c.skill, c.tool, clean); err != nil || released != c.want {
				t.Errorf("%s, %s %s %s: released is %t, %v", when, c.skill, c.tool, c.arguments, released, err)
			}
		}
	}
	wantReleased("before", false)
	p := w.ask("Bash", echoHi, "r1")
	wantReleased("parked", false)
	check(t, w.decide(p.ID, true))
	w.want(w.patientAgain(p.ID, "r1"), "allowed")
	wantReleased("released", true)
	check(t, w.calls.ReportOutcome(t.Context(), w.viewer(), p.ID, "r1", call.Report{Outcome: call.ReportedSucceeded}))
	wantReleased("reported", false)
}

// TestGateUnknownTool: a tool that the host does not have itself is registered at its first call, and an operator has to accept it.
func TestGateUnknownTool(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, func(s *agent.SkillSpec) { s.AutoApprove = true })
	w.want(w.ask("Bash", echoHi, ""), "allowed")
	p := w.ask("mcp__github__merge", `{"number":1}`, "")
	w.want(p, "pending")
	if a := w.getApproval(p.ID).Approval; a.Rule != approval.RuleNewTool {
		t.Errorf("parked by %s", a.Rule)
	}
	if _, err := w.catalog.FindGated(t.Context(), w.agent.ID, "laptop", strings.Repeat("x", 257)); !errors.Is(err, tool.ErrToolName) {
		t.Errorf("a long name: %v", err)
	}
	// One agent cannot take the places of all.
	w.db.Exec(`INSERT INTO skill_tools (skill_id, name, current_pin, named_by) SELECT skill_id, 'more' || n, current_pin, named_by
		FROM skill_tools, generate_series(2, 400) AS n WHERE name = 'mcp__github__merge'`)
	w.registry.Apply(agent.Spec{Agents: []agent.AgentSpec{{Name: "other", Skills: &[]agent.AssignmentSpec{{Skill: "laptop"}}}}})
	if _, err := w.catalog.FindGated(t.Context(), w.agent.ID, "laptop", "one-more"); !errors.Is(err, tool.ErrTooManyTools) {
		t.Errorf("the 401st tool: %v", err)
	}
	if _, err := w.catalog.FindGated(t.Context(), w.registry.Agent("other").ID, "laptop", "one-more"); err != nil {
		t.Errorf("a tool of another agent: %v", err)
	}
	for _, skill := range []string{"files", "nothing"} {
		if _, err := w.catalog.FindGated(t.Context(), w.agent.ID, skill, "Bash"); !errors.Is(err, agent.ErrNotFound) {
			t.Errorf("skill %s: %v", skill, err)
		}
	}
	conversation, err := w.catalog.StartConversation(t.Context(), w.agent, uuid.Nil, "2025-11-25", nil)
	check(t, err)
	if len(conversation.Catalog.Entries) != 0 {
		t.Error("conversations offer tools that Holdpoint cannot execute")
	}
}

// TestGateWrongDoor: a gate-only call is not sent, and a call that Holdpoint sends is not released.
func TestGateWrongDoor(t *testing.T) {
	t.Parallel()
	w := newGateWorld(t, nil)
	ask := w.newAsk("Bash", echoHi, "")
	ask.Gate = nil
	if _, err := w.calls.Submit(t.Context(), ask); err == nil {
		t.Error("a gate-only call was submitted to be sent")
	}
	w.agent = w.registry.Agent("billing")
	sent := w.newSubmission("files__write", `{"n":1}`)
	sent.Gate = &call.GateRequest{}
	if _, err := w.calls.Gate(t.Context(), w.ended(), sent); err == nil {
		t.Error("a call of a server was submitted to be released")
	}
	ticket := w.submit("files__write", `{"n":1}`)
	if _, err := w.calls.AwaitPassage(t.Context(), w.ended(), w.viewer(), ticket.ID, ""); !errors.Is(err, call.ErrNotFound) {
		t.Errorf("a call of a server was asked about: %v", err)
	}
}
