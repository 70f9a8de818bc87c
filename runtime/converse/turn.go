package converse

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/internal/telemetry"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/file"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// turnArgs is the job of one turn: give the model the results of its calls, ask it, and make the calls that it wants. If the
// step is not the conversation's present one, the job does nothing.
type turnArgs struct {
	Conversation uuid.UUID `json:"conversation"`
	Step         int64     `json:"step"`
}

func (turnArgs) Kind() string { return "converse_turn" }

// InsertOpts implements [river.JobArgsWithInsertOpts].
func (turnArgs) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: JobQueue} }

type turnWorker struct {
	river.WorkerDefaults[turnArgs]
	service *Service
}

// Timeout implements [river.Worker].
func (w *turnWorker) Timeout(*river.Job[turnArgs]) time.Duration {
	return w.service.TurnTime + time.Minute
}

// Work never fails. A turn that cannot finish is given back and gets another job. If giving back failed too, for example
// because the process is stopping, this job is retried by another process.
func (w *turnWorker) Work(_ context.Context, job *river.Job[turnArgs]) error {
	if !w.service.workOn(job.Args) {
		return river.JobSnooze(time.Second)
	}
	return nil
}

// turn is a turn that this process runs.
type turn struct {
	s     *Service
	id    uuid.UUID
	step  int64
	loop  *loop // as of the claim, and then of the last write
	agent *agent.Agent
	talk  *catalog.Conversation // with its tools

	halted context.Context // cancelled when a person stops the run or ends the conversation
}

// errOver: another process has the turn, or the turn has nothing more to do.
var errOver = errors.New("the turn is over")

// workOn runs a turn. It reports whether the job is done.
func (s *Service) workOn(args turnArgs) bool {
	ctx, cancel := context.WithTimeout(s.asking, s.TurnTime)
	defer cancel()
	halted, halt := context.WithCancel(ctx)
	defer halt()
	if err := s.turns.enterTurn(ctx, args.Conversation, args.Step, cancel, halt); err != nil {
		return errors.Is(err, errStale) // otherwise this process is stopping
	}
	defer s.turns.leaveTurn(args.Conversation)
	t := &turn{s: s, id: args.Conversation, step: args.Step, halted: halted}
	err := t.runTurn(ctx)
	if t.loop != nil && t.loop.Status == Ended {
		s.endInCatalog(context.WithoutCancel(ctx), t.loop)
	}
	if err == nil || errors.Is(err, errOver) || errors.Is(err, ErrNotFound) {
		return true
	}
	interrupted := errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) // a timeout counts as an attempt
	if !interrupted {
		s.Logger.Error("turn failed", "conversation", t.id, "step", t.step, "error", err)
	}
	after, done := context.WithTimeout(context.WithoutCancel(ctx), suspectAfter)
	defer done()
	if err := s.scheduler.giveBack(after, t.id, t.step, interrupted); err != nil {
		s.Logger.Warn("turn not given back; it is retried later", "conversation", t.id, "error", err)
	}
	return false
}

// runTurn claims the turn for this process and takes its steps. Spans are children of the turn's.
func (t *turn) runTurn(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	err = t.s.changeLoop(ctx, t.id, func(_ pgx.Tx, l *loop) error {
		if l.Status != Queued || l.step != t.step {
			return errOver
		}
		l.Status, l.claimedBy = Running, t.s.Instance
		t.s.record.beginTurn(ctx, l)
		l.attempts++
		t.loop = l
		return nil
	})
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.TurnAfterClaim)
	if t.loop.spans == nil {
		ctx = telemetry.Untraced(ctx)
	} else {
		ctx = telemetry.ReadPending(t.loop.spans.Turn).In(ctx)
	}
	if t.agent, err = t.s.Agents.AgentByID(ctx, t.loop.AgentID); err != nil {
		return t.endOrphan(ctx, err)
	}
	if t.talk, err = t.s.Catalog.Conversation(ctx, t.loop.AgentID, t.loop.PrincipalID, t.id); err != nil {
		return t.endOrphan(ctx, err)
	}
	if err := t.checkPrincipal(ctx); err != nil {
		return err
	}
	if t.loop.reply > 0 && !t.loop.submitted { // an earlier process got the reply, but did not make all calls
		return t.makeCalls(ctx)
	}
	if err := t.recordResults(ctx); err != nil {
		return err
	}
	if err := t.askModel(ctx); err != nil {
		return err
	}
	if t.loop.reply == 0 {
		return nil
	}
	return t.makeCalls(ctx)
}

