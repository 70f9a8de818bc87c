package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/converse"
)

// rule says whose requests reach an operation. Its zero value is nobody's.
type rule struct {
	// Own: agents with a key, and every person; the operation shows and
	// does only what is the caller's own, unless a role of Roles says more.
	Own bool
	// People: every person, and no agent; likewise.
	People bool
	// Roles: people with one of these.
	Roles []identity.Role
	// Invited: the holder of an invitation, and nobody else.
	Invited bool
}

func (r rule) allows(c caller) bool {
	if r.Invited || c.invitation != "" {
		return r.Invited && c.invitation != ""
	}
	if c.agent == nil && c.person == nil {
		return false
	}
	return r.Own || r.People && c.person != nil || c.has(r.Roles...)
}

func (r rule) String() string {
	roles := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		roles[i] = string(role)
	}
	if r.Invited {
		return "For the holder of an invitation, which is sent as the bearer token."
	}
	switch people := strings.Join(roles, " or "); {
	case r.Own && people == "":
		return "Agents and people for what is their own."
	case r.Own:
		return "Agents and people for what is their own; all of it for the role " + people + "."
	case r.People && people == "":
		return "People for what is their own."
	case r.People:
		return "People for what is their own; all of it for the role " + people + "."
	case people == "":
		return "Nobody."
	default:
		return "For people with the role " + people + "."
	}
}

// route is one row of the table: an operation and whom it is for.
type route struct {
	ID, Method, Path, Tag, Summary string
	Rule                           rule
	Status                         int      // of success; zero: 200 with a body, else 204
	MaxBody                        int64    // zero: 1 MiB. A greater one may take longer to come, see [API.operation]
	OwnChecks                      bool     // the operation checks its body itself
	Streams                        []string // media types of what it answers, where that is no JSON
}

const prefix = "/api/v1/"

// to makes a row. The address is a method and a path below the prefix.
func to(id, address, summary string, r rule) route {
	method, path, _ := strings.Cut(address, " ")
	tag, _, _ := strings.Cut(path, "/")
	return route{ID: id, Method: method, Path: prefix + path, Tag: tag, Summary: summary, Rule: r}
}

// creating answers 201.
func (r route) creating() route {
	r.Status = http.StatusCreated
	return r
}

// checking leaves the checks of the body to the operation.
func (r route) checking() route {
	r.OwnChecks = true
	return r
}

// streaming answers what is no JSON document.
func (r route) streaming(mediaTypes ...string) route {
	r.Streams = mediaTypes
	return r
}

// streamWords say what a stream holds.
func (r route) streamWords() string {
	if slices.Contains(r.Streams, eventStream) {
		return "Events: user, assistant, tools, call and notice, each with a ConversationEntry, and its seq as the id; without an id: state, " +
			"with a Loop, delta {step, offset, text}, restart {step}. They end when the server does, or the credential: go on with Last-Event-ID."
	}
	return "All of it; if the connection is cut, not all of it."
}

// answering answers with a status of success.
func (r route) answering(status int) route {
	r.Status = status
	return r
}

// upTo bounds the body.
func (r route) upTo(bytes int64) route {
	r.MaxBody = bytes
	return r
}

// skillBody holds a skill with an OpenAPI document of the greatest size as JSON writes documents, and applyBody several of
// them, in bytes.
const (
	skillBody = 2 * agent.MaxDocument
	applyBody = 2 * skillBody
)

// approveBody holds arguments of the greatest size, and what goes with them, in bytes.
const approveBody = call.MaxArgumentBytes + 64<<10

// sayBody holds a message of the greatest size, however it is escaped, in bytes.
const sayBody = 6*converse.MaxMessageBytes + 64<<10

// routes is the table of all operations. None works that is not in it.
func routes() []route {
	return slices.Concat(registryRoutes(), connectionRoutes(), workRoutes(), talkRoutes(), fileRoutes(), webhookRoutes(), callbackRoutes())
}

