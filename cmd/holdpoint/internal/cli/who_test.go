package cli_test

import (
	"strings"
	"testing"
)

// Names are not unique: commands also print the issuer and the subject, the id if there is room, warnings about the name, and
// the credential of a decision.
func TestPeopleAreNamedByMoreThanTheName(t *testing.T) {
	t.Parallel()
	const (
		vera     = `{"id":"p1","name":"Vera","issuer":"https://login.example.com","subject":"s1","alike":true,"invited_by":null}`
		alice    = `{"id":"p2","name":"alice","issuer":"holdpoint","subject":"alice","alike":false,"invited_by":"olga"}`
		decision = `{"by":"alice","by_person":` + alice + `,"at":"2026-01-02T03:04:01Z","outcome":"approved","note":"ok",` +
			`"credential":{"kind":"personal_token","id":"t1"},"address":"192.0.2.7"}`
	)
	approved := strings.Replace(strings.Replace(strings.Replace(approvalText, "pending", "approved", 1), `"decision":null`, `"decision":`+decision, 1),
		`"principal":"paula"`, `"principal":"Vera","principal_person":`+vera, 1)
	edited := strings.Replace(approvalText, `"decision"`, `"edit":{"by":"alice","by_person":`+alice+`,"at":"2026-01-02T03:04:01Z","submitted_arguments":{}},"decision"`, 1)
	call := `{"id":"c1","status":"succeeded","agent":"billing","principal":"Vera","principal_person":` + vera + `,"skill":"s","tool":"t","arguments":{},` +
		`"created_at":"2026-01-02T03:04:05Z","decision":` + decision + `}`
	event := `{"at":"2026-01-02T03:04:05Z","actor":{"kind":"person","id":"p1","name":"Vera","issuer":"https://login.example.com","subject":"s1","alike":true},` +
		`"action":"approval.approved","subject":"c1","data":null,"credential":{"kind":"session","id":"b1"},"address":"192.0.2.7"}`
	key := `{"id":"k1","hint":"hpa_x","created_at":"2026-01-02T03:04:05Z","created_by":` + alice + `,"expires_at":"2026-04-02T03:04:05Z","revoked_at":null}`
	token := `{"id":"t1","person":"Vera","roles":["reviewer"],"agents":[],"hint":"hpp_x","issuer":"https://login.example.com","subject":"s1","alike":true,` +
		`"created_at":"2026-01-02T03:04:05Z","expires_at":"2026-04-02T03:04:05Z","revoked_at":null}`
	f := newFake(t).setAnswer("GET /api/v1/approvals/a1", approved).setAnswer("GET /api/v1/approvals/a2", edited).setAnswer("GET /api/v1/calls/c1", call).
		setAnswer("GET /api/v1/approvals", `{"items":[`+approved+`]}`).setAnswer("GET /api/v1/calls", `{"items":[`+call+`]}`).
		setAnswer("GET /api/v1/audit", `{"items":[`+event+`]}`).setAnswer("GET /api/v1/agents/billing/keys", `{"items":[`+key+`]}`).
		setAnswer("GET /api/v1/tokens", `{"items":[`+token+`]}`)
	const full, who = "alice (id p2, alice at holdpoint), invited by olga, not verified", "Vera (s1 at https://login.example.com), name looks like another's"
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"approvals", "show", "a1"}, []string{"on behalf of Vera (id p1, s1 at https://login.example.com), name looks", full, "personal token t1", "192.0.2.7"}},
		{[]string{"approvals", "show", "a2"}, []string{"Edited by", full, "Another reviewer has to approve"}},
		{[]string{"approvals", "list", "--status", "all"}, []string{who, "alice, invited by olga, not verified", "personal token t1", "192.0.2.7"}},
		{[]string{"calls", "show", "c1"}, []string{"Vera (id p1,", full, "personal token t1", "192.0.2.7"}},
		{[]string{"calls", "list"}, []string{who}},
		{[]string{"audit", "list"}, []string{who, "session b1", "192.0.2.7"}},
		{[]string{"agent", "key", "list", "billing"}, []string{"alice, invited by olga, not verified", "2026-04-02"}},
		{[]string{"token", "list"}, []string{"Vera, name looks like another's", "s1", "https://login.example.com", "2026-04-02"}},
	} {
		got := f.run(test.args...).wantCode(t, 0)
		wantContains(t, strings.Join(test.args, " "), got.stdout, test.want...)
	}
}
