package skills

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/operate/connections"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// ShowSkills lists skills by name.
func (h *Handler) ShowSkills(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	if shell.Clean(after) != after {
		after = ""
	}
	skills, next, err := h.agents.Skills(r.Context(), after, 0)
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
	list := Skills{Newest: after == "", MayEdit: access.Has(identity.Operator)}
	for i := range skills {
		row, err := h.skillRow(r.Context(), &skills[i])
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		list.Rows = append(list.Rows, row)
	}
	if next != "" {
		list.Next = "/skills?after=" + next // a name is letters, digits and dashes
	}
	h.Render(w, r, http.StatusOK, SkillsPage(h.Page(r, view.SectionSkills, text.SkillTitle(), pulse), list))
}

func (h *Handler) skillRow(ctx context.Context, s *agent.Skill) (SkillRow, error) {
	row := SkillRow{
		URL: present.SkillURL(s.ID), Name: s.Name, Address: addressOf(s), Health: healthBadge(s.Health), Team: s.Team, At: s.Health.ListedAt,
	}
	statuses, err := h.discovery.Statuses(ctx, s.ID)
	for _, status := range statuses {
		if status.Known {
			row.Tools++
		}
		if isUnsettled(status) {
			row.Unsettled++
		}
	}
	return row, err
}

// isUnsettled reports whether a tool's definition is neither accepted nor refused.
func isUnsettled(s tool.PinStatus) bool { return s.Known && !s.IsAccepted() && !s.IsRefused() }

