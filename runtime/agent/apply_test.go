package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

const declared = `{
	"skills": [
		{"name": "files", "transport": "stdio", "command": ["npx", "-y", "server", "a && b"], "env": {"LOG_LEVEL": "g3heim"},
			"approval_timeout": "90s", "tools": {"move_file": {"risk": "high"}, "read_file": {"idempotent": true},
			"write_file": {"enabled": true}}},
		{"name": "everything", "transport": "http", "url": "http://127.0.0.1:3001/mcp",
			"headers": {"X-Team": "g3heim"}, "auto_approve": true}
	],
	"agents": [
		{"name": "billing", "instructions": "You file invoices.", "wait_budget": "20s",
			"model": {"provider": "openai", "name": "m", "base_url": "http://127.0.0.1:11434/v1", "api_key": "g3heim"},
			"skills": [{"skill": "files"}, {"skill": "everything", "tools": ["get-sum", "echo"], "prefix": ""}]}
	]
}`

func formatActions(changes []agent.Change) []string {
	var list []string
	for _, c := range changes {
		list = append(list, c.Action+" "+c.Kind+" "+c.Name)
	}
	return list
}

func formatFields(c agent.Change) []string {
	var list []string
	for _, f := range c.Fields {
		list = append(list, f.Field+": "+f.Old+" -> "+f.New)
	}
	return list
}

func TestApplyIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changes := w.registry.ApplyJSON(declared)
	want := []string{
		"create skill files", "create skill everything", "create agent billing",
		"create assignment billing/files", "create assignment billing/everything",
	}
	if got := formatActions(changes); !slices.Equal(got, want) {
		t.Errorf("first: %v", got)
	}
	wantFields := []string{
		"transport:  -> stdio", `command:  -> ["npx","-y","server","a && b"]`, "env.LOG_LEVEL:  -> (secret) set",
		"auto_approve:  -> false", "trust_new_tools:  -> false", "approval_timeout:  -> 1m30s", "call_timeout:  -> 1m", "resources:  -> gated", "questions:  -> reviewer",
		"tools.move_file:  -> {risk: high}", "tools.read_file:  -> {idempotent: true}",
	}
	if got := formatFields(changes[0]); !slices.Equal(got, wantFields) {
		t.Errorf("fields of files: %q", got)
	}
	if text, err := json.Marshal(changes); err != nil || strings.Contains(string(text), "g3heim") {
		t.Errorf("changes tell secrets: %s, %v", text, err)
	}
	billing := w.registry.Agent("billing")
	events := w.db.Count("audit_events")
	for _, change := range w.registry.ApplyJSON(declared) {
		if change.Action != agent.ActionUnchanged || len(change.Fields) != 0 {
			t.Errorf("second: %+v", change)
		}
	}
	if again := w.registry.Agent("billing"); again.Revision != billing.Revision || w.db.Count("audit_events") != events {
		t.Error("applying again left a trace")
	}
	if n := w.db.Count(`skills WHERE revision <> 1`); n != 0 {
		t.Errorf("%d skills have a new revision", n)
	}
	for _, table := range []string{"skills", "agents", "audit_events"} {
		if n := w.db.Count(table + ` x WHERE position('g3heim' in x::text) > 0`); n != 0 {
			t.Errorf("a secret is stored in clear in %s", table)
		}
	}
	if n := w.db.Count(`(SELECT secrets FROM skills UNION ALL SELECT secrets FROM agents) x
		WHERE position('g3heim'::bytea in secrets) > 0`); n != 0 {
		t.Error("a secret is stored unencrypted")
	}
}

func TestApplyReturnsChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(declared)
	changed := strings.NewReplacer(
		`"X-Team": "g3heim"`, `"X-Team": "n3u"`, `"LOG_LEVEL": "g3heim"`, `"OTHER": "n3u"`, `"90s"`, `"2m"`,
		`, "wait_budget": "20s"`, ``, `{"skill": "files"},`, ``, `["get-sum", "echo"]`, `["echo"]`,
		`{"risk": "high"}`, `{}`,
	).Replace(declared)
	billing := w.registry.Agent("billing")
	changes := w.registry.ApplyJSON(changed)
	want := []string{
		"update skill files", "update skill everything", "update agent billing",
		"update assignment billing/everything", "delete assignment billing/files",
	}
	if got := formatActions(changes); !slices.Equal(got, want) {
		t.Fatalf("%v", got)
	}
	for i, want := range [][]string{
		{
			"env.OTHER:  -> (secret) set", "approval_timeout: 1m30s -> 2m", "env.LOG_LEVEL:  -> (secret) removed",
			"tools.move_file: {risk: high} -> ",
		},
		{"headers.X-Team:  -> (secret) changed"},
		{"wait_budget: 20s -> 50s"},
		{`tools: ["echo","get-sum"] -> ["echo"]`},
	} {
		if got := formatFields(changes[i]); !slices.Equal(got, want) {
			t.Errorf("%s: %q", changes[i].Name, got)
		}
	}
	if got := w.registry.Agent("billing").Revision; got != billing.Revision+1 {
		t.Errorf("revision %d, was %d: one apply is one change", got, billing.Revision)
	}
	// Skills and agents that the spec does not name stay, as do the assignments of an agent without a list.
	changes = w.registry.ApplyJSON(`{"agents":[{"name":"billing"}]}`)
	if got := formatActions(changes); !slices.Equal(got, []string{"update agent billing"}) {
		t.Errorf("%v", got)
	}
	list, err := w.Assignments(t.Context(), uuid.Nil)
	if err != nil || len(list) != 1 || list[0].Skill != "everything" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	changes, err := w.Apply(t.Context(), operator, readSpec(t, declared), true)
	if err != nil || len(changes) != 5 || changes[0].Action != agent.ActionCreate {
		t.Errorf("%+v, %v", changes, err)
	}
	if n := w.db.Count("skills") + w.db.Count("agents") + w.db.Count("assignments") + w.db.Count("audit_events"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
	_, err = w.Apply(t.Context(), operator, readSpec(t, `{"agents":[{"name":"a","skills":[{"skill":"none"}]}]}`), true)
	if _, ok := errors.AsType[*fault.InvalidError](err); !ok {
		t.Errorf("an error is one in a dry run too: %v", err)
	}
}

func TestApplyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := strings.Replace(declared, `{"skill": "files"}`, `{"skill": "fils"}`, 1)
	_, err := w.Apply(t.Context(), operator, readSpec(t, broken), false)
	var invalid *fault.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Name != "agents[0].skills[0].skill" {
		t.Errorf("error %v", err)
	}
	if n := w.db.Count("skills") + w.db.Count("agents") + w.db.Count("audit_events"); n != 0 {
		t.Errorf("%d rows were written", n)
	}
}

