package cli_test

import (
	"strings"
	"testing"
)

const grantText = `{"id":"g1","state":"active","agent":"billing","principal":null,"skill":"ledger","tool":"post","pin":"ab","arguments":[{"argument":"/to","kind":"domain","values":["example.com"]}],` +
	`"sentence":"to has the domain \"example.com\"","call_id":"c1","wide":true,"unused":true,"granted_at":"2026-01-02T03:04:00Z","granted_by":{"id":"p1","name":"rita","issuer":"holdpoint","subject":"rita"},` +
	`"needs_second":false,"second_at":null,"second_by":null,"ends_at":"2026-01-02T11:04:00Z","uses":5,"taken":2,"used_at":null,"revoked_at":null,"revoked_by":null}`

const grantPreview = `{"sentence":"to is \"a@example.com\", n is 5","arguments":[],"matching":3,"rejected":1,"pending":1,"needs_second":true,"calls":[{"call_id":"c9","created_at":"2026-01-02T03:04:00Z","decision":"rejected"}],` +
	`"proposals":[{"argument":"/to","value":"a@example.com","matchers":[{"argument":"/to","kind":"exact","values":["a@example.com"]},{"argument":"/to","kind":"domain","values":["example.com"]},{"argument":"/to","kind":"anything"}]},` +
	`{"argument":"/n","value":5,"matchers":[{"argument":"/n","kind":"exact","values":[5]},{"argument":"/n","kind":"range","min":5,"max":5}]}]}`

func TestGrantsAreShown(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/grants", `{"items":[`+grantText+`],"next_cursor":null}`).setAnswer("GET /api/v1/grants/g1", grantText).
		setAnswer("POST /api/v1/grants/g1/revoke", strings.Replace(grantText, `"active"`, `"revoked"`, 1)).setAnswer("POST /api/v1/grants/g1/confirm", grantText)
	wantContains(t, "list", f.run("grants", "list", "--all").wantCode(t, 0).stdout, "g1", "active", "billing", "ledger: post", "wide, unused", "rita")
	wantContains(t, "show", f.run("grants", "show", "g1").wantCode(t, 0).stdout, `to has the domain "example.com"`, "2 of 5", "c1")
	wantContains(t, "revoke", f.run("grants", "revoke", "g1").wantCode(t, 0).stdout, "revoked")
	wantContains(t, "confirm", f.run("grants", "confirm", "g1").wantCode(t, 0).stdout, "active")
}

func TestGrantSuggestionsAreListed(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/grants/suggestions", `{"items":[{"reason":"47 of 47","call_id":"c7","agent":"billing","principal":null,"skill":"ledger","tool":"post","arguments":[],`+
		`"sentence":"to is \"a\"","varying":["body"],"covered":47,"approved":50,"refused":3,"deciders":2,"first":"2026-01-02T03:04:00Z","last":"2026-01-09T03:04:00Z"}],"decisions":60,"since":null,"complete":true}`)
	wantContains(t, "suggestions", f.run("grants", "suggestions").wantCode(t, 0).stdout, "c7", "billing", "ledger: post", "47", "3", `to is "a"`)
}

// grants create sends the matchers that the flags choose; arguments without a flag are exact.
func TestGrantsCreate(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/grants", grantText).setAnswer("POST /api/v1/grants/preview", grantPreview)
	for _, tc := range []struct {
		args []string
		body string
	}{
		{nil, `{"call_id":"c1"}`},
		{[]string{"--time", "24h", "--uses", "3"}, `{"call_id":"c1","time":"24h0m0s","uses":3}`},
		{
			[]string{"--allow", "/to=domain", "--allow", "/n=range:0..100"},
			`{"arguments":[{"argument":"/to","kind":"domain","values":["example.com"]},{"argument":"/n","kind":"range","max":100,"min":0}],"call_id":"c1"}`,
		},
		{
			[]string{"--allow", "/to=one_of:a@example.com,b@example.com"},
			`{"arguments":[{"argument":"/to","kind":"one_of","values":["a@example.com","b@example.com"]},{"argument":"/n","kind":"exact","values":[5]}],"call_id":"c1"}`,
		},
	} {
		f.run(append([]string{"grants", "create", "c1"}, tc.args...)...).wantCode(t, 0)
		if got := f.getLastBody(); got != tc.body {
			t.Errorf("%v: sent %s", tc.args, got)
		}
	}
	wantContains(t, "stderr", f.run("grants", "create", "c1", "--allow", "/x=anything").wantCode(t, 1).stderr, "--allow /x=anything: must begin with the JSON pointer")
	wantContains(t, "preview", f.run("grants", "preview", "c1", "--allow", "/to=anything").wantCode(t, 0).stdout,
		"3, of which 1 were rejected and 1 are pending", "another person will have to confirm it", "/to: exact, domain, anything", "c9 rejected")
}
