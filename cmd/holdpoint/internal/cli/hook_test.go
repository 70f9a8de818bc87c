package cli_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
	"github.com/holdpoint/holdpoint/runtime/host"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const (
	gateEndpoint = "POST /agents/laptop/gate"
	bashMessage  = `{"session_id":"s1","cwd":"/w","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"echo <hi> > file","n":1e400},"tool_use_id":"toolu_1"}`
)

// runHook runs the hook of a host against the fake, with a message.
func (f *fake) runHook(name, message string, args ...string) ran {
	f.t.Helper()
	all := append([]string{"hook", name, "--url", f.URL, "--agent", "laptop", "--token", "t0ken", "--state-dir", filepath.Join(f.t.TempDir(), "state")}, args...)
	return run(f.t, nil, message, all...)
}

// wantDenied checks that a hook refused in all forms.
func (r ran) wantDenied(t *testing.T, reason string) ran {
	t.Helper()
	r.wantCode(t, 2)
	wantContains(t, "stderr", r.stderr, reason)
	if !strings.Contains(r.stdout, `"deny"`) || !json.Valid([]byte(r.stdout)) || strings.Contains(r.stdout, "allow\"") {
		t.Errorf("stdout must deny: %s", r.stdout)
	}
	return r
}

func TestHookAllows(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"allow","code":"","message":"Approved by rita."}`)
	got := f.runHook("claude-code", bashMessage).wantCode(t, 0)
	if want := string(host.FindHook("claude-code").Answer(host.Verdict{Allow: true, Reason: "Approved by rita."})); got.stdout != want || got.stderr != "" {
		t.Errorf("got %+v, want %s", got, want)
	}
	var sent struct {
		Skill, Tool string
		Arguments   json.RawMessage
		RequestID   string `json:"request_id"`
		Wait        int
		Context     map[string]string
	}
	if err := json.Unmarshal([]byte(f.getLastBody()), &sent); err != nil {
		t.Fatal(err)
	}
	if sent.Skill != "claude-code" || sent.Tool != "Bash" || string(sent.Arguments) != `{"command":"echo <hi> > file","n":1e400}` || len(sent.RequestID) != 36 ||
		sent.Wait != 1 || sent.Context["cwd"] != "/w" || sent.Context["host"] != "claude-code" || sent.Context["session_id"] != "s1" {
		t.Errorf("sent %s", f.getLastBody())
	}
	if f.header.Get("Authorization") != "Bearer t0ken" {
		t.Errorf("sent %v", f.header)
	}
}

func TestHookRefuses(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"deny","code":"rejected","message":"Rejected by rita: not today"}`)
	for _, name := range tool.Hosts() {
		event := map[string]string{host.Gemini: "BeforeTool", host.Cursor: "preToolUse", host.OpenCode: "before"}[name]
		message := strings.Replace(bashMessage, "PreToolUse", cmp.Or(event, "PreToolUse"), 1)
		if name == host.Copilot {
			message = `{"sessionId":"s1","cwd":"/w","toolName":"bash","toolArgs":{}}`
		}
		f.runHook(name, message).wantDenied(t, "Rejected by rita: not today")
	}
}

