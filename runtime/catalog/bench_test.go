package catalog_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/runtimetest"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// BenchmarkKnown measures the reads of each call from the registry, all of them cached.
func BenchmarkKnown(b *testing.B) {
	servers := &source{tools: map[string][]string{"files": {"read"}}}
	r := runtimetest.NewRegistry(b, runtimetest.Config{
		DB: worldtest.NewDB(b), Sources: map[tool.Transport]tool.Source{tool.HTTP: servers},
	})
	agents, conversations := r.Agents, r.Catalog
	r.Apply(agent.Spec{
		Skills: []agent.SkillSpec{{Name: "files", Transport: tool.HTTP, URL: "http://h/"}},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}}}},
	})
	billing := r.Agent("billing")
	_, key, err := agents.CreateKey(b.Context(), audit.System(), billing.ID)
	if err != nil {
		b.Fatal(err)
	}
	c, err := conversations.StartConversation(b.Context(), billing, uuid.Nil, "", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := readKnown(b.Context(), agents, conversations, r.Discovery, key, c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func readKnown(ctx context.Context, agents *agent.Service, conversations *catalog.Service, discovery *tool.Discovery, key string, c *catalog.Conversation) error {
	a, err := agents.Authenticate(ctx, key)
	if err != nil {
		return err
	}
	found, err := conversations.Conversation(ctx, a.ID, uuid.Nil, c.ID)
	if err != nil {
		return err
	}
	entry := &found.Catalog.Entries[0]
	if _, _, err := agents.Skill(ctx, entry.SkillID); err != nil {
		return err
	}
	_, err = discovery.Status(ctx, entry.SkillID, entry.Tool.Name)
	return err
}
