package rules

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ruleForm is the form of a rule.
type ruleForm struct {
	of       string // the name of the rule that is edited; empty: a new one
	spec     rule.Spec
	revision string       // of the rule that is edited
	note     text.Message // beside the button
	replay   *Replay      // nil: it was not replayed
}

func readForm(r *http.Request, of string) *ruleForm {
	names := func(field string) []string {
		var list []string
		for _, one := range r.PostForm[field] {
			if one = strings.TrimSpace(shell.Clean(one)); one != "" {
				list = append(list, one)
			}
		}
		return list
	}
	return &ruleForm{of: of, revision: r.PostFormValue("revision"), spec: rule.Spec{
		Name: cmp.Or(of, shell.Clean(shell.Line(r, "name"))), Agents: names("agents"), Skills: names("skills"), Tools: names("tools"),
		When: shell.Clean(shell.Text(r, "when")), Effect: rule.Effect(shell.Line(r, "effect")), Mode: rule.Mode(shell.Line(r, "mode")),
		Message: shell.Clean(shell.Line(r, "message")), HighRisk: shell.Ticked(r, "high_risk"), Grants: shell.Ticked(r, "grants"),
		Policy: shell.Clean(shell.Line(r, "policy")),
	}}
}

// suggestions are names for the scope, and the field of the policy.
type suggestions struct {
	agents, skills, tools []string
	policy                view.Field
}

func (h *Handler) readSuggestions(ctx context.Context, spec rule.Spec) (suggestions, error) {
	var s suggestions
	var err error
	if s.agents, err = h.suggest.AgentNames(ctx); err != nil {
		return s, err
	}
	if s.skills, err = h.suggest.SkillNames(ctx); err != nil {
		return s, err
	}
	if s.policy, err = shell.ReadPolicyField(ctx, h.agents, spec.Policy, text.PoliciesFieldRuleHint()); err != nil {
		return s, err
	}
	found, err := h.agents.CheckRule(ctx, rule.Spec{Skills: spec.Skills})
	if _, invalid := shell.FaultsOf(err); invalid {
		return s, nil
	}
	for _, t := range found.Tools {
		s.tools = append(s.tools, t.Tool)
	}
	slices.Sort(s.tools)
	s.tools = slices.Compact(s.tools)
	return s, err
}

// listParts returns the parts of the form.
func (f *ruleForm) listParts(suggest suggestions, checked Checked) []view.FormPart {
	first := view.FormPart{Title: text.RulesRule(), Words: text.RulesScopeLead()}
	if f.of == "" {
		first.Fields = append(first.Fields, view.Field{
			Name: "name", Label: text.RulesName(), Kind: view.FieldLine, Value: f.spec.Name, Required: true, Code: true, Example: "small-payments", Hint: text.RulesNameHint(),
		})
	} else {
		first.Fields = append(first.Fields, view.Field{Name: "rule", Kind: view.FieldHidden, Value: f.of})
	}
	first.Fields = append(first.Fields,
		view.Field{Name: "agents", Label: text.RulesAgents(), Kind: view.FieldList, Choices: listChoices(f.spec.Agents, suggest.agents)},
		view.Field{Name: "skills", Label: text.RulesSkills(), Kind: view.FieldList, Choices: listChoices(f.spec.Skills, suggest.skills)},
		view.Field{Name: "tools", Label: text.RulesTools(), Kind: view.FieldList, Choices: listChoices(f.spec.Tools, suggest.tools)})
	when := view.FormPart{Title: text.RulesCondition(), Fields: []view.Field{{
		Name: "when", Label: text.RulesCondition(), Kind: view.FieldArea, Value: f.spec.When, Code: true, Rows: 4, Example: `args.amount <= 100.0 && args.currency == "EUR"`,
		Hint: text.RulesConditionHint(), Below: checkedPart(checked), Invalid: len(checked.Problems) > 0, Complete: wordsID,
	}}}
	effects := []view.Choice{
		{Value: string(rule.Park), Word: text.RulesEffectPark()}, {Value: string(rule.Allow), Word: text.RulesEffectAllow()}, {Value: string(rule.Deny), Word: text.RulesEffectDeny()},
	}
	modes := []view.Choice{
		{Value: string(rule.Enforce), Word: text.RulesModeEnforce()}, {Value: string(rule.Shadow), Word: text.RulesModeShadow()}, {Value: string(rule.Off), Word: text.RulesModeOff()},
	}
	policy := suggest.policy
	policy.Value = f.spec.Policy
	does := view.FormPart{Title: text.RulesEffect(), Fields: []view.Field{
		{Name: "effect", Label: text.RulesEffect(), Kind: view.FieldSelect, Value: string(f.spec.Effect), Choices: effects, Required: true, Hint: text.RulesEffectHint()},
		policy,
		{Name: "mode", Label: text.RulesMode(), Kind: view.FieldSelect, Value: string(f.spec.Mode), Choices: modes, Required: true, Hint: text.RulesModeHint()},
		{Name: "message", Label: text.RulesMessage(), Kind: view.FieldLine, Value: f.spec.Message, Hint: text.RulesMessageHint()},
		{Name: "high_risk", Label: text.RulesHighRisk(), Kind: view.FieldCheck, On: f.spec.HighRisk, Hint: text.RulesHighRiskHint()},
		{Name: "grants", Label: text.GrantsOverride(), Kind: view.FieldCheck, On: f.spec.Grants, Hint: text.GrantsOverrideHint()},
	}}
	return []view.FormPart{first, when, does}
}

