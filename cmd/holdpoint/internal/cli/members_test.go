package cli_test

import (
	"strings"
	"testing"
)

const memberText = `{"id":"p1","name":"ve\u202era","issuer":"https://idp.example","subject":"4711","email":null,"link":null,"created_at":"2026-01-02T03:04:05Z",` +
	`"claimed_roles":["reviewer"],"granted_roles":["operator","reviewer"],"credential_roles":["reviewer"],"claimed_teams":["payments"],"granted_teams":[],` +
	`"signed_in_at":"2026-01-03T03:04:05Z","blocked_at":null,"sessions":2,"tokens":1}`

func TestMembers(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/people", `{"items":[`+memberText+`],"next_cursor":null}`).
		setAnswer("GET /api/v1/people/p1", memberText).setAnswer("PATCH /api/v1/people/p1", memberText)
	wantContains(t, "list", f.run("people", "list", "--text", "4711").wantCode(t, 0).stdout, "p1", "ve<U+202E>ra", "operator, reviewer", "payments", "2026-01-0")
	wantContains(t, "requests", strings.Join(f.asked, "\n"), "text=4711")
	wantContains(t, "show", f.run("people", "show", "p1").wantCode(t, 0).stdout, "Roles by groups            reviewer", "Roles granted              operator, reviewer", "Sessions                   2")
	for _, tt := range []struct {
		args []string
		sent string
	}{
		{[]string{"grant", "p1", "--role", "reviewer,operator", "--team", "a, b"}, `{"granted_roles":["reviewer","operator"],"granted_teams":["a, b"]}`},
		{[]string{"grant", "p1", "--role", ""}, `{"granted_roles":[]}`},
		{[]string{"grant", "p1", "--team="}, `{"granted_teams":[]}`},
		{[]string{"block", "p1"}, `{"blocked":true}`},
		{[]string{"unblock", "p1"}, `{"blocked":false}`},
	} {
		wantContains(t, strings.Join(tt.args, " "), f.run(append([]string{"people"}, tt.args...)...).wantCode(t, 0).stdout, "ve<U+202E>ra")
		if f.getLastBody() != tt.sent {
			t.Errorf("%v sent %s, want %s", tt.args, f.getLastBody(), tt.sent)
		}
	}
	f.run("people", "grant", "p1").wantCode(t, 1)
	if got := f.run("people", "show", "p1", "--json").wantCode(t, 0); got.stdout != memberText+"\n" {
		t.Errorf("--json: %s", got.stdout)
	}
	f.setProblem("PATCH /api/v1/people/p2", 409, `{"status":409,"code":"state_conflict","detail":"the change would leave no operator"}`)
	wantContains(t, "the last operator", f.run("people", "block", "p2").wantCode(t, 1).stderr, "the change would leave no operator")
}

func TestSessionsOfMembers(t *testing.T) {
	t.Parallel()
	const session = `{"id":"s1","method":"oidc","client":"Fire\u202efox","created_at":"2026-01-02T03:04:05Z","authenticated_at":"2026-01-02T03:04:05Z","expires_at":"2026-01-09T03:04:05Z"}`
	f := newFake(t).setAnswer("GET /api/v1/people/p1/sessions", `{"items":[`+session+`],"next_cursor":null}`).
		setAnswer("POST /api/v1/people/p1/sign-out", `{"ended":3}`)
	wantContains(t, "list", f.run("people", "sessions", "p1").wantCode(t, 0).stdout, "s1", "oidc", "Fire<U+202E>fox")
	if got := f.run("people", "end-session", "p1", "s1").wantCode(t, 0); got.stdout != "Ended.\n" || f.asked[len(f.asked)-1] != "DELETE /api/v1/people/p1/sessions/s1" {
		t.Errorf("got %+v, asked %v", got, f.asked)
	}
	if got := f.run("people", "sign-out", "p1").wantCode(t, 0); got.stdout != "Ended 3.\n" {
		t.Errorf("got %+v", got)
	}
}