// ShowSkill shows one skill with its connection and tools.
func (h *Handler) ShowSkill(w http.ResponseWriter, r *http.Request) {
	own, err := h.connections.LinkOfSkill(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	v, err := h.skillPage(r, own, pulse.Now)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Render(w, r, http.StatusOK, SkillPage(h.Page(r, view.SectionSkills, text.SkillPage(view.Printable(own.Skill.Name)), pulse), v))
}

func (h *Handler) skillPage(r *http.Request, own *connections.Link, now time.Time) (Skill, error) {
	access, _ := login.Access(r.Context())
	v := presentSkill(own.Skill)
	v.MayEdit, v.Facts, v.Notice = access.Has(identity.Operator), skillFacts(own.Skill), skillNotice(r.URL.Query().Get("done"), own.Skill)
	links, err := h.linksOfSkill(r.Context(), access, own)
	if err != nil {
		return v, err
	}
	if v.Connections, err = h.connections.Cards(r.Context(), links, own.Skill.ID, now); err != nil {
		return v, err
	}
	if v.Strip, err = h.readStrip(r, own.Skill.ID, now); err != nil {
		return v, err
	}
	if err = h.presentTools(r.Context(), own.Skill, &v); err != nil {
		return v, err
	}
	users, err := h.agents.UsersOf(r.Context(), own.Skill.ID)
	for i := range users {
		v.Users = append(v.Users, view.Use{Name: users[i].Agent, URL: present.AgentURL(users[i].AgentID), Tools: present.ToolsWords(users[i].Tools)})
	}
	return v, err
}

// skillNotice confirms an action, if the skill's state agrees.
func skillNotice(done string, s *agent.Skill) *view.Notice {
	switch {
	case done == "registered" && s.Health.ListedAt == nil:
		return &view.Notice{
			Level: view.Good, Title: text.SkillRegistered(),
			Text: text.SkillRegisteredText(),
		}
	case done == "saved":
		return &view.Notice{Level: view.Good, Title: text.SkillSaved(), Text: text.SkillSavedText()}
	case done == "asked" && s.Health.ErrorKind == "":
		return &view.Notice{Level: view.Good, Title: text.SkillListed(), Text: text.SkillListedText()}
	}
	return nil
}

// linksOfSkill returns the person's own link to a skill, or the shared one, and then the other links that they may see.
func (h *Handler) linksOfSkill(ctx context.Context, access identity.Access, own *connections.Link) ([]*connections.Link, error) {
	others, _, err := h.connections.Links(ctx, access, oauthclient.Filter{SkillID: own.Skill.ID, Limit: connections.PageSize})
	if err != nil {
		return nil, err
	}
	links := []*connections.Link{own}
	for _, other := range others {
		if own.There == nil || other.There.ID != own.There.ID {
			links = append(links, other)
		}
	}
	return links, nil
}

func presentSkill(s *agent.Skill) Skill {
	v := Skill{
		URL: present.SkillURL(s.ID), Name: s.Name, Transport: describeTransport(s.Transport), Address: addressOf(s),
		Team: s.Team, EscalateTo: present.EscalationNames(s.EscalateTo, s.Escalation), Health: healthBadge(s.Health), At: s.Health.ListedAt,
	}
	if s.Health.ErrorKind != "" {
		v.Error = s.Health.Error
	}
	for _, skipped := range s.Health.Skipped {
		v.LeftOut = append(v.LeftOut, view.Problem{Where: skipped.Name, Text: text.Literal(skipped.Reason)})
	}
	return v
}

// addressOf returns the address or command of a skill's server.
func addressOf(s *agent.Skill) string {
	switch {
	case s.Transport == tool.Gate:
		return s.Host
	case s.Transport == tool.Stdio:
		return strings.Join(s.Command, " ")
	case s.URL == "" && s.API != nil:
		return s.API.Spec
	}
	return s.URL
}

func describeTransport(t tool.Transport) text.Message {
	switch t {
	case tool.Stdio:
		return text.SkillTransportStdio()
	case tool.OpenAPI:
		return text.SkillTransportOpenAPI()
	case tool.HTTPAPI:
		return text.SkillTransportAPI()
	case tool.Gate:
		return text.SkillTransportGate()
	case tool.HTTP:
	}
	return text.SkillFormTransportHTTP()
}

// apiFacts returns the facts about an HTTP API.
func apiFacts(s *agent.Skill) []view.Fact {
	api := s.API
	if api == nil {
		return nil
	}
	list := []view.Fact{{Name: text.SkillDocumentFact(), Text: text.Literal(api.Spec), Code: true}}
	if api.Document != "" {
		list = append(list, view.Fact{Name: text.SkillDocumentFact(), Text: text.SkillDocumentDigest(api.Document, s.DocumentSize), Code: true})
	}
	list = append(list, view.Fact{Name: text.SkillFormIncluded(), Text: text.Literal(strings.ReplaceAll(filterLines(api.Include), "\n", "; ")), Code: true},
		view.Fact{Name: text.SkillFormExcluded(), Text: text.Literal(strings.ReplaceAll(filterLines(api.Exclude), "\n", "; ")), Code: true})
	if a := api.Auth; a != nil {
		list = append(list, view.Fact{Name: text.SkillAuthFact(), Text: text.Literal(strings.Join(strings.Fields(a.Type+" "+a.In+" "+a.Name+" "+a.Username), " ")), Code: true})
	}
	if api.Preview {
		list = append(list, view.Fact{Name: text.SkillPreviewFact(), Text: text.SkillPreviewFactText()})
	}
	return slices.DeleteFunc(list, func(f view.Fact) bool { return f.Text.IsZero() })
}

func healthBadge(h agent.Health) view.Badge {
	switch {
	case h.ListedAt == nil:
		return view.Badge{Word: text.SkillNotAsked(), Icon: "standard", Level: view.Quiet}
	case h.ErrorKind == tool.ProblemNeedsConnection:
		return view.Badge{Word: text.SkillNotConnected(), Icon: "stale", Level: view.Warn}
	case h.ErrorKind != "":
		return view.Badge{Word: text.SkillFailing(), Icon: "failed", Level: view.Danger}
	}
	return view.Badge{Word: text.SkillHealthy(), Icon: "good", Level: view.Good}
}

func skillFacts(s *agent.Skill) []view.Fact {
	approvals, whose := text.SkillApprovalAll(), text.SkillFormConnectionShared()
	if s.AutoApprove {
		approvals = text.SkillApprovalSome()
	}
	if s.PerUser {
		whose = text.SkillFormConnectionPerUser()
	}
	list := []view.Fact{
		{Name: text.SkillImportSkill(), Text: text.Literal(s.ID.String()), Code: true},
		{Name: text.SkillRevision(), Text: text.Literal(strconv.FormatInt(s.Revision, 10))},
		{Name: text.SkillFormApproval(), Text: approvals},
		{Name: text.SkillTimeoutFact(), Text: text.Literal(present.DurationWords(s.ApprovalTimeout))},
		{Name: text.SkillFormApprovalValidity(), Text: text.Literal(present.DurationWords(cmp.Or(s.ApprovalValidity, s.ApprovalTimeout)))},
		{Name: text.SkillFormCallTimeout(), Text: text.Literal(present.DurationWords(s.CallTimeout))},
		{Name: text.SkillFormResources(), Text: describeResources(s)},
		{Name: text.SkillFormEdits(), Text: describeEdits(s)},
		{Name: text.SkillQuestionsFact(), Text: describeQuestions(s)},
	}
	if s.Policy != "" {
		list = append(list, view.Fact{Name: text.PoliciesField(), Text: text.Literal(s.Policy), URL: present.PolicyURL(s.Policy)})
	}
	list = append(list, apiFacts(s)...)
	if connections.Connectable(s) {
		list = append(list, view.Fact{Name: text.SkillFormConnections(), Text: whose})
	}
	if h := s.IdentityHeaders; h.Enabled {
		list = append(list, view.Fact{Name: text.SkillIdentityFact(), Text: text.Literal(strings.Join([]string{h.Agent, h.Call, h.Principal}, ", ")), Code: true})
	}
	if o := s.OAuth; o != nil {
		list = append(list, view.Fact{Name: text.SkillFormGrant(), Text: text.Literal(o.Grant), Code: true})
		for _, f := range []view.Fact{
			{Name: text.SkillFormIssuer(), Text: text.Literal(o.Issuer)},
			{Name: text.SkillClient(), Text: text.Literal(o.ClientID)},
			{Name: text.SkillFormScopes(), Text: text.Literal(strings.Join(o.Scopes, " "))},
			{Name: text.SkillIdpFact(), Text: text.Literal(o.IDPIssuer)},
		} {
			if f.Code = true; !f.Text.IsZero() {
				list = append(list, f)
			}
		}
	}
	return list
}

func describeEdits(s *agent.Skill) text.Message {
	switch s.Edits {
	case agent.EditsAlone:
		return text.SkillEditsAlone()
	case agent.EditsSecond:
		return text.SkillEditsSecond()
	}
	return text.SkillEditsByRisk()
}

func describeResources(s *agent.Skill) text.Message {
	if s.AutoApprove || s.Resources == agent.ResourcesPass {
		return text.SkillResourcesAll()
	}
	return text.SkillResourcesGated()
}

func describeQuestions(s *agent.Skill) text.Message {
	if s.Questions == agent.QuestionsClient {
		return text.SkillQuestionsClient()
	}
	return text.SkillQuestionsReviewer()
}

// skillOf reads the skill of the request's path from the database.
func (h *Handler) skillOf(r *http.Request) (*agent.Skill, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	skill, _, err := h.agents.FreshSkill(r.Context(), id)
	return skill, err
}
