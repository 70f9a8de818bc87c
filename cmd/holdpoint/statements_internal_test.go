package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/grant"
	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/duration"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/identity/provider/providertest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
)

// statement is what Holdpoint promises about rules, grants, policies, or the people who decide.
type statement struct {
	says   string
	open   bool              // the skill is auto-approved
	except map[string]string // surfaces that have no such thing by design, with the reason
	show   func(*trial)
}

// trial shows a statement in a surface. It has an agent and a skill of its own.
type trial struct {
	*bench
	surface

	name         string // of the agent and the skill
	conversation *catalog.Conversation
}

// Each statement holds in each surface: what is set there has the effect on calls that the surface then shows.
func TestStatementsOnTheDashboard(t *testing.T) { t.Parallel(); showStatements(t, onDashboard) }

func TestStatementsOverTheAPI(t *testing.T) { t.Parallel(); showStatements(t, onAPI) }

func TestStatementsOnTheCommandLine(t *testing.T) { t.Parallel(); showStatements(t, onCommands) }

func TestStatementsOfApply(t *testing.T) { t.Parallel(); showStatements(t, onApply) }

func showStatements(t *testing.T, where string) {
	t.Helper()
	b := openBench(t)
	for i, one := range statements {
		if one.except[where] != "" {
			continue
		}
		t.Run(one.says, func(t *testing.T) {
			own := *b
			own.T = t
			one.show(own.newTrial(own.open(where), fmt.Sprintf("trial-%d", i), one.open))
		})
	}
}

func (b *bench) newTrial(s surface, name string, open bool) *trial {
	b.Helper()
	skill := map[string]any{"name": name, "transport": "http", "url": b.skillAt, "auto_approve": open, "tools": map[string]any{"risky": map[string]any{"risk": "high"}}}
	agent := map[string]any{"name": name, "skills": []map[string]any{{"skill": name}}}
	if status, text := b.request("olga", http.MethodPost, "apply", map[string]any{"spec": map[string]any{"skills": []any{skill}, "agents": []any{agent}}}); status != http.StatusOK {
		b.Fatalf("apply: %d %s", status, text)
	}
	b.declared[name] = skill
	r := &trial{bench: b, surface: s, name: name}
	r.converse()
	return r
}

// converse starts another conversation.
func (r *trial) converse() {
	r.Helper()
	found, err := r.s.runtime.Agents.AgentByName(r.Context(), r.name)
	check(r, err)
	r.conversation, err = r.s.runtime.Catalog.StartConversation(r.Context(), found, uuid.Nil, "2025-11-25", nil)
	check(r, err)
}

// call makes a call, and waits until nothing more happens to it by itself.
func (r *trial) call(tool, arguments string) uuid.UUID { return r.callFor("", tool, arguments) }

// callFor makes a call on behalf of a person.
func (r *trial) callFor(person, tool, arguments string) uuid.UUID {
	r.Helper()
	found, err := r.s.runtime.Agents.AgentByName(r.Context(), r.name)
	check(r, err)
	entry, ok := r.conversation.Catalog.Lookup(r.name + "__" + tool)
	if !ok {
		r.Fatalf("no tool %s: %v", tool, r.conversation.Problems)
	}
	ticket, err := r.s.runtime.Calls.Submit(r.Context(), call.Submission{
		Agent: found, ConversationID: r.conversation.ID, PrincipalID: r.ids[person], Entry: entry, Arguments: json.RawMessage(arguments),
	})
	check(r, err)
	r.settle(ticket.ID)
	return ticket.ID
}

// settle waits until a call is not being sent any more.
func (r *trial) settle(id uuid.UUID) {
	r.Helper()
	eventually.Holds(r, "the call to settle", func() bool {
		c, err := r.s.runtime.Calls.Get(r.Context(), call.Viewer{}, id)
		check(r, err)
		return c.Status != call.Approved && c.Status != call.Executing
	})
}

// want compares a call with what the surface shows of it. The surface has to say all of the words.
func (r *trial) want(id uuid.UUID, status string, words ...string) {
	r.Helper()
	r.settle(id)
	shown := r.read("tom", id)
	if shown.status != status {
		r.Errorf("the call is %q, want %q:\n%s", shown.status, status, shown.text)
	}
	r.wantText(shown.text, words...)
}

// wantRefusal compares a refusal with words, of which it must have one.
func (r *trial) wantRefusal(refusal string, words ...string) {
	r.Helper()
	if refusal == "" || !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(refusal, word) }) {
		r.Errorf("it is not refused with %q: %q", words, refusal)
	}
}

// done ends the trial if the surface refused something.
func (r *trial) done(refusal string) {
	r.Helper()
	if refusal != "" {
		r.Fatalf("refused: %s", refusal)
	}
}

// rule sets a rule about the skill of the trial. Its name is completed.
func (r *trial) rule(spec rule.Spec) {
	r.Helper()
	r.done(r.setRule(r.complete(spec)))
}

func (r *trial) complete(spec rule.Spec) rule.Spec {
	spec.Name, spec.Skills = r.name+"-"+spec.Name, []string{r.name}
	if spec.Mode == "" {
		spec.Mode = rule.Enforce
	}
	return spec
}

