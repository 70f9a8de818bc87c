//go:build hosts

package hosts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// clientSetup says how an agent is made an MCP client of Holdpoint, by the page of the agent in docs/clients.
type clientSetup struct {
	page string
	tool func(name string) string // what the agent calls a tool of the server holdpoint
	file string                   // below the home folder; its settings stay
}

func clientSetups() map[string]clientSetup {
	prefix := func(p string) func(string) string { return func(name string) string { return p + name } }
	return map[string]clientSetup{
		host.ClaudeCode: {"claude-code", prefix("mcp__holdpoint__"), "mcp.json"},
		host.Codex:      {"codex", prefix("mcp__holdpoint/"), ".codex/config.toml"},
		host.Gemini:     {"gemini-cli", prefix("mcp_holdpoint_"), ".gemini/settings.json"},
		host.Copilot:    {"copilot-cli", prefix("holdpoint-"), ".copilot/mcp-config.json"},
		host.OpenCode:   {"opencode", prefix("holdpoint_"), ".config/opencode/opencode.json"},
	}
}

// TestClients lets each agent call a gated tool as an MCP client, with the configuration of its page in docs/clients. Its model is told that the
// call waits, waits with holdpoint_await, and gets the result of the approved call, which runs once.
func TestClients(t *testing.T) {
	t.Parallel()
	s, kept := startServer(t), newNotes(t)
	cli := holdpoint.CLI{Program: built, URL: s.URL, Token: bootstrapToken}
	manifest := filepath.Join(t.TempDir(), "holdpoint.yaml")
	text := fmt.Sprintf("skills:\n  - {name: notes, transport: http, url: %s, approval_timeout: 30m}\nagents:\n  - {name: billing, wait_budget: 20s, skills: [notes]}\n", kept.URL)
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cli.Must(t, "apply", "-f", manifest)
	cli.Must(t, "skill", "tools", "notes", "--refresh")
	key := strings.TrimSpace(cli.Must(t, "agent", "key", "create", "billing"))
	for _, a := range agents() {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			setup, note := clientSetups()[a.name], "note-"+a.name
			command := a.command
			a.command = func(r *run, m mode) ([]string, []string) {
				args, env := command(r, m)
				return args, append(env, "AGENT_KEY="+key)
			}
			r := newRun(t, a, newModel(t))
			await := step{tools: []string{setup.tool("holdpoint_await")}, arguments: object{"call_id": "CALL"}}
			steps := []step{{tools: []string{setup.tool("notes__save")}, arguments: object{"text": note}}, await, await}
			if a.name == host.Codex {
				steps = append([]step{{tools: []string{"tool_search"}, arguments: object{"query": "notes save holdpoint await", "limit": 20}}}, steps...)
			}
			r.model.steps = steps
			a.install(r, installed{})
			setup.write(r, s.URL)
			r.start(a.modes[0])
			shown := s.pending(t, r, note)
			eventually.Succeeds(t, 20*time.Minute, "the model is told that the call waits", func() error {
				if told := r.model.toldResults(); !strings.Contains(told, "was not executed yet") {
					return fmt.Errorf("it was told %q", told)
				}
				return nil
			})
			if kept.has(note) {
				t.Fatal("a call that waits was sent")
			}
			if err := s.api().Approve(t.Context(), shown); err != nil {
				t.Fatal(err)
			}
			r.wait()
			if told := r.model.toldResults(); kept.count(note) != 1 || !strings.Contains(told, "saved "+note) {
				t.Errorf("sent %d times; the agent printed %s; its model: %v; it was told %s", kept.count(note), r.output.String(), r.model.log, told)
			}
		})
	}
}

var configBlock = regexp.MustCompile("(?ms)^```(json|toml)\n(.*?)^```$")

// write adds the configuration of the page to the settings of the run.
func (c clientSetup) write(r *run, url string) {
	r.t.Helper()
	page, err := os.ReadFile(filepath.Join("../../docs/clients", c.page+".md"))
	if err != nil {
		r.t.Fatal(err)
	}
	block := configBlock.FindStringSubmatch(string(page))
	if block == nil {
		r.t.Fatalf("%s has no configuration", c.page)
	}
	added, path := strings.ReplaceAll(block[2], "http://127.0.0.1:8080", url), filepath.Join(r.home, c.file)
	there, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	if block[1] == "toml" {
		r.writeFile(path, string(there)+added)
		return
	}
	settings, more := object{}, object{}
	if err := errors.Join(json.Unmarshal(there, &settings), json.Unmarshal([]byte(added), &more)); err != nil {
		r.t.Fatal(err)
	}
	maps.Copy(settings, more)
	r.writeFile(path, encode(settings))
}
