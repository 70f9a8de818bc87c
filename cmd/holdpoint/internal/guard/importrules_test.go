package guard_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
)

// importClaude translates the settings of a project of Claude Code.
func importClaude(t *testing.T, file, text string) (*book, *guard.Imported) {
	t.Helper()
	importer := &guard.Importer{Agent: "laptop", Skill: "cc", Home: "/home/me", Projects: []string{"/src/app"}}
	if err := importer.ClaudeCode(file, []byte(text)); err != nil {
		t.Fatal(err)
	}
	imported := importer.Result()
	return readBook(t, imported.YAML()), imported
}

func bash(command string) string { return `{"command":` + quoteJSON(command) + `}` }

func quoteJSON(text string) string {
	quoted, _ := json.Marshal(text)
	return string(quoted)
}

func TestImportClaudeCode(t *testing.T) {
	t.Parallel()
	b, imported := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {
		"allow": ["Bash(git status)", "Bash(npm run test:*)", "Bash(git log *)", "Bash(git * --stat)", "Bash(make build-*)", "Read(./**)", "Read(//usr/share/doc/**)", "Read(~/notes/*.md)",
			"Edit(/lib/**)", "WebFetch(domain:example.com)", "WebFetch(domain:*.go.dev)", "mcp__github", "mcp__ci__get_*", "WebSearch"],
		"ask": ["Bash(git log --all:*)", "WebFetch(domain:ask.go.dev)"],
		"deny": ["Bash(curl:*)", "Read(./.env)", "Read(./secrets/**)", "Read(*.pem)", "mcp__github__delete_repo"]}}`)
	const allow, park, deny = "allow", "park", "deny"
	for _, c := range []struct{ tool, arguments, want string }{
		{"Bash", bash("git status"), allow},
		{"Bash", bash("git status -s"), park},
		{"Bash", bash(" git status"), park},
		{"Bash", bash("npm run test"), allow},
		{"Bash", bash("npm run test -- --watch=false 'a b' \"c d\""), allow},
		{"Bash", bash("npm run testing"), park},
		{"Bash", bash("npm run test:unit"), park},
		{"Bash", bash("git log --oneline"), allow},
		{"Bash", bash("git log --all"), park},
		{"Bash", bash("git diff HEAD --stat"), allow},
		{"Bash", bash("git --stat"), park},
		{"Bash", bash("make build-all"), allow},
		{"Bash", bash("make build-all x"), park},
		{"Read", `{"file_path":"/src/app/a/b.go"}`, allow},
		{"Read", `{"file_path":"/src/app/x/../.env"}`, deny},
		{"Read", `{"file_path":"/src/app/.env"}`, deny},
		{"Read", `{"file_path":"/src/app/.ENV"}`, deny},
		{"Read", `{"file_path":"/src/app/secrets/a"}`, deny},
		{"Read", `{"file_path":"/src/app/tls/x.pem"}`, deny},
		{"Read", `{"file_path":"/src/app/../other"}`, deny},
		{"Read", `{"file_path":"/src/other/a"}`, park},
		{"Read", `{"file_path":"a.go"}`, park},
		{"Read", `{"file_path":"/usr/share/doc/a/b"}`, allow},
		{"Read", `{"file_path":"/home/me/notes/a.md"}`, allow},
		{"Read", `{"file_path":"/home/me/notes/x/a.md"}`, park},
		{"Edit", `{"file_path":"/src/app/lib/a.go"}`, allow},
		{"Write", `{"file_path":"/src/app/lib/a.go"}`, allow},
		{"Edit", `{"file_path":"/src/app/lib/.git/hooks/pre-commit"}`, park},
		{"Edit", `{"file_path":"/src/app/lib/../a.go"}`, park},
		{"Edit", `{"file_path":"/src/app/a.go"}`, park},
		{"Grep", `{"pattern":"x","path":"/src/app"}`, park},
		{"WebFetch", `{"url":"https://example.com/x"}`, allow},
		{"WebFetch", `{"url":"https://example.com.evil.org/"}`, park},
		{"WebFetch", `{"url":"https://example.com@evil.org/"}`, park},
		{"WebFetch", `{"url":"https://pkg.go.dev/x"}`, allow},
		{"WebFetch", `{"url":"https://go.dev/x"}`, park},
		{"WebFetch", `{"url":"https://ask.go.dev/x"}`, park},
		{"WebSearch", `{"query":"x"}`, allow},
		{"mcp__github__list", `{}`, allow},
		{"mcp__github__delete_repo", `{}`, deny},
		{"mcp__githubber__list", `{}`, park},
		{"mcp__ci__get_log", `{}`, allow},
		{"mcp__ci__set_log", `{}`, park},
		{"Bash", bash("curl https://x"), deny},
		{"Bash", bash("cd x && curl https://x"), deny},
		{"Bash", bash("X=1 curl https://x"), deny},
		{"Bash", bash("echo $(curl https://x)"), deny},
		{"Bash", bash("npm run test curl"), park},
		{"Bash", bash(`npm run test "curl" x`), park},
		{"Bash", bash("npm run test curling"), allow},
	} {
		if got := b.judge("cc", c.tool, c.arguments); got != c.want {
			t.Errorf("%s %s is %s, want %s", c.tool, c.arguments, got, c.want)
		}
	}
	if len(imported.Notes) != 1 || !strings.Contains(imported.Notes[0], "Commands that pass may read and write the files") {
		t.Errorf("notes: %q", imported.Notes)
	}
	again, _ := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": ["Bash(git status)"]}}`)
	if b.Rules[len(b.Rules)-14].Name != again.Rules[0].Name {
		t.Errorf("the same permission makes rule %s, and then %s", b.Rules[len(b.Rules)-14].Name, again.Rules[0].Name)
	}
}