// policy sets a policy that calls of the skill have to meet.
func (r *trial) policy(spec policy.Spec) {
	r.Helper()
	spec.Name = r.name
	r.done(r.setPolicy(spec))
	r.rule(rule.Spec{Name: "ask", Effect: rule.Park, Policy: spec.Name})
}

// needs are alternatives, as people write them.
func (r *trial) needs(text string) []policy.Alternative {
	r.Helper()
	alternatives, invalid := policy.ParseAlternatives(text)
	if len(invalid) > 0 {
		r.Fatalf("%s: %v", text, invalid)
	}
	return alternatives
}

func amount(n string) string { return `{"amount":` + n + `}` }

// noGrants is why holdpoint.yaml has no grants.
var noGrants = map[string]string{onApply: "a grant is made from a call that a person saw, and ends; holdpoint.yaml names no calls"}

// noPeople is why holdpoint.yaml says nothing about people.
var noPeople = map[string]string{onApply: "people, their absences and limits are no part of holdpoint.yaml"}

// noPlans is why holdpoint.yaml has no plans.
var noPlans = map[string]string{onApply: "a plan is a list of calls that an agent submits; holdpoint.yaml names no calls"}

// The server of later statements has other settings.
var statements = slices.Concat(
	ruleStatements, memoryStatements, policyStatements, grantStatements, planStatements, peopleStatements, controlStatements, separationStatements,
)

// plan submits a plan of calls of pay, for a person.
func (r *trial) plan(person string, arguments ...string) uuid.UUID {
	r.Helper()
	found, err := r.s.runtime.Agents.AgentByName(r.Context(), r.name)
	check(r, err)
	sub := call.PlanSubmission{Agent: found, PrincipalID: r.ids[person], Title: "Close the month", Lookup: r.conversation.Catalog.Lookup}
	for _, one := range arguments {
		sub.Calls = append(sub.Calls, call.PlannedCall{Tool: r.name + "__pay", Arguments: json.RawMessage(one)})
	}
	submitted, err := r.s.runtime.Calls.SubmitPlan(r.Context(), &sub)
	check(r, err)
	return submitted.ID
}

// wantText compares what a surface shows with words, all of which it must have.
func (r *trial) wantText(shown string, words ...string) {
	r.Helper()
	for _, word := range words {
		if !strings.Contains(shown, word) {
			r.Errorf("nothing says %q:\n%s", word, shown)
		}
	}
}

