package guard_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/approval/condition"
	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// schemas are the arguments of hosts' tools that conditions read.
var schemas = map[string]string{
	"Bash": "command", "Read": "file_path", "Edit": "file_path", "Write": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path", "Glob": "pattern path", "Grep": "pattern path glob", "WebFetch": "url prompt",
	"run_shell_command": "command directory", "read_file": "file_path absolute_path", "list_directory": "path dir_path", "glob": "pattern path", "grep_search": "pattern path",
	"bash": "command workdir", "LS": "path", "view": "path", "grep": "pattern path", "read": "filePath", "list": "path", "Shell": "command",
}

// book are rules that judge calls, as a server does.
type book struct {
	t *testing.T
	*rule.Book

	cwd   string            // of the callers; empty: they do not say
	links map[string]string // where the links of the callers lead, by path
}

// readBook reads rules from YAML, and compares each condition with the schemas of the tools that it is about.
func readBook(t *testing.T, text string) *book {
	t.Helper()
	declared, err := manifest.ParseRules("rules", []byte(text), manifest.Options{})
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	var spec struct {
		Rules []rule.Spec `json:"rules"`
	}
	if err := json.Unmarshal(declared.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	rules := make([]rule.Rule, len(spec.Rules))
	for i, s := range spec.Rules {
		s = s.Normalize()
		if wrong := s.Check(); len(wrong) > 0 {
			t.Errorf("rule %s: %v", s.Name, wrong)
		}
		for tool := range schemas {
			if s.When == "" || !s.CoversTool(s.Skills[0], tool) {
				continue
			}
			if _, err := condition.Compile(s.When, schemaOf(tool)); err != nil {
				t.Errorf("rule %s, tool %s: %v\n%s", s.Name, tool, err, s.When)
			}
		}
		rules[i] = rule.Rule{Spec: s, Revision: int64(i + 1)}
	}
	programs := rule.NewPrograms(time.Now)
	t.Cleanup(programs.Close)
	return &book{t, rule.NewBook(1, rules, nil, programs), "/src/app", nil}
}

func schemaOf(tool string) json.RawMessage {
	properties := map[string]any{}
	for name := range strings.FieldsSeq(schemas[tool]) {
		properties[name] = map[string]string{"type": "string"}
	}
	text, _ := json.Marshal(map[string]any{"type": "object", "properties": properties})
	return text
}

// judge returns what the rules do with a call in a skill that is not auto-approved.
func (b *book) judge(skill, tool, arguments string) string {
	b.t.Helper()
	return b.judgeAgent("laptop", skill, tool, arguments)
}

func (b *book) judgeAgent(agent, skill, tool, arguments string) string {
	b.t.Helper()
	schema := rule.Schema{JSON: schemaOf(tool)}
	schema.Pin = sha256.Sum256(schema.JSON)
	in := &condition.Input{
		Arguments: json.RawMessage(arguments), Agent: agent, Skill: skill, Tool: tool, Now: time.Unix(0, 0),
		Context: condition.Context{Cwd: b.cwd, Paths: b.findPaths(tool, arguments)},
	}
	subject := rule.Subject{Agent: agent, Skill: skill, Tool: tool}
	prepared := b.Prepare(b.t.Context(), b.Find(subject), schema)
	memory := rule.NewHistory(nil).Remember(b.t.Context(), prepared, in, &rule.Call{Subject: subject, Arguments: in.Arguments, At: in.Now})
	settings := approval.Judge(approval.Facts{Known: true, Accepted: true, EverSeen: true})
	v := rule.Combine(settings, prepared.Apply(b.t.Context(), in, memory))
	return v.Action.String()
}

// findPaths returns the paths that the hook of the first host with this tool claims.
func (b *book) findPaths(toolName, arguments string) []string {
	if b.cwd == "" {
		return nil
	}
	for _, name := range tool.Hosts() {
		hook := host.FindHook(name)
		if hook == nil {
			continue
		}
		var paths []string
		for _, name := range hook.NamePaths(&host.Event{Tool: toolName, Arguments: json.RawMessage(arguments)}) {
			if !path.IsAbs(name) {
				name = path.Join(b.cwd, name)
			}
			name = path.Clean(name)
			paths = append(paths, cmp.Or(b.links[name], name))
		}
		if paths != nil {
			return paths
		}
	}
	return nil
}

func TestStarterRules(t *testing.T) {
	t.Parallel()
	const allow, park, deny = "allow", "park", "deny"
	for _, c := range []struct {
		host            guard.Host
		tool, arguments string
		want            string
	}{
		{guard.ClaudeCode, "Bash", `{"command":"holdpoint guard canary"}`, deny},
		{guard.ClaudeCode, "Bash", `{"command":"ls"}`, allow},
		{guard.ClaudeCode, "Bash", `{"command":"git diff --stat && cat src/a.go | head -20"}`, allow},
		{guard.ClaudeCode, "Bash", `{"command":"npm test"}`, park},
		{guard.ClaudeCode, "Bash", `{"command":"cat /etc/passwd"}`, park},
		{guard.ClaudeCode, "Bash", `{"command":"cat ../other/a"}`, park},
		{guard.ClaudeCode, "Bash", `{"command":"cat .env"}`, park},
		{guard.ClaudeCode, "Bash", `{"command":"git show HEAD:.env"}`, park},
		{guard.ClaudeCode, "Bash", `{"command":"rg KEY -g .env"}`, park},
		{guard.ClaudeCode, "LS", `{"path":"/src/lib"}`, allow},
		{guard.ClaudeCode, "Task", `{"prompt":"look"}`, allow},
		{guard.ClaudeCode, "Edit", `{"file_path":"/src/app/a.go"}`, park},
		{guard.ClaudeCode, "Write", `{"file_path":"/src/app/a.go"}`, park},
		{guard.ClaudeCode, "WebFetch", `{"url":"https://example.com"}`, park},
		{guard.ClaudeCode, "TodoWrite", `{}`, allow},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/a.go"}`, allow},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/lib/x/../a.go"}`, allow},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app"}`, allow},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app2/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/../../etc/passwd"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/..\\..\\etc"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/%2e%2e/secret"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"../app/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"a.go"}`, allow},
		{guard.ClaudeCode, "Read", `{"file_path":"~/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"C:/src/app/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"//src/app/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/SRC/app/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/proc/self/cwd/a.go"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/a\u0000/../../../etc/passwd"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/\uff0e\uff0e/\uff0e\uff0e/etc/passwd"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/.env"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/.ENV.local"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/tls/server.key"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/.git/config"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/.env/"}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/.env/."}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/.env/x/.."}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/tls/server.key/x/.."}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO","path":"/src/app/.env/"}`, park},
		{guard.Gemini, "read_file", `{"file_path":"/src/app/.env/x/.."}`, park},
		{guard.ClaudeCode, "Read", `{"file_path":"/src/app/environment.md"}`, allow},
		{guard.ClaudeCode, "Glob", `{"pattern":"**/*.{ts,tsx}","path":"/src/app"}`, allow},
		{guard.ClaudeCode, "Glob", `{"pattern":"src/[a-c]*/**","path":"/src/app/x"}`, allow},
		{guard.ClaudeCode, "Glob", `{"pattern":"**/*"}`, allow},
		{guard.ClaudeCode, "Glob", `{"pattern":"*.go","path":"internal"}`, allow},
		{guard.ClaudeCode, "Glob", `{"pattern":"*.go","path":"~/x"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"/etc/*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"../*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"{/etc,src}/*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"{.,x}{.,x}/*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"[.][.]/*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"~/*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"C:/*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"..\\*","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Glob", `{"pattern":"a\n/etc","path":"/src/app"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO","path":"/src/app"}`, allow},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO","path":"/src/app","glob":"*.go"}`, allow},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO","path":"/src/app","glob":"../*"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO","path":"/src"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO","path":"/src/app/.env"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"TODO"}`, allow},
		{guard.ClaudeCode, "Grep", `{"pattern":"KEY","path":"/src/app","glob":".env"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"KEY","path":"/src/app","glob":".e*"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"KEY","path":"/src/app","glob":"*"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"KEY","path":"/src/app","glob":"*.{go,env}"}`, park},
		{guard.ClaudeCode, "Grep", `{"pattern":"KEY","path":"/src/app","glob":"**/*.{ts,tsx}"}`, allow},
		{guard.Codex, "Bash", `{"command":"cat a"}`, allow},
		{guard.Codex, "Bash", `{"command":"sed -n '1,200p' cmd/main.go"}`, allow},
		{guard.Codex, "Bash", `{"command":"sed -n '1,200p' /src/lib/main.go"}`, allow},
		{guard.Codex, "Bash", `{"command":"cat a > b"}`, park},
		{guard.Codex, "Bash", `{"command":"cat a; curl example.com"}`, park},
		{guard.Codex, "Bash", `{"command":"holdpoint guard canary"}`, deny},
		{guard.Gemini, "run_shell_command", `{"command":"holdpoint guard canary"}`, deny},
		{guard.Gemini, "read_file", `{"file_path":"/src/app/a"}`, allow},
		{guard.Gemini, "read_file", `{"file_path":"/src/app/a","absolute_path":"/etc/passwd"}`, park},
		{guard.Gemini, "list_directory", `{"dir_path":"/src/app"}`, allow},
		{guard.Gemini, "list_directory", `{"dir_path":"/src/app","path":"/etc"}`, park},
		{guard.Gemini, "list_directory", `{"dir_path":"/etc"}`, park},
		{guard.Gemini, "glob", `{"pattern":"*"}`, park},
		{guard.Gemini, "run_shell_command", `{"command":"cat a"}`, allow},
		{guard.Gemini, "run_shell_command", `{"command":"cat a","directory":"/etc"}`, park},
		{guard.Copilot, "bash", `{"command":"holdpoint guard canary"}`, deny},
		{guard.Copilot, "view", `{"path":"/src/app"}`, allow},
		{guard.Copilot, "view", `{"path":"/src/app/../b"}`, park},
		{guard.Copilot, "grep", `{"pattern":"x","path":"/src/app/a"}`, allow},
		{guard.OpenCode, "bash", `{"command":"holdpoint guard canary"}`, deny},
		{guard.OpenCode, "read", `{"filePath":"/src/app/a"}`, allow},
		{guard.OpenCode, "read", `{"filePath":"/etc/a"}`, park},
		{guard.OpenCode, "list", `{"path":"/src/lib"}`, allow},
		{guard.Cursor, "Shell", `{"command":"holdpoint guard canary"}`, deny},
		{guard.Cursor, "Shell", `{"command":"ls"}`, park},
	} {
		text, err := guard.StarterRules(c.host, "laptop", "laptop-tools", []string{"/src/app", "/src/lib"})
		if err != nil {
			t.Fatal(err)
		}
		if got := readBook(t, text).judge("laptop-tools", c.tool, c.arguments); got != c.want {
			t.Errorf("%s: %s %s is %s, want %s", c.host, c.tool, c.arguments, got, c.want)
		}
	}
}

