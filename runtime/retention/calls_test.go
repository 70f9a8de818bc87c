package retention_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/runtime/retention"
)

// Without settings, no call loses anything.
func TestNothingIsDeletedByDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.addCall(w.ago(900*day), w.ago(900*day))
	deleted := w.run(lifetime.DefaultAges())
	if !w.hasContent(id) || w.db.Count("audit_events WHERE action = 'call.parked'") != 1 || deleted["calls"]+deleted["content"]+deleted["events"] != 0 {
		t.Errorf("deleted %v", deleted)
	}
	if deleted["facts"] != 1 || w.db.Count("call_facts") != 0 {
		t.Errorf("facts that no comparison reads are left: %v", deleted)
	}
}

func TestContentOfCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.addCall(w.ago(31*day), w.ago(30*day+time.Minute))
	young := w.addCall(w.ago(31*day), w.ago(30*day-time.Minute)) // older than the age, but ended later
	open := w.addCall(w.ago(60*day), w.ago(60*day), "status = 'parked', finished_at = NULL")
	keyed := w.addCall(w.ago(50*day), w.ago(50*day), "keyed_until = holdpoint_now() + interval '1 minute'")
	fresh := w.addCall(w.now, w.now)
	ages := lifetime.Ages{Content: 30 * day}
	if deleted := w.run(ages); deleted["content"] != 1 {
		t.Errorf("deleted %v", deleted)
	}
	if w.hasContent(old) || !w.hasContent(young) || !w.hasContent(open) || !w.hasContent(keyed) || !w.hasContent(fresh) {
		t.Error("the wrong contents were deleted")
	}
	if n := w.db.Count(`calls WHERE arguments = '{}' AND submitted IS NULL AND result IS NULL AND message IS NULL AND content_deleted_at IS NOT NULL
		AND tool = 'write' AND status = 'succeeded'`); n != 1 {
		t.Errorf("%d skeletons", n)
	}
	if n := w.db.Count("call_questions WHERE params IS NULL AND answer IS NULL AND status = 'answered'"); n != 1 {
		t.Errorf("%d questions without content", n)
	}
	if w.db.Count("approvals") != 5 || w.db.Count("approval_comments") != 5 {
		t.Error("decisions went with the content")
	}

	// What had not ended, or was too young, is found when its time has come.
	w.db.Exec(`UPDATE calls SET status = 'expired', finished_at = $2 WHERE id = $1`, open, w.now)
	w.db.MoveClock("29 days 23 hours")
	if deleted := w.run(ages); deleted["content"] != 2 || w.hasContent(young) || w.hasContent(keyed) || !w.hasContent(open) {
		t.Errorf("deleted %v", deleted)
	}
	w.db.MoveClock("31 days")
	if deleted := w.run(ages); deleted["content"] != 2 || w.hasContent(open) || w.hasContent(fresh) || w.db.Count("retention_skipped") != 0 {
		t.Errorf("deleted %v", deleted)
	}
	if deleted := w.run(ages); deleted["content"] != 0 {
		t.Errorf("deleted again: %v", deleted)
	}
}

