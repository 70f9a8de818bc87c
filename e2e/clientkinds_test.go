package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
)

// mcpClient is an MCP client of another vendor.
type mcpClient interface {
	// listTools returns the names of all tools.
	listTools(ctx context.Context) ([]string, error)
	// callTool calls a tool with the argument n and the client's own timeouts.
	callTool(ctx context.Context, tool string, n int) (json.RawMessage, error)
	// dropClient kills the client or breaks its connections. A running call ends with an error.
	dropClient()
}

// clientKind creates clients of one kind.
type clientKind struct {
	name string
	make func(t *testing.T, agent holdpoint.Agent) mcpClient
	// timer means that the client times out after 60 s or its configured timeout, and sends notifications/cancelled or
	// ends its request.
	timer bool
}

var clientKinds = []clientKind{
	{name: "typescript 1.x", make: newTypeScriptClient("1"), timer: true},
	{name: "typescript 2.x with sessions", make: newTypeScriptClient("2"), timer: true},
	{name: "typescript 2.x of 2026-07-28", make: newTypeScriptClient("2-modern"), timer: true},
	{name: "typescript 1.x through connect", make: throughConnect("1"), timer: true},
	{name: "typescript 2.x of 2026-07-28 through connect", make: throughConnect("2-modern"), timer: true},
	{name: "go with sessions", make: goSDK("2025-11-25")},
	{name: "go of 2026-07-28", make: goSDK("2026-07-28")},
	{name: "go through connect", make: goThroughConnect},
	{name: "tasks", make: newTasking},
	{name: "tasks through connect", make: newTaskingThroughConnect},
	{name: "curl", make: newCurl},
	{name: "inspector", make: newInspector},
}

func endpointURL(agent holdpoint.Agent) string { return agent.URL + "/agents/" + agent.Name + "/mcp" }

// newTypeScriptClient returns a client of the official TypeScript SDK in its own process.
func newTypeScriptClient(version string) func(*testing.T, holdpoint.Agent) mcpClient {
	return func(t *testing.T, agent holdpoint.Agent) mcpClient {
		t.Helper()
		c := newSDKClient(t)
		c.connectBy(map[string]any{"sdk": version, "url": endpointURL(agent), "key": agent.Key})
		return c
	}
}

// throughConnect does the same over holdpoint connect.
func throughConnect(version string) func(*testing.T, holdpoint.Agent) mcpClient {
	return func(t *testing.T, agent holdpoint.Agent) mcpClient {
		t.Helper()
		c := newSDKClient(t)
		c.connectBy(map[string]any{
			"sdk": version, "command": []string{program.Path, "connect", agent.Name}, "env": connectEnv(agent),
		})
		return c
	}
}

func connectEnv(agent holdpoint.Agent) map[string]string {
	return map[string]string{"HOLDPOINT_URL": agent.URL, "HOLDPOINT_TOKEN": agent.Key, "PATH": os.Getenv("PATH"), "GORACE": "atexit_sleep_ms=0"}
}

func (c *sdkClient) connectBy(order map[string]any) {
	c.t.Helper()
	order["do"] = "connect"
	if said := c.orderAny(order); said.Error != nil {
		c.t.Fatalf("the SDK's client does not connect: %v", said.Error)
	}
}

func (c *sdkClient) listTools(context.Context) ([]string, error) {
	said, err := c.tryOrder(map[string]any{"do": "list"})
	return said.Names, err
}

func (c *sdkClient) callTool(_ context.Context, tool string, n int) (json.RawMessage, error) {
	order := map[string]any{"do": "call", "tool": tool, "arguments": map[string]int{"n": n}, "reset": c.reset}
	if c.timeout > 0 {
		order["timeout"] = c.timeout.Milliseconds()
	}
	said, err := c.tryOrder(order)
	return said.Result, err
}

func (c *sdkClient) dropClient() {
	_ = c.cmd.Process.Kill() // it may have exited
}

// goClient is a client of the official Go SDK.
type goClient struct {
	session *mcp.ClientSession
	drops   func()
}