// checkPrincipal ends the run if an operator blocked the principal.
func (t *turn) checkPrincipal(ctx context.Context) error {
	if t.loop.PrincipalID == uuid.Nil || t.s.Blocked == nil {
		return nil
	}
	blocked, err := t.s.Blocked(ctx, t.loop.PrincipalID)
	if err != nil || !blocked {
		return err
	}
	return t.giveUp(ctx, ending{code: CodeBlocked, notice: "An operator blocked the person that the agent works for."})
}

// changeOwnLoop changes the conversation if this process still has the turn. Otherwise it returns errOver.
func (t *turn) changeOwnLoop(ctx context.Context, f func(tx pgx.Tx, l *loop) error) error {
	return t.s.changeLoop(ctx, t.id, func(tx pgx.Tx, l *loop) error {
		if l.Status != Running || l.step != t.step || l.claimedBy != t.s.Instance {
			return errOver
		}
		t.loop = l
		return f(tx, l)
	})
}

// endOrphan ends a conversation whose agent was deleted.
func (t *turn) endOrphan(ctx context.Context, err error) error {
	if !errors.Is(err, agent.ErrNotFound) {
		return err
	}
	return errors.Join(errOver, t.changeOwnLoop(ctx, func(tx pgx.Tx, l *loop) error {
		return t.s.endLoop(ctx, tx, l, CodeClosed, "The conversation or its agent was deleted.", uuid.Nil)
	}))
}

// recordResults adds the results of the last reply's calls, and messages that arrived meanwhile. It returns errOver if the
// model must not be asked.
func (t *turn) recordResults(ctx context.Context) error {
	var results *Results
	if t.loop.reply > 0 {
		var err error
		if results, err = t.buildResults(ctx); err != nil {
			return err
		}
	}
	over := false
	err := t.changeOwnLoop(ctx, func(tx pgx.Tx, l *loop) error {
		if results != nil {
			l.appendEntry(Entry{Kind: KindTools, Tools: results})
			l.reply, l.submitted, l.OpenCalls = 0, false, 0
		}
		if l.Stopping {
			over = true
			return t.s.finishRun(ctx, tx, l, ending{code: CodeStopped, notice: "It was stopped. It continues with the next message."})
		}
		if err := t.s.addInterjections(ctx, tx, l); err != nil {
			return err
		}
		code, text, err := t.s.findExceededLimit(ctx, tx, l, t.agent)
		if err != nil || code == "" {
			return err
		}
		over = true
		return t.s.endLoop(ctx, tx, l, code, text, uuid.Nil)
	})
	if err != nil {
		return err
	}
	if over {
		return errOver
	}
	return nil
}

// askModel asks the model. It stores the reply and the ids of its calls before any call is made.
func (t *turn) askModel(ctx context.Context) error {
	spec, provider, err := t.chooseProvider(ctx)
	if err != nil {
		return err
	}
	request, err := t.buildRequest(ctx, spec)
	if err != nil {
		return err
	}
	response, err := t.generateReply(ctx, provider, request)
	failpoint.Hit(failpoint.TurnAfterModel)
	if err != nil {
		return t.handleModelError(ctx, err)
	}
	reply, calls, err := t.buildReply(request, response, spec)
	if err != nil {
		return err
	}
	err = t.changeOwnLoop(ctx, func(tx pgx.Tx, l *loop) error {
		if l.Stopping { // the reply came too late, but its usage counts
			countUsage(l, reply)
			l.setStatus(Due)
			return nil
		}
		return t.acceptReply(ctx, tx, l, reply, calls)
	})
	if err == nil {
		t.s.record.countReply(reply, spec)
	}
	if err == nil && t.loop.Status != Running {
		err = errOver
	}
	failpoint.Hit(failpoint.TurnAfterReply)
	return err
}