// A command passes only as one command: nothing that begins a second one, writes a file or runs what it prints fits a pattern.
func TestImportedCommandsAreSingle(t *testing.T) {
	t.Parallel()
	b, _ := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": ["Bash(npm run test:*)", "Bash(git log *)", "Bash(go * ./...)"]}}`)
	for _, tail := range []string{
		"&& rm -rf /", "; rm -rf /", "| sh", "|| rm x", "& rm x", "$(rm x)", "`rm x`", "\nrm x", "\r\nrm x", "> /etc/passwd", ">> x", "< /etc/shadow", "<(rm x)",
		"\"$(rm x)\"", "\"`rm x`\"", "$HOME", "${x}", "\\\nrm x", "'a\nb'", "'a", "\"a", "(rm x)", "{ rm x; }", "a\x00b", "\"a\\\"; rm x; \\\"\"", "a'b'c", "!!", "\t;x", "2>&1",
	} {
		for _, command := range []string{"npm run test " + tail, "npm run test" + tail, "git log " + tail, "go vet " + tail + " ./..."} {
			if got := b.judge("cc", "Bash", bash(command)); got != "park" {
				t.Errorf("%q is %s", command, got)
			}
		}
	}
}

// What cannot be said exactly is left out with a note. It never becomes a rule that allows more.
func TestImportLeavesOut(t *testing.T) {
	t.Parallel()
	for permission, want := range map[string]string{
		"Bash": "it would allow every command", "Bash(*)": "it would allow every command", "Bash(:*)": "it would allow every command",
		"Bash(* --version)": "the program must be named", "Bash(git && ls:*)": "no characters with a meaning for the shell",
		"Bash(echo \"a\":*)": "must have no quotes", "Bash(FOO=1 git:*)": "not with a variable", "Read": "every file of the machine", "Edit": "edits of every file",
		"MultiEdit": "edits of every file", "NotebookEdit(*)": "edits of every file", "MultiEdit(./x/**)": "cannot be said", "Read([ab]/**)": "brackets", "Read(~)": "home folder",
		"Read(../x/**)": "must have no ..", "Read({a,b}/**)": "braces", "Read(!x)": "exceptions", "WebFetch(example.com)": "cannot be said", "WebFetch(domain:ex*mple.com)": "must be a domain",
		"Task(Explore)": "cannot be said", "mcp__a__b(x)": "not known", "Foo(": "must be a tool", "Ba*": "one tool",
	} {
		b, imported := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": [`+quoteJSON(permission)+`]}}`)
		if len(b.Rules) > 0 || len(imported.Notes) != 1 || !strings.Contains(imported.Notes[0], want) {
			t.Errorf("%s: rules %v, notes %q, want %q", permission, imported.Rules, imported.Notes, want)
		}
	}
	b, imported := importClaude(t, "/home/me/.claude/settings.json", `{"permissions": {"allow": ["Read(/x/**)"], "deny": ["Read(/x/**)"], "defaultMode": "bypassPermissions"}}`)
	if got := b.judge("cc", "Read", `{"file_path":"/src/app/x/a"}`); got != "deny" {
		t.Errorf("a refused path is %s", got)
	}
	if len(imported.Notes) != 2 {
		t.Errorf("notes %q", imported.Notes)
	}
	importer := &guard.Importer{Agent: "laptop", Skill: "cc", Home: "/home/me"}
	if err := importer.ClaudeCode("/x/.claude/settings.json", []byte(`{"permissions": {"allow": "Bash"}}`)); err == nil {
		t.Error("a list that is a text is taken")
	}
}

