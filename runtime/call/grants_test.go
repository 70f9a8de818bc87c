package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/pause"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// grantAny grants calls of the tool of a call with any n. uses: 0 is any number.
func (w *world) grantAny(id uuid.UUID, uses int64) agent.Grant {
	w.t.Helper()
	r := call.GrantRequest{CallID: id, Arguments: &[]grant.Matcher{{Argument: "/n", Kind: grant.Anything}}}
	if uses > 0 {
		r.Uses = &uses
	}
	g, err := w.calls.Grant(w.t.Context(), w.reviewer, r)
	check(w.t, err)
	return g
}

// TestGrantLetsCallsPass: calls like the one that a grant was made from pass, and keep the grant. Others wait as before.
func TestGrantLetsCallsPass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit("files__write", `{"n":1}`)
	g, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: first.ID})
	check(t, err)
	if g.State != agent.GrantActive || g.NeedsSecond || grant.Describe(g.Arguments) != "n is 1" || g.EndsAt.Sub(g.GrantedAt).Round(time.Second) != grant.DefaultTime {
		t.Errorf("granted: %+v", g)
	}
	check(t, w.decide(first.ID, true))
	w.waitForEnd(first.ID)
	for arguments, passes := range map[string]bool{`{"n":1}`: true, `{"n":2}`: false, `{"n":1.0}`: false, `{"n":1,"m":null}`: false} {
		ticket := w.submit("files__write", arguments)
		if got := ticket.Status == call.Executing; got != passes {
			t.Errorf("%s: the call is %s, want it to pass: %t", arguments, ticket.Status, passes)
			continue
		}
		c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		if (c.GrantID == g.ID) != passes || c.Gated == passes {
			t.Errorf("%s: the call has grant %s, gated %t", arguments, c.GrantID, c.Gated)
		}
		if !passes {
			continue
		}
		if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
			t.Errorf("%s: the call is %s (%s)", arguments, c.Status, c.Message)
		}
		if n := w.db.Count(`audit_events WHERE subject_id = '` + ticket.ID.String() + `' AND action = 'call.allowed' AND data ->> 'grant' = '` + g.ID.String() + `'`); n != 1 {
			t.Errorf("%s: %d events name the grant", arguments, n)
		}
	}
	if other := w.submit("open__echo", `{"n":1}`); other.Gated {
		t.Error("an auto-approved call waits")
	}
	used, err := w.agents.GetGrant(t.Context(), g.ID)
	check(t, err)
	if used.UsedAt == nil {
		t.Error("the grant has no last use")
	}
}

// TestGrantOverridesOnlyWhatItMay: a grant lifts only that the skill is gated, and a rule that parks if the rule says so.
func TestGrantOverridesOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grantAny(w.submit("files__write", `{"n":1}`).ID, 0)
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	setTool := func(patch agent.ToolPatch) {
		t.Helper()
		_, err := w.agents.UpdateTool(t.Context(), audit.Person(w.reviewer), files.ID, "write", patch)
		check(t, err)
	}
	n := 1
	expect := func(what string, status call.Status, why approval.Rule) {
		t.Helper()
		n++
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n))
		if ticket.Status != status {
			t.Errorf("%s: the call is %s, want %s", what, ticket.Status, status)
		} else if status == call.Parked && w.getApproval(ticket.ID).Approval.Rule != why {
			t.Errorf("%s: parked by %s, want %s", what, w.getApproval(ticket.ID).Approval.Rule, why)
		}
	}
	expect("a grant", call.Executing, "")
	w.setRule(rule.Spec{Name: "ask", Effect: rule.Park})
	expect("a rule that parks", call.Parked, approval.RuleParked)
	w.setRule(rule.Spec{Name: "ask", Effect: rule.Park, Grants: true})
	expect("a rule that lets grants count", call.Executing, "")
	w.setRule(rule.Spec{Name: "fails", Effect: rule.Park, Grants: true, When: `args.n / 0.0 > 1.0`})
	expect("a rule that fails", call.Parked, approval.RuleFailed)
	w.setRule(rule.Spec{Name: "fails", Effect: rule.Park, Mode: rule.Off})
	w.setRule(rule.Spec{Name: "never", Effect: rule.Deny})
	expect("a rule that denies", call.Denied, "")
	w.setRule(rule.Spec{Name: "never", Effect: rule.Deny, Mode: rule.Off})
	setTool(agent.ToolPatch{Risk: new(agent.RiskHigh)})
	expect("a tool of high risk", call.Parked, approval.RuleHighRisk)
	setTool(agent.ToolPatch{Grants: new(true)})
	expect("a tool of high risk that takes grants", call.Executing, "")
	setTool(agent.ToolPatch{Risk: new(""), Grants: new(false)})
	expect("the tool as before", call.Executing, "")
	w.source.Offer(strings.Replace(writeTool, `"Write"`, `"Write more"`, 1), echoTool)
	w.discovery.ListChanged(files.ID)
	_, server, err := w.agents.Skill(t.Context(), files.ID)
	check(t, err)
	_, err = w.discovery.List(t.Context(), server, false)
	check(t, err)
	expect("a tool with another definition", call.Parked, approval.RuleDefinitionChanged)
	check(t, w.agents.AcceptTool(t.Context(), audit.Person(w.reviewer), files.ID, "write", w.pinOf(files.ID, "write")))
	expect("a tool with another accepted definition", call.Parked, approval.RuleParked)
}