func (t *turn) generateReply(ctx context.Context, provider model.Provider, request *model.Request) (*model.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.halted, cancel)()
	d := t.s.startDrafter(ctx, t.id, t.step)
	defer d.close()
	return provider.Generate(ctx, request, d.addDelta)
}

func countUsage(l *loop, r *Reply) {
	l.Turns++
	l.InputTokens += r.Usage.InputTokens
	l.OutputTokens += r.Usage.OutputTokens
	l.Cost = agent.RoundCost(l.Cost + r.Cost)
}

// acceptReply stores a reply.
func (t *turn) acceptReply(ctx context.Context, tx pgx.Tx, l *loop, reply *Reply, calls []uuid.UUID) error {
	countUsage(l, reply)
	l.attempts = 0
	l.appendEntry(Entry{Kind: KindAssistant, Assistant: reply})
	if len(reply.Calls) == 0 {
		return t.s.finishRun(ctx, tx, l, endingOf(reply))
	}
	l.reply, l.submitted, l.OpenCalls = l.Seq, false, len(calls)
	_, err := tx.Exec(ctx, `INSERT INTO loop_calls (call_id, conversation_id, seq) SELECT unnest($1::uuid[]), $2, $3`, calls, l.ID, l.Seq)
	return err
}

// endingOf returns the ending of a run whose last reply has no calls.
func endingOf(r *Reply) ending {
	text := r.Text()
	switch {
	case r.Stop == model.StopRefusal:
		return ending{CodeRefused, "The model would not answer.", ""}
	case r.Stop == model.StopMaxTokens:
		return ending{CodeCut, "The answer was cut: it was longer than the model may give (max_tokens). If it wanted to call a tool, that call was not made.", text}
	case text == "":
		return ending{CodeModelFailed, "The model gave an empty answer.", ""}
	}
	return ending{answer: text}
}

// handleModelError ends a run because the model gave no answer. The next message starts a new run.
func (t *turn) handleModelError(ctx context.Context, err error) error {
	switch over := t.halted.Err(); {
	case errors.Is(over, context.DeadlineExceeded):
		text := fmt.Sprintf("The model gave no answer within %s. The conversation continues with the next message.", agent.Duration(t.s.TurnTime))
		return t.giveUp(context.WithoutCancel(ctx), ending{code: CodeModelFailed, notice: text})
	case over != nil:
		return over
	}
	var failure *model.Error
	if !errors.As(err, &failure) {
		return err
	}
	t.s.Logger.Warn("model gave no answer", "conversation", t.id, "agent", t.agent.Name, "error", failure, "cause", failure.Err)
	t.s.record.metrics.turns.WithLabelValues("failed").Inc()
	code, text := CodeModelFailed, "The model could not be asked: "+plain.Quoted(failure.Error(), maxCause)+" The conversation continues with the next message."
	if failure.TooLong {
		code, text = CodeTooLong, "The conversation is longer than the model can take. Start another one, or fork this one at an earlier message."
	}
	return t.giveUp(ctx, ending{code: code, notice: text})
}

// giveUp ends the run and the turn.
func (t *turn) giveUp(ctx context.Context, e ending) error {
	return errors.Join(errOver, t.changeOwnLoop(ctx, func(tx pgx.Tx, l *loop) error { return t.s.finishRun(ctx, tx, l, e) }))
}

// maxCalls bounds the calls of one reply.
const maxCalls = 64

