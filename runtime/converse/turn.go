package converse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/failpoint"
	"github.com/holdpoint/holdpoint/internal/plain"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/model"
)

// turnArgs is the job of one turn: the model is told of its calls and asked, and the calls that it wants are made. A job of
// a step that is not the conversation's does nothing.
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

// Work never fails: what breaks off is given back, and gets another job. Where even that was not possible, as in a process that
// stops, this one is left for another process; it does nothing if the turn was given back.
func (w *turnWorker) Work(_ context.Context, job *river.Job[turnArgs]) error {
	if !w.service.work(job.Args) {
		return river.JobSnooze(time.Second)
	}
	return nil
}

// turn is one that this process runs.
type turn struct {
	s     *Service
	id    uuid.UUID
	step  int64
	loop  *loop // as it was when it was claimed, and after what this turn wrote
	agent *agent.Agent
	talk  *catalog.Conversation // with the tools

	halted context.Context // over when somebody stopped what is under way, or closed the conversation
}

// errOver: the turn is not this process's any more, or has nothing more to do.
var errOver = errors.New("the turn is over")

// work reports whether the job is done with.
func (s *Service) work(args turnArgs) bool {
	ctx, cancel := context.WithTimeout(s.asking, s.TurnTime)
	defer cancel()
	halted, halt := context.WithCancel(ctx)
	defer halt()
	if err := s.turns.enter(ctx, args.Conversation, args.Step, cancel, halt); err != nil {
		return errors.Is(err, errStale) // else this process is stopping
	}
	defer s.turns.leave(args.Conversation)
	t := &turn{s: s, id: args.Conversation, step: args.Step, halted: halted}
	err := t.run(ctx)
	if t.loop != nil && t.loop.Status == Ended {
		s.closed(context.WithoutCancel(ctx), t.loop)
	}
	if err == nil || errors.Is(err, errOver) || errors.Is(err, ErrNotFound) {
		return true
	}
	interrupted := errors.Is(ctx.Err(), context.Canceled) || errors.Is(err, context.Canceled) // one whose time is over counts as an attempt
	if !interrupted {
		s.Logger.Error("a turn broke off", "conversation", t.id, "step", t.step, "error", err)
	}
	after, done := context.WithTimeout(context.WithoutCancel(ctx), stale)
	defer done()
	if err := s.giveBack(after, t.id, t.step, interrupted); err != nil {
		s.Logger.Warn("a turn that broke off is taken up later", "conversation", t.id, "error", err)
	}
	return false
}

func (t *turn) run(ctx context.Context) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	if err := t.claim(ctx); err != nil {
		return err
	}
	failpoint.Hit(failpoint.TurnAfterClaim)
	ctx = t.traced(ctx)
	if t.agent, err = t.s.Agents.AgentByID(ctx, t.loop.AgentID); err != nil {
		return t.orphaned(ctx, err)
	}
	if t.talk, err = t.s.Catalog.Conversation(ctx, t.loop.AgentID, t.loop.PrincipalID, t.id); err != nil {
		return t.orphaned(ctx, err)
	}
	if err := t.permitted(ctx); err != nil {
		return err
	}
	if t.loop.reply > 0 && !t.loop.submitted { // an earlier process asked, and did not come to make all calls
		return t.makeCalls(ctx)
	}
	if err := t.tell(ctx); err != nil {
		return err
	}
	if err := t.ask(ctx); err != nil {
		return err
	}
	if t.loop.reply == 0 {
		return nil
	}
	return t.makeCalls(ctx)
}

// permitted ends the run when it is on behalf of somebody whom an operator blocked.
func (t *turn) permitted(ctx context.Context) error {
	if t.loop.PrincipalID == uuid.Nil || t.s.Blocked == nil {
		return nil
	}
	blocked, err := t.s.Blocked(ctx, t.loop.PrincipalID)
	if err != nil || !blocked {
		return err
	}
	return t.giveUp(ctx, ending{code: CodeBlocked, notice: "An operator blocked the person on whose behalf this conversation is held."})
}

// claim makes the turn this process's.
func (t *turn) claim(ctx context.Context) error {
	return t.s.change(ctx, t.id, func(_ pgx.Tx, l *loop) error {
		if l.Status != Queued || l.step != t.step {
			return errOver
		}
		l.Status, l.claimedBy = Running, t.s.Instance
		t.s.turnBegins(ctx, l)
		l.attempts++
		t.loop = l
		return nil
	})
}

// change is what a turn does to its conversation, as long as it is this process's.
func (t *turn) change(ctx context.Context, f func(tx pgx.Tx, l *loop) error) error {
	return t.s.change(ctx, t.id, func(tx pgx.Tx, l *loop) error {
		if l.Status != Running || l.step != t.step || l.claimedBy != t.s.Instance {
			return errOver
		}
		t.loop = l
		return f(tx, l)
	})
}

