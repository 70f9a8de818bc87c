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
	SectionConnections   Section = "connections"
	SectionMembers       Section = "members"
	SectionAudit         Section = "audit"
	SectionSettings      Section = "settings"
)

// Person is who is signed in.
type Person struct {
	ID       string // tells apart what their browser keeps for them
	Name     string
	Roles    string
	Operator bool
}

// entry is one place of the menu.
type entry struct {
	section Section
	url     string
	word    text.Message
	icon    string
}

// entries are the menu of a person, in two groups: what happens, and what there is.
func entries(p Person) [][]entry {
	happens := []entry{
		{SectionQueue, "/", text.LayoutQueue(), "queue"},
		{SectionConversations, "/conversations", text.LayoutConversations(), "conversations"},
		{SectionCalls, "/calls", text.LayoutHistory(), "history"},
		{SectionInsights, "/insights", text.LayoutInsights(), "insights"},
	}
	there := []entry{
		{SectionSkills, "/skills", text.LayoutSkills(), "skills"},
		{SectionAgents, "/agents", text.LayoutAgents(), "agents"},
		{SectionConnections, "/connections", text.LayoutConnections(), "connections"},
	}
	if p.Operator {
		there = append(there,
			entry{SectionMembers, "/members", text.LayoutMembers(), "members"},
			entry{SectionAudit, "/audit", text.LayoutAudit(), "audit"},
		)
	}
	return [][]entry{happens, there}
}
