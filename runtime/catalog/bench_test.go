package catalog_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/postgrestest"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// BenchmarkKnown is what every call asks of the registry, all of it remembered.
func BenchmarkKnown(b *testing.B) {
	db, log := postgrestest.New(b), slog.New(slog.DiscardHandler)
	box, err := secret.Open(secret.Config{File: filepath.Join(b.TempDir(), "key.json")})
	if err != nil {
		b.Fatal(err)
	}
	servers := &source{tools: map[string][]string{"files": {"read"}}}
	discovery, err := tool.NewDiscovery(tool.DiscoveryConfig{
		Pool: db.Pool(), Sources: map[tool.Transport]tool.Source{tool.HTTP: servers}, Listed: agent.RecordListing,
		Logger: log, Now: time.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer discovery.Close()
	agents, err := agent.New(agent.Config{
		Pool: db.Pool(), Discovery: discovery, Box: box, Logger: log, Now: time.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer agents.Close()
	conversations, err := catalog.New(catalog.Config{Pool: db.Pool(), Agents: agents, Discovery: discovery, Logger: log, Now: time.Now})
	if err != nil {
		b.Fatal(err)
	}
	defer conversations.Close()
	_, err = agents.Apply(b.Context(), operator, agent.Spec{
		Skills: []agent.SkillSpec{{Name: "files", Transport: tool.HTTP, URL: "http://h/"}},
		Agents: []agent.AgentSpec{{Name: "billing", Skills: &[]agent.AssignmentSpec{{Skill: "files"}}}},
	}, false)
	if err != nil {
		b.Fatal(err)
	}
	billing, err := agents.AgentByName(b.Context(), "billing")
	if err != nil {
		b.Fatal(err)
	}
	_, key, err := agents.CreateKey(b.Context(), operator, billing.ID)
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
			if err := known(b.Context(), agents, conversations, discovery, key, c); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func known(ctx context.Context, agents *agent.Service, conversations *catalog.Service, discovery *tool.Discovery, key string, c *catalog.Conversation) error {
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