// orphaned ends a conversation whose agent is gone.
func (t *turn) orphaned(ctx context.Context, err error) error {
	if !errors.Is(err, agent.ErrNotFound) {
		return err
	}
	return errors.Join(errOver, t.change(ctx, func(tx pgx.Tx, l *loop) error {
		return t.s.end(ctx, tx, l, CodeClosed, "The conversation, or its agent, is not there any more.", uuid.Nil)
	}))
}

// tell writes down what the model is told: what became of its calls, and what was said meanwhile. It ends the turn when the
// model is not to be asked.
func (t *turn) tell(ctx context.Context) error {
	var results *Results
	if t.loop.reply > 0 {
		var err error
		if results, err = t.results(ctx); err != nil {
			return err
		}
	}
	over := false
	err := t.change(ctx, func(tx pgx.Tx, l *loop) error {
		if results != nil {
			l.add(Entry{Kind: KindTools, Tools: results})
			l.reply, l.submitted, l.OpenCalls = 0, false, 0
		}
		if l.Stopping {
			over = true
			return t.s.finishRun(ctx, tx, l, ending{code: CodeStopped, notice: "It was stopped. It goes on with the next message."})
		}
		if err := t.s.interject(ctx, tx, l); err != nil {
			return err
		}
		code, text, err := t.s.exhausted(ctx, tx, l, t.agent)
		if err != nil || code == "" {
			return err
		}
		over = true
		return t.s.end(ctx, tx, l, code, text, uuid.Nil)
	})
	if err != nil {
		return err
	}
	if over {
		return errOver
	}
	return nil
}

// closed ends the conversation where it began, too. It is of no account whether that succeeds: nothing goes on in it.
func (s *Service) closed(ctx context.Context, l *loop) {
	if err := s.Catalog.EndConversation(ctx, l.AgentID, l.PrincipalID, l.ID); err != nil && !errors.Is(err, agent.ErrNotFound) {
		s.Logger.Warn("a conversation that ended is still open", "conversation", l.ID, "error", err)
	}
}

// interject adds what was said while the calls were under way. Who asked, and waits for an answer, has a run of turns for it.
func (s *Service) interject(ctx context.Context, tx pgx.Tx, l *loop) error {
	said, err := takeOut(ctx, tx, `DELETE FROM loop_inbox WHERE conversation_id = $1 AND asked IS NULL AND id < coalesce(
		(SELECT id FROM loop_inbox WHERE conversation_id = $1 AND asked IS NOT NULL ORDER BY id LIMIT 1),
		'ffffffff-ffff-ffff-ffff-ffffffffffff') RETURNING id, data`, l.ID)
	for i := range said {
		said[i].Trace = nil // it joins the run under way
		l.add(Entry{Kind: KindUser, User: &said[i]})
	}
	return err
}

// ending is how a run of turns ended.
type ending struct {
	code   string // empty: with an answer
	notice string // in plain words, where there is a code
	answer string // empty: there is none
}

// finishRun ends a run of turns: whoever asked gets the answer, or why there is none, and what was said meanwhile begins the next.
func (s *Service) finishRun(ctx context.Context, tx pgx.Tx, l *loop, e ending) error {
	s.runEnds(l, e.code)
	if e.code != "" {
		l.notice(e.code, e.notice, uuid.Nil)
	}
	if l.asked != uuid.Nil {
		text := e.answer
		if e.code != "" {
			text = strings.TrimSpace(text + "\n\n" + e.notice)
		}
		l.finished = append(l.finished, asked{l.asked, text, e.answer == ""})
		l.asked = uuid.Nil
	}
	l.Stopping, l.attempts = false, 0
	next, err := takeOut(ctx, tx, `DELETE FROM loop_inbox WHERE id = (SELECT id FROM loop_inbox WHERE conversation_id = $1 ORDER BY id LIMIT 1)
		RETURNING id, data`, l.ID)
	if err != nil {
		return err
	}
	l.move(Idle)
	if l.once() && len(next) == 0 { // nobody can come back to it
		l.Code = CodeClosed
		l.move(Ended)
	}
	for i := range next {
		s.runBegins(l, next[i].Trace)
		next[i].Trace = nil
		l.add(Entry{Kind: KindUser, User: &next[i]})
		l.asked = next[i].Asked
		l.move(Due)
	}
	return nil
}