// TestHookFailsClosed gives a hook everything that can go wrong. Nothing of it may let a tool run.
func TestHookFailsClosed(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"allow"}`)
	for name, args := range map[string][]string{
		"an unknown flag":      {"--nonsense"},
		"an argument more":     {"codex"},
		"a bad wait":           {"--wait", "soon"},
		"a wait that is short": {"--wait", "1s"},
		"a wait that is long":  {"--wait", "24h"},
		"a bad URL":            {"--url", "gate"},
		"a missing key":        {"--key-file", "/nonexistent"},
		"a missing CA":         {"--ca-file", "/nonexistent"},
		"a CA that is none":    {"--ca-file", writeFile(t, "ca.pem", "no")},
		"a key that is none":   {"--key-file", writeFile(t, "key", "two\nlines")},
		"an empty key":         {"--key-file", writeFile(t, "empty", "\n")},
		"a bad proxy":          {"--proxy", "::"},
		"no agent":             {"--agent", ""},
		"a plugin":             {"--plugin"},
	} {
		got := f.runHook("claude-code", bashMessage, args...)
		if got.wantDenied(t, "was not run"); t.Failed() {
			t.Fatalf("with %s", name)
		}
	}
	f.runHook("codex", bashMessage, "--defer").wantDenied(t, "--defer")
	for _, args := range [][]string{{"--after"}, {"--after", "--key-file", "/nonexistent"}} { // installed for the wrong event
		f.runHook("codex", bashMessage, args...).wantDenied(t, "must be about a tool that has ended")
	}
	for _, args := range [][]string{{"hook"}, {"hook", "vim"}} {
		if got := run(t, f.env(), bashMessage, args...).wantCode(t, 2); got.stdout != "" || got.stderr == "" {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for name, message := range map[string]string{
		"nothing": "", "no JSON": "x", "another event": strings.Replace(bashMessage, "PreToolUse", "UserPromptSubmit", 1),
		"too much": `{"x":"` + strings.Repeat("x", 17<<20) + `"}`,
	} {
		got := f.runHook("claude-code", message)
		if got.wantDenied(t, "message"); t.Failed() {
			t.Fatalf("with a message that has %s", name)
		}
	}
	if len(f.asked) > 0 {
		t.Errorf("asked %v", f.asked)
	}
	run(t, nil, bashMessage, "hook", "gemini", "--url", "http://127.0.0.1:1", "--agent", "a", "--token", "t").wantDenied(t, "message")
	run(t, nil, bashMessage, "hook", "claude-code", "--url", "http://127.0.0.1:1", "--agent", "a", "--token", "t").wantDenied(t, "127.0.0.1:1")
}

// TestHookAnswersOfServers gives a hook answers that no server of ours gives.
func TestHookAnswersOfServers(t *testing.T) {
	t.Parallel()
	const allow = `{"id":"c1","decision":"allow"}`
	for _, c := range []struct {
		status    int
		mediaType string
		body      string
	}{
		{500, "application/json", allow},
		{401, "application/problem+json", allow},
		{403, "application/json", allow},
		{302, "application/json", allow},
		{204, "", ""},
		{200, "application/problem+json", allow},
		{200, "application/json", ""},
		{200, "application/json", "{}"},
		{200, "application/json", "null"},
		{200, "application/json", allow + allow},
		{200, "application/json", "x" + allow},
		{200, "application/json", `{"id":"","decision":"allow"}`},
		{200, "application/json", `{"id":"c1","decision":"Allow"}`},
		{200, "application/json", `{"id":"c1","decision":"ask"}`},
		{200, "application/json", `{"id":"c1","decision":["allow"]}`},
	} {
		f := newFake(t)
		f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.mediaType)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		})
		if f.runHook("claude-code", bashMessage).wantDenied(t, "was not run"); t.Failed() {
			t.Fatalf("with %+v", c)
		}
	}
}

// TestHookWaits waits until the call is decided, over a server that is away for a moment.
func TestHookWaits(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	asked := 0
	id := ""
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		asked++
		var body struct {
			RequestID string `json:"request_id"`
		}
		if r.Method == http.MethodPost {
			_ = json.NewDecoder(r.Body).Decode(&body)
			id = body.RequestID
		} else if r.URL.Path != "/agents/laptop/gate/c1" || r.URL.Query().Get("request_id") != id || id == "" {
			t.Errorf("asked %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/json")
		switch asked {
		case 1:
			panic(http.ErrAbortHandler)
		case 2, 4:
			fmt.Fprint(w, `{"id":"c1","decision":"pending","deadline":"2026-01-02T04:00:00Z"}`)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, `{"id":"c1","decision":"allow","message":"ok"}`)
		}
	})
	f.runHook("claude-code", bashMessage).wantCode(t, 0)
	if asked != 5 {
		t.Errorf("asked %d times", asked)
	}
}

// TestHookBusy keeps asking about a parked call while the server is busy, and tells the model in the end that the call still waits.
func TestHookBusy(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusInternalServerError} {
		f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"pending"}`).
			setProblem("GET /agents/laptop/gate/c1", status, fmt.Sprintf(`{"status":%d,"code":"busy","detail":"later","title":"Busy"}`, status))
		f.runHook("claude-code", bashMessage, "--wait", "5s").wantDenied(t, "still waits for a person's approval in Holdpoint (call c1)")
	}
}

