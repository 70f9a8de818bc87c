package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/agent"
)

// ServerSettings are what a server's settings came to, without secrets.
type ServerSettings struct {
	Version            string
	PublicURL          string
	DataDir            string
	EmbeddedDatabase   bool
	Stdio              bool     // skills may run programs on it
	StdioFromDashboard bool     // and operators may say in the dashboard which
	StdioAllow         []string // the commands they may run, a line each
	StdioPaths         []string // the folders below which they may declare paths
	AllowSelfApproval  bool
	HighRiskMaxAge     time.Duration // how old a sign-in may be that approves calls of high risk
	TrustedHosts       []string
}

// Server is how a server runs, and which others run beside it.
type Server struct {
	Version            string         `json:"version"`
	PublicURL          string         `json:"public_url"`
	DataDir            string         `json:"data_dir"`
	Database           string         `json:"database" enum:"embedded,external"`
	Stdio              bool           `json:"stdio" doc:"Whether skills may run programs on this server."`
	StdioFromDashboard bool           `json:"stdio_from_dashboard" doc:"Whether operators may say in the dashboard which."`
	StdioAllow         []string       `json:"stdio_allow" nullable:"false" doc:"The commands that skills may run, with any further arguments. Whoever starts the server lists them."`
	StdioPaths         []string       `json:"stdio_paths" nullable:"false" doc:"The folders below which skills may declare paths."`
	AllowSelfApproval  bool           `json:"allow_self_approval" doc:"Whether people may decide about calls made on their own behalf."`
	HighRiskMaxAge     agent.Duration `json:"high_risk_max_age" doc:"How old a sign-in may be that approves calls of tools of high risk: 15m."`
	TrustedHosts       []string       `json:"trusted_hosts" nullable:"false" doc:"May be private and without https, although a skill's server, a webhook or a callback names them."`
	Instances          []Instance     `json:"instances" nullable:"false" doc:"Servers that are alive, the oldest first."`
}

// Instance is one process of a server.
type Instance struct {
	ID        uuid.UUID `json:"id" format:"uuid"`
	This      bool      `json:"this" doc:"It is the one that answers."`
	StartedAt time.Time `json:"started_at"`
}

func (a *API) getServer(ctx context.Context, _ *struct{}) (*bodyOutput[Server], error) {
	instances, err := a.calls.Instances(ctx)
	if err != nil {
		return nil, err
	}
	s := &a.server
	view := Server{
		Version: s.Version, PublicURL: s.PublicURL, DataDir: s.DataDir, Database: "external", Stdio: s.Stdio,
		StdioAllow: orEmpty(s.StdioAllow), StdioPaths: orEmpty(s.StdioPaths),
		StdioFromDashboard: s.Stdio && s.StdioFromDashboard, AllowSelfApproval: s.AllowSelfApproval,
		HighRiskMaxAge: agent.Duration(s.HighRiskMaxAge), TrustedHosts: orEmpty(s.TrustedHosts), Instances: []Instance{},
	}
	if s.EmbeddedDatabase {
		view.Database = "embedded"
	}
	for _, i := range instances {
		view.Instances = append(view.Instances, Instance{ID: i.ID, This: i.Own, StartedAt: i.StartedAt.UTC()})
	}
	return output(view), nil
}

// Offered is what a new conversation of an agent would be offered.
type Offered struct {
	Tools    []ConversationTool `json:"tools" nullable:"false" doc:"In the order in which the agent sees them."`
	Problems []SkillProblem     `json:"problems" nullable:"false" doc:"Skills whose tools are missing, and why."`
}

func (a *API) previewAgent(ctx context.Context, input *ByName) (*bodyOutput[Offered], error) {
	id, err := a.agentID(ctx, input.Name)
	if err != nil {
		return nil, err
	}
	offered, problems, err := a.catalog.Preview(ctx, id)
	if err != nil {
		return nil, named(err, "agent", input.Name)
	}
	view := Offered{Tools: conversationTools(offered), Problems: []SkillProblem{}}
	for _, p := range problems {
		view.Problems = append(view.Problems, SkillProblem(p))
	}
	return output(view), nil
}
