package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/postgres"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

func TestAutoApprovedCallIsSentAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("open__echo", `{ "big" : 9007199254740993, "e": 1e400, "z": -0 }`)
	if ticket.Gated || ticket.Status != call.Executing {
		t.Fatalf("ticket %+v, want an executing, ungated call", ticket)
	}
	c := w.waitForEnd(ticket.ID)
	if c.Status != call.Succeeded || string(c.Result) != `{"content":[{"type":"text","text":"ok"}]}` {
		t.Fatalf("call ended as %s with %s", c.Status, c.Result)
	}
	if got := w.source.Arguments(); len(got) != 1 || got[0] != `{"big":9007199254740993,"e":1e400,"z":-0}` {
		t.Fatalf("arrived: %q", got)
	}
	if got := w.db.Actions(ticket.ID); got != "call.allowed call.succeeded" {
		t.Errorf("audit: %s", got)
	}
}

func TestApprovedCallRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	if ticket.Status != call.Parked || ticket.Deadline.IsZero() {
		t.Fatalf("ticket %+v, want a parked call with a deadline", ticket)
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Fatalf("%d calls arrived before the decision", n)
	}
	check(t, w.decide(ticket.ID, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Fatalf("call ended as %s: %s", c.Status, c.Message)
	}
	if n := len(w.source.Arguments()); n != 1 {
		t.Fatalf("%d calls arrived, want 1", n)
	}
	if got := w.db.Actions(ticket.ID); got != "call.parked approval.approved call.executing call.succeeded" {
		t.Errorf("audit: %s", got)
	}
}

func TestRejectedCallIsNeverSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	check(t, w.decide(ticket.ID, false))
	c := w.waitForEnd(ticket.ID)
	if c.Status != call.Rejected || c.Code != call.CodeRejected || c.Message != "because" {
		t.Fatalf("call ended as %s, %s, %q", c.Status, c.Code, c.Message)
	}
	var conflict *approval.ConflictError
	if err := w.decide(ticket.ID, true); !errors.As(err, &conflict) || conflict.Approval.DecidedBy != w.reviewer {
		t.Fatalf("a second decision: %v, want a conflict that names the first", err)
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Fatalf("%d calls arrived", n)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	w.db.MoveClock("61 seconds")
	_, err = w.calls.Decide(t.Context(), call.Decision{
		CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer,
	})
	var conflict *approval.ConflictError
	if !errors.As(err, &conflict) || conflict.Approval.Status != approval.Expired {
		t.Fatalf("approving after the deadline: %v, want a conflict with the expiry", err)
	}
	if c := w.waitForEnd(ticket.ID); c.Status != call.Expired {
		t.Fatalf("call ended as %s", c.Status)
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Fatalf("%d calls arrived", n)
	}
}

// Reading an approval waits for no lock, and records the expiry of an overdue one.
func TestReadingAnApprovalLocksNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), `SELECT FROM approvals WHERE call_id = $1 FOR UPDATE`, ticket.ID); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		waiting, err := w.calls.GetApproval(ctx, ticket.ID)
		if err == nil && (waiting.Approval.Status != approval.Pending || waiting.Call.ID != ticket.ID || waiting.Call.Skill != "files") {
			t.Errorf("read %+v", waiting)
		}
		return err
	}))
	w.db.MoveClock("61 seconds")
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	if a := waiting.Approval; a.Status != approval.Expired || a.DecidedAt == nil || waiting.Call.Status != call.Expired {
		t.Errorf("after the deadline, the approval is %s, decided at %v, and the call %s", a.Status, a.DecidedAt, waiting.Call.Status)
	}
}