var ruleStatements = []statement{
	{says: "a rule allows, denies or leaves alone, and the model gets the message", show: func(r *trial) {
		r.rule(rule.Spec{Name: "small", When: `args.amount <= 100.0`, Effect: rule.Allow})
		r.rule(rule.Spec{Name: "never", When: `args.amount > 1000.0`, Effect: rule.Deny, Message: "Ask the CFO in person."})
		r.want(r.call("pay", amount("100")), "succeeded", r.name+"-small")
		r.want(r.call("pay", amount("100.5")), "parked gated")
		denied := r.call("pay", amount("1000.5"))
		r.want(denied, "denied", "Ask the CFO in person.", r.name+"-never")
		c, err := r.s.runtime.Calls.Get(r.Context(), call.Viewer{}, denied)
		check(r, err)
		if c.Message != "Ask the CFO in person." || c.Code != "rule_denied" {
			r.Errorf("the model gets %q with %q", c.Message, c.Code)
		}
	}},
	{says: "a rule parks calls of a skill that is auto-approved", open: true, show: func(r *trial) {
		r.rule(rule.Spec{Name: "big", When: `args.amount > 1000.0`, Effect: rule.Park})
		r.want(r.call("pay", amount("1000")), "succeeded")
		r.want(r.call("pay", amount("1001")), "parked rule_parked", r.name+"-big")
	}},
	{says: "deny beats park beats allow, whatever the order", show: func(r *trial) {
		paid := 0 // a call like one that waits would be the same call
		pay := func() uuid.UUID { paid++; return r.call("pay", amount(strconv.Itoa(paid))) }
		for _, names := range [][3]string{{"a", "b", "c"}, {"z", "y", "x"}} {
			rules := []rule.Spec{
				{Name: names[0], Effect: rule.Allow}, {Name: names[1], Effect: rule.Park}, {Name: names[2], Effect: rule.Deny},
			}
			for i := range rules {
				r.rule(rules[i])
			}
			for i, want := range []string{"denied", "parked rule_parked", "succeeded"} {
				r.want(pay(), want)
				off := rules[len(rules)-1-i]
				off.Mode = rule.Off
				r.rule(off)
			}
			r.want(pay(), "parked gated")
		}
	}},
	{says: "an allow overrides only that the skill is not auto-approved", show: func(r *trial) {
		r.rule(rule.Spec{Name: "all", Effect: rule.Allow})
		r.want(r.call("pay", amount("1")), "succeeded")
		r.want(r.call("risky", amount("1")), "parked high_risk")
		r.offer("fickle", r.Name())
		if status, text := r.request("olga", http.MethodGet, "skills/"+r.name+"/tools?refresh=true", nil); status != http.StatusOK {
			r.Fatalf("refresh: %d %s", status, text)
		}
		r.converse()
		r.want(r.call("fickle", amount("1")), "parked definition_changed")
		r.done(r.setTool(r.name, "pay", "enabled", "false"))
		r.want(r.call("pay", amount("1")), "denied")
	}},
	{says: "high_risk: true also allows what an operator marked", show: func(r *trial) {
		r.rule(rule.Spec{Name: "risky", Tools: []string{"risky"}, Effect: rule.Allow, HighRisk: true})
		r.want(r.call("risky", amount("1")), "succeeded")
		r.want(r.call("pay", amount("1")), "parked gated")
	}},
	{says: "a rule in shadow mode is recorded and has no effect, one that is off is not even evaluated", open: true, show: func(r *trial) {
		for _, mode := range []rule.Mode{rule.Shadow, rule.Off} {
			r.rule(rule.Spec{Name: string(mode), Effect: rule.Deny, Mode: mode, Message: "No."})
		}
		id := r.call("pay", amount("1"))
		r.want(id, "succeeded", r.name+"-shadow")
		if shown := r.read("tom", id); strings.Contains(shown.text, r.name+"-off") {
			r.Errorf("a rule that is off is shown:\n%s", shown.text)
		}
	}},
	{says: "the effects, modes and marks together", show: func(r *trial) { r.showEffects() }},
	{says: "a rule is about agents, skills and tools by name or pattern", open: true, show: func(r *trial) {
		mine, others := []string{r.name[:len(r.name)-1] + "*"}, []string{"other-*"}
		r.rule(rule.Spec{Name: "others", Agents: others, Effect: rule.Deny})
		r.rule(rule.Spec{Name: "mine", Agents: mine, Tools: []string{"p*y", "wipe"}, Effect: rule.Park})
		r.want(r.call("pay", amount("1")), "parked rule_parked", r.name+"-mine")
		r.want(r.call("wipe", amount("1")), "parked rule_parked")
		r.want(r.call("read_inbox", amount("1")), "succeeded")
	}},
	{says: "a rule that allows every call must say so", show: func(r *trial) {
		wide := rule.Spec{Name: r.name + "-wide", Effect: rule.Allow, Mode: rule.Off}
		r.wantRefusal(r.setRule(wide), `Write ["*"] if that is meant`, "Write * if that is meant", "if that is meant")
		wide.Skills = []string{"*"}
		r.done(r.setRule(wide))
	}},
	{says: "a mistake in a condition is refused at its place, with the nearest name", show: func(r *trial) {
		for when, want := range map[string]string{
			`args.amuont <= 100.0`:                             "1:6: args has no field amuont: did you mean amount?",
			`args.amount <= 100`:                               "1:13: cannot compare a number with an integer: write 100.0",
			`args.count <= 100.0`:                              "1:12: cannot compare an integer with a number: write 100",
			"args.amount > 1.0 &&\n args.currency == 1":        "2:16: cannot compare a string with an integer",
			`args.amount >`:                                    "1:14: unexpected the end of the condition",
			`args.currency == "GBP"`:                           `1:18: args.currency is never "GBP": it must be one of "EUR", "USD"`,
			`agnet == "billing"`:                               "1:1: unknown name agnet: did you mean agent?",
			`args.amount > 1.0 && spent("amonut", "1h") > 1.0`: "1:28: args has no field amonut: did you mean amount?",
		} {
			refusal := r.setRule(r.complete(rule.Spec{Name: "typed", Tools: []string{"pay"}, When: when, Effect: rule.Park}))
			r.wantRefusal(strings.ReplaceAll(refusal, `\"`, `"`), want) // JSON quotes
		}
	}},
	{says: "an argument that is missing or has too many digits parks the call, and the rule is named", show: func(r *trial) {
		r.rule(rule.Spec{Name: "small", Tools: []string{"pay"}, When: `args.amount < 100.0`, Effect: rule.Allow})
		r.rule(rule.Spec{Name: "few", Tools: []string{"wipe"}, When: `args.count < 100`, Effect: rule.Deny})
		r.want(r.call("pay", amount("99.5")), "succeeded")
		r.want(r.call("pay", `{}`), "parked rule_failed", r.name+"-small")
		r.want(r.call("pay", amount("0.1000000000000000000000000000001")), "parked rule_failed", r.name+"-small")
		r.want(r.call("wipe", `{"count":-9223372036854775809}`), "parked rule_failed", r.name+"-few")
	}},
	{says: "a condition reads the call, whom it is for, what the server claims, and the time", show: func(r *trial) {
		r.rule(rule.Spec{Name: "reads", Effect: rule.Allow, When: fmt.Sprintf(
			`agent == %q && skill == %q && tool == "pay" && principal != null && "finance" in principal.groups && !has(claimed.destructive) && now.getFullYear("Europe/Berlin") > 2024`, r.name, r.name)})
		r.want(r.callFor("ana", "pay", amount("1")), "succeeded")
		r.want(r.callFor("sam", "pay", amount("1")), "parked gated")
		r.want(r.callFor("ana", "wipe", amount("1")), "parked gated")
	}},
	{says: "a rule that denies counts again before an approved call is sent", show: func(r *trial) {
		id := r.call("pay", amount("1"))
		r.rule(rule.Spec{Name: "late", Effect: rule.Deny, Message: "Too late."})
		r.approve("ana", id, vote{})
		r.want(id, "denied", "Too late.")
	}},
}

