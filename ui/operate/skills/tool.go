package skills

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/secretfield"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// toolPage has the data of the page of a tool.
type toolPage struct {
	skill    *agent.Skill
	record   tool.Record
	now      tool.Definition
	accepted *tool.Definition // nil: none, or the current one
}

// toolOf reads a tool of the skill of the request's path.
func (h *ToolHandler) toolOf(r *http.Request, name string) (*toolPage, error) {
	skill, err := h.skillPages.skillOf(r)
	if err != nil {
		return nil, err
	}
	records, err := h.discovery.Records(r.Context(), skill.ID)
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
	if p.now, err = h.discovery.Definition(r.Context(), p.record.Current); err != nil {
		return nil, err
	}
	if pin := p.record.Accepted; !pin.IsZero() && pin != p.record.Current {
		accepted, err := h.discovery.Definition(r.Context(), pin)
		if err != nil {
			return nil, err
		}
		p.accepted = &accepted
	}
	return p, nil
}

// ShowTool shows one tool.
func (h *ToolHandler) ShowTool(w http.ResponseWriter, r *http.Request) {
	h.answerWithTool(w, r, http.StatusOK, r.URL.Query().Get("tool"), nil, nil)
}

// answerWithTool shows one tool with a notice and with submitted settings. Both may be nil.
func (h *ToolHandler) answerWithTool(w http.ResponseWriter, r *http.Request, status int, name string, n *view.Notice, sent *agent.ToolSettings) {
	t, err := h.toolOf(r, name)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	v := t.presentTool(access.Has(identity.Operator), r.URL.Query().Get("full") != "")
	if v.Notice = n; n == nil {
		v.Notice = t.presentDone(r.URL.Query().Get("done"))
	}
	if v.Settings != nil {
		stored := t.skill.Tools[name].Policy
		shown := stored
		if sent != nil {
			shown = sent.Policy
		}
		if v.Settings.Policy, err = shell.ReadPolicyField(r.Context(), h.agents, shown, text.PoliciesFieldToolHint()); err != nil {
			h.Fail(w, r, err)
			return
		}
		if shown != stored {
			v.Settings.Policy.Now = &view.NowValue{Text: text.Literal(stored)}
		}
	}
	if v.Settings != nil && sent != nil {
		now := v.Settings.Ticks
		v.Settings.Now, v.Settings.Ticks = &now, ticksOf(*sent)
		if field := v.Settings.Select; field != nil && field.Value != sent.Select {
			field.Value, field.Now = sent.Select, &view.NowValue{Text: text.Literal(field.Value)}
		}
		v.Settings.Secrets = t.listSecrets(sent.NotSecret)
	}
	h.Render(w, r, status, SkillToolPage(h.Page(r, view.SectionSkills, text.SkillToolPage(view.Printable(name)), pulse), v))
}

// presentTool presents a tool. A definition can be accepted only if the page shows all of it.
func (t *toolPage) presentTool(operator, full bool) SkillTool {
	s, name := t.skill, t.record.Name
	v := SkillTool{
		SkillURL: present.SkillURL(s.ID), Skill: s.Name, Name: name, WholeURL: present.ToolURL(s.ID, name) + "&full=1",
		Badges: toolBadges(t.record.PinStatus, s.Tools[name]), Words: t.describeState(), Tool: present.Tool(t.now), Facts: t.listFacts(),
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
		if diff, err := hostile.ReadDiff(sortMembers(t.accepted.Raw()), sortMembers(t.now.Raw()), limits); err == nil {
			v.Diff, v.Folded, shown = &diff, diff.Folded || diff.More > 0, true
		}
	}
	if operator {
		v.Settle = t.presentSettle(shown && !v.Folded)
		v.Settings = &ToolForm{
			URL: present.SkillURL(s.ID) + "/tools", Tool: name, Revision: shell.RevisionText(s.Revision), Ticks: ticksOf(s.Tools[name]),
			Secrets: t.listSecrets(s.Tools[name].NotSecret),
		}
		if s.Transport.IsAPI() {
			v.Settings.Select = selectField(s.Tools[name].Select)
		}
	}
	return v
}

func selectField(program string) *view.Field {
	return &view.Field{
		Name: "select", Label: text.SkillToolSelect(), Kind: view.FieldArea, Value: program, Code: true, Rows: 2, Example: "[.items[] | {id, total}]",
		Hint: text.SkillToolSelectHint(),
	}
}

