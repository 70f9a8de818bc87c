package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/policy"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// controlled is a registry under dual control, with two operators.
type controlled struct {
	*world

	control    *dualcontrol.Service
	alice, bob uuid.UUID
	operators  []uuid.UUID
}

func newControlled(t *testing.T) *controlled {
	t.Helper()
	w := &controlled{world: &world{t: t, db: worldtest.NewDB(t), box: runtimetest.NewBox(t)}, alice: uuid.New(), bob: uuid.New()}
	w.operators = []uuid.UUID{w.alice, w.bob}
	var err error
	w.control, err = dualcontrol.New(dualcontrol.Config{
		Pool: w.db.Pool(), Box: w.box, On: true,
		Operators: func(context.Context, postgres.Querier) ([]uuid.UUID, error) { return w.operators, nil },
		MayBeOne:  func(_ context.Context, _ postgres.Querier, a, b uuid.UUID) (bool, error) { return a == b, nil },
	})
	check(t, err)
	w.process = w.start(agent.Config{Control: w.control})
	var two policy.Spec
	check(t, json.Unmarshal([]byte(`{"name":"two","any":[{"all":[{"count":2}]}]}`), &two))
	_, err = w.SetPolicy(t.Context(), audit.System(), two, nil)
	check(t, err)
	return w
}

// waits returns the change that waits instead of having been made.
func waits(t *testing.T, err error) dualcontrol.Change {
	t.Helper()
	waiting, ok := errors.AsType[*dualcontrol.WaitsError](err)
	if !ok {
		t.Fatalf("want a change that waits, got %v", err)
	}
	return waiting.Change
}