// showEffects shows the table of effects, modes, and tools.
func (r *trial) showEffects() {
	r.Helper()
	without := map[string]string{"pay": "parked gated", "risky": "parked high_risk"}
	for _, effect := range rule.Effects() {
		for _, mode := range rule.Modes() {
			for _, highRisk := range []bool{false, true} {
				if highRisk && effect != rule.Allow {
					continue
				}
				spec := rule.Spec{Name: fmt.Sprintf("%s-%s-%t", effect, mode, highRisk), Effect: effect, Mode: mode, HighRisk: highRisk}
				spec.When = fmt.Sprintf("args.v == %q", spec.Name)
				r.rule(spec)
				for tool, want := range without {
					switch {
					case mode != rule.Enforce:
					case effect == rule.Deny:
						want = "denied"
					case effect == rule.Allow && (tool == "pay" || highRisk):
						want = "succeeded"
					case effect == rule.Park && tool == "pay":
						want = "parked rule_parked"
					}
					r.want(r.call(tool, fmt.Sprintf(`{"v":%q}`, spec.Name)), want)
				}
			}
		}
	}
}

var memoryStatements = []statement{
	{says: "spent: a sum over time", show: func(r *trial) {
		r.rule(rule.Spec{Name: "hourly", Tools: []string{"pay"}, When: `spent("amount", "1h") + args.amount <= 100.0`, Effect: rule.Allow})
		r.want(r.call("pay", amount("60")), "succeeded")
		r.want(r.call("pay", amount("50")), "parked gated")
		r.want(r.call("pay", amount("40")), "succeeded")
		r.want(r.call("pay", amount("0.5")), "parked gated")
	}},
	{says: "calls and distinct: numbers over time", open: true, show: func(r *trial) {
		r.rule(rule.Spec{Name: "often", Tools: []string{"pay"}, When: `calls("1h", "agent") >= 2`, Effect: rule.Park})
		r.rule(rule.Spec{Name: "many", Tools: []string{"wipe"}, When: `distinct("currency", "1d") > 1`, Effect: rule.Deny})
		r.want(r.call("pay", amount("1")), "succeeded")
		r.want(r.call("pay", amount("1")), "succeeded")
		r.want(r.call("pay", amount("1")), "parked rule_parked", r.name+"-often")
		r.want(r.call("wipe", `{"currency":"EUR"}`), "succeeded")
		r.want(r.call("wipe", `{"currency":"EUR"}`), "succeeded")
		r.want(r.call("wipe", `{"currency":"USD"}`), "denied", r.name+"-many")
	}},
	{says: "after: a tool that this conversation called before", open: true, show: func(r *trial) {
		r.rule(rule.Spec{Name: "read", Tools: []string{"pay"}, When: `after("read_inbox")`, Effect: rule.Park})
		r.want(r.call("pay", amount("1")), "succeeded")
		r.want(r.call("read_inbox", `{}`), "succeeded")
		r.want(r.call("pay", amount("1")), "parked rule_parked", r.name+"-read")
		r.converse()
		r.want(r.call("pay", amount("1")), "succeeded")
	}},
}

