package host_test

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// messages are messages of each host, as they were recorded, before and after a tool.
var messages = map[string]struct{ before, after, failed string }{
	host.ClaudeCode: {
		before: `{"session_id":"s1","transcript_path":"/t","cwd":"/w","prompt_id":"p","permission_mode":"default","effort":{"level":"high"},"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo hi > file","n":1e400},"tool_use_id":"toolu_1","agent_id":"a1","agent_type":"Explore"}`,
		after:  `{"session_id":"s1","cwd":"/w","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_response":{"stdout":"hi"},"tool_use_id":"toolu_1"}`,
		failed: `{"session_id":"s1","cwd":"/w","hook_event_name":"PostToolUseFailure","tool_name":"Bash","tool_input":{},"error":"exit 1","tool_use_id":"toolu_1"}`,
	},
	host.Codex: {
		before: `{"session_id":"s1","turn_id":"t","cwd":"/w","model":"m","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo hi > file","n":1e400},"tool_use_id":"call_1"}`,
		after:  `{"session_id":"s1","cwd":"/w","hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{},"tool_response":"hi","tool_use_id":"call_1"}`,
	},
	host.Gemini: {
		before: `{"session_id":"s1","transcript_path":"/t","cwd":"/w","hook_event_name":"BeforeTool","timestamp":"2026-11-01T00:00:00Z","tool_name":"run_shell_command","tool_input":{"command":"echo hi > file","n":1e400}}`,
		after:  `{"session_id":"s1","cwd":"/w","hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{},"tool_response":{"llmContent":"hi","returnDisplay":"hi"}}`,
		failed: `{"session_id":"s1","cwd":"/w","hook_event_name":"AfterTool","tool_name":"run_shell_command","tool_input":{},"tool_response":{"llmContent":"bad","error":{"message":"bad"}}}`,
	},
	host.Copilot: {
		before: `{"sessionId":"s1","timestamp":1,"cwd":"/w","toolName":"bash","toolArgs":"{\"command\":\"echo hi > file\",\"n\":1e400}"}`,
		after:  `{"sessionId":"s1","timestamp":1,"cwd":"/w","toolName":"bash","toolArgs":{},"toolResult":{"resultType":"success","textResultForLlm":"hi"}}`,
		failed: `{"sessionId":"s1","timestamp":1,"cwd":"/w","toolName":"bash","toolArgs":{},"toolResult":{"resultType":"failure","textResultForLlm":"bad"}}`,
	},
	host.Cursor: {
		before: `{"conversation_id":"s1","generation_id":"g","hook_event_name":"preToolUse","cursor_version":"3.0","tool_name":"Shell","tool_input":{"command":"echo hi > file","n":1e400},"tool_use_id":"t1","cwd":"/w"}`,
		after:  `{"conversation_id":"s1","hook_event_name":"postToolUse","tool_name":"Shell","tool_input":{},"tool_output":"hi","tool_use_id":"t1","cwd":"/w"}`,
		failed: `{"conversation_id":"s1","hook_event_name":"postToolUseFailure","tool_name":"Shell","tool_input":{},"error_message":"bad","tool_use_id":"t1","cwd":"/w"}`,
	},
	host.OpenCode: {
		before: `{"hook_event_name":"before","tool_name":"bash","tool_use_id":"c1","session_id":"s1","cwd":"/w","tool_input":{"command":"echo hi > file","n":1e400}}`,
		after:  `{"hook_event_name":"after","tool_name":"bash","tool_use_id":"c1","session_id":"s1","cwd":"/w","tool_input":{},"tool_response":"hi"}`,
	},
}

func TestMessages(t *testing.T) {
	t.Parallel()
	for _, name := range tool.Hosts() {
		hook := host.FindHook(name)
		m, ok := messages[name]
		if hook == nil || !ok || len(host.Tools(name)) == 0 {
			t.Errorf("%s must have a hook, tools, and messages in this test", name)
			continue
		}
		e, err := hook.Read([]byte(m.before), false)
		if err != nil || e.After || e.Tool == "" || e.SessionID != "s1" || e.Cwd != "/w" || string(e.Arguments) != `{"command":"echo hi > file","n":1e400}` {
			t.Errorf("%s, before: %+v, %v", hook.Name, e, err)
		}
		e, err = hook.Read([]byte(m.after), hook.Name == host.Copilot)
		if err != nil || !e.After || e.Failed || !strings.Contains(e.Output, "hi") {
			t.Errorf("%s, after: %+v, %v", hook.Name, e, err)
		}
		if m.failed == "" {
			continue
		}
		e, err = hook.Read([]byte(m.failed), hook.Name == host.Copilot)
		if err != nil || !e.After || !e.Failed || e.Output == "" {
			t.Errorf("%s, failed: %+v, %v", hook.Name, e, err)
		}
	}
}

