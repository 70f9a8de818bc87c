package cli_test

import (
	"strings"
	"testing"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	claimed := strings.Replace(approvalText, `"rule"`, `"claim":{"by":"ana\u202e","at":"2026-01-02T03:04:00Z","assigned_by":"ben"},"comment_count":1,`+
		`"comments":[{"number":1,"by":"ana","at":"2026-01-02T03:04:00Z","text":"odd\u202e"}],"rule"`, 1)
	f := newFake(t).answer("GET /api/v1/approvals/a1", claimed).answer("POST /api/v1/approvals/a1/claim", claimed).
		answer("POST /api/v1/approvals/a1/assign", claimed).answer("POST /api/v1/approvals/a1/release", approvalText).
		answer("POST /api/v1/approvals/a1/comments", claimed)
	contains(t, "claim", f.run("approvals", "claim", "a1").want(t, 0).stdout, "ana<U+202E> (assigned by ben) works on the call.")
	contains(t, "release", f.run("approvals", "release", "a1").want(t, 0).stdout, "Nobody works on the call.")
	f.run("approvals", "assign", "a1", "p1").want(t, 0)
	if f.sent() != `{"person":"p1"}` {
		t.Errorf("assign sent %s", f.sent())
	}
	f.run("approvals", "comment", "a1", "odd").want(t, 0)
	if f.sent() != `{"text":"odd"}` {
		t.Errorf("comment sent %s", f.sent())
	}
	contains(t, "show", f.run("approvals", "show", "a1").want(t, 0).stdout, "ana<U+202E> (assigned by ben)", "odd<U+202E>")
}