// A refusal that cannot be said parks its tools: the broader permission beside it would allow the call.
func TestImportParksForRefusals(t *testing.T) {
	t.Parallel()
	file := func(name string) string { return `{"file_path":"/src/app/` + name + `"}` }
	for _, c := range []struct{ allow, refusal, tool, arguments string }{
		{"WebFetch", "WebFetch(domain:bücher.example)", "WebFetch", `{"url":"https://bücher.example/"}`},
		{"WebFetch", "WebFetch(example.com)", "WebFetch", `{"url":"https://example.com/"}`},
		{"Skill", "Skill(deploy)", "Skill", `{"skill":"deploy"}`},
		{"Skill", "Sk*", "Skill", `{"skill":"deploy"}`},
		{"Skill", "Skill(deploy", "Skill", `{"skill":"deploy"}`},
		{"Skill", "*", "Skill", `{"skill":"deploy"}`},
		{"mcp__gh", "mcp__gh__del(*)", "mcp__gh__del", `{}`},
		{"mcp__gh__del", "mcp__gh(*)", "mcp__gh__del", `{}`},
		{"Edit(./src/**)", "Edit(./src/{a,b})", "Edit", file("src/a")},
		{"Edit(./src/**)", "Wri*", "Edit", file("src/a")},
		{"Read(./src/**)", "Read(./src/[ab])", "Read", file("src/a")},
		{"Read(./src/**)", "Read(!src/a)", "Read", file("src/a")},
		{"Read(./src/**)", "Read(//)", "Read", file("src/a")},
		{"Grep", "Read(./src/{a,b})", "Grep", `{"pattern":"x","path":"/src/app"}`},
		{"NotebookEdit(*)", "Edit(./src/{a,b})", "NotebookEdit", `{"notebook_path":"/src/app/src/a"}`},
	} {
		for _, list := range []string{"deny", "ask"} {
			b, imported := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": [`+quoteJSON(c.allow)+`], "`+list+`": [`+quoteJSON(c.refusal)+`]}}`)
			if got := b.judge("cc", c.tool, c.arguments); got != "park" {
				t.Errorf("allow %s, %s %s: %s is %s", c.allow, list, c.refusal, c.tool, got)
			}
			if !strings.Contains(strings.Join(imported.Notes, "\n"), "waits, because this refusal cannot be said") {
				t.Errorf("%s %s: notes %q", list, c.refusal, imported.Notes)
			}
		}
	}
	b, _ := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": ["Bash(git status)"], "deny": ["Bash(:*)"]}}`)
	if got := b.judge("cc", "Bash", bash("git status")); got != "deny" {
		t.Errorf("with every command refused, one is %s", got)
	}
	importer := &guard.Importer{Agent: "laptop", Skill: "codex"}
	err := importer.Codex("x.rules", []byte("prefix_rule(pattern=[\"git\"])\nprefix_rule(pattern=[[1]], decision=\"forbidden\")\n"))
	if err == nil {
		t.Error("a number is taken")
	}
	importer = &guard.Importer{Agent: "laptop", Skill: "codex"}
	if err := importer.Codex("x.rules", []byte("prefix_rule(pattern=[\"git\"])\nprefix_rule(pattern=[[[\"git\"]]], decision=\"forbidden\")\n")); err != nil {
		t.Fatal(err)
	}
	if got := readBook(t, importer.Result().YAML()).judge("codex", "Bash", bash("git status")); got != "park" {
		t.Errorf("beside a refusal that cannot be said, a command is %s", got)
	}
}

