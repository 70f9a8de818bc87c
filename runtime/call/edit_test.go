package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

// approveWith approves a call with other arguments.
func (w *world) approveWith(id uuid.UUID, arguments string) (call.Waiting, error) {
	w.t.Helper()
	waiting, err := w.calls.GetApproval(w.t.Context(), id)
	check(w.t, err)
	return w.calls.Decide(w.t.Context(), call.Decision{
		CallID: id, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer, Arguments: json.RawMessage(arguments),
	})
}

func TestEditedCallIsSentAsTheReviewerWroteIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1,"secret":"do not log"}`)
	before, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	decided, err := w.approveWith(ticket.ID, `{ "n" : 9007199254740993 , "extra" : "\u00e9" }`)
	check(t, err)
	if !decided.Approval.Edited() || decided.Approval.Original != before.Approval.Digest || decided.Approval.Digest == before.Approval.Digest {
		t.Errorf("approval %+v, want one with the digest of other arguments, and the first kept", decided.Approval)
	}
	done := w.waitForEnd(ticket.ID)
	const sent = `{"n":9007199254740993,"extra":"\u00e9"}`
	if done.Status != call.Succeeded || string(done.Arguments) != sent || string(done.Submitted) != `{"n":1,"secret":"do not log"}` {
		t.Errorf("call %s with %s, submitted %s", done.Status, done.Arguments, done.Submitted)
	}
	if got := w.source.Arguments(); !slices.Equal(got, []string{sent}) {
		t.Errorf("the server got %q", got)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: ticket.ID})
	check(t, err)
	for _, e := range events {
		text, err := json.Marshal(e.Data)
		check(t, err)
		if e.Action == "approval.approved" && string(text) != `{"digest":"`+decided.Approval.Digest.String()+`","edited":["n","extra","secret"],"note":"","original_digest":"`+before.Approval.Digest.String()+`"}` {
			t.Errorf("audit %s", text)
		}
	}
	// A repeat with the agent's own arguments attaches because the outcome is not delivered yet.
	if again := w.submit("files__write", `{"n":1,"secret":"do not log"}`); again.ID != ticket.ID || !again.Attached {
		t.Errorf("a repeat with the agent's arguments: %+v", again)
	}
}

func TestEditsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	for arguments, want := range map[string]string{
		`{}`:            "missing",
		`{"n":"text"}`:  "/n",
		`[1]`:           "must be a JSON object",
		`{"n":1,"n":2}`: "duplicate",
		`{"n":`:         "ends too early",
		`{"n":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`: "must be nested at most",
	} {
		_, err := w.approveWith(ticket.ID, arguments)
		if !errors.Is(err, call.ErrEdit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, want an edit error that says %q", arguments, err, want)
		}
	}
	_, err := w.calls.Decide(t.Context(), call.Decision{
		CallID: ticket.ID, Approve: true, Digest: strings.Repeat("0", 64), By: w.reviewer, Arguments: json.RawMessage(`{"n":2}`),
	})
	if !errors.Is(err, approval.ErrDigestMismatch) {
		t.Errorf("an edit with another digest: %v", err)
	}
	now, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	if now.Approval.Status != approval.Pending || string(now.Call.Arguments) != `{"n":1}` {
		t.Errorf("refused edits left %s with %s", now.Approval.Status, now.Call.Arguments)
	}
	if decided, err := w.approveWith(ticket.ID, `{ "n": 1 }`); err != nil || decided.Approval.Edited() {
		t.Errorf("the same arguments: %v, edited %v", err, decided.Approval.Edited())
	}
	if done := w.waitForEnd(ticket.ID); done.Submitted != nil {
		t.Errorf("the same arguments count as edited: %s", done.Submitted)
	}
}

// Only one of two concurrent edits is approved, and its arguments are sent.
func TestTwoEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":0}`)
	waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
	check(t, err)
	errs := make([]error, 8)
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() {
			_, errs[i] = w.calls.Decide(t.Context(), call.Decision{
				CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer,
				Arguments: json.RawMessage(`{"n":` + string(rune('1'+i)) + `}`),
			})
		})
	}
	both.Wait()
	winner := -1
	for i, err := range errs {
		var conflict *approval.ConflictError
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("%d and %d both decided", winner, i)
		case !errors.As(err, &conflict) && !errors.Is(err, approval.ErrDigestMismatch):
			t.Error(err)
		}
	}
	w.waitForEnd(ticket.ID)
	if got := w.source.Arguments(); winner < 0 || !slices.Equal(got, []string{`{"n":` + string(rune('1'+winner)) + `}`}) {
		t.Errorf("winner %d, the server got %q", winner, got)
	}
}

func TestMoreTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	last := ticket.Deadline
	for range approval.MaxExtensions {
		extended, err := w.calls.Extend(t.Context(), ticket.ID, w.reviewer)
		check(t, err)
		if got := extended.Approval.Deadline.Sub(last).Round(time.Second); got != time.Minute {
			t.Errorf("the deadline moved by %s, want one minute", got)
		}
		last = extended.Approval.Deadline
	}
	if _, err := w.calls.Extend(t.Context(), ticket.ID, w.reviewer); !errors.Is(err, approval.ErrExtended) {
		t.Errorf("extending again: %v", err)
	}
	if got := w.db.Actions(ticket.ID); got != "call.parked approval.extended approval.extended approval.extended" {
		t.Errorf("audit: %s", got)
	}
	w.db.MoveClock("3 minutes 30 seconds")
	if c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID); err != nil || c.Status != call.Parked {
		t.Errorf("before the last deadline: %s, %v", c.Status, err)
	}
	w.db.MoveClock("4 minutes 30 seconds")
	var conflict *approval.ConflictError
	if _, err := w.calls.Extend(t.Context(), ticket.ID, w.reviewer); !errors.As(err, &conflict) {
		t.Errorf("after the deadline: %v", err)
	}
	if done := w.waitForEnd(ticket.ID); done.Status != call.Expired {
		t.Errorf("after the last deadline: %s", done.Status)
	}
	eventually.Holds(t, "the expired call is counted", func() bool { // after the commit, by whoever expired it
		return readCounters(t, w.calls.Collectors(), "holdpoint_calls_total")["code=expired skill=files status=expired"] == 1
	})
}

// Waiters in the same process follow the extended deadline.
func TestWaiterFollowsTheDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ticket := w.submit("files__write", `{"n":1}`)
	ended := make(chan *call.Call, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		c, _ := w.calls.Wait(ctx, ticket.ID, call.Listener{})
		ended <- c
	}()
	_, err := w.calls.Extend(t.Context(), ticket.ID, w.reviewer)
	check(t, err)
	check(t, w.decide(ticket.ID, true))
	if c := <-ended; c == nil || c.Status != call.Succeeded {
		t.Errorf("the call ended as %+v", c)
	}
}

