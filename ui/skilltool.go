package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// toolPage is what the page of one tool is made of.
type toolPage struct {
	skill    *agent.Skill
	record   tool.Record
	now      tool.Definition
	accepted *tool.Definition // nil: none ever was, or it is the present one
}

// toolOf finds a tool of the skill that the request's path names.
func (u *UI) toolOf(r *http.Request, name string) (*toolPage, error) {
	skill, err := u.skillOf(r)
	if err != nil {
		return nil, err
	}
	records, err := u.cfg.Discovery.Records(r.Context(), skill.ID)
	if err != nil {
		return nil, err
	}
	p := &toolPage{skill: skill}
	for i := range records {
		if records[i].Name == name {
			p.record = records[i]
		}
	}
	if p.record.Name == "" {
		return nil, tool.ErrNotFound
	}
	if p.now, err = u.cfg.Discovery.Definition(r.Context(), p.record.Current); err != nil {
		return nil, err
	}
	if pin := p.record.Accepted; !pin.IsZero() && pin != p.record.Current {
		accepted, err := u.cfg.Discovery.Definition(r.Context(), pin)
		if err != nil {
			return nil, err
		}
		p.accepted = &accepted
	}
	return p, nil
}

// skillOf is the skill that the request's path names, from the database.
func (u *UI) skillOf(r *http.Request) (*agent.Skill, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	skill, _, err := u.cfg.Agents.FreshSkill(r.Context(), id)
	return skill, err
}

// showTool shows one tool.
func (u *UI) showTool(w http.ResponseWriter, r *http.Request) {
	u.answerWithTool(w, r, http.StatusOK, r.URL.Query().Get("tool"), nil, nil)
}

// answerWithTool shows one tool: with a notice, and with its settings as somebody sent them, where they differ from how they
// are. Either may be nil.
func (u *UI) answerWithTool(w http.ResponseWriter, r *http.Request, status int, name string, n *view.Notice, sent *agent.ToolSettings) {
	t, err := u.toolOf(r, name)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	v := t.present(access.Has(identity.Operator), r.URL.Query().Get("full") != "")
	if v.Notice = n; n == nil {
		v.Notice = t.done(r.URL.Query().Get("done"))
	}
	if v.Settings != nil && sent != nil {
		now := v.Settings.Ticks
		v.Settings.Now, v.Settings.Ticks = &now, ticksOf(*sent)
		if field := v.Settings.Select; field != nil && field.Value != sent.Select {
			field.Value, field.Now = sent.Select, &view.NowValue{Text: field.Value}
		}
	}
	u.render(w, r, status, view.SkillToolPage(u.page(r, view.SectionSkills, "Tool "+printable(name), pulse), v))
}

// present shows a tool. A definition that is not wholly on the page is not to be accepted.
func (t *toolPage) present(operator, full bool) view.SkillTool {
	s, name := t.skill, t.record.Name
	v := view.SkillTool{
		SkillURL: skillURL(s.ID), Skill: s.Name, Name: name, WholeURL: toolURL(s.ID, name) + "&full=1",
		Badges: toolBadges(t.record.PinStatus, s.Tools[name]), Words: t.words(), Tool: presentTool(t.now), Facts: t.facts(),
	}
	limits := hostile.Folded()
	if full {
		limits = hostile.Limits{}
	}
	shown := false
	if whole, err := hostile.ReadPretty(t.now.Raw(), limits); err == nil {
		v.Whole, v.Folded, shown = &whole, whole.Folded, true
	}
	if t.accepted != nil && t.record.Known {
		if diff, err := hostile.ReadDiff(ordered(t.accepted.Raw()), ordered(t.now.Raw()), limits); err == nil {
			v.Diff, v.Folded, shown = &diff, diff.Folded || diff.More > 0, true
		}
	}
	if operator {
		v.Settle = t.settle(shown && !v.Folded)
		v.Settings = &view.ToolForm{
			URL: skillURL(s.ID) + "/tools", Tool: name, Revision: revisionText(s.Revision), Ticks: ticksOf(s.Tools[name]),
		}
		if s.Transport.IsAPI() {
			v.Settings.Select = selectField(s.Tools[name].Select)
		}
	}
	return v
}

func selectField(program string) *view.Field {
	return &view.Field{
		Name: "select", Label: "What of a JSON answer is the result", Kind: view.FieldArea, Value: program, Code: true, Rows: 2, Example: "[.items[] | {id, total}]",
		Hint: "A jq program; nothing: all of it. It is part of the tool’s definition, which changes with it, and is yours to accept then.",
	}
}

func ticksOf(s agent.ToolSettings) view.ToolTicks {
	return view.ToolTicks{Enabled: !s.Disabled(), HighRisk: s.Risk != "", Idempotent: s.Idempotent}
}

// ordered is a definition with the members of its objects in order, in which they are pinned: that a server
// writes them in another order is no change.
func ordered(definition json.RawMessage) []byte {
	value := jsontext.Value(bytes.Clone(definition))
	err := value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(true),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return definition
	}
	return value
}

// settle is what an operator may say of the definition; nil: there is nothing to say.
func (t *toolPage) settle(whole bool) *view.Settle {
	if !unsettled(t.record.PinStatus) && !t.record.IsRefused() {
		return nil
	}
	base := skillURL(t.skill.ID)
	s := &view.Settle{Tool: t.record.Name, Pin: t.record.Current.String()}
	if !t.record.IsRefused() {
		s.Refuse = base + "/refuse"
	}
	if s.Accept = base + "/accept"; !whole {
		s.Accept, s.First = "", "To accept it, see all of it first."
	}
	return s
}

