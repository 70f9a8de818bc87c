package view

import (
	"github.com/holdpoint/holdpoint/ui/text"
)

// Section is a part of the dashboard.
type Section string

// The sections of the dashboard.
const (
	SectionQueue         Section = "queue"
	SectionConversations Section = "conversations"
	SectionCalls         Section = "calls"
	SectionInsights      Section = "insights"
	SectionSkills        Section = "skills"
	SectionAgents        Section = "agents"
	SectionRules         Section = "rules"
	SectionPolicies      Section = "policies"
	SectionGrants        Section = "grants"
	SectionPlans         Section = "plans"
	SectionConnections   Section = "connections"
	SectionChanges       Section = "changes"
	SectionMembers       Section = "members"
	SectionAudit         Section = "audit"
	SectionSettings      Section = "settings"
	SectionSearch        Section = "search"
)

// Person is the person who is signed in.
type Person struct {
	ID       string // separates their data in a shared browser
	Name     string
	Roles    text.Message
	Operator bool
	Changes  bool // changes that loosen wait for a second operator
}

// entry is an entry of the menu.
type entry struct {
	section Section
	url     string
	word    text.Message
	icon    string
}

// listEntries returns the menu of a person in two groups: activity and objects.
func listEntries(p Person) [][]entry {
	activity := []entry{
		{SectionQueue, "/", text.LayoutQueue(), "queue"},
		{SectionConversations, "/conversations", text.LayoutConversations(), "conversations"},
		{SectionCalls, "/calls", text.LayoutHistory(), "history"},
		{SectionInsights, "/insights", text.LayoutInsights(), "insights"},
	}
	objects := []entry{
		{SectionSkills, "/skills", text.LayoutSkills(), "skills"},
		{SectionAgents, "/agents", text.LayoutAgents(), "agents"},
		{SectionRules, "/rules", text.RulesTitle(), "rules"},
		{SectionPolicies, "/policies", text.PoliciesTitle(), "team"},
		{SectionGrants, "/grants", text.GrantsTitle(), "good"},
		{SectionPlans, "/plans", text.PlansTitle(), "plans"},
		{SectionConnections, "/connections", text.LayoutConnections(), "connections"},
	}
	if p.Operator && p.Changes {
		objects = append(objects, entry{SectionChanges, "/changes", text.ChangesTitle(), "changed"})
	}
	if p.Operator {
		objects = append(objects,
			entry{SectionMembers, "/members", text.LayoutMembers(), "members"},
			entry{SectionAudit, "/audit", text.LayoutAudit(), "audit"},
		)
	}
	return [][]entry{activity, objects}
}

// ListPages returns the pages that a person may open by name.
func ListPages(p Person) []Link {
	var list []Link
	for _, group := range listEntries(p) {
		for _, e := range group {
			list = append(list, Link{URL: e.url, Word: e.word})
		}
	}
	list = append(list, Link{URL: "/settings", Word: text.LayoutSettings()}, Link{URL: "/conversations/new", Word: text.ConversationStartTitle()})
	if p.Operator {
		list = append(list, Link{URL: "/skills/new", Word: text.SkillFormRegisterTitle()}, Link{URL: "/imports/new", Word: text.SkillImportTitle()},
			Link{URL: "/agents/new", Word: text.AgentCreate()}, Link{URL: "/rules/new", Word: text.RulesCreate()},
			Link{URL: "/policies/new", Word: text.PoliciesCreate()})
	}
	return list
}