// Calls expire without a waiter and without a job, in one transaction. One that is locked does not delay the others.
func TestOverdueCallsExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var locked uuid.UUID
	for n := range 20 {
		locked = w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n)).ID
	}
	var expired, transactions, jobs int
	await := func(n int) {
		eventually.Holds(t, "calls to expire", func() bool {
			check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*), count(DISTINCT xmin::text), (SELECT count(*) FROM river_job WHERE kind = 'call_expire')
				FROM calls WHERE status = 'expired'`).Scan(&expired, &transactions, &jobs))
			return expired >= n
		})
	}
	check(t, postgres.InTx(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`) // it is idle as long as the others take
		check(t, err)
		_, err = tx.Exec(t.Context(), `SELECT FROM approvals WHERE call_id = $1 FOR UPDATE`, locked)
		check(t, err)
		w.db.MoveClock("61 seconds")
		await(19)
		if expired != 19 || transactions != 1 || jobs != 0 {
			t.Errorf("%d calls expired in %d transactions with %d jobs", expired, transactions, jobs)
		}
		return nil
	}))
	await(20)
}

// Waiters whose calls are overdue leave connections of the database to others, even if they wait for locks.
func TestWaitersLeaveConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := 4 * int(w.db.Pool().Config().MaxConns)
	ended := make(chan error, n)
	for i := range n {
		id := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, i)).ID
		go func() {
			c, err := w.calls.Wait(t.Context(), id, call.Listener{})
			if err == nil && c.Status != call.Expired {
				err = fmt.Errorf("call %s is %s", id, c.Status)
			}
			ended <- err
		}()
	}
	blocker, err := pgx.Connect(t.Context(), w.db.URL())
	check(t, err)
	defer blocker.Close(context.WithoutCancel(t.Context()))
	tx, err := blocker.Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM approvals FOR UPDATE`)
	check(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM call_connections FOR UPDATE`)
	check(t, err)
	w.db.MoveClock("61 seconds")
	var waiting int
	eventually.Holds(t, "a waiter to wait for a lock", func() bool {
		check(t, blocker.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted`).Scan(&waiting))
		return waiting > 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for range 20 {
		if _, err := w.calls.ListCalls(ctx, nil); err != nil {
			t.Fatalf("while waiters wait for locks: %v", err)
		}
		check(t, w.db.Pool().Ping(ctx))
	}
	check(t, tx.Rollback(t.Context()))
	for range n {
		check(t, <-ended)
	}
}

func TestDecisionCarriesTheDigest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	other := w.submit("files__write", `{"n":2}`)
	theirs, err := w.calls.GetApproval(t.Context(), other.ID)
	check(t, err)
	for _, digest := range []string{"", "x", theirs.Approval.Digest.String(), strings.ToUpper(theirs.Approval.Digest.String())} {
		_, err := w.calls.Decide(t.Context(), call.Decision{CallID: ticket.ID, Approve: true, Digest: digest, By: w.reviewer})
		if !errors.Is(err, approval.ErrDigestMismatch) {
			t.Errorf("digest %q: %v, want a mismatch", digest, err)
		}
	}
	w.db.Exec(`UPDATE calls SET arguments = '{"n":3}' WHERE id = $1`, ticket.ID)
	check(t, w.decide(ticket.ID, true))
	if c := w.waitForEnd(ticket.ID); c.Status != call.Denied || c.Code != call.CodeEnvelopeChanged {
		t.Fatalf("a call whose arguments changed in the database ended as %s, %s", c.Status, c.Code)
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Fatalf("%d calls arrived", n)
	}
}

func TestPrincipalDoesNotDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newSubmission("files__write", `{"n":1}`)
	sub.PrincipalID = w.reviewer
	ticket, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	if err := w.decide(ticket.ID, true); !errors.Is(err, approval.ErrSelfApproval) {
		t.Fatalf("the principal decides about its own call: %v", err)
	}
}

// TestDispatch: the process that decides sends the call, and its job goes with the claim. Without a free place, the job sends the call.
func TestDispatch(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		w := newWorld(t)
		if busy {
			w.calls.ReserveDispatches()
		}
		ticket := w.submit("files__write", `{"n":1}`)
		check(t, w.decide(ticket.ID, true))
		status, jobs := w.waitForEnd(ticket.ID).Status, 0
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM river_job WHERE kind = 'call_execute'`).Scan(&jobs))
		if status != call.Succeeded || (jobs == 1) != busy {
			t.Errorf("busy %t: %s with %d jobs", busy, status, jobs)
		}
	}
}

func TestDispatchChecksAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(w *world)
		code   string
	}{
		"definition": {func(w *world) {
			w.source.Offer(strings.Replace(writeTool, "Write", "Write and delete", 1), echoTool)
			skill, err := w.agents.SkillByName(w.t.Context(), "files")
			check(w.t, err)
			w.discovery.ListChanged(skill.ID)
		}, call.CodeDefinitionChanged},
		"refusal": {func(w *world) {
			entry := w.newSubmission("files__write", `{}`).Entry
			check(w.t, w.agents.RefuseTool(w.t.Context(), audit.Person(w.reviewer), entry.SkillID, "write", entry.Tool.Pin()))
		}, call.CodeDefinitionChanged},
		"assignment": {func(w *world) { w.registry.ApplyJSON(`{"agents":[{"name":"billing","skills":[{"skill":"open"}]}]}`) }, call.CodeAssignmentRevoked},
		"tool list": {func(w *world) {
			w.registry.ApplyJSON(`{"agents":[{"name":"billing","skills":[{"skill":"files","tools":["echo"]}]}]}`)
		}, call.CodeAssignmentRevoked},
		"skill": {func(w *world) {
			w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://127.0.0.1:1/other"}]}`)
		}, call.CodeSkillChanged},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			ticket := w.submit("files__write", `{"n":1}`)
			tc.change(w)
			check(t, w.decide(ticket.ID, true))
			if c := w.waitForEnd(ticket.ID); c.Status != call.Denied || c.Code != tc.code {
				t.Fatalf("call ended as %s, %s (%s), want denied, %s", c.Status, c.Code, c.Message, tc.code)
			}
			if n := len(w.source.Arguments()); n != 0 {
				t.Fatalf("%d calls arrived", n)
			}
		})
	}
}

// TestAdmissionSetsAllFacts: a rule on a fact that is never set never applies.
func TestAdmissionSetsAllFacts(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("admit.go")
	check(t, err)
	_, facts, found := strings.Cut(string(source), "approval.Judge(approval.Facts{\n")
	facts, _, _ = strings.Cut(facts, "\n\t})")
	if !found {
		t.Fatal("admit.go has no literal of approval.Facts")
	}
	for field := range reflect.TypeFor[approval.Facts]().Fields() {
		if !strings.Contains(facts, "\t"+field.Name+":") {
			t.Errorf("admitCall in admit.go does not set approval.Facts.%s", field.Name)
		}
	}
}

func TestUnacceptedDefinitionParksAutoApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newSubmission("open__echo", `{}`)
	changed := strings.Replace(echoTool, `"name"`, `"description":"now different","name"`, 1)
	w.source.Offer(writeTool, changed)
	w.discovery.ListChanged(sub.Entry.SkillID)
	later := w.newSubmission("open__echo", `{}`)
	for _, s := range []call.Submission{sub, later} { // made with the old and the new catalog
		ticket, err := w.calls.Submit(t.Context(), s)
		check(t, err)
		if ticket.Status != call.Parked {
			t.Fatalf("a call of a changed tool is %s", ticket.Status)
		}
		waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
		check(t, err)
		if waiting.Approval.Rule != approval.RuleDefinitionChanged {
			t.Errorf("parked by rule %s", waiting.Approval.Rule)
		}
	}
	check(t, w.agents.AcceptTool(t.Context(), audit.Person(w.reviewer), sub.Entry.SkillID, "echo", later.Entry.Tool.Pin()))
	if ticket := w.submit("open__echo", `{"again":true}`); ticket.Status != call.Executing {
		t.Fatalf("after the change was accepted a call is %s", ticket.Status)
	}
}

func TestRefusedDefinitionIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newSubmission("open__echo", `{}`)
	skill, pin := sub.Entry.SkillID, sub.Entry.Tool.Pin()
	refuse := func(pin tool.Pin) {
		t.Helper()
		check(t, w.agents.RefuseTool(t.Context(), audit.Person(w.reviewer), skill, "echo", pin))
	}
	submitted := func() call.Ticket {
		t.Helper()
		ticket, err := w.calls.Submit(t.Context(), sub) // its catalog still has the tool
		check(t, err)
		return ticket
	}
	refuse(pin)
	ticket := submitted()
	if c := w.waitForEnd(ticket.ID); c.Status != call.Denied || c.Code != call.CodeDefinitionChanged || !strings.Contains(c.Message, "refused") {
		t.Errorf("a call of a refused tool is %s, %s: %s", c.Status, c.Code, c.Message)
	}
	w.source.Offer(writeTool, strings.Replace(echoTool, `"name"`, `"description":"now different","name"`, 1))
	w.discovery.ListChanged(skill)
	changed := w.newSubmission("open__echo", `{}`).Entry.Tool.Pin()
	if ticket := submitted(); ticket.Status != call.Parked {
		t.Errorf("a call of another definition is %s", ticket.Status)
	}
	refuse(changed)
	if n := len(w.source.Arguments()); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
	check(t, w.agents.AcceptTool(t.Context(), audit.Person(w.reviewer), skill, "echo", changed))
	if ticket := submitted(); ticket.Status != call.Executing {
		t.Errorf("after the refusal was taken back a call is %s", ticket.Status)
	}
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":"one"}`)
	c := w.waitForEnd(ticket.ID)
	if c.Status != call.Invalid || c.Code != call.CodeInvalidArguments || !strings.Contains(c.Message, "/n: ") {
		t.Fatalf("call ended as %s, %s: %q", c.Status, c.Code, c.Message)
	}
	if got := w.db.Actions(ticket.ID); got != "call.invalid" {
		t.Errorf("audit: %s", got)
	}
}

