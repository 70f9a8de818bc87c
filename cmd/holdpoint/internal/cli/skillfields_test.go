package cli_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2/validation"
)

func TestSkillCreateAndEdit(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/skills", `{"name":"ledger"}`).setAnswer("PATCH /api/v1/skills/ledger", `{"name":"ledger"}`).
		setAnswer("GET /api/v1/skills/ledger", `{"name":"ledger","revision":7,"oauth":{"grant":"client_credentials","issuer":"https://as.test",
			"client_id":"c","auth_method":null,"scopes":["a"],"idp":null,"secrets":["client_secret"]}}`)
	secret := writeFile(t, "secret", "h\"ush\n")
	for _, c := range []struct{ args, sent string }{
		{
			"create ledger --transport http --url http://h/ --header-env X-Team=TEAM --header-file X-B=" + secret,
			`{"headers":{"X-B":"h\"ush","X-Team":"t0p"},"name":"ledger","transport":"http","url":"http://h/"}`,
		},
		{
			"create ledger --transport stdio --command npx --command -y --command a,b --env-env TOKEN=TEAM",
			`{"command":["npx","-y","a,b"],"env":{"TOKEN":"t0p"},"name":"ledger","transport":"stdio"}`,
		},
		{"edit ledger --approval-timeout 10m --approval-validity 0s --auto-approve=false --team=", `{"approval_timeout":"10m","approval_validity":"0s","auto_approve":false,"team":""}`},
		{"edit ledger --remove-header X.A --header-env X-Team=TEAM", `{"headers":{"X-Team":"t0p","X.A":null}}`},
		{
			"edit ledger --oauth-client-secret-file " + secret + " --oauth-scopes b,c",
			`{"oauth":{"client_id":"c","client_secret":"h\"ush","grant":"client_credentials","issuer":"https://as.test","scopes":["b","c"]},"revision":7}`,
		},
		{"edit ledger --no-oauth", `{"oauth":null}`},
	} {
		env := f.env()
		env["TEAM"] = "t0p"
		got := run(t, env, "", slices.Concat([]string{"skill"}, strings.Fields(c.args))...).wantCode(t, 0)
		if f.getLastBody() != c.sent {
			t.Errorf("%s\nsent %s\nwant %s", c.args, f.getLastBody(), c.sent)
		}
		if strings.Contains(got.stdout+got.stderr, "t0p") || strings.Contains(got.stdout+got.stderr, "ush") {
			t.Errorf("%s echoes a secret: %s%s", c.args, got.stdout, got.stderr)
		}
	}
	for args, want := range map[string]string{
		"edit ledger": "give flags for the fields to change", "edit ledger --header-env X-Team=NOPE": "variable NOPE is not set",
		"edit ledger --header-env X-Team": "NAME", "edit ledger --no-oauth --oauth-issuer x": "--no-oauth",
		"create ledger --oauth-client-secret-env A --oauth-client-secret-file B": "oauth-client-secret",
	} {
		wantContains(t, args, f.run(append([]string{"skill"}, strings.Fields(args)...)...).wantCode(t, 1).stderr, want)
	}
}

// TestProblemsNameFlags: an error about a field of the request names the flag that sets it.
func TestProblemsNameFlags(t *testing.T) {
	t.Parallel()
	missing := func(field string) string { return fmt.Sprintf(validation.MsgExpectedRequiredProperty, field) }
	for _, c := range []struct{ args, request, location, message, want string }{
		{"skill create x", "POST /api/v1/skills", "body", missing("transport"), "holdpoint: --transport: must be given (invalid_request)\n"},
		{"skill create x", "POST /api/v1/skills", "body.oauth", missing("grant"), "--oauth-grant: must be given"},
		{"skill create x", "POST /api/v1/skills", "body.oauth.client_secret", "must be shorter", "--oauth-client-secret-env or --oauth-client-secret-file: must be shorter"},
		{"agent create x", "POST /api/v1/agents", "body.wait_budget", "must be a duration", "--wait-budget: must be a duration"},
		{"webhooks create x --to-env HOLDPOINT_URL", "POST /api/v1/webhooks", "body", missing("team"), "--team: must be given"},
		{"rules set x --effect deny", "PUT /api/v1/rules/x", "body.other", "must be a number", "body.other: must be a number"},
	} {
		text := c.location + ": " + c.message
		f := newFake(t).setProblem(c.request, 422, fmt.Sprintf(`{"status":422,"code":"invalid_request","detail":%q,"errors":[{"location":%q,"message":%q}]}`, text, c.location, c.message))
		wantContains(t, c.args, f.run(strings.Fields(c.args)...).wantCode(t, 1).stderr, c.want)
	}
	f := newFake(t).setProblem("POST /api/v1/skills", 422, `{"status":422,"code":"invalid_request","detail":"two mistakes","errors":[
		{"location":"body.url","message":"must be a URL"},{"location":"body.auth.type","message":"must be bearer"}]}`)
	wantContains(t, "two mistakes", f.run("skill", "create", "x").wantCode(t, 1).stderr, "two mistakes (invalid_request)\n  --url: must be a URL\n  --auth-type: must be bearer\n")
}

