package ui

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/view"
)

// agentForm is what a form says of an agent.
type agentForm struct {
	name, instructions, waitBudget, team, escalateTo string
	endpoint                                         endpointForm
	model                                            modelForm
}

func (u *UI) formOfAgent(r *http.Request, a *agent.Agent) (agentForm, error) {
	f := agentForm{
		name: a.Name, instructions: a.Instructions, waitBudget: durationWords(a.WaitBudget), team: a.Team, escalateTo: a.EscalateTo,
		endpoint: formOfEndpoint(a), model: formOfModel(a),
	}
	stored, err := u.cfg.Agents.Model(r.Context(), a.ID)
	f.model.keyed = stored != nil && stored.APIKey != ""
	return f, err
}

func readAgentForm(r *http.Request, before agentForm) agentForm {
	f := agentForm{
		name: before.name, instructions: text(r, "instructions"), waitBudget: line(r, "wait_budget"),
		team: line(r, "team"), escalateTo: line(r, "escalate_to"),
		endpoint: readEndpointForm(r), model: readModelForm(r, before.model.keyed),
	}
	if before.name == "" {
		f.name = line(r, "name")
	}
	return f
}

func (f *agentForm) fields(fresh bool) []view.FormPart {
	part := view.FormPart{Title: "Agent"}
	if fresh {
		part.Fields = append(part.Fields, view.Field{
			Name: "name", Label: "Name", Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "billing",
			Hint: "Part of its endpoint's address. a–z, 0–9, - and _; it cannot be changed later.",
		})
	}
	part.Fields = append(part.Fields,
		view.Field{
			Name: "wait_budget", Label: "A response waits", Kind: view.FieldLine, Value: f.waitBudget, Required: true, Code: true,
			Hint: "How long a response is held open for a decision, for clients that know no tasks. Then the agent is told how to ask again: 50s, 5m.",
		},
		view.Field{
			Name: "instructions", Label: "Instructions", Kind: view.FieldArea, Value: f.instructions, Rows: 5,
			Hint: "What it is told about its work. Its client gets them when it connects.",
		})
	return []view.FormPart{part, f.endpoint.part(), attentionPart(f.team, f.escalateTo, "everybody"), f.model.part()}
}

// newAgent asks for an agent to make.
func (u *UI) newAgent(w http.ResponseWriter, r *http.Request) {
	u.answerWithNewAgent(w, r, http.StatusOK, &agentForm{
		waitBudget: durationWords(agent.DefaultWaitBudget), endpoint: endpointForm{errorStyle: agent.ErrorStyleMCP},
	}, nil)
}

func (u *UI) answerWithNewAgent(w http.ResponseWriter, r *http.Request, status int, f *agentForm, wrong faults) {
	form := view.Form{Name: "agent-form", Action: "/agents/new", Send: "Create", Cancel: "/agents", Parts: f.fields(true)}
	wrong.tell(&form, f.model.apiKey != "")
	crumbs := []view.Crumb{{URL: "/agents", Word: "Agents"}, {Word: "Create"}}
	u.answerWithForm(w, r, status, view.SectionAgents, crumbs, "Create an agent", form)
}

// createAgent makes an agent.
func (u *UI) createAgent(w http.ResponseWriter, r *http.Request) {
	f := readAgentForm(r, agentForm{})
	var wrong faults
	spec := agent.AgentSpec{
		Name: f.name, Instructions: f.instructions, WaitBudget: wrong.duration("wait_budget", f.waitBudget),
		Team: f.team, EscalateTo: f.escalateTo, ErrorStyle: f.endpoint.errorStyle,
		ReplyTimeout: f.endpoint.replyTimeoutOf(&wrong), Limits: f.model.limit(f.endpoint.limits(&wrong), &wrong),
	}
	if m := f.model.spec(&wrong); *m != (agent.ModelSpec{}) {
		spec.Model = m
	}
	u.submit(w, r, wrong, func(known faults) (string, error) {
		made, err := u.cfg.Agents.CreateAgent(r.Context(), actor(r), spec, known...)
		if err != nil {
			return "", err
		}
		return agentURL(made.ID) + "?done=created", nil
	}, func(status int, wrong faults) { u.answerWithNewAgent(w, r, status, &f, wrong) })
}

// editAgent asks what to change of an agent.
func (u *UI) editAgent(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f, err := u.formOfAgent(r, a)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.answerWithAgentForm(w, r, http.StatusOK, a, &f, nil)
}

