package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// everything declares at least one thing with each key of holdpoint.yaml, in several files.
var everything = map[string]string{
	"10-skills.yaml": `
skills:
  - name: files
    transport: stdio
    command: [cat, --, "a b", 5]
    env: {LOG_LEVEL: {env: LEVEL}, "PORT": 8080}
    run_as: skill
    paths: {read: [READ], write: [WRITE]}
    team: finance
    escalate_to: finance leads
  - name: everything
    transport: http
    url: http://127.0.0.1:9/mcp
    headers: {x-team: {file: secret.txt}, X.Dotted: {exec: [printf, "%s\n", from a program]}}
    auto_approve: true
    trust_new_tools: true
    approval_timeout: 10m
    approval_validity: 20m
    call_timeout: 90s
    resources: pass
    edits: second
    questions: client
    identity_headers: {enabled: true, agent: X-Agent, call: X-Call, principal: X-Person}
    tools:
      move_file: {risk: high, idempotent: true, enabled: false, not_secret: [/token, "/a b"], grants: true, policy: two}
    escalation: [{after: 2m, teams: [payments]}, {after: 50%, people: [ann@example.com]}]
    policy: two
  - name: ledger
    transport: http
    url: https://127.0.0.1:9/mcp
    connection: per_user
    oauth:
      grant: enterprise_managed
      issuer: https://as.example
      client_id: holdpoint
      client_secret_env: LEVEL
      auth_method: client_secret_post
      scopes: [ledger.write]
      trust_origin: true
      idp: {issuer: https://idp.example, client_id: id, client_secret_file: secret.txt}
  - name: signed
    transport: http
    url: https://127.0.0.1:9/mcp
    oauth: {client_id: holdpoint, auth_method: private_key_jwt, private_key_file: key.pem}
  - {name: native, transport: gate, host: claude-code, release_time: 90s}
`,
	"20-apis.yml": `
skills:
  - name: shop
    transport: openapi
    spec: shop.json
    base_url: https://127.0.0.1:9/v1
    include: [{tag: orders, method: GET}, {operation_id: "order*", path: "/orders/**"}]
    exclude: [{path: "/admin/**"}, {operation_id: dropAll, tag: danger, method: DELETE}]
    auth: {type: api_key, in: header, name: X-Key, secret_exec: [cat, secret.txt]}
    preview: true
    output_schemas: false
    tools: {listOrders: {select: ".items[] | .id"}}
  - name: forge
    transport: openapi
    spec: https://127.0.0.1:9/openapi.yaml
    auth: {type: basic, username: me, secret_env: LEVEL}
  - name: weather
    transport: http-api
    base_url: http://127.0.0.1:9
    endpoints:
      - name: get_weather
        title: Weather
        description: "The weather: of a city.\nTwo lines.  "
        path: /weather/{city}
        parameters:
          city: {description: Its name}
          days: {in: query, name: d, type: integer, required: true}
          more: {in: query, schema: {type: number, minimum: 1.5, maximum: 9007199254740993, default: 1e3, enum: [1, 2.50]}}
        headers: {X-Version: 2}
        output_schema: {type: object, required: [b, a], properties: {b: {type: string}, a: {type: "null"}}}
      - name: set_weather
        method: POST
        path: /weather
        body: form
        input_schema: {type: object, properties: {city: {type: string}}, additionalProperties: false}
        parameters: {city: {}}
`,
	"30-agents.yaml": `
agents:
  - name: billing
    instructions: |
      You file invoices.

        Two spaces, "quotes" and a # sign.
    model: {provider: openai, name: some-model, base_url: http://127.0.0.1:9/v1, api_key_exec: [cat, secret.txt], max_tokens: 4096, images: false, input_price: 2.5, output_price: 10}
    wait_budget: 40s
    error_style: codes
    pending_as: result
    reply_timeout: 30s
    limits: {calls_per_minute: 120, concurrency: 4, pending: 9, conversation_turns: 50, conversation_tokens: 1000000, conversation_cost: 0.75, conversation_time: 72h}
    team: back office
    escalate_to: ops
    plans: true
    skills:
      - files
      - {skill: everything, tools: [echo, get-sum]}
      - {skill: ledger, prefix: ""}
  - {name: idle, escalation: [{after: 1m, teams: [ops], people: [ann@example.com]}], skills: []}
`,
	"40-rules.yaml": `
rules:
  - name: small
    agents: [billing]
    skills: ["led*"]
    tools: [pay]
    when: |
      args.amount <= 100.0
        && args.currency == "EUR"
    effect: allow
    mode: shadow
    high_risk: true
  - {name: never, skills: ["*"], when: 'args.to == "evil\u2028"', effect: deny, message: "No: never, \"ever\"."}
  - {name: big, effect: park, grants: true}
  - {name: huge, effect: park, policy: two}
policies:
  - name: two
    any:
      - all: [{count: 2, teams: [finance]}]
      - all: [{count: 1, people: [ann@example.com]}, {count: 1}]
    rejections: 2
    approval_timeout: 1h
    approval_validity: 5m
    break_glass: true
`,
	"notes.txt":    "not YAML: [",
	".hidden.yaml": "not YAML: [",
	"secret.txt":   "g3heim\n",
	"shop.json":    `{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"servers":[{"url":"https://127.0.0.1:9/v1"}],"paths":{"/orders":{"get":{"operationId":"listOrders","tags":["orders"],"responses":{"200":{"description":"ok"}}}}}}`,
}