func TestSpecIsValidated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const skill = `{"name":"s","transport":"http","url":"http://h/"`
	const api = `{"name":"s","transport":"openapi","spec":"http://h/openapi.json"`
	for name, tc := range map[string]struct{ text, path string }{
		"name":              {`{"skills":[{"name":"S","transport":"http","url":"http://h/"}]}`, "skills[0].name"},
		"two underscores":   {`{"skills":[{"name":"a__b","transport":"http","url":"http://h/"}]}`, "skills[0].name"},
		"last underscore":   {`{"skills":[{"name":"a_","transport":"http","url":"http://h/"}]}`, "skills[0].name"},
		"twice":             {`{"skills":[` + skill + `},` + skill + `}]}`, "skills[1].name"},
		"transport":         {`{"skills":[{"name":"s","transport":"sse","url":"http://h/"}]}`, "skills[0].transport"},
		"no document":       {`{"skills":[{"name":"s","transport":"openapi"}]}`, "skills[0].spec"},
		"two documents":     {`{"skills":[{"name":"s","transport":"openapi","spec":"http://h/","document":"{}"}]}`, "skills[0].document"},
		"url of an api":     {`{"skills":[` + api + `,"url":"http://h/"}]}`, "skills[0].url"},
		"base_url of mcp":   {`{"skills":[{"name":"s","transport":"http","base_url":"http://h/"}]}`, "skills[0].base_url"},
		"no base url":       {`{"skills":[{"name":"s","transport":"http-api","endpoints":[{"name":"x","path":"/x"}]}]}`, "skills[0].base_url"},
		"endpoints":         {`{"skills":[` + api + `,"endpoints":[{"name":"x","path":"/x"}]}]}`, "skills[0].endpoints"},
		"spec of mcp":       {`{"skills":[` + skill + `,"spec":"http://h/"}]}`, "skills[0].spec"},
		"auth type":         {`{"skills":[` + api + `,"auth":{"type":"digest","secret":"x"}}]}`, "skills[0].auth.type"},
		"one key for each":  {`{"skills":[` + api + `,"connection":"per_user","auth":{"type":"bearer","secret":"x"}}]}`, "skills[0].connection"},
		"no secret":         {`{"skills":[` + api + `,"auth":{"type":"bearer"}}]}`, "skills[0].auth.secret"},
		"secret with CRLF":  {`{"skills":[` + api + `,"auth":{"type":"bearer","secret":"x\r\nHost: y"}}]}`, "skills[0].auth.secret"},
		"key nowhere":       {`{"skills":[` + api + `,"auth":{"type":"api_key","name":"k","secret":"x"}}]}`, "skills[0].auth.in"},
		"key without name":  {`{"skills":[` + api + `,"auth":{"type":"api_key","in":"query","secret":"x"}}]}`, "skills[0].auth.name"},
		"key as our header": {`{"skills":[` + api + `,"auth":{"type":"api_key","in":"header","name":"host","secret":"x"}}]}`, "skills[0].auth.name"},
		"two credentials":   {`{"skills":[` + api + `,"headers":{"authorization":"x"},"auth":{"type":"bearer","secret":"x"}}]}`, "skills[0].auth.type"},
		"oauth for nothing": {`{"skills":[` + api + `,"oauth":{}}]}`, "skills[0].base_url"},
		"endpoint's path":   {`{"skills":[{"name":"s","transport":"http-api","base_url":"http://h/","endpoints":[{"name":"x","path":"x"}]}]}`, "skills[0].endpoints[0].path"},
		"query in base":     {`{"skills":[` + api + `,"base_url":"https://h/v1?version=2"}]}`, "skills[0].base_url"},
		"dots in base":      {`{"skills":[` + api + `,"base_url":"https://h/v1/../x"}]}`, "skills[0].base_url"},
		"header of framing": {`{"skills":[` + api + `,"headers":{"Traceparent":"x"}}]}`, "skills[0].headers.Traceparent"},
		"no endpoints":      {`{"skills":[{"name":"s","transport":"http-api","base_url":"http://h/"}]}`, "skills[0].endpoints"},
		"empty filter":      {`{"skills":[` + api + `,"include":[{}]}]}`, "skills[0].include[0]"},
		"select program":    {`{"skills":[` + api + `,"tools":{"x":{"select":".["}}}]}`, "skills[0].tools.x.select"},
		"select of mcp":     {`{"skills":[` + skill + `,"tools":{"x":{"select":"."}}}]}`, "skills[0].tools.x.select"},
		"no url":            {`{"skills":[{"name":"s","transport":"http"}]}`, "skills[0].url"},
		"relative url":      {`{"skills":[{"name":"s","transport":"http","url":"/mcp"}]}`, "skills[0].url"},
		"scheme":            {`{"skills":[{"name":"s","transport":"http","url":"file:///etc/passwd"}]}`, "skills[0].url"},
		"password":          {`{"skills":[{"name":"s","transport":"http","url":"http://u:p@h/"}]}`, "skills[0].url"},
		"fragment":          {`{"skills":[{"name":"s","transport":"http","url":"http://h/#x"}]}`, "skills[0].url"},
		"command with http": {`{"skills":[` + skill + `,"command":["x"]}]}`, "skills[0].command"},
		"no command":        {`{"skills":[{"name":"s","transport":"stdio"}]}`, "skills[0].command"},
		"empty program":     {`{"skills":[{"name":"s","transport":"stdio","command":[""]}]}`, "skills[0].command"},
		"NUL in command":    {`{"skills":[{"name":"s","transport":"stdio","command":["x","a\u0000"]}]}`, "skills[0].command[1]"},
		"variable":          {`{"skills":[{"name":"s","transport":"stdio","command":["x"],"env":{"A=B":"c"}}]}`, "skills[0].env.A=B"},
		"host header":       {`{"skills":[` + skill + `,"headers":{"host":"x"}}]}`, "skills[0].headers.Host"},
		"mcp header":        {`{"skills":[` + skill + `,"headers":{"mcp-session-id":"x"}}]}`, "skills[0].headers.Mcp-Session-Id"},
		"header name":       {`{"skills":[` + skill + `,"headers":{"X Y":"x"}}]}`, "skills[0].headers.X Y"},
		"header value":      {`{"skills":[` + skill + `,"headers":{"X-Y":"x\r\nHost: y"}}]}`, "skills[0].headers.X-Y"},
		"header twice":      {`{"skills":[` + skill + `,"headers":{"X-Y":"x","x-y":"y"}}]}`, "skills[0].headers.x-y"},
		"short approval":    {`{"skills":[` + skill + `,"approval_timeout":"10ms"}]}`, "skills[0].approval_timeout"},
		"short validity":    {`{"skills":[` + skill + `,"approval_validity":"10ms"}]}`, "skills[0].approval_validity"},
		"long call":         {`{"skills":[` + skill + `,"call_timeout":"24h"}]}`, "skills[0].call_timeout"},
		"risk":              {`{"skills":[` + skill + `,"tools":{"x":{"risk":"low"}}}]}`, "skills[0].tools.x.risk"},
		"agent name":        {`{"agents":[{"name":""}]}`, "agents[0].name"},
		"agent twice":       {`{"agents":[{"name":"a"},{"name":"a"}]}`, "agents[1].name"},
		"wait budget":       {`{"agents":[{"name":"a","wait_budget":"-1s"}]}`, "agents[0].wait_budget"},
		"no wait budget":    {`{"agents":[{"name":"a","wait_budget":"0s"}]}`, "agents[0].wait_budget"},
		"pending as":        {`{"agents":[{"name":"a","pending_as":"success"}]}`, "agents[0].pending_as"},
		"error style":       {`{"agents":[{"name":"a","error_style":"json"}]}`, "agents[0].error_style"},
		"reply timeout":     {`{"agents":[{"name":"a","reply_timeout":"10ms"}]}`, "agents[0].reply_timeout"},
		"no reply for days": {`{"agents":[{"name":"a","reply_timeout":"25h"}]}`, "agents[0].reply_timeout"},
		"negative rate":     {`{"agents":[{"name":"a","limits":{"calls_per_minute":-1}}]}`, "agents[0].limits.calls_per_minute"},
		"huge concurrency":  {`{"agents":[{"name":"a","limits":{"concurrency":100001}}]}`, "agents[0].limits.concurrency"},
		"headers of stdio":  {`{"skills":[{"name":"s","transport":"stdio","command":["x"],"identity_headers":{"enabled":true}}]}`, "skills[0].identity_headers"},
		"identity header":   {`{"skills":[` + skill + `,"identity_headers":{"enabled":true,"agent":"X Y"}}]}`, "skills[0].identity_headers.agent"},
		"a reserved one":    {`{"skills":[` + skill + `,"identity_headers":{"enabled":true,"call":"mcp-session-id"}}]}`, "skills[0].identity_headers.call"},
		"authorization":     {`{"skills":[` + skill + `,"identity_headers":{"enabled":true,"principal":"authorization"}}]}`, "skills[0].identity_headers.principal"},
		"the same twice":    {`{"skills":[` + skill + `,"identity_headers":{"enabled":true,"call":"x-holdpoint-agent"}}]}`, "skills[0].identity_headers.call"},
		"the skill's own":   {`{"skills":[` + skill + `,"headers":{"x-who":"x"},"identity_headers":{"enabled":true,"principal":"X-Who"}}]}`, "skills[0].identity_headers.principal"},
		"resources":         {`{"skills":[` + skill + `,"resources":"all"}]}`, "skills[0].resources"},
		"not secret":        {`{"skills":[` + skill + `,"tools":{"a":{"not_secret":["/ok","token"]}}}]}`, "skills[0].tools.a.not_secret[1]"},
		"not secret, all":   {`{"skills":[` + skill + `,"tools":{"a":{"not_secret":[""]}}}]}`, "skills[0].tools.a.not_secret[0]"},
		"not secret, bad":   {`{"skills":[` + skill + `,"tools":{"a":{"not_secret":["/a~2"]}}}]}`, "skills[0].tools.a.not_secret[0]"},
		"questions":         {`{"skills":[` + skill + `,"questions":"nobody"}]}`, "skills[0].questions"},
		"model":             {`{"agents":[{"name":"a","model":{"provider":"openai","name":""}}]}`, "agents[0].model.name"},
		"model url":         {`{"agents":[{"name":"a","model":{"provider":"openai","name":"m","base_url":"x"}}]}`, "agents[0].model.base_url"},
		"no tools":          {`{"skills":[` + skill + `}],"agents":[{"name":"a","skills":[{"skill":"s","tools":[]}]}]}`, "agents[0].skills[0].tools"},
		"skill twice":       {`{"skills":[` + skill + `}],"agents":[{"name":"a","skills":[{"skill":"s"},{"skill":"s"}]}]}`, "agents[0].skills[1].skill"},
		"prefix":            {`{"skills":[` + skill + `}],"agents":[{"name":"a","skills":[{"skill":"s","prefix":"a.b"}]}]}`, "agents[0].skills[0].prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := w.Apply(t.Context(), operator, readSpec(t, tc.text), false)
			var invalid *fault.InvalidError
			if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Name != tc.path {
				t.Errorf("want one problem at %s, got %v", tc.path, err)
			}
		})
	}
}

