package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// ruleWays are the ways to set a rule, besides the dashboard's form.
var ruleWays = map[string]func(t *testing.T, url string, specs []rule.Spec){
	"API": func(t *testing.T, url string, specs []rule.Spec) {
		t.Helper()
		for _, spec := range specs {
			name := spec.Name
			text, err := json.Marshal(spec)
			check(t, err)
			var body map[string]any
			check(t, json.Unmarshal(text, &body))
			delete(body, "name")
			text, err = json.Marshal(body)
			check(t, err)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/api/v1/rules/"+name, bytes.NewReader(text))
			check(t, err)
			r.Header.Set("Authorization", "Bearer "+edgeToken)
			r.Header.Set("Content-Type", "application/json")
			response, err := http.DefaultClient.Do(r)
			check(t, err)
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Fatalf("PUT rule %s: %s", name, response.Status)
			}
		}
	},
	"command line": func(t *testing.T, url string, specs []rule.Spec) {
		t.Helper()
		for _, spec := range specs {
			runCommand(t, url, "rules", "set", spec.Name, "--when", spec.When, "--effect", string(spec.Effect), "--mode", string(spec.Mode),
				"--message", spec.Message, fmt.Sprintf("--high-risk=%t", spec.HighRisk))
		}
	},
	"apply": func(t *testing.T, url string, specs []rule.Spec) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"rules": specs}) // JSON is YAML
		check(t, err)
		file := filepath.Join(t.TempDir(), "holdpoint.yaml")
		check(t, os.WriteFile(file, text, 0o600))
		runCommand(t, url, "apply", "-f", file)
	},
}

// runCommand runs a command of an operator.
func runCommand(t *testing.T, url string, args ...string) string {
	t.Helper()
	env := map[string]string{"HOLDPOINT_URL": url, "HOLDPOINT_TOKEN": edgeToken}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, func(name string) string { return env[name] }, strings.NewReader(""), &stdout, &stderr); code != 0 {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// ruledTools are a tool for each setting that a rule may meet, with the verdict that it has without rules.
var ruledTools = map[string]string{
	"gated__plain": "parked gated", "gated__risky": "parked high_risk", "open__plain": "allowed", "open__risky": "parked high_risk",
}

// wantVerdict returns the status of a call of a tool that a rule matches, and why it is parked.
func wantVerdict(tool string, r rule.Spec) string {
	without := ruledTools[tool]
	switch {
	case r.Mode != rule.Enforce:
		return without
	case r.Effect == rule.Deny:
		return "denied rule_denied"
	case r.Effect == rule.Allow && (without == "parked gated" || r.HighRisk):
		return "allowed"
	case r.Effect == rule.Park && without != "parked high_risk":
		return "parked rule_parked"
	}
	return without
}

// TestRulesBySurface: the same rule, set in any way, leads to the same verdict, for each effect, mode and setting of the tool.
func TestRulesBySurface(t *testing.T) {
	t.Parallel()
	skill := mcp.NewServer(&mcp.Implementation{Name: "skill", Version: "1"}, nil)
	for _, name := range []string{"plain", "risky"} {
		skill.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object","properties":{"rule":{"type":"string"}}}`)},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	server := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return skill }, nil))
	t.Cleanup(server.Close)
	s, _, _ := openEdge(t, nil)
	url := "http://" + s.listener.Addr().String()
	const risky = "tools: {risky: {risk: high}}"
	file := filepath.Join(t.TempDir(), "holdpoint.yaml")
	check(t, os.WriteFile(file, []byte(`skills:
  - {name: gated, transport: http, url: `+server.URL+`, `+risky+`}
  - {name: open, transport: http, url: `+server.URL+`, auto_approve: true, `+risky+`}
agents:
  - {name: billing, skills: [gated, open]}
`), 0o600))
	runCommand(t, url, "apply", "-f", file)
	submit := newSubmitter(t, s)

	var rules []rule.Spec
	for _, effect := range rule.Effects() {
		for _, mode := range rule.Modes() {
			r := rule.Spec{Effect: effect, Mode: mode}
			if effect == rule.Deny {
				r.Message = "Ask the CFO."
			}
			rules = append(rules, r)
			if effect == rule.Allow {
				r.HighRisk = true
				rules = append(rules, r)
			}
		}
	}
	for way, set := range ruleWays {
		specs := make([]rule.Spec, len(rules))
		for i, r := range rules {
			r.Name = fmt.Sprintf("%s-%s-%s-%t", strings.ReplaceAll(way, " ", "-"), r.Effect, r.Mode, r.HighRisk)
			r.When = fmt.Sprintf("args.rule == %q", r.Name)
			specs[i] = r
		}
		set(t, url, specs)
		for _, r := range specs {
			for tool := range ruledTools {
				c, verdict := submit(tool, r.Name)
				if want := wantVerdict(tool, r); verdict != want {
					t.Errorf("%s, %s: the call is %s, want %s", r.Name, tool, verdict, want)
				}
				if recorded := len(c.Rules) == 1 && c.Rules[0].Name == r.Name && c.Rules[0].Mode == r.Mode; recorded == (r.Mode == rule.Off) {
					t.Errorf("%s, %s: the call keeps the rules %+v", r.Name, tool, c.Rules)
				}
				if verdict == "denied rule_denied" && c.Message != r.Message {
					t.Errorf("%s, %s: denied with %q", r.Name, tool, c.Message)
				}
			}
		}
	}
	for way := range ruleWays { // each way shows the rules of the others
		name := strings.ReplaceAll(way, " ", "-") + "-deny-shadow-false"
		if got := runCommand(t, url, "rules", "show", name); !strings.Contains(got, "args.rule == ") || !strings.Contains(got, "Ask the CFO.") {
			t.Errorf("rules show %s: %s", name, got)
		}
	}
}

// newSubmitter returns a function that makes a call of the agent billing, and returns it with its verdict.
func newSubmitter(t *testing.T, s *server) func(tool, rule string) (call.Call, string) {
	t.Helper()
	billing, err := s.runtime.Agents.AgentByName(t.Context(), "billing")
	check(t, err)
	conversation, err := s.runtime.Catalog.StartConversation(t.Context(), billing, uuid.Nil, "2025-11-25", nil)
	check(t, err)
	return func(tool, rule string) (call.Call, string) {
		t.Helper()
		entry, ok := conversation.Catalog.Lookup(tool)
		if !ok {
			t.Fatalf("no tool %s: %v", tool, conversation.Problems)
		}
		ticket, err := s.runtime.Calls.Submit(t.Context(), call.Submission{
			Agent: billing, ConversationID: conversation.ID, Entry: entry, Arguments: json.RawMessage(fmt.Sprintf(`{"rule":%q}`, rule)),
		})
		check(t, err)
		c, err := s.runtime.Calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		switch ticket.Status {
		case call.Parked:
			approvals, err := s.runtime.Calls.ReadApprovals(t.Context(), []call.Call{c})
			check(t, err)
			return c, "parked " + string(approvals[c.ID].Rule)
		case call.Denied:
			return c, "denied " + c.Code
		case call.Executing, call.Succeeded:
			return c, "allowed"
		}
		return c, string(ticket.Status) + " " + c.Message
	}
}
