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
		// Hosts ignore arguments that they do not know, and of two names for a file one counts.
		{host.OpenCode, "bash", `{"command":"cat a","cwd":"/x"}`, "", ""},
		{host.Gemini, "run_shell_command", `{"command":"cat a","directory":"x","dir_path":"y"}`, "", ""},
		{host.OpenCode, "grep", `{"pattern":"x","file_path":"/w/a"}`, "/w/a .", ""},
		{host.OpenCode, "edit", `{"filePath":"/w/a","file_path":"/w/b","oldString":"x","newString":"y"}`, "/w/b /w/a", "/w/a"},
		{host.Cursor, "Write", `{"path":"/w/a","file_path":"/w/b"}`, "/w/b /w/a", ""},
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
		// Arguments that the host ignores.
		{host.OpenCode, "edit", `{"filePath":"f","oldString":"b","newString":"c","content":"x"}`, before, host.Change{Before: before, After: "a c a\n", Whole: true}, false},
		{host.OpenCode, "edit", `{"filePath":"f","oldString":"b","newString":"c","new_string":"x"}`, before, host.Change{Before: before, After: "a c a\n", Whole: true}, false},
		{host.Gemini, "replace", `{"file_path":"f","old_string":"b","new_string":"c","edits":[{"old_string":"b","new_string":"x"}]}`, before, host.Change{Before: before, After: "a c a\n", Whole: true}, false},
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

// patchOf returns the arguments of a patch.
func patchOf(t *testing.T, lines ...string) json.RawMessage {
	t.Helper()
	text, err := json.Marshal(map[string]string{"command": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestPreviewIsBounded: a call with many edits of a long file has no preview, because a page would take minutes to make it.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	content, edit := strings.Repeat("a", 64<<10), `{"old_string":"a","new_string":"b"},`
	for n, want := range map[int]bool{200: true, 300: false} {
		arguments := `{"file_path":"/x","edits":[` + strings.TrimSuffix(strings.Repeat(edit, n), ",") + `]}`
		if _, ok := host.PreviewChange(host.ClaudeCode, "MultiEdit", json.RawMessage(arguments), &content); ok != want {
			t.Errorf("%d edits: %v, want %v", n, ok, want)
		}
	}
}

// The paths of a patch are known only if every host that reads it changes these files and no others.
func TestPatchPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		patch   string
		want    string // "": not known
		changed string
	}{
		{"*** Add File: a/b.txt\n+x\n+", "a/b.txt", "a/b.txt"},
		{"*** Update File: /w/a\n@@\n-x\n+y", "/w/a", "/w/a"},
		{"*** Update File: a\r\n@@ func f\r\n x\r\n-x\r\n+y\r\n*** End of File", "a", "a"},
		{"*** Delete File: a/b", "a/b a", "a/b"},
		{"*** Delete File: a", "a .", "a"},
		{"*** Update File: a\n*** Move to: ../b\n@@\n-x\n+y", "a ../b .", "a"},
		{"*** Add File: a\n+x\n*** Update File: b\n@@\n\n-x\n*** Delete File: /c", "a b /c /", ""},
		{"*** Add File: a\n+*** Delete File: b", "a", "a"}, // a line of the file

		{"*** Update File: a\n@@\n *** Delete File: b\n-x", "", ""},
		{"*** Update File: a\n@@\n-x\n \t*** Delete File: b", "", ""},
		{"*** Update File: a\n-x\n*** Environment ID: b", "", ""},
		{"*** Update File: a\n-x\n***Delete File: b", "", ""},
		{"*** Update File: a\n-x\n*** End Patch\n*** Delete File: b", "", ""},
		{"*** Update File: a \n-x", "", ""},
		{"*** Update File:  a\n-x", "", ""},
		{"*** Update File: a\ufeff\n-x", "", ""},
		{"*** Update File: \n-x", "", ""},
		{"*** Update File: a\nx", "", ""},
		{"*** Update File: a\n@@x", "", ""},
		{"*** Add File: a\n x", "", ""},
		{"*** Add File: a\n*** Move to: b", "", ""},
		{"*** Delete File: a\n-x", "", ""},
		{"*** Move to: b", "", ""},
		{"-x", "", ""},
		{"", "", ""},
	} {
		e := &host.Event{Tool: "apply_patch", Arguments: patchOf(t, c.patch)}
		for _, name := range []string{host.Codex, host.OpenCode} {
			hook := host.FindHook(name)
			if got := strings.Join(hook.NamePaths(e), " "); got != c.want {
				t.Errorf("%s: %q names %q, want %q", name, c.patch, got, c.want)
			}
			if got := hook.NameChanged(e); got != c.changed {
				t.Errorf("%s: %q changes %q, want %q", name, c.patch, got, c.changed)
			}
		}
	}
	const patch = `*** Begin Patch\n*** Delete File: a\n*** End Patch`
	for _, arguments := range []string{
		`{"command":"cd b && ` + patch + `"}`, `{"command":"` + patch + `","workdir":"/x"}`, `{"command":"` + patch + `","patchText":"` + patch + `"}`,
		`{"command":"` + patch + `\nx"}`, `{"command":7}`, `{}`,
	} {
		if got := host.FindHook(host.Codex).NamePaths(&host.Event{Tool: "apply_patch", Arguments: json.RawMessage(arguments)}); got != nil {
			t.Errorf("%s names %q", arguments, got)
		}
	}
}

