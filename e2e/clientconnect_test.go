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

// connected is a running holdpoint connect, spoken to line by line.
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

// said is what it wrote to its standard error so far.
func (c *connected) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stderr.String()
}

func connect(t *testing.T, agent holdpoint.Agent) *connected {
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
		_ = c.cmd.Process.Kill() // it may have ended
		_ = c.cmd.Wait()         // the test may have waited
		if strings.Contains(c.said(), agent.Key) {
			t.Errorf("it shows the key:\n%s", c.said())
		}
	})
	return c
}

func (c *connected) say(message string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, message+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next message.
func (c *connected) hear() map[string]json.RawMessage {
	c.t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("%v; it said:\n%s", err, c.said())
	}
	var message map[string]json.RawMessage
	if err := json.Unmarshal(line, &message); err != nil || string(message["jsonrpc"]) != `"2.0"` {
		c.t.Fatalf("it wrote %q, which is no JSON-RPC", line)
	}
	return message
}

// answer returns the answer to a request; notifications before it are heard.
func (c *connected) answer(id int) (message map[string]json.RawMessage, heard []string) {
	c.t.Helper()
	for {
		message = c.hear()
		if message["method"] == nil && string(message["id"]) == strconv.Itoa(id) {
			return message, heard
		}
		heard = append(heard, strings.Trim(string(message["method"]), `"`))
	}
}

// initialize begins a session and returns its id, which is the newest conversation's.
func (c *connected) initialize(p *holdpoint.Process, agent string) string {
	c.t.Helper()
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"e2e","version":"1"}}}`)
	if message, _ := c.answer(0); message["result"] == nil {
		c.t.Fatalf("initialize is answered with %s", message["error"])
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return conversations(c.t, p, agent)[0].ID
}

type conversation struct {
	ID      string     `json:"id"`
	EndedAt *time.Time `json:"ended_at"`
}

func conversations(t *testing.T, p *holdpoint.Process, agent string) []conversation {
	t.Helper()
	list, err := holdpoint.List[conversation](t.Context(), operator(p), "conversations", "agent="+agent)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func mustBeEnded(t *testing.T, p *holdpoint.Process, agent, id string) {
	t.Helper()
	list := conversations(t, p, agent)
	i := slices.IndexFunc(list, func(c conversation) bool { return c.ID == id })
	if i < 0 || list[i].EndedAt == nil {
		t.Errorf("the session %s was not ended: %+v", id, list)
	}
}

// TestConnectEnds: at the end of its input and at SIGTERM it ends its session and itself; the call that waits goes on.
func TestConnectEnds(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, "50s")
	for name, end := range map[string]func(*connected) error{
		"end of input": func(c *connected) error { return c.in.Close() },
		"SIGTERM":      func(c *connected) error { return c.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			n := w.next()
			c := connect(t, w.agent)
			session := c.initialize(w.Process, w.agent.Name)
			c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counting__record","arguments":{"n":%d}}}`, n))
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
				t.Errorf("it ended with %v\n%s", err, c.said())
			}
			mustBeEnded(t, w.Process, w.agent.Name, session)
			w.approve(t, n)
			awaitCall(t, operator(w.Process), shown.CallID, hasStatus("succeeded"))
		})
	}
}

// TestConnectGoesOn: it tells what the server tells, begins a session anew that the server does not know any more,
// and waits for a server that is away.
func TestConnectGoesOn(t *testing.T) {
	t.Parallel()
	db := newWorld(t)
	counting := skill.NewCounting(t)
	p := db.serve()
	declared := fmt.Sprintf(clientSkills, counting.URL, "50s")
	db.apply(p, declared)
	agent := db.agent(p, "worker")
	c := connect(t, agent)
	session := c.initialize(p, agent.Name)

	db.apply(p, strings.Replace(declared, "skills: [counting, open, brief]", "skills: [counting, open]", 1))
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for _, heard := c.answer(1); !slices.Contains(heard, "notifications/tools/list_changed"); {
		message := c.hear() // the agent's other lists may have changed too
		method, err := strconv.Unquote(string(message["method"]))
		if err != nil || !strings.HasSuffix(method, "/list_changed") {
			t.Fatalf("after the tools changed it said %s", message)
		}
		heard = append(heard, method)
	}

	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, endpoint(agent), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Authorization": {"Bearer " + agent.Key}, "Mcp-Session-Id": {session}}
	if response, err := http.DefaultTransport.RoundTrip(request); err != nil || response.StatusCode != http.StatusNoContent {
		t.Fatalf("ending the session: %v", err)
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"open__record","arguments":{"n":2}}}`)
	if message, _ := c.answer(2); !bytes.Contains(message["result"], []byte(recorded(2))) {
		t.Errorf("in a new session the call came out as %s%s", message["result"], message["error"])
	}

	p.Kill()
	c.say(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	o := db.options()
	o.Port = p.Port
	again := program.Serve(t, o)
	if message, _ := c.answer(3); message["result"] == nil {
		t.Errorf("a list asked for while the server was away: %s", message["error"])
	}
	c.say(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"open__record","arguments":{"n":3}}}`)
	if message, _ := c.answer(4); !bytes.Contains(message["result"], []byte(recorded(3))) {
		t.Errorf("after the restart the call came out as %s%s", message["result"], message["error"])
	}
	for _, n := range []string{"2", "3"} {
		if counting.Count(n) != 1 {
			t.Errorf("call %s was executed %d times", n, counting.Count(n))
		}
	}
	newest := conversations(t, again, agent.Name)[0].ID
	c.in.Close()
	_ = c.cmd.Wait() // how it ends is tested elsewhere
	mustBeEnded(t, again, agent.Name, newest)
}

// TestConnectRefused: what keeps it from its work is told, without the credential.
func TestConnectRefused(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, "50s")
	wrong := w.agent
	wrong.Key = "hpa_this-is-no-key"
	c := connect(t, wrong)
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}`)
	message, _ := c.answer(0)
	if said := string(message["error"]); !strings.Contains(said, `"refused"`) || !strings.Contains(said, "HOLDPOINT_TOKEN") ||
		strings.Contains(said, wrong.Key) {
		t.Errorf("with a wrong key it answers %s", said)
	}
	eventually.Succeeds(t, patience, "the log", func() error {
		if !strings.Contains(c.said(), "initialize") {
			return errors.New("it has no word of it")
		}
		return nil
	})
	if ran := cli(w.Process, "").Run(t, "connect", "worker"); ran.Code != 1 || ran.Stdout != "" || !strings.Contains(ran.Stderr, "HOLDPOINT_TOKEN") {
		t.Errorf("without a key: exit code %d, %q, %q", ran.Code, ran.Stdout, ran.Stderr)
	}
}