// takeOut deletes messages from the inbox and returns them in the order in which they came.
func takeOut(ctx context.Context, tx pgx.Tx, sql string, id uuid.UUID) ([]Message, error) {
	rows, err := tx.Query(ctx, `WITH taken AS (`+sql+`) SELECT data FROM taken ORDER BY id`, id)
	if err != nil {
		return nil, fmt.Errorf("take messages: %w", err)
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (m Message, err error) {
		var data []byte
		if err = row.Scan(&data); err == nil {
			err = json.Unmarshal(data, &m)
		}
		return m, err
	})
	if err != nil {
		return nil, fmt.Errorf("take messages: %w", err)
	}
	return list, nil
}

// ask asks the model, and writes its reply down with the calls that it wants, before any of them is made.
func (t *turn) ask(ctx context.Context) error {
	spec, provider, err := t.provider(ctx)
	if err != nil {
		return err
	}
	request, err := t.request(ctx, spec)
	if err != nil {
		return err
	}
	response, err := t.generate(ctx, provider, request)
	failpoint.Hit(failpoint.TurnAfterModel)
	if err != nil {
		return t.failed(ctx, err)
	}
	reply, calls, err := t.reply(request, response, spec)
	if err != nil {
		return err
	}
	err = t.change(ctx, func(tx pgx.Tx, l *loop) error {
		if l.Stopping { // the reply came too late; what it took is counted
			count(l, reply)
			l.move(Due)
			return nil
		}
		return t.accept(ctx, tx, l, reply, calls)
	})
	if err == nil {
		t.s.countReply(reply, spec)
	}
	if err == nil && t.loop.Status != Running {
		err = errOver
	}
	failpoint.Hit(failpoint.TurnAfterReply)
	return err
}

func (t *turn) generate(ctx context.Context, provider model.Provider, request *model.Request) (*model.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.halted, cancel)()
	d := t.s.draft(ctx, t.id, t.step)
	defer d.close()
	return provider.Generate(ctx, request, d.hear)
}

func count(l *loop, r *Reply) {
	l.Turns++
	l.InputTokens += r.Usage.InputTokens
	l.OutputTokens += r.Usage.OutputTokens
	l.Cost += r.Cost
}

// accept writes a reply down.
func (t *turn) accept(ctx context.Context, tx pgx.Tx, l *loop, reply *Reply, calls []uuid.UUID) error {
	count(l, reply)
	l.attempts = 0
	l.add(Entry{Kind: KindAssistant, Assistant: reply})
	if len(reply.Calls) == 0 {
		return t.s.finishRun(ctx, tx, l, verdict(reply))
	}
	l.reply, l.submitted, l.OpenCalls = l.Seq, false, len(calls)
	_, err := tx.Exec(ctx, `INSERT INTO loop_calls (call_id, conversation_id, seq) SELECT unnest($1::uuid[]), $2, $3`, calls, l.ID, l.Seq)
	return err
}

// verdict says how a run ended whose last reply wants no calls.
func verdict(r *Reply) ending {
	text := r.Text()
	switch {
	case r.Stop == model.StopRefusal:
		return ending{CodeRefused, "The model would not answer.", ""}
	case r.Stop == model.StopMaxTokens:
		return ending{CodeCut, "The answer was cut: it was longer than the model may give (max_tokens). If it was to call a tool, that call was not made.", text}
	case text == "":
		return ending{CodeModelFailed, "The model gave an empty answer.", ""}
	}
	return ending{answer: text}
}

// failed ends a run whose model gave no answer. The next message tries again.
func (t *turn) failed(ctx context.Context, err error) error {
	switch over := t.halted.Err(); {
	case errors.Is(over, context.DeadlineExceeded):
		text := fmt.Sprintf("The model gave no answer within %s. The conversation goes on with the next message.", agent.Duration(t.s.TurnTime))
		return t.giveUp(context.WithoutCancel(ctx), ending{code: CodeModelFailed, notice: text})
	case over != nil:
		return over
	}
	var failure *model.Error
	if !errors.As(err, &failure) {
		return err
	}
	t.s.Logger.Warn("the model gave no answer", "conversation", t.id, "agent", t.agent.Name, "error", failure, "cause", failure.Err)
	t.s.metrics.turns.WithLabelValues("failed").Inc()
	code, text := CodeModelFailed, "The model could not be asked: "+plain.Quoted(failure.Error(), maxCause)+" The conversation goes on with the next message."
	if failure.TooLong {
		code, text = CodeTooLong, "The conversation is longer than the model can take. Begin another one, or fork this one at an earlier message."
	}
	return t.giveUp(ctx, ending{code: code, notice: text})
}

// giveUp ends the run, and with it the turn.
func (t *turn) giveUp(ctx context.Context, e ending) error {
	return errors.Join(errOver, t.change(ctx, func(tx pgx.Tx, l *loop) error { return t.s.finishRun(ctx, tx, l, e) }))
}