var policyStatements = []statement{
	{says: "a policy asks for M people of a team, each once, and for nobody else", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance")})
		id := r.call("pay", amount("1"))
		r.want(id, "parked rule_parked", r.name)
		r.wantRefusal(r.approve("sam", id, vote{}), "not_asked", "does not ask for your approval")
		r.done(r.approve("ana", id, vote{}))
		r.want(id, "parked rule_parked", "ana")
		r.wantRefusal(r.approve("ana", id, vote{}), "voted", "You have decided on this call")
		r.done(r.approve("ben", id, vote{}))
		r.want(id, "succeeded", "ben")
	}},
	{says: "a policy has alternatives", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance, 1 of compliance\n1 of person cfo")})
		id := r.call("pay", amount("1"))
		r.done(r.approve("ana", id, vote{}))
		r.done(r.approve("cfo", id, vote{}))
		r.want(id, "succeeded")
		id = r.call("pay", amount("2"))
		for _, person := range []string{"ana", "ben"} {
			r.done(r.approve(person, id, vote{}))
			r.want(id, "parked rule_parked")
		}
		r.done(r.approve("kai", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "one person counts for one line", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("1 of finance, 1 of compliance")})
		id := r.call("pay", amount("1"))
		r.done(r.approve("duo", id, vote{}))
		r.want(id, "parked rule_parked")
		r.done(r.approve("ana", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "of several rules that park, all policies have to be met", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("1 of finance")})
		r.done(r.setPolicy(policy.Spec{Name: r.name + "-law", Any: r.needs("1 of compliance")}))
		r.rule(rule.Spec{Name: "law", When: `args.amount > 1000.0`, Effect: rule.Park, Policy: r.name + "-law"})
		id := r.call("pay", amount("2000"))
		r.done(r.approve("ana", id, vote{}))
		r.want(id, "parked rule_parked", r.name+"-law")
		r.done(r.approve("kai", id, vote{}))
		r.want(id, "succeeded")
		id = r.call("pay", amount("10"))
		r.done(r.approve("ana", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "the person for whom the call is made does not approve it", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("1 of finance")})
		id := r.callFor("ana", "pay", amount("1"))
		r.wantRefusal(r.approve("ana", id, vote{}), "self_approval", "made on your behalf")
		r.want(id, "parked rule_parked")
		r.done(r.approve("ben", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "one rejection ends the call, by anybody, unless the policy asks for more", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance")})
		id := r.call("pay", amount("1"))
		r.done(r.approve("ana", id, vote{}))
		r.done(r.reject("sam", id))
		r.want(id, "rejected")
		r.policy(policy.Spec{Any: r.needs("2 of finance"), Rejections: 2})
		id = r.call("pay", amount("2"))
		r.done(r.reject("ana", id))
		r.want(id, "parked rule_parked")
		r.done(r.reject("ben", id))
		r.want(id, "rejected")
	}},
	{says: "votes are about the arguments that were shown, and editors do not approve their edit", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance")})
		id := r.call("pay", amount("1"))
		r.done(r.approve("ana", id, vote{}))
		r.done(r.approve("ben", id, vote{arguments: amount("2")}))
		r.want(id, "parked rule_parked")
		r.wantRefusal(r.approve("ben", id, vote{}), "own_edit", "You wrote this edit")
		r.done(r.approve("ana", id, vote{}))
		r.want(id, "parked rule_parked")
		r.done(r.approve("fay", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "a change of the policy asks again", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance")})
		id := r.call("pay", amount("1"))
		r.done(r.approve("ana", id, vote{}))
		r.policy(policy.Spec{Any: r.needs("2 reviewers")})
		r.wantRefusal(r.approve("ben", id, vote{}), "policy_changed", "The policy changed")
		r.done(r.approve("ben", id, vote{}))
		r.want(id, "parked rule_parked")
		r.done(r.approve("sam", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "a skill has a policy, and a tool another one", show: func(r *trial) {
		r.done(r.setPolicy(policy.Spec{Name: r.name + "-two", Any: r.needs("2 reviewers")}))
		r.done(r.setPolicy(policy.Spec{Name: r.name + "-cfo", Any: r.needs("1 of person cfo")}))
		r.done(r.setSkill(r.name, "policy", r.name+"-two"))
		r.done(r.setTool(r.name, "wipe", "policy", r.name+"-cfo"))
		two, cfo := r.call("pay", amount("1")), r.call("wipe", amount("1"))
		r.done(r.approve("ana", two, vote{}))
		r.want(two, "parked gated", r.name+"-two")
		r.done(r.approve("sam", two, vote{}))
		r.want(two, "succeeded")
		r.wantRefusal(r.approve("ana", cfo, vote{}), "not_asked", "does not ask for your approval")
		r.done(r.approve("cfo", cfo, vote{}))
		r.want(cfo, "succeeded", r.name+"-cfo")
	}},
	{says: "one person breaks the glass only if the policy lets them, and another reviews it", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance")})
		id := r.call("pay", amount("1"))
		r.wantRefusal(r.approve("sam", id, vote{alone: "payroll is due"}), "lets nobody approve it alone", "lets nobody approve alone")
		r.policy(policy.Spec{Any: r.needs("2 of finance"), BreakGlass: true})
		id = r.call("pay", amount("2"))
		r.done(r.approve("sam", id, vote{alone: "payroll is due"}))
		r.want(id, "succeeded", "payroll is due")
		r.wantRefusal(r.reviewGlass("sam", id), "another person has to review", "Another person has to review")
		r.done(r.reviewGlass("ana", id))
		r.want(id, "succeeded", "ana")
		r.wantRefusal(r.reviewGlass("ben", id), "reviewed")
	}},
	{says: "a policy has a time for the decision", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("2 of finance"), ApprovalTimeout: new(duration.Text(time.Second))})
		id := r.call("pay", amount("1"))
		eventually.Holds(r, "the call to expire", func() bool { return r.read("tom", id).status == "expired" })
	}},
}