// listSecrets lists the secrets that the definitions declare, and the paths that are marked as not secret. The marks of a form are sent.
func (t *toolPage) listSecrets(sent []string) []SecretTick {
	schemas := [][]byte{t.now.InputSchema}
	if t.accepted != nil {
		schemas = append(schemas, t.accepted.InputSchema)
	}
	stored := t.skill.Tools[t.record.Name].NotSecret
	paths := slices.Concat(secretfield.Declared(schemas...), stored, sent)
	slices.Sort(paths)
	var list []SecretTick
	for _, path := range slices.Compact(paths) {
		tick := SecretTick{Path: path, NotSecret: slices.Contains(sent, path)}
		if now := slices.Contains(stored, path); now != tick.NotSecret {
			tick.Now = &now
		}
		list = append(list, tick)
	}
	return list
}

func ticksOf(s agent.ToolSettings) ToolTicks {
	return ToolTicks{Enabled: !s.Disabled(), HighRisk: s.Risk != "", Idempotent: s.Idempotent, Grants: s.Grants}
}

// sortMembers returns a definition with the members of its objects sorted, as for a pin: their order does not count.
func sortMembers(definition json.RawMessage) []byte {
	value := jsontext.Value(bytes.Clone(definition))
	err := value.Format(jsontext.ReorderRawObjects(true), jsontext.PreserveRawStrings(true),
		jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	if err != nil {
		return definition
	}
	return value
}

// presentSettle returns the forms that accept or refuse the definition, or nil if it is accepted.
func (t *toolPage) presentSettle(whole bool) *Settle {
	if !isUnsettled(t.record.PinStatus) && !t.record.IsRefused() {
		return nil
	}
	base := present.SkillURL(t.skill.ID)
	s := &Settle{Tool: t.record.Name, Pin: t.record.Current.String()}
	if !t.record.IsRefused() {
		s.Refuse = base + "/refuse"
	}
	if s.Accept = base + "/accept"; !whole {
		s.Accept, s.First = "", text.SkillToolShowFirst()
	}
	return s
}

// describeState says whether the definition of a tool is accepted.
func (t *toolPage) describeState() text.Message {
	switch s := t.record.PinStatus; {
	case !s.Known:
		return text.SkillToolStateRemoved()
	case s.IsRefused():
		return text.SkillToolStateRefused()
	case s.IsAccepted():
		return text.SkillToolStateAccepted()
	case s.Accepted.IsZero():
		return text.SkillToolStateNew()
	}
	return text.SkillToolStateChanged()
}

func (t *toolPage) listFacts() []view.Fact {
	list := []view.Fact{
		{Name: text.SkillToolPin(), Text: text.Literal(t.record.Current.String()), Code: true},
		{Name: text.SkillToolFirstOffered(), Time: &t.record.FirstSeen},
		{Name: text.SkillToolChangedAt(), Time: &t.record.Changed},
	}
	if t.accepted != nil {
		list = append(list, view.Fact{Name: text.SkillToolAcceptedPin(), Text: text.Literal(t.accepted.Pin().String()), Code: true})
	}
	if name := t.skill.PolicyOf(t.record.Name); name != "" {
		list = append(list, view.Fact{Name: text.PoliciesField(), Text: text.Literal(name), URL: present.PolicyURL(name)})
	}
	if t.record.RemovedAt != nil {
		list = append(list, view.Fact{Name: text.SkillToolRemovedAt(), Time: t.record.RemovedAt})
	}
	return list
}

// presentDone confirms an action, if the tool's state agrees.
func (t *toolPage) presentDone(done string) *view.Notice {
	n := &view.Notice{Level: view.Good}
	switch {
	case done == "accepted" && t.record.IsAccepted() && !t.record.IsRefused():
		n.Title, n.Text = text.SkillToolAccepted(), text.SkillToolAcceptedText()
	case done == "refused" && t.record.IsRefused():
		n.Title, n.Text = text.SkillToolRefused(), text.SkillToolRefusedText()
	case done == "saved":
		n.Title = text.SkillSaved()
	default:
		return nil
	}
	return n
}

// AcceptTool accepts the definition that was on the screen. The form has its pin.
func (h *ToolHandler) AcceptTool(w http.ResponseWriter, r *http.Request) {
	h.settleTool(w, r, h.agents.AcceptTool, "accepted")
}

// RefuseTool refuses the definition that was on the screen.
func (h *ToolHandler) RefuseTool(w http.ResponseWriter, r *http.Request) {
	h.settleTool(w, r, h.agents.RefuseTool, "refused")
}

func (h *ToolHandler) settleTool(w http.ResponseWriter, r *http.Request,
	settle func(context.Context, audit.Actor, uuid.UUID, string, tool.Pin) error, done string,
) {
	name := r.PostFormValue("tool")
	skill, err := h.skillPages.skillOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pin, err := tool.ParsePin(r.PostFormValue("pin"))
	if err != nil {
		h.answerWithTool(w, r, http.StatusUnprocessableEntity, name, staleNotice(), nil)
		return
	}
	switch err := settle(r.Context(), shell.Actor(r), skill.ID, name, pin); {
	case errors.Is(err, tool.ErrNotCurrent):
		h.answerWithTool(w, r, http.StatusConflict, name, staleNotice(), nil)
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, present.ToolURL(skill.ID, name)+"&done="+done)
	}
}

