package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/approval/rule"
	"github.com/holdpoint/holdpoint/runtime/call"
)

// ruleWays are the ways to set a rule.
var ruleWays = map[string]func(t *testing.T, address string, specs []rule.Spec){
	"dashboard": func(t *testing.T, address string, specs []rule.Spec) {
		t.Helper()
		jar, err := cookiejar.New(nil)
		check(t, err)
		browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		post := func(path string, form url.Values) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+path, strings.NewReader(form.Encode()))
			check(t, err)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
			response, err := browser.Do(r)
			check(t, err)
			response.Body.Close()
			if response.StatusCode != http.StatusSeeOther {
				t.Fatalf("POST %s: %s", path, response.Status)
			}
		}
		token := strings.TrimSpace(runCommand(t, address, "token", "create", "--person", "olga", "--role", "operator"))
		post("/sign-in", url.Values{"token": {token}})
		for _, spec := range specs {
			form := url.Values{"name": {spec.Name}, "when": {spec.When}, "effect": {string(spec.Effect)}, "mode": {string(spec.Mode)}, "message": {spec.Message}}
			if spec.HighRisk {
				form.Set("high_risk", "true")
			}
			post("/rules/new", form)
		}
	},
	"API": func(t *testing.T, address string, specs []rule.Spec) {
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
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address+"/api/v1/rules/"+name, bytes.NewReader(text))
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
	"command line": func(t *testing.T, address string, specs []rule.Spec) {
		t.Helper()
		for _, spec := range specs {
			runCommand(t, address, "rules", "set", spec.Name, "--when", spec.When, "--effect", string(spec.Effect), "--mode", string(spec.Mode),
				"--message", spec.Message, fmt.Sprintf("--high-risk=%t", spec.HighRisk))
		}
	},
	"apply": func(t *testing.T, address string, specs []rule.Spec) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"rules": specs}) // JSON is YAML
		check(t, err)
		file := filepath.Join(t.TempDir(), "holdpoint.yaml")
		check(t, os.WriteFile(file, text, 0o600))
		runCommand(t, address, "apply", "-f", file)
	},
}

// runCommand runs a command of an operator.
func runCommand(t *testing.T, address string, args ...string) string {
	t.Helper()
	env := map[string]string{"HOLDPOINT_URL": address, "HOLDPOINT_TOKEN": edgeToken}
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
	address := "http://" + s.listener.Addr().String()
	const risky = "tools: {risky: {risk: high}}"
	file := filepath.Join(t.TempDir(), "holdpoint.yaml")
	check(t, os.WriteFile(file, []byte(`skills:
  - {name: gated, transport: http, url: `+server.URL+`, `+risky+`}
  - {name: open, transport: http, url: `+server.URL+`, auto_approve: true, `+risky+`}
agents:
  - {name: billing, skills: [gated, open], limits: {pending: 1000}}
`), 0o600))
	runCommand(t, address, "apply", "-f", file)
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
		set(t, address, specs)
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
		if got := runCommand(t, address, "rules", "show", name); !strings.Contains(got, "args.rule == ") || !strings.Contains(got, "Ask the CFO.") {
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

// TestApplyRules: a dry run shows the changes of rules and stores nothing, and an error is at its line, also one of a condition.
func TestApplyRules(t *testing.T) {
	t.Parallel()
	s, _, _ := openEdge(t, nil)
	address := "http://" + s.listener.Addr().String()
	file := filepath.Join(t.TempDir(), "holdpoint.yaml")
	apply := func(text string, args ...string) (stdout, stderr string, code int) {
		t.Helper()
		check(t, os.WriteFile(file, []byte(text), 0o600))
		env := map[string]string{"HOLDPOINT_URL": address, "HOLDPOINT_TOKEN": edgeToken}
		var out, complaints bytes.Buffer
		code = run(t.Context(), append([]string{"apply", "-f", file}, args...), func(name string) string { return env[name] }, strings.NewReader(""), &out, &complaints)
		return out.String(), complaints.String(), code
	}
	const small = "rules:\n  - {name: small, tools: [pay], when: args.amount <= 100.0, effect: allow, mode: shadow}\n"
	const created = "+ rule small\n    tools: [\"pay\"]\n    when: args.amount <= 100.0\n    effect: allow\n    mode: shadow\n"
	enforced := strings.Replace(small, "shadow", "enforce", 1)
	for _, step := range []struct {
		text string
		args []string
		want string
	}{
		{small, []string{"--dry-run"}, created + "1 would be created, 0 would be changed, 0 would be deleted, 0 unchanged\n"},
		{small, nil, created + "1 created, 0 changed, 0 deleted, 0 unchanged\n"},
		{small, nil, "= rule small\n0 created, 0 changed, 0 deleted, 1 unchanged\n"},
		{enforced, nil, "~ rule small\n    mode: shadow → enforce\n0 created, 1 changed, 0 deleted, 0 unchanged\n"},
	} {
		if stdout, stderr, code := apply(step.text, step.args...); code != 0 || stdout != step.want {
			t.Errorf("apply %v: exit code %d\n%s%s\nwant\n%s", step.args, code, stdout, stderr, step.want)
		}
	}
	for text, want := range map[string]string{
		strings.Replace(small, "<=", "=", 1):                                                               ":2:33: rules[0].when: 1:13: unexpected =: write == to compare",
		strings.Replace(small, "allow", "approve", 1):                                                      ":2:61: rules[0].effect: must be allow, park or deny",
		"rules:\n  - name: small\n    effect: park\n    when: |\n      args.a == 1 &&\n      amount > 2\n": ":4:5: rules[0].when: 2:1: unknown name amount",
		"rules: [{name: small, efect: park}]":                                                              `unknown key "efect"`,
		small + "  - {name: small, effect: deny}\n":                                                        `:3:6: rules[1].name: must be a name of its own: "small" is declared at `,
	} {
		if _, stderr, code := apply(text); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d\n%s\nwant %s", text, code, stderr, want)
		}
	}
}