// A refusal of one tool that edits is a refusal of all of them.
func TestImportRefusesAllEdits(t *testing.T) {
	t.Parallel()
	const allows = `"Skill", "NotebookEdit(*)"`
	for refusal, want := range map[string]map[string]string{
		"Edit":                {"Edit": "deny", "Write": "deny", "MultiEdit": "deny", "NotebookEdit": "deny"},
		"Write(*)":            {"Edit": "deny", "Write": "deny", "MultiEdit": "deny", "NotebookEdit": "deny"},
		"Edit(./lib/**)":      {"Edit": "deny", "Write": "deny", "MultiEdit": "deny", "NotebookEdit": "park"},
		"MultiEdit(./lib/**)": {"Edit": "deny", "Write": "deny", "MultiEdit": "deny", "NotebookEdit": "park"},
		"Edit(./lib/)":        {"Edit": "deny", "Write": "deny", "MultiEdit": "deny", "NotebookEdit": "park"},
	} {
		b, imported := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": [`+allows+`, "Bash(cat:*)"], "deny": [`+quoteJSON(refusal)+`]}}`)
		for tool, effect := range want {
			arguments := `{"file_path":"/src/app/lib/a.go"}`
			if tool == "NotebookEdit" {
				arguments = `{"notebook_path":"/src/app/lib/a.ipynb"}`
			}
			if got := b.judge("cc", tool, arguments); got != effect {
				t.Errorf("deny %s: %s is %s, want %s", refusal, tool, got, effect)
			}
		}
		if noted := strings.Contains(strings.Join(imported.Notes, "\n"), "Commands that pass may read and write"); noted != strings.Contains(refusal, "lib") {
			t.Errorf("deny %s: notes %q", refusal, imported.Notes)
		}
	}
}

// A path that has two readings allows what both allow, and refuses what one of them refuses.
func TestImportAnchorsPaths(t *testing.T) {
	t.Parallel()
	const project, elsewhere = "/src/app/.claude/settings.json", "/etc/claude-code/managed-settings.json"
	for _, c := range []struct{ file, list, permission, path, want, note string }{
		{project, "allow", "Read(src/**)", "/src/app/src/a", "allow", ""},
		{project, "allow", "Read(src/**)", "/src/app/x/src/a", "park", ""},
		{project, "allow", "Read(*.md)", "/src/app/x/a.md", "allow", ""},
		{project, "deny", "Read(src/**)", "/src/app/x/src/a", "deny", ""},
		{project, "deny", "Read(src/a)", "/src/app/x/src/a", "deny", ""},
		{project, "allow", "Read(/src/**)", "/src/app/src/a", "allow", ""},
		{elsewhere, "allow", "Read(/x/**)", "/etc/x/a", "park", "left out: a path with one slash"},
		{elsewhere, "deny", "Read(/x/**)", "/src/app/x/a", "park", "each call of Read, Grep waits"},
		{elsewhere, "allow", "Read(//src/app/**)", "/src/app/x/a", "allow", ""},
	} {
		beside := ""
		if c.list == "deny" {
			beside = `"allow": ["Read(./**)"], `
		}
		b, imported := importClaude(t, c.file, `{"permissions": {`+beside+quoteJSON(c.list)+`: [`+quoteJSON(c.permission)+`]}}`)
		if got := b.judge("cc", "Read", `{"file_path":`+quoteJSON(c.path)+`}`); got != c.want {
			t.Errorf("%s: %s %s: %s is %s, want %s", c.file, c.list, c.permission, c.path, got, c.want)
		}
		if notes := strings.Join(imported.Notes, "\n"); !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
			t.Errorf("%s: %s %s: notes %q", c.file, c.list, c.permission, notes)
		}
	}
}

