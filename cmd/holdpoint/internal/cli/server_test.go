package cli_test

import (
	"net/http"
	"testing"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /readyz", "ready\n")
	if got := f.run("health").wantCode(t, 0); got.stdout != "ready\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	if f.header.Get("Authorization") != "" {
		t.Error("a credential is sent")
	}
	if got := f.run("health", "--json").wantCode(t, 0); got.stdout != `{"ready":true}`+"\n" {
		t.Errorf("stdout %q", got.stdout)
	}
	f.setProblem("GET /readyz", http.StatusServiceUnavailable, `{"status":503,"detail":"no progress for 10s: heartbeat"}`)
	wantContains(t, "stderr", f.run("health").wantCode(t, 1).stderr, "no progress for 10s: heartbeat (HTTP 503)")
	f.Close()
	wantContains(t, "stderr", f.run("health").wantCode(t, 1).stderr, "reach "+f.URL)
}
