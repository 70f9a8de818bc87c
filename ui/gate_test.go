package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// TestGateOnTheDesk: an operator registers a skill without a server, and the desk says that Holdpoint does not execute its calls.
func TestGateOnTheDesk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	olga := w.signedIn("olga", identity.Operator)
	made := olga.post("/skills/new", olga.get("/skills/new").fillForm("skill-form", url.Values{
		"name": {"laptop"}, "transport": {"gate"}, "host": {"claude-code"}, "url": {""}, "release_time": {"2m"},
	}))
	if made.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", made.status, made.text())
	}
	skill := w.skillNamed("laptop")
	if skill.Transport != tool.Gate || skill.Host != "claude-code" || skill.ReleaseTime != 2*time.Minute {
		t.Errorf("registered %+v", skill)
	}
	path := made.header.Get("Location")
	path, _, _ = strings.Cut(path, "?")
	if saved := olga.post(path+"/edit", olga.get(path+"/edit").fillForm("skill-form", url.Values{"host": {"codex"}})); saved.status != http.StatusSeeOther {
		t.Fatalf("%d: %s", saved.status, saved.text())
	}
	if skill = w.skillNamed("laptop"); skill.Host != "codex" || skill.Transport != tool.Gate || skill.ReleaseTime != 2*time.Minute {
		t.Errorf("saved %+v", skill)
	}
	if page := olga.get(path); !strings.Contains(page.text(), "executed by the caller") {
		t.Errorf("its page: %s", page.text())
	}
	_, err := w.agents.Assign(t.Context(), audit.System(), w.agent.ID, agent.AssignmentSpec{Skill: "laptop"}, nil)
	check(t, err)
	entry, err := w.catalog.FindGated(t.Context(), w.agent.ID, "laptop", "Bash")
	check(t, err)
	arguments, err := call.CleanArguments([]byte(`{"command":"echo hi > file"}`))
	check(t, err)
	ticket, err := w.calls.Submit(t.Context(), call.Submission{
		Agent: w.agent, PrincipalID: uuid.Nil, Entry: entry, Arguments: arguments, Gate: &call.GateRequest{
			Name: "r1", GateBinding: call.GateBinding{Directory: "/home/ann/app"}, GateOrigin: call.GateOrigin{Subject: &call.GateSubject{ID: "Rob@example.com"}},
		},
	})
	check(t, err)
	rita := w.signedIn("rita", identity.Reviewer)
	page := rita.get("/calls/" + ticket.ID.String())
	for _, want := range []string{
		"Holdpoint does not execute this call.", "codex executes it after you approve", "codex says so. Holdpoint did not check it.", "Made for, as the gateway says", "Rob@example.com",
		"28 bytes. Holdpoint does not send them.",
	} {
		if !strings.Contains(page.text(), want) {
			t.Errorf("the call's page lacks %q", want)
		}
	}
	if got := page.find("native-directory").Text(); !strings.Contains(got, "/home/ann/app") {
		t.Errorf("the directory is %q", got)
	}
	if page.find("edit-open").Length() != 0 || page.find("reject").Length() == 0 {
		t.Error("the page offers an edit that the caller would not take")
	}
	if queue := rita.get("/"); !strings.Contains(queue.text(), "Executed by codex") {
		t.Errorf("the queue: %d %s", queue.status, queue.text())
	}
}