var grantStatements = []statement{
	{says: "a grant allows exactly the same arguments of the same agent, person and tool, until it is revoked", except: noGrants, show: func(r *trial) {
		id := r.callFor("sam", "pay", `{"v":"x"}`)
		made, refusal := r.makeGrant("ana", id, wantedGrant{})
		r.done(refusal)
		r.want(id, "parked gated")
		r.want(r.callFor("sam", "pay", `{"v":"x"}`), "succeeded")
		r.want(r.callFor("sam", "pay", `{"v":"y"}`), "parked gated")
		r.want(r.callFor("sam", "wipe", `{"v":"x"}`), "parked gated")
		r.want(r.callFor("kai", "pay", `{"v":"x"}`), "parked gated")
		r.want(r.call("pay", `{"v":"x"}`), "parked gated")
		r.done(r.revokeGrant("ben", made))
		r.want(r.callFor("sam", "pay", `{"v":"x"}`), "parked gated")
	}},
	{says: "a grant allows other values of an argument", except: noGrants, show: func(r *trial) {
		for _, one := range []struct{ kind, values, from, matches, differs string }{
			{"one_of", "EUR\nUSD", `"EUR"`, `"USD"`, `"GBP"`},
			{"prefix", "Re:", `"Re: 1"`, `"Re: 2"`, `"Fw: 2"`},
			{"range", "0..100", `50`, `100`, `100.1`},
			{"domain", "example.com", `"a@example.com"`, `"b@example.com"`, `"b@notexample.com"`},
			{"path_below", "/srv/scratch", `"/srv/scratch/a"`, `"/srv/scratch/b/c"`, `"/srv/scratch/../a"`},
			{"anything", "", `"a"`, `{"b":[1]}`, ``},
		} {
			made, refusal := r.makeGrant("ana", r.call("pay", `{"v":`+one.from+`}`), wantedGrant{kind: grant.Kind(one.kind), values: one.values})
			r.done(refusal)
			r.want(r.call("pay", `{"v":`+one.matches+`}`), "succeeded")
			differs := `{"v":` + one.differs + `}`
			if one.differs == "" {
				differs = `{"v":1,"amount":1}`
			}
			r.want(r.call("pay", differs), "parked gated")
			r.done(r.revokeGrant("ana", made))
		}
	}},
	{says: "a grant ends, and has a number of uses", except: noGrants, show: func(r *trial) {
		id := r.call("pay", `{"v":"x"}`)
		_, refusal := r.makeGrant("ana", id, wantedGrant{time: "1000h"})
		r.wantRefusal(refusal, "must be between 1m and 720h", "must be 1m to 720h")
		_, refusal = r.makeGrant("ana", id, wantedGrant{uses: "2", time: "1h"})
		r.done(refusal)
		for _, want := range []string{"succeeded", "succeeded", "parked gated"} {
			r.want(r.call("pay", `{"v":"x"}`), want)
		}
	}},
	{says: "a grant of what was rejected waits for a second person", except: noGrants, show: func(r *trial) {
		r.done(r.reject("ben", r.call("pay", `{"v":"no"}`)))
		made, refusal := r.makeGrant("ana", r.call("pay", `{"v":"x"}`), wantedGrant{kind: grant.Anything})
		r.done(refusal)
		r.want(r.call("pay", `{"v":"y"}`), "parked gated")
		r.wantRefusal(r.confirmGrant("ana", made), "own_grant", "must confirm this grant")
		r.done(r.confirmGrant("ben", made))
		r.want(r.call("pay", `{"v":"y"}`), "succeeded")
	}},
	{says: "tools of high risk and destructive ones take no grants, unless an operator lets them", except: noGrants, show: func(r *trial) {
		for _, tool := range []string{"risky", "wipe"} {
			id := r.call(tool, `{"v":"x"}`)
			_, refusal := r.makeGrant("ana", id, wantedGrant{})
			r.wantRefusal(refusal, "no_grants", "take no grants")
			r.done(r.setTool(r.name, tool, "grants", "true"))
			_, refusal = r.makeGrant("ana", id, wantedGrant{})
			r.done(refusal)
			r.want(r.call(tool, `{"v":"x"}`), "succeeded")
		}
	}},
	{says: "a grant overrides a rule that parks only if the rule says so", except: noGrants, show: func(r *trial) {
		_, refusal := r.makeGrant("ana", r.call("pay", `{"v":0}`), wantedGrant{kind: grant.Anything})
		r.done(refusal)
		r.want(r.call("pay", `{"v":1}`), "succeeded")
		r.rule(rule.Spec{Name: "park", Effect: rule.Park})
		r.want(r.call("pay", `{"v":2}`), "parked rule_parked")
		r.rule(rule.Spec{Name: "park", Effect: rule.Park, Grants: true})
		r.want(r.call("pay", `{"v":3}`), "succeeded")
		r.rule(rule.Spec{Name: "deny", Effect: rule.Deny})
		r.want(r.call("pay", `{"v":4}`), "denied")
	}},
}

