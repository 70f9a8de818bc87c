package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	run(t, env, "", "apply", "-f", file, "--label", "platform", "--prune").wantCode(t, 0)
	wantContains(t, "sent", f.getLastBody(), `"label":"platform","prune":true`)
	wantContains(t, "no label", run(t, env, "", "apply", "-f", file, "--prune").wantCode(t, 1).stderr, "--prune needs --label")
	wantContains(t, "JSON", run(t, env, "", "apply", "-f", file, "--json").wantCode(t, 0).stdout, `{"items":[`)
}

// TestApplyWaits: apply --wait prints the health of each skill that was applied.
func TestApplyWaits(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[{"kind":"skill","name":"good","action":"create"},{"kind":"skill","name":"bad","action":"unchanged"},
		{"kind":"skill","name":"old","action":"delete"},{"kind":"agent","name":"billing","action":"create"}],"next_cursor":null}`).
		setAnswer("POST /api/v1/skills/good/probe", `{"ok":true,"steps":[{"name":"tools/list","detail":"3 tools"}]}`).
		setAnswer("POST /api/v1/skills/bad/probe", `{"ok":false,"steps":[{"name":"connect","error":"refused"}]}`)
	file := writeFile(t, "holdpoint.yaml", declared)
	env := f.env()
	env["TEAM"] = "t0p"
	got := run(t, env, "", "apply", "-f", file, "--wait").wantCode(t, 1)
	const want = "ok    skill good: tools/list: 3 tools\nfail  skill bad: connect: refused\n      → see holdpoint skill probe bad\n"
	if got.stderr != want {
		t.Errorf("got\n%s\nwant\n%s", got.stderr, want)
	}
	run(t, env, "", "apply", "-f", file).wantCode(t, 0)
	run(t, env, "", "apply", "-f", file, "--wait", "--dry-run").wantCode(t, 0)
}

// TestApplyWarnsOfUnknownTools: a misspelled tool is a warning with its place, unless the skill's tools are unknown.
func TestApplyWarnsOfUnknownTools(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[],"next_cursor":null}`).
		setAnswer("GET /api/v1/skills/files", `{"name":"files","transport":"http"}`).
		setAnswer("GET /api/v1/skills/files/tools", `{"items":[{"name":"read_file"},{"name":"write_file"},{"name":"remove.all"}]}`).
		setAnswer("GET /api/v1/skills/fresh", `{"name":"fresh","transport":"http"}`).
		setAnswer("GET /api/v1/skills/fresh/tools", `{"items":[]}`).
		setAnswer("GET /api/v1/skills/coding", `{"name":"coding","transport":"gate"}`).
		setAnswer("GET /api/v1/skills/coding/tools", `{"items":[{"name":"Bash"}]}`)
	file := writeFile(t, "holdpoint.yaml", `skills:
  - name: files
    transport: http
    url: https://files.example.com/mcp
    tools:
      read_file: {risk: high}
      wirte_file: {risk: high}
      remove.all: {enabled: false}
agents:
  - name: billing
    skills:
      - {skill: files, tools: [read_file, shred]}
      - {skill: fresh, tools: [anything]}
      - {skill: coding, tools: [mcp__mail__send]}
      - {skill: later, tools: [anything]}
`)
	for _, args := range [][]string{{"apply"}, {"apply", "--dry-run"}, {"diff"}} {
		got := f.run(append(args, "-f", file)...).wantCode(t, 0)
		want := "Warning: " + file + `:7:7: skills[0].tools.wirte_file: skill files has no tool "wirte_file": did you mean write_file?` + "\n" +
			"Warning: " + file + `:12:43: agents[0].skills[0].tools[1]: skill files has no tool "shred"` + "\n"
		if got.stderr != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got.stderr, want)
		}
	}
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
	run(t, env, "", "apply").wantCode(t, 1)
	run(t, env, "", "apply", "-f", "/nonexistent").wantCode(t, 1)
	run(t, env, "skills: [\n", "apply", "-f", "-").wantCode(t, 1)
	if len(f.asked) != asked {
		t.Errorf("asked %v", f.asked)
	}

	// With errors in the form, the server is asked for the others in a dry run. Those that follow from them are left out.
	f.setProblem("POST /api/v1/apply", 422, `{"status":422,"code":"invalid_request","detail":"much",
		"errors":[{"location":"body.spec.skills[0].headers.X-Team","message":"is required"},{"location":"body.spec.skills[0].url","message":"is required"}]}`)
	got = f.run("apply", "-f", file).wantCode(t, 1)
	if want := "holdpoint: " + file + ":2:5: skills[0].url: is required\n" + file + ":5:21: skills[0].headers.X-Team.env: the variable TEAM is not set on this machine\n"; got.stderr != want {
		t.Errorf("got\n%s\nwant\n%s", got.stderr, want)
	}
	wantContains(t, "sent", f.getLastBody(), `"dry_run":true`)
	f.setProblem("POST /api/v1/apply", 403, `{"status":403,"code":"forbidden","detail":"not with this credential"}`)
	got = run(t, env, "skils: []\n", "apply", "-f", "-").wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, `standard input:1:1: unknown key "skils"`, "The server did not check the files: not with this credential")
}

