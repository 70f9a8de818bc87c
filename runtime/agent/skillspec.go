package agent

import "github.com/holdpoint/holdpoint/runtime/tool"

//go:generate go run ./generate

// SkillSpec declares one skill, as holdpoint.yaml does. A missing field has its default.
//
// Fields with the tag "setting" are plain settings, and this struct is their table. From it, go generate makes [SkillSettings] and
// [SkillPatch], their validation, storage and list of changes, their part of the API's skill, of the shape of holdpoint.yaml and of
// the dashboard's form, and their flags. The tag has options, separated by commas:
//
//	enum=A|B|C   the values of a string; the first one is the default
//	check=NAME   the method of report that validates a string
//	min=D,max=D  of a duration
//	default=D    of a duration
//	zero=TEXT    the meaning of 0s, which is the default of a duration without another
//	column=NAME  the column of the table; a skill's setting without one is stored in the JSON of the column settings
//	unlisted     the default is not listed among the fields of a skill
//
// A field of another type is validated by hand, normalized by the function normalizeNAME and listed by listNAME. Its form is written by hand.
// The tag "flag" is the help text of the command line's flag, which has the name of the JSON member; "-" is no flag. The tag "about"
// describes the field of the API's skill. The tag "patch" is the type and the option of the patch's field, if they are not the
// usual ones; "-" is no field.
type SkillSpec struct {
	Name      string            `json:"name" patch:"-" manifest:"required" doc:"The name of the skill, which is also the prefix of its tools."`
	Transport tool.Transport    `json:"transport" manifest:"required" values:"http|stdio|openapi|http-api|gate" doc:"How the skill is reached: http, an MCP server over streamable HTTP; stdio, an MCP server that runs as a program; openapi, an HTTP API with an OpenAPI document; http-api, an HTTP API whose endpoints are written here; gate, calls that Holdpoint judges and the caller executes."`
	URL       string            `json:"url,omitempty" doc:"The URL of the MCP server. Required with transport http."`
	Command   []string          `json:"command,omitempty" doc:"The program of the MCP server and its arguments. Required with transport stdio."`
	Headers   map[string]string `json:"headers,omitempty" patch:"map[string]*string" manifest:"secret" doc:"Headers of every request, with transports http, openapi and http-api. Their values are secret."` // values are secret; in a patch, null removes one
	Env       map[string]string `json:"env,omitempty" patch:"map[string]*string" manifest:"secret" doc:"Environment variables of the program, with transport stdio. Their values are secret."`               // likewise
	RunAs     string            `json:"run_as,omitempty" otherwise:"an account of its own" doc:"The account of this machine that the program runs as, with transport stdio."`                                // of stdio: an account of this machine; "": one of its own
	Paths     *tool.Paths       `json:"paths,omitempty" otherwise:"none" doc:"Files and folders that the program may use besides its own, with transport stdio."`                                            // of stdio

	// AutoApprove sends calls without an approval, unless the tool is of high risk, new or changed.
	AutoApprove bool `json:"auto_approve,omitempty" setting:"column=auto_approve" flag:"its calls need no approval" doc:"Whether calls need no approval, unless the tool is of high risk, new or changed."`
	// TrustNewTools accepts tools that the server offers after the first listing.
	TrustNewTools bool `json:"trust_new_tools,omitempty" setting:"column=trust_new_tools" flag:"accept tools that it begins to offer later" doc:"Whether tools are accepted that the server offers after its first listing."`
	// ApprovalTimeout is the time for the decision about a call.
	ApprovalTimeout *Duration `json:"approval_timeout,omitempty" setting:"column=approval_timeout_ms,default=5m,min=1s,max=720h" flag:"time to decide about a call: 5m" about:"5m" doc:"The time for the decision about a call."`
	// ApprovalValidity is how long an approved call may be sent after the decision. Zero: as long as the approval timeout.
	ApprovalValidity *Duration `json:"approval_validity,omitempty" setting:"min=1s,max=720h,zero=the approval timeout,unlisted" flag:"how long an approved call may be sent after the decision: 10m; 0s is the approval timeout" about:"How long an approved call may be sent after the decision. 0s: as long as approval_timeout." doc:"How long an approved call may be sent after the decision."`
	// Host is the program whose built-in tools a skill of transport gate has. Empty: those that callers name.
	Host string `json:"host,omitempty" setting:"check=checkHost" flag:"of transport gate: the program whose built-in tools it has, such as claude-code" about:"Of transport gate: the program whose built-in tools the skill has: claude-code, codex, gemini, copilot, opencode or cursor; null: the tools that callers name." values:"claude-code|codex|gemini|copilot|opencode|cursor" otherwise:"the tools that callers name" doc:"The program whose built-in tools the skill has, with transport gate."`
	// ReleaseTime is how long a released call of transport gate may be started. Zero: [DefaultReleaseTime].
	ReleaseTime *Duration `json:"release_time,omitempty" setting:"min=1s,max=24h,zero=5m,unlisted" flag:"of transport gate: how long the caller may start a released call: 5m; 0s is 5m" about:"Of transport gate: how long the caller may start a released call. 0s: 5m." doc:"How long the caller may start a released call, with transport gate."`
	// CallTimeout is the time for the server to answer a call.
	CallTimeout *Duration `json:"call_timeout,omitempty" setting:"column=call_timeout_ms,default=1m,min=10ms,max=1h" flag:"time for its server to answer a call: 60s" about:"1m" doc:"The time for the server to answer a call."`
	// Resources is ResourcesGated or ResourcesPass; auto-approved skills always pass.
	Resources string `json:"resources,omitempty" setting:"enum=gated|pass" flag:"which resources clients may read while it is not auto-approved: gated (those that a finished call returned) or pass" about:"The resources that clients may read while the skill is not auto-approved: gated, those that a finished call of the conversation returned; pass, all."`
	// Edits is EditsByRisk, EditsAlone or EditsSecond.
	Edits string `json:"edits,omitempty" setting:"enum=by_risk|alone|second,unlisted" flag:"who approves a reviewer's edit of a call: alone (the editor), second (another reviewer) or by_risk (another reviewer for high-risk tools)" about:"Who approves a reviewer's edit of a call's arguments: alone, the editor; second, another reviewer; by_risk, another reviewer for high-risk tools, otherwise the editor."`
	// Questions is QuestionsReviewer or QuestionsClient, for gated calls.
	Questions string `json:"questions,omitempty" setting:"enum=reviewer|client" flag:"who decides about the questions of its server during a gated call: reviewer or client" about:"Who decides on questions of its server to the client during a gated call: a reviewer, about question and answer; or the client alone."`
	// IdentityHeaders name the caller to the server.
	IdentityHeaders *IdentityHeaders `json:"identity_headers,omitempty" setting:"" flag:"-" about:"Whether and how requests identify the person that they are made for." otherwise:"off" doc:"Whether requests identify the agent, the call and the person that they are made for. A single true stands for enabled."`
	// Tools are settings of single tools, without empty ones.
	Tools map[string]ToolSettings `json:"tools,omitempty" setting:"column=tools" flag:"-" about:"Operators' settings of single tools." doc:"Operators' settings of single tools, by the names that the server uses."`
	// Team is asked first to review the calls. Empty: the agent's team.
	Team string `json:"team,omitempty" setting:"column=team,check=checkTeam" flag:"team whose attention its calls need; \"\" is the agent's team" about:"The team whose queue its calls are in; null: the agent's team." otherwise:"the agent's team" doc:"The team that is asked first to review the calls."`
	// EscalateTo is the team that is also asked at half of the deadline. Empty: the agent's.
	EscalateTo string `json:"escalate_to,omitempty" setting:"column=escalate_to,check=checkTeam" flag:"team that is asked at half of the deadline; \"\" is the agent's" about:"The team that is notified at half of the deadline; null: the agent's." otherwise:"the agent's" doc:"The team that is also asked at half of the deadline."`
	// Escalation asks more teams and people, step by step, in place of EscalateTo. Empty: the agent's.
	Escalation []EscalationStep `json:"escalation,omitempty" setting:"" flag:"-" about:"More teams and people who are asked, step by step, in place of escalate_to; null: those of the agent." otherwise:"the agent's" doc:"More teams and people who are asked, step by step, in place of escalate_to."`
	// Policy is the approval policy of calls that need an approval. Empty: one reviewer decides.
	Policy string `json:"policy,omitempty" setting:"column=policy,check=checkPolicy" flag:"approval policy of its calls; \"\" is none: one reviewer decides" about:"The approval policy of calls that need an approval; null: one reviewer decides." otherwise:"none: one reviewer decides" doc:"The approval policy of calls that need an approval."`

	OAuth      *OAuthSpec `json:"oauth,omitempty" patch:"OAuthPatch,omitzero" otherwise:"discovered when the server requires it" doc:"How Holdpoint gets tokens for the server."`         // nil: discovered when the server requires it; in a patch, null removes it
	Connection string     `json:"connection,omitempty" values:"shared|per_user" otherwise:"shared" doc:"Whether all people share one connection to the server, or each person connects."` // shared, the default, or per_user
	APISpec
}

// DefaultSkillSettings returns the settings of a skill that has no others.
func DefaultSkillSettings() SkillSettings { return (&SkillSpec{}).settings() }

// How clients read the resources of a skill that is not auto-approved.
const (
	ResourcesGated = "gated" // only those that a finished call of the conversation returned
	ResourcesPass  = "pass"  // all of them
)

// Who approves a reviewer's edit of a call's arguments.
const (
	EditsByRisk = "by_risk" // a second reviewer approves edits for tools of high risk, the editor approves others
	EditsAlone  = "alone"   // the editor approves them
	EditsSecond = "second"  // a second reviewer approves them
)

// Who decides about a question that a server asks during a gated call.
const (
	QuestionsReviewer = "reviewer" // a reviewer, about the question and the client's answer
	QuestionsClient   = "client"   // the client alone; question and answer are recorded
)