func (u *UI) answerWithAgentForm(w http.ResponseWriter, r *http.Request, status int, a *agent.Agent, f *agentForm, wrong faults) {
	base := agentURL(a.ID)
	form := view.Form{
		Name: "agent-form", Action: base + "/edit", Send: "Save", Cancel: base, Revision: revisionText(a.Revision), Parts: f.fields(false),
	}
	if wrong.tell(&form, f.model.apiKey != ""); status == http.StatusConflict {
		present, err := u.formOfAgent(r, a)
		if err != nil {
			u.fail(w, r, err)
			return
		}
		tellChanged(&form, present.fields(false), f.model.apiKey != "")
	}
	crumbs := []view.Crumb{{URL: "/agents", Word: "Agents"}, {URL: base, Word: a.Name}, {Word: "Edit"}}
	u.answerWithForm(w, r, status, view.SectionAgents, crumbs, "Edit "+a.Name, form)
}

// saveAgent changes an agent, unless somebody else did since the form was made.
func (u *UI) saveAgent(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	before, err := u.formOfAgent(r, a)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	f := readAgentForm(r, before)
	var wrong faults
	patch := agent.AgentPatch{
		Instructions: &f.instructions, WaitBudget: wrong.duration("wait_budget", f.waitBudget),
		Team: &f.team, EscalateTo: &f.escalateTo, Model: f.model.spec(&wrong), Revision: revisionOf(r),
		ErrorStyle: &f.endpoint.errorStyle, ReplyTimeout: f.endpoint.replyTimeoutOf(&wrong), Limits: f.model.limit(f.endpoint.limits(&wrong), &wrong),
	}
	u.submit(w, r, wrong, func(known faults) (string, error) {
		_, err := u.cfg.Agents.UpdateAgent(r.Context(), actor(r), a.ID, patch, known...)
		return agentURL(a.ID) + "?done=saved", err
	}, func(status int, wrong faults) {
		if a, err = u.agentOf(r); err != nil { // it may have changed since it was read
			u.fail(w, r, err)
			return
		}
		u.answerWithAgentForm(w, r, status, a, &f, wrong)
	})
}

// confirmDeleteAgent says what deleting an agent means.
func (u *UI) confirmDeleteAgent(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	keys, err := u.cfg.Agents.KeyCounts(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	waiting, err := u.waiting(r, call.Filter{Agents: []uuid.UUID{a.ID}})
	if err != nil {
		u.fail(w, r, err)
		return
	}
	base := agentURL(a.ID)
	v := view.Removal{
		Crumbs: []view.Crumb{{URL: "/agents", Word: "Agents"}, {URL: base, Word: a.Name}, {Word: "Delete"}},
		Kind:   "agent", Name: a.Name, URL: base + "/delete", Cancel: base,
		Loses: []string{"Its conversations end.", keysLost(keys[a.ID])},
		Stays: "What was recorded of its calls and decisions stays.",
	}
	if waiting != "" {
		v.Loses = append(v.Loses, waiting)
	}
	u.answerWithRemoval(w, r, view.SectionAgents, v)
}

func keysLost(n int) string {
	if n == 0 {
		return "It has no valid key: nobody is cut off."
	}
	return plural(n, "key stops", "keys stop") + " working at once."
}

// deleteAgent deletes an agent, after a second step.
func (u *UI) deleteAgent(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	switch {
	case err != nil:
		u.fail(w, r, err)
		return
	case r.PostFormValue("confirmed") == "":
		u.confirmDeleteAgent(w, r)
		return
	}
	if err := u.cfg.Agents.DeleteAgent(r.Context(), actor(r), a.ID); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/agents", http.StatusSeeOther)
}

// makeKey makes a key and shows it, this once. There is no address at which it could be seen again.
func (u *UI) makeKey(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	_, secret, err := u.cfg.Agents.CreateKey(r.Context(), actor(r), a.ID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	page := u.page(r, view.SectionAgents, "Key of "+printable(a.Name), pulse)
	u.render(w, r, http.StatusOK, view.KeyPage(page, view.NewKey{
		Agent: a.Name, URL: agentURL(a.ID), Key: secret, Connect: u.howToConnect(a.Name, secret),
	}))
}

// revokeKey ends a key of the agent.
func (u *UI) revokeKey(w http.ResponseWriter, r *http.Request) {
	a, err := u.agentOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	keys, err := u.cfg.Agents.Keys(r.Context(), a.ID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	var id uuid.UUID
	for i := range keys {
		if keys[i].ID.String() == r.PathValue("key") {
			id = keys[i].ID
		}
	}
	if err := u.cfg.Agents.RevokeKey(r.Context(), actor(r), id); err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, agentURL(a.ID)+"?done=revoked", http.StatusSeeOther)
}
