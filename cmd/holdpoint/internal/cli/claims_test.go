package cli_test

import (
	"strings"
	"testing"
)

func TestClaims(t *testing.T) {
	t.Parallel()
	claimed := strings.Replace(approvalText, `"rule"`, `"claim":{"by":"ana\u202e","at":"2026-01-02T03:04:00Z","assigned_by":"ben"},"comment_count":1,`+
		`"comments":[{"number":1,"by":"ana","at":"2026-01-02T03:04:00Z","text":"odd\u202e"}],"rule"`, 1)
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", claimed).setAnswer("POST /api/v1/approvals/a1/claim", claimed).
		setAnswer("POST /api/v1/approvals/a1/assign", claimed).setAnswer("POST /api/v1/approvals/a1/release", approvalText).
		setAnswer("POST /api/v1/approvals/a1/comments", claimed)
	wantContains(t, "claim", f.run("approvals", "claim", "a1").wantCode(t, 0).stdout, "ana<U+202E> (assigned by ben) works on the call.")
	wantContains(t, "release", f.run("approvals", "release", "a1").wantCode(t, 0).stdout, "Nobody works on the call.")
	f.run("approvals", "assign", "a1", "p1").wantCode(t, 0)
	if f.getLastBody() != `{"person":"p1"}` {
		t.Errorf("assign sent %s", f.getLastBody())
	}
	f.run("approvals", "comment", "a1", "odd").wantCode(t, 0)
	if f.getLastBody() != `{"text":"odd"}` {
		t.Errorf("comment sent %s", f.getLastBody())
	}
	wantContains(t, "show", f.run("approvals", "show", "a1").wantCode(t, 0).stdout, "ana<U+202E> (assigned by ben)", "odd<U+202E>")
}