// Of an outcome that came too late, the status stays. Its result is JSON in a string, and may have what PostgreSQL cannot store as text.
func TestLateOutcomeLosesContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addCall(w.ago(40*day), w.ago(40*day), `status = 'unknown', late = '{"status":"succeeded","code":"","effect":"certain","message":"secret","result":"{\"a\":\"secret \\u0000\"}"}'`)
	w.run(lifetime.Ages{Content: 30 * day})
	var late string
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT late::text FROM calls`).Scan(&late))
	if !strings.Contains(late, `"succeeded"`) || strings.Contains(late, "secret") {
		t.Errorf("late outcome %s", late)
	}
}

func TestSkeletonsOfCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.addCall(w.ago(91*day), w.ago(90*day+time.Minute))
	young := w.addCall(w.ago(91*day), w.ago(90*day-time.Minute))
	open := w.addCall(w.ago(200*day), w.ago(200*day), "status = 'executing', finished_at = NULL")
	uncounted := w.addCall(w.ago(200*day), w.ago(200*day))
	w.db.Exec(`INSERT INTO call_stragglers VALUES ($1)`, uncounted)
	again := w.addCall(w.ago(200*day), w.ago(200*day)) // a conversation may still submit it
	talk := idAt(w.ago(200 * day))
	w.db.Exec(`INSERT INTO conversations (id, agent_id) VALUES ($1, $2)`, talk, w.agent)
	w.db.Exec(`INSERT INTO loops (conversation_id, agent_id, status) VALUES ($1, $2, 'waiting')`, talk, w.agent)
	w.db.Exec(`INSERT INTO loop_calls (call_id, conversation_id, seq) VALUES ($1, $2, 1)`, again, talk)
	deleted := w.run(lifetime.Ages{Content: 30 * day, Calls: 90 * day})
	if deleted["calls"] != 1 || w.exists(old) || !w.exists(young) || !w.exists(open) || !w.exists(uncounted) || !w.exists(again) {
		t.Errorf("deleted %v", deleted)
	}
	if !w.hasContent(open) || w.hasContent(young) {
		t.Error("the wrong contents were deleted")
	}
	for _, table := range []string{"approvals", "approval_comments", "call_questions"} {
		if n := w.db.Count(table); n != 4 {
			t.Errorf("%d rows of %s", n, table)
		}
	}
	if n := w.db.Count("audit_events WHERE action = 'call.parked'"); n != 5 {
		t.Errorf("%d events", n)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Action: audit.RetentionSwept})
	check(t, err)
	if len(events) != 2 || !strings.Contains(string(events[0].Raw), `"calls": 1`) || !strings.Contains(string(events[0].Raw), `"calls": "90d"`) {
		t.Errorf("events %v", events)
	}
}

// Calls that are not counted yet stay, so that figures remain exact.
func TestUncountedCallsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.addCall(w.ago(91*day), w.ago(91*day))
	w.db.Exec(`UPDATE call_counting SET until = $1`, w.ago(92*day))
	if w.run(lifetime.Ages{Calls: 90 * day}); !w.exists(id) {
		t.Error("an uncounted call was deleted")
	}
	w.db.Exec(`DELETE FROM call_counting`)
	if w.run(lifetime.Ages{Calls: 90 * day}); !w.exists(id) {
		t.Error("a call was deleted before anything was counted")
	}
}

// A run that is interrupted at any batch is resumed by the next one, which deletes each row once.
func TestInterruptedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const calls = 60
	for i := range calls {
		w.addCall(w.ago(40*day+time.Duration(i)*time.Minute), w.ago(40*day))
	}
	ages := lifetime.Ages{Content: 30 * day, Calls: 35 * day, Events: 35 * day}
	batches := 0
	for runs := 0; w.db.Count("calls") > 0 || w.db.Count("audit_events WHERE action = 'call.parked'") > 0; runs++ {
		if runs > 200 {
			t.Fatal("the runs do not come to an end")
		}
		ctx, kill := context.WithCancel(t.Context())
		s := w.service(ages, func(c *retention.Config) {
			c.BatchSize = 10
			c.AfterBatch = func(string) {
				if batches++; batches%7 == 0 {
					kill()
				}
			}
		})
		_, err := s.Run(ctx)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		kill()
	}
	var deleted string
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT string_agg(kind || ' ' || deleted, ', ' ORDER BY kind) FROM retention_progress WHERE kind IN ('content', 'calls', 'events')`).Scan(&deleted))
	if want := fmt.Sprintf("calls %d, content %d, events %d", calls, calls, calls); deleted != want {
		t.Errorf("deleted %s, want %s", deleted, want)
	}
}

