package operate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/runtime/trial"
)

type skillHandlers struct {
	*rest.Directory

	calls     *call.Service
	trials    *trial.Service
	discovery *tool.Discovery
}

// Skill is a named source of tools.
type Skill struct {
	SkillServer
	SkillSettings
	SkillRecord
	SkillAPI
}

// SkillServer has the fields that say how a skill's server is reached.
type SkillServer struct {
	ID         uuid.UUID      `json:"id" format:"uuid"`
	Name       string         `json:"name"`
	Transport  tool.Transport `json:"transport" enum:"stdio,http,openapi,http-api,gate"`
	URL        *string        `json:"url" doc:"With http: the URL of the server."`
	Command    []string       `json:"command" doc:"With stdio: the program and its arguments."`
	Headers    []string       `json:"headers" nullable:"false" doc:"Names only; values are secret."`
	Env        []string       `json:"env" nullable:"false" doc:"Names only; values are secret."`
	RunAs      *string        `json:"run_as" doc:"With stdio: the account that its program runs as; null: a separate one if the server runs as root."`
	Paths      SkillPaths     `json:"paths" doc:"With stdio: the paths outside its home that the program may use."`
	OAuth      *OAuth         `json:"oauth" doc:"How to get authorized at the server; null: discovered when the server requires it."`
	Connection string         `json:"connection" enum:"shared,per_user" doc:"One for all, or one for each person."`
}

// SkillRecord has the fields that clients do not set.
type SkillRecord struct {
	Revision  int64     `json:"revision"`
	Health    Health    `json:"health"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// SkillPaths are the folders and files that a program may use.
type SkillPaths struct {
	Read  []string `json:"read" nullable:"false" doc:"Paths that the program may read and run."`
	Write []string `json:"write" nullable:"false" doc:"Paths that the program may write and read."`
}

// OAuth is how to get authorized at a skill's server. Null fields are discovered.
type OAuth struct {
	_           struct{}   `nullable:"true"`
	Grant       tool.Grant `json:"grant" enum:"authorization_code,client_credentials,enterprise_managed,workload_identity"`
	Issuer      *string    `json:"issuer" doc:"The authorization server."`
	ClientID    *string    `json:"client_id"`
	AuthMethod  *string    `json:"auth_method" enum:"client_secret_basic,client_secret_post,private_key_jwt,none"`
	Scopes      []string   `json:"scopes" nullable:"false" doc:"Empty: the scopes that the server requires."`
	TrustOrigin bool       `json:"trust_origin" doc:"The server's metadata may name a resource above its own URL."`
	IDP         *IDP       `json:"idp" doc:"With the grant enterprise_managed: the identity provider."`
	Secrets     []string   `json:"secrets" nullable:"false" doc:"Names of the secrets that are set: client_secret, private_key, idp.client_secret."`
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
		Grant: o.Grant, Issuer: rest.OrNull(o.Issuer), ClientID: rest.OrNull(o.ClientID), AuthMethod: rest.OrNull(o.AuthMethod),
		Scopes: rest.OrEmpty(o.Scopes), TrustOrigin: o.TrustOrigin, Secrets: rest.OrEmpty(o.Secrets),
	}
	if o.IDPIssuer != "" {
		view.IDP = &IDP{Issuer: o.IDPIssuer, ClientID: o.IDPClientID}
	}
	return view
}

// Health is the result of the last listing of a skill's tools.
type Health struct {
	Status       string     `json:"status" enum:"unknown,ok,failing"`
	DiscoveredAt *time.Time `json:"discovered_at" doc:"The first successful listing."`
	ListedAt     *time.Time `json:"listed_at" doc:"The last listing attempt."`
	Kind         *string    `json:"kind" enum:"tool_error,jsonrpc_error,transport,protocol,session_invalid"`
	Error        *string    `json:"error"`

	Skipped []tool.Skipped `json:"skipped" nullable:"false" doc:"Tools that the last successful listing skipped, with the reasons; at most 200."`
}

func newSkill(s agent.Skill) Skill {
	view := Skill{
		SkillServer: SkillServer{
			ID: s.ID, Name: s.Name, Transport: s.Transport, Command: s.Command,
			Headers: rest.OrEmpty(s.HeaderNames), Env: rest.OrEmpty(s.EnvNames),
			RunAs: rest.OrNull(s.RunAs), Paths: SkillPaths{rest.OrEmpty(s.Paths.Read), rest.OrEmpty(s.Paths.Write)},
			OAuth: newOAuth(s.OAuth), Connection: agent.ConnectionShared,
		},
		SkillSettings: newSkillSettings(&s.SkillSettings),
		SkillRecord: SkillRecord{
			Revision: s.Revision, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
			Health: Health{
				Status: "ok", DiscoveredAt: rest.UTCOrNull(s.Health.DiscoveredAt), ListedAt: rest.UTCOrNull(s.Health.ListedAt),
				Kind: rest.OrNull(s.Health.ErrorKind), Error: rest.OrNull(s.Health.Error),
				Skipped: rest.OrEmpty(s.Health.Skipped),
			},
		},
		SkillAPI: newSkillAPI(&s),
	}
	if !s.Transport.IsAPI() {
		view.URL = rest.OrNull(s.URL)
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

func (h *skillHandlers) listSkills(ctx context.Context, input *rest.Page) (*rest.ListOutput[Skill], error) {
	if err := rest.CheckStorable("query.cursor", input.Cursor); err != nil {
		return nil, err
	}
	found, next, err := h.Agents.Skills(ctx, input.Cursor, input.Limit)
	if err != nil {
		return nil, err
	}
	return rest.ListOf(found, next, newSkill), nil
}

func (h *skillHandlers) createSkill(ctx context.Context, input *struct{ Body agent.SkillSpec }) (*rest.Output[Skill], error) {
	made, err := h.Agents.CreateSkill(ctx, rest.CallerOf(ctx).Actor(), input.Body)
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	return rest.NewOutput(newSkill(*made)), nil
}

func (h *skillHandlers) getSkill(ctx context.Context, input *rest.ByName) (*rest.Output[Skill], error) {
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return rest.NewOutput(newSkill(*found)), nil
}

type updateSkillInput struct {
	rest.ByName
	Body agent.SkillPatch
}

func (h *skillHandlers) updateSkill(ctx context.Context, input *updateSkillInput) (*rest.Output[Skill], error) {
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	changed, err := h.Agents.UpdateSkill(ctx, rest.CallerOf(ctx).Actor(), found.ID, input.Body)
	if err != nil {
		return nil, rest.InPart("body", err)
	}
	return rest.NewOutput(newSkill(*changed)), nil
}

func (h *skillHandlers) deleteSkill(ctx context.Context, input *rest.ByName) (*rest.None, error) {
	found, err := h.FindSkill(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	return nil, h.Agents.DeleteSkill(ctx, rest.CallerOf(ctx).Actor(), found.ID)
}