// operate runs a command of an operator on a machine with these variables.
type operatorAt struct {
	address string
	env     map[string]string
}

func (o *operatorAt) run(t *testing.T, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	env := maps.Clone(o.env)
	env["HOLDPOINT_URL"], env["HOLDPOINT_TOKEN"] = o.address, edgeToken
	var out, complaints bytes.Buffer
	code := run(t.Context(), args, func(name string) string { return env[name] }, strings.NewReader(""), &out, &complaints)
	if code != wantCode {
		t.Fatalf("%v: exit code %d, want %d\n%s%s", args, code, wantCode, out.String(), complaints.String())
	}
	return out.String(), complaints.String()
}

// openHouse serves Holdpoint with everything in it. It returns the folder of the files.
func openHouse(t *testing.T) (*operatorAt, string) {
	t.Helper()
	folder := t.TempDir()
	read, write := t.TempDir(), t.TempDir()
	for name, text := range everything {
		check(t, os.WriteFile(filepath.Join(folder, name), []byte(strings.NewReplacer("READ", read, "WRITE", write).Replace(text)), 0o600))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(folder, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	s, _, _ := openEdge(t, func(settings *serverSettings) {
		settings.Programs = tool.StdioPolicy{On: true, Allow: [][]string{{"cat"}}, Paths: []string{read, write}, RunAs: []string{"skill"}}
	})
	o := &operatorAt{address: "http://" + s.listener.Addr().String(), env: map[string]string{"LEVEL": "s3cret"}}
	o.run(t, 0, "apply", "-f", folder)
	return o, folder
}

// TestApplyOfExportIsEmpty: the export of a house with everything has each key of the file, no secret, and changes nothing when it is applied.
func TestApplyOfExportIsEmpty(t *testing.T) {
	t.Parallel()
	o, folder := openHouse(t)
	if out, _ := o.run(t, 0, "diff", "-f", folder); out != "no differences\n" {
		t.Errorf("diff of what was applied:\n%s", out)
	}
	o.env = map[string]string{} // the secrets are not on this machine
	exported := filepath.Join(t.TempDir(), "backup")
	o.run(t, 0, "export", "--output", exported)
	text, err := os.ReadFile(filepath.Join(exported, "holdpoint.yaml"))
	check(t, err)
	if out, _ := o.run(t, 0, "diff", "-f", exported); out != "no differences\n" {
		t.Errorf("diff of the export:\n%s\n%s", out, text)
	}
	if out, _ := o.run(t, 0, "apply", "-f", exported); !strings.Contains(out, "0 created, 0 changed, 0 deleted") {
		t.Errorf("apply of the export:\n%s", out)
	}
	for _, secret := range []string{"g3heim", "s3cret", "from a program", "PRIVATE"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the export has the secret %q:\n%s", secret, text)
		}
	}
	again := filepath.Join(t.TempDir(), "again")
	o.run(t, 0, "export", "--output", again)
	second, err := os.ReadFile(filepath.Join(again, "holdpoint.yaml"))
	check(t, err)
	if !bytes.Equal(text, second) {
		t.Errorf("the second export differs:\n%s\n%s", text, second)
	}
	reply, _ := o.run(t, 0, "export", "--json")
	var export struct {
		Spec any `json:"spec"`
	}
	check(t, json.Unmarshal([]byte(reply), &export))
	given := map[string]bool{}
	collectMembers(export.Spec, "", given)
	var missing []string
	for path := range wantMembers(reflect.TypeFor[agent.Spec](), "") {
		secret := slices.Contains([]string{
			"skills.headers", "skills.env", "skills.document", "skills.oauth.client_secret", "skills.oauth.private_key", "skills.oauth.idp.client_secret",
			"skills.auth.secret", "agents.model.api_key",
		}, path)
		ofApply := path == "label" || path == "prune"
		if !given[path] && !secret && !ofApply {
			missing = append(missing, path)
		}
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("the export lacks %v: declare them in everything, and export them (runtime/agent/export.go)", missing)
	}
	out, _ := o.run(t, 1, "export")
	if out != "" {
		t.Errorf("an export without the documents: %s", out)
	}
}

// collectMembers notes the paths of the members of a JSON value, without the numbers of lists and the names of dictionaries.
func collectMembers(value any, path string, given map[string]bool) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			collectMembers(item, path, given)
		}
	case map[string]any:
		for name, member := range v {
			at := strings.TrimPrefix(path+"."+name, ".")
			given[at] = true
			if slices.Contains([]string{"skills.tools", "skills.endpoints.parameters"}, at) {
				named, _ := member.(map[string]any)
				for _, inner := range named {
					collectMembers(inner, at, given)
				}
				continue
			}
			collectMembers(member, at, given)
		}
	}
}

