package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/internal/pause"
)

// tasking is a client of 2026-07-28 with tasks. A waiting call returns a task at once, and the client polls it at any
// server until it has ended.
type tasking struct {
	// send sends one request and returns its result.
	send    func(ctx context.Context, method, params string) (json.RawMessage, error)
	dropped atomic.Bool
}

const tasksMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"e2e","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// newTasking sends over HTTP, with headers that repeat parts of the request.
func newTasking(_ *testing.T, agent holdpoint.Agent) mcpClient {
	return &tasking{send: func(ctx context.Context, method, params string) (json.RawMessage, error) {
		var names struct{ Name, TaskID string }
		if err := json.Unmarshal([]byte(params), &names); err != nil {
			return nil, err
		}
		header := http.Header{
			"Authorization": {"Bearer " + agent.Key}, "Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
		}
		if name := names.Name + names.TaskID; name != "" {
			header.Set("Mcp-Name", name)
		}
		answer, _, err := holdpoint.Post(ctx, endpointURL(agent), header, method, params)
		if err == nil && answer.Error != nil {
			err = fmt.Errorf("%s: %s (%d)", method, answer.Error.Message, answer.Error.Code)
		}
		return answer.Raw, err
	}}
}

// newTaskingThroughConnect sends to holdpoint connect.
func newTaskingThroughConnect(t *testing.T, agent holdpoint.Agent) mcpClient {
	t.Helper()
	c := startConnect(t, agent)
	return &tasking{send: func(_ context.Context, method, params string) (json.RawMessage, error) {
		if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params); err != nil {
			return nil, err
		}
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		var answer struct{ Result, Error json.RawMessage }
		err = json.Unmarshal(line, &answer)
		if err == nil && answer.Error != nil {
			err = fmt.Errorf("%s: %s", method, answer.Error)
		}
		return answer.Result, err
	}}
}

func (c *tasking) listTools(ctx context.Context) ([]string, error) {
	result, err := c.send(ctx, "tools/list", "{"+tasksMeta+"}")
	if err != nil {
		return nil, err
	}
	return listedNames(result)
}

func (c *tasking) callTool(ctx context.Context, tool string, n int) (json.RawMessage, error) {
	result, err := c.send(ctx, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":{"n":%d},%s}`, tool, n, tasksMeta))
	if err != nil {
		return nil, err
	}
	var task struct{ ResultType, TaskID string }
	if err := json.Unmarshal(result, &task); err != nil || task.ResultType != "task" {
		return result, err
	}
	return c.followTask(ctx, task.TaskID)
}

// followTask polls a task until it has ended. It continues if a server does not answer.
func (c *tasking) followTask(ctx context.Context, id string) (json.RawMessage, error) {
	for last := errors.New("it was not asked for"); ; {
		if c.dropped.Load() || pause.For(ctx, 50*time.Millisecond) != nil {
			return nil, fmt.Errorf("task %s was left: %w", id, last)
		}
		raw, err := c.send(ctx, "tasks/get", fmt.Sprintf(`{"taskId":%q,%s}`, id, tasksMeta))
		if err != nil {
			last = err
			continue
		}
		var task struct {
			Status        string
			Result, Error json.RawMessage
		}
		if err := json.Unmarshal(raw, &task); err != nil {
			return nil, err
		}
		switch task.Status {
		case "working":
			last = errors.New("it was at work")
		case "completed":
			return task.Result, nil
		default:
			return nil, fmt.Errorf("the task is %s", raw)
		}
	}
}

func (c *tasking) dropClient() { c.dropped.Store(true) }