func (w *world) pinOf(skill uuid.UUID, name string) tool.Pin {
	w.t.Helper()
	status, err := w.discovery.Status(w.t.Context(), skill, name)
	check(w.t, err)
	return status.Current
}

// TestGrantsOfDestructiveTools: tools that their server calls destructive take no grants unless an operator allows it.
func TestGrantsOfDestructiveTools(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(writeTool, `{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`)
	id := w.submit("files__wipe", `{}`).ID
	if _, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: id}); !errors.Is(err, call.ErrNoGrants) {
		t.Errorf("a grant for a destructive tool: %v", err)
	}
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	_, err = w.agents.UpdateTool(t.Context(), audit.Person(w.reviewer), files.ID, "wipe", agent.ToolPatch{Grants: new(true)})
	check(t, err)
	_, err = w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: id})
	check(t, err)
	if _, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: id, Arguments: &[]grant.Matcher{{Argument: "/n", Kind: grant.Anything}}}); err == nil {
		t.Error("a grant that its own call does not match was made")
	}
	for field, r := range map[string]call.GrantRequest{
		"time": {CallID: id, Time: 31 * 24 * time.Hour}, "uses": {CallID: id, Uses: new(int64(0))}, "arguments[0].kind": {CallID: id, Arguments: &[]grant.Matcher{{Argument: "/n", Kind: "x"}}},
	} {
		_, err := w.calls.Grant(t.Context(), w.reviewer, r)
		if invalid, ok := errors.AsType[*fault.InvalidError](err); !ok || invalid.Fields[0].Name != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	open := w.submit("open__write", `{"n":1}`)
	w.waitForEnd(open.ID)
	if _, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: open.ID}); !errors.Is(err, call.ErrNoGrants) {
		t.Errorf("a grant from a call that needed no approval: %v", err)
	}
}

// TestGrantUsesAreExact: of many calls at once in two processes, exactly as many pass as the grant has uses.
func TestGrantUsesAreExact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const uses, calls = 5, 40
	g := w.grantAny(w.submit("files__write", `{"n":0.5}`).ID, uses)
	services := []*call.Service{w.calls, w.start()}
	var passed, parked atomic.Int64
	var each sync.WaitGroup
	template := w.newSubmission("files__write", `{"n":1}`)
	for i := range calls {
		each.Go(func() {
			sub := template
			sub.Arguments = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
			ticket, err := services[i%2].Submit(t.Context(), sub)
			switch {
			case err != nil:
				t.Error(err)
			case ticket.Status == call.Executing:
				passed.Add(1)
			case ticket.Status == call.Parked:
				parked.Add(1)
			}
		})
	}
	each.Wait()
	if passed.Load() != uses || parked.Load() != calls-uses {
		t.Errorf("%d calls passed and %d wait, want %d and %d", passed.Load(), parked.Load(), uses, calls-uses)
	}
	after, err := w.agents.GetGrant(t.Context(), g.ID)
	check(t, err)
	if after.State != agent.GrantUsedUp || after.Taken != uses || w.db.Actions(g.ID) != "grant.created grant.used_up" {
		t.Errorf("the grant is %s after %d uses; audit %s", after.State, after.Taken, w.db.Actions(g.ID))
	}
}

