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

// A call of a coding agent, or of a gateway, is shown with the claims of its caller as claims.
func TestShowGateCaller(t *testing.T) {
	t.Parallel()
	const gate = `"gate":{"host":"claude-code","subject":"ann","cwd":"/w","paths":["/w/a\u202e"],"file":{"path":"/w/a","exists":false,"size":0},` +
		`"session_id":"s1","subagent":"explorer","version":"2.1"},`
	for command, path := range map[string]string{"approvals": "approvals/a1", "calls": "calls/a1"} {
		f := newFake(t).setAnswer("GET /api/v1/"+path, strings.Replace(approvalText, `"id"`, gate+`"id"`, 1))
		said := f.run(command, "show", "a1").wantCode(t, 0).stdout
		_, claims, _ := strings.Cut(said, "Claimed by the caller  Holdpoint did not check the indented lines\n")
		for _, want := range []string{
			"Executed by", "claude-code", "Made for", "ann", "Location", "/w", "Resolved path", "/w/a<U+202E>", "Changes the file",
			"/w/a (does not exist yet)", "Session", "s1", "Subagent", "explorer", "Version", "2.1",
		} {
			before, after, found := strings.Cut(claims, want)
			if !found || !strings.HasSuffix(before, "  ") {
				t.Fatalf("%s show does not say %q as a claim: %s", command, want, said)
			}
			claims = after
		}
	}
}