// buildReply converts a response to an entry and gives ids to the calls that will be made. A refusal makes no calls, even if it
// begins with one.
func (t *turn) buildReply(request *model.Request, r *model.Response, spec *agent.ModelSpec) (*Reply, []uuid.UUID, error) {
	if r.Stop == model.StopRefusal {
		r.Parts = slices.DeleteFunc(r.Parts, func(p model.Part) bool { return p.Call != nil })
	}
	reply := &Reply{Parts: r.Parts, Stop: r.Stop, Usage: r.Usage, Model: r.Model}
	if reply.Usage == (model.Usage{}) {
		reply.Usage = model.Estimate(request, r)
	}
	reply.Cost = spec.Cost(reply.Usage.InputTokens, reply.Usage.OutputTokens)
	var ids []uuid.UUID
	for i := range r.Parts {
		wish := r.Parts[i].Call
		if wish == nil {
			continue
		}
		made := MadeCall{ModelID: wish.ID, Name: wish.Name}
		switch refused, err := t.checkCall(wish, len(reply.Calls)); {
		case err != nil:
			return nil, nil, err
		case refused != "":
			made.Refused = refused
		case wish.Name == readTool:
			made.Builtin = []byte(argumentsOrEmpty(wish))
		default:
			id, err := uuid.NewV7()
			if err != nil {
				return nil, nil, fmt.Errorf("make call id: %w", err)
			}
			made.ID = id
			ids = append(ids, id)
		}
		reply.Calls = append(reply.Calls, made)
	}
	return reply, ids, nil
}

// checkCall returns the reason why a requested call cannot be made, or an empty string.
func (t *turn) checkCall(wish *model.ToolCall, before int) (string, error) {
	if before >= maxCalls {
		return fmt.Sprintf("A reply may make at most %d calls. This one was not made.", maxCalls), nil
	}
	_, err := call.CleanArguments([]byte(argumentsOrEmpty(wish)))
	if door, ok := errors.AsType[*call.DoorError](err); ok {
		return "The arguments of this call cannot be read, so it was not made. Correct them and call again: " + plain.Visible(door.Error(), maxCause), nil
	}
	if err != nil {
		return "", err
	}
	if _, offered := t.findTool(wish.Name); !offered && wish.Name != readTool {
		return "There is no tool named " + plain.Quoted(wish.Name, maxShown) + ". The call was not made. Use the tools that you were given, by their exact names.", nil
	}
	return "", nil
}

// argumentsOrEmpty returns the arguments, or an empty object if the model gave none.
func argumentsOrEmpty(wish *model.ToolCall) string {
	if strings.TrimSpace(wish.Arguments) == "" {
		return "{}"
	}
	return wish.Arguments
}

// chooseProvider returns the agent's model and its provider.
func (t *turn) chooseProvider(ctx context.Context) (*agent.ModelSpec, model.Provider, error) {
	spec, err := t.s.Agents.Model(ctx, t.agent.ID)
	if err != nil {
		return nil, nil, err
	}
	if spec == nil {
		return nil, nil, t.giveUp(ctx, ending{code: CodeNoModel, notice: "The agent's model was removed, so it cannot answer."})
	}
	provider, err := t.s.Provider(*spec)
	if err != nil {
		return nil, nil, t.handleModelError(ctx, &model.Error{Message: err.Error()})
	}
	return spec, provider, nil
}