// conns tracks a client's connections, so that tests can break them.
type conns struct {
	mu   sync.Mutex
	open []net.Conn
}

func (c *conns) newTransport() *http.Transport {
	return &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			c.mu.Lock()
			c.open = append(c.open, conn)
			c.mu.Unlock()
		}
		return conn, err
	}}
}

func (c *conns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.open {
		_ = conn.Close() // it may be closed
	}
}

// keyed adds an agent's key to each request.
type keyed struct {
	http.RoundTripper
	key string
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+k.key)
	return k.RoundTripper.RoundTrip(r)
}

func goSDK(version string) func(*testing.T, holdpoint.Agent) mcpClient {
	return func(t *testing.T, agent holdpoint.Agent) mcpClient {
		t.Helper()
		all := &conns{}
		transport := all.newTransport()
		t.Cleanup(transport.CloseIdleConnections)
		return connectGo(t, &mcp.StreamableClientTransport{
			Endpoint: endpointURL(agent), HTTPClient: &http.Client{Transport: keyed{transport, agent.Key}}, MaxRetries: -1,
		}, version, all.closeAll)
	}
}

func goThroughConnect(t *testing.T, agent holdpoint.Agent) mcpClient {
	t.Helper()
	cmd := exec.Command(program.Path, "connect", agent.Name)
	for name, value := range connectEnv(agent) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Stderr = t.Output()
	return connectGo(t, &mcp.CommandTransport{Command: cmd}, "", func() { _ = cmd.Process.Kill() }) // it may have exited
}

func connectGo(t *testing.T, transport mcp.Transport, version string, drops func()) *goClient {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // it may be broken
	if got := session.InitializeResult().ProtocolVersion; version != "" && got != version {
		t.Fatalf("the Go SDK speaks %s, want %s", got, version)
	}
	return &goClient{session, drops}
}

func (c *goClient) listTools(ctx context.Context) ([]string, error) {
	var names []string
	for tool, err := range c.session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *goClient) callTool(ctx context.Context, tool string, n int) (json.RawMessage, error) {
	result, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]int{"n": n}})
	if err != nil {
		return nil, err
	}
	return json.Marshal(result)
}

func (c *goClient) dropClient() { c.drops() }

// command is a client that starts a process for each request.
type command struct {
	t     *testing.T
	agent holdpoint.Agent
	args  func(method, tool string, n int) []string
	read  func(stdout []byte) (json.RawMessage, error)

	mu      sync.Mutex
	running *exec.Cmd
}

func (c *command) runCommand(ctx context.Context, method, tool string, n int) (json.RawMessage, error) {
	args := c.args(method, tool, n)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.t.TempDir(), "LANG=C.UTF-8"}
	c.mu.Lock()
	c.running = cmd
	err := cmd.Start()
	c.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	exit, exited := errors.AsType[*exec.ExitError](err)
	if err != nil && (!exited || !exit.Exited() || stdout.Len() == 0) { // the Inspector exits with 5 on isError
		return nil, fmt.Errorf("%s: %w\n%s", args[0], err, stderr.String())
	}
	return c.read(stdout.Bytes())
}

func (c *command) listTools(ctx context.Context) ([]string, error) {
	result, err := c.runCommand(ctx, "tools/list", "", 0)
	if err != nil {
		return nil, err
	}
	return listedNames(result)
}

func listedNames(result json.RawMessage) ([]string, error) {
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names, nil
}

func (c *command) callTool(ctx context.Context, tool string, n int) (json.RawMessage, error) {
	return c.runCommand(ctx, "tools/call", tool, n)
}

func (c *command) dropClient() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != nil && c.running.Process != nil {
		_ = c.running.Process.Kill() // it may have exited
	}
}

