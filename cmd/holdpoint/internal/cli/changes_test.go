package cli_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/cli"
)

const waitingChange = `{"id":"c1","kind":"skill","subject":"s1","name":"ledger","action":"update","fields":[{"field":"auto_approve","old":"false","new":"true"}],
	"status":"pending","proposed_by":{"id":"p1","name":"olga","issuer":"holdpoint","subject":"olga"},"proposed_at":"2026-01-02T00:00:00Z",
	"expires_at":"2026-01-05T00:00:00Z","decided_by":null,"decided_at":null,"note":null}`

func TestChanges(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/changes", `{"items":[`+waitingChange+`],"next_cursor":null}`).
		setAnswer("GET /api/v1/changes/c1", waitingChange).setAnswer("POST /api/v1/changes/c1/approve", waitingChange).
		setAnswer("POST /api/v1/changes/c1/reject", waitingChange)
	wantContains(t, "list", f.run("changes", "list", "--pending").wantCode(t, 0).stdout, "ledger", "olga", "auto_approve")
	if !strings.Contains(f.asked[0], "pending=true") {
		t.Errorf("asked %s", f.asked[0])
	}
	wantContains(t, "show", f.run("changes", "show", "c1").wantCode(t, 0).stdout, "auto_approve: false → true", "pending")
	f.run("changes", "approve", "c1", "--note", "fine").wantCode(t, 0)
	if f.getLastBody() != `{"note":"fine"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.run("changes", "reject", "c1").wantCode(t, 0)
}

// TestChangeWaits: a command whose change waits for a second operator says so and has an exit code of its own.
func TestChangeWaits(t *testing.T) {
	t.Parallel()
	f := newFake(t).setProblem("PATCH /api/v1/skills/ledger", 202, `{"status":202,"code":"change_waits","title":"Accepted","detail":"it waits, as change c1","change":"c1"}`).
		setAnswer("POST /api/v1/apply", `{"items":[{"kind":"skill","name":"ledger","action":"update","fields":[{"field":"auto_approve","old":"false","new":"true"}],"waits":"c1"}],"next_cursor":null}`)
	wantContains(t, "edit", f.run("skill", "edit", "ledger", "--auto-approve").wantCode(t, cli.ExitWaits).stderr, "it waits, as change c1")
	const want = `? skill ledger
    auto_approve: false → true
    waits for a second operator: holdpoint changes approve c1
0 created, 0 changed, 0 deleted, 0 unchanged
1 waiting for a second operator
`
	if got := run(t, f.env(), "skills: []\n", "apply", "-f", "-").wantCode(t, 0); got.stdout != want {
		t.Errorf("apply:\n%s", got.stdout)
	}
}

func TestLimitOfReviewer(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("PATCH /api/v1/people/p1", `{"id":"p1","name":"rita","issuer":"i","subject":"s","review_limit":{"teams":["finance"],"skills":["ledger*"]}}`).
		setAnswer("POST /api/v1/invitations", `{"url":"https://gate/invitation?key=x","invitation":{"id":"i1","name":"nora","waits":true,"expires_at":"2026-01-05T00:00:00Z"}}`)
	wantContains(t, "grant", f.run("people", "grant", "p1", "--review-team", "finance", "--review-skill", "ledger*").wantCode(t, 0).stdout, "teams finance; skills ledger*")
	if want := `{"review_limit":{"skills":["ledger*"],"teams":["finance"]}}`; f.getLastBody() != want {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.run("people", "grant", "p1", "--review-team", "").wantCode(t, 0)
	if want := `{"review_limit":{"teams":[]}}`; f.getLastBody() != want {
		t.Errorf("sent %s", f.getLastBody())
	}
	wantContains(t, "invite", f.run("invitation", "create", "--name", "nora", "--role", "reviewer", "--review-agent", "billing").wantCode(t, 0).stderr, "second operator")
	wantContains(t, "sent", f.getLastBody(), `"review_limit":{"agents":["billing"]}`)
}