// TestHookHostGone reports that an allowed call was not run if the host does not read the answer.
func TestHookHostGone(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"allow"}`).setAnswer("POST /agents/laptop/gate/c1/outcome", "")
	state := t.TempDir()
	e := &cli.Env{Getenv: func(string) string { return "" }, Stdin: strings.NewReader(bashMessage), Stdout: closedOutput{}, Stderr: io.Discard, Now: time.Now, Version: "1.2.3"}
	code := cli.Run(t.Context(), e, []string{"hook", "claude-code", "--url", f.URL, "--agent", "laptop", "--token", "t0ken", "--state-dir", state})
	if code != 2 || !strings.Contains(f.getLastBody(), `"status":"not_run"`) {
		t.Errorf("exit code %d, last sent %s", code, f.getLastBody())
	}
	if left, err := os.ReadDir(state); err != nil || len(left) > 0 {
		t.Errorf("%d calls are remembered (%v)", len(left), err)
	}
}

// closedOutput is an output that nobody reads.
type closedOutput struct{}

func (closedOutput) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// TestHookTime refuses a call that is still pending, with words how to come back, and defers it where Claude Code runs without a terminal.
func TestHookTime(t *testing.T) {
	t.Parallel()
	const pending = `{"id":"c1","decision":"pending","deadline":"2026-01-02T04:00:00Z"}`
	f := newFake(t).setAnswer(gateEndpoint, pending).setAnswer("GET /agents/laptop/gate/c1", pending)
	f.runHook("claude-code", bashMessage, "--wait", "5s").wantDenied(t, "make the same call again with exactly the same arguments")
	got := f.runHook("claude-code", bashMessage, "--defer").wantCode(t, 0)
	if got.stdout != string(host.FindHook("claude-code").Answer(host.Verdict{Defers: true, Reason: strings.TrimSpace(deferReason(t, got.stdout))})) || !strings.Contains(got.stdout, `"defer"`) {
		t.Errorf("got %+v", got)
	}
	f.setAnswer("GET /agents/laptop/gate/c1", `{"id":"c2","decision":"allow"}`)
	f.runHook("claude-code", bashMessage).wantDenied(t, "must be that of the call")
}

func deferReason(t *testing.T, stdout string) string {
	t.Helper()
	var answer struct {
		Output struct {
			Reason string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Output.Reason
}

func TestHookOutcome(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"allow"}`).setAnswer("POST /agents/laptop/gate/c1/outcome", "")
	state := t.TempDir()
	after := strings.Replace(bashMessage, "PreToolUse", "PostToolUse", 1)
	after = strings.Replace(after, `"tool_input"`, `"tool_response":"done","tool_input"`, 1)
	f.runHook("claude-code", after, "--state-dir", state).wantCode(t, 0)
	if len(f.asked) > 0 {
		t.Errorf("asked %v about a call that no hook allowed", f.asked)
	}
	f.runHook("claude-code", bashMessage, "--state-dir", state).wantCode(t, 0)
	id := requestID(t, f.getLastBody())
	for range 2 {
		if got := f.runHook("claude-code", after, "--state-dir", state).wantCode(t, 0); got.stdout+got.stderr != "" {
			t.Errorf("got %+v", got)
		}
	}
	if got := f.getLastBody(); len(f.asked) != 2 || got != `{"request_id":"`+id+`","status":"succeeded","text":"done"}` {
		t.Errorf("asked %v, sent %s", f.asked, got)
	}
	// Copilot's messages name neither the event nor the call.
	const copilot = `{"sessionId":"s1","cwd":"/w","toolName":"bash","toolArgs":{"command":"ls"}`
	f.runHook("copilot", copilot+"}", "--state-dir", state).wantCode(t, 0)
	f.runHook("copilot", copilot+`,"toolResult":{"resultType":"failure","textResultForLlm":"no"}}`, "--state-dir", state, "--after").wantCode(t, 0)
	if got := f.getLastBody(); !strings.Contains(got, `"status":"failed","text":"no"`) {
		t.Errorf("sent %s", got)
	}
	if entries, err := os.ReadDir(state); err != nil || len(entries) > 0 {
		t.Errorf("left %v (%v)", entries, err)
	}
}

