package cli_test

import (
	"strings"
	"testing"
)

const approvalText = `{"id":"a1","call_id":"a1","status":"pending","agent":"billing","skill":"files","tool":"write\u202e",` +
	`"arguments":{"n":1e400},"digest":"d1","arguments_digest":"x","tool_pin":"p1","principal":"paula",` +
	`"created_at":"2026-01-02T03:04:00Z","deadline":"2026-01-02T03:05:05Z","decision":null,"rule":"gated","risk":"standard"}`

func TestApprove(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", approvalText).
		setAnswer("POST /api/v1/approvals/a1/approve", strings.Replace(approvalText, "pending", "approved", 1))
	got := f.run("approvals", "approve", "a1", "--note", "fine").wantCode(t, 1)
	wantContains(t, "stdout", got.stdout, "billing wants files: write<U+202E> on behalf of paula", `"n": 1e400`, "in 1m0s")
	wantContains(t, "stderr", got.stderr, "nothing was approved", "--digest d1")
	f.run("approvals", "approve", "a1", "--json").wantCode(t, 1)
	if len(f.asked) != 2 {
		t.Fatalf("asked %v", f.asked)
	}
	for answer, code := range map[string]int{"yes\n": 0, "no\n": 1, "\n": 1, "": 1} {
		f.asked = nil
		if got := f.runAtTerminal(answer, "approvals", "approve", "a1", "--note", "fine").wantCode(t, code); code != 0 && len(f.asked) != 1 {
			t.Errorf("%q: asked %v, %s", answer, f.asked, got.stdout)
		}
	}
	got = f.runAtTerminal("yes\n", "approvals", "approve", "a1", "--note", "fine").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "Type yes", "The call is approved.")
	if f.getLastBody() != `{"digest":"d1","note":"fine"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.asked = nil
	got = f.run("approvals", "approve", "a1", "--digest", "shown before", "--json").wantCode(t, 0)
	if f.getLastBody() != `{"digest":"shown before"}` || len(f.asked) != 1 {
		t.Errorf("asked %v, sent %s", f.asked, f.getLastBody())
	}
	if got.stdout != strings.Replace(approvalText, "pending", "approved", 1)+"\n" {
		t.Errorf("stdout %s", got.stdout)
	}
}

// A risky call is not approved right after it is shown.
func TestApproveTakesTheDigestOfWhatIsRisky(t *testing.T) {
	t.Parallel()
	for risk, said := range map[string]string{`"high"`: "an operator marked this tool", `"destructive"`: "the server says so", `null`: "not standard"} {
		text := strings.Replace(approvalText, `"standard"`, risk, 1)
		f := newFake(t).setAnswer("GET /api/v1/approvals/a1", text).setAnswer("POST /api/v1/approvals/a1/approve", strings.Replace(text, "pending", "approved", 1))
		got := f.run("approvals", "approve", "a1").wantCode(t, 1)
		wantContains(t, "stdout", got.stdout, "billing wants files", `"n": 1e400`, "d1")
		wantContains(t, "stderr", got.stderr, said, "nothing was approved", "--digest d1")
		f.run("approvals", "approve", "a1", "--json").wantCode(t, 1)
		f.run("approvals", "approve", "a1", "--args", "{}").wantCode(t, 1)
		for _, asked := range f.asked {
			if asked != "GET /api/v1/approvals/a1" {
				t.Errorf("%s: asked %s", risk, asked)
			}
		}
		f.run("approvals", "approve", "a1", "--digest", "d1").wantCode(t, 0)
		if f.getLastBody() != `{"digest":"d1"}` {
			t.Errorf("%s: sent %s", risk, f.getLastBody())
		}
	}
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", strings.Replace(approvalText, `"standard"`, `"high"`, 1)).
		setAnswer("POST /api/v1/approvals/a1/reject", strings.Replace(approvalText, "pending", "rejected", 1))
	f.run("approvals", "reject", "a1", "--reason", "no").wantCode(t, 0)
}

func TestReject(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", approvalText).setProblem("POST /api/v1/approvals/a1/reject", 409,
		`{"status":409,"code":"already_decided","detail":"the approval was approved before","approval_status":"approved",`+
			`"decision":{"by":"ri\u202eta","at":"2026-01-02T03:04:01Z","outcome":"approved","note":"ok"}}`)
	f.run("approvals", "reject", "a1").wantCode(t, 1)
	f.run("approvals", "reject", "a1", "--reason", " ").wantCode(t, 1)
	if len(f.asked) != 0 {
		t.Errorf("asked %v", f.asked)
	}
	got := f.run("approvals", "reject", "a1", "--reason", "no").wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, "already_decided", "approved at 2026-01-02T03:04:01Z by ri<U+202E>ta: ok")
	if f.getLastBody() != `{"digest":"d1","reason":"no"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
}