// Claude Code takes a link for the file to which it leads too: an allow counts for both, and a refusal for each of them.
func TestImportFollowsLinks(t *testing.T) {
	t.Parallel()
	b, _ := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {
		"allow": ["Read(./**)", "Edit(/lib/**)", "Read(//usr/share/**)"], "deny": ["Read(./private/**)", "Edit(/lib/locked/**)"]}}`)
	b.links = map[string]string{
		"/src/app/out": "/home/me/.ssh/id_rsa", "/src/app/in": "/src/app/a", "/src/app/to-private": "/src/app/private/a", "/usr/share/x": "/etc/shadow",
		"/src/app/lib/out": "/home/me/.bashrc", "/src/app/lib/hook": "/src/app/lib/.git/hooks/pre-commit", "/src/app/lib/to-locked": "/src/app/lib/locked/a",
	}
	for _, c := range []struct{ tool, file, want string }{
		{"Read", "/src/app/a", "allow"},
		{"Read", "/src/app/in", "allow"},
		{"Read", "/src/app/out", "park"},
		{"Read", "/src/app/to-private", "deny"},
		{"Read", "/usr/share/x", "park"},
		{"Edit", "/src/app/lib/a", "allow"},
		{"Edit", "/src/app/lib/out", "park"},
		{"Write", "/src/app/lib/hook", "park"},
		{"Edit", "/src/app/lib/to-locked", "deny"},
	} {
		if got := b.judge("cc", c.tool, `{"file_path":`+quoteJSON(c.file)+`}`); got != c.want {
			t.Errorf("%s %s is %s, want %s", c.tool, c.file, got, c.want)
		}
	}
	b.cwd = "" // over HTTP, no program follows links
	if got := b.judge("cc", "Read", `{"file_path":"/src/app/a"}`); got != "park" {
		t.Errorf("a path whose links are not known is %s", got)
	}
}

// What a file says is shown as a comment, and never more.
func TestImportedYAMLIsOneRule(t *testing.T) {
	t.Parallel()
	for _, permission := range []string{"Bash(a\nrules: [])", "Bash(it's 'a' # x)", "Bash(\x1b[2J)", "Bash(a\u2028b)", "Foo\n- name: x", "Bash(\"x\": {y})"} {
		b, imported := importClaude(t, "/src/app/.claude/settings.json", `{"permissions": {"allow": [`+quoteJSON(permission)+`]}}`)
		if len(b.Rules)+len(imported.Notes) != 1 || strings.ContainsAny(imported.YAML(), "\x1b\u2028") {
			t.Errorf("%q: %v, %v\n%s", permission, b.Rules, imported.Notes, imported.YAML())
		}
		if len(b.Rules) == 1 {
			command := strings.TrimSuffix(strings.TrimPrefix(permission, "Bash("), ")")
			if got := b.judge("cc", "Bash", bash(command)); got != "allow" {
				t.Errorf("%q is %s", command, got)
			}
		}
	}
}

func TestImportCodex(t *testing.T) {
	t.Parallel()
	importer := &guard.Importer{Agent: "laptop", Skill: "codex", Home: "/home/me"}
	err := importer.Codex("/home/me/.codex/rules/default.rules", []byte(`# mine
prefix_rule(pattern=["git", ["status", "diff"]], decision="allow", match=["git status"])
prefix_rule(
    pattern = ["cargo", "test"],   # the default is allow
    justification = 'it\'s fine',
)
prefix_rule(pattern=["git", "push"], decision="prompt")
prefix_rule(pattern=["rm"], decision="forbidden", justification="no")
prefix_rule(pattern=["echo", "$HOME"], decision="allow")
prefix_rule(pattern=["ls", "*"], decision="allow")
prefix_rule(pattern=["x"], decision="maybe")
network_rule(host="example.com", protocol="https", decision="allow")
`))
	if err != nil {
		t.Fatal(err)
	}
	imported := importer.Result()
	b := readBook(t, imported.YAML())
	for command, want := range map[string]string{
		"git status": "allow", "git diff --stat": "allow", "git status; rm x": "deny", "git status && ls": "park", "git push": "park", "git statuses": "park", "cargo test -q": "allow",
		"rm -rf /": "deny", "sudo rm x": "park", "cargo test rm": "park", "echo $HOME": "park", "ls *": "park", "x": "park",
	} {
		if got := b.judge("codex", "Bash", bash(command)); got != want {
			t.Errorf("%q is %s, want %s", command, got, want)
		}
	}
	if len(imported.Notes) != 4 {
		t.Errorf("notes %q", imported.Notes)
	}
	for _, wrong := range []string{
		"x = 1", `prefix_rule(["git"])`, `prefix_rule(pattern=["git"`, `prefix_rule(pattern=["git" + x])`, `prefix_rule(pattern=PATTERN)`, `prefix_rule(pattern="""git""")`,
		`prefix_rule(pattern=["a\qb"])`, `prefix_rule(pattern=["a"], pattern=["b"])`, "for x in y:\n  prefix_rule()", "prefix_rule(pattern=[\"a\nb\"])",
	} {
		importer := &guard.Importer{Agent: "laptop", Skill: "codex"}
		if err := importer.Codex("x.rules", []byte(wrong)); err == nil || !strings.Contains(err.Error(), "x.rules:") {
			t.Errorf("%s: %v, %v", wrong, err, importer.Result().Rules)
		}
	}
}
