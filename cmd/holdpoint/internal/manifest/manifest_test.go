package manifest_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/cmd/holdpoint/internal/manifest"
)

const example = `
server: {addr: ":9000", anything: [goes, here]}
skills:
  - name: files
    transport: stdio
    command: [npx, -y, "@modelcontextprotocol/server-filesystem", /srv/shared, 5]
    env: {LOG_LEVEL: info, PORT: 8080, DEBUG: true, SECRET: {file: secret.txt}}
    auto_approve: false
    approval_timeout: 5m
    call_timeout: 60s
    tools: {move_file: {risk: high}, read_file: {idempotent: true}, write_file: {enabled: true, not_secret: [/token]}}
  - name: everything
    transport: http
    url: http://127.0.0.1:3001/mcp
    headers: {X-Team: {env: TEAM_TOKEN}}
    auto_approve: true
    trust_new_tools: false
  - name: ledger
    transport: http
    url: https://mcp.example.com/mcp
    oauth: {grant: client_credentials, client_id: holdpoint, client_secret_env: LEDGER_SECRET, scopes: [ledger.write]}
    connection: shared
    resources: pass
    questions: client
    identity_headers: true
    team: finance
    escalate_to: finance leads
agents:
  - name: billing
    instructions: You file invoices.
    model: {provider: openai, name: some-model, base_url: http://127.0.0.1:11434/v1, api_key_env: OPENAI_API_KEY, max_tokens: 4096, images: false, input_price: 2.5, output_price: 10}
    wait_budget: 50s
    error_style: codes
    reply_timeout: 30s
    limits: {calls_per_minute: 120, concurrency: 4, pending: 9, conversation_turns: 50, conversation_tokens: 1000000, conversation_cost: 0.75, conversation_time: 72h}
    team: back office
    escalate_to: ops
    skills:
      - files
      - {skill: everything, tools: [echo, get-sum]}
      - {skill: ledger, prefix: ""}
`

const exampleSpec = `{
	"skills": [
		{"name": "files", "transport": "stdio",
			"command": ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/shared", "5"],
			"env": {"LOG_LEVEL": "info", "PORT": "8080", "DEBUG": "true", "SECRET": "from a file"},
			"auto_approve": false, "approval_timeout": "5m", "call_timeout": "60s",
			"tools": {"move_file": {"risk": "high"}, "read_file": {"idempotent": true}, "write_file": {"enabled": true, "not_secret": ["/token"]}}},
		{"name": "everything", "transport": "http", "url": "http://127.0.0.1:3001/mcp",
			"headers": {"X-Team": "t0ken"}, "auto_approve": true, "trust_new_tools": false},
		{"name": "ledger", "transport": "http", "url": "https://mcp.example.com/mcp", "connection": "shared", "resources": "pass", "questions": "client", "identity_headers": {"enabled": true}, "team": "finance", "escalate_to": "finance leads",
			"oauth": {"grant": "client_credentials", "client_id": "holdpoint", "client_secret": "s3cret", "scopes": ["ledger.write"]}}
	],
	"agents": [
		{"name": "billing", "instructions": "You file invoices.", "wait_budget": "50s", "error_style": "codes", "reply_timeout": "30s",
			"limits": {"calls_per_minute": 120, "concurrency": 4, "pending": 9, "conversation_turns": 50, "conversation_tokens": 1000000, "conversation_cost": 0.75, "conversation_time": "72h"}, "team": "back office", "escalate_to": "ops",
			"model": {"provider": "openai", "name": "some-model", "base_url": "http://127.0.0.1:11434/v1", "api_key": "sk-1", "max_tokens": 4096, "images": false, "input_price": 2.5, "output_price": 10},
			"skills": [{"skill": "files"}, {"skill": "everything", "tools": ["echo", "get-sum"]}, {"skill": "ledger", "prefix": ""}]}
	]
}`

