package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// Skill is a named source of tools.
type Skill struct {
	ID        uuid.UUID      `json:"id" format:"uuid"`
	Name      string         `json:"name"`
	Transport tool.Transport `json:"transport" enum:"stdio,http,openapi,http-api"`
	URL       *string        `json:"url" doc:"Of http."`
	SkillAPI
	Command          []string                      `json:"command" doc:"Of stdio: program and arguments."`
	Headers          []string                      `json:"headers" nullable:"false" doc:"Names only: values are secret."`
	Env              []string                      `json:"env" nullable:"false" doc:"Names only: values are secret."`
	RunAs            *string                       `json:"run_as" doc:"Of stdio: the account its program runs as; null: one of its own where the server runs as root."`
	Paths            SkillPaths                    `json:"paths" doc:"Of stdio: what its program may use outside its home."`
	OAuth            *OAuth                        `json:"oauth" doc:"How the server is authorized to; null: discovered when it asks for it."`
	Connection       string                        `json:"connection" enum:"shared,per_user" doc:"One for all, or one for each person."`
	AutoApprove      bool                          `json:"auto_approve"`
	TrustNewTools    bool                          `json:"trust_new_tools"`
	ApprovalTimeout  agent.Duration                `json:"approval_timeout" doc:"5m"`
	ApprovalValidity agent.Duration                `json:"approval_validity" doc:"How long an approved call may be sent after the decision. 0s: as long as approval_timeout."`
	CallTimeout      agent.Duration                `json:"call_timeout" doc:"1m"`
	Resources        string                        `json:"resources" enum:"gated,pass" doc:"Which of its resources clients may read while it is not auto-approved: gated, those that a finished call of the conversation returned; pass, all."`
	Edits            string                        `json:"edits" enum:"by_risk,alone,second" doc:"Who approves a reviewer's edit of a call's arguments: alone, the editor; second, another reviewer; by_risk, another reviewer for tools of high risk, else the editor."`
	Questions        string                        `json:"questions" enum:"reviewer,client" doc:"Who decides about what its server asks the client during a gated call: a reviewer, about question and answer; or the client alone."`
	IdentityHeaders  agent.IdentityHeaders         `json:"identity_headers" doc:"Whether and how its server is told who a request is made for."`
	Tools            map[string]agent.ToolSettings `json:"tools" doc:"What an operator says of single tools."`
	Team             *string                       `json:"team" doc:"Whose attention its calls want; null: that of the agent's team."`
	EscalateTo       *string                       `json:"escalate_to" doc:"The team that is asked at half of the deadline; null: the agent's."`
	Revision         int64                         `json:"revision"`
	Health           Health                        `json:"health"`
	CreatedAt        time.Time                     `json:"created_at"`
	UpdatedAt        time.Time                     `json:"updated_at"`
}

// SkillPaths are the folders and files that a program may use.
type SkillPaths struct {
	Read  []string `json:"read" nullable:"false" doc:"And run."`
	Write []string `json:"write" nullable:"false" doc:"And read."`
}

// OAuth is how a skill's server is authorized to. What is null is discovered.
type OAuth struct {
	_           struct{}   `nullable:"true"`
	Grant       tool.Grant `json:"grant" enum:"authorization_code,client_credentials,enterprise_managed,workload_identity"`
	Issuer      *string    `json:"issuer" doc:"The authorization server."`
	ClientID    *string    `json:"client_id"`
	AuthMethod  *string    `json:"auth_method" enum:"client_secret_basic,client_secret_post,private_key_jwt,none"`
	Scopes      []string   `json:"scopes" nullable:"false" doc:"Empty: those that the server asks for."`
	TrustOrigin bool       `json:"trust_origin" doc:"The server's metadata may name a resource above its own URL."`
	IDP         *IDP       `json:"idp" doc:"Of grant enterprise_managed."`
	Secrets     []string   `json:"secrets" nullable:"false" doc:"Names only, of those that are set: client_secret, private_key, idp.client_secret."`
}

// IDP is the enterprise's identity provider.
type IDP struct {
	_        struct{} `nullable:"true"`
	Issuer   string   `json:"issuer"`
	ClientID string   `json:"client_id"`
}