// TestEditsOnTheDesk: an edit is a difference to the file as the host sent it, and text from the host is as harmless as all other text.
func TestEditsOnTheDesk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.agents.Apply(t.Context(), audit.System(), agent.Spec{Skills: []agent.SkillSpec{{Name: "laptop", Transport: tool.Gate, Host: "claude-code"}}}, false)
	check(t, err)
	_, err = w.agents.Assign(t.Context(), audit.System(), w.agent.ID, agent.AssignmentSpec{Skill: "laptop"}, nil)
	check(t, err)
	rita := w.signedIn("rita", identity.Reviewer)
	skill := "laptop"
	open := func(toolName, arguments string, binding call.GateBinding) *answer {
		entry, err := w.catalog.FindGated(t.Context(), w.agent.ID, skill, toolName)
		check(t, err)
		clean, err := call.CleanArguments([]byte(arguments))
		check(t, err)
		ticket, err := w.calls.Submit(t.Context(), call.Submission{Agent: w.agent, Entry: entry, Arguments: clean, Gate: &call.GateRequest{GateBinding: binding}})
		check(t, err)
		return rita.get("/calls/" + ticket.ID.String())
	}
	file := func(text string) *call.GateFile {
		return &call.GateFile{Path: "/src/a.go", Exists: true, Size: int64(len(text)), Text: &text}
	}
	page := open("Edit", `{"file_path":"/src/a.go","old_string":"two","new_string":"2"}`, call.GateBinding{Directory: "/src", File: file("one\ntwo\nthree\n")})
	if got := page.find("native-diff").Text(); !strings.Contains(got, "- two") || !strings.Contains(got, "+ 2") || !strings.Contains(got, "three") {
		t.Errorf("the difference is %q", got)
	}
	page = open("Edit", `{"file_path":"/src/a.go","old_string":"four","new_string":"4"}`, call.GateBinding{File: file("one\n")})
	if got := page.find("native-note").Text(); !strings.Contains(got, "1 text to replace is not in the file.") {
		t.Errorf("the note is %q", got)
	}
	page = open("Write", `{"file_path":"/src/b.go","content":"x\n"}`, call.GateBinding{File: &call.GateFile{Path: "/src/b.go"}})
	if got := page.find("native").Text(); !strings.Contains(got, "does not exist yet") || !strings.Contains(got, "+ x") {
		t.Errorf("a new file is %q", got)
	}
	page = open("Edit", `{"file_path":"/src/a.go","old_string":"two","new_string":"2"}`, call.GateBinding{File: &call.GateFile{Path: "/src/a.go", Exists: true, Size: 1 << 20}})
	if got := page.find("native").Text(); !strings.Contains(got, "has 1,048,576 bytes. Its content was not sent.") || !strings.Contains(got, "Only the replaced texts are compared.") {
		t.Errorf("a large file is %q", got)
	}
	_, err = w.agents.Apply(t.Context(), audit.System(), agent.Spec{Skills: []agent.SkillSpec{{Name: "codex", Transport: tool.Gate, Host: "codex"}}}, false)
	check(t, err)
	_, err = w.agents.Assign(t.Context(), audit.System(), w.agent.ID, agent.AssignmentSpec{Skill: "codex"}, nil)
	check(t, err)
	skill = "codex"
	page = open("apply_patch", `{"command":"*** Begin Patch\n*** Update File: a.go\n@@\n one\n-two\n+2\n*** End Patch"}`, call.GateBinding{Directory: "/src", File: file("one\ntwo\nthree\n")})
	if got := page.find("native-diff").Text(); !strings.Contains(got, "- two") || !strings.Contains(got, "+ 2") || !strings.Contains(got, "three") {
		t.Errorf("the difference of a patch is %q", got)
	}
	page = open("apply_patch", `{"command":"*** Begin Patch\n*** Update File: a.go\n-two\n+2\n*** Delete File: b.go\n*** End Patch"}`, call.GateBinding{Directory: "/src"})
	if got := page.find("native").Text(); !strings.Contains(got, "- two") || !strings.Contains(got, "+ *** Delete File: b.go") || !strings.Contains(got, "Only the replaced texts are compared.") {
		t.Errorf("a patch of two files is %q", got)
	}
	skill = "laptop"
	page = open("Edit", `{"file_path":"/src/a.go","old_string":"two","new_string":"\u202etwo\u001b[2K"}`,
		call.GateBinding{Directory: "/src/\u202e<b>", Paths: []string{"/etc/\u200bpasswd"}, File: file("<script>\ntwo\n")})
	native := page.find("native")
	for _, want := range []string{"U+202E", "U+001B", "U+200B", "<script>", "<b>"} {
		if !strings.Contains(native.Text(), want) {
			t.Errorf("hostile text lacks %q: %q", want, native.Text())
		}
	}
	if native.Find("script, dd b").Length() != 0 || strings.ContainsAny(native.Text(), "\u202e\u200b\x1b") {
		t.Error("hostile text has an effect")
	}
	page = open("Bash", `{"command":"echo `+strings.Repeat("x", 900_000)+`"}`, call.GateBinding{Directory: "/src"})
	if page.status != http.StatusOK || len(page.text()) > 300_000 || page.find("folded").Length() == 0 {
		t.Errorf("a long command: %d, %d bytes", page.status, len(page.text()))
	}
}