// makeCalls makes the calls of a reply, except for those that an earlier attempt made, and ends the turn. The conversation is
// then due if all calls have ended, and waiting otherwise.
func (t *turn) makeCalls(ctx context.Context) error {
	reply, err := t.readReply(ctx)
	if err != nil {
		return err
	}
	refused, err := t.submitCalls(ctx, reply)
	if err == nil {
		failpoint.Hit(failpoint.TurnAfterCalls)
		err = t.changeOwnLoop(ctx, func(tx pgx.Tx, l *loop) error {
			for id, why := range refused {
				tag, err := tx.Exec(ctx, `UPDATE loop_calls SET ended = true, refused = $2 WHERE call_id = $1 AND NOT ended`, id, why)
				if err != nil {
					return fmt.Errorf("write refused call: %w", err)
				}
				l.OpenCalls -= int(tag.RowsAffected())
			}
			l.submitted = true
			if l.OpenCalls > 0 {
				l.setStatus(Waiting)
			} else {
				l.setStatus(Due)
			}
			return nil
		})
	}
	if err == nil && !t.loop.Stopping {
		return nil
	}
	// A person may have stopped the run or ended the conversation meanwhile. Stop and End cancel only the calls that existed then.
	ctx = context.WithoutCancel(ctx)
	now, getErr := t.s.Get(ctx, Viewer{}, t.id)
	if getErr != nil || !now.Stopping && now.Status != Ended {
		return errors.Join(err, getErr)
	}
	return errors.Join(err, t.s.cancelCalls(ctx, t.id))
}

// readReply reads the reply whose results the model does not have yet.
func (t *turn) readReply(ctx context.Context) (*Reply, error) {
	list, err := t.s.store.readEntries(ctx, t.id, `seq = $2`, t.loop.reply)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 || list[0].Assistant == nil {
		return nil, fmt.Errorf("conversation %s: entry %d is no reply", t.id, t.loop.reply)
	}
	return list[0].Assistant, nil
}

// submitCalls submits the calls in the model's order. It returns the refused ones with their reasons. A call has had its id
// since the reply was stored, so a repeated submission finds the same call.
func (t *turn) submitCalls(ctx context.Context, reply *Reply) (map[uuid.UUID]string, error) {
	known, err := t.s.Calls.ReadCalls(ctx, reply.callIDs())
	if err != nil {
		return nil, err
	}
	refused := map[uuid.UUID]string{}
	n := 0
	for i := range reply.Parts {
		wish := reply.Parts[i].Call
		if wish == nil {
			continue
		}
		made := &reply.Calls[n]
		n++
		if _, before := known[made.ID]; before || made.ID == uuid.Nil {
			continue
		}
		now, err := t.s.Get(ctx, Viewer{}, t.id)
		if err != nil || now.Status == Ended {
			return nil, errors.Join(err, errOver)
		}
		why := "It was stopped before this call was made. The call was not made."
		if !now.Stopping {
			if why, err = t.submitCall(ctx, made.ID, wish); err != nil {
				return nil, err
			}
		}
		if why != "" {
			refused[made.ID] = why
		}
	}
	return refused, nil
}

// submitCall submits one call. It returns a reason if the call cannot be made.
func (t *turn) submitCall(ctx context.Context, id uuid.UUID, wish *model.ToolCall) (string, error) {
	const gone = "The agent can no longer use this tool. The call was not made."
	entry, offered := t.findTool(wish.Name)
	if !offered {
		return gone, nil
	}
	clean, err := call.CleanArguments([]byte(argumentsOrEmpty(wish)))
	if err != nil {
		return "", err
	}
	// From here on the call is independent of this turn.
	_, err = t.s.Calls.Submit(context.WithoutCancel(ctx), call.Submission{
		ID: id, Agent: t.agent, PrincipalID: t.loop.PrincipalID, ConversationID: t.id, Entry: entry, Arguments: clean,
		Caller: call.Caller{Depth: t.loop.Depth + 1},
	})
	refused, full := (*file.AttachmentError)(nil), (*call.PendingError)(nil)
	switch {
	case errors.As(err, &full):
		return "The call was not made: " + full.Error() + ".", nil
	case errors.As(err, &refused):
		return "A file cannot be attached, so the call was not made: " + plain.Visible(refused.Error(), maxCause), nil
	case errors.Is(err, agent.ErrNotFound):
		return gone, nil
	case err != nil:
		return "", fmt.Errorf("make call %s: %w", id, err)
	}
	return "", nil
}
