package cli_test

import (
	"slices"
	"testing"
)

func TestSkillSet(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("PATCH /api/v1/skills/files/tools/a%2Fb", `{"tools":{"a/b":{"risk":"high"}}}`)
	for _, c := range []struct {
		args []string
		sent string
	}{
		{[]string{"--risk", "high"}, `{"risk":"high"}`},
		{[]string{"--risk", "none", "--enabled=false"}, `{"enabled":false,"risk":""}`},
		{[]string{"--idempotent"}, `{"idempotent":true}`},
		{[]string{"--not-secret", "/token,/rows/*/token"}, `{"not_secret":["/token","/rows/*/token"]}`},
		{[]string{"--not-secret", ""}, `{"not_secret":[]}`},
	} {
		got := f.run(slices.Concat([]string{"skill", "set", "files", "a/b"}, c.args)...).wantCode(t, 0)
		wantContains(t, "stdout", got.stdout, `Settings of a/b: {"risk":"high"}`)
		if f.getLastBody() != c.sent {
			t.Errorf("%v sent %s, want %s", c.args, f.getLastBody(), c.sent)
		}
	}
	wantContains(t, "stderr", f.run("skill", "set", "files", "a/b").wantCode(t, 1).stderr, "--risk")
}

func TestSkillHealth(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/skills/files/health", `{"spans":[{"from":"2026-03-01T12:00:00Z","succeeded":3,"failed":1}],
		"troubles":[{"kind":"transport","error":"down\u001b","times":1,"last":"2026-03-01T12:00:00Z"}]}`)
	wantContains(t, "stdout", f.run("skill", "health", "files", "--range", "30d").wantCode(t, 0).stdout, "ANSWERED", "transport, down<U+001B>, 1 times")
	if f.asked[len(f.asked)-1] != "GET /api/v1/skills/files/health?range=30d" {
		t.Errorf("asked %v", f.asked)
	}
}

func TestShowAndDelete(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/skills/files", `{"name":"files\u202e"}`).setAnswer("GET /api/v1/agents/billing", `{"name":"billing"}`)
	wantContains(t, "skill", f.run("skill", "show", "files").wantCode(t, 0).stdout, `"name": "files\u202e"`)
	wantContains(t, "agent", f.run("agent", "show", "billing").wantCode(t, 0).stdout, `"name": "billing"`)
	f.setAnswer("GET /api/v1/agents", `{"items":[{"name":"billing","skills":[{"skill":"files"},{"skill":"mail"}]},{"name":"idle","skills":[]},{"name":"ops","skills":[{"skill":"files"}]}],"next_cursor":null}`)
	wantContains(t, "delete", f.run("skill", "delete", "files").wantCode(t, 0).stdout, "Deleted. No longer a skill of: billing, ops\n")
	if got := f.run("skill", "delete", "unused").wantCode(t, 0).stdout; got != "Deleted.\n" {
		t.Errorf("delete: %q", got)
	}
	f.run("skill", "delete", "files").wantCode(t, 0)
	f.run("agent", "delete", "billing").wantCode(t, 0)
	f.run("agent", "unassign", "billing", "files").wantCode(t, 0)
	want := []string{"DELETE /api/v1/skills/files", "DELETE /api/v1/agents/billing", "DELETE /api/v1/assignments/billing/files"}
	if got := f.asked[len(f.asked)-3:]; !slices.Equal(got, want) {
		t.Errorf("asked %v, want %v", got, want)
	}
}

func TestAgentAssign(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/assignments", `{}`)
	f.run("agent", "assign", "billing", "files").wantCode(t, 0)
	if want := `{"agent":"billing","skill":"files"}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
	f.run("agent", "assign", "billing", "files", "--tools", "a,b", "--prefix", "").wantCode(t, 0)
	if want := `{"agent":"billing","prefix":"","skill":"files","tools":["a","b"]}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
}
