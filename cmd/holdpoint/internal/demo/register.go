package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdpoint/holdpoint/internal/client"
)

// AgentName is the demo's agent.
const AgentName = "demo"

// Model is what answers for the demo's agent.
type Model struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
}

// ModelOf is the demo's script, or a real model where the environment says where one is: the server's own settings say how it
// is reached.
func ModelOf(getenv func(string) string) Model {
	for _, m := range []struct{ provider, prefix, name string }{{"openai", "OPENAI_", "gpt-5-mini"}, {"anthropic", "ANTHROPIC_", "claude-sonnet-4-5"}} {
		if getenv(m.prefix+"BASE_URL") != "" {
			return Model{m.provider, cmp.Or(getenv(m.prefix+"MODEL"), m.name)}
		}
	}
	return Model{"scripted", ClerkScript}
}

// approvalTimeout is for newcomers, who read before they decide.
const approvalTimeout = 30 * time.Minute

// Register declares the demo's skills and agent through the API, as `holdpoint
// apply` would, and gives the agent a fresh key: those of earlier runs are revoked. token is
// an operator's.
func Register(ctx context.Context, base, token string, m Model) (key string, err error) {
	api, err := client.New(client.Config{URL: base, Token: token})
	if err != nil {
		return "", err
	}
	type object = map[string]any
	_, err = api.Post(ctx, "apply", object{"spec": object{
		"skills": []object{
			{"name": InboxSkill, "transport": "http", "url": base + InboxPath, "auto_approve": true},
			{
				"name": DriveSkill, "transport": "http", "url": base + DrivePath, "approval_timeout": approvalTimeout.String(),
				// The drive's server names its issuer itself; here it says that the client is known there, also
				// when the demo has another port than last time.
				"oauth": object{"grant": "client_credentials", "client_id": ClientID, "issuer": base + IssuerPath},
			},
		},
		"agents": []object{{
			"name": AgentName, "instructions": "You file invoices.", "model": m,
			"skills": []object{{"skill": InboxSkill}, {"skill": DriveSkill}},
		}},
	}})
	if err != nil {
		return "", fmt.Errorf("register the demo: %w", err)
	}
	keys := "agents/" + AgentName + "/keys"
	if err := revokeAll(ctx, api, keys); err != nil {
		return "", fmt.Errorf("register the demo: %w", err)
	}
	var created struct {
		Key string `json:"key"`
	}
	text, err := api.Post(ctx, keys, nil)
	if err == nil {
		err = json.Unmarshal(text, &created)
	}
	if err != nil {
		return "", fmt.Errorf("register the demo: create key: %w", err)
	}
	return created.Key, nil
}

func revokeAll(ctx context.Context, api *client.Client, keys string) error {
	text, err := api.Get(ctx, keys, nil)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	var list struct {
		Items []struct {
			ID        string     `json:"id"`
			RevokedAt *time.Time `json:"revoked_at"`
		} `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	for _, item := range list.Items {
		if item.RevokedAt != nil {
			continue
		}
		if err := api.Delete(ctx, keys+"/"+client.Segment(item.ID)); err != nil {
			return fmt.Errorf("revoke key: %w", err)
		}
	}
	return nil
}
