package cli_test

import (
	"strings"
	"testing"
)

func TestCallbacks(t *testing.T) {
	t.Parallel()
	const (
		path  = "/api/v1/agents/billing/callbacks"
		one   = path + "/ops"
		well  = `{"id":"c1","agent":"billing","name":"ops","host":"ops.example","state":"working","waiting":3,"error":null,"created_at":"2026-01-02T03:04:05Z"}`
		gone  = `{"id":"c2","agent":"billing","name":"old","host":"old\u202e.example","state":"disabled","disabled_reason":"gone","error":"answered HTTP 410","created_at":"2026-01-02T03:04:05Z"}`
		made  = `{"id":"c1","agent":"billing","name":"ops","secret":"whsec_c2VjcmV0"}`
		taken = `{"id":"d1","type":"callback.test","at":"2026-01-02T03:04:05Z","state":"delivered","attempts":1,"error":null,"log":[]}`
		lost  = `{"id":"d2","type":"call.finished","call_id":"k1","status":"succeeded","at":"2026-01-02T03:04:05Z","state":"failed","attempts":11,"error":"answered HTTP 500","log":[]}`
	)
	f := newFake(t).setAnswer("GET "+path, `{"items":[`+well+`,`+gone+`],"next_cursor":null}`).
		setAnswer("POST "+path, made).setAnswer("POST "+one+"/rotate-secret", made).
		setAnswer("POST "+one+"/enable", well).setAnswer("POST "+one+"/disable", well).
		setAnswer("POST "+one+"/test", taken).setAnswer("POST "+path+"/old/test", lost).
		setAnswer("GET "+one+"/deliveries", `{"items":[`+taken+`,`+lost+`],"next_cursor":null}`).
		setAnswer("POST "+one+"/deliveries/d2/resend", lost)
	wantContains(t, "list", f.run("agent", "callback", "list", "billing").wantCode(t, 0).stdout, "ops.example", "working", "disabled (gone)", "old<U+202E>.example", "HTTP 410")

	env := f.env()
	env["OPS"] = "https://ops.example/hushhush\n"
	got := run(t, env, "", "agent", "callback", "create", "billing", "ops", "--to-env", "OPS").wantCode(t, 0)
	if got.stdout != "whsec_c2VjcmV0\n" || f.getLastBody() != `{"name":"ops","url":"https://ops.example/hushhush"}` || strings.Contains(got.stderr, "hushhush") {
		t.Errorf("sent %s, got %+v", f.getLastBody(), got)
	}
	f.run("agent", "callback", "create", "billing", "ops", "--url", "https://ops.example/x").wantCode(t, 0)
	if f.getLastBody() != `{"name":"ops","url":"https://ops.example/x"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	got = f.run("agent", "callback", "rotate-secret", "billing", "ops").wantCode(t, 0)
	if got.stdout != "whsec_c2VjcmV0\n" || f.getLastBody() != `{"grace_seconds":86400}` {
		t.Errorf("sent %s, got %+v", f.getLastBody(), got)
	}
	f.run("agent", "callback", "rotate-secret", "billing", "ops", "--grace", "0").wantCode(t, 0)
	if f.getLastBody() != `{"grace_seconds":0}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	for verb, want := range map[string]string{"enable": "Enabled.\n", "disable": "Disabled.\n", "test": "ops accepted the message.\n", "delete": "Deleted.\n"} {
		if got := f.run("agent", "callback", verb, "billing", "ops").wantCode(t, 0); got.stdout != want {
			t.Errorf("%s: %+v", verb, got)
		}
	}
	wantContains(t, "test", f.run("agent", "callback", "test", "billing", "old").wantCode(t, 1).stderr, "old answered HTTP 500")
	wantContains(t, "deliveries", f.run("agent", "callback", "deliveries", "billing", "ops").wantCode(t, 0).stdout, "d1", "callback.test", "k1", "succeeded", "failed", "11", "HTTP 500")
	wantContains(t, "resend", f.run("agent", "callback", "resend", "billing", "ops", "d2").wantCode(t, 0).stdout, "sent again")
	for _, args := range [][]string{
		{"create", "billing", "ops"},
		{"create", "billing", "--url", "https://ops.example/x"},
		{"create", "billing", "ops", "--url", "https://ops.example/x", "--to-env", "OPS"},
		{"create", "billing", "ops", "--to-env", "NOT_SET"},
		{"rotate-secret", "billing", "ops", "--grace", "-1s"},
		{"rotate-secret", "billing", "ops", "--grace", "1500ms"},
		{"delete", "billing"},
		{"resend", "billing", "ops"},
	} {
		run(t, env, "", append([]string{"agent", "callback"}, args...)...).wantCode(t, 1)
	}
}
