package agents

import (
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// assignForm is the form that assigns a skill to an agent.
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

// readAssignment returns the form of the present assignment, or of a new one.
func (h *AssignmentHandler) readAssignment(r *http.Request, a *agent.Agent, skill *agent.Skill) (assignForm, error) {
	f := assignForm{skill: skill, prefix: skill.Name}
	assignments, err := h.agents.Assignments(r.Context(), a.ID)
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

// ChooseTools asks which tools of a skill the agent may use, and for their prefix.
func (h *AssignmentHandler) ChooseTools(w http.ResponseWriter, r *http.Request) {
	a, skill, err := h.agentAndSkill(r, r.URL.Query().Get("skill"))
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f, err := h.readAssignment(r, a, skill)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithAssignment(w, r, http.StatusOK, a, &f, nil)
}

func (h *AssignmentHandler) agentAndSkill(r *http.Request, name string) (*agent.Agent, *agent.Skill, error) {
	a, err := h.agentPages.readAgent(r)
	if err != nil {
		return nil, nil, err
	}
	skill, err := h.agents.SkillByName(r.Context(), name)
	return a, skill, err
}

func (h *AssignmentHandler) answerWithAssignment(w http.ResponseWriter, r *http.Request, status int, a *agent.Agent, f *assignForm, wrong shell.Faults) {
	parts, err := h.assignFields(r, f)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	base := present.AgentURL(a.ID)
	form := view.Form{
		Name: "assign-tools", Action: base + "/assign", Send: text.AgentAssign(), Cancel: base, Revision: shell.RevisionText(a.Revision), Parts: parts,
		Note: text.AgentAssignNote(),
	}
	if wrong.ShowIn(&form, false); status == http.StatusConflict {
		present, err := h.assignmentParts(r, a, f.skill)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		shell.ShowConflict(&form, present, false)
	}
	crumbs := []view.Crumb{{URL: "/agents", Word: text.AgentTitle()}, {URL: base, Word: text.Literal(a.Name)}, {Word: text.Literal(f.skill.Name)}}
	h.AnswerWithForm(w, r, status, view.SectionAgents, crumbs, text.AgentAssignTitle(f.skill.Name, a.Name), form)
}

func (h *AssignmentHandler) assignFields(r *http.Request, f *assignForm) ([]view.FormPart, error) {
	choices, err := h.toolChoices(r, f)
	if err != nil {
		return nil, err
	}
	scope := scopeAll
	if f.some {
		scope = scopeSome
	}
	names := view.Field{Name: "tools", Label: text.AgentSkillTools(), Kind: view.FieldNames, Choices: choices}
	if len(choices) == 0 {
		names.Hint = text.AgentNoKnownTools()
	}
	return []view.FormPart{{Title: text.AgentTools(), Fields: []view.Field{
		{Name: "skill", Kind: view.FieldHidden, Value: f.skill.Name},
		{Name: "scope", Label: text.AgentMayUse(), Kind: view.FieldSelect, Value: scope, Required: true, Choices: []view.Choice{
			{Value: scopeAll, Word: text.AgentAllItsTools()}, {Value: scopeSome, Word: text.AgentSelectedTools()},
		}},
		names,
	}}, {Title: text.AgentNames(), Fields: []view.Field{{
		Name: "prefix", Label: text.AgentPrefixLabel(), Kind: view.FieldLine, Value: f.prefix, Code: true,
		Hint: text.AgentPrefixHint(),
	}}}}, nil
}

// assignmentParts returns the parts of the form for the present assignment.
func (h *AssignmentHandler) assignmentParts(r *http.Request, a *agent.Agent, skill *agent.Skill) ([]view.FormPart, error) {
	f, err := h.readAssignment(r, a, skill)
	if err != nil {
		return nil, err
	}
	return h.assignFields(r, &f)
}

// toolChoices lists the tools that the skill's server offers, and the assigned ones that it does not offer.
func (h *AssignmentHandler) toolChoices(r *http.Request, f *assignForm) ([]view.Choice, error) {
	records, err := h.discovery.Records(r.Context(), f.skill.ID)
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
		choice := view.Choice{Value: records[i].Name, Word: text.Literal(records[i].Name), On: named}
		definition, err := h.discovery.Definition(r.Context(), records[i].Current)
		if err != nil {
			return nil, err
		}
		if choice.Hint = text.Literal(present.Beginning(definition.Description)); !records[i].Known {
			choice.Hint = text.AgentNotOffered()
		}
		listed[choice.Value] = true
		choices = append(choices, choice)
	}
	for _, name := range f.tools {
		if !listed[name] {
			choices = append(choices, view.Choice{Value: name, Word: text.Literal(name), On: true, Hint: text.AgentNeverOffered()})
		}
	}
	return choices, nil
}

// Assign lets an agent use a skill, or changes how.
func (h *AssignmentHandler) Assign(w http.ResponseWriter, r *http.Request) {
	a, skill, err := h.agentAndSkill(r, r.PostFormValue("skill"))
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := assignForm{skill: skill, some: r.PostFormValue("scope") == scopeSome, prefix: shell.Line(r, "prefix")}
	spec := agent.AssignmentSpec{Skill: skill.Name, Prefix: &f.prefix}
	f.tools = append([]string{}, r.PostForm["tools"]...)
	var wrong shell.Faults
	if f.some {
		spec.Tools = f.tools
	} else if len(f.tools) > 0 {
		wrong.Add("scope", "is all tools, but some are selected: choose only the selected tools, or clear the selection")
	}
	h.Submit(w, r, wrong, func(known shell.Faults) (string, error) {
		_, err := h.agents.Assign(r.Context(), shell.Actor(r), a.ID, spec, shell.RevisionOf(r), known...)
		return present.AgentURL(a.ID) + "?done=assigned", err
	}, func(status int, wrong shell.Faults) {
		if a, err = h.agentPages.readAgent(r); err != nil { // it may have changed since it was read
			h.Fail(w, r, err)
			return
		}
		h.answerWithAssignment(w, r, status, a, &f, wrong)
	})
}

// Unassign takes a skill away from an agent.
func (h *AssignmentHandler) Unassign(w http.ResponseWriter, r *http.Request) {
	a, err := h.agentPages.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	id, err := uuid.Parse(r.PostFormValue("skill"))
	if err != nil {
		h.Fail(w, r, agent.ErrNotFound)
		return
	}
	if err := h.agents.Unassign(r.Context(), shell.Actor(r), a.ID, id); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, present.AgentURL(a.ID)+"?done=unassigned")
}