func options() manifest.Options {
	return manifest.Options{
		Getenv: func(name string) string {
			return map[string]string{"TEAM_TOKEN": "t0ken", "LEDGER_SECRET": "s3cret", "OPENAI_API_KEY": "sk-1", "KEY": "k3y"}[name]
		},
		ReadFile: func(name string) ([]byte, error) {
			switch name {
			case "conf/secret.txt":
				return []byte("from a file\n"), nil
			case "conf/shop.json":
				return []byte("{\"openapi\": \"3.1.0\"}\n"), nil
			case "latin1.json":
				return []byte("\xe9"), nil
			case "conf/key.pem":
				return []byte("a\nkey\r\n"), nil
			}
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		},
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	parsed, err := manifest.Parse("conf/holdpoint.yaml", []byte(example), options())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := decode(t, parsed.Spec), decode(t, []byte(exampleSpec)); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", parsed.Spec, exampleSpec)
	}
}

func TestParseOAuth(t *testing.T) {
	t.Parallel()
	const text = `skills:
  - name: files
    connection: per_user
    oauth:
      grant: enterprise_managed
      issuer: https://as.example
      client_id: c
      client_secret: plain
      auth_method: private_key_jwt
      private_key: |
        -----BEGIN PRIVATE KEY-----
        AAAA
        -----END PRIVATE KEY-----
      scopes: [a, b]
      idp: {issuer: "https://idp.example", client_id: i, client_secret_env: LEDGER_SECRET}
  - oauth: {client_secret_file: secret.txt, private_key_file: key.pem, idp: {client_secret_file: secret.txt}}
  - oauth: {private_key_env: KEY, client_secret: {env: TEAM_TOKEN}, idp: {client_secret: plain}}
  - oauth: {}
`
	const want = `{"skills":[
		{"name":"files","connection":"per_user","oauth":{"grant":"enterprise_managed","issuer":"https://as.example","client_id":"c",
			"client_secret":"plain","auth_method":"private_key_jwt",
			"private_key":"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n","scopes":["a","b"],
			"idp":{"issuer":"https://idp.example","client_id":"i","client_secret":"s3cret"}}},
		{"oauth":{"client_secret":"from a file","private_key":"a\nkey","idp":{"client_secret":"from a file"}}},
		{"oauth":{"private_key":"k3y","client_secret":"t0ken","idp":{"client_secret":"plain"}}},
		{"oauth":{}}]}`
	parsed, err := manifest.Parse("conf/holdpoint.yaml", []byte(text), options())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := decode(t, parsed.Spec), decode(t, []byte(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", parsed.Spec, want)
	}
	for path, want := range map[string]string{
		"skills[0].oauth.idp.client_secret": "conf/holdpoint.yaml:15:58: skills[0].oauth.idp.client_secret: no",
		"skills[1].oauth.private_key":       "conf/holdpoint.yaml:16:45: skills[1].oauth.private_key: no",
		"skills[2].oauth.issuer":            "conf/holdpoint.yaml:17:5: skills[2].oauth.issuer: no", // not in the file
	} {
		if got := parsed.Locate(path, "no").Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestParseHTTPAPIs(t *testing.T) {
	t.Parallel()
	const text = `skills:
  - name: shop
    transport: openapi
    spec: shop.json
    base_url: https://shop.example/v1
    include: [{tag: orders, method: GET}, {operation_id: "order*"}]
    exclude: [{path: "/admin/**"}]
    auth: {type: api_key, in: header, name: X-Key, secret_env: KEY}
    preview: true
    output_schemas: false
    tools: {listOrders: {select: ".items[].id"}}
  - {name: forge, spec: HTTPS://forge.example/openapi.yaml, auth: {type: basic, username: me, secret_file: secret.txt}}
  - name: weather
    transport: http-api
    base_url: http://weather.example
    endpoints:
      - name: get_weather
        path: /weather/{city}
        parameters:
          city: {description: Its name}
          days: {in: query, name: d, type: integer, required: true, schema: {minimum: 1, maximum: 9007199254740993, default: 1.5}}
        headers: {X-Version: 2}
        input_schema:
          type: object
          properties: {city: {type: [string, "null"], enum: [a, "1", 1, true, null]}}
          additionalProperties: false
        output_schema: true
        body: json
`
	const want = `{"skills":[
		{"name":"shop","transport":"openapi","document":"{\"openapi\": \"3.1.0\"}\n","base_url":"https://shop.example/v1",
			"include":[{"tag":"orders","method":"GET"},{"operation_id":"order*"}],"exclude":[{"path":"/admin/**"}],
			"auth":{"type":"api_key","in":"header","name":"X-Key","secret":"k3y"},"preview":true,"output_schemas":false,
			"tools":{"listOrders":{"select":".items[].id"}}},
		{"name":"forge","spec":"HTTPS://forge.example/openapi.yaml","auth":{"type":"basic","username":"me","secret":"from a file"}},
		{"name":"weather","transport":"http-api","base_url":"http://weather.example","endpoints":[{"name":"get_weather","path":"/weather/{city}",
			"parameters":{"city":{"description":"Its name"},
				"days":{"in":"query","name":"d","type":"integer","required":true,"schema":{"minimum":1,"maximum":9007199254740993,"default":1.5}}},
			"headers":{"X-Version":"2"},"body":"json","output_schema":true,
			"input_schema":{"type":"object","additionalProperties":false,
				"properties":{"city":{"type":["string","null"],"enum":["a","1",1,true,null]}}}}]}]}`
	parsed, err := manifest.Parse("conf/holdpoint.yaml", []byte(text), options())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := decode(t, parsed.Spec), decode(t, []byte(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", parsed.Spec, want)
	}
	if !strings.Contains(string(parsed.Spec), "9007199254740993") {
		t.Errorf("a whole number was rounded: %s", parsed.Spec)
	}
	for path, want := range map[string]string{
		"skills[0].document":                          "conf/holdpoint.yaml:4:5: skills[0].document: no",
		"skills[0].auth.secret":                       "conf/holdpoint.yaml:8:52: skills[0].auth.secret: no",
		"skills[2].endpoints[0].parameters.days.in":   "conf/holdpoint.yaml:21:18: skills[2].endpoints[0].parameters.days.in: no",
		"skills[2].endpoints[0].input_schema.type":    "conf/holdpoint.yaml:24:11: skills[2].endpoints[0].input_schema.type: no",
		"skills[2].endpoints[0].input_schema.nowhere": "conf/holdpoint.yaml:23:9: skills[2].endpoints[0].input_schema.nowhere: no",
	} {
		if got := parsed.Locate(path, "no").Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseAliases(t *testing.T) {
	t.Parallel()
	parsed, err := manifest.Parse("f.yaml", []byte(`skills:
  - {name: a, tools: &tools {x: {risk: high}}}
  - {name: b, tools: *tools}
`), options())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"skills":[{"name":"a","tools":{"x":{"risk":"high"}}},{"name":"b","tools":{"x":{"risk":"high"}}}]}`
	if string(parsed.Spec) != want {
		t.Errorf("got %s, want %s", parsed.Spec, want)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string
	}{
		{"unknown key", "skills:\n  - name: a\n    autoapprove: true\n", []string{`f.yaml:3:5: skills[0]: unknown key "autoapprove"`}},
		{"unknown top key", "skill: []\n", []string{`f.yaml:1:1: unknown key "skill"`}},
		{"unknown key of a tool", "skills:\n- tools: {x: {risky: true}}\n", []string{`f.yaml:2:15: skills[0].tools.x: unknown key "risky"`}},
		{"not YAML", "skills:\n  - name: [a\n", []string{"f.yaml:2:11: "}},
		{"twice", "skills:\n  - name: a\n    name: b\n", []string{"f.yaml:3:5: "}},
		{"twice by variable", "agents:\n  - model: {api_key: x, api_key_env: TEAM_TOKEN}\n", []string{`f.yaml:2:25: agents[0].model: "api_key" is given twice`}},
		{"variable not set", "skills:\n  - headers:\n      X-A: {env: NOPE}\n", []string{"f.yaml:3:18: skills[0].headers.X-A.env: the variable NOPE is not set on this machine"}},
		{"suffixed variable not set", "agents:\n  - model:\n      api_key_env: NOPE\n", []string{"f.yaml:3:20: agents[0].model.api_key_env: the variable NOPE is not set on this machine"}},
		{"no such file", "skills:\n  - env:\n      A: {file: nope}\n", []string{"f.yaml:3:17: skills[0].env.A.file: open nope: file does not exist"}},
		{"strange secret", "skills:\n  - env:\n      A: {vault: x}\n", []string{"f.yaml:3:10: skills[0].env.A: must be a value, {env: VARIABLE}, {file: PATH}, {exec: [PROGRAM, ARGUMENT, …]} or {stored: true}"}},
		{"env form for what is no secret", "skills:\n  - url: {env: TEAM_TOKEN}\n", []string{"f.yaml:2:10: skills[0].url: must be a single value"}},
		{"suffix for what is no secret", "skills:\n  - url_env: TEAM_TOKEN\n", []string{`f.yaml:2:5: skills[0]: unknown key "url_env"`}},
		{"unknown key of oauth", "skills:\n  - oauth:\n      secret: x\n", []string{`f.yaml:3:7: skills[0].oauth: unknown key "secret"`}},
		{"unknown key of idp", "skills:\n  - oauth:\n      idp:\n        url: x\n", []string{`f.yaml:4:9: skills[0].oauth.idp: unknown key "url"`}},
		{"no secret in a variable", "skills:\n  - oauth: {client_id_env: KEY}\n", []string{`f.yaml:2:13: skills[0].oauth: unknown key "client_id_env"`}},
		{"client secret twice", "skills:\n  - oauth: {client_secret: x, client_secret_file: secret.txt}\n", []string{`f.yaml:2:31: skills[0].oauth: "client_secret" is given twice`}},
		{"client secret not set", "skills:\n  - oauth:\n      client_secret_env: NOPE\n", []string{"f.yaml:3:26: skills[0].oauth.client_secret_env: the variable NOPE is not set on this machine"}},
		{"secret at the idp not set", "skills:\n  - oauth: {idp: {client_secret_env: NOPE}}\n", []string{"f.yaml:2:38: skills[0].oauth.idp.client_secret_env: the variable NOPE is not set on this machine"}},
		{"no such key", "skills:\n  - oauth:\n      private_key_file: nope.pem\n", []string{"f.yaml:3:25: skills[0].oauth.private_key_file: open nope.pem: file does not exist"}},
		{"scopes in one", "skills:\n  - oauth: {scopes: a b}\n", []string{"f.yaml:2:21: skills[0].oauth.scopes: must be a list"}},
		{"not a list", "agents: {name: a}\n", []string{"f.yaml:1:9: agents: must be a list"}},
		{"not a mapping", "agents:\n  - 5\n", []string{"f.yaml:2:5: agents[0]: must be a mapping"}},
		{"nothing", "agents:\n  - name:\n", []string{"f.yaml:2:11: agents[0].name: must be a value"}},
		{"not a truth", "skills:\n  - auto_approve: \"yes\"\n", []string{"f.yaml:2:19: skills[0].auto_approve: must be true or false"}},
		{"not a number", "agents:\n  - limits: {concurrency: few}\n", []string{"f.yaml:2:27: agents[0].limits.concurrency: must be a whole number"}},
		{"not a duration", "skills:\n  - call_timeout: 60\n", []string{"f.yaml:2:19: skills[0].call_timeout: must be a duration such as 90s, 5m or 1h30m"}},
		{"no such document", "skills:\n  - spec: shop.yaml\n", []string{"f.yaml:2:11: skills[0].spec: must be the URL of an OpenAPI document, or the path of a file: open shop.yaml: file does not exist"}},
		{"a document that is no text", "skills:\n  - spec: latin1.json\n", []string{"f.yaml:2:11: skills[0].spec: latin1.json is not text"}},
		{"a document in the file itself", "skills:\n  - document: '{}'\n", []string{`f.yaml:2:5: skills[0]: unknown key "document"`}},
		{"spec and again", "skills:\n  - {spec: latin1.json, spec: http://h/}\n", []string{"f.yaml:2:25: "}},
		{"unknown key of an endpoint", "skills:\n  - endpoints: [{url: x}]\n", []string{`f.yaml:2:18: skills[0].endpoints[0]: unknown key "url"`}},
		{"unknown key of auth", "skills:\n  - auth: {token: x}\n", []string{`f.yaml:2:12: skills[0].auth: unknown key "token"`}},
		{"auth's secret not set", "skills:\n  - auth: {secret_env: NOPE}\n", []string{"f.yaml:2:24: skills[0].auth.secret_env: the variable NOPE is not set on this machine"}},
		{"a schema that JSON cannot say", "skills:\n  - endpoints: [{input_schema: {maximum: .inf}}]\n", []string{"f.yaml:2:42: skills[0].endpoints[0].input_schema.maximum: must be a value that JSON can represent"}},
		{"all of them", "skills:\n  - nam: a\nagents:\n  - skill: b\n", []string{"f.yaml:2:5: ", "f.yaml:4:5: "}},
		{"empty", "# nothing\n", []string{"f.yaml: the file is empty"}},
		{"two documents", "skills: []\n---\nagents: []\n", []string{"f.yaml:3:1: the file must be one document, not several"}},
		{"unknown alias", "skills: *nope\n", []string{"f.yaml:1:9: skills: unknown alias *nope"}},
		{"merge key", "skills:\n  - &a {name: x}\n  - <<: *a\n", []string{"f.yaml:3:5: skills[1]: merge keys (<<) are not supported"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Parse("f.yaml", []byte(test.text), options())
			var found manifest.Errors
			if !errors.As(err, &found) || len(found) != len(test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			for i, want := range test.want {
				if got := found[i].Error(); !strings.HasPrefix(got, want) {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
}

func TestAliasBomb(t *testing.T) {
	t.Parallel()
	text := "server:\n  a: 1\nskills:\n- command: &a [x,x,x,x,x,x,x,x,x,x]\n"
	text += "- command: &b [*a,*a,*a]\n"
	_, err := manifest.Parse("f.yaml", []byte(text), options())
	if err == nil || !strings.Contains(err.Error(), "must be a single value") {
		t.Errorf("got %v", err)
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	parsed, err := manifest.Parse("conf/holdpoint.yaml", []byte(example), options())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"skills[1].url":             "conf/holdpoint.yaml:14:5: skills[1].url: no",
		"skills[1]":                 "conf/holdpoint.yaml:12:5: skills[1]: no",
		"skills[0].command[1]":      "conf/holdpoint.yaml:6:20: skills[0].command[1]: no",
		"skills[1].headers.X-Team":  "conf/holdpoint.yaml:15:15: skills[1].headers.X-Team: no",
		"skills[1].approval":        "conf/holdpoint.yaml:12:5: skills[1].approval: no", // not in the file
		"agents[0].skills[1].skill": "conf/holdpoint.yaml:40:10: agents[0].skills[1].skill: no",
		"agents[0].skills[0].skill": "conf/holdpoint.yaml:39:9: agents[0].skills[0].skill: no",
		"agents[7].name":            "conf/holdpoint.yaml:28:1: agents[7].name: no",
		"":                          "conf/holdpoint.yaml: no",
	} {
		if got := parsed.Locate(path, "no").Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
