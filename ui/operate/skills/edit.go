package skills

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// NewSkill shows the form that registers a skill.
func (h *Handler) NewSkill(w http.ResponseWriter, r *http.Request) {
	f := emptySkillForm()
	h.answerWithNewSkill(w, r, http.StatusOK, &f, nil)
}

func (h *Handler) answerWithNewSkill(w http.ResponseWriter, r *http.Request, status int, f *skillForm, wrong shell.Faults) {
	var err error
	if f.policyChoice, err = shell.ReadPolicyField(r.Context(), h.agents, f.policy, text.PoliciesFieldSkillHint()); err != nil {
		h.Fail(w, r, err)
		return
	}
	form := view.Form{
		Name: "skill-form", Action: "/skills/new", Send: text.SkillFormRegister(), Cancel: "/skills", Parts: f.listParts(true, h.mayRunPrograms),
		Note: text.SkillFormRegisterNote(),
	}
	wrong.ShowIn(&form, f.secretTyped())
	crumbs := []view.Crumb{{URL: "/skills", Word: text.SkillTitle()}, {Word: text.SkillFormRegister()}}
	h.AnswerWithForm(w, r, status, view.SectionSkills, crumbs, text.SkillFormRegisterTitle(), form)
}

// CreateSkill registers a skill.
func (h *Handler) CreateSkill(w http.ResponseWriter, r *http.Request) {
	f := readSkillForm(r, skillForm{transport: string(tool.HTTP)})
	var wrong shell.Faults
	spec := f.makeSpec(&wrong)
	if f.transport != string(tool.HTTP) && f.transport != string(tool.Gate) && !h.mayRunPrograms {
		wrong.Add("transport", "must be http or gate here: set programs with holdpoint apply, or start the server with --stdio-from-dashboard")
	}
	h.Submit(w, r, wrong, func(known shell.Faults) (string, error) {
		made, err := h.agents.CreateSkill(r.Context(), shell.Actor(r), spec, known...)
		if err != nil {
			return "", err
		}
		return present.SkillURL(made.ID) + "?done=registered", nil
	}, func(status int, wrong shell.Faults) { h.answerWithNewSkill(w, r, status, &f, wrong) })
}

// EditSkill shows the form that changes a skill.
func (h *Handler) EditSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := h.skillOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := formOfSkill(skill)
	h.answerWithSkillForm(w, r, http.StatusOK, skill, &f, nil)
}

func (h *Handler) answerWithSkillForm(w http.ResponseWriter, r *http.Request, status int, skill *agent.Skill, f *skillForm, wrong shell.Faults) {
	var err error
	if f.policyChoice, err = shell.ReadPolicyField(r.Context(), h.agents, f.policy, text.PoliciesFieldSkillHint()); err != nil {
		h.Fail(w, r, err)
		return
	}
	base := present.SkillURL(skill.ID)
	form := view.Form{
		Name: "skill-form", Action: base + "/edit", Send: text.SkillFormSave(), Cancel: base, Revision: shell.RevisionText(skill.Revision),
		Parts: f.listParts(false, h.mayRunPrograms),
		Note:  text.SkillFormSaveNote(),
		Files: skill.Transport == tool.OpenAPI,
	}
	if wrong.ShowIn(&form, f.secretTyped()); status == http.StatusConflict {
		current := formOfSkill(skill)
		current.policyChoice = f.policyChoice
		shell.ShowConflict(&form, current.listParts(false, h.mayRunPrograms), f.secretTyped())
	}
	crumbs := []view.Crumb{{URL: "/skills", Word: text.SkillTitle()}, {URL: base, Word: text.Literal(skill.Name)}, {Word: text.SkillFormEdit()}}
	h.AnswerWithForm(w, r, status, view.SectionSkills, crumbs, text.SkillFormEditTitle(skill.Name), form)
}

// SaveSkill changes a skill, unless another person changed it after the form was made.
func (h *Handler) SaveSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := h.skillOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := readSkillForm(r, formOfSkill(skill))
	var wrong shell.Faults
	patch := f.makePatch(&wrong, skill, h.mayRunPrograms)
	patch.Revision = shell.RevisionOf(r)
	h.Submit(w, r, wrong, func(known shell.Faults) (string, error) {
		_, err := h.agents.UpdateSkill(r.Context(), shell.Actor(r), skill.ID, patch, known...)
		return present.SkillURL(skill.ID) + "?done=saved", err
	}, func(status int, wrong shell.Faults) {
		if skill, err = h.skillOf(r); err != nil { // it may have changed since it was read
			h.Fail(w, r, err)
			return
		}
		h.answerWithSkillForm(w, r, status, skill, &f, wrong)
	})
}

// ConfirmDeleteSkill lists the consequences of deleting a skill.
func (h *Handler) ConfirmDeleteSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := h.skillOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	users, err := h.agents.UsersOf(r.Context(), skill.ID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	waiting, err := h.Waiting(r, history.Filter{Skills: []uuid.UUID{skill.ID}})
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	base := present.SkillURL(skill.ID)
	v := view.Removal{
		Crumbs: []view.Crumb{{URL: "/skills", Word: text.SkillTitle()}, {URL: base, Word: text.Literal(skill.Name)}, {Word: text.SkillDelete()}},
		Name:   skill.Name, URL: base + "/delete", Cancel: base,
		Loses: []text.Message{text.SkillDeleteLoses()},
		Stays: text.SkillDeleteStays(),
	}
	for i := range users {
		v.Users = append(v.Users, view.Use{Name: users[i].Agent, URL: present.AgentURL(users[i].AgentID), Tools: present.ToolsWords(users[i].Tools)})
	}
	if !waiting.IsZero() {
		v.Loses = append(v.Loses, waiting)
	}
	h.AnswerWithRemoval(w, r, view.SectionSkills, v)
}

// DeleteSkill deletes a skill after confirmation.
func (h *Handler) DeleteSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := h.skillOf(r)
	switch {
	case err != nil:
		h.Fail(w, r, err)
		return
	case r.PostFormValue("confirmed") == "":
		h.ConfirmDeleteSkill(w, r)
		return
	}
	if err := h.agents.DeleteSkill(r.Context(), shell.Actor(r), skill.ID); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, "/skills", shell.SkillDeleted)
}

// AskSkill lists a skill's tools again. The skill's page shows the result.
func (h *Handler) AskSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := h.skillOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	failure, err := h.trials.ListAgain(r.Context(), skill.ID, access.Person.ID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if failure != nil {
		shell.Redirect(w, r, present.SkillURL(skill.ID))
		return
	}
	shell.Redirect(w, r, present.SkillURL(skill.ID)+"?done=asked")
}