var planStatements = []statement{
	{says: "the calls of an approved plan pass once each, in order, without those that the reviewer left out", except: noPlans, show: func(r *trial) {
		plan := r.plan("", `{"v":"a"}`, `{"v":"b"}`, `{"v":"c"}`, `{"v":"d"}`)
		r.wantText(r.readPlan("ana", plan), "Close the month")
		r.done(r.approvePlan("ana", plan, 2))
		for _, one := range []struct{ v, want string }{
			{"d", "parked gated"}, {"a", "succeeded"}, {"b", "succeeded"}, {"a", "parked gated"}, {"c", "parked gated"}, {"e", "parked gated"},
		} {
			r.want(r.call("pay", `{"v":"`+one.v+`"}`), one.want)
		}
	}},
	{says: "the person for whom the calls are made does not decide about the plan, and a rejected one lets nothing pass", except: noPlans, show: func(r *trial) {
		plan := r.plan("ana", `{"v":"a"}`)
		r.wantRefusal(r.approvePlan("ana", plan), "self_approval", "made on your behalf")
		r.done(r.rejectPlan("ben", plan))
		r.wantRefusal(r.approvePlan("fay", plan), "already_decided", "Rejected")
		r.want(r.callFor("ana", "pay", `{"v":"a"}`), "parked gated")
	}},
	{says: "no call passes by a plan that was revoked", except: noPlans, show: func(r *trial) {
		plan := r.plan("", `{"v":"a"}`, `{"v":"b"}`)
		r.done(r.approvePlan("ana", plan))
		r.want(r.call("pay", `{"v":"a"}`), "succeeded")
		r.done(r.revokePlan("ben", plan))
		r.want(r.call("pay", `{"v":"b"}`), "parked gated")
	}},
	{says: "a plan does not override a rule that parks or denies", except: noPlans, show: func(r *trial) {
		plan := r.plan("", `{"v":"a"}`, `{"v":"b"}`)
		r.done(r.approvePlan("ana", plan))
		r.rule(rule.Spec{Name: "park", Effect: rule.Park})
		r.want(r.call("pay", `{"v":"a"}`), "parked rule_parked")
		r.rule(rule.Spec{Name: "deny", Effect: rule.Deny})
		r.want(r.call("pay", `{"v":"b"}`), "denied")
	}},
}

var peopleStatements = []statement{
	{says: "a calendar says who is on call, and gives nobody a vote", except: noPeople, show: func(r *trial) {
		team := r.name + "-duty"
		r.done(r.setCalendar(team, r.serveCalendar("ulf")))
		shown := r.readTeams("olga")
		r.wantText(shown, team)
		if !strings.Contains(shown, "On Call - ulf") && !strings.Contains(shown, "ulf until") {
			r.Errorf("nothing says who is on call:\n%s", shown)
		}
		r.policy(policy.Spec{Any: r.needs("1 of " + team)})
		id := r.call("pay", amount("1"))
		r.wantRefusal(r.approve("ulf", id, vote{}), "not_asked", "does not ask for your approval")
		r.done(r.delegate("olga", team, "ulf"))
		r.done(r.approve("ulf", id, vote{}))
		r.want(id, "succeeded", "ulf")
	}},
	{says: "a call that waits is escalated in steps, which give nobody a vote", show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("1 of compliance")})
		r.done(r.setSkill(r.name, "escalation", "1s: finance, person:cfo\n90%: legal"))
		id := r.call("pay", amount("1"))
		eventually.Holds(r, "the first step to be taken", func() bool {
			return slices.ContainsFunc([]string{`"taken":true`, "(asked)", "was asked"}, func(word string) bool { return strings.Contains(r.read("tom", id).text, word) })
		})
		r.want(id, "parked rule_parked", "finance", "cfo", "legal")
		r.wantRefusal(r.approve("ana", id, vote{}), "not_asked", "does not ask for your approval")
		r.done(r.approve("kai", id, vote{}))
		r.want(id, "succeeded")
	}},
	{says: "a delegate counts for the team", except: noPeople, show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("1 of legal")})
		id := r.call("pay", amount("1"))
		r.wantRefusal(r.approve("sam", id, vote{}), "not_asked", "does not ask for your approval")
		r.wantRefusal(r.delegate("sam", "legal", "ulf"), "forbidden", "there is no form")
		r.done(r.delegate("olga", "legal", "sam"))
		r.done(r.approve("sam", id, vote{}))
		r.want(id, "succeeded", "sam")
	}},
	{says: "a substitute counts for the person who is away", except: noPeople, show: func(r *trial) {
		r.policy(policy.Spec{Any: r.needs("1 of compliance")})
		id := r.call("pay", amount("1"))
		r.wantRefusal(r.approve("ulf", id, vote{}), "not_asked", "does not ask for your approval")
		r.done(r.leave("kai", "ulf"))
		r.done(r.approve("ulf", id, vote{}))
		r.want(id, "succeeded", "ulf")
	}},
	{says: "a reviewer with a limit decides only calls within it", except: noPeople, show: func(r *trial) {
		r.done(r.limitReviewer("tom", "other-*"))
		id := r.call("pay", amount("1"))
		r.wantRefusal(r.approve("tom", id, vote{}), "outside_limit", "outside the limit")
		r.wantRefusal(r.reject("tom", id), "outside_limit", "outside the limit")
		r.done(r.limitReviewer("tom", r.name[:len(r.name)-1]+"*"))
		r.done(r.approve("tom", id, vote{}))
		r.want(id, "succeeded", "tom")
	}},
}