func TestSkillsOverHTTPAPIs(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/skills", `{"name":"shop"}`).setAnswer("PATCH /api/v1/skills/shop", `{"name":"shop"}`).
		setAnswer("GET /api/v1/skills/shop", `{"name":"shop","revision":7,"auth":{"type":"api_key","in":"header","name":"X-Key","username":null}}`).
		setAnswer("PATCH /api/v1/skills/shop/tools/list", `{"name":"shop","tools":{}}`)
	document := writeFile(t, "shop.json", "{\"openapi\":\"3.1.0\"}\n")
	endpoints := writeFile(t, "endpoints.yaml", "- {name: get, path: /a, parameters: {n: {type: integer}}, output_schema: {type: object}}\n")
	for _, c := range []struct{ args, sent string }{
		{
			"create shop --transport openapi --spec " + document + " --include tag=orders,method=GET --include listPets --exclude path=/admin/**",
			`{"document":"{\"openapi\":\"3.1.0\"}\n","exclude":[{"path":"/admin/**"}],"include":[{"tag":"orders","method":"GET"},{"operation_id":"listPets"}],"name":"shop","transport":"openapi"}`,
		},
		{
			"create shop --transport openapi --spec https://shop.test/o.yaml --base-url http://h --auth-type bearer --auth-secret-env KEY --preview --output-schemas=false",
			`{"auth":{"secret":"t0p","type":"bearer"},"base_url":"http://h","name":"shop","output_schemas":false,"preview":true,"spec":"https://shop.test/o.yaml","transport":"openapi"}`,
		},
		{
			"create shop --transport http-api --base-url http://h --endpoints-file " + endpoints,
			`{"base_url":"http://h","endpoints":[{"name":"get","output_schema":{"type":"object"},"parameters":{"n":{"type":"integer"}},"path":"/a"}],"name":"shop","transport":"http-api"}`,
		},
		{"edit shop --auth-secret-env KEY", `{"auth":{"in":"header","name":"X-Key","secret":"t0p","type":"api_key"},"revision":7}`},
		{"edit shop --no-auth --include=", `{"auth":{"type":""},"include":[]}`},
		{"set shop list --select .items", `{"select":".items"}`},
		{"set shop list --select=", `{"select":""}`},
	} {
		env := f.env()
		env["KEY"] = "t0p"
		got := run(t, env, "", slices.Concat([]string{"skill"}, strings.Fields(c.args))...).wantCode(t, 0)
		if f.getLastBody() != c.sent {
			t.Errorf("%s\nsent %s\nwant %s", c.args, f.getLastBody(), c.sent)
		}
		if strings.Contains(got.stdout+got.stderr, "t0p") {
			t.Errorf("%s echoes a secret: %s%s", c.args, got.stdout, got.stderr)
		}
	}
	for args, want := range map[string]string{
		"create shop --spec /nowhere/at/all.json":       "/nowhere/at/all.json",
		"create shop --include tags=a":                  "must be an operationId",
		"edit shop --no-auth --auth-type bearer":        "--no-auth",
		"create shop --endpoints-file " + document:      "must be a list",
		"create shop --auth-secret-env NOPE":            "variable NOPE is not set",
		"create shop --endpoints-file /nowhere/at/all.": "/nowhere/at/all.",
	} {
		wantContains(t, args, f.run(append([]string{"skill"}, strings.Fields(args)...)...).wantCode(t, 1).stderr, want)
	}
}