func TestRepeatAttaches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newSubmission("files__write", `{"n":1}`)
	var wg sync.WaitGroup
	tickets := make([]call.Ticket, 20)
	for i := range tickets {
		wg.Go(func() {
			var err error
			if tickets[i], err = w.calls.Submit(t.Context(), sub); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fresh := 0
	for _, ticket := range tickets {
		if !ticket.Attached {
			fresh++
		}
		if ticket.ID != tickets[0].ID {
			t.Errorf("two calls: %s and %s", ticket.ID, tickets[0].ID)
		}
	}
	if fresh != 1 {
		t.Errorf("%d tickets are not attached, want 1", fresh)
	}
	keyed := sub
	keyed.IdempotencyKey = "twin"
	if twin, err := w.calls.Submit(t.Context(), keyed); err != nil || twin.ID == tickets[0].ID {
		t.Errorf("another idempotency key attached: %v", err)
	}
	check(t, w.decide(tickets[0].ID, true))
	w.waitForEnd(tickets[0].ID)
	if again, err := w.calls.Submit(t.Context(), sub); err != nil || again.ID != tickets[0].ID || !again.Attached {
		t.Fatalf("a repeat before delivery: %+v, %v", again, err)
	}
	check(t, w.calls.MarkDelivered(t.Context(), tickets[0].ID))
	if again, err := w.calls.Submit(t.Context(), sub); err != nil || again.ID == tickets[0].ID || again.Attached {
		t.Fatalf("a repeat after delivery: %+v, %v", again, err)
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	stranger := call.Viewer{AgentID: uuid.New()}
	if _, err := w.calls.Cancel(t.Context(), stranger, uuid.Nil, ticket.ID); !errors.Is(err, call.ErrNotFound) {
		t.Fatalf("another agent cancels: %v", err)
	}
	own := call.Viewer{AgentID: w.agent.ID}
	c, err := w.calls.Cancel(t.Context(), own, uuid.Nil, ticket.ID)
	check(t, err)
	if c.Status != call.Cancelled {
		t.Fatalf("call is %s", c.Status)
	}
	if _, err := w.calls.Cancel(t.Context(), own, uuid.Nil, ticket.ID); !errors.Is(err, call.ErrState) {
		t.Fatalf("cancelling twice: %v", err)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, failure := range []tool.Failure{
		{Kind: tool.JSONRPCError, Effect: tool.EffectNone, Message: "no", RPC: json.RawMessage(`{"code":-32000,"message":"no"}`)},
		{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "timeout"},
		{Kind: tool.ProtocolFailure, Effect: tool.EffectPossible, Message: "HTML", Raw: json.RawMessage(`"<html>"`)},
		{Kind: tool.SessionInvalid, Effect: tool.EffectNone, Message: "gone"},
	} {
		t.Run(string(failure.Kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.source.Answer(func(tool.CallRequest) (tool.Result, error) { return tool.Result{}, &failure })
			c := w.waitForEnd(w.submit("open__echo", `{}`).ID)
			if c.Status != call.Failed || c.Failure != failure.Kind || c.Effect != failure.Effect || c.Code != string(failure.Kind) {
				t.Fatalf("call ended as %s, %s, %s, %s", c.Status, c.Failure, c.Effect, c.Code)
			}
			if n := len(w.source.Arguments()); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

func TestOutputSchema(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(writeTool, strings.Replace(echoTool, `"inputSchema"`,
		`"outputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},"inputSchema"`, 1))
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		return tool.Result{Raw: json.RawMessage(`{"content":[],"structuredContent":` + string(r.Arguments) + `}`)}, nil
	})
	if c := w.waitForEnd(w.submit("open__echo", `{"n":9007199254740993}`).ID); c.Status != call.Succeeded {
		t.Fatalf("a result that fits the schema: %s, %s", c.Status, c.Message)
	}
	c := w.waitForEnd(w.submit("open__echo", `{"n":"x"}`).ID)
	if c.Failure != tool.ProtocolFailure || c.Effect != tool.EffectPossible || len(c.Result) == 0 {
		t.Fatalf("a result that breaks the schema: %s, %s, %s, result %s", c.Status, c.Failure, c.Effect, c.Result)
	}
}

func TestIdempotentToolIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"open","transport":"http","url":"http://127.0.0.1:1/open","auto_approve":true,"tools":{"echo":{"idempotent":true}}}]}`)
	failures := 2
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		w.source.Lock()
		defer w.source.Unlock()
		if failures--; failures >= 0 {
			return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "reset"}
		}
		return tool.Result{Raw: json.RawMessage(`{"content":[]}`)}, nil
	})
	if c := w.waitForEnd(w.submit("open__echo", `{}`).ID); c.Status != call.Succeeded {
		t.Fatalf("call ended as %s: %s", c.Status, c.Message)
	}
	if n := len(w.source.Arguments()); n != 3 {
		t.Errorf("sent %d times, want 3", n)
	}
}

// TestRetryAfter: only an idempotent call is sent again. It honors Retry-After, makes at most three attempts, and stays within
// the call's time.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"open","transport":"http","url":"http://127.0.0.1:1/open","auto_approve":true,"tools":{"echo":{"idempotent":true}}}]}`)
	later := func(wait time.Duration) tool.Result {
		return tool.Result{Raw: json.RawMessage(`{"content":[],"isError":true}`), IsError: true, RetryAfter: &wait}
	}
	none := tool.Result{Raw: json.RawMessage(`{"content":[]}`)}
	broken := &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "reset"}
	for name, test := range map[string]struct {
		tool    string
		answers []any
		sends   int
		status  call.Status
	}{
		"once":                {"echo", []any{later(0), none}, 2, call.Succeeded},
		"twice":               {"echo", []any{later(0), later(time.Millisecond), none}, 3, call.Succeeded},
		"always":              {"echo", []any{later(0), later(0), later(0), none}, 3, call.Failed},
		"and breaks":          {"echo", []any{later(0), broken, later(0), none}, 3, call.Failed},
		"too long":            {"echo", []any{later(time.Hour), none}, 1, call.Failed},
		"not idempotent":      {"write", []any{later(0), none}, 1, call.Failed},
		"said nothing":        {"echo", []any{tool.Result{Raw: none.Raw, IsError: true}, none}, 1, call.Failed},
		"no sooner than that": {"echo", []any{later(time.Second), none}, 2, call.Succeeded},
	} {
		before := len(w.source.Arguments())
		var times []time.Time
		w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
			w.source.Lock()
			defer w.source.Unlock()
			times = append(times, time.Now())
			switch answer := test.answers[min(len(times), len(test.answers))-1].(type) {
			case tool.Result:
				return answer, nil
			case *tool.Failure:
				return tool.Result{}, answer
			}
			return tool.Result{}, nil
		})
		c := w.waitForEnd(w.submit("open__"+test.tool, `{"n":1}`).ID)
		if sends := len(w.source.Arguments()) - before; sends != test.sends || c.Status != test.status {
			t.Errorf("%s: sent %d times, ended as %s, want %d, %s", name, sends, c.Status, test.sends, test.status)
		}
		if first, ok := test.answers[0].(tool.Result); ok && first.RetryAfter != nil && len(times) > 1 && times[1].Sub(times[0]) < *first.RetryAfter {
			t.Errorf("%s: sent again after %s", name, times[1].Sub(times[0]))
		}
	}
}

