package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// showSkills lists skills by name.
func (u *UI) showSkills(w http.ResponseWriter, r *http.Request) {
	after := r.URL.Query().Get("after")
	if clean(after) != after {
		after = ""
	}
	skills, next, err := u.cfg.Agents.Skills(r.Context(), after, 0)
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
	list := view.Skills{Newest: after == "", MayEdit: access.Has(identity.Operator)}
	for i := range skills {
		row, err := u.skillRow(r.Context(), &skills[i])
		if err != nil {
			u.fail(w, r, err)
			return
		}
		list.Rows = append(list.Rows, row)
	}
	if next != "" {
		list.Next = "/skills?after=" + next // a name is letters, digits and dashes
	}
	u.render(w, r, http.StatusOK, view.SkillsPage(u.page(r, view.SectionSkills, "Skills", pulse), list))
}

func (u *UI) skillRow(ctx context.Context, s *agent.Skill) (view.SkillRow, error) {
	row := view.SkillRow{
		URL: skillURL(s.ID), Name: s.Name, Address: addressOf(s), Health: healthBadge(s.Health), Team: s.Team, At: s.Health.ListedAt,
	}
	statuses, err := u.cfg.Discovery.Statuses(ctx, s.ID)
	for _, status := range statuses {
		if status.Known {
			row.Tools++
		}
		if unsettled(status) {
			row.Unsettled++
		}
	}
	return row, err
}

// unsettled reports whether an operator should look at a tool's definition.
func unsettled(s tool.PinStatus) bool { return s.Known && !s.IsAccepted() && !s.IsRefused() }

