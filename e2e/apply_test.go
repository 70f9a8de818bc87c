package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// exampleManifest returns the design's example without the skill ledger and the tool restriction of everything.
func exampleManifest(t *testing.T, shared, everythingURL string) string {
	t.Helper()
	return fmt.Sprintf(`skills:
  - name: files
    transport: stdio                 # stdio | http | openapi
    command: [%q, %q, %q]
    paths: {read: [%q], write: [%q]}
    env: {LOG_LEVEL: info}           # all that the child gets besides PATH, LANG and a private HOME
    auto_approve: false              # the default
    approval_timeout: 5m
    call_timeout: 60s
    tools: {move_file: {risk: high}, read_file: {idempotent: true}, write_file: {enabled: true}}
  - name: everything
    transport: http
    url: %s
    headers: {X-Team: {env: TEAM_TOKEN}}
    auto_approve: true
    trust_new_tools: false           # the default
agents:
  - name: billing
    instructions: You file invoices.
    model: {provider: openai, name: some-model, base_url: http://127.0.0.1:11434/v1, api_key_env: OPENAI_API_KEY}
    wait_budget: 50s                 # how long a response is held open for clients without tasks
    skills:
      - files                                            # all its tools, as files__NAME
      - everything
`, findNode(t), npmPackage(t, "@modelcontextprotocol/server-filesystem/dist/index.js"), shared, npmPackage(t, "."), shared, everythingURL)
}