// TestEarlierSendsCount: a later failure does not rule out the effect of an earlier attempt.
func TestEarlierSendsCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"skills":[{"name":"open","transport":"http","url":"http://127.0.0.1:1/open","auto_approve":true,"tools":{"echo":{"idempotent":true}}}]}`)
	at := time.Duration(0)
	unavailable := tool.Result{Raw: json.RawMessage(`{"content":[],"isError":true}`), IsError: true, Effect: tool.EffectPossible, RetryAfter: &at}
	refused := &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "refused"}
	reset := &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "reset"}
	signIn := &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectNone, Message: "401", Connect: &tool.Connect{Reason: "revoked"}}
	for name, test := range map[string]struct {
		answers []any
		effect  tool.Effect
	}{
		"refused afterwards":           {[]any{reset, refused, refused}, tool.EffectPossible},
		"unavailable, then refused":    {[]any{unavailable, refused, refused}, tool.EffectPossible},
		"a connection lacks meanwhile": {[]any{reset, signIn}, tool.EffectPossible},
		"nothing was ever sent":        {[]any{refused, refused, refused}, tool.EffectNone},
	} {
		sends := 0
		w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
			w.source.Lock()
			defer w.source.Unlock()
			sends++
			switch answer := test.answers[min(sends, len(test.answers))-1].(type) {
			case tool.Result:
				return answer, nil
			case *tool.Failure:
				return tool.Result{}, answer
			}
			return tool.Result{}, nil
		})
		if c := w.waitForEnd(w.submit("open__echo", `{}`).ID); c.Status != call.Failed || c.Effect != test.effect || sends != len(test.answers) {
			t.Errorf("%s: sent %d times, %s, effect %s, want %s", name, sends, c.Status, c.Effect, test.effect)
		}
	}
}

func TestViewers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	for name, viewer := range map[string]call.Viewer{
		"another agent":                {AgentID: uuid.New()},
		"same agent, with a principal": {AgentID: w.agent.ID, PrincipalID: uuid.New()},
	} {
		if _, err := w.calls.Get(t.Context(), viewer, ticket.ID); !errors.Is(err, call.ErrNotFound) {
			t.Errorf("%s sees the call: %v", name, err)
		}
		if found, err := w.history().Search(t.Context(), history.Filter{Viewer: viewer}); err != nil || len(found.Calls) != 0 {
			t.Errorf("%s finds %d calls, %v", name, len(found.Calls), err)
		}
	}
	found, err := w.history().Search(t.Context(), history.Filter{Viewer: call.Viewer{AgentID: w.agent.ID}})
	check(t, err)
	if list := found.Calls; len(list) != 1 || list[0].Agent != "billing" || list[0].Skill != "files" {
		t.Errorf("its own agent lists %+v", list)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.calls.Wait(ctx, ticket.ID, call.Listener{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("wait: %v", err)
	}
	if c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID); err != nil || c.Status != call.Parked {
		t.Fatalf("after the waiter left the call is %s, %v", c.Status, err)
	}
}