// showSkill shows one skill with its connection and tools.
func (u *UI) showSkill(w http.ResponseWriter, r *http.Request) {
	own, err := u.linkOfSkill(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v, err := u.skillPage(r, own, pulse.Now)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.render(w, r, http.StatusOK, view.SkillPage(u.page(r, view.SectionSkills, "Skill "+printable(own.skill.Name), pulse), v))
}

func (u *UI) skillPage(r *http.Request, own *link, now time.Time) (view.Skill, error) {
	access, _ := login.Access(r.Context())
	v := presentSkill(own.skill)
	v.MayEdit, v.Facts, v.Notice = access.Has(identity.Operator), skillFacts(own.skill), skillNotice(r.URL.Query().Get("done"), own.skill)
	links, err := u.linksOfSkill(r.Context(), access, own)
	if err != nil {
		return v, err
	}
	if v.Connections, err = u.cards(r.Context(), links, own.skill.ID, now); err != nil {
		return v, err
	}
	if v.Strip, err = u.strip(r, own.skill.ID, now); err != nil {
		return v, err
	}
	if err = u.presentTools(r.Context(), own.skill, &v); err != nil {
		return v, err
	}
	users, err := u.cfg.Agents.UsersOf(r.Context(), own.skill.ID)
	for i := range users {
		v.Users = append(v.Users, view.Use{Name: users[i].Agent, URL: agentURL(users[i].AgentID), Tools: toolsWords(users[i].Tools)})
	}
	return v, err
}

// skillNotice says what was just done, if that is how it is.
func skillNotice(done string, s *agent.Skill) *view.Notice {
	switch {
	case done == "registered" && s.Health.ListedAt == nil:
		return &view.Notice{
			Level: view.Good, Title: "Registered.",
			Text: "Test the connection, or list its tools: what its server offers then is accepted as it is.",
		}
	case done == "saved":
		return &view.Notice{Level: view.Good, Title: "Saved.", Text: "Agents that have it get a new catalogue."}
	case done == "asked" && s.Health.ErrorKind == "":
		return &view.Notice{Level: view.Good, Title: "Its server answered.", Text: "The tools below are those that it offers now."}
	}
	return nil
}

func toolsWords(only []string) string {
	if only == nil {
		return "all its tools"
	}
	return plural(len(only), "tool", "tools")
}

func plural(n int, one, many string) string { return view.Plural(n, one, many) }

// linksOfSkill are the person's own link to a skill, or the shared one, and after it the others that they may know of.
func (u *UI) linksOfSkill(ctx context.Context, access identity.Access, own *link) ([]*link, error) {
	others, _, err := u.links(ctx, access, oauthclient.Filter{SkillID: own.skill.ID, Limit: connectionPage})
	if err != nil {
		return nil, err
	}
	links := []*link{own}
	for _, other := range others {
		if own.there == nil || other.there.ID != own.there.ID {
			links = append(links, other)
		}
	}
	return links, nil
}

func presentSkill(s *agent.Skill) view.Skill {
	v := view.Skill{
		URL: skillURL(s.ID), Name: s.Name, Transport: transportWords(s.Transport), Address: addressOf(s),
		Team: s.Team, EscalateTo: s.EscalateTo, Health: healthBadge(s.Health), At: s.Health.ListedAt,
	}
	if s.Health.ErrorKind != "" {
		v.Error = s.Health.Error
	}
	for _, skipped := range s.Health.Skipped {
		v.LeftOut = append(v.LeftOut, view.Problem{Where: skipped.Name, Text: skipped.Reason})
	}
	return v
}

// addressOf is where a skill's server is, or what it is.
func addressOf(s *agent.Skill) string {
	switch {
	case s.Transport == tool.Stdio:
		return strings.Join(s.Command, " ")
	case s.URL == "" && s.API != nil:
		return s.API.Spec
	}
	return s.URL
}

func transportWords(t tool.Transport) string {
	switch t {
	case tool.Stdio:
		return "program (stdio)"
	case tool.OpenAPI:
		return "HTTP API (OpenAPI)"
	case tool.HTTPAPI:
		return "HTTP API"
	case tool.HTTP:
	}
	return "HTTP"
}

// apiFacts are what is said of an HTTP API.
func apiFacts(s *agent.Skill) []view.Fact {
	api := s.API
	if api == nil {
		return nil
	}
	list := []view.Fact{{Name: "Document", Text: api.Spec, Code: true}}
	if api.Document != "" {
		list = append(list, view.Fact{Name: "Document", Text: "SHA-256 " + api.Document + ", " + plural(s.DocumentSize, "byte", "bytes"), Code: true})
	}
	list = append(list, view.Fact{Name: "Included", Text: strings.ReplaceAll(filterLines(api.Include), "\n", "; "), Code: true},
		view.Fact{Name: "Left out", Text: strings.ReplaceAll(filterLines(api.Exclude), "\n", "; "), Code: true})
	if a := api.Auth; a != nil {
		list = append(list, view.Fact{Name: "Authenticated by", Text: strings.Join(strings.Fields(a.Type+" "+a.In+" "+a.Name+" "+a.Username), " "), Code: true})
	}
	if api.Preview {
		list = append(list, view.Fact{Name: "Preview", Text: "reviewers see what a change would change"})
	}
	return slices.DeleteFunc(list, func(f view.Fact) bool { return f.Text == "" })
}

func healthBadge(h agent.Health) view.Badge {
	switch {
	case h.ListedAt == nil:
		return view.Badge{Word: "Not asked yet", Icon: "standard", Level: view.Quiet}
	case h.ErrorKind != "":
		return view.Badge{Word: "Failing", Icon: "failed", Level: view.Danger}
	}
	return view.Badge{Word: "Healthy", Icon: "good", Level: view.Good}
}

func skillFacts(s *agent.Skill) []view.Fact {
	approvals, whose := "every call needs one", "one, shared by all"
	if s.AutoApprove {
		approvals = "calls need none, but for tools of high risk, and new or changed ones"
	}
	if s.PerUser {
		whose = "each person has their own"
	}
	list := []view.Fact{
		{Name: "Skill", Text: s.ID.String(), Code: true},
		{Name: "Revision", Text: strconv.FormatInt(s.Revision, 10)},
		{Name: "Approval", Text: approvals},
		{Name: "Time to decide, or to connect", Text: durationWords(s.ApprovalTimeout)},
		{Name: "Approval valid for", Text: durationWords(cmp.Or(s.ApprovalValidity, s.ApprovalTimeout))},
		{Name: "Time for a call", Text: durationWords(s.CallTimeout)},
		{Name: "Resources", Text: resourceWords(s)},
		{Name: "Approval of edits", Text: editWords(s)},
		{Name: "Questions during a gated call", Text: questionSettingWords(s)},
	}
	list = append(list, apiFacts(s)...)
	if connectable(s) {
		list = append(list, view.Fact{Name: "Connections", Text: whose})
	}
	if h := s.IdentityHeaders; h.Enabled {
		list = append(list, view.Fact{Name: "Told who calls in", Text: strings.Join([]string{h.Agent, h.Call, h.Principal}, ", "), Code: true})
	}
	if o := s.OAuth; o != nil {
		list = append(list, view.Fact{Name: "Grant", Text: o.Grant, Code: true})
		for _, f := range []view.Fact{
			{Name: "Authorization server", Text: o.Issuer},
			{Name: "Client", Text: o.ClientID},
			{Name: "Scopes", Text: strings.Join(o.Scopes, " ")},
			{Name: "Identity provider", Text: o.IDPIssuer},
		} {
			if f.Code = true; f.Text != "" {
				list = append(list, f)
			}
		}
	}
	return list
}

func editWords(s *agent.Skill) string {
	switch s.Edits {
	case agent.EditsAlone:
		return "the reviewer who edits a call may approve it"
	case agent.EditsSecond:
		return "a second reviewer approves a call that was edited"
	}
	return "a second reviewer approves an edited call of a tool of high risk"
}

func resourceWords(s *agent.Skill) string {
	if s.AutoApprove || s.Resources == agent.ResourcesPass {
		return "clients may read all of them"
	}
	return "clients may read those that a finished call returned"
}

func questionSettingWords(s *agent.Skill) string {
	if s.Questions == agent.QuestionsClient {
		return "the client answers alone"
	}
	return "a reviewer approves each answer"
}

// optionalDurationWords is empty for no duration.
func optionalDurationWords(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return durationWords(d)
}

// durationWords leaves out what is zero at the end: "5m", not "5m0s".
func durationWords(d time.Duration) string {
	return agent.Duration(d).String()
}