func operators() rule { return rule{Roles: []identity.Role{identity.Operator}} }
func reviewers() rule { return rule{Roles: []identity.Role{identity.Reviewer}} }
func both() rule      { return rule{Roles: []identity.Role{identity.Reviewer, identity.Operator}} }

// workRoutes are about what agents do and reviewers decide.
func workRoutes() []route {
	own := rule{Own: true, Roles: both().Roles}
	ownOrOperator := rule{Own: true, Roles: operators().Roles}
	return []route{
		to("listCalls", "GET calls", "Calls, newest first", own),
		to("exportCalls", "GET calls/export", "All calls that a query selects, newest first, as JSON Lines or CSV", both()).streaming("application/jsonl", "text/csv"),
		to("getCall", "GET calls/{id}", "A call", own),
		to("cancelCall", "POST calls/{id}/cancel", "Cancel a call that is not being sent yet, also one that was approved", ownOrOperator),
		to("resolveCall", "POST calls/{id}/resolve", "Say what became of a call whose outcome is unknown", operators()),

		to("listApprovals", "GET approvals", "Approvals, newest first", both()),
		to("getApproval", "GET approvals/{id}", "An approval", both()),
		to("approve", "POST approvals/{id}/approve", "Approve the call, exactly as it was shown, or with other arguments", reviewers()).checking().upTo(approveBody),
		to("reject", "POST approvals/{id}/reject", "Reject the call, with a reason for its agent", reviewers()).checking(),

		to("previewCall", "GET approvals/{id}/preview", "The present state of what a parked call would change", both()),
		to("listQuestions", "GET questions", "Questions of skills' servers that wait for a reviewer, the most urgent first; at most 200", both()),
		to("approveQuestion", "POST approvals/{id}/questions/{number}/approve", "Approve a question of the call's server with its answer, or the opening of a URL, exactly as it was shown", reviewers()).checking(),
		to("rejectQuestion", "POST approvals/{id}/questions/{number}/reject", "Reject a question of the call's server; the server gets a refusal without data", reviewers()).checking(),
		to("extend", "POST approvals/{id}/extend", "Give a parked call more time", reviewers()),

		to("getInsights", "GET insights", "Figures of calls and approvals in a range of time", both()),
		to("getToolInsights", "GET insights/tools", "Figures of calls by tool: outcomes, HTTP statuses, times of each step, sizes, errors", both()),
		to("listAudit", "GET audit", "What happened, newest first", operators()),
		to("exportAudit", "GET audit/export", "All that happened, newest first, as JSON Lines", operators()).streaming("application/jsonl"),

		to("getServer", "GET server", "How this server runs, and which others run beside it", operators()),
	}
}

// talkRoutes are about conversations. What is said in one is for those whose it is; who sees all may look.
func talkRoutes() []route {
	own := rule{Own: true, Roles: both().Roles}
	ownOrOperator := rule{Own: true, Roles: operators().Roles}
	mine := rule{Own: true}
	const one = "conversations/{id}"
	return []route{
		to("listConversations", "GET conversations", "Conversations, newest first", own),
		to("getConversation", "GET "+one, "A conversation with its catalogue", own),
		to("getLatestConversation", "GET conversations/latest", "The newest conversation of an agent that the caller began and that has not ended", mine),
		to("createConversation", "POST conversations", "Start a conversation that Holdpoint runs itself, with the agent's model", mine).creating().upTo(sayBody),
		to("listMessages", "GET "+one+"/messages", "All that was said and happened in a conversation, oldest first", own),
		to("say", "POST "+one+"/messages", "Say something", mine).answering(http.StatusAccepted).upTo(sayBody),
		to("followConversation", "GET "+one+"/events", "All that was said and happened, and whatever comes, as server-sent events", own).streaming(eventStream),
		to("cancelConversation", "POST "+one+"/cancel", "Stop what is under way; the conversation goes on with the next message", ownOrOperator),
		to("closeConversation", "POST "+one+"/close", "End a conversation for good", ownOrOperator),
		to("forkConversation", "POST "+one+"/fork", "Begin another conversation with what was said up to an entry", mine).creating().upTo(sayBody),
	}
}

