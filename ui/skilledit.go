package ui

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// commands reports whether operators may say here which programs this server runs.
func (u *UI) commands() bool { return u.cfg.Server.Stdio && u.cfg.Server.StdioFromDashboard }

// newSkill asks for a skill to register.
func (u *UI) newSkill(w http.ResponseWriter, r *http.Request) {
	f := emptySkillForm()
	u.answerWithNewSkill(w, r, http.StatusOK, &f, nil)
}

func (u *UI) answerWithNewSkill(w http.ResponseWriter, r *http.Request, status int, f *skillForm, wrong faults) {
	form := view.Form{
		Name: "skill-form", Action: "/skills/new", Send: "Register", Cancel: "/skills", Parts: f.fields(true, u.commands()),
		Note: "What its server offers when it is asked first is accepted as it is. What it changes later is for you to accept.",
	}
	wrong.tell(&form, f.secretTyped())
	crumbs := []view.Crumb{{URL: "/skills", Word: "Skills"}, {Word: "Register"}}
	u.answerWithForm(w, r, status, view.SectionSkills, crumbs, "Register a skill", form)
}

func (u *UI) answerWithForm(w http.ResponseWriter, r *http.Request, status int, section view.Section, crumbs []view.Crumb, title string, form view.Form) {
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.render(w, r, status, view.FormPage(u.page(r, section, title, pulse), crumbs, title, form))
}

// createSkill registers a skill.
func (u *UI) createSkill(w http.ResponseWriter, r *http.Request) {
	f := readSkillForm(r, skillForm{transport: string(tool.HTTP)})
	var wrong faults
	spec := f.spec(&wrong)
	if f.transport != string(tool.HTTP) && !u.commands() {
		wrong.add("transport", "must be http here: programs are set with holdpoint apply, or where the server was started with --stdio-from-dashboard")
	}
	u.submit(w, r, wrong, func(known faults) (string, error) {
		made, err := u.cfg.Agents.CreateSkill(r.Context(), actor(r), spec, known...)
		if err != nil {
			return "", err
		}
		return skillURL(made.ID) + "?done=registered", nil
	}, func(status int, wrong faults) { u.answerWithNewSkill(w, r, status, &f, wrong) })
}

// editSkill asks what to change of a skill.
func (u *UI) editSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := u.skillOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f := formOfSkill(skill)
	u.answerWithSkillForm(w, r, http.StatusOK, skill, &f, nil)
}

func (u *UI) answerWithSkillForm(w http.ResponseWriter, r *http.Request, status int, skill *agent.Skill, f *skillForm, wrong faults) {
	base := skillURL(skill.ID)
	form := view.Form{
		Name: "skill-form", Action: base + "/edit", Send: "Save", Cancel: base, Revision: revisionText(skill.Revision),
		Parts: f.fields(false, u.commands()),
		Note:  "A change makes a new revision of the skill: calls of it that were approved and not yet sent are denied.",
		Files: skill.Transport == tool.OpenAPI,
	}
	if wrong.tell(&form, f.secretTyped()); status == http.StatusConflict {
		present := formOfSkill(skill)
		tellChanged(&form, present.fields(false, u.commands()), f.secretTyped())
	}
	crumbs := []view.Crumb{{URL: "/skills", Word: "Skills"}, {URL: base, Word: skill.Name}, {Word: "Edit"}}
	u.answerWithForm(w, r, status, view.SectionSkills, crumbs, "Edit "+skill.Name, form)
}

// saveSkill changes a skill, unless somebody else did since the form was made.
func (u *UI) saveSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := u.skillOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f := readSkillForm(r, formOfSkill(skill))
	var wrong faults
	patch := f.patch(&wrong, skill, u.commands())
	patch.Revision = revisionOf(r)
	u.submit(w, r, wrong, func(known faults) (string, error) {
		_, err := u.cfg.Agents.UpdateSkill(r.Context(), actor(r), skill.ID, patch, known...)
		return skillURL(skill.ID) + "?done=saved", err
	}, func(status int, wrong faults) {
		if skill, err = u.skillOf(r); err != nil { // it may have changed since it was read
			u.fail(w, r, err)
			return
		}
		u.answerWithSkillForm(w, r, status, skill, &f, wrong)
	})
}

// confirmDeleteSkill says what deleting a skill means.
func (u *UI) confirmDeleteSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := u.skillOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	users, err := u.cfg.Agents.UsersOf(r.Context(), skill.ID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	waiting, err := u.waiting(r, call.Filter{Skills: []uuid.UUID{skill.ID}})
	if err != nil {
		u.fail(w, r, err)
		return
	}
	base := skillURL(skill.ID)
	v := view.Removal{
		Crumbs: []view.Crumb{{URL: "/skills", Word: "Skills"}, {URL: base, Word: skill.Name}, {Word: "Delete"}},
		Name:   skill.Name, Kind: "skill", URL: base + "/delete", Cancel: base,
		Loses: []string{"Its connections are forgotten, and their tokens revoked."},
		Stays: "What was recorded of its calls and decisions stays.",
	}
	for i := range users {
		v.Users = append(v.Users, view.Use{Name: users[i].Agent, URL: agentURL(users[i].AgentID), Tools: toolsWords(users[i].Tools)})
	}
	if waiting != "" {
		v.Loses = append(v.Loses, waiting)
	}
	u.answerWithRemoval(w, r, view.SectionSkills, v)
}

func (u *UI) answerWithRemoval(w http.ResponseWriter, r *http.Request, section view.Section, v view.Removal) {
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.render(w, r, http.StatusOK, view.RemovalPage(u.page(r, section, "Delete "+printable(v.Name), pulse), v))
}

// maxWaitingShown bounds how many waiting calls are counted.
const maxWaitingShown = 200

// waiting tells how many calls of a filter wait for a decision, in words; empty: none.
func (u *UI) waiting(r *http.Request, f call.Filter) (string, error) {
	f.Statuses, f.Limit = []call.Status{call.Parked}, maxWaitingShown
	found, err := u.cfg.Calls.Search(r.Context(), f)
	if len(found.Calls) == 0 {
		return "", err
	}
	const denied = " for a decision. Whatever is decided, nothing is sent."
	return plural(len(found.Calls), "call waits", "calls wait") + denied, err
}

// deleteSkill deletes a skill, after a second step.
func (u *UI) deleteSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := u.skillOf(r)
	switch {
	case err != nil:
		u.fail(w, r, err)
		return
	case r.PostFormValue("confirmed") == "":
		u.confirmDeleteSkill(w, r)
		return
	}
	if err := u.cfg.Agents.DeleteSkill(r.Context(), actor(r), skill.ID); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/skills", http.StatusSeeOther)
}

// askSkill lists a skill's tools anew. How that went is on its page.
func (u *UI) askSkill(w http.ResponseWriter, r *http.Request) {
	skill, err := u.skillOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	failure, err := u.cfg.Agents.ListAnew(r.Context(), skill.ID, access.Person.ID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if failure != nil {
		http.Redirect(w, r, skillURL(skill.ID), http.StatusSeeOther)
		return
	}
	http.Redirect(w, r, skillURL(skill.ID)+"?done=asked", http.StatusSeeOther)
}

// mayEdit reports whether the signed-in person may change what is registered.
func mayEdit(r *http.Request) bool {
	access, _ := login.Access(r.Context())
	return access.Has(identity.Operator)
}
