package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// tasksExtension is the extension of the fixtures (SEP-2663).
const tasksExtension = "io.modelcontextprotocol/tasks"

// taskServer is a stateless server of MCP 2026-07-28 with the fixtures of the suite's tasks scenarios. A client that declares the
// extension gets tasks. Others get the result itself, if the tool has one without a task.
type taskServer struct {
	mu    sync.Mutex
	tasks map[string]*task
}

func newTaskServer() *taskServer { return &taskServer{tasks: map[string]*task{}} }

// task is guarded by the lock of its server.
type task struct {
	id              string
	status          string
	created, update time.Time
	result          any
	fault           *rpcError
	questions       map[string]any // unanswered
	answered        chan struct{}  // closed when all are answered
	cancel          context.CancelFunc
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// request holds the members of a request that the server reads.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name      string                     `json:"name"`
		TaskID    string                     `json:"taskId"`
		Arguments arguments                  `json:"arguments"`
		Responses map[string]json.RawMessage `json:"inputResponses"`
		Meta      struct {
			Capabilities struct {
				Elicitation json.RawMessage            `json:"elicitation"`
				Extensions  map[string]json.RawMessage `json:"extensions"`
			} `json:"io.modelcontextprotocol/clientCapabilities"`
		} `json:"_meta"`
	} `json:"params"`
}

type arguments struct {
	Name     string  `json:"name"`
	Seconds  float64 `json:"seconds"`
	Label    string  `json:"label"`
	Filename string  `json:"filename"`
}

func (r *request) declaresTasks() bool {
	return r.Params.Meta.Capabilities.Extensions[tasksExtension] != nil
}

// ServeHTTP implements [http.Handler].
func (s *taskServer) ServeHTTP(w http.ResponseWriter, h *http.Request) {
	var r request
	if h.Method != http.MethodPost || json.NewDecoder(http.MaxBytesReader(w, h.Body, 1<<20)).Decode(&r) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if r.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := map[string]any{"jsonrpc": "2.0", "id": r.ID}
	status := http.StatusOK
	if result, fault := s.answerRequest(h.Context(), &r); fault == nil {
		answer["result"] = result
	} else {
		answer["error"] = fault
		status = faultStatus(fault.Code)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		log.Println("answer:", err)
	}
}

func faultStatus(code int) int {
	switch code {
	case codeUnknownMethod:
		return http.StatusNotFound
	case codeInvalidParams, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

const (
	codeUnknownMethod      = -32601
	codeInvalidParams      = -32602
	codeInternal           = -32603
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

func (s *taskServer) answerRequest(ctx context.Context, r *request) (any, *rpcError) {
	switch r.Method {
	case "server/discover":
		return map[string]any{
			"resultType": "complete", "supportedVersions": []string{"2026-07-28"}, "ttlMs": 60_000, "cacheScope": "public",
			"capabilities": map[string]any{"tools": map[string]any{}, "extensions": map[string]any{tasksExtension: map[string]any{}}},
			"_meta":        map[string]any{"io.modelcontextprotocol/serverInfo": map[string]any{"name": "tasks", "version": "1"}},
		}, nil
	case "tools/list":
		return map[string]any{"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public", "tools": toolDefinitions()}, nil
	case "tools/call":
		return s.callTool(ctx, r)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return s.answerTaskRequest(r)
	case "initialize":
		return nil, &rpcError{Code: codeUnsupportedVersion, Message: "only 2026-07-28", Data: map[string]any{"supported": []string{"2026-07-28"}}}
	default:
		return nil, &rpcError{Code: codeUnknownMethod, Message: "method not found"}
	}
}

// answerTaskRequest answers the methods of the extension.
func (s *taskServer) answerTaskRequest(r *request) (any, *rpcError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tasks[r.Params.TaskID]
	switch {
	case !r.declaresTasks():
		return nil, missingCapability("extensions", map[string]any{tasksExtension: map[string]any{}})
	case t == nil:
		return nil, &rpcError{Code: codeInvalidParams, Message: "unknown task"}
	case r.Method == "tasks/get":
		return t.allMembers(), nil
	case r.Method == "tasks/cancel":
		t.cancel()
		t.setEnded("cancelled")
	default:
		t.takeAnswers(r.Params.Responses)
	}
	return map[string]any{"resultType": "complete"}, nil
}

func missingCapability(capability string, what any) *rpcError {
	return &rpcError{
		Code: codeMissingCapability, Message: "a capability of the client is missing",
		Data: map[string]any{"requiredCapabilities": map[string]any{capability: what}},
	}
}

// beginTask creates a task and runs its job in a goroutine.
func (s *taskServer) beginTask(job func(context.Context, *task) (any, *rpcError)) any {
	ctx, cancel := context.WithCancel(context.Background())
	now := time.Now()
	t := &task{id: rand.Text(), status: "working", created: now, update: now, cancel: cancel}
	s.mu.Lock()
	s.tasks[t.id] = t
	created := t.baseMembers("task")
	s.mu.Unlock()
	go func() {
		defer cancel()
		result, fault := job(ctx, t)
		s.mu.Lock()
		defer s.mu.Unlock()
		if t.isEnded() {
			return
		}
		t.result, t.fault = result, fault
		if fault != nil {
			t.setEnded("failed")
		} else {
			t.setEnded("completed")
		}
	}()
	return created
}

// askClient asks the client, and waits until all questions are answered.
func (s *taskServer) askClient(ctx context.Context, t *task, questions map[string]any) {
	answered := make(chan struct{})
	s.mu.Lock()
	if !t.isEnded() {
		t.questions, t.answered = questions, answered
		t.status, t.update = "input_required", time.Now()
	}
	s.mu.Unlock()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// takeAnswers takes the answers to open questions and ignores others.
func (t *task) takeAnswers(responses map[string]json.RawMessage) {
	if t.status != "input_required" {
		return
	}
	for key := range responses {
		delete(t.questions, key)
	}
	t.update = time.Now()
	if len(t.questions) == 0 {
		t.status = "working"
		close(t.answered)
	}
}

func (t *task) setEnded(status string) {
	if !t.isEnded() {
		t.status, t.update = status, time.Now()
	}
}

func (t *task) isEnded() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled"}, t.status)
}

func (t *task) baseMembers(resultType string) map[string]any {
	return map[string]any{
		"resultType": resultType, "taskId": t.id, "status": t.status, "ttlMs": 600_000, "pollIntervalMs": 100,
		"createdAt": t.created.UTC().Format(time.RFC3339Nano), "lastUpdatedAt": t.update.UTC().Format(time.RFC3339Nano),
	}
}

func (t *task) allMembers() any {
	d := t.baseMembers("complete")
	switch t.status {
	case "completed":
		d["result"] = t.result
	case "failed":
		d["error"] = t.fault
	case "input_required":
		d["inputRequests"] = maps.Clone(t.questions)
	}
	return d
}