// fileRoutes are about what agents attach to calls.
func fileRoutes() []route {
	own := rule{Own: true, Roles: both().Roles}
	mine := rule{Own: true}
	return []route{
		to("presignUpload", "POST files/presign-upload", "Announce a file, and get an address to upload it to: once, with PUT, without a credential", mine).creating(),
		to("getFile", "GET files/{id}", "A file that was announced, without its content", mine),
		to("deleteFile", "DELETE files/{id}", "Delete a file that is attached to no call", mine),
		to("downloadFile", "GET calls/{id}/files/{file}", "The content of a file that is attached to a call", own).streaming("application/octet-stream"),
	}
}

// connectionRoutes are about how Holdpoint is authorized to skills, and on whose behalf.
func connectionRoutes() []route {
	own := rule{People: true, Roles: operators().Roles}
	return []route{
		to("listConnections", "GET connections", "Connections to protected skill servers, newest first; reviewers see those that all share too", own),
		to("getConnection", "GET connections/{id}", "A connection, without its tokens", own),
		to("disconnect", "POST connections/{id}/disconnect", "Forget a connection's tokens, and have them revoked", own),
		to("connectSkill", "POST skills/{name}/connect", "Begin to connect a skill, in the browser of whoever asks", own),

		to("listPeople", "GET people", "People, newest first", operators()),
		to("getPerson", "GET people/{id}", "A person, with what they may do and by what", operators()),
		to("updatePerson", "PATCH people/{id}", "Change the roles and teams that operators give a person, or block them", operators()),
		to("listSessions", "GET people/{id}/sessions", "Browsers that a person is signed in with, newest first", operators()),
		to("endSession", "DELETE people/{id}/sessions/{session}", "End a session of a person, at once", operators()),
		to("signOutPerson", "POST people/{id}/sign-out", "End all sessions of a person, at once", operators()),
		to("linkPerson", "POST people/{id}/link", "Declare a person to be the same as another, whose connections they use", operators()),
		to("unlinkPerson", "DELETE people/{id}/link", "Take a link back", operators()),
	}
}

// webhookRoutes are about where chats are told of calls that wait.
func webhookRoutes() []route {
	return []route{
		to("listWebhooks", "GET webhooks", "Chats that are told of calls that wait, by name", operators()),
		to("createWebhook", "POST webhooks", "Have a chat be told of calls that wait", operators()).creating(),
		to("deleteWebhook", "DELETE webhooks/{name}", "Tell a chat no more", operators()),
		to("testWebhook", "POST webhooks/{name}/test", "Send a chat a message that says it is a test", operators()),
	}
}

// callbackRoutes are about where other systems are told of an agent's calls. No agent's key is for them.
func callbackRoutes() []route {
	const one = "agents/{name}/callbacks/{callback}"
	return []route{
		to("listCallbacks", "GET agents/{name}/callbacks", "Callbacks of an agent, by name", operators()),
		to("createCallback", "POST agents/{name}/callbacks", "Have another system be told of an agent's calls; its secret is shown this once", operators()).creating(),
		to("deleteCallback", "DELETE "+one, "Tell another system no more, and forget what it was told", operators()),
		to("rotateCallbackSecret", "POST "+one+"/rotate-secret", "Give a callback a new secret; it is shown this once", operators()),
		to("enableCallback", "POST "+one+"/enable", "Send to a callback again", operators()),
		to("disableCallback", "POST "+one+"/disable", "Send nothing to a callback until it is enabled", operators()),
		to("testCallback", "POST "+one+"/test", "Send a callback a message that says it is a test", operators()),
		to("listDeliveries", "GET "+one+"/deliveries", "Messages to a callback, newest first", operators()),
		to("resendDelivery", "POST "+one+"/deliveries/{id}/resend", "Send a message again", operators()),
	}
}

