package present

import (
	"net/url"
	"strconv"

	"github.com/google/uuid"
)

// AgentURL is the page of an agent.
func AgentURL(id uuid.UUID) string { return "/agents/" + id.String() }

// ConnectionURL is the page of a connection.
func ConnectionURL(id uuid.UUID) string { return "/connections/" + id.String() }

// SkillURL is the page of a skill.
func SkillURL(id uuid.UUID) string { return "/skills/" + id.String() }

// ConversationURL is the page of a conversation.
func ConversationURL(id uuid.UUID) string { return "/conversations/" + id.String() }

// CallURL is the page of a call.
func CallURL(id uuid.UUID) string { return "/calls/" + id.String() }

// MemberURL is the page of a member.
func MemberURL(id uuid.UUID) string { return "/members/" + id.String() }

// ChangesURL is the list of changes that waited for a second operator.
const ChangesURL = "/changes"

// ChangeURL is the page of a change that waits for a second operator.
func ChangeURL(id uuid.UUID) string { return ChangesURL + "/" + id.String() }

// GuardsURL is the list of guarded coding agents.
const GuardsURL = "/guards"

// RuleURL is the page of a rule, by its name. The word before the name keeps it apart from the forms, which rules may be called too.
func RuleURL(name string) string { return "/rules/named/" + url.PathEscape(name) }

// PolicyURL is the page of an approval policy, by its name.
func PolicyURL(name string) string { return "/policies/named/" + url.PathEscape(name) }

// GrantURL is the page of a grant.
func GrantURL(id uuid.UUID) string { return "/grants/" + id.String() }

// PlanURL is the page of a plan.
func PlanURL(id uuid.UUID) string { return "/plans/" + id.String() }

// ToolURL is the page of a tool.
func ToolURL(skillID uuid.UUID, name string) string {
	return SkillURL(skillID) + "/tools?" + url.Values{"tool": {name}}.Encode()
}

// EntryParameter selects the part of a conversation with an entry.
const EntryParameter = "entry"

// EntryURL returns the address of an entry in its conversation.
func EntryURL(conversation uuid.UUID, seq int64) string {
	number := strconv.FormatInt(seq, 10)
	return ConversationURL(conversation) + "?" + EntryParameter + "=" + number + "#entry-" + number
}
