package ui

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/view"
)

// assignForm is what a form says of a skill that an agent has, or gets.
type assignForm struct {
	skill  *agent.Skill
	some   bool // only the tools that are named
	tools  []string
	prefix string
}

// The scopes of an assignment.
const (
	scopeAll  = "all"
	scopeSome = "some"
)

// assignedForm is how the agent has the skill, or would have it.
func (u *UI) assignedForm(r *http.Request, a *agent.Agent, skill *agent.Skill) (assignForm, error) {
	f := assignForm{skill: skill, prefix: skill.Name}
	assignments, err := u.cfg.Agents.Assignments(r.Context(), a.ID)
	for i := range assignments {
		x := &assignments[i]
		if x.SkillID != skill.ID {
			continue
		}
		f.some, f.tools = x.Tools != nil, x.Tools
		if x.Prefix != nil {
			f.prefix = *x.Prefix
		}
	}
	return f, err
}

// chooseTools asks which tools of a skill the agent may use, and how they are called.
func (u *UI) chooseTools(w http.ResponseWriter, r *http.Request) {
	a, skill, err := u.agentAndSkill(r, r.URL.Query().Get("skill"))
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f, err := u.assignedForm(r, a, skill)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.answerWithAssignment(w, r, http.StatusOK, a, &f, nil)
}

func (u *UI) agentAndSkill(r *http.Request, name string) (*agent.Agent, *agent.Skill, error) {
	a, err := u.agentOf(r)
	if err != nil {
		return nil, nil, err
	}
	skill, err := u.cfg.Agents.SkillByName(r.Context(), name)
	return a, skill, err
}

func (u *UI) answerWithAssignment(w http.ResponseWriter, r *http.Request, status int, a *agent.Agent, f *assignForm, wrong faults) {
	parts, err := u.assignFields(r, f)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	base := agentURL(a.ID)
	form := view.Form{
		Name: "assign-tools", Action: base + "/assign", Send: "Assign", Cancel: base, Revision: revisionText(a.Revision), Parts: parts,
		Note: "Calls that were approved and not yet sent are denied if the agent may no longer use their tool.",
	}
	if wrong.tell(&form, false); status == http.StatusConflict {
		present, err := u.assignmentParts(r, a, f.skill)
		if err != nil {
			u.fail(w, r, err)
			return
		}
		tellChanged(&form, present, false)
	}
	crumbs := []view.Crumb{{URL: "/agents", Word: "Agents"}, {URL: base, Word: a.Name}, {Word: f.skill.Name}}
	u.answerWithForm(w, r, status, view.SectionAgents, crumbs, "Assign "+f.skill.Name+" to "+a.Name, form)
}

// assignFields are the parts of the form.
func (u *UI) assignFields(r *http.Request, f *assignForm) ([]view.FormPart, error) {
	choices, err := u.toolChoices(r, f)
	if err != nil {
		return nil, err
	}
	scope := scopeAll
	if f.some {
		scope = scopeSome
	}
	names := view.Field{Name: "tools", Label: "Its tools", Kind: view.FieldNames, Choices: choices}
	if len(choices) == 0 {
		names.Hint = "None are known: its server was not asked yet, or offers none."
	}
	return []view.FormPart{{Title: "Tools", Fields: []view.Field{
		{Name: "skill", Kind: view.FieldHidden, Value: f.skill.Name},
		{Name: "scope", Label: "May use", Kind: view.FieldSelect, Value: scope, Required: true, Choices: []view.Choice{
			{Value: scopeAll, Word: "All its tools, also those that it offers later"}, {Value: scopeSome, Word: "Only the tools ticked below"},
		}},
		names,
	}}, {Title: "Names", Fields: []view.Field{{
		Name: "prefix", Label: "Prefix", Kind: view.FieldLine, Value: f.prefix, Code: true,
		Hint: "The agent sees prefix__tool. Left empty, it sees the tools by their own names; those that another skill has too are left out.",
	}}}}, nil
}

// assignmentParts are those of the form as it would be made now.
func (u *UI) assignmentParts(r *http.Request, a *agent.Agent, skill *agent.Skill) ([]view.FormPart, error) {
	f, err := u.assignedForm(r, a, skill)
	if err != nil {
		return nil, err
	}
	return u.assignFields(r, &f)
}

// toolChoices are the tools that the skill's server offers, and those that were named and are not offered.
func (u *UI) toolChoices(r *http.Request, f *assignForm) ([]view.Choice, error) {
	records, err := u.cfg.Discovery.Records(r.Context(), f.skill.ID)
	if err != nil {
		return nil, err
	}
	var choices []view.Choice
	listed := map[string]bool{}
	for i := range records {
		named := slices.Contains(f.tools, records[i].Name)
		if !records[i].Known && !named {
			continue
		}
		choice := view.Choice{Value: records[i].Name, Word: records[i].Name, On: named}
		definition, err := u.cfg.Discovery.Definition(r.Context(), records[i].Current)
		if err != nil {
			return nil, err
		}
		if choice.Hint = beginning(definition.Description); !records[i].Known {
			choice.Hint = "not offered any more"
		}
		listed[choice.Value] = true
		choices = append(choices, choice)
	}
	for _, name := range f.tools {
		if !listed[name] {
			choices = append(choices, view.Choice{Value: name, Word: name, On: true, Hint: "never offered so far"})
		}
	}
	return choices, nil
}

// assign lets an agent use a skill, or changes how.
func (u *UI) assign(w http.ResponseWriter, r *http.Request) {
	a, skill, err := u.agentAndSkill(r, r.PostFormValue("skill"))
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f := assignForm{skill: skill, some: r.PostFormValue("scope") == scopeSome, prefix: line(r, "prefix")}
	spec := agent.AssignmentSpec{Skill: skill.Name, Prefix: &f.prefix}
	f.tools = append([]string{}, r.PostForm["tools"]...)
	var wrong faults
	if f.some {
		spec.Tools = f.tools
	} else if len(f.tools) > 0 {
		wrong.add("scope", "says all tools, and some are ticked: choose only the tools ticked below, or untick them")
	}
	u.submit(w, r, wrong, func(known faults) (string, error) {
		_, err := u.cfg.Agents.Assign(r.Context(), actor(r), a.ID, spec, revisionOf(r), known...)
		return agentURL(a.ID) + "?done=assigned", err
	}, func(status int, wrong faults) {
		if a, err = u.agentOf(r); err != nil { // it may have changed since it was read
			u.fail(w, r, err)
			return
		}
		u.answerWithAssignment(w, r, status, a, &f, wrong)
	})
}

// unassign takes a skill away from an agent.
func (u *UI) unassign(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	id, err := uuid.Parse(r.PostFormValue("skill"))
	if err != nil {
		u.fail(w, r, agent.ErrNotFound)
		return
	}
	if err := u.cfg.Agents.Unassign(r.Context(), actor(r), a.ID, id); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, agentURL(a.ID)+"?done=unassigned", http.StatusSeeOther)
}