// serveCalendar serves an on-call calendar that names a person now.
func (r *trial) serveCalendar(person string) string {
	const layout = "20060102T150405Z"
	lines := []string{
		"BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//duty//EN", "BEGIN:VEVENT", "UID:1", "DTSTAMP:20260101T000000Z",
		"DTSTART:" + inAnHour().Add(-2*time.Hour).Format(layout), "DTEND:" + inAnHour().Format(layout), "SUMMARY:On Call - " + person, "END:VEVENT", "END:VCALENDAR", "",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/calendar")
		_, _ = io.WriteString(w, strings.Join(lines, "\r\n"))
	}))
	r.Cleanup(server.Close)
	return server.URL
}

// controlStatements leave dual control on.
var controlStatements = []statement{
	{says: "under dual control, a change that loosens waits for a second operator, and one that tightens does not", show: func(r *trial) {
		r.s.runtime.Control.On = true
		r.rule(rule.Spec{Name: "tight", When: `args.amount > 1000.0`, Effect: rule.Deny})
		r.want(r.call("pay", amount("2000")), "denied", r.name+"-tight")
		r.wantRefusal(r.setRule(r.complete(rule.Spec{Name: "loose", When: `args.amount < 10.0`, Effect: rule.Allow})), "change_waits", "waits")
		r.want(r.call("pay", amount("1")), "parked gated")
		change := r.findChange("otto")
		r.wantRefusal(r.approveChange("olga", change), "another operator", "Another operator", "forbidden")
		r.want(r.call("pay", amount("1")), "parked gated")
		r.done(r.approveChange("otto", change))
		r.want(r.call("pay", amount("1")), "succeeded", r.name+"-loose")
		r.wantRefusal(r.setSkill(r.name, "auto_approve", "true"), "change_waits", "waits")
		r.want(r.call("pay", amount("500")), "parked gated")
		r.done(r.approveChange("otto", r.findChange("otto")))
		r.want(r.call("pay", amount("500")), "succeeded")
	}},
	{says: "under dual control, a grant beyond the bounds waits for a second operator", except: noGrants, show: func(r *trial) {
		r.s.runtime.Control.On = true
		id := r.call("pay", `{"v":"x"}`)
		_, refusal := r.makeGrant("ana", id, wantedGrant{})
		r.done(refusal)
		r.want(r.call("pay", `{"v":"x"}`), "succeeded")
		_, refusal = r.makeGrant("ana", id, wantedGrant{kind: grant.Anything})
		r.wantRefusal(refusal, "change_waits", "waits")
		r.want(r.call("pay", `{"v":"y"}`), "parked gated")
		change := r.findChange("otto")
		r.wantRefusal(r.approveChange("ben", change), "forbidden", "needs another role")
		r.done(r.approveChange("otto", change))
		r.want(r.call("pay", `{"v":"y"}`), "succeeded")
	}},
	{says: "under dual control, a grant needs another person if a call was rejected while it waited", except: noGrants, show: func(r *trial) {
		r.s.runtime.Control.On = true
		_, refusal := r.makeGrant("ana", r.call("pay", `{"v":"x"}`), wantedGrant{kind: grant.Anything})
		r.wantRefusal(refusal, "change_waits", "waits")
		r.done(r.reject("ben", r.call("pay", `{"v":"no"}`)))
		r.done(r.approveChange("otto", r.findChange("otto")))
		r.want(r.call("pay", `{"v":"y"}`), "parked gated")
	}},
}

// separationStatements are about settings of the server, which begins again for each of them.
var separationStatements = []statement{
	{says: "with separate roles, nobody becomes operator and reviewer, and of two roles the first counts", except: noPeople, show: func(r *trial) {
		r.s.runtime.Control.On = false
		r.admit("both", identity.Reviewer)
		r.done(r.giveRole("both", identity.Reviewer))
		r.admit("both", identity.Reviewer, identity.Operator)
		r.done(r.delegate("both", "legal", "ulf"))
		r.done(r.approve("both", r.call("pay", amount("1")), vote{}))
		r.replaceServer(func(s *serverSettings) { s.SeparateRoles = true })
		r.converse()
		r.wantRefusal(r.delegate("both", "legal", "tom"), "forbidden", "there is no form")
		id := r.call("pay", amount("2"))
		r.done(r.approve("both", id, vote{}))
		r.want(id, "succeeded", "both")
		r.wantRefusal(r.giveRole("ben", identity.Operator), "either operator or reviewer")
		r.done(r.giveRole("ben", identity.Reviewer))
	}},
	{says: "where personal tokens are switched off, none works", show: func(r *trial) {
		r.done(r.setRule(r.complete(rule.Spec{Name: "before", Effect: rule.Park})))
		login := providertest.New("holdpoint", "")
		r.Cleanup(login.Close)
		r.replaceServer(func(s *serverSettings) {
			s.TokensOff = true
			s.Providers.File = r.file([]map[string]any{{"name": "Company", "issuer": login.URL, "client_id": "holdpoint", "default_roles": []string{"operator"}}})
		})
		r.wantRefusal(r.setRule(r.complete(rule.Spec{Name: "after", Effect: rule.Park})), "switched off", "the credential is unknown")
	}},
}
