package cli_test

import (
	"strings"
	"testing"
)

// An unusual argument is shown with its value in the last call to the same target.
func TestShowLastCall(t *testing.T) {
	t.Parallel()
	approval := strings.Replace(approvalText, `"rule"`, `"evidence":[{"path":"/amount","verdict":"unusual","reasons":["above_range"],`+
		`"usual":{"calls":3,"having":3,"same":0,"values":[],"domains":[],"min":100,"median":110,"max":120,"nearest":null},`+
		`"last":{"value":"120.00","target":"DE89\u202e","target_path":"/iban","at":"2026-01-02T03:04:00Z"}}],"rule"`, 1)
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", approval)
	wantContains(t, "show", f.run("approvals", "show", "a1").wantCode(t, 0).stdout, "/amount: above_range; usual: 100 to 120; was: 120.00 in the last call to DE89<U+202E>, 2026-01-0")
}

// A call of a coding agent is shown with the claims of its hook.
func TestShowGateCaller(t *testing.T) {
	t.Parallel()
	approval := strings.Replace(approvalText, `"rule"`, `"gate":{"host":"claude-code","cwd":"/w","paths":["/w/a\u202e"],"file":{"path":"/w/a","exists":false,"size":0}},"rule"`, 1)
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", approval)
	wantContains(t, "show", f.run("approvals", "show", "a1").wantCode(t, 0).stdout, "Executed by", "claude-code", "Location", "/w/a<U+202E>", "/w/a (does not exist yet)")
}
