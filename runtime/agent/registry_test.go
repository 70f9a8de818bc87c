package agent_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestAgentsAndKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a, err := w.CreateAgent(ctx, operator, agent.AgentSpec{Name: "billing"})
	check(t, err)
	if a.WaitBudget != agent.DefaultAgentSettings().WaitBudget || a.Revision != 1 {
		t.Errorf("agent %+v", a)
	}
	if _, err := w.CreateAgent(ctx, operator, agent.AgentSpec{Name: "billing"}); !errors.Is(err, agent.ErrExists) {
		t.Errorf("the same name: %v", err)
	}
	key, credential, err := w.CreateKey(ctx, operator, a.ID)
	check(t, err)
	if !strings.HasPrefix(credential, key.Hint) || !strings.HasPrefix(credential, "hpa_") {
		t.Errorf("key %q, hint %q", credential, key.Hint)
	}
	found, err := w.Authenticate(ctx, credential)
	if err != nil || found.ID != a.ID {
		t.Errorf("authenticated %+v, %v", found, err)
	}
	for _, wrong := range []string{"", "hpa_", credential + "a", strings.Replace(credential, "hpa_", "hpp_", 1)} {
		if _, err := w.Authenticate(ctx, wrong); !errors.Is(err, agent.ErrUnauthenticated) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if n := w.db.Count(`agent_keys k, audit_events e WHERE position('` + credential[8:] + `' in k::text || e::text) > 0`); n != 0 {
		t.Error("the key is stored")
	}
	_, second, err := w.CreateKey(ctx, operator, a.ID)
	check(t, err)
	check(t, w.RevokeKey(ctx, operator, key.ID))
	if _, err := w.Authenticate(ctx, credential); !errors.Is(err, agent.ErrUnauthenticated) {
		t.Errorf("revoked: %v", err)
	}
	if err := w.RevokeKey(ctx, operator, key.ID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	keys, err := w.Keys(ctx, a.ID)
	if err != nil || len(keys) != 2 || keys[0].RevokedAt != nil || keys[1].RevokedAt == nil {
		t.Errorf("keys %+v, %v", keys, err)
	}
	check(t, w.DeleteAgent(ctx, operator, a.ID))
	if _, err := w.Authenticate(ctx, second); !errors.Is(err, agent.ErrUnauthenticated) {
		t.Errorf("key of a deleted agent: %v", err)
	}
	if _, err := w.AgentByName(ctx, "billing"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if _, err := w.CreateAgent(ctx, operator, agent.AgentSpec{Name: "billing"}); err != nil {
		t.Errorf("the name of a deleted agent: %v", err)
	}
	if _, err := w.Authenticate(ctx, second); !errors.Is(err, agent.ErrUnauthenticated) {
		t.Errorf("key of a deleted agent whose name was reused: %v", err)
	}
	events, err := audit.List(ctx, w.db.Pool(), audit.Filter{Subject: a.ID})
	check(t, err)
	var actions []string
	for _, e := range events {
		actions = append(actions, string(e.Action))
	}
	want := []string{"agent.deleted", "agent_key.revoked", "agent_key.created", "agent_key.created", "agent.created"}
	if !slices.Equal(actions, want) {
		t.Errorf("audit %v, want %v", actions, want)
	}
}

func TestUpdateAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	a, err := w.CreateAgent(ctx, operator, agent.AgentSpec{
		Name: "billing", Model: &agent.ModelSpec{Provider: "openai", Name: "m1", APIKey: "sk-geheim"},
	})
	check(t, err)
	if strings.Contains(string(a.Model), "geheim") {
		t.Errorf("model %s", a.Model)
	}
	same, err := w.UpdateAgent(ctx, operator, a.ID, agent.AgentPatch{Instructions: new("")})
	if err != nil || same.Revision != a.Revision {
		t.Errorf("nothing changed: %+v, %v", same, err)
	}
	update := func(patch agent.AgentPatch) *agent.ModelSpec {
		t.Helper()
		_, err := w.UpdateAgent(ctx, operator, a.ID, patch)
		check(t, err)
		model, err := w.Model(ctx, a.ID)
		check(t, err)
		return model
	}
	if m := update(agent.AgentPatch{Model: &agent.ModelSpec{Provider: "openai", Name: "m2"}}); m.Name != "m2" || m.APIKey != "sk-geheim" {
		t.Errorf("same server: %+v", m)
	}
	elsewhere := &agent.ModelSpec{Provider: "openai", Name: "m2", BaseURL: "https://evil.example"}
	if m := update(agent.AgentPatch{Model: elsewhere}); m.APIKey != "" {
		t.Errorf("the key went to another server: %+v", m)
	}
	if m := update(agent.AgentPatch{Model: &agent.ModelSpec{}}); m != nil {
		t.Errorf("removed: %+v", m)
	}
	changed, err := w.AgentByID(ctx, a.ID)
	if err != nil || changed.Revision != a.Revision+3 || changed.Model != nil {
		t.Errorf("%+v, %v", changed, err)
	}
}

func TestSkills(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	created, err := w.CreateSkill(ctx, operator, agent.SkillSpec{
		Name: "files", Transport: tool.HTTP, URL: "https://mcp.example/mcp",
		Headers: map[string]string{"x-team": "t0p-secret"}, Tools: map[string]agent.ToolSettings{
			"write": {Risk: agent.RiskHigh}, "read": {Enabled: new(true)},
		},
	})
	check(t, err)
	if created.Revision != 1 || created.ApprovalTimeout != 5*time.Minute || created.CallTimeout != time.Minute ||
		!slices.Equal(created.HeaderNames, []string{"X-Team"}) || len(created.Tools) != 1 {
		t.Errorf("skill %+v", created)
	}
	w.registry.ApplyJSON(`{"agents":[{"name":"billing","skills":[{"skill":"files"}]}]}`)
	before := w.registry.Agent("billing").Revision
	_, server, err := w.Skill(ctx, created.ID)
	if err != nil || server.Headers["X-Team"] != "t0p-secret" || server.Revision != 1 || server.Skill != "files" {
		t.Errorf("server %+v, %v", server, err)
	}
	unchanged, err := w.UpdateSkill(ctx, operator, created.ID, agent.SkillPatch{
		AutoApprove: new(false), Headers: map[string]*string{"X-TEAM": new("t0p-secret")},
	})
	if err != nil || unchanged.Revision != 1 || w.registry.Agent("billing").Revision != before {
		t.Errorf("nothing changed: %+v, %v", unchanged, err)
	}
	_, err = w.UpdateSkill(ctx, operator, created.ID, agent.SkillPatch{Headers: map[string]*string{"X-Team": new("other")}})
	check(t, err)
	if _, server, err = w.Skill(ctx, created.ID); err != nil || server.Headers["X-Team"] != "other" || server.Revision != 2 {
		t.Errorf("server %+v, %v", server, err)
	}
	if got := w.registry.Agent("billing").Revision; got != before+1 {
		t.Errorf("the agent's revision is %d, was %d", got, before)
	}
	if n := w.db.Count(`skills s WHERE position('other' in s::text || encode(s.secrets, 'escape')) > 0`); n != 0 {
		t.Error("a header's value is stored in clear")
	}
	check(t, w.DeleteSkill(ctx, operator, created.ID))
	if _, _, err := w.Skill(ctx, created.ID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	if assigned, err := w.Assigned(ctx, w.registry.Agent("billing").ID, created.ID, "read"); assigned || err != nil {
		t.Errorf("deleted and assigned: %v, %v", assigned, err)
	}
	if known, err := w.Names(ctx, []uuid.UUID{created.ID}); err != nil || known[created.ID] != "files" {
		t.Errorf("names %v, %v", known, err)
	}
}

// A header is a secret of the host that it was entered for.
func TestHeadersDoNotFollowToAnotherHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	skill, err := w.CreateSkill(ctx, operator, agent.SkillSpec{
		Name: "files", Transport: tool.HTTP, URL: "https://mcp.example/mcp", Headers: map[string]string{"X-Team": "s"},
	})
	check(t, err)
	move := func(url string, headers map[string]*string) error {
		_, err := w.UpdateSkill(ctx, operator, skill.ID, agent.SkillPatch{URL: &url, Headers: headers})
		return err
	}
	check(t, move("https://mcp.example/other", nil))
	var invalid *fault.InvalidError
	if err := move("https://evil.example/mcp", nil); !errors.As(err, &invalid) || invalid.Fields[0].Name != "headers.X-Team" {
		t.Errorf("moved with the secret: %v", err)
	}
	if err := move("http://mcp.example/mcp", nil); !errors.As(err, &invalid) {
		t.Errorf("moved to clear text: %v", err)
	}
	check(t, move("https://new.example/mcp", map[string]*string{"X-Team": new("new")}))
	check(t, move("https://third.example/mcp", map[string]*string{"X-Team": nil}))
}

func TestAssignments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.registry.ApplyJSON(`{"skills":[{"name":"a","transport":"http","url":"http://h/a"},{"name":"b","transport":"http","url":"http://h/b"}],
		"agents":[{"name":"billing"}]}`)
	billing := w.registry.Agent("billing")
	assignment, err := w.Assign(ctx, operator, billing.ID, agent.AssignmentSpec{Skill: "a", Tools: []string{"y", "x", "y"}}, nil)
	if err != nil || !slices.Equal(assignment.Tools, []string{"x", "y"}) || assignment.Agent != "billing" {
		t.Errorf("%+v, %v", assignment, err)
	}
	may := func(name string) bool {
		t.Helper()
		assigned, err := w.Assigned(ctx, billing.ID, assignment.SkillID, name)
		check(t, err)
		return assigned
	}
	if !may("x") || may("z") {
		t.Error("only x and y are assigned")
	}
	_, err = w.Assign(ctx, operator, billing.ID, agent.AssignmentSpec{Skill: "a"}, nil)
	check(t, err)
	if !may("z") {
		t.Error("all are assigned")
	}
	if revision := w.registry.Agent("billing").Revision; revision != billing.Revision+2 {
		t.Errorf("revision %d, was %d", revision, billing.Revision)
	}
	var invalid *fault.InvalidError
	_, err = w.Assign(ctx, operator, billing.ID, agent.AssignmentSpec{Skill: "c"}, nil)
	if !errors.As(err, &invalid) || invalid.Fields[0].Name != "skill" {
		t.Errorf("no such skill: %v", err)
	}
	check(t, w.Unassign(ctx, operator, billing.ID, assignment.SkillID))
	if may("x") {
		t.Error("the skill is still assigned")
	}
	if err := w.Unassign(ctx, operator, billing.ID, assignment.SkillID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("unassigned twice: %v", err)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"c", "a", "b"} {
		w.registry.ApplyJSON(`{"skills":[{"name":"` + name + `","transport":"http","url":"http://h/"}],"agents":[{"name":"` + name + `"}]}`)
	}
	skills, next, err := w.Skills(t.Context(), "", 2)
	if err != nil || len(skills) != 2 || skills[0].Name != "a" || next != "b" {
		t.Errorf("%v, %q, %v", skills, next, err)
	}
	agents, end, err := w.Agents(t.Context(), next, 2)
	if err != nil || len(agents) != 1 || agents[0].Name != "c" || end != "" {
		t.Errorf("%v, %q, %v", agents, end, err)
	}
}

func TestAnotherProcessHasAnotherKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill, err := w.CreateSkill(t.Context(), operator, agent.SkillSpec{
		Name: "files", Transport: tool.HTTP, URL: "https://mcp.example/mcp", Headers: map[string]string{"X-Team": "s"},
	})
	check(t, err)
	path := filepath.Join(t.TempDir(), "other.json")
	box, err := secret.Open(secret.Config{File: path})
	check(t, err)
	other := w.start(agent.Config{Box: box})
	_, _, err = other.Skill(t.Context(), skill.ID)
	if !errors.Is(err, secret.ErrDecrypt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "files") {
		t.Errorf("error %v", err)
	}
}

func TestChangesReachOtherProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/"}],
		"agents":[{"name":"billing","skills":[{"skill":"files"}]}]}`)
	billing := w.registry.Agent("billing")
	key, credential, err := w.CreateKey(ctx, operator, billing.ID)
	check(t, err)
	files, err := w.SkillByName(ctx, "files")
	check(t, err)

	there := w.start(agent.Config{})
	dropped := there.registry.Listen()
	_, err = there.Authenticate(ctx, credential)
	check(t, err)
	skill, _, err := there.Skill(ctx, files.ID)
	if err != nil || skill.AutoApprove {
		t.Fatalf("%+v, %v", skill, err)
	}

	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/","auto_approve":true}]}`)
	<-dropped
	if skill, _, err = there.Skill(ctx, files.ID); err != nil || !skill.AutoApprove {
		t.Errorf("skill %+v, %v", skill, err)
	}
	check(t, w.RevokeKey(ctx, operator, key.ID))
	<-dropped
	if _, err := there.Authenticate(ctx, credential); !errors.Is(err, agent.ErrUnauthenticated) {
		t.Errorf("revoked: %v", err)
	}
}

// Without notices, caches are stale only until they expire.
func TestCacheExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"agents":[{"name":"billing"}]}`)
	there := w.start(agent.Config{})
	_, err := there.AgentByName(t.Context(), "billing")
	check(t, err)
	check(t, w.DeleteAgent(t.Context(), operator, w.registry.Agent("billing").ID))
	if _, err := there.AgentByName(t.Context(), "billing"); err != nil {
		t.Errorf("remembered: %v", err)
	}
	there.clock.Forward(5 * time.Second)
	if _, err := there.AgentByName(t.Context(), "billing"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("after the safety net: %v", err)
	}
}

// Of two changes to the same revision, one succeeds.
func TestOneChangeOfARevision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill, err := w.CreateSkill(t.Context(), operator, agent.SkillSpec{Name: "a", Transport: tool.HTTP, URL: "http://h/"})
	check(t, err)
	results := make(chan error, 4)
	for _, team := range []string{"one", "two", "three", "four"} {
		go func() {
			_, err := w.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{Team: &team, Revision: &skill.Revision})
			results <- err
		}()
	}
	done := 0
	for range 4 {
		switch err := <-results; {
		case err == nil:
			done++
		case !errors.Is(err, agent.ErrChanged):
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d changes were done", done)
	}
}
