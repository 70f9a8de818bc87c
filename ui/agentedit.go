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
	model                                            agent.ModelSpec // its key is only what was typed
	keyed                                            bool            // a key is stored
}

func (u *UI) formOfAgent(r *http.Request, a *agent.Agent) (agentForm, error) {
	f := agentForm{
		name: a.Name, instructions: a.Instructions, waitBudget: durationWords(a.WaitBudget), team: a.Team, escalateTo: a.EscalateTo,
		endpoint: formOfEndpoint(a),
	}
	if m := modelOf(a); m != nil {
		f.model = *m
	}
	stored, err := u.cfg.Agents.Model(r.Context(), a.ID)
	f.keyed = stored != nil && stored.APIKey != ""
	return f, err
}

func readAgentForm(r *http.Request, before agentForm) agentForm {
	f := agentForm{
		name: before.name, instructions: text(r, "instructions"), waitBudget: line(r, "wait_budget"),
		team: line(r, "team"), escalateTo: line(r, "escalate_to"), keyed: before.keyed,
		endpoint: readEndpointForm(r),
		model: agent.ModelSpec{
			Provider: line(r, "model.provider"), Name: line(r, "model.name"), BaseURL: line(r, "model.base_url"),
			APIKey: line(r, "model.api_key"),
		},
	}
	if before.name == "" {
		f.name = line(r, "name")
	}
	return f
}

// check finds what the registry would take for no model at all.
func (f *agentForm) check(wrong *faults) {
	if m := f.model; m.Provider+m.Name == "" && m.BaseURL+m.APIKey != "" {
		wrong.add("model.provider", "is required with a server or a key: openai, anthropic, …")
	}
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
	key := view.Field{Name: "model.api_key", Label: "Key", Kind: view.FieldSecret, Hint: "Stored encrypted and never shown."}
	if f.keyed {
		key.Hint = "Set, and kept while provider and server stay the same, unless another is given."
	}
	return []view.FormPart{
		part, f.endpoint.part(), attentionPart(f.team, f.escalateTo, "everybody"),
		{
			Title: "Model", Folded: true, Words: "Only for conversations that Holdpoint runs itself. Clients that connect bring their own.",
			Fields: []view.Field{
				{Name: "model.provider", Label: "Provider", Kind: view.FieldLine, Value: f.model.Provider, Code: true, Example: "openai"},
				{Name: "model.name", Label: "Model", Kind: view.FieldLine, Value: f.model.Name, Code: true},
				{Name: "model.base_url", Label: "Server", Kind: view.FieldLine, Value: f.model.BaseURL, Code: true, Example: "http://127.0.0.1:11434/v1", Hint: "Left out: the provider's own."},
				key,
			},
		},
	}
}

// newAgent asks for an agent to make.
func (u *UI) newAgent(w http.ResponseWriter, r *http.Request) {
	u.answerWithNewAgent(w, r, http.StatusOK, &agentForm{
		waitBudget: durationWords(agent.DefaultWaitBudget), endpoint: endpointForm{errorStyle: agent.ErrorStyleMCP},
	}, nil)
}

func (u *UI) answerWithNewAgent(w http.ResponseWriter, r *http.Request, status int, f *agentForm, wrong faults) {
	form := view.Form{Name: "agent-form", Action: "/agents/new", Send: "Create", Cancel: "/agents", Parts: f.fields(true)}
	wrong.tell(&form, f.model.APIKey != "")
	crumbs := []view.Crumb{{URL: "/agents", Word: "Agents"}, {Word: "Create"}}
	u.answerWithForm(w, r, status, view.SectionAgents, crumbs, "Create an agent", form)
}

// createAgent makes an agent.
func (u *UI) createAgent(w http.ResponseWriter, r *http.Request) {
	f := readAgentForm(r, agentForm{})
	var wrong faults
	f.check(&wrong)
	spec := agent.AgentSpec{
		Name: f.name, Instructions: f.instructions, WaitBudget: wrong.duration("wait_budget", f.waitBudget),
		Team: f.team, EscalateTo: f.escalateTo, ErrorStyle: f.endpoint.errorStyle,
		ReplyTimeout: f.endpoint.replyTimeoutOf(&wrong), Limits: f.endpoint.limits(&wrong),
	}
	if f.model != (agent.ModelSpec{}) {
		spec.Model = &f.model
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
	if wrong.tell(&form, f.model.APIKey != ""); status == http.StatusConflict {
		present, err := u.formOfAgent(r, a)
		if err != nil {
			u.fail(w, r, err)
			return
		}
		tellChanged(&form, present.fields(false), f.model.APIKey != "")
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
	f.check(&wrong)
	patch := agent.AgentPatch{
		Instructions: &f.instructions, WaitBudget: wrong.duration("wait_budget", f.waitBudget),
		Team: &f.team, EscalateTo: &f.escalateTo, Model: &f.model, Revision: revisionOf(r),
		ErrorStyle: &f.endpoint.errorStyle, ReplyTimeout: f.endpoint.replyTimeoutOf(&wrong), Limits: f.endpoint.limits(&wrong),
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
