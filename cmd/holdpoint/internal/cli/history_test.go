package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const historyCall = `{"id":"c1","status":"failed","failure":"transport","effect":"possible","agent":"billing","skill":"s","tool":"t\u202e",` +
	`"arguments":{"n":1e400},"created_at":"2026-01-02T03:04:05Z"}`

func TestSearchFlags(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/calls", `{"items":[],"next_cursor":"more"}`).setAnswer("GET /api/v1/audit", `{"items":[],"next_cursor":null}`)
	got := f.run("calls", "list", "--agent", "billing", "--skill", "files", "--tool", "write", "--person", "rita", "--status", "parked", "--status", "failed",
		"--from", "2026-01-01", "--to", "2026-01-31T10:00", "--conversation", "x", "--text", "100% é&=").wantCode(t, 0)
	wantContains(t, "stderr", got.stderr, "--cursor more")
	f.run("audit", "list", "--actor", "rita", "--action", "call", "--subject", "x", "--from", "2026-01-01", "--to", "2026-01-02").wantCode(t, 0)
	wantContains(t, "requests", strings.Join(f.asked, "\n"),
		"GET /api/v1/calls?agent=billing&conversation=x&from=2026-01-01&limit=50&person=rita&skill=files&status=parked%2Cfailed&"+
			"text=100%25+%C3%A9%26%3D&to=2026-01-31T10%3A00&tool=write",
		"GET /api/v1/audit?action=call&actor=rita&from=2026-01-01&limit=50&subject=x&to=2026-01-02")
	f.setProblem("GET /api/v1/calls", 422, `{"status":422,"code":"invalid_request","detail":"from: must be a day or a time"}`)
	wantContains(t, "stderr", f.run("calls", "list", "--from", "x").wantCode(t, 1).stderr, "from: must be a day or a time")
}

func TestConversations(t *testing.T) {
	t.Parallel()
	const text = `{"id":"v1","agent":"billing","principal":"pau\u202ela","name":null,"protocol_version":"2025-11-25","created_at":"2026-01-02T03:04:05Z",` +
		`"ended_at":null,"problems":[{"skill":"ledger","kind":"transport","error":"down"}],"tools":[{"name":"a"},{"name":"b"}],` +
		`"calls":{"total":3,"by_status":{"succeeded":2,"parked":1},"last_at":"2026-01-02T03:04:06Z"}}`
	f := newFake(t).setAnswer("GET /api/v1/conversations", `{"items":[`+text+`],"next_cursor":null}`).setAnswer("GET /api/v1/conversations/v1", text).
		setAnswer("GET /api/v1/calls", `{"items":[`+historyCall+`],"next_cursor":null}`)
	got := f.run("conversations", "list", "--agent", "billing", "--person", "paula").wantCode(t, 0)
	wantContains(t, "list", got.stdout, "v1", "billing", "pau<U+202E>la", "1 parked, 2 succeeded")
	got = f.run("conversations", "show", "v1").wantCode(t, 0)
	wantContains(t, "show", got.stdout, "pau<U+202E>la", "ledger (transport): down", "1 parked, 2 succeeded", "failed: transport, may have been executed", "s: t<U+202E>")
	if got := f.run("conversations", "show", "v1", "--json").wantCode(t, 0); got.stdout != text+"\n" {
		t.Errorf("--json: %s", got.stdout)
	}
	wantContains(t, "requests", strings.Join(f.asked, "\n"), "agent=billing", "person=paula", "conversation=v1")
	f.run("conversations", "show", "v2").wantCode(t, 1)
}

func TestAuditList(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/audit", `{"items":[{"id":2,"at":"2026-01-02T03:04:05Z","actor":{"kind":"person","id":"p1","name":"ri\u001bta"},`+
		`"action":"approval.rejected","subject":"c1","data":{"n":9007199254740993}},{"id":1,"at":"2026-01-02T03:04:05Z","actor":{"kind":"system","id":null,"name":null},`+
		`"action":"call.expired","subject":"c2","data":null}],"next_cursor":"1"}`)
	got := f.run("audit", "list").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "approval.rejected", "ri<U+001B>ta", `{"n":9007199254740993}`, "system", "c2")
	wantContains(t, "stderr", got.stderr, "--cursor 1")
}

func TestExports(t *testing.T) {
	t.Parallel()
	const lines = `{"id":"c1","arguments":{"n":1e400}}` + "\n" + `{"id":"c2"}` + "\n"
	f := newFake(t).setAnswer("GET /api/v1/calls/export", lines).setAnswer("GET /api/v1/audit/export", lines)
	if got := f.run("calls", "export", "--status", "failed").wantCode(t, 0); got.stdout != lines {
		t.Errorf("stdout %q", got.stdout)
	}
	f.run("calls", "export", "--format", "csv", "--skill", "files").wantCode(t, 0)
	if got := f.run("audit", "export", "--action", "call").wantCode(t, 0); got.stdout != lines {
		t.Errorf("stdout %q", got.stdout)
	}
	wantContains(t, "requests", strings.Join(f.asked, "\n"), "GET /api/v1/calls/export?format=jsonl&status=failed",
		"GET /api/v1/calls/export?format=csv&skill=files", "GET /api/v1/audit/export?action=call")
	f.run("calls", "export", "--format", "xls").wantCode(t, 1)
	f.setProblem("GET /api/v1/calls/export", 403, `{"status":403,"code":"forbidden","detail":"not you"}`)
	wantContains(t, "stderr", f.run("calls", "export").wantCode(t, 1).stderr, "not you (forbidden)")
}

// An export that is cut off fails, and says so.
func TestExportCutOff(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `{"id":"c1"}`)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	got := run(t, map[string]string{"HOLDPOINT_URL": server.URL, "HOLDPOINT_TOKEN": "x"}, "", "calls", "export").wantCode(t, 1)
	if got.stdout != `{"id":"c1"}`+"\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	wantContains(t, "stderr", got.stderr, "cut off", "the output is incomplete")
}
