package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWebhooks(t *testing.T) {
	t.Parallel()
	const (
		well   = `{"id":"w1","name":"on-call","team":null,"host":"hooks.example","state":"working","error":null,"sent_at":"2026-01-02T03:04:05Z","created_at":"2026-01-02T03:04:05Z"}`
		broken = `{"id":"w2","name":"finance","team":"fin\u202eance","host":"hooks.example","state":"failing","error":"answered HTTP 404: no_service","created_at":"2026-01-02T03:04:05Z"}`
	)
	f := newFake(t).setAnswer("GET /api/v1/webhooks", `{"items":[`+well+`,`+broken+`],"next_cursor":null}`).
		setAnswer("POST /api/v1/webhooks", well).
		setAnswer("POST /api/v1/webhooks/on-call/test", well).setAnswer("POST /api/v1/webhooks/finance/test", broken)
	wantContains(t, "list", f.run("webhooks", "list").wantCode(t, 0).stdout, "on-call", "(all)", "hooks.example", "fin<U+202E>ance", "failing", "no_service")

	env := f.env()
	env["CHAT"] = "https://hooks.example/hushhush\n"
	got := run(t, env, "", "webhooks", "create", "on-call", "--to-env", "CHAT").wantCode(t, 0)
	wantContains(t, "create", got.stdout, "webhooks test on-call")
	if f.getLastBody() != `{"name":"on-call","url":"https://hooks.example/hushhush"}` || strings.Contains(got.stdout+got.stderr, "hushhush") {
		t.Errorf("sent %s, got %+v", f.getLastBody(), got)
	}
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(" https://hooks.example/file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.run("webhooks", "create", "finance", "--to-file", file, "--team", "fin").wantCode(t, 0)
	if f.getLastBody() != `{"name":"finance","team":"fin","url":"https://hooks.example/file"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	run(t, env, "https://hooks.example/in\n", "webhooks", "create", "finance", "--to-file", "-").wantCode(t, 0)
	if f.getLastBody() != `{"name":"finance","url":"https://hooks.example/in"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	for _, args := range [][]string{
		{"create", "x"},
		{"create", "x", "--to-env", "CHAT", "--to-file", file},
		{"create", "x", "--to-env", "NOT_SET"},
		{"create", "--to-env", "CHAT"},
		{"create", "x", "--to-file", file + "x"},
		{"delete"},
		{"test"},
	} {
		run(t, env, "", append([]string{"webhooks"}, args...)...).wantCode(t, 1)
	}
	if got := f.run("webhooks", "test", "on-call").wantCode(t, 0); got.stdout != "hooks.example accepted the message.\n" {
		t.Errorf("got %+v", got)
	}
	wantContains(t, "test", f.run("webhooks", "test", "finance").wantCode(t, 1).stderr, "hooks.example answered HTTP 404: no_service")
	if got := f.run("webhooks", "delete", "on-call").wantCode(t, 0); got.stdout != "Deleted.\n" || f.asked[len(f.asked)-1] != "DELETE /api/v1/webhooks/on-call" {
		t.Errorf("got %+v", got)
	}
}