func TestLists(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	tests := []struct {
		request, item string
		args          []string
		want          []string
	}{
		{"GET /api/v1/approvals", approvalText, []string{"approvals", "list"}, []string{"a1", "pending", "1m0s", "paula", "files: write<U+202E>", `{"n":1e400}`}},
		{
			"GET /api/v1/calls", `{"id":"c1","status":"failed","failure":"transport","effect":"possible","agent":"billing","skill":"s","tool":"t","arguments":{},"created_at":"2026-01-02T03:04:05Z"}`,
			[]string{"calls", "list", "--agent", "billing", "--status", "failed"},
			[]string{"c1", "failed: transport, may have been executed"},
		},
		{"GET /api/v1/agents", `{"name":"billing","wait_budget":"50s","skills":[{"skill":"a","tools":["x"]},{"skill":"b"}],"created_at":"2026-01-02T03:04:05Z"}`, []string{"agent", "list"}, []string{"billing", "a (1 tools), b", "50s"}},
		{"GET /api/v1/skills", `{"name":"files","command":["npx","x"],"auto_approve":false,"health":{"status":"failing","kind":"transport","error":"no\nway"}}`, []string{"skill", "list"}, []string{"files", "parked", "failing: transport: no<U+000A>way", "npx x"}},
		{"GET /api/v1/skills/files/tools", `{"name":"write","state":"changed","pin":"0123456789abcdef","definition":{"description":"first\nsecond"}}`, []string{"skill", "tools", "files", "--refresh"}, []string{"write", "changed", "0123456789ab ", "first"}},
		{"GET /api/v1/agents/billing/keys", `{"id":"k1","hint":"hpa_x","created_at":"2026-01-02T03:04:05Z","revoked_at":null}`, []string{"agent", "key", "list", "billing"}, []string{"k1", "hpa_x…"}},
		{"GET /api/v1/tokens", `{"id":"t1","person":"rita","roles":["reviewer"],"agents":["*"],"hint":"hpp_x","created_at":"2026-01-02T03:04:05Z"}`, []string{"token", "list"}, []string{"t1", "rita", "reviewer", "*"}},
	}
	for _, test := range tests {
		text := `{"items":[` + test.item + `],"next_cursor":"more"}`
		f.setAnswer(test.request, text)
		got := f.run(test.args...).wantCode(t, 0)
		wantContains(t, strings.Join(test.args, " "), got.stdout, test.want...)
		wantContains(t, strings.Join(test.args, " "), got.stderr, "--cursor more")
		if got := f.run(append(test.args, "--json")...).wantCode(t, 0); got.stdout != text+"\n" {
			t.Errorf("%v --json: %s", test.args, got.stdout)
		}
	}
	wantContains(t, "requests", strings.Join(f.asked, "\n"), "GET /api/v1/approvals?limit=50&status=pending",
		"agent=billing", "status=failed", "refresh=true")
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/agents/billing/keys", `{"key":"hpa_secret","id":"k1"}`).
		setAnswer("POST /api/v1/tokens", `{"key":"hpp_secret","id":"t1"}`)
	got := f.run("agent", "key", "create", "billing").wantCode(t, 0)
	if got.stdout != "hpa_secret\n" || !strings.Contains(got.stderr, "not shown again") {
		t.Errorf("got %+v", got)
	}
	if got := f.run("agent", "key", "create", "billing", "--json").wantCode(t, 0); got.stdout != `{"key":"hpa_secret","id":"k1"}`+"\n" {
		t.Errorf("got %+v", got)
	}
	got = f.run("token", "create", "--person", "rita", "--role", "reviewer", "--role", "operator", "--agents", "a,b").wantCode(t, 0)
	if got.stdout != "hpp_secret\n" || f.getLastBody() != `{"agents":["a","b"],"person":"rita","roles":["reviewer","operator"]}` {
		t.Errorf("got %+v, sent %s", got, f.getLastBody())
	}
	if f.run("token", "create").wantCode(t, 0); f.getLastBody() != `{}` {
		t.Errorf("a token of one's own: sent %s", f.getLastBody())
	}
	f.setAnswer("POST /api/v1/invitations", `{"url":"https://gate/invitation?key=hpi_secret","key":"hpi_secret","invitation":{"name":"rita"}}`).
		setAnswer("POST /api/v1/invitations/redeem", `{"key":"hpp_first","id":"t2"}`)
	got = f.run("invitation", "create", "--name", "rita", "--role", "reviewer", "--email", "rita@example.com", "--ttl", "24h").wantCode(t, 0)
	if got.stdout != "https://gate/invitation?key=hpi_secret\n" || f.getLastBody() != `{"email":"rita@example.com","name":"rita","roles":["reviewer"],"ttl":"24h0m0s"}` {
		t.Errorf("got %+v, sent %s", got, f.getLastBody())
	}
	f.run("invitation", "create", "--name", "rita").wantCode(t, 1)
	if got := f.run("invitation", "redeem", "https://gate/invitation?key=hpi_secret").wantCode(t, 0); got.stdout != "hpp_first\n" {
		t.Errorf("got %+v", got)
	}
	if got := f.run("token", "revoke", "t1").wantCode(t, 0); got.stdout != "Revoked.\n" {
		t.Errorf("got %+v", got)
	}
	f.run("agent", "key", "revoke", "billing", "k1").wantCode(t, 0)
	wantContains(t, "requests", strings.Join(f.asked, "\n"), "DELETE /api/v1/tokens/t1", "DELETE /api/v1/agents/billing/keys/k1")
}

