package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
)

// sdkClient is a client of the official TypeScript SDK in its own process.
type sdkClient struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.Writer
	said   *bufio.Reader

	timeout time.Duration // call timeout; zero: the SDK's default
	reset   bool          // progress resets the timeout
}

// clientSaid is the result of an order.
type clientSaid struct {
	Session  string          `json:"session"`
	Result   json.RawMessage `json:"result"`
	Progress int             `json:"progress"`
	Names    []string        `json:"names"`
	Text     string          `json:"text"`
	Seconds  float64         `json:"seconds"`
	Error    *struct {
		Code    json.RawMessage `json:"code"`
		Message string          `json:"message"`
	} `json:"error"`
}

func newSDKClient(t *testing.T) *sdkClient {
	t.Helper()
	npmPackage(t, "@modelcontextprotocol/sdk/package.json")
	cmd := exec.Command(findNode(t), "clients/patience.mjs")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	orders, errIn := cmd.StdinPipe()
	said, errOut := cmd.StdoutPipe()
	if errIn != nil || errOut != nil {
		t.Fatal(errIn, errOut)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have exited
		_ = cmd.Wait()         // killed
		if t.Failed() && stderr.Len() > 0 {
			t.Logf("the SDK's client said:\n%s", stderr.String())
		}
	})
	return &sdkClient{t: t, cmd: cmd, orders: orders, said: bufio.NewReader(said)}
}

// orderAny sends an order that may fail.
func (c *sdkClient) orderAny(order map[string]any) clientSaid {
	c.t.Helper()
	said, err := c.sendOrder(order)
	if err != nil {
		c.t.Fatal(err)
	}
	return said
}

// tryOrder sends an order from a goroutine and returns its failure as an error.
func (c *sdkClient) tryOrder(order map[string]any) (clientSaid, error) {
	said, err := c.sendOrder(order)
	if err == nil && said.Error != nil {
		err = fmt.Errorf("order %v: %s (%s)", order["do"], said.Error.Message, said.Error.Code)
	}
	return said, err
}

func (c *sdkClient) sendOrder(order map[string]any) (clientSaid, error) {
	var said clientSaid
	text, err := json.Marshal(order)
	if err != nil {
		return said, err
	}
	if _, err := c.orders.Write(append(text, '\n')); err != nil {
		return said, fmt.Errorf("order %v: %w", order["do"], err)
	}
	line, err := c.said.ReadBytes('\n')
	if err != nil {
		return said, fmt.Errorf("order %v: %w", order["do"], err)
	}
	if err := json.Unmarshal(line, &said); err != nil {
		return said, fmt.Errorf("order %v: the client said %s", order["do"], line)
	}
	return said, nil
}

func (c *sdkClient) connectTo(agent holdpoint.Agent) {
	c.t.Helper()
	said := c.orderAny(map[string]any{"do": "connect", "url": agent.URL + "/agents/" + agent.Name + "/mcp", "key": agent.Key})
	if said.Error != nil {
		c.t.Fatalf("the SDK's client does not connect: %v", said.Error)
	}
}

// callOnce makes the tests' only call, with this timeout.
func (c *sdkClient) callOnce(milliseconds int) clientSaid {
	c.t.Helper()
	return c.orderAny(map[string]any{
		"do": "call", "tool": "counting__record", "arguments": map[string]int{"n": 1}, "timeout": milliseconds,
	})
}

const (
	impatient = 3_000
	requestTO = "-32001" // the SDK's code for a timeout
)

// mustTimeOut makes the call and expects the client to time out.
func (c *sdkClient) mustTimeOut() {
	c.t.Helper()
	if said := c.callOnce(impatient); said.Error == nil || string(said.Error.Code) != requestTO {
		c.t.Fatalf("a call that waits for approval ended with %s %v, want the client's time-out", said.Result, said.Error)
	}
}

// mustDeliver makes the call and expects its outcome.
func (c *sdkClient) mustDeliver() {
	c.t.Helper()
	said := c.callOnce(60_000)
	var result holdpoint.Result
	if said.Error != nil {
		c.t.Fatalf("the outcome is not delivered: %v", said.Error)
	}
	if err := json.Unmarshal(said.Result, &result); err != nil || result.IsError {
		c.t.Fatalf("the outcome is %s, %v", said.Result, err)
	}
	if answer := (holdpoint.Answer{Result: result}); answer.Text() != "recorded 1" {
		c.t.Errorf("the outcome is %s", said.Result)
	}
}

// TestImpatientClient: the SDK's client times out after three seconds and repeats the call before and after its
// execution, in the same session and in new ones.
func TestImpatientClient(t *testing.T) {
	t.Parallel()
	reconnect := map[string]func(*sdkClient, holdpoint.Agent){
		"same session": func(*sdkClient, holdpoint.Agent) {},
		"new session": func(c *sdkClient, agent holdpoint.Agent) {
			c.orderAny(map[string]any{"do": "close"})
			c.connectTo(agent)
		},
		"lost connection": func(c *sdkClient, agent holdpoint.Agent) {
			c.orderAny(map[string]any{"do": "abandon"})
			c.connectTo(agent)
		},
	}
	for name, again := range reconnect {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			counting := skill.NewCounting(t)
			p := w.startServer()
			w.applyManifest(p, strings.Replace(oneSkill(counting.URL, ""), "wait_budget: 2s", "wait_budget: 50s", 1))
			agent := w.newAgent(p, "worker")
			client := newSDKClient(t)
			client.connectTo(agent)
			client.mustTimeOut() // parked
			again(client, agent)
			client.mustTimeOut() // before its execution
			again(client, agent)
			shown, err := pendingFor(t.Context(), "1", p)
			if err != nil {
				t.Fatal(err)
			}
			if err := operatorAPI(p).Approve(t.Context(), shown); err != nil {
				t.Fatal(err)
			}
			awaitCall(t, operatorAPI(p), shown.CallID, hasStatus("succeeded"))
			client.mustDeliver() // after its execution
			if onlyCall(t, operatorAPI(p)); counting.Count("1") != 1 {
				t.Errorf("it arrived %d times", counting.Count("1"))
			}
		})
	}
}