func newOAuth(o *agent.OAuth) *OAuth {
	if o == nil {
		return nil
	}
	view := &OAuth{
		Grant: o.Grant, Issuer: orNull(o.Issuer), ClientID: orNull(o.ClientID), AuthMethod: orNull(o.AuthMethod),
		Scopes: orEmpty(o.Scopes), TrustOrigin: o.TrustOrigin, Secrets: orEmpty(o.Secrets),
	}
	if o.IDPIssuer != "" {
		view.IDP = &IDP{Issuer: o.IDPIssuer, ClientID: o.IDPClientID}
	}
	return view
}

// Health is how the last listing of a skill's tools went.
type Health struct {
	Status       string     `json:"status" enum:"unknown,ok,failing"`
	DiscoveredAt *time.Time `json:"discovered_at" doc:"The first success."`
	ListedAt     *time.Time `json:"listed_at" doc:"The last attempt."`
	Kind         *string    `json:"kind" enum:"tool_error,jsonrpc_error,transport,protocol,session_invalid"`
	Error        *string    `json:"error"`

	Skipped []tool.Skipped `json:"skipped" nullable:"false" doc:"Tools that the last successful listing left out, with the reasons; at most 200."`
}

func newSkill(s agent.Skill) Skill {
	view := Skill{
		ID: s.ID, Name: s.Name, Transport: s.Transport, SkillAPI: newSkillAPI(&s), Command: s.Command,
		Headers: orEmpty(s.HeaderNames), Env: orEmpty(s.EnvNames),
		RunAs: orNull(s.RunAs), Paths: SkillPaths{orEmpty(s.Paths.Read), orEmpty(s.Paths.Write)},
		OAuth: newOAuth(s.OAuth), Connection: agent.ConnectionShared,
		AutoApprove: s.AutoApprove, TrustNewTools: s.TrustNewTools,
		ApprovalTimeout: agent.Duration(s.ApprovalTimeout), ApprovalValidity: agent.Duration(s.ApprovalValidity), CallTimeout: agent.Duration(s.CallTimeout),
		Resources: s.Resources, Edits: s.Edits, Questions: s.Questions, IdentityHeaders: s.IdentityHeaders,
		Tools: s.Tools, Team: orNull(s.Team), EscalateTo: orNull(s.EscalateTo), Revision: s.Revision, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
		Health: Health{
			Status: "ok", DiscoveredAt: utcOrNull(s.Health.DiscoveredAt), ListedAt: utcOrNull(s.Health.ListedAt),
			Kind: orNull(s.Health.ErrorKind), Error: orNull(s.Health.Error),
			Skipped: orEmpty(s.Health.Skipped),
		},
	}
	if !s.Transport.IsAPI() {
		view.URL = orNull(s.URL)
	}
	if s.PerUser {
		view.Connection = agent.ConnectionPerUser
	}
	switch {
	case view.Health.Kind != nil:
		view.Health.Status = "failing"
	case view.Health.ListedAt == nil:
		view.Health.Status = "unknown"
	}
	if view.Tools == nil {
		view.Tools = map[string]agent.ToolSettings{}
	}
	return view
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func (a *API) listSkills(ctx context.Context, input *Page) (*listOutput[Skill], error) {
	if err := storable("query.cursor", input.Cursor); err != nil {
		return nil, err
	}
	found, next, err := a.agents.Skills(ctx, input.Cursor, input.Limit)
	if err != nil {
		return nil, err
	}
	return listOf(found, next, newSkill), nil
}

func (a *API) createSkill(ctx context.Context, input *struct{ Body agent.SkillSpec }) (*bodyOutput[Skill], error) {
	made, err := a.agents.CreateSkill(ctx, callerOf(ctx).actor(), input.Body)
	if err != nil {
		return nil, err
	}
	return output(newSkill(*made)), nil
}

func (a *API) getSkill(ctx context.Context, input *ByName) (*bodyOutput[Skill], error) {
	found, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return output(newSkill(*found)), nil
}

type updateSkillInput struct {
	ByName
	Body agent.SkillPatch
}

func (a *API) updateSkill(ctx context.Context, input *updateSkillInput) (*bodyOutput[Skill], error) {
	found, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	changed, err := a.agents.UpdateSkill(ctx, callerOf(ctx).actor(), found.ID, input.Body)
	if err != nil {
		return nil, err
	}
	return output(newSkill(*changed)), nil
}

func (a *API) deleteSkill(ctx context.Context, input *ByName) (*none, error) {
	found, err := a.skill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return nil, a.agents.DeleteSkill(ctx, callerOf(ctx).actor(), found.ID)
}