// wantMembers returns the paths of all members of a type.
func wantMembers(of reflect.Type, path string) map[string]bool {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	members := map[string]bool{}
	if of.Kind() != reflect.Struct {
		return members
	}
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := path
		if !f.Anonymous {
			at = strings.TrimPrefix(path+"."+name, ".")
			members[at] = true
		}
		maps.Copy(members, wantMembers(f.Type, at))
	}
	return members
}

// TestDiffShowsDrift: what is changed in the dashboard after apply is a difference, with exit code 2.
func TestDiffShowsDrift(t *testing.T) {
	t.Parallel()
	o, folder := openHouse(t)
	jar, err := cookiejar.New(nil)
	check(t, err)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	post := func(path string, form url.Values) {
		t.Helper()
		r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, o.address+path, strings.NewReader(form.Encode()))
		check(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		response, err := browser.Do(r)
		check(t, err)
		response.Body.Close()
		if response.StatusCode != http.StatusSeeOther {
			t.Fatalf("POST %s: %s", path, response.Status)
		}
	}
	token, _ := o.run(t, 0, "token", "create", "--person", "olga", "--role", "operator")
	post("/sign-in", url.Values{"token": {strings.TrimSpace(token)}})
	shown, _ := o.run(t, 0, "rules", "show", "big", "--json")
	var big struct {
		Revision json.Number `json:"revision"`
	}
	check(t, json.Unmarshal([]byte(shown), &big))
	post("/rules/named/big/edit", url.Values{"revision": {big.Revision.String()}, "name": {"big"}, "effect": {"park"}, "mode": {"off"}})
	out, _ := o.run(t, 2, "diff", "-f", folder)
	const want = "~ rule big\n    mode: off → enforce\n    grants: true\n0 would be created, 1 would be changed, 0 would be deleted, 0 unchanged\n"
	if out != want {
		t.Errorf("diff:\n%s\nwant\n%s", out, want)
	}
	if reply, _ := o.run(t, 2, "diff", "-f", folder, "--json"); !strings.Contains(reply, `"action":"update"`) {
		t.Errorf("diff in JSON: %s", reply)
	}
	o.run(t, 1, "diff", "-f", filepath.Join(folder, "nowhere.yaml"))
	o.run(t, 0, "apply", "-f", folder)
	o.run(t, 0, "diff", "-f", folder)
}

