package agents

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// agentForm is the form of an agent.
type agentForm struct {
	name, instructions, waitBudget, team, escalateTo string
	escalation                                       string // one step in a line
	endpoint                                         endpointForm
	model                                            modelForm
}

func (h *Handler) formOfAgent(r *http.Request, a *agent.Agent) (agentForm, error) {
	f := agentForm{
		name: a.Name, instructions: a.Instructions, waitBudget: present.DurationWords(a.WaitBudget), team: a.Team, escalateTo: a.EscalateTo,
		escalation: approval.FormatEscalation(a.Escalation), endpoint: formOfEndpoint(a), model: formOfModel(a),
	}
	stored, err := h.agents.Model(r.Context(), a.ID)
	f.model.keyed = stored != nil && stored.APIKey != ""
	return f, err
}

func readAgentForm(r *http.Request, before agentForm) agentForm {
	f := agentForm{
		name: before.name, instructions: shell.Text(r, "instructions"), waitBudget: shell.Line(r, "wait_budget"),
		team: shell.Line(r, "team"), escalateTo: shell.Line(r, "escalate_to"), escalation: shell.Text(r, "escalation"),
		endpoint: readEndpointForm(r), model: readModelForm(r, before.model.keyed),
	}
	if before.name == "" {
		f.name = shell.Line(r, "name")
	}
	return f
}

func (f *agentForm) fields(fresh bool) []view.FormPart {
	part := view.FormPart{Title: text.AgentAgent()}
	if fresh {
		part.Fields = append(part.Fields, view.Field{
			Name: "name", Label: text.AgentName(), Kind: view.FieldLine, Value: f.name, Required: true, Code: true, Example: "billing",
			Hint: text.AgentNameHint(),
		})
	}
	part.Fields = append(part.Fields,
		view.Field{
			Name: "wait_budget", Label: text.AgentHoldTime(), Kind: view.FieldLine, Value: f.waitBudget, Required: true, Code: true,
			Hint: text.AgentHoldTimeHint(),
		},
		view.Field{
			Name: "instructions", Label: text.AgentInstructions(), Kind: view.FieldArea, Value: f.instructions, Rows: 5,
			Hint: text.AgentInstructionsHint(),
		})
	return []view.FormPart{part, f.endpoint.part(), shell.AttentionPart(f.team, f.escalateTo, f.escalation, text.FormAgentTeamHint()), f.model.part()}
}

// NewAgent asks for a new agent.
func (h *Handler) NewAgent(w http.ResponseWriter, r *http.Request) {
	h.answerWithNewAgent(w, r, http.StatusOK, &agentForm{
		waitBudget: present.DurationWords(agent.DefaultAgentSettings().WaitBudget), endpoint: usualEndpoint(),
	}, nil)
}

func (h *Handler) answerWithNewAgent(w http.ResponseWriter, r *http.Request, status int, f *agentForm, wrong shell.Faults) {
	form := view.Form{Name: "agent-form", Action: "/agents/new", Send: text.AgentCreateNow(), Cancel: "/agents", Parts: f.fields(true)}
	wrong.ShowIn(&form, f.model.apiKey != "")
	crumbs := []view.Crumb{{URL: "/agents", Word: text.AgentTitle()}, {Word: text.AgentCreateNow()}}
	h.AnswerWithForm(w, r, status, view.SectionAgents, crumbs, text.AgentCreate(), form)
}

// CreateAgent creates an agent.
func (h *Handler) CreateAgent(w http.ResponseWriter, r *http.Request) {
	f := readAgentForm(r, agentForm{})
	var wrong shell.Faults
	spec := agent.AgentSpec{
		Name: f.name, Instructions: f.instructions, WaitBudget: wrong.Duration("wait_budget", f.waitBudget),
		Team: f.team, EscalateTo: f.escalateTo, Escalation: wrong.Escalation("escalation", f.escalation), ErrorStyle: f.endpoint.errorStyle, PendingAs: f.endpoint.pendingAs, Plans: f.endpoint.plans,
		ReplyTimeout: wrong.OptionalDuration("reply_timeout", f.endpoint.replyTimeout), Limits: f.model.addLimits(f.endpoint.limits(&wrong), &wrong),
	}
	if m := f.model.readSpec(&wrong); *m != (agent.ModelSpec{}) {
		spec.Model = m
	}
	h.Submit(w, r, wrong, func(known shell.Faults) (string, error) {
		made, err := h.agents.CreateAgent(r.Context(), shell.Actor(r), spec, known...)
		if err != nil {
			return "", err
		}
		return present.AgentURL(made.ID) + "?done=created", nil
	}, func(status int, wrong shell.Faults) { h.answerWithNewAgent(w, r, status, &f, wrong) })
}

// EditAgent asks for changes of an agent.
func (h *Handler) EditAgent(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f, err := h.formOfAgent(r, a)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.answerWithAgentForm(w, r, http.StatusOK, a, &f, nil)
}

