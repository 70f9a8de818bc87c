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

	"github.com/holdpoint/holdpoint/runtime/call"
)

// A task (SEP-2663) is nothing but a call: its id is the call's. Every call of a client can be asked for as one,
// in any process, at any time.

// How often a client should ask for a task.
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

// answerTask answers a call with a task, which it is already.
func (x *exchange) answerTask(w waiting) {
	found, err := x.Calls.Get(x.r.Context(), x.viewer(), w.id)
	switch {
	case err != nil:
		x.internal("get call", err)
	case found.Status.Final():
		x.deliver(&found, w)
	default:
		task := appendTask([]byte(`{"resultType":"task",`), &found, taskWorking, w.deadline, x.Now())
		task = append(append(append(task, `,"_meta":{`...), callMeta(w.id, found.Status, codePending, nil, w.attached)...), "}}"...)
		x.reply(task)
	}
}

// appendTask appends the members that every form of a task has.
func appendTask(dst []byte, c *call.Call, status string, deadline, now time.Time) []byte {
	message := ""
	if !c.Status.Final() {
		message = waitingFor(c.Status, deadline, now)
	}
	return appendTaskSaying(dst, c, status, message)
}

// appendTaskSaying is appendTask with a message of its own; "": none.
func appendTaskSaying(dst []byte, c *call.Call, status, message string) []byte {
	updated := c.CreatedAt
	if c.FinishedAt != nil {
		updated = *c.FinishedAt
	}
	dst = append(append(append(dst, `"taskId":"`...), c.ID.String()...), `","status":"`...)
	dst = append(append(dst, status...), '"')
	if message != "" {
		dst = appendString(append(dst, `,"statusMessage":`...), message)
	}
	dst = append(c.CreatedAt.UTC().AppendFormat(append(dst, `,"createdAt":"`...), time.RFC3339Nano), '"')
	dst = append(updated.UTC().AppendFormat(append(dst, `,"lastUpdatedAt":"`...), time.RFC3339Nano), '"')
	poll := pollExecuting
	if c.Status == call.Parked || c.Status == call.NeedsConnection {
		poll = pollWaiting
	}
	return strconv.AppendInt(append(dst, `,"ttlMs":null,"pollIntervalMs":`...), poll.Milliseconds(), 10)
}

// task finds the call that a request names as a task, or answers.
func (x *exchange) task() (call.Call, bool) {
	if can, _ := x.able(nil); !can.tasks {
		x.fail(needsTasks())
		return call.Call{}, false
	}
	id, err := uuid.Parse(x.msg.taskID)
	var found call.Call
	if err == nil && id.String() == x.msg.taskID {
		found, err = x.Calls.Get(x.r.Context(), x.viewer(), id)
	} else {
		err = call.ErrNotFound
	}
	switch {
	case err == nil:
		return found, true
	case errors.Is(err, call.ErrNotFound):
		x.fail(unknownTask())
	default:
		x.internal("get call", err)
	}
	return call.Call{}, false
}

func unknownTask() *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/taskId: there is no such task"}
}

// getTask is tasks/get.
func (x *exchange) getTask() {
	found, ok := x.task()
	if !ok {
		return
	}
	task, err := x.describeTask(x.r.Context(), &found)
	if err != nil {
		x.internal("get task", err)
		return
	}
	if err := x.result(append(append([][]byte{[]byte(`{"resultType":"complete",`)}, task...), []byte("}"))...); err != nil {
		x.left(err)
		return
	}
	if !found.Status.Final() {
		return
	}
	if err := x.flush(); err != nil {
		x.left(err)
		return
	}
	x.markDelivered(&found)
}

// describeTask writes the members of a task as it is, in pieces.
func (x *exchange) describeTask(ctx context.Context, c *call.Call) ([][]byte, error) {
	if c.Status.Final() {
		return x.describeEnd(c), nil
	}
	questions, err := x.Calls.Questions(ctx, x.viewer(), c.ID)
	if err != nil {
		return nil, err
	}
	if len(questions) > 0 {
		task := append(appendTask(nil, c, taskInputRequired, time.Time{}, x.Now()), ',')
		return [][]byte{task, inputRequests(questions)}, nil
	}
	if reviewing := x.reviewing(c.ID, c.Status); !reviewing.IsZero() {
		return [][]byte{appendTaskSaying(nil, c, taskWorking, waitingForReview(reviewing))}, nil
	}
	return [][]byte{appendTask(nil, c, taskWorking, time.Time{}, x.Now())}, nil
}

func (x *exchange) describeEnd(c *call.Call) [][]byte {
	if c.Status == call.Cancelled || c.Code == call.CodeTaskCancelled {
		return [][]byte{appendTask(nil, c, taskCancelled, time.Time{}, x.Now())}
	}
	told := x.tellOutcome(c, waiting{id: c.ID, status: c.Status, gated: c.Gated}, false)
	status, member := taskCompleted, `,"result":`
	if told.fault {
		status, member = taskFailed, `,"error":`
	}
	return append([][]byte{appendTask(nil, c, status, time.Time{}, x.Now()), []byte(member)}, told.pieces...)
}

// updateTask is tasks/update: answers to what the task asks.
func (x *exchange) updateTask() {
	found, ok := x.task()
	if !ok {
		return
	}
	if x.msg.inputResponses == nil {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/inputResponses: missing"})
		return
	}
	if err := x.takeAnswers(found.ID); err != nil {
		x.refuse("update task", err)
		return
	}
	x.reply([]byte(acknowledged))
}

// cancelTask is tasks/cancel, the only way in which a client cancels a call.
func (x *exchange) cancelTask() {
	found, ok := x.task()
	if !ok {
		return
	}
	if err := x.Calls.RequestCancel(context.WithoutCancel(x.r.Context()), x.viewer(), found.ID); err != nil {
		x.internal("cancel task", err)
		return
	}
	x.reply([]byte(acknowledged))
}

const acknowledged = `{"resultType":"complete"}`

// maxTasks bounds the tasks that one stream tells of.
const maxTasks = 100

// watchedTasks are the calls behind the ids that a stream is to tell of. Those that are not the client's own are left out.
func (x *exchange) watchedTasks(ctx context.Context, names []string) ([]uuid.UUID, error) {
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

// followTask tells news of each task as it is now, when it asks something, and when it has ended. It returns when ctx ends.
func (x *exchange) followTask(ctx context.Context, id uuid.UUID, news chan<- [][]byte) {
	defer func() {
		if cause := recover(); cause != nil { // a stream of news is not worth the process
			x.Logger.Error("telling of a task broke off", "call_id", id, "cause", cause, "stack", string(debug.Stack()))
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
		send(&ended)
	}
}

// taskIDs reads the ids of tasks that a client wants to hear of.
func taskIDs(raw json.RawMessage) ([]string, *jsonrpc.Error) {
	var names []string
	switch {
	case raw == nil:
		return nil, nil
	case json.Unmarshal(raw, &names) != nil:
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "/params/notifications/taskIds: want an array of strings"}
	case len(names) > maxTasks:
		return nil, &jsonrpc.Error{
			Code: jsonrpc.CodeInvalidParams, Message: "/params/notifications/taskIds: want at most " + strconv.Itoa(maxTasks),
		}
	}
	return names, nil
}