// registryRoutes are about what operators declare. Both roles read them;
// credentials are for operators only.
func registryRoutes() []route {
	return []route{
		to("apply", "POST apply", "Declare skills, agents and assignments", operators()).upTo(applyBody),

		to("listAgents", "GET agents", "Agents, by name", both()),
		to("createAgent", "POST agents", "Make an agent", operators()).creating(),
		to("getAgent", "GET agents/{name}", "An agent", both()),
		to("updateAgent", "PATCH agents/{name}", "Change what the body names of an agent", operators()),
		to("previewAgent", "GET agents/{name}/tools", "What a new conversation of an agent would be offered, by what is known of its skills: no server is asked", both()),
		to("deleteAgent", "DELETE agents/{name}", "Delete an agent; its keys stop working", operators()),

		to("listKeys", "GET agents/{name}/keys", "Keys of an agent, without their secrets", operators()),
		to("createKey", "POST agents/{name}/keys", "Make a key; it is shown this once", operators()).creating(),
		to("revokeKey", "DELETE agents/{name}/keys/{id}", "Revoke a key", operators()),

		to("listSkills", "GET skills", "Skills, by name", both()),
		to("createSkill", "POST skills", "Register a skill", operators()).creating().upTo(skillBody),
		to("getSkill", "GET skills/{name}", "A skill, without its secrets", both()),
		to("updateSkill", "PATCH skills/{name}", "Change what the body names of a skill", operators()).upTo(skillBody),
		to("getDocument", "GET skills/{name}/document", "The OpenAPI document that a skill was given by value", operators()).streaming("application/json", "application/yaml"),
		to("deleteSkill", "DELETE skills/{name}", "Delete a skill", operators()),
		to("probeSkill", "POST skills/{name}/probe", "Connect to a skill's server and list its tools, step by step", operators()),
		to("examineDocument", "POST skill-drafts/examine", "What an OpenAPI document offers; nothing of it is kept", operators()).upTo(skillBody),
		to("trySkill", "POST skills/{name}/try", "Make one call of a skill over an HTTP API that reads, to see how it answers; it is recorded, and no agent's", operators()),
		to("tryDraft", "POST skill-drafts/try", "The same of a skill that is not registered", operators()).upTo(skillBody),
		to("listSkillTools", "GET skills/{name}/tools", "Tools that a skill's server offers, with their pins", both()),
		to("skillHealth", "GET skills/{name}/health", "How a skill's server answered over time", both()),
		to("updateTool", "PATCH skills/{name}/tools/{tool}", "Change what the body names of an operator's settings of one tool", operators()),
		to("acceptTool", "POST skills/{name}/tools/{tool}/accept", "Accept a tool's present definition", operators()),
		to("refuseTool", "POST skills/{name}/tools/{tool}/refuse", "Refuse a tool's present definition: no call of it is sent", operators()),

		to("listAssignments", "GET assignments", "Which agent may use which skill", both()),
		to("assign", "POST assignments", "Let an agent use a skill, or change how", operators()).creating(),
		to("unassign", "DELETE assignments/{agent}/{skill}", "Take a skill away from an agent", operators()),

		to("listTokens", "GET tokens", "Tokens of people, without their secrets", rule{People: true, Roles: operators().Roles}),
		to("createToken", "POST tokens", "Make a token for yourself; it is shown this once", rule{People: true}).creating(),
		to("revokeToken", "DELETE tokens/{id}", "Revoke a token", rule{People: true, Roles: operators().Roles}),
		to("listInvitations", "GET invitations", "Invitations of people, newest first, without their secrets", operators()),
		to("createInvitation", "POST invitations", "Invite a person; the link is shown this once", operators()).creating(),
		to("revokeInvitation", "DELETE invitations/{id}", "Revoke an invitation", operators()),
		to("redeemInvitation", "POST invitations/redeem", "Redeem an invitation that no identity provider has to vouch for; the person's first token is shown this once", rule{Invited: true}).creating(),
	}
}