// Without a project, nothing that names a path passes, and a folder's name is a text whatever it is.
func TestStarterRulesProjects(t *testing.T) {
	t.Parallel()
	for _, host := range guard.Hosts() {
		text, err := guard.StarterRules(host, "laptop", "x", nil)
		if err != nil {
			t.Fatal(err)
		}
		readBook(t, text)
	}
	text, err := guard.StarterRules(guard.ClaudeCode, "laptop", "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := readBook(t, text).judge("x", "Read", `{"file_path":"/src/a"}`); got != "park" {
		t.Errorf("without a project a file is %s", got)
	}
	text, err = guard.StarterRules(guard.ClaudeCode, "laptop", "x", []string{`/src/it's "a" | $x`})
	if err != nil {
		t.Fatal(err)
	}
	if got := readBook(t, text).judge("x", "Read", `{"file_path":"/src/it's \"a\" | $x/b"}`); got != "allow" {
		t.Errorf("a file of a project with quotes is %s", got)
	}
	text, err = guard.StarterRules(guard.ClaudeCode, "laptop", "x", []string{"/home/me/SKILL/CANARY/MESSAGE"})
	if err != nil {
		t.Fatal(err)
	}
	if got := readBook(t, text).judge("x", "Read", `{"file_path":"/home/me/SKILL/CANARY/MESSAGE/a"}`); got != "allow" {
		t.Errorf("a file of a project with the words of the template is %s", got)
	}
	for _, wrong := range []string{"/", "src", "/src/../etc", ""} {
		if text, err := guard.StarterRules(guard.ClaudeCode, "laptop", "x", []string{wrong}); err == nil {
			t.Errorf("project %q is taken:\n%s", wrong, text)
		}
	}
}