// words say where a tool's definition stands.
func (t *toolPage) words() string {
	switch s := t.record.PinStatus; {
	case !s.Known:
		return "The server does not offer this tool any more; this is how it described it last. Calls of it are denied."
	case s.IsRefused():
		return "An operator refused this definition. Calls of the tool are denied, and no agent is offered it."
	case s.IsAccepted():
		return "The server describes the tool as it was accepted."
	case s.Accepted.IsZero():
		return "The server began to offer this tool after the skill was set up, and nobody accepted it yet. Every call of it waits for a reviewer."
	}
	return "The server describes the tool differently than it was accepted. Until somebody accepts or refuses that, every call of it waits for a reviewer."
}

func (t *toolPage) facts() []view.Fact {
	list := []view.Fact{
		{Name: "Pin", Text: t.record.Current.String(), Code: true},
		{Name: "First offered", Time: &t.record.FirstSeen},
		{Name: "Described so since", Time: &t.record.Changed},
	}
	if t.accepted != nil {
		list = append(list, view.Fact{Name: "Pin of what was accepted", Text: t.accepted.Pin().String(), Code: true})
	}
	if t.record.RemovedAt != nil {
		list = append(list, view.Fact{Name: "Not offered since", Time: t.record.RemovedAt})
	}
	return list
}

// done says what was just done, if that is how it is.
func (t *toolPage) done(what string) *view.Notice {
	n := &view.Notice{Level: view.Good}
	switch {
	case what == "accepted" && t.record.IsAccepted() && !t.record.IsRefused():
		n.Title, n.Text = "Accepted.", "Agents that have the skill are offered the tool as it is now."
	case what == "refused" && t.record.IsRefused():
		n.Title, n.Text = "Refused.", "No call of it is sent while its server offers this definition."
	case what == "saved":
		n.Title = "Saved."
	default:
		return nil
	}
	return n
}

// acceptTool and refuseTool say of a definition what an operator thinks of it: of the one that was on the
// screen, whose pin the form carries.
func (u *UI) acceptTool(w http.ResponseWriter, r *http.Request) {
	u.settleTool(w, r, u.cfg.Agents.AcceptTool, "accepted")
}

func (u *UI) refuseTool(w http.ResponseWriter, r *http.Request) {
	u.settleTool(w, r, u.cfg.Agents.RefuseTool, "refused")
}

func (u *UI) settleTool(w http.ResponseWriter, r *http.Request,
	settle func(context.Context, audit.Actor, uuid.UUID, string, tool.Pin) error, done string,
) {
	name := r.PostFormValue("tool")
	skill, err := u.skillOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pin, err := tool.ParsePin(r.PostFormValue("pin"))
	if err != nil {
		u.answerWithTool(w, r, http.StatusUnprocessableEntity, name, notWhatWasShown(), nil)
		return
	}
	switch err := settle(r.Context(), actor(r), skill.ID, name, pin); {
	case errors.Is(err, tool.ErrNotCurrent):
		u.answerWithTool(w, r, http.StatusConflict, name, notWhatWasShown(), nil)
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, toolURL(skill.ID, name)+"&done="+done, http.StatusSeeOther)
	}
}

func notWhatWasShown() *view.Notice {
	return &view.Notice{
		Level: view.Danger, Title: "Nothing was accepted or refused.",
		Text: "The server changed the definition again after the page was made. This is how it is now.",
	}
}

// changeTool saves what operators say of a tool, unless somebody else changed the skill since the form was made.
func (u *UI) changeTool(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("tool")
	t, err := u.toolOf(r, name)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	sent := agent.ToolSettings{Idempotent: ticked(r, "idempotent"), Enabled: new(ticked(r, "enabled"))}
	if ticked(r, "high_risk") {
		sent.Risk = agent.RiskHigh
	}
	if sent.Risk == "" && t.skill.Tools[name].Risk != "" && !u.login.Fresh(r, u.cfg.ProofAge) {
		u.login.Reauthenticate(w, r, toolURL(t.skill.ID, name)) // or it were a way round the proof that its calls take
		return
	}
	patch := agent.ToolPatch{Risk: &sent.Risk, Idempotent: &sent.Idempotent, Enabled: sent.Enabled, Revision: revisionOf(r)}
	if t.skill.Transport.IsAPI() {
		sent.Select = strings.TrimSpace(text(r, "select"))
		patch.Select = &sent.Select
	}
	_, err = u.cfg.Agents.UpdateTool(r.Context(), actor(r), t.skill.ID, name, patch)
	wrong, invalid := faultsOf(err)
	switch {
	case invalid:
		words := make([]string, len(wrong))
		for i, one := range wrong {
			words[i] = one.Path + " " + one.Message
		}
		u.answerWithTool(w, r, http.StatusUnprocessableEntity, name, &view.Notice{
			Level: view.Danger, Title: "Nothing was saved.", Text: printable(strings.Join(words, "; ")) + ".",
		}, &sent)
	case errors.Is(err, agent.ErrChanged):
		u.answerWithTool(w, r, http.StatusConflict, name, &view.Notice{
			Level: view.Danger, Title: "Nothing was saved.",
			Text: "Somebody else changed the skill after this form was made. What you ticked is kept below, and beside it how it is now, " +
				"where that differs. Saved again, it replaces what is there now.",
		}, &sent)
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, toolURL(t.skill.ID, name)+"&done=saved", http.StatusSeeOther)
	}
}