// wordsID is the ID of the list of words that complete a condition.
const wordsID = "f-when-words"

// listChoices returns the names of a list, and those that it suggests.
func listChoices(names, suggested []string) []view.Choice {
	var list []view.Choice
	for _, name := range names {
		list = append(list, view.Choice{Value: name, On: true})
	}
	for _, name := range suggested {
		if !slices.Contains(names, name) {
			list = append(list, view.Choice{Value: name})
		}
	}
	return list
}

// answerWithForm answers with the form of a rule. now, if not nil, is what another operator saved meanwhile.
func (h *Handler) answerWithForm(w http.ResponseWriter, r *http.Request, status int, f *ruleForm, wrong shell.Faults, now *ruleForm) {
	suggest, err := h.readSuggestions(r.Context(), f.spec)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	checked, invalid, err := h.check(r.Context(), f.spec)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if wrong == nil && now == nil { // it was only checked
		wrong = invalid
	}
	form := view.Form{
		Name: "rule-form", Action: "/rules/new", Send: text.RulesCreateNow(), Cancel: listURL, Revision: f.revision, Note: f.note,
		Check: &view.FormCheck{URL: "/rules/check", Label: text.RulesCheck(), Field: "when"}, Parts: f.listParts(suggest, checked),
		Buttons: []view.FormButton{{Name: "replay", URL: "/rules/replay", Label: text.RulesReplay()}},
	}
	if f.replay != nil {
		form.Lead = replayPart(*f.replay)
	}
	if form.Note.IsZero() {
		form.Note = text.RulesReplayHelp()
	}
	crumbs, title := []view.Crumb{{URL: listURL, Word: text.RulesTitle()}, {Word: text.RulesCreate()}}, text.RulesCreate()
	if f.of != "" {
		base := present.RuleURL(f.of)
		form.Action, form.Send, form.Cancel = base+"/edit", text.RulesSave(), base
		crumbs, title = []view.Crumb{{URL: listURL, Word: text.RulesTitle()}, {URL: base, Word: text.Literal(f.of)}, {Word: text.RulesEdit()}}, text.RulesEditOf(f.of)
	}
	if len(checked.Problems) > 0 { // they say more than the fault
		wrong = slices.DeleteFunc(wrong, func(one fault.Field) bool { return one.Name == "when" })
	}
	wrong.ShowIn(&form, false)
	if status == http.StatusUnprocessableEntity {
		for _, problem := range checked.Problems {
			form.Problems = append(form.Problems, view.FormProblem{Field: view.FieldID("when"), Text: problem})
		}
	}
	if now != nil {
		shell.ShowConflict(&form, now.listParts(suggest, Checked{}), false)
	}
	h.AnswerWithForm(w, r, status, view.SectionRules, crumbs, title, form)
}