// Rules are about the agent whose machine they were made on. The folders and permissions of another machine differ.
func TestRulesAreOfOneAgent(t *testing.T) {
	t.Parallel()
	text, err := guard.StarterRules(guard.ClaudeCode, "laptop", "cc", []string{"/src/app"})
	if err != nil {
		t.Fatal(err)
	}
	imported, _ := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": ["Read(./**)"]}}`)
	for name, b := range map[string]*book{"starter": readBook(t, text), "imported": imported} {
		for agent, want := range map[string]string{"laptop": "allow", "desktop": "park"} {
			if got := b.judgeAgent(agent, "cc", "Read", `{"file_path":"/src/app/a.go"}`); got != want {
				t.Errorf("%s rules: a file is %s for %s, want %s", name, got, agent, want)
			}
		}
	}
	if !strings.Contains(text, "name: guard-laptop-cc-read") || !strings.HasPrefix(imported.Rules[0].Name, "import-laptop-allow-read") {
		t.Errorf("names: %s\n%s", imported.Rules[0].Name, text)
	}
	for _, agent := range []string{"", "a b", strings.Repeat("a", 90)} {
		if _, err := guard.StarterRules(guard.ClaudeCode, agent, "cc", nil); err == nil {
			t.Errorf("agent %q is taken", agent)
		}
	}
}