// A mark of a value that is no secret is audited like other settings.
func TestNotSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := `{"skills":[{"name":"files","transport":"http","url":"http://h/","tools":{"write":{"not_secret":["/b","/a/*","/b"]}}}]}`
	created := w.registry.ApplyJSON(text)
	if got := formatFields(created[0]); !slices.Contains(got, `tools.write:  -> {not_secret: ["/a/*","/b"]}`) {
		t.Errorf("created: %q", got)
	}
	if again := w.registry.ApplyJSON(text); again[0].Action != agent.ActionUnchanged {
		t.Errorf("again: %+v", again)
	}
	skill, err := w.SkillByName(t.Context(), "files")
	check(t, err)
	for _, tt := range []struct {
		patch agent.ToolPatch
		want  []string
	}{
		{agent.ToolPatch{Risk: new(agent.RiskHigh)}, []string{"/a/*", "/b"}},
		{agent.ToolPatch{NotSecret: &[]string{"/c"}}, []string{"/c"}},
		{agent.ToolPatch{NotSecret: &[]string{}}, nil},
	} {
		skill, err = w.UpdateTool(t.Context(), operator, skill.ID, "write", tt.patch)
		check(t, err)
		if got := skill.Tools["write"]; !slices.Equal(got.NotSecret, tt.want) || got.Risk != agent.RiskHigh {
			t.Errorf("%+v, want %q", got, tt.want)
		}
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: skill.ID, Action: audit.SkillUpdated})
	check(t, err)
	if len(events) != 3 || !strings.Contains(fmt.Sprint(events), `not_secret: ["/c"]`) {
		t.Errorf("events %v", events)
	}
}

func TestAllInvalidFieldsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Apply(t.Context(), operator, readSpec(t, `{"skills":[{"name":"S","transport":"http"},
		{"name":"t","transport":"http","url":"http://h/","call_timeout":"0s"}],"agents":[{"name":"A"}]}`), false)
	var invalid *fault.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 4 {
		t.Errorf("%v", err)
	}
}

// Skills may run only permitted commands. The error names the flag.
func TestOnlyAllowedCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	on := func(words ...string) tool.StdioPolicy { return tool.StdioPolicy{On: true, Allow: [][]string{words}} }
	rooted := on("x")
	rooted.Paths, rooted.Keep = []string{"/"}, []string{"/usr/lib"}
	for name, test := range map[string]struct {
		policy     tool.StdioPolicy
		spec       agent.SkillSpec
		path, flag string
	}{
		"off":                {tool.StdioPolicy{Allow: [][]string{{}}}, agent.SkillSpec{Command: []string{"x"}}, "transport", "--stdio-allow x"},
		"nothing allowed":    {tool.StdioPolicy{On: true, Allow: [][]string{}}, agent.SkillSpec{Command: []string{"x"}}, "command", "--stdio-allow x"},
		"other program":      {on("y"), agent.SkillSpec{Command: []string{"x"}}, "command", "--stdio-allow x"},
		"other argument":     {on("x", "a"), agent.SkillSpec{Command: []string{"x", "ab"}}, "command", "--stdio-allow 'x ab'"},
		"no argument":        {on("x", "a"), agent.SkillSpec{Command: []string{"x"}}, "command", "--stdio-allow x"},
		"other account":      {on("x"), agent.SkillSpec{Command: []string{"x"}, RunAs: "daemon"}, "run_as", "--stdio-run-as daemon"},
		"other code":         {on("x"), agent.SkillSpec{Command: []string{"x"}, Env: map[string]string{"npm_config_registry": "b"}}, "env.npm_config_registry", "env npm_config_registry=VALUE"},
		"path not listed":    {on("x"), agent.SkillSpec{Command: []string{"x"}, Paths: &tool.Paths{Read: []string{"/usr"}}}, "paths.read[0]", "--stdio-paths /usr"},
		"path of the server": {rooted, agent.SkillSpec{Command: []string{"x"}, Paths: &tool.Paths{Write: []string{"/usr"}}}, "paths.write[0]", "data directory"},
	} {
		s := w.start(agent.Config{Stdio: test.policy})
		test.spec.Name, test.spec.Transport = "s", tool.Stdio
		refused := func(err error, path string) {
			var invalid *fault.InvalidError
			if !errors.As(err, &invalid) || invalid.Fields[0].Name != path || !strings.Contains(invalid.Fields[0].Expected, test.flag) {
				t.Errorf("%s: %v", name, err)
			}
		}
		_, err := s.CreateSkill(t.Context(), operator, test.spec)
		refused(err, test.path)
		_, err = s.Apply(t.Context(), operator, agent.Spec{Skills: []agent.SkillSpec{test.spec}}, false)
		refused(err, "skills[0]."+test.path)
	}
	allowed := w.start(agent.Config{Stdio: on("npx", "-y", "a")})
	skill, err := allowed.CreateSkill(t.Context(), operator, agent.SkillSpec{Name: "s", Transport: tool.Stdio, Command: []string{"npx", "-y", "a", "/srv"}})
	check(t, err)
	var invalid *fault.InvalidError
	if _, err := allowed.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{Command: &[]string{"npx", "-y", "b"}}); !errors.As(err, &invalid) {
		t.Errorf("edited: %v", err)
	}
	refused, err := agent.RefusedSkills(t.Context(), w.db.Pool(), tool.StdioPolicy{})
	if err != nil || len(refused) != 1 || refused[0].Name != "s" || refused[0].Flags[0] != "--stdio-allow 'npx -y a /srv'" {
		t.Errorf("after an upgrade: %v, %v", refused, err)
	}
	if refused, err := agent.RefusedSkills(t.Context(), w.db.Pool(), on("npx", "-y", "a")); err != nil || len(refused) != 0 {
		t.Errorf("with the flag: %v, %v", refused, err)
	}
}

