package host_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/host"
)

func TestNamePaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		host, tool, arguments string
		want                  string
		changed               string
	}{
		{host.ClaudeCode, "Read", `{"file_path":"/w/a"}`, "/w/a", ""},
		{host.ClaudeCode, "Grep", `{"pattern":"x"}`, ".", ""},
		{host.ClaudeCode, "Grep", `{"pattern":"x","path":"/w/b"}`, "/w/b", ""},
		{host.ClaudeCode, "Bash", `{"command":"cat a b | head"}`, "a b", ""},
		{host.ClaudeCode, "Bash", `{"command":"rm a"}`, "", ""},
		{host.ClaudeCode, "Edit", `{"file_path":"/w/a","old_string":"x","new_string":"y"}`, "/w/a", "/w/a"},
		{host.ClaudeCode, "Write", `{"file_path":"/w/a","content":"x"}`, "/w/a", "/w/a"},
		{host.ClaudeCode, "TodoWrite", `{}`, "", ""},
		{host.ClaudeCode, "mcp__x__read", `{"file_path":"/w/a"}`, "", ""},
		{host.ClaudeCode, "Read", `{"file_path":"/w/a","file_path":"/w/b"}`, "", ""},
		{host.Codex, "Bash", `{"command":"ls"}`, ".", ""},
		{host.Codex, "apply_patch", `{"command":"*** Begin Patch"}`, "", ""},
		{host.Gemini, "run_shell_command", `{"command":"cat a /etc/b","directory":"sub"}`, "sub sub/a /etc/b", ""},
		{host.Gemini, "replace", `{"file_path":"a","old_string":"x","new_string":"y"}`, "a", "a"},
		{host.Gemini, "read_many_files", `{"paths":["a","b"]}`, "a b", ""},
		{host.Copilot, "create", `{"path":"/w/a","file_text":"x"}`, "/w/a", "/w/a"},
		{host.OpenCode, "bash", `{"command":"cat a","workdir":"/x"}`, "/x /x/a", ""},
		{host.OpenCode, "edit", `{"filePath":"/w/a","oldString":"x","newString":"y"}`, "/w/a", "/w/a"},
		{host.Cursor, "Write", `{"path":"/w/a"}`, "/w/a", "/w/a"},
	} {
		hook, e := host.FindHook(c.host), &host.Event{Tool: c.tool, Arguments: json.RawMessage(c.arguments)}
		if got := hook.NamePaths(e); !slices.Equal(got, strings.Fields(c.want)) {
			t.Errorf("%s: %s %s names %q, want %q", c.host, c.tool, c.arguments, got, c.want)
		}
		if got := hook.NameChanged(e); got != c.changed {
			t.Errorf("%s: %s %s changes %q, want %q", c.host, c.tool, c.arguments, got, c.changed)
		}
	}
}

func TestPreviewChange(t *testing.T) {
	t.Parallel()
	const before = "a b a\n"
	for _, c := range []struct {
		host, tool, arguments string
		content               string // "-": not known
		want                  host.Change
		none                  bool
	}{
		{host.ClaudeCode, "Edit", `{"file_path":"f","old_string":"b","new_string":"$1"}`, before, host.Change{Before: before, After: "a $1 a\n", Whole: true}, false},
		{host.ClaudeCode, "Edit", `{"file_path":"f","old_string":"a","new_string":"c"}`, before, host.Change{Before: before, After: "c b a\n", Whole: true, Repeated: 1}, false},
		{host.ClaudeCode, "Edit", `{"file_path":"f","old_string":"a","new_string":"c","replace_all":true}`, before, host.Change{Before: before, After: "c b c\n", Whole: true}, false},
		{host.ClaudeCode, "Edit", `{"file_path":"f","old_string":"z","new_string":"c"}`, before, host.Change{Before: before, After: before, Whole: true, Absent: 1}, false},
		{host.ClaudeCode, "Edit", `{"file_path":"f","old_string":"b","new_string":"c"}`, "-", host.Change{Before: "b\n", After: "c\n"}, false},
		{host.ClaudeCode, "MultiEdit", `{"file_path":"f","edits":[{"old_string":"b","new_string":"c"},{"old_string":"c","new_string":"d"}]}`, before, host.Change{Before: before, After: "a d a\n", Whole: true}, false},
		{host.ClaudeCode, "MultiEdit", `{"file_path":"f","edits":[{"old_string":"b"}]}`, before, host.Change{}, true},
		{host.ClaudeCode, "Write", `{"file_path":"f","content":"x"}`, before, host.Change{Before: before, After: "x", Whole: true}, false},
		{host.ClaudeCode, "Write", `{"file_path":"f","content":"x"}`, "-", host.Change{}, true},
		{host.ClaudeCode, "Read", `{"file_path":"f"}`, before, host.Change{}, true},
		{host.ClaudeCode, "Edit", `{"file_path":"f","old_string":"b","old_string":"a","new_string":"c"}`, before, host.Change{}, true},
		{host.Gemini, "replace", `{"file_path":"f","old_string":"","new_string":"c"}`, "", host.Change{After: "c", Whole: true}, false},
		{host.Copilot, "edit", `{"path":"f","old_str":"b","new_str":"c"}`, before, host.Change{Before: before, After: "a c a\n", Whole: true}, false},
		{host.OpenCode, "edit", `{"filePath":"f","oldString":"b","newString":"c"}`, before, host.Change{Before: before, After: "a c a\n", Whole: true}, false},
		{"", "Edit", `{"file_path":"f","old_string":"b","new_string":"c"}`, before, host.Change{}, true},
	} {
		content := &c.content
		if c.content == "-" {
			content = nil
		}
		got, ok := host.PreviewChange(c.host, c.tool, json.RawMessage(c.arguments), content)
		if ok == c.none || got != c.want {
			t.Errorf("%s: %s: %+v, %v, want %+v", c.tool, c.arguments, got, ok, c.want)
		}
	}
}