// TestBrokenFilesShowEveryMistake: errors of the form, of YAML, of the server and of its database come together, each at its line.
func TestBrokenFilesShowEveryMistake(t *testing.T) {
	t.Parallel()
	o, _ := openHouse(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	first := write("a.yaml", `skills:
  - name: Files
    transport: htp
    url: ftp://x
    approval_timeout: 5
    autoapprove: true
    tools: {write: {policy: none}}
  - name: mail
    transport: http
    url: http://127.0.0.1:9/
    headers: {X-Key: {env: NOPE}, X-Other: {stored: true}}
    policy: none
rules:
  - {name: r, effect: park, policy: none, when: "args.a = 1"}
  - {name: "", effect: parked}
`)
	second := write("b.yaml", `skills:
  - {name: mail, transport: http, url: http://127.0.0.1:9/}
agents:
  - name: clerk
    wait_budget: 5h
    skills: [mail, Files, nothing]
  - {name: ok, skills: [{skill: nothing}]}
policies:
  - {name: p, any: []}
`)
	_, stderr := o.run(t, 1, "apply", "-f", first, "-f", second)
	for _, want := range []string{
		first + ":2:5: skills[0].name: ",
		first + ":3:5: skills[0].transport: must be stdio, http, openapi, http-api or gate",
		first + ":5:23: skills[0].approval_timeout: must be a duration",
		first + `:6:5: skills[0]: unknown key "autoapprove"`,
		first + ":7:21: skills[0].tools.write.policy: must be the name of a policy",
		first + ":11:28: skills[1].headers.X-Key.env: the variable NOPE is not set",
		first + ":11:35: skills[1].headers.X-Other: must be given",
		first + ":12:5: skills[1].policy: must be the name of a policy",
		first + ":14:29: rules[0].policy: must be the name of a policy",
		first + ":14:43: rules[0].when: 1:8: ",
		first + ":15:6: rules[1].name: ",
		first + ":15:16: rules[1].effect: must be allow, park or deny",
		second + ":2:6: skills[2].name: must be a name of its own: \"mail\" is declared at " + first + ":8:5 too",
		second + ":5:5: agents[0].wait_budget: must be between 1s and 1h",
		second + ":6:20: agents[0].skills[1].skill: must be 1 to 63 ",
		second + ":6:27: agents[0].skills[2].skill: must be the name of a skill",
		second + ":7:26: agents[1].skills[0].skill: must be the name of a skill",
		second + ":9:15: policies[0].any: must have 1 to 10 alternatives",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(stderr, "\n"); n != 18 || t.Failed() {
		t.Errorf("%d lines:\n%s", n, stderr)
	}
	torn := write("torn.yaml", "skills:\n  - name: [a\n  - name: b\n    transport: http\n    ulr: http://x\n  - name: 'c\nagents:\n  - name: d\n    name: e\n  - nam: f\n")
	_, stderr = o.run(t, 1, "apply", "-f", torn)
	for _, line := range []string{":3:3: ", ":5:5: ", ":6:11: ", ":9:5: ", ":10:5: "} {
		if !strings.Contains(stderr, torn+line) {
			t.Errorf("no error at %s\n%s", line, stderr)
		}
	}
	if out, _ := o.run(t, 0, "rules", "list"); strings.Contains(out, "parked") {
		t.Errorf("a broken file was applied: %s", out)
	}
}
