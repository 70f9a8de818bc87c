package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/holdpoint/holdpoint/internal/rawjson"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/mcpserver/wire"
)

// A task (SEP-2663) is a call, and has its id. Any process can serve any call of a client as a task at any time.

// How often a client should poll a task.
const (
	pollExecuting = time.Second
	pollWaiting   = 2 * time.Second // for people
)

// The statuses of a task.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

// taskRequest is a request about tasks.
type taskRequest struct{ *exchange }

// answerTask answers with a task: the call itself.
func (x *toolCall) answerTask(w waiting) {
	found, err := x.Calls.Get(x.r.Context(), x.viewer(), w.id)
	switch {
	case err != nil:
		x.failInternal("get call", err)
	case found.Status.Final():
		x.deliverOutcome(&found, w)
	default:
		deadline := x.waitDeadline(w.id, found.Status)
		task := appendTask([]byte(`{"resultType":"task",`), &found, taskWorking, waitingFor(found.Status, deadline, x.Now()))
		task = append(append(task, `,"_meta":{`...), pendingMeta(&w, found.Status, deadline)...)
		if denial := x.pendingDenial(&found); denial != nil {
			task = append(append(task, ','), denial...)
		}
		x.reply(append(task, "}}"...))
	}
}

// appendTask appends the members that all forms of a task have. Without a message, the task has none.
func appendTask(dst []byte, c *call.Call, status, message string) []byte {
	updated := c.CreatedAt
	if c.FinishedAt != nil {
		updated = *c.FinishedAt
	}
	dst = append(append(append(dst, `"taskId":"`...), c.ID.String()...), `","status":"`...)
	dst = append(append(dst, status...), '"')
	if message != "" {
		dst = rawjson.AppendString(append(dst, `,"statusMessage":`...), message)
	}
	dst = append(c.CreatedAt.UTC().AppendFormat(append(dst, `,"createdAt":"`...), time.RFC3339Nano), '"')
	dst = append(updated.UTC().AppendFormat(append(dst, `,"lastUpdatedAt":"`...), time.RFC3339Nano), '"')
	poll := pollExecuting
	if c.Status == call.Parked || c.Status == call.NeedsConnection {
		poll = pollWaiting
	}
	return strconv.AppendInt(append(dst, `,"ttlMs":null,"pollIntervalMs":`...), poll.Milliseconds(), 10)
}

// findTask returns the call that a request names as a task, or answers.
func (x *taskRequest) findTask() (call.Call, bool) {
	if can, _ := x.readAbilities(nil); !can.Tasks {
		x.fail(needsTasks())
		return call.Call{}, false
	}
	id, err := uuid.Parse(x.msg.TaskID)
	var found call.Call
	if err == nil && id.String() == x.msg.TaskID {
		found, err = x.Calls.Get(x.r.Context(), x.viewer(), id)
	} else {
		err = call.ErrNotFound
	}
	switch {
	case err == nil:
		return found, true
	case errors.Is(err, call.ErrNotFound):
		x.fail(wire.InvalidParams("/params/taskId: there is no such task"))
	default:
		x.failInternal("get call", err)
	}
	return call.Call{}, false
}

// getTask serves tasks/get.
func (x *taskRequest) getTask() {
	found, ok := x.findTask()
	if !ok {
		return
	}
	task, err := x.describeTask(x.r.Context(), &found)
	if err != nil {
		x.failInternal("get task", err)
		return
	}
	pieces := [][]byte{[]byte(`{"resultType":"complete",`)}
	if task.meta != nil {
		pieces = append(pieces, []byte(`"_meta":{`), task.meta, []byte("},"))
	}
	if err := x.writeResult(append(append(pieces, task.members...), []byte("}"))...); err != nil {
		x.noteClientLeft(err)
		return
	}
	if !found.Status.Final() {
		return
	}
	if err := x.Flush(); err != nil {
		x.noteClientLeft(err)
		return
	}
	x.markDelivered(&found)
}

// task is what a client is told about a task.
type task struct {
	meta    []byte   // the inside of its _meta; nil: none
	members [][]byte // all others, in pieces
}

// isCancelledByServer reports whether the call's own server cancelled its task.
func isCancelledByServer(c *call.Call) bool {
	return c.Status.Final() && c.Code == call.CodeTaskCancelled
}