// NewRule asks for a new rule.
func (h *Handler) NewRule(w http.ResponseWriter, r *http.Request) {
	h.answerWithForm(w, r, http.StatusOK, &ruleForm{spec: rule.Spec{Effect: rule.Park, Mode: rule.Enforce}}, nil, nil)
}

// CreateRule creates a rule.
func (h *Handler) CreateRule(w http.ResponseWriter, r *http.Request) {
	f := readForm(r, "")
	h.Submit(w, r, nil, func(shell.Faults) (string, error) {
		made, err := h.agents.SetRule(r.Context(), shell.Actor(r), f.spec, new(int64))
		if errors.Is(err, agent.ErrChanged) {
			err = agent.ErrExists
		}
		return present.RuleURL(made.Name) + "?done=saved", err
	}, func(status int, wrong shell.Faults) { h.answerWithForm(w, r, status, f, wrong, nil) })
}

// readVersions returns the versions of the rule that the request's path names, and its form.
func (h *Handler) readVersions(r *http.Request) ([]agent.RuleVersion, *ruleForm, error) {
	versions, err := h.agents.RuleHistory(r.Context(), r.PathValue("name"))
	if err != nil {
		return nil, nil, err
	}
	f := &ruleForm{of: versions[0].Name, revision: shell.RevisionText(0)}
	if versions[0].Spec != nil {
		f.spec, f.revision = *versions[0].Spec, shell.RevisionText(versions[0].Revision)
	}
	return versions, f, nil
}

