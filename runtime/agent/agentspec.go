package agent

import "time"

// AgentSpec declares one agent, as holdpoint.yaml does. A missing field has its default, except that a nil Skills keeps the agent's
// assignments. It is the table of an agent's plain settings; [SkillSpec] explains the tags. The form is written by hand.
type AgentSpec struct {
	Name         string     `json:"name" patch:"-" manifest:"required" doc:"The name of the agent."`
	Instructions string     `json:"instructions,omitempty" doc:"What the agent is told in conversations that Holdpoint runs."`
	Model        *ModelSpec `json:"model,omitempty" otherwise:"none" doc:"The model of conversations that Holdpoint runs."` // in a patch, an empty api_key keeps that of the same provider and base_url; empty provider and name remove the model

	// WaitBudget is the hold time of a response.
	WaitBudget *Duration `json:"wait_budget,omitempty" setting:"column=wait_budget_ms,default=50s,min=1s,max=1h" flag:"how long a response is held open for a decision: 50s" about:"How long a response is held open for clients without tasks: 50s." doc:"How long a response is held open for clients without tasks."`
	// ErrorStyle is ErrorStyleMCP or ErrorStyleCodes.
	ErrorStyle string `json:"error_style,omitempty" setting:"column=error_style,enum=mcp|codes" flag:"how its endpoint reports errors: mcp, or codes for clients of older gateways" about:"How its endpoint reports errors: as MCP defines, or with the JSON-RPC codes of older gateways."`
	// PendingAs is PendingAsError or PendingAsResult.
	PendingAs string `json:"pending_as,omitempty" setting:"column=pending_as,enum=error|result" flag:"how a client that stops waiting is told that its call is pending: as an error, or as a result for frameworks that ask models to mend errors" about:"How a client is told at the end of the hold time that its call is pending: as a result with isError, or as one without, for frameworks that ask the model to mend errors."`
	// ReplyTimeout is the time after which a tools/call is answered with error -32003. Zero: the default of the error style.
	ReplyTimeout *Duration `json:"reply_timeout,omitempty" setting:"column=reply_timeout_ms,min=1s,max=24h,zero=that of the error style,unlisted" flag:"after it a tools/call is answered with error -32003; 0s is the default of the error style: none for mcp, 60s for codes" about:"The time after which a tools/call is answered with error -32003. 0s: never with error_style mcp, 1m with codes."`
	// Limits restrict the agent. They have columns of their own.
	Limits *Limits `json:"limits,omitempty" setting:"" flag:"-" otherwise:"no limits but pending and conversation_turns" doc:"What the agent may use."`
	// Team is asked first to review the calls, unless the skill names a team. Empty: all teams.
	Team string `json:"team,omitempty" setting:"column=team,check=checkTeam" flag:"team whose attention its calls need, unless their skill names one; \"\" is all teams" about:"The team whose queue its calls are in, unless their skill names one; null: all teams." otherwise:"all teams" doc:"The team that is asked first to review the calls, unless the skill names one."`
	// EscalateTo is the team that is also asked at half of the deadline. Empty: none.
	EscalateTo string `json:"escalate_to,omitempty" setting:"column=escalate_to,check=checkTeam" flag:"team that is asked at half of the deadline; \"\" is none" about:"The team that is notified at half of the deadline; null: none." otherwise:"none" doc:"The team that is also asked at half of the deadline."`
	// Escalation asks more teams and people, step by step, in place of EscalateTo, unless the skill has an escalation.
	Escalation []EscalationStep `json:"escalation,omitempty" setting:"column=escalation" flag:"-" about:"More teams and people who are asked, step by step, in place of escalate_to, unless the skill has an escalation; null: none." otherwise:"none" doc:"More teams and people who are asked, step by step, in place of escalate_to, unless the skill has an escalation."`
	// Plans gives the agent the tools with which it submits plans.
	Plans bool `json:"plans,omitempty" setting:"column=plans" flag:"it may submit plans, lists of calls that a reviewer approves at once" about:"Whether it may submit plans: lists of calls to come, which a reviewer approves at once. It gets the tools submit_plan and check_plan then."`

	Skills *[]AssignmentSpec `json:"skills,omitempty" otherwise:"those that it has" doc:"The skills of the agent: all that it has. Without this key, it keeps those that it has."` // all its assignments
}

// DefaultAgentSettings returns the settings of an agent that has no others.
func DefaultAgentSettings() AgentSettings { return (&AgentSpec{}).settings() }

// How an agent's endpoint reports errors to its client.
const (
	ErrorStyleMCP   = "mcp"   // as the MCP specification says: errors that a model can correct are results with isError
	ErrorStyleCodes = "codes" // every error is a JSON-RPC error, with the codes of older gateways
)

// How an agent's endpoint answers while a call is pending.
const (
	PendingAsError  = "error"  // a result with isError
	PendingAsResult = "result" // a result without
)

// DefaultCodesReplyTimeout is the reply timeout of agents with [ErrorStyleCodes]. Those with [ErrorStyleMCP] have none.
const DefaultCodesReplyTimeout = 60 * time.Second

// ReplyLimit returns the time after which a tools/call is answered with error -32003. Zero: never.
func (s *AgentSettings) ReplyLimit() time.Duration {
	if s.ReplyTimeout == 0 && s.ErrorStyle == ErrorStyleCodes {
		return DefaultCodesReplyTimeout
	}
	return s.ReplyTimeout
}
