//go:build hosts

package hosts_test

import (
	"path/filepath"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/host"
)

// httpFailures are answers that Claude Code may get over HTTP, from the server or from a proxy before it.
func httpFailures() []failure {
	hook := host.FindHook(host.ClaudeCode)
	allowed := string(hook.Answer(host.Verdict{Allow: true, Reason: "Approved by rita."}))
	runs := []string{host.ClaudeCode}
	return []failure{
		{name: "allowed (the control)", answer: say(200, allowed), runs: runs},
		{name: "rejected", answer: say(200, string(hook.Answer(host.Verdict{Reason: "Rejected by rita."})))},
		{name: "connection reset", answer: cutOff},
		{name: "HTTP 500", answer: say(500, allowed)},
		{name: "HTTP 401", answer: say(401, allowed)},
		{name: "HTTP 403", answer: say(403, allowed)},
		{name: "HTTP 429", answer: say(429, allowed)},
		{name: "redirect", answer: say(302, allowed)},
		{name: "HTTP 200, garbage", answer: say(200, "<html>"+allowed)},
		{name: "HTTP 200, nothing", answer: say(200, ""), runs: runs},
		{name: "HTTP 200, `{}`", answer: say(200, "{}"), runs: runs},
		{name: "no answer until the timeout", answer: hang},
	}
}

// TestHTTP lets Claude Code ask over HTTP. docs/coding-agents.md names the answers that let a tool run.
func TestHTTP(t *testing.T) {
	t.Parallel()
	a, list := claudeCode(), httpFailures()
	var steps []step
	for i := range list {
		steps = append(steps, a.shell("echo hi > "+markOf(i, kindShell)))
	}
	r := newRun(t, a, newModel(t))
	// The hook of this tool asks a server that is down.
	away := filepath.Join(r.project, "away")
	steps = append(steps, step{tools: []string{"Write"}, arguments: object{"file_path": away, "content": "hi"}})
	r.model.steps = steps
	g := newGate(t, list)
	a.install(r, installed{})
	hook := func(url, matcher string) any {
		return object{"matcher": matcher, "hooks": []any{object{"type": "http", "url": url, "timeout": 30, "onFailure": "block"}}}
	}
	r.writeFile(filepath.Join(r.home, ".claude/settings.json"), encode(object{"hooks": object{"PreToolUse": []any{
		hook(g.URL+"/agents/laptop/hooks/claude-code", "Bash"), hook("http://127.0.0.1:1/agents/laptop/hooks/claude-code", "Write"),
	}}}))
	r.start(a.modes[0])
	r.wait()
	for i, f := range list {
		if ran := r.has(kindShell, i); ran != (f.runs != nil) {
			t.Errorf("%s: the tool ran: %t", f.name, ran)
		}
	}
	if r.hasFile("away") {
		t.Error("the tool ran although the server was down")
	}
	if last := markOf(len(list)-1, kindShell); !r.model.wasTold(last) {
		t.Errorf("the model was not told of %s; it printed %s", last, r.output.String())
	}
}

// TestHTTPDecision lets Claude Code ask a real server over HTTP: the call runs after an approval, and its outcome is reported over HTTP too.
func TestHTTPDecision(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	a := s.claudeCode(t)
	r := newRun(t, a, newModel(t, a.shell("echo hi > over-http")))
	a.install(r, installed{})
	hook := []any{object{"hooks": []any{object{
		"type": "http", "url": s.URL + "/agents/with-claude-code/hooks/claude-code?wait=3600", "headers": object{"Authorization": "Bearer $HOLDPOINT_KEY"},
		"allowedEnvVars": []string{"HOLDPOINT_KEY"}, "timeout": day, "onFailure": "block",
	}}}}
	r.writeFile(filepath.Join(r.home, ".claude/settings.json"), encode(object{"hooks": object{
		"PreToolUse": hook, "PostToolUse": hook, "PostToolUseFailure": hook,
	}}))
	r.start(a.modes[0])
	d := &decided{Approval: s.pending(t, r, "over-http"), approve: true, happened: func() bool { return r.hasFile("over-http") }}
	s.decide(t, r, d)
	s.wantDecided(t, r, d)
}