// A patch is shown as a difference to the file, as Codex applies it.
func TestPreviewPatch(t *testing.T) {
	t.Parallel()
	const before = "a\n\tb\nc\nb\n"
	for _, c := range []struct {
		patch   string
		content string // "-": not known
		want    host.Change
		none    bool
	}{
		{"*** Update File: f\n@@\n a\n-\tb\n+B\n c", before, host.Change{Before: before, After: "a\nB\nc\nb\n", Whole: true}, false},
		{"*** Update File: f\n@@\n-b\n+B", before, host.Change{Before: before, After: "a\n\tb\nc\nB\n", Whole: true}, false},
		{"*** Update File: f\n@@ c\n-b\n+B", before, host.Change{Before: before, After: "a\n\tb\nc\nB\n", Whole: true}, false},
		{"*** Update File: f\n@@\n-  a\n+A", before, host.Change{Before: before, After: "A\n\tb\nc\nb\n", Whole: true}, false},
		{"*** Update File: f\n@@\n-z\n+Z\n@@\n-c", before, host.Change{Before: before, After: "a\n\tb\nb\n", Whole: true, Absent: 1}, false},
		{"*** Update File: f\n@@\n-b\n+c", "b\nb\n", host.Change{Before: "b\nb\n", After: "c\nb\n", Whole: true, Repeated: 1}, false},
		{"*** Update File: f\n@@\n+z", before, host.Change{Before: before, After: before + "z\n", Whole: true}, false},
		{"*** Add File: f\n+x\n+y", "", host.Change{After: "x\ny\n", Whole: true}, false},
		{"*** Delete File: f", before, host.Change{Before: before, Whole: true}, false},
		{"*** Delete File: f", "-", host.Change{}, true},
		{"*** Update File: f\n@@\n a\n-b\n+B", "-", host.Change{Before: "a\nb\n", After: "a\nB\n"}, false},
		{"*** Update File: f\n-a\n+A\n*** Add File: g\n+x", "-", host.Change{Before: "a\n", After: "*** Update File: f\nA\n*** Add File: g\nx\n"}, false},
		{"*** Update File: f\n-a\n+A\n*** Delete File: g", "-", host.Change{Before: "a\n", After: "*** Update File: f\nA\n*** Delete File: g\n"}, false},
		{"*** Update File: f\n*** Move to: g\n@@\n-a\n+A", before, host.Change{Before: "a\n", After: "*** Update File: f\n*** Move to: g\nA\n"}, false},
		{"*** Update File: f\n@@\n-b\n+B\n*** End of File", before, host.Change{Before: "b\n", After: "B\n"}, false},
		{"*** Update File: f\n@@ z\n-b\n+B", before, host.Change{Before: "b\n", After: "B\n"}, false},
		{"*** Update File: f\n@@\n+z\n@@\n-c\n+C", before, host.Change{Before: "c\n", After: "z\nC\n"}, false},
		{"*** Update File: f" + strings.Repeat("\n@@\n-z", 3000), before, host.Change{Before: strings.Repeat("z\n", 3000)}, false},
		{"*** Update File: f\nx", before, host.Change{}, true},
	} {
		content := &c.content
		if c.content == "-" {
			content = nil
		}
		got, ok := host.PreviewChange(host.Codex, "apply_patch", patchOf(t, c.patch), content)
		if ok == c.none || got != c.want {
			t.Errorf("%q: %+v, %v, want %+v", c.patch, got, ok, c.want)
		}
	}
}
