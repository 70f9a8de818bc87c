package api

import (
	"net/http"
	"strings"

	"github.com/holdpoint/holdpoint/internal/identity"
)

// rule says whose requests reach an operation. Its zero value is nobody's.
type rule struct {
	// Own: agents with a key, and every person; the operation shows and
	// does only what is the caller's own, unless a role of Roles says more.
	Own bool
	// Roles: people with one of these.
	Roles []identity.Role
}

func (r rule) allows(c caller) bool {
	if c.agent == nil && c.person == nil {
		return false
	}
	return r.Own || c.has(r.Roles...)
}

func (r rule) String() string {
	roles := make([]string, len(r.Roles))
	for i, role := range r.Roles {
		roles[i] = string(role)
	}
	switch people := strings.Join(roles, " or "); {
	case r.Own:
		return "Agents and people for what is their own; all of it for the role " + people + "."
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
	Status                         int   // of success; zero: 200 with a body, else 204
	MaxBody                        int64 // zero: 1 MiB
	OwnChecks                      bool  // the operation checks its body itself
}

// applyBody bounds what one apply may declare, in bytes.
const applyBody = 8 << 20

// routes is the table of all operations. None works that is not in it.
func routes() []route {
	return append(registryRoutes(), workRoutes()...)
}

// workRoutes are about what agents do and reviewers decide.
func workRoutes() []route {
	reviewer := rule{Roles: []identity.Role{identity.Reviewer}}
	both := rule{Roles: []identity.Role{identity.Reviewer, identity.Operator}}
	own := rule{Own: true, Roles: both.Roles}
	ownOrOperator := rule{Own: true, Roles: []identity.Role{identity.Operator}}
	operator := rule{Roles: []identity.Role{identity.Operator}}
	get, post := http.MethodGet, http.MethodPost
	return []route{
		{
			ID: "listConversations", Method: get, Path: "/api/v1/conversations", Tag: "conversations",
			Summary: "Conversations of an agent, newest first", Rule: own,
		},
		{
			ID: "getConversation", Method: get, Path: "/api/v1/conversations/{id}", Tag: "conversations",
			Summary: "A conversation with its catalogue", Rule: own,
		},

		{
			ID: "listCalls", Method: get, Path: "/api/v1/calls", Tag: "calls",
			Summary: "Calls, newest first", Rule: own,
		},
		{
			ID: "getCall", Method: get, Path: "/api/v1/calls/{id}", Tag: "calls",
			Summary: "A call", Rule: own,
		},
		{
			ID: "cancelCall", Method: post, Path: "/api/v1/calls/{id}/cancel", Tag: "calls",
			Summary: "Cancel a call that nobody decided about yet", Rule: ownOrOperator,
		},
		{
			ID: "resolveCall", Method: post, Path: "/api/v1/calls/{id}/resolve", Tag: "calls",
			Summary: "Say what became of a call whose outcome is unknown", Rule: operator,
		},

		{
			ID: "listApprovals", Method: get, Path: "/api/v1/approvals", Tag: "approvals",
			Summary: "Approvals, newest first", Rule: both,
		},
		{
			ID: "getApproval", Method: get, Path: "/api/v1/approvals/{id}", Tag: "approvals",
			Summary: "An approval", Rule: both,
		},
		{
			ID: "approve", Method: post, Path: "/api/v1/approvals/{id}/approve", Tag: "approvals",
			Summary: "Approve the call, exactly as it was shown", Rule: reviewer, OwnChecks: true,
		},
		{
			ID: "reject", Method: post, Path: "/api/v1/approvals/{id}/reject", Tag: "approvals",
			Summary: "Reject the call, with a reason for its agent", Rule: reviewer, OwnChecks: true,
		},

		{
			ID: "listAudit", Method: get, Path: "/api/v1/audit", Tag: "audit",
			Summary: "What happened, newest first", Rule: both,
		},
	}
}

// registryRoutes are about what operators declare. Both roles read them;
// credentials are for operators only.
func registryRoutes() []route {
	operator := rule{Roles: []identity.Role{identity.Operator}}
	both := rule{Roles: []identity.Role{identity.Reviewer, identity.Operator}}
	get, post, patch, remove := http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
	created := http.StatusCreated
	return []route{
		{
			ID: "apply", Method: post, Path: "/api/v1/apply", Tag: "registry", MaxBody: applyBody,
			Summary: "Declare skills, agents and assignments", Rule: operator,
		},

		{
			ID: "listAgents", Method: get, Path: "/api/v1/agents", Tag: "agents",
			Summary: "Agents, by name", Rule: both,
		},
		{
			ID: "createAgent", Method: post, Path: "/api/v1/agents", Tag: "agents", Status: created,
			Summary: "Make an agent", Rule: operator,
		},
		{
			ID: "getAgent", Method: get, Path: "/api/v1/agents/{name}", Tag: "agents",
			Summary: "An agent", Rule: both,
		},
		{
			ID: "updateAgent", Method: patch, Path: "/api/v1/agents/{name}", Tag: "agents",
			Summary: "Change what the body names of an agent", Rule: operator,
		},
		{
			ID: "deleteAgent", Method: remove, Path: "/api/v1/agents/{name}", Tag: "agents",
			Summary: "Delete an agent; its keys stop working", Rule: operator,
		},

		{
			ID: "listKeys", Method: get, Path: "/api/v1/agents/{name}/keys", Tag: "agents",
			Summary: "Keys of an agent, without their secrets", Rule: operator,
		},
		{
			ID: "createKey", Method: post, Path: "/api/v1/agents/{name}/keys", Tag: "agents", Status: created,
			Summary: "Make a key; it is shown this once", Rule: operator,
		},
		{
			ID: "revokeKey", Method: remove, Path: "/api/v1/agents/{name}/keys/{id}", Tag: "agents",
			Summary: "Revoke a key", Rule: operator,
		},

		{
			ID: "listSkills", Method: get, Path: "/api/v1/skills", Tag: "skills",
			Summary: "Skills, by name", Rule: both,
		},
		{
			ID: "createSkill", Method: post, Path: "/api/v1/skills", Tag: "skills", Status: created,
			Summary: "Register a skill", Rule: operator,
		},
		{
			ID: "getSkill", Method: get, Path: "/api/v1/skills/{name}", Tag: "skills",
			Summary: "A skill, without its secrets", Rule: both,
		},
		{
			ID: "updateSkill", Method: patch, Path: "/api/v1/skills/{name}", Tag: "skills",
			Summary: "Change what the body names of a skill", Rule: operator,
		},
		{
			ID: "deleteSkill", Method: remove, Path: "/api/v1/skills/{name}", Tag: "skills",
			Summary: "Delete a skill", Rule: operator,
		},
		{
			ID: "probeSkill", Method: post, Path: "/api/v1/skills/{name}/probe", Tag: "skills",
			Summary: "Connect to a skill's server and list its tools, step by step", Rule: operator,
		},
		{
			ID: "listSkillTools", Method: get, Path: "/api/v1/skills/{name}/tools", Tag: "skills",
			Summary: "Tools that a skill's server offers, with their pins", Rule: both,
		},
		{
			ID: "acceptTool", Method: post, Path: "/api/v1/skills/{name}/tools/{tool}/accept", Tag: "skills",
			Summary: "Accept a tool's present definition", Rule: operator,
		},

		{
			ID: "listAssignments", Method: get, Path: "/api/v1/assignments", Tag: "assignments",
			Summary: "Which agent may use which skill", Rule: both,
		},
		{
			ID: "assign", Method: post, Path: "/api/v1/assignments", Tag: "assignments", Status: created,
			Summary: "Let an agent use a skill", Rule: operator,
		},
		{
			ID: "unassign", Method: remove, Path: "/api/v1/assignments/{agent}/{skill}", Tag: "assignments",
			Summary: "Take a skill away from an agent", Rule: operator,
		},

		{
			ID: "listTokens", Method: get, Path: "/api/v1/tokens", Tag: "tokens",
			Summary: "Tokens of people, without their secrets", Rule: operator,
		},
		{
			ID: "createToken", Method: post, Path: "/api/v1/tokens", Tag: "tokens", Status: created,
			Summary: "Make a token for a person; it is shown this once", Rule: operator,
		},
		{
			ID: "revokeToken", Method: remove, Path: "/api/v1/tokens/{id}", Tag: "tokens",
			Summary: "Revoke a token", Rule: operator,
		},
	}
}