// newCurl returns plain curl: a POST of JSON without session or MCP headers.
func newCurl(t *testing.T, agent holdpoint.Agent) mcpClient {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal("curl is needed and not on the PATH; install it (Debian: apt-get install curl)")
	}
	return &command{
		t: t, agent: agent,
		args: func(method, tool string, n int) []string {
			params := "{}"
			if tool != "" {
				params = fmt.Sprintf(`{"name":%q,"arguments":{"n":%d}}`, tool, n)
			}
			return []string{
				path, "--silent", "--show-error", endpointURL(agent), "-H", "Authorization: Bearer " + agent.Key,
				"-d", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params),
			}
		},
		read: func(stdout []byte) (json.RawMessage, error) {
			var answer struct{ Result, Error json.RawMessage }
			if err := json.Unmarshal(stdout, &answer); err != nil {
				return nil, fmt.Errorf("it is no JSON: %s", stdout)
			}
			if answer.Error != nil {
				return nil, fmt.Errorf("error %s", answer.Error)
			}
			return answer.Result, nil
		},
	}
}

// newInspector returns the command line of MCP Inspector.
func newInspector(t *testing.T, agent holdpoint.Agent) mcpClient {
	t.Helper()
	launcher := npmPackage(t, "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
	nodePath := findNode(t)
	return &command{
		t: t, agent: agent,
		args: func(method, tool string, n int) []string {
			args := []string{
				nodePath, launcher, "--cli", endpointURL(agent), "--transport", "http",
				"--header", "Authorization: Bearer " + agent.Key, "--method", method,
			}
			if tool != "" {
				args = append(args, "--tool-name", tool, "--tool-arg", fmt.Sprintf("n=%d", n))
			}
			return args
		},
		read: func(stdout []byte) (json.RawMessage, error) { return stdout, nil },
	}
}

// parseResult parses a result for comparison.
func parseResult(raw json.RawMessage) (holdpoint.Answer, error) {
	answer := holdpoint.Answer{Raw: raw}
	err := json.NewDecoder(bytes.NewReader(raw)).Decode(&answer.Result)
	if errors.Is(err, io.EOF) {
		err = errors.New("there is no result")
	}
	return answer, err
}

func recordedText(n int) string { return fmt.Sprintf("recorded %d", n) }

// mustContain fails the test if one of the names is missing.
func mustContain(t *testing.T, names []string, wanted ...string) {
	t.Helper()
	all := strings.Join(names, " ")
	for _, name := range wanted {
		if !strings.Contains(" "+all+" ", " "+name+" ") {
			t.Errorf("it lists %s, want %s among them", all, name)
		}
	}
}

// awaiting is a minimal client with a session. Once it knows a call's id, it uses holdpoint_await.
type awaiting struct {
	holdpoint.Agent
	known map[int]string // call ids
}

func newAwaiting(t *testing.T, agent holdpoint.Agent) mcpClient {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + agent.Key}}
	_, got, err := holdpoint.Post(t.Context(), endpointURL(agent), header, "initialize",
		`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`)
	if err != nil {
		t.Fatal(err)
	}
	agent.Header = http.Header{"Mcp-Session-Id": {got.Get("Mcp-Session-Id")}, "Mcp-Protocol-Version": {"2025-06-18"}}
	return &awaiting{agent, map[int]string{}}
}

func (c *awaiting) listTools(ctx context.Context) ([]string, error) {
	answer, err := c.Request(ctx, "tools/list", "{}")
	if err != nil {
		return nil, err
	}
	return listedNames(answer.Raw)
}

func (c *awaiting) callTool(ctx context.Context, tool string, n int) (json.RawMessage, error) {
	if id := c.known[n]; id != "" {
		answer, err := c.Await(ctx, id)
		return answer.Raw, err
	}
	answer, err := c.CallTool(ctx, tool, fmt.Sprintf(`{"n":%d}`, n))
	if err == nil {
		return answer.Raw, nil
	}
	// Find the call in the API, as a person would.
	calls, failed := holdpoint.List[holdpoint.Call](ctx, holdpoint.API{URL: c.URL, Token: c.Key}, "calls", "agent="+c.Name)
	for _, made := range calls {
		if argumentN(made.Arguments) == strconv.Itoa(n) {
			c.known[n] = made.ID
		}
	}
	return nil, errors.Join(err, failed)
}

func (c *awaiting) dropClient() {}
