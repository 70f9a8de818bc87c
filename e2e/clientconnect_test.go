package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// connected is a running holdpoint connect.
type connected struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader

	mu     sync.Mutex
	stderr bytes.Buffer
}

func (c *connected) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.Write(p)
}

// stderrText returns the text on standard error so far.
func (c *connected) stderrText() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.String()
}

func startConnect(t *testing.T, agent holdpoint.Agent) *connected {
	t.Helper()
	c := &connected{t: t, cmd: exec.Command(program.Path, "connect", agent.Name)}
	for name, value := range connectEnv(agent) {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	c.cmd.Stderr = c
	in, errIn := c.cmd.StdinPipe()
	out, errOut := c.cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, c.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = in.Close()           // the test may have closed it
		_ = c.cmd.Process.Kill() // it may have exited
		_ = c.cmd.Wait()         // the test may have waited
		if strings.Contains(c.stderrText(), agent.Key) {
			t.Errorf("it shows the key:\n%s", c.stderrText())
		}
	})
	return c
}

func (c *connected) writeMessage(message string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, message+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// readMessage returns the next message.
func (c *connected) readMessage() map[string]json.RawMessage {
	c.t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("%v; it said:\n%s", err, c.stderrText())
	}
	var message map[string]json.RawMessage
	if err := json.Unmarshal(line, &message); err != nil || string(message["jsonrpc"]) != `"2.0"` {
		c.t.Fatalf("it wrote %q, which is no JSON-RPC", line)
	}
	return message
}

// readAnswer returns the answer to a request, and the notifications before it.
func (c *connected) readAnswer(id int) (message map[string]json.RawMessage, heard []string) {
	c.t.Helper()
	for {
		message = c.readMessage()
		if message["method"] == nil && string(message["id"]) == strconv.Itoa(id) {
			return message, heard
		}
		heard = append(heard, strings.Trim(string(message["method"]), `"`))
	}
}

// startSession starts a session and returns the id of the newest conversation.
func (c *connected) startSession(p *holdpoint.Process, agent string) string {
	c.t.Helper()
	c.writeMessage(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"e2e","version":"1"}}}`)
	if message, _ := c.readAnswer(0); message["result"] == nil {
		c.t.Fatalf("initialize is answered with %s", message["error"])
	}
	c.writeMessage(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return listConversations(c.t, p, agent)[0].ID
}

type conversation struct {
	ID      string     `json:"id"`
	EndedAt *time.Time `json:"ended_at"`
}

func listConversations(t *testing.T, p *holdpoint.Process, agent string) []conversation {
	t.Helper()
	list, err := holdpoint.List[conversation](t.Context(), operatorAPI(p), "conversations", "agent="+agent)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func mustBeEnded(t *testing.T, p *holdpoint.Process, agent, id string) {
	t.Helper()
	list := listConversations(t, p, agent)
	i := slices.IndexFunc(list, func(c conversation) bool { return c.ID == id })
	if i < 0 || list[i].EndedAt == nil {
		t.Errorf("the session %s was not ended: %+v", id, list)
	}
}

// TestConnectEnds: at the end of its input and on SIGTERM it ends its session and exits. A waiting call continues.
func TestConnectEnds(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, "50s")
	for name, end := range map[string]func(*connected) error{
		"end of input": func(c *connected) error { return c.in.Close() },
		"SIGTERM":      func(c *connected) error { return c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			n := w.nextNumber()
			c := startConnect(t, w.agent)
			session := c.startSession(w.Process, w.agent.Name)
			c.writeMessage(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counting__record","arguments":{"n":%d}}}`, n))
			shown, err := pendingFor(t.Context(), strconv.Itoa(n), w.Process)
			if err != nil {
				t.Fatal(err)
			}
			if err := end(c); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(c.out); err != nil || len(rest) > 0 {
				t.Errorf("at its end it wrote %q, %v", rest, err)
			}
			if err := c.cmd.Wait(); err != nil {
				t.Errorf("it ended with %v\n%s", err, c.stderrText())
			}
			mustBeEnded(t, w.Process, w.agent.Name, session)
			w.approveCall(t, n)
			awaitCall(t, operatorAPI(w.Process), shown.CallID, hasStatus("succeeded"))
		})
	}
}