// TestMisunderstood gives each host messages that could be read in two ways, or not at all.
func TestMisunderstood(t *testing.T) {
	t.Parallel()
	for _, name := range tool.Hosts() {
		hook := host.FindHook(name)
		good := messages[hook.Name].before
		arguments := "tool_input"
		if hook.Name == host.Copilot {
			arguments = "toolArgs"
		}
		bad := map[string]string{
			"nothing":                  "",
			"no object":                `[]`,
			"cut":                      good[:len(good)-1],
			"two":                      good + good,
			"text before":              "x" + good,
			"a second value of a name": strings.Replace(good, `{`, `{"cwd":"/x",`, 1),
			"invalid UTF-8":            strings.Replace(good, "hi", "\xff", 1),
			"arguments that are none":  strings.Replace(good, `"`+arguments+`":`, `"x":`, 1),
			"arguments that are null":  strings.Replace(good, `"`+arguments+`":`, `"`+arguments+`":null,"x":`, 1),
			"arguments that are a list": strings.Replace(good, `"`+arguments+`":`,
				`"`+arguments+`":[],"x":`, 1),
			"a number for a text": strings.Replace(good, `"/w"`, `1`, 1),
		}
		for _, name := range []string{"Bash", "bash", "Shell", "run_shell_command"} {
			bad["no tool"] = strings.Replace(cmp.Or(bad["no tool"], good), `"`+name+`"`, `""`, 1)
		}
		if hook.Name == host.Copilot {
			bad["arguments that are no JSON"] = strings.Replace(good, `"toolArgs":"{`, `"toolArgs":"`, 1)
			bad["doubled arguments"] = strings.Replace(good, `"toolArgs":"{`, `"toolArgs":"{\"command\":\"ls\",`, 1)
		} else {
			bad["doubled arguments"] = strings.Replace(good, `{"command"`, `{"command":"ls","command"`, 1)
			bad["no event"] = strings.Replace(good, `"hook_event_name"`, `"event"`, 1)
			bad["another event"] = strings.Replace(good, `"hook_event_name":"`, `"hook_event_name":"x`, 1)
		}
		for name, text := range bad {
			if text == good {
				t.Errorf("%s: the test's message %q is the good one", hook.Name, name)
			}
			if e, err := hook.Read([]byte(text), false); err == nil {
				t.Errorf("%s understood a message with %s: %+v", hook.Name, name, e)
			}
		}
		if hook.Name != host.Copilot {
			if e, err := hook.Read([]byte(good), true); err == nil {
				t.Errorf("%s took a message before a tool for one after it: %+v", hook.Name, e)
			}
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	want := map[string][2]string{
		host.ClaudeCode: {
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","permissionDecisionReason":"<ok>"}}`,
			`{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"\"no\"\n"}}`,
		},
		host.Gemini:   {`{"decision":"allow","reason":"<ok>"}`, `{"decision":"deny","reason":"\"no\"\n"}`},
		host.Copilot:  {`{"permissionDecision":"allow","permissionDecisionReason":"<ok>"}`, `{"permissionDecision":"deny","permissionDecisionReason":"\"no\"\n"}`},
		host.Cursor:   {`{"agent_message":"<ok>","permission":"allow","user_message":"<ok>"}`, `{"agent_message":"\"no\"\n","permission":"deny","user_message":"\"no\"\n"}`},
		host.OpenCode: {`{"decision":"allow","reason":"<ok>"}`, `{"decision":"deny","reason":"\"no\"\n"}`},
	}
	want[host.Codex] = want[host.ClaudeCode]
	for _, name := range tool.Hosts() {
		hook := host.FindHook(name)
		if got := string(hook.Answer(host.Verdict{Allow: true, Reason: "<ok>"})); got != want[hook.Name][0]+"\n" {
			t.Errorf("%s allows with %s", hook.Name, got)
		}
		if got := string(hook.Answer(host.Verdict{Reason: "\"no\"\n"})); got != want[hook.Name][1]+"\n" {
			t.Errorf("%s denies with %s", hook.Name, got)
		}
	}
	if host.FindHook("vim") != nil || host.FindHook(host.Codex).Name != host.Codex {
		t.Error("FindHook")
	}
}

func TestOpenCodePlugin(t *testing.T) {
	t.Parallel()
	command := []string{"/opt/holdpoint", "hook", "opencode", `--url=https://gate/"x"$1`}
	text, err := host.OpenCodePlugin(command)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(text, "const command = ")
	line, _, _ := strings.Cut(after, "\n")
	var got []string
	if err := json.Unmarshal([]byte(line), &got); !found || err != nil || len(got) != 4 || got[3] != command[3] {
		t.Errorf("the plugin runs %s (%v)", line, err)
	}
}