func TestAutoApproveWaitsForASecondOperator(t *testing.T) {
	t.Parallel()
	w := newControlled(t)
	ctx, alice := t.Context(), audit.Person(w.alice)
	skill, err := w.CreateSkill(ctx, alice, agent.SkillSpec{Name: "ledger", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp"})
	check(t, err)
	_, err = w.UpdateSkill(ctx, alice, skill.ID, agent.SkillPatch{AutoApprove: new(true)})
	change := waits(t, err)
	if want := []dualcontrol.Field{{Field: "auto_approve", Old: "false", New: "true"}}; !slices.Equal(change.Fields, want) || change.Name != "ledger" {
		t.Errorf("change %+v", change)
	}
	if now, _, err := w.FreshSkill(ctx, skill.ID); err != nil || now.AutoApprove || now.Revision != skill.Revision {
		t.Errorf("the skill has changed: %+v, %v", now, err)
	}
	_, err = w.UpdateSkill(ctx, audit.Person(w.bob), skill.ID, agent.SkillPatch{AutoApprove: new(true)})
	if again := waits(t, err); again.ID != change.ID || again.ProposedBy != w.alice {
		t.Errorf("the same proposal again: %+v", again)
	}
	if _, err := w.control.Approve(ctx, w.alice, change.ID, ""); !errors.Is(err, dualcontrol.ErrOwn) {
		t.Errorf("approved by who proposed it: %v", err)
	}
	decided, err := w.control.Approve(ctx, w.bob, change.ID, "fine")
	check(t, err)
	if decided.Status != dualcontrol.Approved || decided.DecidedBy != w.bob || decided.Note != "fine" {
		t.Errorf("decided: %+v", decided)
	}
	if now, _, err := w.Skill(ctx, skill.ID); err != nil || !now.AutoApprove || now.URL != skill.URL {
		t.Errorf("after the approval: %+v, %v", now, err)
	}
	var ended *dualcontrol.EndedError
	if _, err := w.control.Reject(ctx, w.bob, change.ID, ""); !errors.As(err, &ended) {
		t.Errorf("decided twice: %v", err)
	}
	if _, err = w.UpdateSkill(ctx, alice, skill.ID, agent.SkillPatch{AutoApprove: new(false)}); err != nil {
		t.Errorf("tightening waits: %v", err)
	}
}

func TestChangesAreStaleReplacedRejectedAndRefused(t *testing.T) {
	t.Parallel()
	w := newControlled(t)
	ctx, alice := t.Context(), audit.Person(w.alice)
	skill, err := w.CreateSkill(ctx, alice, agent.SkillSpec{Name: "ledger", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp"})
	check(t, err)
	propose := func(patch agent.SkillPatch) dualcontrol.Change {
		t.Helper()
		_, err := w.UpdateSkill(ctx, alice, skill.ID, patch)
		return waits(t, err)
	}
	first := propose(agent.SkillPatch{AutoApprove: new(true)})
	second := propose(agent.SkillPatch{AutoApprove: new(true), Team: new("finance")})
	if was, err := w.control.Get(ctx, first.ID); err != nil || was.Status != dualcontrol.Replaced {
		t.Errorf("the first: %+v, %v", was, err)
	}
	_, err = w.UpdateSkill(ctx, alice, skill.ID, agent.SkillPatch{Team: new("payments")})
	check(t, err)
	if _, err := w.control.Approve(ctx, w.bob, second.ID, ""); !errors.Is(err, dualcontrol.ErrStale) {
		t.Errorf("approved after another change: %v", err)
	}
	if was, err := w.control.Get(ctx, second.ID); err != nil || was.Status != dualcontrol.Stale {
		t.Errorf("the second: %+v, %v", was, err)
	}
	third := propose(agent.SkillPatch{AutoApprove: new(true)})
	if withdrawn, err := w.control.Reject(ctx, w.alice, third.ID, ""); err != nil || withdrawn.Status != dualcontrol.Rejected {
		t.Errorf("withdrawn: %+v, %v", withdrawn, err)
	}
	fourth := propose(agent.SkillPatch{AutoApprove: new(true)})
	w.db.Exec(`UPDATE changes SET expires_at = holdpoint_now() WHERE id = $1`, fourth.ID)
	var ended *dualcontrol.EndedError
	if _, err := w.control.Approve(ctx, w.bob, fourth.ID, ""); !errors.As(err, &ended) || ended.Change.Status != dualcontrol.Expired {
		t.Errorf("approved after its end: %v", err)
	}
	fifth := propose(agent.SkillPatch{AutoApprove: new(true)})
	if list, _, err := w.control.List(ctx, uuid.Nil, 0, true); err != nil || len(list) != 1 || list[0].ID != fifth.ID {
		t.Errorf("pending: %+v, %v", list, err)
	}
	if n := w.db.Count(`changes WHERE sealed IS NOT NULL`); n != 1 {
		t.Errorf("%d changes have what they would apply", n)
	}
	w.operators = []uuid.UUID{w.alice}
	if _, err := w.UpdateSkill(ctx, alice, skill.ID, agent.SkillPatch{AutoApprove: new(true)}); !errors.Is(err, dualcontrol.ErrAlone) {
		t.Errorf("without a second operator: %v", err)
	}
}

func TestApplyUnderDualControl(t *testing.T) {
	t.Parallel()
	w := newControlled(t)
	ctx, alice := t.Context(), audit.Person(w.alice)
	spec := readSpec(t, `{
		"skills": [{"name": "ledger", "transport": "http", "url": "http://127.0.0.1:1/mcp", "auto_approve": true, "headers": {"X-Key": "g3heim"}}],
		"agents": [{"name": "billing", "skills": [{"skill": "ledger"}]}],
		"rules": [
			{"name": "small", "skills": ["mail"], "effect": "allow"},
			{"name": "never", "skills": ["ledger"], "effect": "deny"}
		]}`)
	list := func(changes []agent.Change) []string {
		var all []string
		for _, c := range changes {
			text := c.Action + " " + c.Kind + " " + c.Name
			if c.Waits != "" {
				text += " waits"
			}
			all = append(all, text)
		}
		return all
	}
	dry, err := w.Apply(ctx, alice, spec, true)
	check(t, err)
	changes, err := w.Apply(ctx, alice, spec, false)
	check(t, err)
	want := []string{
		"create skill ledger", "update skill ledger waits", "create agent billing", "create assignment billing/ledger", "create rule small waits", "create rule never",
	}
	if got := list(changes); !slices.Equal(got, want) || !slices.Equal(list(dry), want) {
		t.Errorf("changes %q, in a dry run %q", got, list(dry))
	}
	if n := w.db.Count(`changes`); n != 2 {
		t.Errorf("%d changes", n)
	}
	again, err := w.Apply(ctx, alice, spec, false)
	check(t, err)
	want = []string{
		"update skill ledger waits", "unchanged agent billing", "unchanged assignment billing/ledger", "create rule small waits", "unchanged rule never",
	}
	if got := list(again); !slices.Equal(got, want) || again[0].Waits != changes[1].Waits || w.db.Count(`changes`) != 2 {
		t.Errorf("again: %q", got)
	}
	for _, i := range []int{1, 4} {
		_, err := w.control.Approve(ctx, w.bob, uuid.MustParse(changes[i].Waits), "")
		check(t, err)
	}
	done, err := w.Apply(ctx, alice, spec, false)
	check(t, err)
	if slices.ContainsFunc(done, func(c agent.Change) bool { return c.Action != agent.ActionUnchanged }) {
		t.Errorf("after the approvals: %q", list(done))
	}
	rules, err := w.ListRules(ctx)
	check(t, err)
	if len(rules) != 2 || rules[1].Name != "small" || rules[1].ChangedBy != w.bob {
		t.Errorf("rules %+v", rules)
	}
	if err := w.DeleteRule(ctx, alice, "never"); waits(t, err).Action != agent.ActionDelete {
		t.Errorf("delete a rule that denies: %v", err)
	}
	check(t, w.DeleteRule(ctx, alice, "small"))
}

// TestARuleKeepsItsSkill: what an operator set on a skill is gone when the skill is deleted, and a rule would let calls of a new one pass.
func TestARuleKeepsItsSkill(t *testing.T) {
	t.Parallel()
	w := newControlled(t)
	ctx, alice := t.Context(), audit.Person(w.alice)
	spec := agent.SkillSpec{Name: "ledger", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp", Tools: map[string]agent.ToolSettings{"write": {Risk: agent.RiskHigh}}}
	skill, err := w.CreateSkill(ctx, alice, spec)
	check(t, err)
	_, err = w.SetRule(ctx, audit.System(), rule.Spec{Name: "all", Skills: []string{"led*"}, Effect: rule.Allow}, nil)
	check(t, err)
	_, err = w.UpdateSkill(ctx, alice, skill.ID, agent.SkillPatch{URL: new("http://127.0.0.1:2/mcp")})
	waits(t, err)
	check(t, w.DeleteSkill(ctx, alice, skill.ID))
	spec.Tools = nil
	_, err = w.CreateSkill(ctx, alice, spec)
	change := waits(t, err)
	if _, err := w.SkillByName(ctx, "ledger"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("the skill is there: %v", err)
	}
	_, err = w.control.Approve(ctx, w.bob, change.ID, "")
	check(t, err)
	if made, err := w.SkillByName(ctx, "ledger"); err != nil || made.URL != spec.URL {
		t.Errorf("approved: %+v, %v", made, err)
	}
}

func TestDefinitionsOfAutoApprovedSkillsWait(t *testing.T) {
	t.Parallel()
	w := newControlled(t)
	ctx, alice := t.Context(), audit.Person(w.alice)
	skill, err := w.CreateSkill(ctx, audit.System(), agent.SkillSpec{Name: "ledger", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp", AutoApprove: true})
	check(t, err)
	list := func() tool.Pin {
		t.Helper()
		fresh, server, err := w.FreshSkill(ctx, skill.ID)
		check(t, err)
		_, err = w.discovery.List(ctx, server, fresh.TrustNewTools)
		check(t, err)
		status, err := w.discovery.Status(ctx, skill.ID, "read")
		check(t, err)
		return status.Current
	}
	list()
	w.server.Offer(`{"name":"read","description":"new","inputSchema":{"type":"object"}}`)
	w.discovery.ListChanged(skill.ID)
	pin := list()
	change := waits(t, w.AcceptTool(ctx, alice, skill.ID, "read", pin))
	if change.Kind != dualcontrol.Tool || change.Name != "ledger/read" {
		t.Errorf("change %+v", change)
	}
	check(t, w.RefuseTool(ctx, alice, skill.ID, "read", pin))
	_, err = w.control.Approve(ctx, w.bob, change.ID, "")
	check(t, err)
	if status, err := w.discovery.Status(ctx, skill.ID, "read"); err != nil || !status.IsAccepted() || status.IsRefused() {
		t.Errorf("status %+v, %v", status, err)
	}
}

// settingCase says whether a change of a setting loosens.
type settingCase struct {
	skill string // the skill; empty: one over HTTP
	tight string // a patch
	loose string // a patch that loosens after tight; empty: a change of the setting does not loosen
	plain string // a patch that does not loosen after tight
	why   string // a change does not loosen, or is not tried here
}

const (
	apiSkill   = `{"transport":"http-api","base_url":"http://127.0.0.1:1","endpoints":[{"name":"get","method":"GET","path":"/a"}],"auto_approve":true}`
	stdioSkill = `{"transport":"stdio","command":["npx","server"],"auto_approve":true}`
)

// TestEverySettingLoosensOrNot fails for a new setting of a skill, a tool or an agent until somebody decides whether a change of it loosens.
func TestEverySettingLoosensOrNot(t *testing.T) {
	t.Parallel()
	target := "is tried with url: choosesTarget has it"
	skills := map[string]settingCase{
		"auto_approve":      {tight: `{"auto_approve":false}`, loose: `{"auto_approve":true}`},
		"trust_new_tools":   {tight: `{"trust_new_tools":false}`, loose: `{"trust_new_tools":true}`},
		"resources":         {tight: `{"resources":"gated"}`, loose: `{"resources":"pass"}`},
		"edits":             {tight: `{"edits":"by_risk"}`, loose: `{"edits":"alone"}`, plain: `{"edits":"second"}`},
		"questions":         {tight: `{"questions":"reviewer"}`, loose: `{"questions":"client"}`},
		"tools":             {tight: `{"tools":{"write":{"risk":"high"}}}`, loose: `{"tools":{"write":{"risk":"high"},"read":{"grants":true}}}`, plain: `{"tools":{"write":{"risk":"high"},"read":{"risk":"high"}}}`},
		"url":               {tight: `{"auto_approve":true}`, loose: `{"url":"http://127.0.0.1:2/mcp"}`},
		"base_url":          {skill: apiSkill, loose: `{"base_url":"http://127.0.0.1:2"}`},
		"endpoints":         {skill: apiSkill, loose: `{"endpoints":[{"name":"get","method":"GET","path":"/b"}]}`},
		"command":           {skill: stdioSkill, loose: `{"command":["npx","another"]}`},
		"env":               {skill: stdioSkill, loose: `{"env":{"NODE_OPTIONS":"--require x"}}`},
		"transport":         {why: target},
		"run_as":            {why: target},
		"paths":             {why: target},
		"spec":              {why: target},
		"document":          {why: target},
		"headers":           {plain: `{"headers":{"X-Key":"k"}}`, why: "a credential: it is the server's matter what it allows"},
		"auth":              {why: "a credential"},
		"oauth":             {why: "a credential"},
		"connection":        {why: "a credential"},
		"include":           {why: "tools that it adds are new, and so parked"},
		"exclude":           {why: "likewise"},
		"preview":           {why: "more is shown"},
		"output_schemas":    {why: "results are not judged"},
		"approval_timeout":  {plain: `{"approval_timeout":"1h"}`},
		"approval_validity": {plain: `{"approval_validity":"1h"}`, why: "the call was approved"},
		"call_timeout":      {plain: `{"call_timeout":"1h"}`},
		"identity_headers":  {why: "tells the server who calls"},
		"team":              {plain: `{"team":"finance"}`, why: "somebody still decides"},
		"escalate_to":       {why: "likewise"},
		"escalation":        {why: "likewise"},
		"name":              {why: "cannot be changed"},
		"host":              {why: target},
		"release_time":      {why: "the call was approved, and is released once"},
		"policy":            {tight: `{"policy":"two"}`, loose: `{"policy":""}`},
	}
	tools := map[string]settingCase{
		"risk":       {tight: `{"risk":"high"}`, loose: `{"risk":""}`},
		"enabled":    {tight: `{"enabled":false}`, loose: `{"enabled":true}`},
		"idempotent": {plain: `{"idempotent":true}`, why: "the call was approved, and has the same effect"},
		"select":     {why: "reduces results"},
		"policy":     {tight: `{"policy":"two"}`, loose: `{"policy":""}`},
		"grants":     {tight: `{"grants":false}`, loose: `{"grants":true}`},
		"not_secret": {plain: `{"not_secret":["/a"]}`, why: "reviewers see more"},
	}
	agents := map[string]string{
		"name": "", "instructions": "", "model": "its calls are judged", "wait_budget": "", "error_style": "", "pending_as": "", "reply_timeout": "", "limits": "they bound the number of calls",
		"team": "somebody still decides", "escalate_to": "", "escalation": "", "skills": "calls of the skill are judged as those of other agents",
		"plans": "a reviewer approves each plan",
	}
	for name := range jsonMembers(reflect.TypeFor[agent.AgentSpec]()) {
		if _, decided := agents[name]; !decided {
			t.Errorf("setting %s of an agent: say here whether a change of it loosens", name)
		}
	}
	for name := range jsonMembers(reflect.TypeFor[agent.SkillSpec]()) {
		c, decided := skills[name]
		if !decided {
			t.Errorf("setting %s of a skill: say here whether a change of it loosens, and see loosenings", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newControlled(t)
			spec := agent.SkillSpec{Name: "ledger"}
			check(t, json.Unmarshal([]byte(orText(c.skill, `{"transport":"http","url":"http://127.0.0.1:1/mcp"}`)), &spec))
			skill, err := w.CreateSkill(t.Context(), audit.System(), spec)
			check(t, err)
			c.try(t, w, func(by audit.Actor, patch string) error {
				var p agent.SkillPatch
				check(t, json.Unmarshal([]byte(patch), &p))
				_, err := w.UpdateSkill(t.Context(), by, skill.ID, p)
				return err
			})
		})
	}
	for name := range jsonMembers(reflect.TypeFor[agent.ToolSettings]()) {
		c, decided := tools[name]
		if !decided {
			t.Errorf("setting %s of a tool: say here whether a change of it loosens, and see ToolSettings.loosens", name)
			continue
		}
		t.Run("tools."+name, func(t *testing.T) {
			t.Parallel()
			w := newControlled(t)
			skill, err := w.CreateSkill(t.Context(), audit.System(), agent.SkillSpec{
				Name: "ledger", Transport: tool.HTTP, URL: "http://127.0.0.1:1/mcp", Tools: map[string]agent.ToolSettings{"write": {Idempotent: true, Risk: agent.RiskHigh}},
			})
			check(t, err)
			c.try(t, w, func(by audit.Actor, patch string) error {
				var p agent.ToolPatch
				check(t, json.Unmarshal([]byte(patch), &p))
				_, err := w.UpdateTool(t.Context(), by, skill.ID, "write", p)
				return err
			})
		})
	}
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (c *settingCase) try(t *testing.T, w *controlled, change func(by audit.Actor, patch string) error) {
	t.Helper()
	alice := audit.Person(w.alice)
	if c.tight != "" {
		check(t, change(audit.System(), c.tight))
	}
	if c.plain != "" {
		check(t, change(alice, c.plain))
		if c.tight != "" {
			check(t, change(audit.System(), c.tight))
		}
	}
	if c.loose == "" {
		if c.plain == "" && c.why == "" && c.tight == "" {
			t.Error("nothing is said about it")
		}
		return
	}
	approved, err := w.control.Approve(t.Context(), w.bob, waits(t, change(alice, c.loose)).ID, "")
	check(t, err)
	if approved.Status != dualcontrol.Approved {
		t.Errorf("approved: %+v", approved)
	}
	if n := w.db.Count(`changes`); n != 1 {
		t.Errorf("%d changes", n)
	}
	if strings.HasPrefix(c.tight, `{"auto_approve":true`) || c.skill != "" {
		return // another target loosens in both directions
	}
	check(t, change(alice, c.tight))
}

// jsonMembers returns the members of a struct in JSON, with those of embedded structs.
func jsonMembers(of reflect.Type) map[string]bool {
	members := map[string]bool{}
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			for inner := range jsonMembers(field.Type) {
				members[inner] = true
			}
		case name != "" && name != "-":
			members[name] = true
		}
	}
	return members
}