func staleNotice() *view.Notice {
	return &view.Notice{
		Level: view.Danger, Title: text.SkillToolNotSettled(),
		Text: text.SkillToolNotSettledText(),
	}
}

// loosens reports whether settings need a recent sign-in: without the mark for high risk, approving the tool's calls needs none, with another
// policy, other people may approve them, grants may allow its calls without an approval, and values that are not secret are shown to all who
// see its calls.
func loosens(before, after agent.ToolSettings) bool {
	return before.Risk != "" && after.Risk == "" || before.Policy != "" && after.Policy != before.Policy || !before.Grants && after.Grants ||
		slices.ContainsFunc(after.NotSecret, func(path string) bool { return !slices.Contains(before.NotSecret, path) })
}

// ChangeTool saves the settings of a tool, unless another person changed the skill after the form was made.
func (h *ToolHandler) ChangeTool(w http.ResponseWriter, r *http.Request) {
	name := r.PostFormValue("tool")
	t, err := h.toolOf(r, name)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	sent := agent.ToolSettings{Idempotent: shell.Ticked(r, "idempotent"), Enabled: new(shell.Ticked(r, "enabled")), Policy: shell.Clean(shell.Line(r, "policy"))}
	sent.Grants = shell.Ticked(r, "grants")
	if shell.Ticked(r, "high_risk") {
		sent.Risk = agent.RiskHigh
	}
	if !r.PostForm.Has("policy") {
		sent.Policy = t.skill.Tools[name].Policy
	}
	sent.NotSecret = append([]string{}, r.PostForm["not_secret"]...)
	if loosens(t.skill.Tools[name], sent) && !h.login.Fresh(r, h.proofAge) {
		h.login.Reauthenticate(w, r, present.ToolURL(t.skill.ID, name))
		return
	}
	patch := agent.ToolPatch{
		Risk: &sent.Risk, Idempotent: &sent.Idempotent, Enabled: sent.Enabled, NotSecret: &sent.NotSecret, Policy: &sent.Policy, Grants: &sent.Grants,
		Revision: shell.RevisionOf(r),
	}
	if t.skill.Transport.IsAPI() {
		sent.Select = strings.TrimSpace(shell.Text(r, "select"))
		patch.Select = &sent.Select
	}
	_, err = h.agents.UpdateTool(r.Context(), shell.Actor(r), t.skill.ID, name, patch)
	wrong, invalid := shell.FaultsOf(err)
	switch {
	case invalid:
		words := make([]string, len(wrong))
		for i, one := range wrong {
			words[i] = one.Name + " " + one.Expected
		}
		h.answerWithTool(w, r, http.StatusUnprocessableEntity, name, &view.Notice{
			Level: view.Danger, Title: text.SkillToolNotSaved(), Text: text.Literal(view.Printable(strings.Join(words, "; ")) + "."),
		}, &sent)
	case errors.Is(err, agent.ErrChanged):
		h.answerWithTool(w, r, http.StatusConflict, name, &view.Notice{
			Level: view.Danger, Title: text.SkillToolNotSaved(),
			Text: text.SkillToolSkillChanged(),
		}, &sent)
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, present.ToolURL(t.skill.ID, name)+"&done=saved")
	}
}