// Files and folders count as one, and a name may be declared once.
func TestApplyFolders(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[{"kind":"agent","name":"a","action":"unchanged"}],"next_cursor":null}`)
	folder := t.TempDir()
	for name, text := range map[string]string{
		"b.yaml": "agents: [{name: b}]\n", "a.yml": "agents: [{name: a}]\n", "c.txt": "no: [", ".d.yaml": "no: [", "empty/x": "",
	} {
		path := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	extra := writeFile(t, "extra.yaml", "agents: [{name: c}]\n")
	f.run("diff", "-f", folder, "-f", extra, "-f", filepath.Join(folder, "b.yaml")).wantCode(t, 0)
	const sent = `{"dry_run":true,"spec":{"agents":[{"name":"a"},{"name":"b"},{"name":"c"}]}}`
	if f.getLastBody() != sent {
		t.Errorf("sent %s", f.getLastBody())
	}
	twice := writeFile(t, "twice.yaml", "rules: []\nagents:\n  - {wait_budget: 1s, name: b}\n")
	got := f.run("apply", "-f", folder, "-f", twice).wantCode(t, 1)
	wantContains(t, "stderr", got.stderr, twice+`:3:23: agents[2].name: must be a name of its own: "b" is declared at `+filepath.Join(folder, "b.yaml")+":1:11 too\n")
	wantContains(t, "stderr", f.run("apply", "-f", filepath.Join(folder, "empty")).wantCode(t, 1).stderr, "the folder has no file that ends in .yaml or .yml")
}

// Programs that print secrets run in the folder of the file, and an error says why they failed.
func TestApplyRunsPrograms(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("POST /api/v1/apply", `{"items":[],"next_cursor":null}`)
	file := writeFile(t, "holdpoint.yaml", "skills:\n  - headers:\n      X-A: {exec: [sh, -c, \"cat secret && echo $0\", x]}\n      X-B: {stored: true}\n    auth_typo: 1\n")
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "secret"), []byte("t0p "), 0o600); err != nil {
		t.Fatal(err)
	}
	wantContains(t, "stderr", f.run("apply", "-f", file).wantCode(t, 1).stderr, `:5:5: skills[0]: unknown key "auth_typo"`)
	const sent = `{"dry_run":true,"spec":{"skills":[{"headers":{"X-A":"t0p x"}}],"stored":["skills[0].headers.X-B"]}}`
	if f.getLastBody() != sent {
		t.Errorf("sent %s", f.getLastBody())
	}
	for program, want := range map[string]string{
		"[sh, -c, 'echo one >&2; echo two >&2; exit 3']": "sh: exit status 3: two",
		"[there-is-no-such-program]":                     "there-is-no-such-program: exec: ",
		"'true'":                                         "true printed nothing",
		"[]":                                             "must be a program and its arguments",
	} {
		got := run(t, f.env(), "skills:\n  - headers: {X-A: {exec: "+program+"}}\n", "apply", "-f", "-").wantCode(t, 1)
		wantContains(t, "stderr", got.stderr, "skills[0].headers.X-A.exec: "+want)
	}
}

// Export writes the documents beside the file, and no secret.
func TestExport(t *testing.T) {
	t.Parallel()
	f := newFake(t).setAnswer("GET /api/v1/export", `{"documents":["shop"],"spec":{"skills":[{"name":"shop","transport":"openapi","call_timeout":"5s"}],"stored":["skills[0].headers.X-A"]}}`).
		setAnswer("GET /api/v1/skills/shop/document", `{"openapi":"3.1.0"}`)
	folder := filepath.Join(t.TempDir(), "out")
	f.run("export", "-o", folder).wantCode(t, 0)
	text, err := os.ReadFile(filepath.Join(folder, "holdpoint.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "skills:\n  - name: shop\n    transport: openapi\n    headers:\n      X-A: {stored: true}\n    call_timeout: \"5s\"\n    spec: openapi/shop.json\n"
	if !strings.HasSuffix(string(text), want) || !strings.HasPrefix(string(text), "# Exported from http://") {
		t.Errorf("got\n%s", text)
	}
	if document, err := os.ReadFile(filepath.Join(folder, "openapi", "shop.json")); err != nil || string(document) != `{"openapi":"3.1.0"}` {
		t.Errorf("%s, %v", document, err)
	}
	wantContains(t, "stderr", f.run("export", "-o", folder).wantCode(t, 1).stderr, "holdpoint.yaml exists already")
	wantContains(t, "stderr", f.run("export").wantCode(t, 1).stderr, "name a folder for it with --output")
	wantContains(t, "schema", f.run("schema").wantCode(t, 0).stdout, `"$schema": "http://json-schema.org/draft-07/schema#"`)
}