// TestConnectGoesOn: it prints the server's messages, opens a new session if the server lost the old one, and waits for
// a server that is down.
func TestConnectGoesOn(t *testing.T) {
	t.Parallel()
	db := newWorld(t)
	counting := skill.NewCounting(t)
	p := db.startServer()
	declared := fmt.Sprintf(clientSkills, counting.URL, "50s")
	db.applyManifest(p, declared)
	agent := db.newAgent(p, "worker")
	c := startConnect(t, agent)
	session := c.startSession(p, agent.Name)

	db.applyManifest(p, strings.Replace(declared, "skills: [counting, open, brief]", "skills: [counting, open]", 1))
	c.writeMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	// If the list already lacks the skill's tools, no notification is needed.
	listed, heard := c.readAnswer(1)
	for bytes.Contains(listed["result"], []byte(`"brief__`)) && !slices.Contains(heard, "notifications/tools/list_changed") {
		message := c.readMessage() // the agent's other lists may change too
		method, err := strconv.Unquote(string(message["method"]))
		if err != nil || !strings.HasSuffix(method, "/list_changed") {
			t.Fatalf("after the tools changed it said %s", message)
		}
		heard = append(heard, method)
	}

	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, endpointURL(agent), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + agent.Key}, "Mcp-Session-Id": {session}}
	if response, err := http.DefaultTransport.RoundTrip(request); err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("ending the session: %v", err)
	}
	c.writeMessage(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"open__record","arguments":{"n":2}}}`)
	if message, _ := c.readAnswer(2); !bytes.Contains(message["result"], []byte(recordedText(2))) {
		t.Errorf("in a new session the call came out as %s%s", message["result"], message["error"])
	}

	p.Kill()
	c.writeMessage(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	o := db.serverOptions()
	o.Port = p.Port
	again := program.Serve(t, o)
	if message, _ := c.readAnswer(3); message["result"] == nil {
		t.Errorf("a list asked for while the server was away: %s", message["error"])
	}
	c.writeMessage(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"open__record","arguments":{"n":3}}}`)
	if message, _ := c.readAnswer(4); !bytes.Contains(message["result"], []byte(recordedText(3))) {
		t.Errorf("after the restart the call came out as %s%s", message["result"], message["error"])
	}
	for _, n := range []string{"2", "3"} {
		if counting.Count(n) != 1 {
			t.Errorf("call %s was executed %d times", n, counting.Count(n))
		}
	}
	newest := listConversations(t, again, agent.Name)[0].ID
	c.in.Close()
	_ = c.cmd.Wait() // other tests check the exit
	mustBeEnded(t, again, agent.Name, newest)
}

// TestConnectRefused: it prints why it cannot work, without the credential.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, "50s")
	wrong := w.agent
	wrong.Key = "hpa_this-is-no-key"
	c := startConnect(t, wrong)
	c.writeMessage(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	message, _ := c.readAnswer(0)
	if said := string(message["error"]); !strings.Contains(said, `"refused"`) || !strings.Contains(said, "HOLDPOINT_TOKEN") ||
		strings.Contains(said, wrong.Key) {
		t.Errorf("with a wrong key it answers %s", said)
	}
	eventually.Succeeds(t, patience, "the log", func() error {
		if !strings.Contains(c.stderrText(), "initialize") {
			return errors.New("it has no word of it")
		}
		return nil
	})
	if ran := newCLI(w.Process, "").Run(t, "connect", "worker"); ran.Code != 1 || ran.Stdout != "" || !strings.Contains(ran.Stderr, "HOLDPOINT_TOKEN") {
		t.Errorf("without a key: exit code %d, %q, %q", ran.Code, ran.Stdout, ran.Stderr)
	}
}