func TestSkillTryAndDocument(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/skills/shop/document", "openapi: 3.1.0\n").
		setAnswer("POST /api/v1/skills/shop/try", `{"request":{"method":"GET","url":"https://h/a?x=1","headers":[{"name":"Accept","value":"*/*"},{"name":"Authorization","secret":true}]},
			"status":200,"result":{"content":[{"type":"text","text":"\u001b[31mred"},{"type":"image","mimeType":"image/png","data":"AA=="}]},"is_error":false,"failure":null,"steps":[]}`)
	if got := f.run("skill", "document", "shop").wantCode(t, 0).stdout; got != "openapi: 3.1.0\n" {
		t.Errorf("%q", got)
	}
	got := f.run("skill", "try", "shop", "get", "--args", `{"x":1}`).wantCode(t, 0)
	if f.getLastBody() != `{"arguments":{"x":1},"tool":"get"}` {
		t.Errorf("sent %s", f.getLastBody())
	}
	wantContains(t, "request", got.stderr, "GET https://h/a?x=1\nAccept: */*\nAuthorization: (secret)\nHTTP 200\n")
	if strings.Contains(got.stdout, "\x1b") || !strings.Contains(got.stdout, "red") || !strings.Contains(got.stdout, "(image image/png; see --json)") {
		t.Errorf("%q", got.stdout)
	}
	f.run("skill", "try", "shop", "get", "--args", "nonsense").wantCode(t, 1)
	f.setAnswer("POST /api/v1/skills/shop/try", `{"request":{"method":"GET","url":"https://h/a","headers":[]},"status":null,"result":null,"is_error":false,"failure":"no answer in time","steps":[]}`)
	wantContains(t, "failure", f.run("skill", "try", "shop", "get").wantCode(t, 1).stderr, "no answer in time")
}

func TestAgentCreateAndEdit(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/agents", `{"name":"billing"}`).setAnswer("PATCH /api/v1/agents/billing", `{"name":"billing"}`).
		setAnswer("GET /api/v1/agents/billing", `{"name":"billing","revision":3,"model":{"provider":"openai","name":"m1","base_url":"http://h/"},"limits":{"calls_per_minute":60}}`)
	told := writeFile(t, "told", "Be brief.\nBe kind.\n")
	wantContains(t, "stdout", f.run("agent", "create", "billing", "--instructions-file", told, "--wait-budget", "2m").wantCode(t, 0).stdout, "holdpoint agent key create billing")
	if want := `{"instructions":"Be brief.\nBe kind.","name":"billing","wait_budget":"2m"}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
	f.run("agent", "edit", "billing", "--team", "ops").wantCode(t, 0)
	if want := `{"team":"ops"}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
	f.run("agent", "edit", "billing", "--error-style", "codes", "--pending-as", "result", "--reply-timeout", "30s", "--concurrency", "4", "--pending", "50").wantCode(t, 0)
	if want := `{"error_style":"codes","limits":{"calls_per_minute":60,"concurrency":4,"pending":50},"pending_as":"result","reply_timeout":"30s","revision":3}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
	f.run("agent", "edit", "billing", "--model-images=false", "--model-output-price", "0.25", "--conversation-turns", "9", "--conversation-time", "72h").wantCode(t, 0)
	if want := `{"limits":{"calls_per_minute":60,"conversation_time":"72h","conversation_turns":9},"model":{"base_url":"http://h/","images":false,"name":"m1","output_price":0.25,"provider":"openai"},"revision":3}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
	f.run("agent", "edit", "billing", "--model-name", "m2").wantCode(t, 0)
	if want := `{"model":{"base_url":"http://h/","name":"m2","provider":"openai"},"revision":3}`; f.getLastBody() != want {
		t.Errorf("sent %s, want %s", f.getLastBody(), want)
	}
}

func TestAgentToolsAndServer(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/agents/billing/tools", `{"tools":[{"name":"files__write","skill":"files","tool":"write","pin":"0123456789abcdef"}],
		"problems":[{"skill":"notes","kind":"not_listed","error":"its server was not asked"}]}`).
		setAnswer("GET /api/v1/server", `{"version":"1.2.3","database":"embedded","stdio":true,"high_risk_max_age":"15m","trusted_hosts":["a","b"],
		"instances":[{"this":true,"started_at":"2026-03-01T12:00:00Z"},{"this":false,"started_at":"2026-03-01T12:00:01Z"}]}`)
	got := f.run("agent", "tools", "billing").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "files__write  files  write  0123456789ab")
	wantContains(t, "stderr", got.stderr, "notes", "not_listed")
	wantContains(t, "stdout", f.run("server", "show").wantCode(t, 0).stdout, "1.2.3", "embedded", "15m", "a, b", "this one, since", "another, since")
}
