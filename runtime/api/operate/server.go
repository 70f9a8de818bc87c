package operate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/api/rest"
	"github.com/holdpoint/holdpoint/runtime/call"
)

type serverHandlers struct {
	*rest.Directory

	calls    *call.Service
	settings ServerSettings
}

// ServerSettings are a server's effective settings, without secrets.
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
	DualControl        bool          // changes that loosen wait for a second operator
	SeparateRoles      bool          // operator and reviewer are never one person
	TokensOff          bool          // people have no personal tokens
	HighRiskMaxAge     time.Duration // how old a sign-in may be that approves calls of high risk
	MaxGrantTime       time.Duration
	Ages               lifetime.Ages
	TrustedHosts       []string
}

// Server describes this server and the list of running servers.
type Server struct {
	Version            string            `json:"version"`
	PublicURL          string            `json:"public_url"`
	DataDir            string            `json:"data_dir"`
	Database           string            `json:"database" enum:"embedded,external"`
	Stdio              bool              `json:"stdio" doc:"Whether skills may run programs on this server."`
	StdioFromDashboard bool              `json:"stdio_from_dashboard" doc:"Whether operators may enter the commands in the dashboard."`
	StdioAllow         []string          `json:"stdio_allow" nullable:"false" doc:"The commands that skills may run, with any further arguments. They are set when the server starts."`
	StdioPaths         []string          `json:"stdio_paths" nullable:"false" doc:"The folders that may contain the paths of skills."`
	AllowSelfApproval  bool              `json:"allow_self_approval" doc:"Whether people may decide calls made on their own behalf."`
	DualControl        bool              `json:"dual_control" doc:"Whether changes that loosen wait for a second operator."`
	SeparateRoles      bool              `json:"separate_roles" doc:"Whether operator and reviewer are never one person."`
	PersonTokens       bool              `json:"person_tokens" doc:"Whether people may have personal tokens."`
	BothRoles          []RoleConflict    `json:"both_roles" nullable:"false" doc:"With separate_roles: people who have both roles, by their groups for example, and the role that does not count."`
	HighRiskMaxAge     agent.Duration    `json:"high_risk_max_age" doc:"The maximum age of a sign-in that approves calls of high-risk tools: 15m."`
	MaxGrantTime       agent.Duration    `json:"max_grant_time" doc:"How long a grant may last: 720h."`
	Keep               map[string]string `json:"keep" nullable:"false" doc:"How long each kind of record is kept: 90d, or forever."`
	TrustedHosts       []string          `json:"trusted_hosts" nullable:"false" doc:"Hosts that may be private or without https for skills' servers, webhooks and callbacks."`
	Instances          []Instance        `json:"instances" nullable:"false" doc:"Running servers, oldest first."`
}

// RoleConflict is a person who has a role that does not count.
type RoleConflict struct {
	Person rest.PersonName `json:"person"`
	Lost   identity.Role   `json:"lost" enum:"reviewer,operator" doc:"The role that does not count."`
}

// Instance is one process of a server.
type Instance struct {
	ID        uuid.UUID `json:"id" format:"uuid"`
	This      bool      `json:"this" doc:"Whether it is the responding server."`
	StartedAt time.Time `json:"started_at"`
}

func (h *serverHandlers) getServer(ctx context.Context, _ *struct{}) (*rest.Output[Server], error) {
	instances, err := h.calls.ListInstances(ctx)
	if err != nil {
		return nil, err
	}
	s := &h.settings
	view := Server{
		Version: s.Version, PublicURL: s.PublicURL, DataDir: s.DataDir, Database: "external", Stdio: s.Stdio,
		StdioAllow: rest.OrEmpty(s.StdioAllow), StdioPaths: rest.OrEmpty(s.StdioPaths),
		StdioFromDashboard: s.Stdio && s.StdioFromDashboard, AllowSelfApproval: s.AllowSelfApproval,
		DualControl: s.DualControl, SeparateRoles: s.SeparateRoles, PersonTokens: !s.TokensOff, BothRoles: []RoleConflict{},
		HighRiskMaxAge: agent.Duration(s.HighRiskMaxAge), MaxGrantTime: agent.Duration(s.MaxGrantTime), TrustedHosts: rest.OrEmpty(s.TrustedHosts), Instances: []Instance{}, Keep: map[string]string{},
	}
	both, err := h.Identity.ListWithBoth(ctx)
	if err != nil {
		return nil, err
	}
	for i := range both {
		names, err := h.NamePeople(ctx, both[i].Person.ID)
		if err != nil {
			return nil, err
		}
		view.BothRoles = append(view.BothRoles, RoleConflict{names.Find(both[i].Person.ID), both[i].Lost})
	}
	for _, one := range s.Ages.Named() {
		view.Keep[one.Kind] = lifetime.FormatAge(one.Age)
	}
	if s.EmbeddedDatabase {
		view.Database = "embedded"
	}
	for _, i := range instances {
		view.Instances = append(view.Instances, Instance{ID: i.ID, This: i.Own, StartedAt: i.StartedAt.UTC()})
	}
	return rest.NewOutput(view), nil
}
