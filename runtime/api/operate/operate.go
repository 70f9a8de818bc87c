// Package operate has the API's operations on agents, skills and their connections, people and their credentials, notifications, and
// the server.
package operate

import (
	"net/http"
	"slices"

	"github.com/holdpoint/holdpoint/internal/authfail"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/guarded"
	"github.com/holdpoint/holdpoint/internal/notify"
	"github.com/holdpoint/holdpoint/internal/oncall"
	"github.com/holdpoint/holdpoint/oauthclient"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/runtime/retention"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

// The greatest bodies, in bytes.
const (
	maxSkillBody = 2 * agent.MaxDocument // a skill with an OpenAPI document, escaped in JSON
	maxApplyBody = 2 * maxSkillBody      // several of them
)

// Services are the services that the operations use.
type Services struct {
	Calls     *call.Service
	Trials    *trial.Service
	Discovery *tool.Discovery
	OAuth     *oauthclient.Service
	Notify    *notify.Service
	Callbacks *callback.Service
	Retention *retention.Service
	OnCall    *oncall.Service
	Control   *dualcontrol.Service
	Guards    *guarded.Service
	Failures  *authfail.Log // nil: invalid invitations are not recorded
	Server    ServerSettings
}

// Handlers has the handlers of the operations.
type Handlers struct {
	agents      *agentHandlers
	skills      *skillHandlers
	connections *connectionHandlers
	people      *personHandlers
	invitations *invitationHandlers
	webhooks    *webhookHandlers
	callbacks   *callbackHandlers
	server      *serverHandlers
	holds       *holdHandlers
	erasures    *erasureHandlers
	rules       *ruleHandlers
	teams       *teamHandlers
	grants      *grantHandlers
	changes     *changeHandlers
	policies    *policyHandlers
	guards      *guardHandlers
}

// New makes the handlers.
func New(d *rest.Directory, s Services) *Handlers {
	return &Handlers{
		agents:      &agentHandlers{d},
		skills:      &skillHandlers{d, s.Calls, s.Trials, s.Discovery},
		connections: &connectionHandlers{d, s.Calls, s.OAuth},
		people:      &personHandlers{d},
		invitations: &invitationHandlers{d, s.Failures, s.Server.PublicURL},
		webhooks:    &webhookHandlers{d, s.Notify},
		callbacks:   &callbackHandlers{d, s.Callbacks},
		server:      &serverHandlers{d, s.Calls, s.Server},
		holds:       &holdHandlers{d, s.Retention.Holds},
		erasures:    &erasureHandlers{d, s.Retention},
		rules:       newRuleHandlers(d, s.Calls),
		teams:       &teamHandlers{d, s.OnCall},
		grants:      &grantHandlers{d, s.Calls},
		changes:     &changeHandlers{d, s.Control},
		policies:    newPolicyHandlers(d),
		guards:      &guardHandlers{d, s.Guards},
	}
}

// Routes lists the operations.
func (h *Handlers) Routes() []rest.Route {
	return slices.Concat(h.agentRoutes(), h.skillRoutes(), h.ruleRoutes(), h.grantRoutes(), h.changeRoutes(), h.peopleRoutes(), h.teamRoutes(), h.notificationRoutes())
}

// agentRoutes are about agents. Both roles read; keys are for operators only.
func (h *Handlers) agentRoutes() []rest.Route {
	return []rest.Route{
		rest.NewRoute("apply", "POST apply", "Declare skills, agents, assignments, rules and policies", rest.Operators(), h.agents.applySpec).Takes(maxApplyBody),
		rest.NewRoute("exportSpec", "GET export", "Get all skills, agents, assignments, rules and policies as a spec that apply takes, without secrets", rest.Operators(), h.agents.exportSpec),

		rest.NewRoute("listAgents", "GET agents", "List agents by name", rest.Readers(), h.agents.listAgents),
		rest.NewRoute("createAgent", "POST agents", "Create an agent", rest.Operators(), h.agents.createAgent).Creates(),
		rest.NewRoute("getAgent", "GET agents/{name}", "Get an agent", rest.Readers(), h.agents.getAgent),
		rest.NewRoute("updateAgent", "PATCH agents/{name}", "Change the fields of an agent that the body contains", rest.Operators(), h.agents.updateAgent),
		rest.NewRoute("deleteAgent", "DELETE agents/{name}", "Delete an agent; its keys stop working", rest.Operators(), h.agents.deleteAgent),

		rest.NewRoute("listKeys", "GET agents/{name}/keys", "List the keys of an agent, without their secrets", rest.Operators(), h.agents.listKeys),
		rest.NewRoute("createKey", "POST agents/{name}/keys", "Create a key; it is shown only once", rest.Operators(), h.agents.createKey).Creates(),
		rest.NewRoute("revokeKey", "DELETE agents/{name}/keys/{id}", "Revoke a key", rest.Operators(), h.agents.revokeKey),

		rest.NewRoute("listGuards", "GET guards", "List coding agents on machines whose built-in tools ask Holdpoint, those with an alert first", rest.Readers(), h.guards.listGuards),
		rest.NewRoute("forgetGuard", "DELETE guards/{id}", "Delete a guard that is no longer wanted; if it still reports, it is registered again", rest.Operators(), h.guards.forgetGuard),

		rest.NewRoute("listAssignments", "GET assignments", "List which agent may use which skill", rest.Readers(), h.agents.listAssignments),
		rest.NewRoute("assign", "POST assignments", "Assign a skill to an agent, or change the assignment", rest.Operators(), h.agents.assignSkill).Creates(),
		rest.NewRoute("unassign", "DELETE assignments/{agent}/{skill}", "Remove a skill from an agent", rest.Operators(), h.agents.unassignSkill),
	}
}

// skillRoutes are about skills, their tools and the connections to their servers.
func (h *Handlers) skillRoutes() []rest.Route {
	own := rest.Rule{People: true, Roles: rest.Operators().Roles}
	return []rest.Route{
		rest.NewRoute("listSkills", "GET skills", "List skills by name", rest.Readers(), h.skills.listSkills),
		rest.NewRoute("createSkill", "POST skills", "Register a skill", rest.Operators(), h.skills.createSkill).Creates().Takes(maxSkillBody),
		rest.NewRoute("getSkill", "GET skills/{name}", "Get a skill, without its secrets", rest.Readers(), h.skills.getSkill),
		rest.NewRoute("updateSkill", "PATCH skills/{name}", "Change the fields of a skill that the body contains", rest.Operators(), h.skills.updateSkill).Takes(maxSkillBody),
		rest.NewRoute("getDocument", "GET skills/{name}/document", "Get the OpenAPI document that was stored with a skill", rest.Operators(), h.skills.getDocument).Streams("application/json", "application/yaml"),
		rest.NewRoute("deleteSkill", "DELETE skills/{name}", "Delete a skill", rest.Operators(), h.skills.deleteSkill),
		rest.NewRoute("probeSkill", "POST skills/{name}/probe", "Connect to a skill's server and list its tools, step by step", rest.Operators(), h.skills.probeSkill),
		rest.NewRoute("examineDocument", "POST skill-drafts/examine", "List the operations of an OpenAPI document; nothing is stored", rest.Operators(), h.skills.examineDocument).Takes(maxSkillBody),
		rest.NewRoute("trySkill", "POST skills/{name}/try", "Make one read-only call of a skill over an HTTP API; it is audited and belongs to no agent", rest.Operators(), h.skills.trySkill),
		rest.NewRoute("tryDraft", "POST skill-drafts/try", "Make one read-only call of a skill that is not registered", rest.Operators(), h.skills.tryDraft).Takes(maxSkillBody),
		rest.NewRoute("listSkillTools", "GET skills/{name}/tools", "List the tools of a skill's server, with their pins", rest.Readers(), h.skills.listSkillTools),
		rest.NewRoute("skillHealth", "GET skills/{name}/health", "Get the health of a skill's server over time", rest.Readers(), h.skills.skillHealth),
		rest.NewRoute("updateTool", "PATCH skills/{name}/tools/{tool}", "Change the settings of one tool that the body contains", rest.Operators(), h.skills.updateTool),
		rest.NewRoute("acceptTool", "POST skills/{name}/tools/{tool}/accept", "Accept the current definition of a tool", rest.Operators(), h.skills.acceptTool),
		rest.NewRoute("refuseTool", "POST skills/{name}/tools/{tool}/refuse", "Refuse the current definition of a tool: no call of it is sent", rest.Operators(), h.skills.refuseTool),

		rest.NewRoute("listConnections", "GET connections", "List connections to protected skill servers, newest first; reviewers also see shared ones", own, h.connections.listConnections),
		rest.NewRoute("getConnection", "GET connections/{id}", "Get a connection, without its tokens", own, h.connections.getConnection),
		rest.NewRoute("disconnect", "POST connections/{id}/disconnect", "Delete the tokens of a connection and have them revoked", own, h.connections.disconnectSkill),
		rest.NewRoute("connectSkill", "POST skills/{name}/connect", "Start to connect a skill, in the caller's browser", own, h.connections.connectSkill),
	}
}

// ruleRoutes are about operators' rules and policies. Both roles read.
func (h *Handlers) ruleRoutes() []rest.Route {
	return []rest.Route{
		rest.NewRoute("listRules", "GET rules", "List rules by name", rest.Readers(), h.rules.listRules),
		rest.NewRoute("getRule", "GET rules/{name}", "Get a rule", rest.Readers(), h.rules.getRule),
		rest.NewRoute("setRule", "PUT rules/{name}", "Create a rule, or replace the one of this name", rest.Operators(), h.rules.setRule),
		rest.NewRoute("deleteRule", "DELETE rules/{name}", "Delete a rule; its versions are kept", rest.Operators(), h.rules.deleteOne),
		rest.NewRoute("ruleHistory", "GET rules/{name}/history", "List the versions of a rule, newest first, also of a deleted one", rest.Readers(), h.rules.listVersions),
		rest.NewRoute("listPolicies", "GET policies", "List approval policies by name", rest.Readers(), h.policies.listPolicies),
		rest.NewRoute("getPolicy", "GET policies/{name}", "Get an approval policy", rest.Readers(), h.policies.getPolicy),
		rest.NewRoute("setPolicy", "PUT policies/{name}", "Create an approval policy, or replace the one of this name", rest.Operators(), h.policies.setPolicy),
		rest.NewRoute("deletePolicy", "DELETE policies/{name}", "Delete an approval policy that nothing uses; its versions are kept", rest.Operators(), h.policies.deleteOne),
		rest.NewRoute("policyHistory", "GET policies/{name}/history", "List the versions of an approval policy, newest first, also of a deleted one", rest.Readers(), h.policies.listVersions),
		rest.NewRoute("checkRule", "POST rules/check", "Compare a condition with the tools that a rule would be about; nothing is stored", rest.Readers(), h.rules.checkRule),
		rest.NewRoute("replayRule", "POST rules/replay", "Judge recorded calls by a rule; nothing is stored", rest.Readers(), h.rules.replayRule),
	}
}

// grantRoutes are about grants. Both roles make them; who may not decide a call makes none from it.
func (h *Handlers) grantRoutes() []rest.Route {
	return []rest.Route{
		rest.NewRoute("listGrants", "GET grants", "List grants, newest first", rest.Readers(), h.grants.listGrants),
		rest.NewRoute("suggestGrants", "GET grants/suggestions", "List the grants that past decisions suggest; nothing is granted", rest.Operators(), h.grants.suggestGrants),
		rest.NewRoute("getGrant", "GET grants/{id}", "Get a grant", rest.Readers(), h.grants.getGrant),
		rest.NewRoute("previewGrant", "POST grants/preview", "List the calls that a grant would have allowed; nothing is stored", rest.Readers(), h.grants.previewGrant),
		rest.NewRoute("createGrant", "POST grants", "Allow calls like one", rest.Readers(), h.grants.createGrant).Creates(),
		rest.NewRoute("confirmGrant", "POST grants/{id}/confirm", "Confirm a grant that needs a second person", rest.Readers(), h.grants.confirmGrant),
		rest.NewRoute("revokeGrant", "POST grants/{id}/revoke", "Revoke a grant; calls that it let pass and that are not sent yet are denied", rest.Readers(), h.grants.revokeGrant),
	}
}

// changeRoutes are about changes that wait for a second operator.
func (h *Handlers) changeRoutes() []rest.Route {
	return []rest.Route{
		rest.NewRoute("listChanges", "GET changes", "List changes that waited for a second operator, newest first", rest.Operators(), h.changes.listChanges),
		rest.NewRoute("getChange", "GET changes/{id}", "Get a change with all its differences", rest.Operators(), h.changes.getChange),
		rest.NewRoute("approveChange", "POST changes/{id}/approve", "Make a change that another operator proposed, exactly as it was proposed", rest.Operators(), h.changes.approveChange),
		rest.NewRoute("rejectChange", "POST changes/{id}/reject", "Reject a change, or withdraw your own", rest.Operators(), h.changes.rejectChange),
	}
}

// peopleRoutes are about people and their credentials.
func (h *Handlers) peopleRoutes() []rest.Route {
	return []rest.Route{
		rest.NewRoute("listPeople", "GET people", "List people, newest first", rest.Operators(), h.people.listPeople),
		rest.NewRoute("getPerson", "GET people/{id}", "Get a person, with their rights and the source of each", rest.Operators(), h.people.getPerson),
		rest.NewRoute("updatePerson", "PATCH people/{id}", "Change the roles and teams that operators grant a person, or block them", rest.Operators(), h.people.updatePerson),
		rest.NewRoute("listSessions", "GET people/{id}/sessions", "List the browser sessions of a person, newest first", rest.Operators(), h.people.listSessions),
		rest.NewRoute("endSession", "DELETE people/{id}/sessions/{session}", "End a session of a person immediately", rest.Operators(), h.people.endSession),
		rest.NewRoute("signOutPerson", "POST people/{id}/sign-out", "End all sessions of a person immediately", rest.Operators(), h.people.signOutPerson),
		rest.NewRoute("linkPerson", "POST people/{id}/link", "Link a person to another account of the same person, whose connections they then use", rest.Operators(), h.people.linkPerson),
		rest.NewRoute("unlinkPerson", "DELETE people/{id}/link", "Remove a link", rest.Operators(), h.people.unlinkPerson),

		rest.NewRoute("exportPerson", "GET people/{id}/export", "Export the data about a person as one JSON object; the export is audited", rest.Operators(), h.erasures.exportPerson).Streams("application/json"),
		rest.NewRoute("erasePerson", "POST people/{id}/erase", "Begin to erase the data of a blocked person; decisions stay, under a pseudonym", rest.Operators(), h.erasures.erasePerson).Answers(http.StatusAccepted),
		rest.NewRoute("getErasure", "GET people/{id}/erasure", "Get the last erasure of a person", rest.Operators(), h.erasures.getErasure),

		rest.NewRoute("listTokens", "GET tokens", "List personal tokens, without their secrets", rest.Rule{People: true, Roles: rest.Operators().Roles}, h.people.listTokens),
		rest.NewRoute("createToken", "POST tokens", "Create a token for yourself; it is shown only once", rest.Rule{People: true}, h.people.createToken).Creates(),
		rest.NewRoute("revokeToken", "DELETE tokens/{id}", "Revoke a token", rest.Rule{People: true, Roles: rest.Operators().Roles}, h.people.revokeToken),

		rest.NewRoute("listInvitations", "GET invitations", "List invitations, newest first, without their secrets", rest.Operators(), h.invitations.listInvitations),
		rest.NewRoute("createInvitation", "POST invitations", "Invite a person; the link is shown only once", rest.Operators(), h.invitations.createInvitation).Creates(),
		rest.NewRoute("revokeInvitation", "DELETE invitations/{id}", "Revoke an invitation", rest.Operators(), h.invitations.revokeInvitation),
		rest.NewRoute("redeemInvitation", "POST invitations/redeem", "Redeem an invitation that needs no identity provider; the person's first token is shown only once", rest.Rule{Invited: true}, h.invitations.redeemInvitation).Creates(),
	}
}

// teamRoutes are about who is asked: teams, absences, delegations and on-call schedules. People change their own, operators all.
func (h *Handlers) teamRoutes() []rest.Route {
	return []rest.Route{
		rest.NewRoute("listTeams", "GET teams", "List teams by name, with their members at this moment", rest.Readers(), h.teams.listTeams),
		rest.NewRoute("listReviewers", "GET reviewers", "List reviewers, to name a substitute", rest.Readers(), h.teams.listReviewers),
		rest.NewRoute("setSchedule", "PUT teams/{name}/schedule", "Set the on-call calendar of a team, and fetch it", rest.Operators(), h.teams.setSchedule),
		rest.NewRoute("fetchSchedule", "POST teams/{name}/schedule/fetch", "Fetch the on-call calendar of a team now", rest.Operators(), h.teams.fetchSchedule),
		rest.NewRoute("deleteSchedule", "DELETE teams/{name}/schedule", "Delete the on-call calendar of a team", rest.Operators(), h.teams.deleteSchedule),

		rest.NewRoute("listAbsences", "GET absences", "List absences that have not ended, by their start", rest.Readers(), h.teams.listAbsences),
		rest.NewRoute("createAbsence", "POST absences", "Say that a person is away, and who stands in", rest.Readers(), h.teams.createAbsence).Creates(),
		rest.NewRoute("endAbsence", "DELETE absences/{id}", "End an absence now", rest.Readers(), h.teams.endAbsence),

		rest.NewRoute("listDelegations", "GET delegations", "List delegations that have not ended, by team", rest.Readers(), h.teams.listDelegations),
		rest.NewRoute("createDelegation", "POST delegations", "Make a reviewer a member of a team until a time", rest.Readers(), h.teams.createDelegation).Creates(),
		rest.NewRoute("endDelegation", "DELETE delegations/{id}", "End a delegation now", rest.Readers(), h.teams.endDelegation),
	}
}

// notificationRoutes are about webhooks to chats, callbacks to other systems, and the server. No agent's key may use them.
func (h *Handlers) notificationRoutes() []rest.Route {
	const one = "agents/{name}/callbacks/{callback}"
	return []rest.Route{
		rest.NewRoute("listWebhooks", "GET webhooks", "List webhooks to chats by name", rest.Operators(), h.webhooks.listWebhooks),
		rest.NewRoute("createWebhook", "POST webhooks", "Create a webhook that notifies a chat of waiting calls", rest.Operators(), h.webhooks.createWebhook).Creates(),
		rest.NewRoute("deleteWebhook", "DELETE webhooks/{name}", "Delete a webhook", rest.Operators(), h.webhooks.deleteWebhook),
		rest.NewRoute("testWebhook", "POST webhooks/{name}/test", "Send a test message to a chat", rest.Operators(), h.webhooks.testWebhook),

		rest.NewRoute("listCallbacks", "GET agents/{name}/callbacks", "List callbacks of an agent by name", rest.Operators(), h.callbacks.listCallbacks),
		rest.NewRoute("createCallback", "POST agents/{name}/callbacks", "Create a callback for an agent's calls; its secret is shown only once", rest.Operators(), h.callbacks.createCallback).Creates(),
		rest.NewRoute("deleteCallback", "DELETE "+one, "Delete a callback and its deliveries", rest.Operators(), h.callbacks.deleteCallback),
		rest.NewRoute("rotateCallbackSecret", "POST "+one+"/rotate-secret", "Create a new secret for a callback; it is shown only once", rest.Operators(), h.callbacks.rotateCallback),
		rest.NewRoute("enableCallback", "POST "+one+"/enable", "Enable a callback", rest.Operators(), h.callbacks.enableCallback),
		rest.NewRoute("disableCallback", "POST "+one+"/disable", "Disable a callback: nothing is sent until it is enabled", rest.Operators(), h.callbacks.disableCallback),
		rest.NewRoute("testCallback", "POST "+one+"/test", "Send a test message to a callback", rest.Operators(), h.callbacks.testCallback),
		rest.NewRoute("listDeliveries", "GET "+one+"/deliveries", "List the deliveries of a callback, newest first", rest.Operators(), h.callbacks.listDeliveries),
		rest.NewRoute("resendDelivery", "POST "+one+"/deliveries/{id}/resend", "Send a delivery again", rest.Operators(), h.callbacks.resendDelivery),

		rest.NewRoute("listHolds", "GET legal-holds", "List legal holds, those in force first", rest.Operators(), h.holds.listHolds),
		rest.NewRoute("setHold", "POST legal-holds", "Keep rows of an agent, of a range of time, or of both from being deleted", rest.Operators(), h.holds.setHold).Creates(),
		rest.NewRoute("liftHold", "POST legal-holds/{id}/lift", "Lift a legal hold", rest.Operators(), h.holds.liftHold),

		rest.NewRoute("getServer", "GET server", "Get the settings of this server and the list of running instances", rest.Operators(), h.server.getServer),
	}
}