func TestCalls(t *testing.T) {
	t.Parallel()
	const text = `{"id":"c1","status":"unknown","effect":"possible","message":"lost","agent":"billing","skill":"s","tool":"t",` +
		`"arguments":{"n":-0},"result":{"x":"\u202e"},"created_at":"2026-01-02T03:04:05Z","resolution":{"outcome":"failed","note":"seen","by":"olga"}}`
	f := newFake(t).setAnswer("GET /api/v1/calls/c1", text).setAnswer("POST /api/v1/calls/c1/cancel", text).
		setAnswer("POST /api/v1/calls/c1/resolve", text)
	wantContains(t, "calls show", f.run("calls", "show", "c1").wantCode(t, 0).stdout,
		"unknown, may have been executed", "failed by olga", `"n": -0`, `"x": "\u202e"`)
	f.run("calls", "cancel", "c1").wantCode(t, 0)
	f.run("calls", "resolve", "c1").wantCode(t, 1)
	f.run("calls", "resolve", "c1", "--outcome", "failed", "--note", "seen").wantCode(t, 0)
	if f.getLastBody() != `{"note":"seen","outcome":"failed"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	got := f.run("calls", "show", "c2").wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, "nothing here (not_found)")
}

func TestTools(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer(endpoint, rpc(`"result":{"tools":[{"name":"files__write","description":"Writes.\nMore","inputSchema":{"x":1e400,"y":"<"}},`+
		`{"name":"holdpoint_await"}],"_meta":{"dev.holdpoint/problems":[{"skill":"ledger","kind":"transport","error":"down"}]}}`))
	got := f.run("tools", "billing").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "files__write     Writes.\n", "holdpoint_await  -")
	wantContains(t, "stderr", got.stderr, "The tools of ledger are missing (transport): down")
	got = f.run("tools", "billing", "--json").wantCode(t, 0)
	const want = `{"items":[{"name":"files__write","description":"Writes.\nMore","inputSchema":{"x":1e400,"y":"<"}},{"name":"holdpoint_await"}]}` + "\n"
	if got.stdout != want {
		t.Errorf("stdout %s", got.stdout)
	}
}

// TestNoTools: a skill whose server could not be listed does not look like one without tools.
func TestNoTools(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/skills/files/tools", `{"items":[],"next_cursor":null}`)
	got := f.run("skill", "tools", "files", "--refresh").wantCode(t, 0)
	wantContains(t, "notes", got.stderr, "No tools are listed. See why: holdpoint skill probe files")
}

func TestSkillAccept(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/skills/files/tools", `{"items":[{"name":"write","state":"changed","pin":"p2","accepted_pin":"p1",`+
		`"definition":{"name":"new \u001b"},"accepted_definition":{"name":"old"}}]}`).
		setAnswer("POST /api/v1/skills/files/tools/write/accept", `{}`).
		setAnswer("POST /api/v1/skills/files/tools/write/refuse", `{}`)
	got := f.run("skill", "accept", "files", "write").wantCode(t, 0)
	wantContains(t, "stderr", got.stderr, `"old"`, `"new \u001b"`)
	if f.getLastBody() != `{"pin":"p2"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.run("skill", "accept", "files", "write", "--pin", "p3").wantCode(t, 0)
	if f.getLastBody() != `{"pin":"p3"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.run("skill", "accept", "files", "nothing").wantCode(t, 1)
	wantContains(t, "stdout", f.run("skill", "refuse", "files", "write").wantCode(t, 0).stdout, "Refused p2.")
	if f.getLastBody() != `{"pin":"p2"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
}

func TestSkillProbe(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/skills/files/probe", `{"ok":false,"steps":[{"name":"connect","detail":"","took":"1ms","error":"refused"}]}`)
	wantContains(t, "stdout", f.run("skill", "probe", "files").wantCode(t, 1).stdout, "fail", "connect", "refused")
	f.run("skill", "probe", "files", "--json").wantCode(t, 1)
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, command := range []string{
		"api", "apply", "agent list", "agent show", "agent create", "agent edit", "agent tools", "server show", "agent delete", "agent assign", "agent unassign", "agent key create", "agent key list", "agent key revoke", "skill list", "skill tools",
		"skill show", "skill create", "skill edit", "skill delete", "skill set", "skill health", "skill accept", "skill refuse", "skill probe", "token create", "invitation create", "invitation list", "invitation revoke", "invitation redeem", "token list", "token revoke", "tools", "call", "approvals list",
		"approvals show", "approvals approve", "approvals reject", "approvals claim", "approvals release", "approvals assign", "approvals comment", "calls list", "calls export", "calls show", "conversations list", "conversations show", "audit list", "audit export", "calls cancel", "calls resolve",
		"connections list", "connections connect", "connections disconnect", "people list", "people link", "people unlink",
		"people show", "people grant", "people block", "people unblock", "people sessions", "people end-session", "people sign-out",
		"insights", "insights tools", "migrate", "doctor", "version",
	} {
		got := run(t, nil, "", append(strings.Fields(command), "--help")...).wantCode(t, 0)
		wantContains(t, command, got.stdout, "Usage:\n  holdpoint "+command, "Examples:\n  ")
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := run(t, nil, "", "completion", shell).wantCode(t, 0); len(got.stdout) < 1000 {
			t.Errorf("completion %s: %s", shell, got.stdout)
		}
	}
	f := newFake(t).setAnswer("GET /api/v1/agents", `{"items":[{"name":"billing"},{"name":"clerk"}]}`)
	if got := f.run("__complete", "tools", "").wantCode(t, 0); !strings.HasPrefix(got.stdout, "billing\nclerk\n") {
		t.Errorf("completion: %s", got.stdout)
	}
	for _, args := range [][]string{{"nonsense"}, {"agent"}, {"agent", "nonsense"}, {"agent", "key"}, {"tools"}, {"tools", "a", "b"}, {"--nonsense"}} {
		got := run(t, nil, "", args...).wantCode(t, 1)
		wantContains(t, strings.Join(args, " "), got.stderr, "holdpoint: ", "--help")
	}
	wantContains(t, "version", run(t, nil, "", "version").wantCode(t, 0).stdout, "holdpoint 1.2.3 ")
	wantContains(t, "version", run(t, nil, "", "version", "--json").wantCode(t, 0).stdout, `"version":"1.2.3"`)
	run(t, nil, "").wantCode(t, 0)
}