// TestHookBypass: a guard's hook reports a tool that ran and that no hook allowed. Hosts tell of a refused tool as of one that failed.
func TestHookBypass(t *testing.T) {
	t.Parallel()
	const ran = "POST /agents/laptop/guards/g1/ran"
	after := strings.Replace(bashMessage, "PreToolUse", "PostToolUse", 1)
	for answer, said := range map[string]string{`{"released":false}`: "did not release this call", `{"released":true}`: ""} {
		f := newFake(t).setAnswer(ran, answer)
		got := f.runHook("claude-code", after, "--guard", "g1").wantCode(t, 0)
		if got.stdout != "" || (said == "") != (got.stderr == "") || !strings.Contains(got.stderr, said) {
			t.Errorf("got %+v", got)
		}
		wantContains(t, "the report", f.getLastBody(), `"skill":"claude-code","tool":"Bash","arguments":{`)
		f.runHook("claude-code", strings.Replace(after, "PostToolUse", "PostToolUseFailure", 1), "--guard", "g1").wantCode(t, 0)
		if len(f.asked) != 1 {
			t.Errorf("asked %v", f.asked)
		}
	}
	got := newFake(t).runHook("claude-code", after, "--guard", "g1").wantCode(t, 0)
	wantContains(t, "stderr", got.stderr, "report a call that ran")
	f := newFake(t).setAnswer(gateEndpoint, `{"id":"c1","decision":"allow"}`)
	f.runHook("claude-code", bashMessage, "--guard", "g1").wantCode(t, 0)
	wantContains(t, "the question", f.getLastBody(), `"guard":"g1"`)
}

func requestID(t *testing.T, body string) string {
	t.Helper()
	var sent struct {
		RequestID string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(body), &sent); err != nil || sent.RequestID == "" {
		t.Fatalf("sent %s (%v)", body, err)
	}
	return sent.RequestID
}

// TestHookSettings takes settings from variables only if no flag gives them.
func TestHookSettings(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /agents/other/gate", `{"id":"c1","decision":"allow"}`)
	env := map[string]string{"HOLDPOINT_URL": f.URL, "HOLDPOINT_AGENT": "other", "HOLDPOINT_KEY_FILE": writeFile(t, "key", "k3y\n"), "HOLDPOINT_SKILL": "tools"}
	run(t, env, bashMessage, "hook", "codex", "--state-dir", t.TempDir()).wantCode(t, 0)
	if f.header.Get("Authorization") != "Bearer k3y" || !strings.Contains(f.getLastBody(), `"skill":"tools"`) {
		t.Errorf("sent %v, %s", f.header, f.getLastBody())
	}
	run(t, env, bashMessage, "hook", "codex", "--url", "http://127.0.0.1:1", "--token", "x").wantDenied(t, "127.0.0.1:1")
	plugin := run(t, env, "", "hook", "opencode", "--plugin", "--agent", "laptop", "--key-file", "k").wantCode(t, 0).stdout
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	wantContains(t, "plugin", plugin, `"hook","opencode","--url=`+f.URL+`","--agent=laptop","--key-file=`+wd+`/k"]`, "export const Holdpoint")
}