// TestGrantUseOfRepeat: a call with an idempotency key takes one use, however often it is repeated.
func TestGrantUseOfRepeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grantAny(w.submit("files__write", `{"n":1}`).ID, 1)
	sub := w.newSubmission("files__write", `{"n":2}`)
	sub.IdempotencyKey = "once"
	first, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	again, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	if first.Status != call.Executing || again.ID != first.ID || !again.Attached {
		t.Errorf("first %+v, again %+v", first, again)
	}
	w.waitForEnd(first.ID)
	after, err := w.agents.GetGrant(t.Context(), g.ID)
	check(t, err)
	if after.Taken != 1 {
		t.Errorf("%d uses were taken", after.Taken)
	}
}

// TestGrantOfRejectedCall: a grant for a call that was rejected counts only after another person confirmed it.
func TestGrantOfRejectedCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rejected := w.submit("files__write", `{"n":7}`).ID
	check(t, w.decide(rejected, false))
	id := w.submit("files__write", `{"n":8}`).ID
	preview, err := w.calls.PreviewGrant(t.Context(), w.reviewer, call.GrantRequest{CallID: id})
	check(t, err)
	if preview.NeedsSecond || preview.Matching != 1 || preview.Pending != 1 {
		t.Errorf("preview of the exact call: %+v", preview)
	}
	preview, err = w.calls.PreviewGrant(t.Context(), w.reviewer, call.GrantRequest{CallID: id, Arguments: &[]grant.Matcher{{Argument: "/n", Kind: grant.Range, Min: "1", Max: "10"}}})
	check(t, err)
	if !preview.NeedsSecond || preview.Matching != 2 || preview.Rejected != 1 || preview.Matches[0].CallID != rejected {
		t.Errorf("preview: %+v", preview)
	}
	g := w.grantAny(id, 0)
	if g.State != agent.GrantWaiting || w.submit("files__write", `{"n":9}`).Status != call.Parked {
		t.Errorf("without a second person the grant is %s", g.State)
	}
	if _, err := w.calls.ConfirmGrant(t.Context(), w.reviewer, g.ID); !errors.Is(err, call.ErrOwnGrant) {
		t.Errorf("confirmed by the same person: %v", err)
	}
	g, err = w.calls.ConfirmGrant(t.Context(), uuid.New(), g.ID)
	check(t, err)
	if g.State != agent.GrantActive || w.submit("files__write", `{"n":10}`).Status != call.Executing {
		t.Errorf("confirmed, the grant is %s", g.State)
	}
	if _, err := w.calls.ConfirmGrant(t.Context(), uuid.New(), g.ID); !errors.Is(err, agent.ErrNoSecond) {
		t.Errorf("confirmed again: %v", err)
	}
	if got := w.db.Actions(g.ID); got != "grant.created grant.confirmed" {
		t.Errorf("audit: %s", got)
	}
}

