package ui

import (
	"context"
	"maps"
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
	list := view.Skills{Newest: after == ""}
	for i := range skills {
		list.Rows = append(list.Rows, presentSkill(&skills[i]))
	}
	if next != "" {
		list.Next = "/skills?after=" + next // a name is letters, digits and dashes
	}
	u.render(w, r, http.StatusOK, view.SkillsPage(u.page(r, view.SectionSkills, "Skills", pulse), list))
}

// showSkill shows one skill with its connection and tools.
func (u *UI) showSkill(w http.ResponseWriter, r *http.Request) {
	own, err := u.linkOfSkill(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	links, err := u.linksOfSkill(r.Context(), access, own)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	v := presentSkill(own.skill)
	if v.Connections, err = u.cards(r.Context(), links, own.skill.ID, pulse.Now); err != nil {
		u.fail(w, r, err)
		return
	}
	v.Facts = skillFacts(own.skill)
	if v.Tools, err = u.toolRows(r.Context(), own.skill); err != nil {
		u.fail(w, r, err)
		return
	}
	u.render(w, r, http.StatusOK, view.SkillPage(u.page(r, view.SectionSkills, "Skill "+printable(own.skill.Name), pulse), v))
}

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
	v := view.Skill{URL: skillURL(s.ID), Name: s.Name, Transport: transportWords(s.Transport), Health: healthBadge(s.Health), At: s.Health.ListedAt}
	if v.Address = s.URL; s.Transport == tool.Stdio {
		v.Address = strings.Join(s.Command, " ")
	}
	if s.Health.ErrorKind != "" {
		v.Error = s.Health.Error
	}
	return v
}

func transportWords(t tool.Transport) string {
	if t == tool.Stdio {
		return "program (stdio)"
	}
	return "HTTP"
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
		{Name: "Time for a call", Text: durationWords(s.CallTimeout)},
	}
	if connectable(s) {
		list = append(list, view.Fact{Name: "Connections", Text: whose})
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

// durationWords leaves out what is zero at the end: "5m", not "5m0s".
func durationWords(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// toolRows are the tools that the skill's server offers, as far as it was asked.
func (u *UI) toolRows(ctx context.Context, s *agent.Skill) ([]view.ToolRow, error) {
	statuses, err := u.cfg.Discovery.Statuses(ctx, s.ID)
	if err != nil {
		return nil, err
	}
	var rows []view.ToolRow
	for _, name := range slices.Sorted(maps.Keys(statuses)) {
		if status := statuses[name]; status.Known {
			rows = append(rows, view.ToolRow{Name: name, Badges: toolBadges(status, s.Tools[name])})
		}
	}
	return rows, nil
}

func toolBadges(status tool.PinStatus, settings agent.ToolSettings) []view.Badge {
	var badges []view.Badge
	switch {
	case status.IsRefused():
		badges = append(badges, view.Badge{Word: "refused", Icon: "rejected", Level: view.Danger})
	case status.IsAccepted():
	case status.Accepted.IsZero():
		badges = append(badges, view.Badge{Word: "new tool", Icon: "new", Level: view.Warn})
	default:
		badges = append(badges, view.Badge{Word: "tool changed", Icon: "changed", Level: view.Danger})
	}
	if settings.Risk != "" {
		badges = append(badges, view.Badge{Word: "High risk", Icon: "high", Level: view.Danger})
	}
	if settings.Disabled() {
		badges = append(badges, view.Badge{Word: "Switched off", Icon: "rejected", Level: view.Quiet})
	}
	return badges
}