// startEverything runs the real server-everything over streamable HTTP.
func startEverything(t *testing.T) string {
	t.Helper()
	port := holdpoint.FreePort(t)
	cmd := exec.Command(findNode(t), npmPackage(t, "@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp")
	cmd.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", port))
	url := fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
	startListener(t, "server-everything", cmd, url)
	return url
}

// startListener runs a server until the test ends, and returns once it answers.
func startListener(t *testing.T, name string, cmd *exec.Cmd, url string) {
	t.Helper()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()         // killed
		if t.Failed() {
			t.Logf("%s said:\n%s", name, said.String())
		}
	})
	eventually.Succeeds(t, patience, name, func() error {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// exampleWorld has applied the design's example, with a key for its agent.
type exampleWorld struct {
	*world
	server        *holdpoint.Process
	shared        string // the directory that the skill files serves
	everythingURL string
	key           string
}

func newExample(t *testing.T) *exampleWorld {
	t.Helper()
	w := &exampleWorld{world: newWorld(t), shared: t.TempDir(), everythingURL: startEverything(t)}
	if err := errors.Join(os.Chmod(w.shared, 0o1777), os.Chmod(filepath.Dir(w.shared), 0o711)); err != nil { // for the skill's account
		t.Fatal(err)
	}
	w.server = w.startServer()
	c := newCLI(w.server, bootstrapToken)
	c.Env = []string{"TEAM_TOKEN=a-team", "OPENAI_API_KEY=a-key"}
	c.Must(t, "apply", "-f", writeFile(t, "holdpoint.yaml", exampleManifest(t, w.shared, w.everythingURL)))
	w.key = w.newAgent(w.server, "billing").Key
	return w
}

func TestExample(t *testing.T) {
	t.Parallel()
	w := newExample(t)
	t.Run("tools", func(t *testing.T) { w.testTools(t) })
	t.Run("content", func(t *testing.T) { w.testContent(t) })
	t.Run("approve", func(t *testing.T) { w.testApproval(t) })
	t.Run("reject", func(t *testing.T) { w.testRejection(t) })
}

// testTools checks for all tools that the servers offer to a fully capable client, and for Holdpoint's own.
func (w *exampleWorld) testTools(t *testing.T) {
	names := toolNames(t, []byte(newCLI(w.server, w.key).Must(t, "tools", "billing", "--json")), "items")
	want := []string{"ask", "holdpoint_await"} // the agent has a model
	for _, name := range toolNames(t, w.directSession(t)("tools/list", "{}").Raw, "tools") {
		want = append(want, "everything__"+name)
	}
	for _, name := range []string{
		"create_directory", "directory_tree", "edit_file", "get_file_info", "list_allowed_directories", "list_directory",
		"list_directory_with_sizes", "move_file", "read_file", "read_media_file", "read_multiple_files", "read_text_file",
		"search_files", "write_file",
	} {
		want = append(want, "files__"+name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("holdpoint tools lists\n%v, want\n%v", names, want)
	}
	human := newCLI(w.server, w.key).Must(t, "tools", "billing")
	for _, name := range names {
		if !strings.Contains(human, name) {
			t.Errorf("holdpoint tools does not show %s:\n%s", name, human)
		}
	}
}

// toolNames returns the names in a list of tools.
func toolNames(t *testing.T, text []byte, member string) []string {
	t.Helper()
	var list map[string]json.RawMessage
	var tools []struct {
		Name string `json:"name"`
	}
	if err := errors.Join(json.Unmarshal(text, &list), json.Unmarshal(list[member], &tools)); err != nil {
		t.Fatalf("a list of tools is %.200s: %v", text, err)
	}
	names := make([]string, 0, len(tools))
	for _, tool := range tools {
		names = append(names, tool.Name)
	}
	return names
}

// clockTime matches times in the results of server-everything.
var clockTime = regexp.MustCompile(`\d+:\d\d:\d\d [AP]M`)

// testContent compares results with those of a direct call to the server.
func (w *exampleWorld) testContent(t *testing.T) {
	direct := w.directSession(t)
	agent := holdpoint.Agent{URL: w.server.URL, Name: "billing", Key: w.key}
	for tool, arguments := range map[string]string{
		"echo":                   `{"message":"tæxt \u0041 \u2028 <b>"}`,
		"get-sum":                `{"a":1,"b":2}`,
		"get-tiny-image":         `{}`,
		"get-annotated-message":  `{"messageType":"success","includeImage":true}`,
		"get-resource-links":     `{"count":3}`,
		"get-resource-reference": `{"resourceType":"Text","resourceId":1}`,
		"get-structured-content": `{"location":"New York"}`,
		"gzip-file-as-resource":  `{"name":"a.gz","data":"data:text/plain;base64,SGVsbG8=","outputType":"resource"}`,
	} {
		want := direct("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
		got, err := agent.CallTool(t.Context(), "everything__"+tool, arguments)
		if err != nil || got.Error != nil {
			t.Errorf("%s: %v %v", tool, err, got.Error)
			continue
		}
		if g, w := clockTime.ReplaceAll(got.Raw, nil), clockTime.ReplaceAll(want.Raw, nil); string(g) != string(w) {
			t.Errorf("%s: through Holdpoint\n%.2000s\ndirectly\n%.2000s", tool, g, w)
		}
	}
}

// directSession opens a session with the server, without Holdpoint.
func (w *exampleWorld) directSession(t *testing.T) func(method, params string) holdpoint.Answer {
	t.Helper()
	_, header, err := holdpoint.Post(t.Context(), w.everythingURL, nil, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}},"clientInfo":{"name":"direct","version":"1"}}`)
	if err != nil {
		t.Fatalf("connect to server-everything: %v", err)
	}
	session := http.Header{"Mcp-Session-Id": header.Values("Mcp-Session-Id")}
	if err := holdpoint.Notify(t.Context(), w.everythingURL, session, "notifications/initialized"); err != nil {
		t.Fatalf("connect to server-everything: %v", err)
	}
	return func(method, params string) holdpoint.Answer {
		answer, _, err := holdpoint.Post(t.Context(), w.everythingURL, session, method, params)
		if err != nil || answer.Error != nil {
			t.Fatalf("%s %s directly: %v %v", method, params, err, answer.Error)
		}
		return answer
	}
}

// beginWrite calls write_file in the background. The path identifies the call.
func (w *exampleWorld) beginWrite(t *testing.T, name string) (path string, ended <-chan holdpoint.Ran, shown holdpoint.Approval) {
	t.Helper()
	path = filepath.Join(w.shared, name)
	arguments, err := json.Marshal(map[string]string{"path": path, "content": "approved content"})
	if err != nil {
		t.Fatal(err)
	}
	ended = newCLI(w.server, w.key).Start(t, "call", "billing", "files__write_file", "--args", string(arguments))
	eventually.Succeeds(t, patience, "the approval for "+name, func() error {
		list, err := holdpoint.List[holdpoint.Approval](t.Context(), operatorAPI(w.server), "approvals", "status=pending")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(a holdpoint.Approval) bool { return string(a.Arguments) == string(arguments) })
		if i < 0 {
			return fmt.Errorf("it is not among %d", len(list))
		}
		shown = list[i]
		return nil
	})
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is there before anybody decided: %v", err)
	}
	return path, ended, shown
}

func (w *exampleWorld) testApproval(t *testing.T) {
	path, ended, shown := w.beginWrite(t, "approved.txt")
	wrong := shown
	wrong.Digest = strings.Repeat("0", len(shown.Digest))
	wantProblem(t, operatorAPI(w.server).Approve(t.Context(), wrong), 409, "digest_mismatch")
	if err := operatorAPI(w.server).Approve(t.Context(), shown); err != nil {
		t.Fatal(err)
	}
	if ran := <-ended; ran.Code != 0 {
		t.Errorf("call exits %d, want 0\n%s%s", ran.Code, ran.Stdout, ran.Stderr)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "approved content" {
		t.Errorf("the file has %q, %v", content, err)
	}
}

func (w *exampleWorld) testRejection(t *testing.T) {
	path, ended, shown := w.beginWrite(t, "rejected.txt")
	if err := operatorAPI(w.server).Reject(t.Context(), shown, "not this one"); err != nil {
		t.Fatal(err)
	}
	if ran := <-ended; ran.Code != 20 || !strings.Contains(ran.Stdout+ran.Stderr, "not this one") {
		t.Errorf("call exits %d, want 20 and the reason\n%s%s", ran.Code, ran.Stdout, ran.Stderr)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a rejected call: %v", err)
	}
}

func TestApprovalTimesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	w.applyManifest(p, oneSkill(counting.URL, "approval_timeout: 20s\n"))
	ended := newCLI(p, w.newAgent(p, "worker").Key).Start(t, "call", "worker", "counting__record", "--args", `{"n":1}`)
	shown, err := pendingFor(t.Context(), "1", p)
	if err != nil {
		t.Fatal(err)
	}
	if ran := <-ended; ran.Code != 21 {
		t.Errorf("call exits %d, want 21\n%s%s", ran.Code, ran.Stdout, ran.Stderr)
	}
	wantProblem(t, operatorAPI(p).Approve(t.Context(), shown), 409, "expired")
	if n := counting.Count("1"); n != 0 {
		t.Errorf("the expired call arrived %d times", n)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	counting := skill.NewCounting(t)
	p := w.startServer()
	c := newCLI(p, bootstrapToken)
	file := writeFile(t, "holdpoint.yaml", oneSkill(counting.URL, "approval_timeout: 90s\n"))

	if out := c.Must(t, "apply", "-f", file, "--dry-run"); !strings.Contains(out, "counting") {
		t.Errorf("a dry run does not tell what would change: %s", out)
	}
	if skills := listNames(t, p, "skills"); len(skills) != 0 {
		t.Errorf("a dry run made the skills %v", skills)
	}
	c.Must(t, "apply", "-f", file)
	if skills := listNames(t, p, "skills"); !slices.Equal(skills, []string{"counting"}) {
		t.Errorf("apply made the skills %v", skills)
	}
	before := everyThing(t, p)
	c.Must(t, "apply", "-f", file)
	if after := everyThing(t, p); after != before {
		t.Errorf("a second apply changed\n%s\nto\n%s", before, after)
	}
}

// everyThing returns the registry as the API does.
func everyThing(t *testing.T, p *holdpoint.Process) string {
	t.Helper()
	var all strings.Builder
	for _, path := range []string{"skills", "agents", "assignments"} {
		var raw json.RawMessage
		if err := operatorAPI(p).Do(t.Context(), http.MethodGet, path, nil, &raw); err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}

func listNames(t *testing.T, p *holdpoint.Process, path string) []string {
	t.Helper()
	list, err := holdpoint.List[struct {
		Name string `json:"name"`
	}](t.Context(), operatorAPI(p), path, "")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, item := range list {
		names = append(names, item.Name)
	}
	return names
}

func TestApplyErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.startServer()
	for name, tc := range map[string]struct{ yaml, line string }{
		"not YAML":      {"skills:\n  - name: a\n    command: [\n", "3"},
		"unknown key":   {"skills:\n  - name: a\n    transport: http\n    url: http://127.0.0.1:1/mcp\n    colour: red\n", "5"},
		"unknown skill": {"agents:\n  - name: a\n    skills:\n      - nosuch\n", "4"},
		"bad duration":  {"skills:\n  - name: a\n    transport: http\n    url: http://127.0.0.1:1/mcp\n    call_timeout: soon\n", "5"},
	} {
		ran := newCLI(p, bootstrapToken).Run(t, "apply", "-f", writeFile(t, "holdpoint.yaml", tc.yaml))
		if ran.Code != 1 || !regexp.MustCompile(`(:|line )`+tc.line+`\b`).MatchString(ran.Stderr) {
			t.Errorf("%s: exit code %d, want 1 and the line %s\n%s", name, ran.Code, tc.line, ran.Stderr)
		}
	}
	if skills := listNames(t, p, "skills"); len(skills) != 0 {
		t.Errorf("a faulty file made the skills %v", skills)
	}
}