func TestNobodyMayDecide(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []call.AttentionKind
	w := newWorld(t, func(_ *world, c *call.Config) {
		c.ListDeciders = func(context.Context, *approval.Approval) ([]uuid.UUID, error) { return nil, nil }
		c.Attend = func(_ context.Context, _ pgx.Tx, list []call.Attention) error {
			mu.Lock()
			defer mu.Unlock()
			for _, a := range list {
				told = append(told, a.Kind)
			}
			return nil
		}
	})
	ticket := w.submit("files__write", `{"n":1}`)
	if !ticket.Alone || ticket.Status != call.Parked {
		t.Errorf("ticket %+v", ticket)
	}
	w.db.MoveClock("2 minutes")
	if done := w.waitForEnd(ticket.ID); done.Status != call.Expired || done.Code != call.CodeNoReviewer {
		t.Errorf("%s, %s", done.Status, done.Code)
	}
	if got := w.db.Actions(ticket.ID); got != "call.parked approval.no_reviewer approval.expired" {
		t.Errorf("audit: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, []call.AttentionKind{call.Alone, call.Waits, call.Settled}) {
		t.Errorf("told %v", told)
	}
}

func TestSecondTeamIsAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.db.Exec(`UPDATE skills SET team = 'payments', escalate_to = 'duty' WHERE name = 'files'`)
	second := agent.Duration(time.Second)
	found, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)
	long := agent.Duration(time.Hour)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{ApprovalTimeout: &second})
	check(t, err)
	_, err = w.agents.UpdateSkill(t.Context(), audit.System(), found.ID, agent.SkillPatch{ApprovalTimeout: &long})
	check(t, err)
	ticket := w.submit("files__write", `{"n":1}`)
	mine, _, err := w.calls.ListQueue(t.Context(), approval.QueueFilter{Team: "duty", Limit: 10})
	check(t, err)
	if len(mine) != 0 {
		t.Error("the second team was asked immediately")
	}
	w.db.MoveClock("31 minutes") // more than half of the hour
	w.db.Exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'call_escalation'`)
	for deadline := time.Now().Add(patience); ; {
		waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
		check(t, err)
		if waiting.Approval.EscalatedAt != nil {
			if waiting.Approval.Team != "payments" || !waiting.Approval.Asks([]string{"duty"}) {
				t.Errorf("approval %+v", waiting.Approval)
			}
			break
		}
		if waiting.Approval.Status != approval.Pending || time.Now().After(deadline) {
			t.Fatal("the second team was never asked")
		}
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // polling interval
	}
	mine, _, err = w.calls.ListQueue(t.Context(), approval.QueueFilter{Team: "duty", Limit: 10})
	check(t, err)
	if len(mine) != 1 {
		t.Errorf("the second team's queue has %d", len(mine))
	}
	if got := w.db.Actions(ticket.ID); got != "call.parked approval.escalated" {
		t.Errorf("audit: %s", got)
	}
}

func TestQueueOfTeams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []uuid.UUID
	for _, team := range []string{"a", "b", "", "a", "b"} {
		ticket := w.submit("files__write", `{"n":`+string(rune('1'+len(ids)))+`}`)
		ids = append(ids, ticket.ID)
		w.db.Exec(`UPDATE approvals SET team = nullif($2, '') WHERE call_id = $1`, ticket.ID, team)
	}
	place := func(f approval.QueueFilter) string {
		var order strings.Builder
		for {
			page, next, err := w.calls.ListQueue(t.Context(), f)
			check(t, err)
			for _, one := range page {
				order.WriteRune(rune('0' + slices.Index(ids, one.Call.ID)))
			}
			if next.CallID == uuid.Nil {
				return order.String()
			}
			if f.After, err = approval.ParsePosition(next.String()); err != nil || f.After.CallID != next.CallID {
				t.Fatalf("position %s: %v", next, err)
			}
			order.WriteString("|")
		}
	}
	for _, tt := range []struct {
		filter approval.QueueFilter
		want   string
	}{
		{approval.QueueFilter{Limit: 10}, "01234"},
		{approval.QueueFilter{Limit: 2}, "01|23|4"},
		{approval.QueueFilter{Limit: 2, Teams: []string{"b"}}, "14|02|3"},
		{approval.QueueFilter{Limit: 10, Teams: []string{"a", "b"}}, "01342"},
		{approval.QueueFilter{Limit: 1, Team: "a"}, "0|3"},
		{approval.QueueFilter{Limit: 10, AgentID: uuid.New()}, ""},
		{approval.QueueFilter{Limit: 10, Tool: "write"}, "01234"},
	} {
		if got := place(tt.filter); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.filter, got, tt.want)
		}
	}
	counts, err := w.calls.CountQueue(t.Context(), approval.QueueFilter{Teams: []string{"b"}})
	check(t, err)
	if counts != (approval.Counts{All: 5, Own: 2}) {
		t.Errorf("counts %+v", counts)
	}
	for _, bad := range []string{"x", "true.1", "true.x." + uuid.NewString(), "true.1." + uuid.Nil.String()} {
		if _, err := approval.ParsePosition(bad); err == nil {
			t.Errorf("position %q was read", bad)
		}
	}
}

func TestWhatWasDecidedBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit("files__write", `{"n":1}`)
	check(t, w.decide(first.ID, true))
	check(t, w.decide(w.submit("files__write", `{"n":2}`).ID, false))
	_, err := w.approveWith(w.submit("files__write", `{"n":3}`).ID, `{"n":4}`)
	check(t, err)
	check(t, w.decide(w.submit("files__echo", `{}`).ID, true))
	next, err := w.calls.GetApproval(t.Context(), w.submit("files__write", `{"n":5}`).ID)
	check(t, err)
	readHistory := func() (found approval.ToolHistory) {
		batch := &pgx.Batch{}
		approval.QueueToolHistory(batch, next.Call.SkillID, "write", time.Hour, &found)
		check(t, w.db.Pool().SendBatch(t.Context(), batch).Close())
		return found
	}
	record := readHistory()
	if record != (approval.ToolHistory{Approved: 2, Edited: 1, Rejected: 1}) {
		t.Errorf("record %+v", record)
	}
	w.db.Exec(`INSERT INTO approvals SELECT (jsonb_populate_record(a, jsonb_build_object('call_id', gen_random_uuid(), 'decided_at', holdpoint_now()))).*
		FROM approvals AS a, generate_series(1, $2) WHERE call_id = $1`, first.ID, approval.MaxToolHistory)
	record = readHistory()
	if record != (approval.ToolHistory{Approved: approval.MaxToolHistory, Full: true}) {
		t.Errorf("record of many decisions %+v", record)
	}
	like, err := w.calls.ListSimilar(t.Context(), &next.Approval, 10)
	check(t, err)
	if len(like) != 1 || like[0].Call.ID != next.Call.ID {
		t.Errorf("%d similar calls", len(like))
	}
}

// A list marks large arguments as left out, even if only the agent's original arguments are large.
func TestLargeArgumentsThatWereEdited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	given := `{"n":1,"text":"` + strings.Repeat("a", 70_000) + `"}`
	ticket := w.submit("files__write", given)
	_, err := w.approveWith(ticket.ID, `{"n":2}`)
	check(t, err)
	w.waitForEnd(ticket.ID)
	found, err := w.history().Search(t.Context(), history.Filter{Limit: 10})
	check(t, err)
	if len(found.Calls) != 1 || !found.Calls[0].Partial {
		t.Fatalf("%d calls, not marked as truncated", len(found.Calls))
	}
	c := found.Calls[0]
	check(t, w.history().ReadWhole(t.Context(), &c))
	if string(c.Submitted) != given || string(c.Arguments) != `{"n":2}` || c.Partial {
		t.Errorf("the full call has %s and %d submitted bytes", c.Arguments, len(c.Submitted))
	}
}
