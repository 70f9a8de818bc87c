package cli_test

import "testing"

const declared = `skills:
  - name: files
    transport: http
    headers:
      X-Team: {env: TEAM}
agents:
  - name: billing
    skills: [files]
`

func TestApply(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[
		{"kind":"skill","name":"files","action":"create","fields":[{"field":"url","new":"http://x"},{"field":"headers.X-Team","new":"(secret) set"}]},
		{"kind":"agent","name":"billing","action":"update","fields":[{"field":"wait_budget","old":"50s","new":"10s"},{"field":"instructions","old":"a\u202e"}]},
		{"kind":"assignment","name":"billing/old","action":"delete"},
		{"kind":"assignment","name":"billing/files","action":"unchanged"}],"next_cursor":null}`)
	env := f.env()
	env["TEAM"] = "t0p"
	file := writeFile(t, "holdpoint.yaml", declared)
	got := run(t, env, "", "apply", "-f", file).wantCode(t, 0)
	const want = `+ skill files
    url: http://x
    headers.X-Team: (secret) set
~ agent billing
    wait_budget: 50s → 10s
    instructions: a<U+202E> → not set
- assignment billing/old
= assignment billing/files
1 created, 1 changed, 1 deleted, 1 unchanged
`
	if got.stdout != want {
		t.Errorf("got\n%s\nwant\n%s", got.stdout, want)
	}
	const sent = `{"dry_run":false,"spec":{"agents":[{"name":"billing","skills":[{"skill":"files"}]}],` +
		`"skills":[{"headers":{"X-Team":"t0p"},"name":"files","transport":"http"}]}}`
	if f.getLastBody() != sent {
		t.Errorf("sent %s", f.getLastBody())
	}
	got = run(t, env, declared, "apply", "-f", "-", "--dry-run").wantCode(t, 0)
	wantContains(t, "dry run", got.stdout, "1 would be created")
	wantContains(t, "sent", f.getLastBody(), `"dry_run":true`)
	wantContains(t, "JSON", run(t, env, "", "apply", "-f", file, "--json").wantCode(t, 0).stdout, `{"items":[`)
}

// apply sends the values of an OAuth client's secrets to the server, and shows errors about them at their lines in the file.
func TestApplyOAuth(t *testing.T) {
	t.Parallel()
	key := writeFile(t, "key.pem", "a\nkey\n")
	text := "skills:\n- name: ledger\n  oauth:\n    client_secret_env: LEDGER\n    private_key_file: " + key + "\n"
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[{"kind":"skill","name":"ledger","action":"update",
		"fields":[{"field":"oauth.client_secret","new":"(secret) changed"}]}],"next_cursor":null}`)
	env := f.env()
	env["LEDGER"] = "t0p"
	got := run(t, env, text, "apply", "-f", "-").wantCode(t, 0)
	wantContains(t, "stdout", got.stdout, "~ skill ledger\n    oauth.client_secret: (secret) changed\n")
	const sent = `{"dry_run":false,"spec":{"skills":[{"name":"ledger","oauth":{"client_secret":"t0p","private_key":"a\nkey"}}]}}`
	if f.getLastBody() != sent {
		t.Errorf("sent %s", f.getLastBody())
	}
	f.setProblem("POST /api/v1/apply", 422, `{"status":422,"code":"invalid_request","detail":"much",
		"errors":[{"location":"body.spec.skills[0].oauth.private_key","message":"must be PEM"}]}`)
	got = run(t, env, text, "apply", "-f", "-").wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, "standard input:5:5: skills[0].oauth.private_key: must be PEM\n")
}

func TestApplyErrors(t *testing.T) {
	t.Parallel()
	f := newFake(t).setProblem("POST /api/v1/apply", 422, `{"status":422,"code":"invalid_request","detail":"much",
		"errors":[{"location":"body.spec.skills[0].url","message":"is required"},{"location":"body.spec.agents[0].skills[0].skill","message":"there is none"}]}`)
	env := f.env()
	env["TEAM"] = "t0p"
	file := writeFile(t, "holdpoint.yaml", declared)
	got := run(t, env, "", "apply", "-f", file).wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, file+":2:5: skills[0].url: is required\n", file+":8:14: agents[0].skills[0].skill: there is none\n")

	f.setProblem("POST /api/v1/apply", 403, `{"status":403,"code":"forbidden","detail":"not with this credential"}`)
	wantContains(t, "stderr", run(t, env, "", "apply", "-f", file).wantCode(t, 1).stderr, "not with this credential (forbidden)")

	asked := len(f.asked)
	wantContains(t, "stderr", f.run("apply", "-f", file).wantCode(t, 1).stderr, file+":5:21: skills[0].headers.X-Team.env: the variable TEAM is not set")
	wantContains(t, "stderr", run(t, env, "skils: []\n", "apply", "-f", "-").wantCode(t, 1).stderr, `standard input:1:1: unknown key "skils"`)
	run(t, env, "", "apply").wantCode(t, 1)
	run(t, env, "", "apply", "-f", "/nonexistent").wantCode(t, 1)
	if len(f.asked) != asked {
		t.Errorf("asked %v", f.asked)
	}
}