// TestGrantsOfLimitedReviewers: a reviewer makes and confirms grants only for calls that they may decide.
func TestGrantsOfLimitedReviewers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(`UPDATE skills SET team = 'payments' WHERE name = 'files'`)
	w.agents.Invalidate()
	limited := func(name, limit string) uuid.UUID {
		id := w.addReviewer(name)
		w.db.Exec(`UPDATE people SET review_limit = $2::jsonb WHERE id = $1`, id, limit)
		return id
	}
	skill, team := limited("skill", `{"skills":["files"]}`), limited("team", `{"teams":["payments"]}`)
	others := []uuid.UUID{limited("other-skill", `{"skills":["mail"]}`), limited("other-team", `{"teams":["sales"]}`)}
	rejected := w.submit("files__write", `{"n":7}`).ID
	check(t, w.decide(rejected, false))
	id := w.submit("files__write", `{"n":8}`).ID
	for _, other := range others {
		if _, err := w.calls.PreviewGrant(t.Context(), other, call.GrantRequest{CallID: id}); !isLimit(err) {
			t.Errorf("preview by a reviewer of other calls: %v", err)
		}
		if _, err := w.calls.Grant(t.Context(), other, call.GrantRequest{CallID: id}); !isLimit(err) {
			t.Errorf("a grant by a reviewer of other calls: %v", err)
		}
	}
	for _, one := range []uuid.UUID{skill, team} {
		g := w.grantAny(id, 0)
		for _, other := range others {
			if _, err := w.calls.ConfirmGrant(t.Context(), other, g.ID); !isLimit(err) {
				t.Errorf("confirmed by a reviewer of other calls: %v", err)
			}
		}
		if g, err := w.calls.ConfirmGrant(t.Context(), one, g.ID); err != nil || g.State != agent.GrantActive {
			t.Errorf("confirmed by a reviewer of these calls: %s, %v", g.State, err)
		}
	}
	passed := w.submit("files__write", `{"n":9}`)
	w.waitForEnd(passed.ID)
	if _, err := w.calls.Grant(t.Context(), skill, call.GrantRequest{CallID: passed.ID}); err != nil {
		t.Errorf("from a call that passed: %v", err)
	}
	if _, err := w.calls.Grant(t.Context(), team, call.GrantRequest{CallID: passed.ID}); !isLimit(err) {
		t.Errorf("from a call that passed, which was given to no team: %v", err)
	}
}

func isLimit(err error) bool {
	_, limited := errors.AsType[*identity.LimitError](err)
	return limited
}

