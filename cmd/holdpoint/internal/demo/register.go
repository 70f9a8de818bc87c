package demo

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/client"
)

// AgentName is the demo's agent.
const AgentName = "demo"

// Model is the model of the demo's agent.
type Model struct {
	Provider, Name string
}

// ModelOf returns the demo's script, or a real model if the environment has the URL of one. The server's own settings reach it.
func ModelOf(getenv func(string) string) Model {
	for _, m := range []struct{ provider, prefix, name string }{{"openai", "OPENAI_", "gpt-5-mini"}, {"anthropic", "ANTHROPIC_", "claude-sonnet-4-5"}} {
		if getenv(m.prefix+"BASE_URL") != "" {
			return Model{m.provider, cmp.Or(getenv(m.prefix+"MODEL"), m.name)}
		}
	}
	return Model{"scripted", ClerkScript}
}

// approvalTimeout gives newcomers time to read before they decide.
const approvalTimeout = 30 * time.Minute

// Register declares the demo's skills and agent through the API, as `holdpoint apply` would, and returns a new key of the agent, and the ids
// of its valid keys that other runs made. token is an operator's.
func Register(ctx context.Context, base, token string, m Model) (key string, others []uuid.UUID, err error) {
	api, err := client.New(client.Config{URL: base, Token: token})
	if err != nil {
		return "", nil, err
	}
	_, err = api.Apply(ctx, client.ApplyRequest{Spec: &client.Spec{
		Skills: []client.SkillSpec{
			{Name: InboxSkill, Transport: "http", URL: new(base + InboxPath), AutoApprove: new(true)},
			{
				Name: DriveSkill, Transport: "http", URL: new(base + DrivePath), ApprovalTimeout: new(approvalTimeout.String()),
				// The drive's server names its issuer itself. The issuer here says where the client is registered, also when the
				// demo has another port than last time.
				OAuth: &client.OAuthSpec{Grant: new("client_credentials"), ClientID: new(ClientID), Issuer: new(base + IssuerPath)},
			},
		},
		Agents: []client.AgentSpec{{
			Name: AgentName, Instructions: new("You file invoices."), Model: &client.ModelSpec{Provider: m.Provider, Name: m.Name},
			Skills: []client.AssignmentSpec{{Skill: InboxSkill}, {Skill: DriveSkill}},
		}},
	}})
	if err != nil {
		return "", nil, fmt.Errorf("register the demo: %w", err)
	}
	keys, err := client.Value(api.ListKeys(ctx, AgentName))
	if err != nil {
		return "", nil, fmt.Errorf("register the demo: list keys: %w", err)
	}
	for _, one := range keys.Items {
		if one.RevokedAt == nil {
			id, err := uuid.Parse(one.ID)
			if err != nil {
				return "", nil, fmt.Errorf("register the demo: id of a key: %w", err)
			}
			others = append(others, id)
		}
	}
	created, err := client.Value(api.CreateKey(ctx, AgentName))
	if err != nil {
		return "", nil, fmt.Errorf("register the demo: create key: %w", err)
	}
	return created.Key, others, nil
}
