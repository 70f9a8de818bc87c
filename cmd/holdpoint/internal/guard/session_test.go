package guard_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/guard"
	"github.com/holdpoint/holdpoint/runtime/host"
)

// sampleSession is a coding session in testdata: the messages of a host before each call of a tool.
type sampleSession struct {
	host        guard.Host
	permissions string // that a developer gave the host for the checks of the project
	edits       string // the permissions with those for its files; empty: the host has none, and patchRule is added instead
	isReading   func(e *host.Event) bool
}

func sampleSessions() []sampleSession {
	reads := func(e *host.Event) bool { return e.Tool == "Read" || e.Tool == "Grep" || e.Tool == "Glob" }
	return []sampleSession{
		{
			guard.ClaudeCode,
			`{"permissions": {"allow": ["Bash(go test:*)", "Bash(go build:*)", "Bash(go vet:*)", "Bash(gofmt:*)", "Bash(golangci-lint run:*)"]}}`,
			`{"permissions": {"allow": ["Bash(go test:*)", "Bash(go build:*)", "Bash(go vet:*)", "Bash(gofmt:*)", "Bash(golangci-lint run:*)", "Edit(/**)"]}}`, reads,
		},
		{
			guard.Codex,
			`prefix_rule(pattern=["go", ["test", "build", "vet"]], decision="allow")` + "\n" + `prefix_rule(pattern=["gofmt"], decision="allow")` + "\n" +
				`prefix_rule(pattern=["golangci-lint", "run"], decision="allow")`,
			"", func(e *host.Event) bool { return e.Tool == "Bash" && len(host.FindHook(host.Codex).NamePaths(e)) > 0 },
		},
	}
}

// patchRule is the rule for patches in docs/guard.md, for the project.
const patchRule = `
  - name: patches
    agents: [laptop]
    skills: [codex]
    tools: [apply_patch]
    when: has(context.paths) && context.paths.all(p, within(p, "/home/me/src") && !p.contains("/."))
    effect: allow
`

const sampleProject = "/home/ann/src/ledger"

// TestSampleSessions counts the questions of a coding session: at most one in ten calls that read, and at most one in ten of all calls once the
// developer's permissions are imported, or for Codex a rule for patches is added. The figures are in docs/guard.md.
func TestSampleSessions(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../../docs/guard.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), patchRule) {
		t.Errorf("docs/guard.md does not have the rule\n%s", patchRule)
	}
	for _, s := range sampleSessions() {
		starter, err := guard.StarterRules(s.host, "laptop", "tools", []string{sampleProject})
		if err != nil {
			t.Fatal(err)
		}
		calls := readSession(t, s.host)
		imported := starter + s.importRules(t, s.permissions)
		stages := []string{starter, imported}
		if s.edits != "" {
			stages = append(stages, starter+s.importRules(t, s.edits))
		} else {
			stages = append(stages, imported+strings.NewReplacer("[codex]", "[tools]", "/home/me/src", sampleProject).Replace(patchRule))
		}
		reading, readingParked := 0, 0
		var row strings.Builder
		fmt.Fprintf(&row, "| %s | %d |", s.host, len(calls))
		for stage, text := range stages {
			book := readBook(t, text)
			parked := 0
			for i := range calls {
				e := &calls[i]
				book.cwd = e.Cwd
				verdict := book.judge("tools", e.Tool, string(e.Arguments))
				if verdict != "allow" {
					parked++
				}
				if stage == 0 && s.isReading(e) {
					reading++
					if verdict != "allow" {
						readingParked++
						t.Logf("%s: %s %s is %s", s.host, e.Tool, e.Arguments, verdict)
					}
				}
			}
			if stage == 0 {
				fmt.Fprintf(&row, " %d of %d |", readingParked, reading)
			}
			fmt.Fprintf(&row, " %.1f |", float64(10*parked)/float64(len(calls)))
			if stage == 2 && 10*parked > len(calls) {
				t.Errorf("%s: %d questions in %d calls, want one in ten", s.host, parked, len(calls))
			}
		}
		if len(calls) < 200 || 10*readingParked > reading {
			t.Errorf("%s: %d calls; %d of %d that read are questions, want one in ten", s.host, len(calls), readingParked, reading)
		}
		if !strings.Contains(string(docs), row.String()) {
			t.Errorf("docs/guard.md does not have the row\n%s", row.String())
		}
	}
}

// importRules returns the rules of permissions, without the line that begins the section.
func (s *sampleSession) importRules(t *testing.T, permissions string) string {
	t.Helper()
	importer := &guard.Importer{Agent: "laptop", Skill: "tools", Home: "/home/ann", Projects: []string{sampleProject}}
	add, file := importer.ClaudeCode, sampleProject+"/.claude/settings.json"
	if s.host == guard.Codex {
		add, file = importer.Codex, "/home/ann/.codex/rules/default.rules"
	}
	if err := add(file, []byte(permissions)); err != nil {
		t.Fatal(err)
	}
	_, rules, _ := strings.Cut(importer.Result().YAML(), "rules:\n")
	return rules
}

func readSession(t *testing.T, name guard.Host) []host.Event {
	t.Helper()
	file, err := os.Open("testdata/" + string(name) + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var events []host.Event
	for lines := bufio.NewScanner(file); lines.Scan(); {
		event, err := host.FindHook(string(name)).Read(bytes.Clone(lines.Bytes()), false)
		if err != nil {
			t.Fatalf("%s, call %d: %v", name, len(events)+1, err)
		}
		events = append(events, event)
	}
	return events
}