// A changed command does not inherit the variables of the previous one.
func TestVariablesDoNotFollowToAnotherCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	skill, err := w.CreateSkill(t.Context(), operator, agent.SkillSpec{
		Name: "s", Transport: tool.Stdio, Command: []string{"x", "a"}, Env: map[string]string{"KEY": "treasure", "OTHER": "b"},
	})
	check(t, err)
	other := &[]string{"sh", "-c", "env"}
	_, err = w.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{Command: other, Env: map[string]*string{"OTHER": new("c")}})
	var invalid *fault.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Name != "env.KEY" || !strings.Contains(invalid.Fields[0].Expected, "another command") {
		t.Fatalf("%v", err)
	}
	// A variable that makes the command run other code counts as another command.
	_, err = w.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{Env: map[string]*string{"NODE_OPTIONS": new("--require=/srv/theirs")}})
	if !errors.As(err, &invalid) || len(invalid.Fields) != 2 || invalid.Fields[0].Name != "env.KEY" || invalid.Fields[1].Name != "env.OTHER" {
		t.Fatalf("%v", err)
	}
	_, err = w.UpdateSkill(t.Context(), operator, skill.ID, agent.SkillPatch{Command: other, Env: map[string]*string{"OTHER": new("c"), "KEY": nil}})
	check(t, err)
	_, server, err := w.FreshSkill(t.Context(), skill.ID)
	if err != nil || len(server.Env) != 1 || server.Env["OTHER"] != "c" {
		t.Errorf("it gets %v, %v", server.Env, err)
	}
	// A spec removes a variable that it leaves out.
	_, err = w.Apply(t.Context(), operator, agent.Spec{Skills: []agent.SkillSpec{{Name: "s", Transport: tool.Stdio, Command: []string{"x"}}}}, false)
	check(t, err)
	if _, server, err = w.FreshSkill(t.Context(), skill.ID); err != nil || len(server.Env) != 0 {
		t.Errorf("applied, it gets %v, %v", server.Env, err)
	}
}

func TestSpecSurvivesJSON(t *testing.T) {
	t.Parallel()
	first := readSpec(t, declared)
	text, err := json.Marshal(first)
	check(t, err)
	if !strings.Contains(string(text), `"approval_timeout":"1m30s"`) {
		t.Errorf("%s", text)
	}
	empty, err := json.Marshal(agent.AssignmentSpec{Skill: "s", Tools: []string{}})
	if err != nil || string(empty) != `{"skill":"s","tools":[]}` {
		t.Errorf("no tools became all tools: %s, %v", empty, err)
	}
	var bad agent.SkillSpec
	if err := json.Unmarshal([]byte(`{"call_timeout":"5 minutes"}`), &bad); err == nil || !strings.Contains(err.Error(), "90s") {
		t.Errorf("%v", err)
	}
}