// TestGrantEnds: a grant does not count after its end, after its revocation, or once its person was blocked.
func TestGrantEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, g agent.Grant) agent.GrantState{
		"revoked": func(w *world, g agent.Grant) agent.GrantState {
			_, err := w.agents.RevokeGrant(t.Context(), audit.Person(w.reviewer), g.ID)
			check(t, err)
			return agent.GrantRevoked
		},
		"ended": func(w *world, _ agent.Grant) agent.GrantState {
			w.db.MoveClock("9 hours")
			return agent.GrantEnded
		},
		"its person is blocked": func(w *world, _ agent.Grant) agent.GrantState {
			w.db.Exec(`INSERT INTO people (id, issuer, subject, name, blocked_at) VALUES ($1, 'holdpoint', 'rita', 'rita', holdpoint_now())`, w.reviewer)
			return agent.GrantVoid
		},
		"its person lost the role": func(w *world, _ agent.Grant) agent.GrantState {
			w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'https://idp.example', 'rita', 'rita')`, w.reviewer)
			return agent.GrantVoid
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			g := w.grantAny(w.submit("files__write", `{"n":1}`).ID, 0)
			if w.submit("files__write", `{"n":2}`).Status != call.Executing {
				t.Fatal("the grant does not count")
			}
			state := end(w, g) // without a notice to the cache, except for the revocation
			if ticket := w.submit("files__write", `{"n":3}`); ticket.Status != call.Parked {
				t.Errorf("the call is %s", ticket.Status)
			}
			after, err := w.agents.GetGrant(t.Context(), g.ID)
			check(t, err)
			if after.State != state {
				t.Errorf("the grant is %s, want %s", after.State, state)
			}
		})
	}
}

// holdBeforeConfirm makes calls wait before they are confirmed, until the returned function is called.
func (w *world) holdBeforeConfirm() (release func()) {
	gate := make(chan struct{})
	w.source.Lock()
	w.source.before = func() { <-gate }
	w.source.Unlock()
	var once sync.Once
	release = func() { once.Do(func() { close(gate) }) }
	w.t.Cleanup(release)
	return release
}

// TestGrantRevokedBeforeSending: a call that a grant let pass, and that is not sent when the grant is revoked, is denied.
func TestGrantRevokedBeforeSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grantAny(w.submit("files__write", `{"n":1}`).ID, 0)
	release := w.holdBeforeConfirm()
	ticket := w.submit("files__write", `{"n":2}`)
	if ticket.Status != call.Executing {
		t.Fatalf("the call is %s", ticket.Status)
	}
	revoked, err := w.agents.RevokeGrant(t.Context(), audit.Person(w.reviewer), g.ID)
	check(t, err)
	if revoked.State != agent.GrantRevoked {
		t.Errorf("the grant is %s", revoked.State)
	}
	time.AfterFunc(time.Second, release)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Denied || c.Code != call.CodeGrantRevoked || c.Effect != tool.EffectNone {
		t.Errorf("the call is %s, %s, effect %s", c.Status, c.Code, c.Effect)
	}
	if sent := w.source.Arguments(); len(sent) != 0 {
		t.Errorf("sent: %s", sent)
	}
	if got := w.db.Actions(ticket.ID); got != "call.allowed call.denied" {
		t.Errorf("audit: %s", got)
	}
	if _, err := w.agents.RevokeGrant(t.Context(), audit.Person(w.reviewer), g.ID); !errors.Is(err, agent.ErrGrantOver) {
		t.Errorf("revoked again: %v", err)
	}
}

// TestGrantAfterConnection: a call whose server demands a connection takes one use, however often it waits.
func TestGrantAfterConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grantAny(w.submit("files__write", `{"n":1}`).ID, 1)
	w.refuseOnce()
	ticket := w.submit("files__write", `{"n":2}`)
	if ticket.Status != call.Executing {
		t.Fatalf("the call is %s", ticket.Status)
	}
	w.waitForStatus(ticket.ID, call.NeedsConnection)
	w.connectSkill("files")
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded || c.GrantID != g.ID {
		t.Errorf("the call is %s (%s) with grant %s", c.Status, c.Message, c.GrantID)
	}
	after, err := w.agents.GetGrant(t.Context(), g.ID)
	check(t, err)
	if after.Taken != 1 {
		t.Errorf("%d uses were taken", after.Taken)
	}
	other := w.grantAny(w.submit("files__write", `{"n":3}`).ID, 0)
	w.source.Require(notConnected)
	waits := w.submit("files__write", `{"n":4}`)
	if waits.Status != call.NeedsConnection {
		t.Fatalf("the call is %s", waits.Status)
	}
	_, err = w.agents.RevokeGrant(t.Context(), audit.Person(w.reviewer), other.ID)
	check(t, err)
	w.connectSkill("files")
	if c := w.waitForStatus(waits.ID, call.Parked); c.GrantID != uuid.Nil {
		t.Errorf("the parked call has grant %s", c.GrantID)
	}
}

// TestRevocationUnderLoad: while 200 matching calls a second pass in two processes with caches of their own, a grant is revoked. A second later
// none passes: neither a new one, nor one that was recorded before and not sent yet.
func TestRevocationUnderLoad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	g := w.grantAny(w.submit("files__write", `{"n":0.5}`).ID, 0)
	other := &world{t: t, db: w.db, source: w.source, files: w.files, agent: w.agent, reviewer: w.reviewer}
	other.registry = runtimetest.NewRegistry(t, runtimetest.Config{DB: w.db, Sources: map[tool.Transport]tool.Source{tool.HTTP: w.source, tool.OpenAPI: w.source}})
	other.discovery, other.agents, other.catalog = other.registry.Discovery, other.registry.Agents, other.registry.Catalog
	other.calls = other.start()

	var revoked atomic.Pointer[time.Time] // a second after the revocation
	var late, passed atomic.Int64         // confirmed after that, or begun after that and not parked
	isLate := func(began time.Time) bool { at := revoked.Load(); return at != nil && began.After(*at) }
	w.source.Lock()
	w.source.confirmed = func(began time.Time) {
		if passed.Add(1); isLate(began) {
			late.Add(1)
		}
	}
	w.source.before = func() { // every tenth call is held for a while between its record and its request
		if passed.Load()%10 == 0 {
			_ = pause.For(t.Context(), 1500*time.Millisecond)
		}
	}
	w.source.Unlock()

	template := w.newSubmission("files__write", `{"n":1}`)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var n atomic.Int64
	var mu sync.Mutex
	var tickets []uuid.UUID
	var each sync.WaitGroup
	submit := func(calls *call.Service) {
		sub := template
		sub.Arguments = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n.Add(1)))
		began := time.Now()
		ticket, err := calls.Submit(ctx, sub)
		switch {
		case errors.As(err, new(*call.PendingError)): // as many wait as may
		case err != nil:
			t.Error(err)
		case ticket.Status == call.Executing:
			if isLate(began) {
				late.Add(1)
			}
			mu.Lock()
			tickets = append(tickets, ticket.ID)
			mu.Unlock()
		}
	}
	ticks := time.NewTicker(8 * time.Millisecond)
	defer ticks.Stop()
	began := time.Now()
	for revoked.Load() == nil || !time.Now().After(revoked.Load().Add(time.Second)) {
		<-ticks.C
		each.Go(func() { submit(w.calls) })
		each.Go(func() { submit(other.calls) })
		if revoked.Load() == nil && passed.Load() > 100 && time.Since(began) > time.Second {
			_, err := w.agents.RevokeGrant(t.Context(), audit.Person(w.reviewer), g.ID)
			check(t, err)
			revoked.Store(new(time.Now().Add(time.Second)))
		}
	}
	each.Wait()
	denied := 0
	for _, id := range tickets {
		c := w.waitForEnd(id)
		if c.Status == call.Denied && c.Code == call.CodeGrantRevoked {
			denied++
		} else if c.Status != call.Succeeded {
			t.Errorf("a call ended as %s, %s", c.Status, c.Code)
		}
	}
	if late.Load() > 0 {
		t.Errorf("%d calls passed more than a second after the revocation", late.Load())
	}
	if sent := len(w.source.Arguments()); sent != len(tickets)-denied {
		t.Errorf("%d calls were recorded, %d denied and %d sent", len(tickets), denied, sent)
	}
	t.Logf("%d calls in %s, %d passed, %d of them denied before they were sent", n.Load(), time.Since(began).Round(time.Millisecond), len(tickets), denied)
}

// TestGrantReview: once a week, an event names the grants that are wide or unused.
func TestGrantReview(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.submit("files__write", `{"n":1}`).ID
	reviews := func() int {
		t.Helper()
		check(t, w.agents.ReviewGrants(t.Context()))
		return w.db.Count(`audit_events WHERE action = 'grant.reviewed'`)
	}
	if n := reviews(); n != 0 {
		t.Errorf("%d events without a grant", n)
	}
	exact, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: id, Time: 20 * 24 * time.Hour})
	check(t, err)
	if n := reviews(); n != 0 {
		t.Errorf("%d events about a grant that is new and narrow", n)
	}
	wide, err := w.calls.Grant(t.Context(), w.reviewer, call.GrantRequest{CallID: id, Time: 20 * 24 * time.Hour, Arguments: &[]grant.Matcher{{Argument: "/n", Kind: grant.Anything}}})
	check(t, err)
	if n := reviews(); n != 1 {
		t.Errorf("%d events about a wide grant, want 1", n)
	}
	w.db.MoveClock("4 days")
	if n := reviews(); n != 1 {
		t.Errorf("%d events within a week, want 1", n)
	}
	w.db.MoveClock("8 days")
	if n := reviews(); n != 2 {
		t.Errorf("%d events after a week, want 2", n)
	}
	found, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Action: audit.GrantReviewed, Limit: 1})
	check(t, err)
	if data := string(found[0].Raw); !strings.Contains(data, exact.ID.String()) || strings.Count(data, wide.ID.String()) != 2 {
		t.Errorf("the event: %s", data)
	}
	open, err := w.agents.ListGrants(t.Context(), true)
	check(t, err)
	if len(open) != 2 || !slices.ContainsFunc(open, func(g agent.Grant) bool { return g.IsWide() && g.Unused }) {
		t.Errorf("open grants: %+v", open)
	}
}
