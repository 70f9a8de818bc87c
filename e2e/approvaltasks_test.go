package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdpoint/holdpoint/e2e/internal/holdpoint"
	"github.com/holdpoint/holdpoint/e2e/internal/skill"
	"github.com/holdpoint/holdpoint/internal/eventually"
)

// TestApprovalTasks checks what the draft SEP-2848 demands of a server, with serve --experimental.
func TestApprovalTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.args = []string{"--experimental"}
	house := &approvalHouse{t: t, server: w.startServer()}
	house.skill = (&skill.Raw{Call: func(w http.ResponseWriter, r *skill.Request) {
		switch r.N() {
		case "31":
			r.Answer(w, `{"content":[{"type":"text","text":"no such invoice"}],"isError":true}`)
		case "32":
			r.Fail(w, -32050, "no such invoice")
		default:
			r.Answer(w, `{"content":[{"type":"text","text":"recorded `+r.N()+`"}]}`)
		}
	}}).Serve(t)
	w.applyManifest(house.server, oneSkill(house.skill.URL, "")+"  - {name: slow, limits: {calls_per_minute: 1}, skills: [counting]}\n")
	keeper := w.invitePerson(house.server, "keeper", "operator")
	newKey := func(agent string) holdpoint.Agent {
		return holdpoint.Agent{URL: house.server.URL, Name: agent, Key: keyBy(t, house.server, keeper, "agent", "key", "create", agent)}
	}
	house.agent = newKey("worker")

	// Durable before the answer, and not executed without an approval: the server that answered is killed.
	durable := house.create(1)
	house.server.Kill()
	house.server.AwaitKilled(t)
	house.server = w.startServer()
	house.agent.URL = house.server.URL
	if found := house.get(durable); found.Status != "working" || house.skill.Count("1") != 0 {
		t.Fatalf("after a restart, executed %d times: %+v", house.skill.Count("1"), found)
	}
	run := func(name string, check func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			house.t = t
			check(t)
		})
	}
	run("extensions", house.checkExtensions)
	run("approved", func(t *testing.T) {
		if again := house.create(1); again != durable {
			t.Errorf("a repetition is task %s, want %s", again, durable)
		}
		house.approve(1)
		house.wantResult(durable, "approved-executed", "approved this call, and it was executed", 1, 1)
	})
	run("denied", func(t *testing.T) {
		id := house.create(2)
		shown, err := pendingFor(t.Context(), "2", house.server)
		if err == nil {
			err = operatorAPI(house.server).Reject(t.Context(), shown, "too much")
		}
		if err != nil {
			t.Fatal(err)
		}
		house.wantResult(id, "denied-not-executed", "rejected by a reviewer and not executed", 2, 0)
	})
	run("errors", func(t *testing.T) {
		for n, words := range map[int]string{31: "The tool reported an error", 32: "-32050"} {
			id := house.create(n)
			house.approve(n)
			house.wantResult(id, "execution-error", words, n, 1)
		}
	})
	run("without tasks", func(t *testing.T) {
		answer, err := house.agent.CallTool(t.Context(), "counting__record", `{"n":4}`)
		if err != nil || !answer.Result.IsError || !answer.Pending() || !strings.Contains(answer.Text(), "waiting for approval") || house.skill.Count("4") != 0 {
			t.Errorf("%s, %v", answer.Raw, err)
		}
		if strings.Contains(string(answer.Raw), "io.modelcontextprotocol/authorization") {
			t.Errorf("a denial that cannot be remedied without tasks: %s", answer.Raw)
		}
	})
	run("credential is current", func(t *testing.T) {
		var former struct{ ID, Key string }
		printed := newCLI(house.server, keeper).Must(t, "agent", "key", "create", "worker", "--json")
		if err := json.Unmarshal([]byte(printed), &former); err != nil {
			t.Fatal(err)
		}
		later := house.agent
		house.agent.Key = former.Key
		id := house.create(5)
		house.agent = later
		newCLI(house.server, keeper).Must(t, "agent", "key", "revoke", "worker", former.ID)
		house.approve(5)
		house.wantResult(id, "denied-not-executed", "denied and not executed", 5, 0)
	})
	run("cancellation or execution", house.checkCancellation)
	run("submissions are limited", func(t *testing.T) {
		slow := &approvalHouse{t: t, server: house.server, skill: house.skill, agent: newKey("slow")}
		slow.create(6)
		if _, err := slow.send("tools/call", slow.params(7)); err == nil || !strings.Contains(err.Error(), "calls a minute") {
			t.Errorf("the second call in a minute: %v", err)
		}
	})
}

// approvalHouse is a server with the drafts, an agent's client with tasks, and a skill server.
type approvalHouse struct {
	t      *testing.T // of the part that runs
	server *holdpoint.Process
	skill  *skill.Raw
	agent  holdpoint.Agent
}

// approvalTask has the members of a task that the draft is about.
type approvalTask struct {
	ResultType, TaskID, Status, StatusMessage string
	Result                                    *holdpoint.Result
	Error                                     json.RawMessage
	Meta                                      map[string]json.RawMessage `json:"_meta"`
	raw                                       string
}

func (h *approvalHouse) send(method, params string) (json.RawMessage, error) {
	return newTasking(h.t, h.agent).(*tasking).send(h.t.Context(), method, params)
}