// EditRule asks for changes of a rule. With a version in its address, the form has the values of that version.
func (h *Handler) EditRule(w http.ResponseWriter, r *http.Request) {
	versions, f, err := h.readVersions(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	wanted := r.URL.Query().Get("version")
	at := slices.IndexFunc(versions, func(v agent.RuleVersion) bool {
		return v.Spec != nil && (wanted == "" || formatRevision(v.Revision) == wanted)
	})
	if at < 0 {
		h.Fail(w, r, agent.ErrNotFound)
		return
	}
	if f.spec = *versions[at].Spec; at > 0 {
		f.note = text.RulesRestoreNote(formatRevision(versions[at].Revision))
	}
	h.answerWithForm(w, r, http.StatusOK, f, nil, nil)
}

// SaveRule changes a rule, unless another operator has changed it since the form was shown.
func (h *Handler) SaveRule(w http.ResponseWriter, r *http.Request) {
	_, now, err := h.readVersions(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := readForm(r, now.of)
	h.Submit(w, r, nil, func(shell.Faults) (string, error) {
		_, err := h.agents.SetRule(r.Context(), shell.Actor(r), f.spec, shell.RevisionOf(r))
		return present.RuleURL(f.of) + "?done=saved", err
	}, func(status int, wrong shell.Faults) {
		if status != http.StatusConflict {
			h.answerWithForm(w, r, status, f, wrong, nil)
			return
		}
		if _, now, err = h.readVersions(r); err != nil { // it has changed since it was read
			h.Fail(w, r, err)
			return
		}
		f.revision = now.revision
		h.answerWithForm(w, r, status, f, wrong, now)
	})
}

// CheckRule checks the condition of a form, and saves nothing. A script gets only the result.
func (h *Handler) CheckRule(w http.ResponseWriter, r *http.Request) {
	f := readForm(r, shell.Clean(shell.Line(r, "rule")))
	if !shell.PartOnly(r) {
		h.answerWithForm(w, r, http.StatusOK, f, nil, nil)
		return
	}
	checked, _, err := h.check(r.Context(), f.spec)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, checkedPart(checked))
}

// ReplayRule judges recorded calls by the rule of a form, and shows the form again with those that would have got another verdict. It saves nothing.
func (h *Handler) ReplayRule(w http.ResponseWriter, r *http.Request) {
	f := readForm(r, shell.Clean(shell.Line(r, "rule")))
	spec := f.spec
	if spec.Name == "" {
		spec.Name = unnamed
	}
	if err := h.agents.CheckSpec(spec); err != nil {
		if wrong, ok := shell.FaultsOf(err); ok {
			h.answerWithForm(w, r, http.StatusUnprocessableEntity, f, wrong, nil)
		} else {
			h.Fail(w, r, err)
		}
		return
	}
	found, err := h.calls.ReplayRule(r.Context(), spec)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f.replay = presentReplay(&found)
	h.answerWithForm(w, r, http.StatusOK, f, nil, nil)
}

// unnamed is the name of a rule that has none yet.
const unnamed = "new"

// check compares a condition with the tools in scope. It returns the faults of an invalid scope, which has no result.
func (h *Handler) check(ctx context.Context, spec rule.Spec) (Checked, shell.Faults, error) {
	found, err := h.agents.CheckRule(ctx, spec)
	if wrong, ok := shell.FaultsOf(err); ok {
		return Checked{}, wrong, nil
	}
	return presentCheck(&found, spec.When), nil, err
}

func presentCheck(found *agent.RuleCheck, when string) Checked {
	var c Checked
	for _, p := range found.Problems {
		c.Problems = append(c.Problems, describeProblem(p))
	}
	type misfit struct {
		problem condition.Problem
		first   text.Message
		more    int
	}
	var misfits []misfit
	for _, t := range found.Tools {
		for _, p := range t.Problems {
			at := slices.IndexFunc(misfits, func(m misfit) bool { return m.problem == p })
			if at < 0 {
				misfits = append(misfits, misfit{problem: p, first: text.RulesOneTool(t.Tool, t.Skill)})
			} else {
				misfits[at].more++
			}
		}
	}
	for _, m := range misfits {
		tools := m.first
		if m.more > 0 {
			tools = text.RulesMoreTools(m.first, m.more)
		}
		c.Problems = append(c.Problems, text.RulesProblemOf(describeProblem(m.problem), tools))
	}
	switch n := len(found.Tools); {
	case len(c.Problems) > 0:
	case when == "":
		c.Verdict = text.RulesCovers(n)
	case n == 0:
		c.Verdict = text.RulesFitsNone()
	default:
		c.Verdict = text.RulesFits(n)
	}
	if len(c.Problems) == 0 && when != "" {
		c.Says = present.DescribeCondition(when)
	}
	c.Title, c.Fields, c.Functions = text.RulesFields(len(found.Tools)), listFields(found.Tools), present.ListFunctions()
	c.Open = len(c.Fields) <= fewFields
	return c
}

const (
	fewFields = 12
	maxFields = 200
)

// listFields returns the fields of the tools in scope, those of most tools first, and those of every call.
func listFields(tools []agent.ToolCheck) []Field {
	type key struct{ path, kind string }
	count, first, values := map[key]int{}, map[key]int{}, map[key][]string{}
	var keys []key
	for _, t := range tools {
		for _, f := range t.Fields {
			k := key{f.Path, f.Type}
			if count[k]++; count[k] == 1 {
				first[k], keys = len(keys), append(keys, k)
			}
			for _, value := range f.Values {
				if !slices.Contains(values[k], value) {
					values[k] = append(values[k], value)
				}
			}
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(first[a], first[b])) })
	var list []Field
	for _, k := range keys[:min(len(keys), maxFields)] {
		f := Field{Path: k.path, Type: k.kind, Values: values[k], Tools: text.RulesToolCount(count[k])}
		if count[k] == len(tools) {
			f.Tools = text.RulesFieldOfAll()
		}
		list = append(list, f)
	}
	for _, f := range condition.CommonFields() {
		list = append(list, Field{Path: f.Path, Type: f.Type, Tools: text.RulesFieldOfAll()})
	}
	return list
}

func describeProblem(p condition.Problem) text.Message {
	return text.RulesProblemAt(p.Line, p.Column, text.Fault(p.Message))
}