// describeTask returns what a client is told about a task. A gated call that was sent is never cancelled: it completes, and its result says
// that its outcome is unknown.
func (x *taskRequest) describeTask(ctx context.Context, c *call.Call) (task, error) {
	if c.Status == call.Cancelled || isCancelledByServer(c) && !c.Gated {
		return task{nil, [][]byte{appendTask(nil, c, taskCancelled, "")}}, nil
	}
	if c.Status.Final() {
		told := x.tellOutcome(c, waiting{id: c.ID, status: c.Status, gated: c.Gated, task: true}, false)
		status, member := taskCompleted, `,"result":`
		if told.fault {
			status, member = taskFailed, `,"error":`
		}
		return task{nil, append([][]byte{appendTask(nil, c, status, ""), []byte(member)}, told.pieces...)}, nil
	}
	questions, err := x.Calls.Questions(ctx, x.viewer(), c.ID)
	if err != nil {
		return task{}, err
	}
	meta := x.pendingDenial(c)
	if len(questions) > 0 {
		message := waitingFor(c.Status, time.Time{}, x.Now())
		return task{meta, [][]byte{append(appendTask(nil, c, taskInputRequired, message), ','), inputRequests(questions)}}, nil
	}
	deadline := x.waitDeadline(c.ID, c.Status)
	message := waitingFor(c.Status, deadline, x.Now())
	if c.Status == call.Executing && !deadline.IsZero() {
		message = waitingForReview(deadline)
	}
	return task{meta, [][]byte{appendTask(nil, c, taskWorking, message)}}, nil
}

// updateTask serves tasks/update: answers to the task's questions.
func (x *taskRequest) updateTask() {
	found, ok := x.findTask()
	if !ok {
		return
	}
	if x.msg.InputResponses == nil {
		x.fail(wire.InvalidParams("/params/inputResponses: missing"))
		return
	}
	if err := x.takeAnswers(found.ID); err != nil {
		x.failWith("update task", err)
		return
	}
	x.reply([]byte(acknowledged))
}

// cancelTask serves tasks/cancel, the only way for a client to cancel a call.
func (x *taskRequest) cancelTask() {
	found, ok := x.findTask()
	if !ok {
		return
	}
	if err := x.Calls.RequestCancel(context.WithoutCancel(x.r.Context()), x.viewer(), found.ID); err != nil {
		x.failInternal("cancel task", err)
		return
	}
	x.reply([]byte(acknowledged))
}

const acknowledged = `{"resultType":"complete"}`

// maxTasks limits the tasks of one stream.
const maxTasks = 100

// watchedTasks returns the calls with the ids. Calls of other clients are left out.
func (x *taskRequest) watchedTasks(ctx context.Context, names []string) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, name := range names {
		id, err := uuid.Parse(name)
		if err != nil || id.String() != name || slices.Contains(ids, id) {
			continue
		}
		_, err = x.Calls.Get(ctx, x.viewer(), id)
		switch {
		case errors.Is(err, call.ErrNotFound):
		case err != nil:
			return nil, err
		default:
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// followTask sends a task's current state, and again when it has questions and when it ends. It returns when ctx ends.
func (x *taskRequest) followTask(ctx context.Context, id uuid.UUID, news chan<- task) {
	defer func() {
		if cause := recover(); cause != nil { // a panic in a stream must not end the process
			x.Logger.Error("send task: panic", "call_id", id, "cause", cause, "stack", string(debug.Stack()))
		}
	}()
	send := func(c *call.Call) {
		task, err := x.describeTask(ctx, c)
		if err != nil {
			x.Logger.Warn("describe task", "call_id", id, "error", err)
			return
		}
		select {
		case news <- task:
		case <-ctx.Done():
		}
	}
	current, err := x.Calls.Get(ctx, x.viewer(), id)
	if err != nil {
		return
	}
	send(&current)
	if current.Status.Final() {
		return
	}
	told := 0
	ended, err := x.Calls.Wait(ctx, id, call.Listener{Asked: func(open []call.Question) error {
		if last := open[len(open)-1].Number; last > told {
			told = last
			current.Status = call.Executing
			send(&current)
		}
		return nil
	}})
	if err == nil {
		send(ended)
	}
}

// taskIDs reads the ids of the tasks that a client subscribes to.
func taskIDs(raw json.RawMessage) ([]string, *jsonrpc.Error) {
	var names []string
	switch {
	case raw == nil:
		return nil, nil
	case json.Unmarshal(raw, &names) != nil:
		return nil, wire.InvalidParams("/params/notifications/taskIds: must be an array of strings")
	case len(names) > maxTasks:
		return nil, wire.InvalidParams("/params/notifications/taskIds: must be at most " + strconv.Itoa(maxTasks))
	}
	return names, nil
}