func (*approvalHouse) params(n int) string {
	return fmt.Sprintf(`{"name":"counting__record","arguments":{"n":%d},%s}`, n, tasksMeta)
}

// read reads a task. While it has not ended, it repeats that the task is the remedy, and names no reviewer.
func (h *approvalHouse) read(method, params string) (approvalTask, error) {
	raw, err := h.send(method, params)
	if err != nil {
		return approvalTask{}, err
	}
	found := approvalTask{raw: string(raw)}
	if err := json.Unmarshal(raw, &found); err != nil {
		return found, err
	}
	denial := string(found.Meta["io.modelcontextprotocol/authorization"])
	switch {
	case (found.Status == "working") != (denial == `{"reason":"insufficient_authorization","remediation":"available","remediationHints":[{"type":"task"}]}`):
		return found, fmt.Errorf("the denial is %q: %s", denial, raw)
	case strings.Contains(found.StatusMessage, "bootstrap"):
		return found, fmt.Errorf("it names the reviewer: %s", raw)
	}
	return found, nil
}

// create makes a call, which becomes a task, and returns its id.
func (h *approvalHouse) create(n int) string {
	h.t.Helper()
	made, err := h.read("tools/call", h.params(n))
	if err != nil || made.ResultType != "task" || made.Status != "working" || !strings.HasPrefix(made.StatusMessage, "waiting for approval until ") {
		h.t.Fatalf("the call is not a waiting task: %s, %v", made.raw, err)
	}
	return made.TaskID
}

func (h *approvalHouse) get(id string) approvalTask {
	h.t.Helper()
	found, err := h.read("tasks/get", fmt.Sprintf(`{"taskId":%q,%s}`, id, tasksMeta))
	if err != nil {
		h.t.Fatal(err)
	}
	return found
}

func (h *approvalHouse) approve(n int) {
	h.t.Helper()
	shown, err := pendingFor(h.t.Context(), strconv.Itoa(n), h.server)
	if err == nil {
		err = operatorAPI(h.server).Approve(h.t.Context(), shown)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// awaitEnd polls a task until it has ended.
func (h *approvalHouse) awaitEnd(id string) approvalTask {
	h.t.Helper()
	var found approvalTask
	eventually.Succeeds(h.t, patience, "the end of task "+id, func() error {
		if found = h.get(id); found.Status == "working" {
			return errors.New(found.raw)
		}
		return nil
	})
	return found
}

// wantResult waits for a completed task whose result has a disposition and says the same in words, and compares how often it was executed.
func (h *approvalHouse) wantResult(id, disposition, words string, n, executions int) {
	h.t.Helper()
	found := h.awaitEnd(id)
	if found.Status != "completed" || found.Error != nil || found.Result == nil {
		h.t.Fatalf("%s", found.raw)
	}
	said := holdpoint.Answer{Result: *found.Result}
	if got := string(found.Result.Meta["io.modelcontextprotocol/tool-approval-disposition"]); got != `"`+disposition+`"` || !strings.Contains(said.Text(), words) ||
		found.Result.IsError != (disposition != "approved-executed") {
		h.t.Errorf("disposition %s, want %s: %s", got, disposition, found.raw)
	}
	if got := h.skill.Count(strconv.Itoa(n)); got != executions {
		h.t.Errorf("executed %d times, want %d", got, executions)
	}
}

func (h *approvalHouse) checkExtensions(t *testing.T) {
	t.Helper()
	raw, err := h.send("server/discover", "{"+tasksMeta+"}")
	var found struct {
		Capabilities struct {
			Extensions map[string]json.RawMessage
		}
	}
	if err == nil {
		err = json.Unmarshal(raw, &found)
	}
	if extensions := found.Capabilities.Extensions; err != nil || extensions["io.modelcontextprotocol/tasks"] == nil || extensions["io.modelcontextprotocol/tool-approval"] == nil {
		t.Errorf("%s, %v", raw, err)
	}
}

// checkCancellation cancels and approves calls at the same time: each is either cancelled or executed.
func (h *approvalHouse) checkCancellation(t *testing.T) {
	t.Helper()
	ends := map[string]int{}
	for n := 100; n < 108; n++ {
		id := h.create(n)
		shown, err := pendingFor(t.Context(), strconv.Itoa(n), h.server)
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := h.send("tasks/cancel", fmt.Sprintf(`{"taskId":%q,%s}`, id, tasksMeta)); err != nil {
				t.Error(err)
			}
		})
		both.Go(func() {
			err := operatorAPI(h.server).Approve(context.WithoutCancel(t.Context()), shown)
			if refused := (*holdpoint.Problem)(nil); err != nil && (!errors.As(err, &refused) || refused.Status != http.StatusConflict) {
				t.Error(err)
			}
		})
		both.Wait()
		end := h.awaitEnd(id)
		ends[end.Status]++
		executions := h.skill.Count(strconv.Itoa(n))
		if end.Status == "cancelled" && (executions != 0 || end.Result != nil) || end.Status == "completed" && executions != 1 || ends["failed"] > 0 {
			t.Errorf("executed %d times: %s", executions, end.raw)
		}
	}
	t.Logf("ended as %v", ends)
}