func (h *Handler) answerWithAgentForm(w http.ResponseWriter, r *http.Request, status int, a *agent.Agent, f *agentForm, wrong shell.Faults) {
	base := present.AgentURL(a.ID)
	form := view.Form{
		Name: "agent-form", Action: base + "/edit", Send: text.AgentSave(), Cancel: base, Revision: shell.RevisionText(a.Revision), Parts: f.fields(false),
	}
	if wrong.ShowIn(&form, f.model.apiKey != ""); status == http.StatusConflict {
		present, err := h.formOfAgent(r, a)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		shell.ShowConflict(&form, present.fields(false), f.model.apiKey != "")
	}
	crumbs := []view.Crumb{{URL: "/agents", Word: text.AgentTitle()}, {URL: base, Word: text.Literal(a.Name)}, {Word: text.AgentEdit()}}
	h.AnswerWithForm(w, r, status, view.SectionAgents, crumbs, text.AgentEditOf(a.Name), form)
}

// SaveAgent changes an agent, unless another operator has changed it since the form was shown.
func (h *Handler) SaveAgent(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	before, err := h.formOfAgent(r, a)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	f := readAgentForm(r, before)
	var wrong shell.Faults
	patch := agent.AgentPatch{
		Instructions: &f.instructions, WaitBudget: wrong.Duration("wait_budget", f.waitBudget),
		Team: &f.team, EscalateTo: &f.escalateTo, Escalation: new(wrong.Escalation("escalation", f.escalation)), Model: f.model.readSpec(&wrong), Revision: shell.RevisionOf(r),
		ErrorStyle: &f.endpoint.errorStyle, PendingAs: &f.endpoint.pendingAs, Plans: &f.endpoint.plans, ReplyTimeout: wrong.OptionalDuration("reply_timeout", f.endpoint.replyTimeout),
		Limits: f.model.addLimits(f.endpoint.limits(&wrong), &wrong),
	}
	h.Submit(w, r, wrong, func(known shell.Faults) (string, error) {
		_, err := h.agents.UpdateAgent(r.Context(), shell.Actor(r), a.ID, patch, known...)
		return present.AgentURL(a.ID) + "?done=saved", err
	}, func(status int, wrong shell.Faults) {
		if a, err = h.readAgent(r); err != nil { // it may have changed since it was read
			h.Fail(w, r, err)
			return
		}
		h.answerWithAgentForm(w, r, status, a, &f, wrong)
	})
}

// ConfirmDeleteAgent lists the consequences of deleting an agent.
func (h *Handler) ConfirmDeleteAgent(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	keys, err := h.agents.KeyCounts(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	waiting, err := h.Waiting(r, history.Filter{Agents: []uuid.UUID{a.ID}})
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	base := present.AgentURL(a.ID)
	v := view.Removal{
		Crumbs: []view.Crumb{{URL: "/agents", Word: text.AgentTitle()}, {URL: base, Word: text.Literal(a.Name)}, {Word: text.AgentDelete()}},
		Name:   a.Name, URL: base + "/delete", Cancel: base,
		Loses: []text.Message{text.AgentLosesConversations(), text.AgentLosesNoKeys()},
		Stays: text.AgentRecordsStay(),
	}
	if n := keys[a.ID]; n > 0 {
		v.Loses[1] = text.AgentLosesKeys(n)
	}
	if !waiting.IsZero() {
		v.Loses = append(v.Loses, waiting)
	}
	h.AnswerWithRemoval(w, r, view.SectionAgents, v)
}

// DeleteAgent deletes an agent, after a second step.
func (h *Handler) DeleteAgent(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	switch {
	case err != nil:
		h.Fail(w, r, err)
		return
	case r.PostFormValue("confirmed") == "":
		h.ConfirmDeleteAgent(w, r)
		return
	}
	if err := h.agents.DeleteAgent(r.Context(), shell.Actor(r), a.ID); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.RedirectDone(w, r, "/agents", shell.AgentDeleted)
}

// MakeKey creates a key and shows it once. No address shows it again.
func (h *Handler) MakeKey(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	_, secret, err := h.agents.CreateKey(r.Context(), shell.Actor(r), a.ID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page := h.Page(r, view.SectionAgents, text.AgentKeyOf(view.Printable(a.Name)), pulse)
	h.Render(w, r, http.StatusOK, KeyPage(page, NewKey{
		Agent: a.Name, URL: present.AgentURL(a.ID), Key: secret, Connect: h.describeConnecting(a.Name, secret),
	}))
}

// RevokeKey revokes a key of the agent.
func (h *Handler) RevokeKey(w http.ResponseWriter, r *http.Request) {
	a, err := h.readAgent(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	keys, err := h.agents.Keys(r.Context(), a.ID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	var id uuid.UUID
	for i := range keys {
		if keys[i].ID.String() == r.PathValue("key") {
			id = keys[i].ID
		}
	}
	if err := h.agents.RevokeKey(r.Context(), shell.Actor(r), id); err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, present.AgentURL(a.ID)+"?done=revoked")
}