// A process is killed after its first deletion. The event was written with it, and the numbers are not lost.
func TestKilledRunIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const calls, size = 35, 10
	for range calls {
		w.addCall(w.ago(40*day), w.ago(40*day))
	}
	ages := lifetime.Ages{Content: 30 * day}
	killed := w.service(ages, func(c *retention.Config) {
		c.BatchSize = size
		c.AfterBatch = func(string) {
			if w.db.Count("calls WHERE content_deleted_at IS NOT NULL") > 0 {
				panic("killed")
			}
		}
	})
	func() {
		defer func() { _ = recover() }()
		_, err := killed.Run(t.Context())
		t.Errorf("the run was not killed: %v", err)
	}()
	if n := w.db.Count(`calls c JOIN audit_events e ON e.xmin = c.xmin WHERE c.content_deleted_at IS NOT NULL AND e.action = 'retention.swept' AND e.data ->> 'state' = 'begun'`); n != size {
		t.Errorf("%d calls lost their content in a transaction with an event, want %d", n, size)
	}
	if deleted := w.run(ages); deleted["content"] != calls-size {
		t.Errorf("deleted %v", deleted)
	}
	w.run(ages) // deletes nothing
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Action: audit.RetentionSwept})
	check(t, err)
	if len(events) != 2 || events[0].Subject != events[1].Subject || !strings.Contains(string(events[0].Raw), fmt.Sprintf(`"content": %d`, calls)) ||
		!strings.Contains(string(events[0].Raw), `"state": "done"`) {
		t.Errorf("events %+v", events)
	}
}

// The session of a batch is cut off before its commit: nothing of the batch is done, and the position does not move.
func TestBatchIsAtomic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.addCall(w.ago(40*day), w.ago(40*day))
	w.db.Exec(`CREATE OR REPLACE FUNCTION break_off() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END'`)
	w.db.Exec(`CREATE TRIGGER break_off BEFORE UPDATE OF params ON call_questions FOR EACH ROW EXECUTE FUNCTION break_off()`)
	if _, err := w.service(lifetime.Ages{Content: 30 * day}).Run(t.Context()); err == nil {
		t.Fatal("the run was not interrupted")
	}
	if !w.hasContent(id) || w.db.Count("retention_progress WHERE kind = 'content' AND cursor IS NOT NULL") != 0 {
		t.Error("a part of the batch was done")
	}
	w.db.Exec(`DROP FUNCTION break_off CASCADE`)
	if deleted := w.run(lifetime.Ages{Content: 30 * day}); deleted["content"] != 1 || w.hasContent(id) {
		t.Errorf("deleted %v", deleted)
	}
}

// Two processes may run at once.
func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 40 {
		w.addCall(w.ago(40*day+time.Duration(i)*time.Minute), w.ago(40*day))
	}
	done := make(chan error, 3)
	for range cap(done) {
		s := w.service(lifetime.Ages{Content: 30 * day, Calls: 35 * day}, func(c *retention.Config) { c.BatchSize = 10 })
		go func() {
			_, err := s.Run(t.Context())
			done <- err
		}()
	}
	for range cap(done) {
		check(t, <-done)
	}
	w.run(lifetime.Ages{Content: 30 * day, Calls: 35 * day})
	if w.db.Count("calls") != 0 {
		t.Error("calls are left")
	}
	var deleted int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT deleted FROM retention_progress WHERE kind = 'calls'`).Scan(&deleted))
	if deleted != 40 {
		t.Errorf("%d calls counted as deleted", deleted)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for want, ages := range map[string]lifetime.Ages{
		"keep-events: must be at least 1d":            {Events: time.Hour},
		"keep-calls: must be at least keep-content":   {Content: 2 * day, Calls: day},
		"keep-sessions: must be at least 1d":          {Sessions: time.Minute},
		"keep-content: must be at least 1d (one day)": {Content: -time.Hour},
	} {
		if err := ages.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", ages, err, want)
		}
	}
	for text, want := range map[string]time.Duration{"90d": 90 * day, "36h": 36 * time.Hour, "0": 0, "forever": 0, "1d": day} {
		got, err := lifetime.ParseAge(text)
		if err != nil || got != want || text != "0" && lifetime.FormatAge(got) != text {
			t.Errorf("%s: %v %v %s", text, got, err, lifetime.FormatAge(got))
		}
	}
	for _, text := range []string{"", "d", "-1d", "90", "1.5d", "90days", "-3h", "999999d"} {
		if _, err := lifetime.ParseAge(text); err == nil {
			t.Errorf("%q is an age", text)
		}
	}
}
