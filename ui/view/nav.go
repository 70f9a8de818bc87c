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
		{SectionQueue, "/", text.Literal("Queue"), "queue"},
		{SectionConversations, "/conversations", text.Literal("Conversations"), "conversations"},
		{SectionCalls, "/calls", text.Literal("History"), "history"},
		{SectionInsights, "/insights", text.Literal("Insights"), "insights"},
	}
	there := []entry{
		{SectionSkills, "/skills", text.Literal("Skills"), "skills"},
		{SectionAgents, "/agents", text.Literal("Agents"), "agents"},
		{SectionConnections, "/connections", text.Literal("Connections"), "connections"},
	}
	if p.Operator {
		there = append(there,
			entry{SectionMembers, "/members", text.Literal("Members"), "members"},
			entry{SectionAudit, "/audit", text.Literal("Audit"), "audit"},
		)
	}
	return [][]entry{happens, there}
}
