package call_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
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
	"github.com/holdpoint/holdpoint/internal/postgrestest/faultproxy"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// failUpdates makes updates of results fail with a SQLSTATE until heal is called. tried returns the number of attempts.
func (w *world) failUpdates(state string) (tried func() int64, heal func()) {
	w.t.Helper()
	w.db.Exec(`CREATE SEQUENCE tried`)
	w.db.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM nextval('tried'); RAISE EXCEPTION USING ERRCODE = '` + state + `', MESSAGE = 'as a test wants it'; END $$`)
	w.db.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON calls FOR EACH ROW WHEN (NEW.result IS NOT NULL) EXECUTE FUNCTION refuse()`)
	w.t.Cleanup(func() {
		_, err := w.db.Pool().Exec(context.WithoutCancel(w.t.Context()), `DROP FUNCTION refuse CASCADE; DROP SEQUENCE tried`)
		check(w.t, err)
	})
	return func() (n int64) {
			check(w.t, w.db.Pool().QueryRow(w.t.Context(), `SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tried`).Scan(&n))
			return n
		}, func() {
			w.db.Exec(`DROP TRIGGER refuse ON calls`)
		}
}

// TestResultOutlivesFaults: a result is dropped only if the database cannot store it, never because of a temporary fault.
func TestResultOutlivesFaults(t *testing.T) {
	t.Parallel()
	for state, kept := range map[string]bool{
		"25006": true, // read-only after a failover
		"55P03": true, "0A000": true, "58030": true, "XX000": true, "42P01": true,
		"22P02": false, "54000": false,
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tried, heal := w.failUpdates(state)
			ticket := w.submit("open__echo", `{}`)
			if kept {
				eventually.Holds(w.t, "three attempts", func() bool { return tried() >= 3 })
				heal()
			}
			c := w.waitForEnd(ticket.ID)
			if got := string(c.Result) != ""; c.Status != call.Succeeded || got != kept {
				t.Errorf("the call is %s, %q, with the result %q", c.Status, c.Message, c.Result)
			}
		})
	}
}

// TestDeadConnectionsAreReplaced: connections that silently drop requests delay calls only briefly.
func TestDeadConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := faultproxy.Start(t, w.db.URL())
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: proxy.URL(), MaxConns: 12})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close(context.WithoutCancel(t.Context()))) })
	calls := w.startOn(db, false)
	submit := func(n int) uuid.UUID {
		ticket, err := calls.Submit(t.Context(), w.newSubmission("files__write", fmt.Sprintf(`{"n":%d}`, n)))
		check(t, err)
		return ticket.ID
	}
	submit(0)
	subs := make([]call.Submission, 6)
	for i := range subs {
		subs[i] = w.newSubmission("files__write", fmt.Sprintf(`{"n":%d}`, i+1))
	}
	proxy.Conns().BlackHole(faultproxy.Both)
	var wg sync.WaitGroup
	for i := range subs {
		wg.Go(func() {
			if ticket, err := calls.Submit(t.Context(), subs[i]); err != nil || ticket.Status != call.Parked {
				t.Errorf("submitting while connections are dead: %s, %v", ticket.Status, err)
			}
		})
	}
	wg.Wait()
	eventually.Holds(w.t, "a heartbeat over a new connection", func() bool { return len(calls.ListStalled(10*time.Second)) == 0 })
}

// TestLockedCallDelaysNoOther: other calls are parked while an open transaction of another process holds the keys of two calls.
func TestLockedCallDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const locked = 2
	subs := make([]call.Submission, locked+4)
	for i := range subs {
		subs[i] = w.newSubmission("files__write", fmt.Sprintf(`{"n":%d}`, i))
	}
	tx, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	check(t, err)
	for i := range locked {
		ticket, err := w.calls.Submit(t.Context(), subs[i])
		check(t, err)
		// Inserts the same call again, without committing.
		var key []byte
		check(t, w.db.Pool().QueryRow(t.Context(), `UPDATE calls SET attach_key = NULL FROM (SELECT attach_key FROM calls WHERE id = $1) AS old
			WHERE id = $1 RETURNING old.attach_key`, ticket.ID).Scan(&key))
		_, err = tx.Exec(t.Context(), `INSERT INTO calls (id, agent_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments, attach_key)
			VALUES (gen_random_uuid(), $1, $1, 1, true, 'parked', 'write', 'x', sha256(''), '{}', $2)`, uuid.New(), key)
		check(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var blocked sync.WaitGroup
	for i := range locked {
		blocked.Go(func() { _, _ = w.calls.Submit(ctx, subs[i]) })
	}
	eventually.Holds(w.t, "two transactions that wait for the lock", func() bool {
		var waiting int
		check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
		return waiting >= locked
	})
	for _, sub := range subs[locked:] {
		if ticket, err := w.calls.Submit(t.Context(), sub); err != nil || ticket.Status != call.Parked {
			t.Errorf("submitting beside a locked call: %s, %v", ticket.Status, err)
		}
	}
	cancel()
	check(t, tx.Rollback(t.Context()))
	blocked.Wait()
}

// TestHeartbeatNeedsNoPool: a process counts as alive even if all its connections are in use.
func TestHeartbeatNeedsNoPool(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	beat := func() (at time.Time) {
		conn, err := pgx.Connect(t.Context(), w.db.URL())
		check(t, err)
		defer func() { check(t, conn.Close(context.WithoutCancel(t.Context()))) }()
		check(t, conn.QueryRow(t.Context(), `SELECT heartbeat_at FROM instances WHERE id = $1`, w.calls.Instance).Scan(&at))
		return at
	}
	var taken []interface{ Release() }
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		conn, err := w.db.Pool().Acquire(ctx)
		cancel()
		if err != nil {
			break
		}
		taken = append(taken, conn)
	}
	defer func() {
		for _, conn := range taken {
			conn.Release()
		}
	}()
	before := beat()
	eventually.Holds(w.t, "another heartbeat", func() bool { return beat().After(before) })
}

// TestDeadVitalConnections: a living process is not declared gone when its connections for heartbeat and recovery go silent.
func TestDeadVitalConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	proxy := faultproxy.Start(t, w.db.URL())
	db, err := postgres.Open(t.Context(), postgres.Config{DatabaseURL: proxy.URL(), MaxConns: 12})
	check(t, err)
	t.Cleanup(func() { check(t, db.Close(context.WithoutCancel(t.Context()))) })
	calls := w.startOn(db, false)
	release := make(chan struct{})
	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		<-release
		return tool.Result{Raw: []byte(`{"content":[]}`)}, nil
	})
	defer close(release)
	ticket, err := calls.Submit(t.Context(), w.newSubmission("open__echo", `{}`))
	check(t, err)
	anotherBeat := func() {
		var first, now time.Time
		const read = `SELECT heartbeat_at FROM instances WHERE id = $1`
		check(t, w.db.Pool().QueryRow(t.Context(), read, calls.Instance).Scan(&first))
		eventually.Holds(w.t, "another heartbeat", func() bool {
			err := w.db.Pool().QueryRow(t.Context(), read, calls.Instance).Scan(&now)
			return err == nil && now.After(first)
		})
	}
	check(t, calls.Recover(t.Context()))
	anotherBeat()
	proxy.Conns().BlackHole(faultproxy.Both)
	anotherBeat()
	if c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID); err != nil || c.Status != call.Executing {
		t.Errorf("the call of a living process is %s, %v", c.Status, err)
	}
}

// TestLockedClaimDelaysNoRecovery: a stopped session locks the row of one abandoned claim. Other calls are recovered at once,
// that one when the lock is released.
func TestLockedClaimDelaysNoRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	locked, free, approved := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`), w.submit("files__write", `{"n":3}`)
	silent := uuid.New()
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now()`)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2 WHERE id = ANY($1)`, []uuid.UUID{locked.ID, free.ID}, silent)
	w.db.Exec(`INSERT INTO instances (id) VALUES ($1)`, silent)
	tx, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	check(t, err)
	_, err = tx.Exec(t.Context(), `SELECT FROM calls WHERE id = $1 FOR UPDATE`, locked.ID)
	check(t, err)
	if c := w.waitForEnd(free.ID); c.Status != call.Unknown {
		t.Errorf("the other claim of the silent instance is %s", c.Status)
	}
	w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, approved.ID)
	check(t, w.calls.Recover(t.Context()))
	if c := w.waitForEnd(approved.ID); c.Status != call.Succeeded {
		t.Errorf("the approved call is %s", c.Status)
	}
	check(t, tx.Rollback(t.Context()))
	if c := w.waitForEnd(locked.ID); c.Status != call.Unknown {
		t.Errorf("the claim that was locked is %s", c.Status)
	}
}

// TestRecoveredCallsGetOneJob: a call gets a new job only if River fetched and lost the first one.
func TestRecoveredCallsGetOneJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	const insertJob = `INSERT INTO river_job (kind, queue, args, max_attempts, state, attempt, attempted_at, attempted_by, scheduled_at)
		VALUES ('call_execute', 'execute', jsonb_build_object('call_id', $1::uuid), 25, $2, 1, now(), ARRAY[$3::text], now() + interval '1 hour')`
	approve := func(n int, state string) uuid.UUID {
		id := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n)).ID
		w.db.Exec(insertJob, id, state, w.calls.Instance.String())
		w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, id)
		w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, id)
		return id
	}
	waits, lost := approve(1, "scheduled"), approve(2, "running")
	for range 3 {
		check(t, w.calls.Recover(t.Context()))
	}
	if c := w.waitForEnd(lost); c.Status != call.Succeeded {
		t.Errorf("the call that lost its job is %s", c.Status)
	}
	var jobs int
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM river_job WHERE args @> jsonb_build_object('call_id', $1::uuid) AND kind = 'call_execute'`,
		waits).Scan(&jobs))
	if c, err := w.calls.Get(t.Context(), call.Viewer{}, waits); err != nil || c.Status != call.Approved || jobs != 1 {
		t.Errorf("the call with a waiting job is %s and has %d jobs, %v", c.Status, jobs, err)
	}
}

// TestApprovalLapsesAfterTheClaim: an approval also lapses after the claim, if the claim's answer was lost or the process was
// suspended before sending.
func TestApprovalLapsesAfterTheClaim(t *testing.T) {
	t.Parallel()
	expired := func(t *testing.T, w *world, id uuid.UUID) {
		t.Helper()
		if c := w.waitForEnd(id); c.Status != call.Expired || c.Code != call.CodeApprovalLapsed || c.Effect != tool.EffectNone {
			t.Errorf("the call is %s, %s, %s", c.Status, c.Code, c.Effect)
		}
	}
	t.Run("answer lost", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t) // approvals lapse after a minute
		ticket := w.submit("files__write", `{"n":1}`)
		w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now()`)
		w.db.MoveClock("7 days")
		w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2, claimed_at = holdpoint_now() WHERE id = $1`, ticket.ID, w.calls.Instance)
		w.db.Exec(`INSERT INTO river_job (kind, queue, args, max_attempts)
			VALUES ('call_execute', 'execute', jsonb_build_object('call_id', $1::uuid), 25)`, ticket.ID)
		expired(t, w, ticket.ID)
		if n := len(w.source.Arguments()); n != 0 {
			t.Errorf("%d calls arrived", n)
		}
	})
	t.Run("suspended", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
			w.db.MoveClock("7 days")
			w.calls.Suspend()
			check(t, w.calls.Beat(t.Context()))
			if err := r.Confirm(t.Context()); err != nil {
				return tool.Result{}, tool.NotConfirmed(err, "tools/call")
			}
			return tool.Result{Raw: []byte(`{"content":[]}`)}, nil
		})
		ticket := w.submit("files__write", `{"n":1}`)
		check(t, w.decide(ticket.ID, true))
		expired(t, w, ticket.ID)
	})
	t.Run("given back meanwhile", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		ticket := w.submit("files__write", `{"n":1}`)
		w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now()`)
		w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, ticket.ID)
		ended, err := w.calls.DenyLapsed(t.Context(), ticket.ID)
		if c, getErr := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID); ended || err != nil || getErr != nil || c.Status == call.Expired {
			t.Errorf("a call with a valid approval is %s, %t, %v, %v", c.Status, ended, err, getErr)
		}
	})
}

// TestOnlySilentInstancesAreGone: an instance is gone if its heartbeat stops changing, whatever its clock says.
func TestOnlySilentInstancesAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	late, silent := uuid.New(), uuid.New()
	w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES ($1, holdpoint_now() - interval '1 hour'), ($2, holdpoint_now() + interval '1 hour')`, late, silent)
	kept, lost := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`)
	for id, claimant := range map[uuid.UUID]uuid.UUID{kept.ID: late, lost.ID: silent} {
		w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, id)
		w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2, claimed_at = holdpoint_now() WHERE id = $1`, id, claimant)
	}
	eventually.Holds(w.t, "the silent instance is gone", func() bool {
		w.db.Exec(`UPDATE instances SET heartbeat_at = heartbeat_at + interval '1 millisecond' WHERE id = $1`, late)
		c, err := w.calls.Get(t.Context(), call.Viewer{}, lost.ID)
		check(t, err)
		return c.Status == call.Unknown
	})
	if c, err := w.calls.Get(t.Context(), call.Viewer{}, kept.ID); err != nil || c.Status != call.Executing {
		t.Errorf("the claim of a living instance is %s, %v", c.Status, err)
	}
}

// TestClaimWithoutAnAnswer: the database stored a claim but the process lost the answer.
func TestClaimWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	ticket := w.submit("files__write", `{"n":1}`)
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now()`)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2, claimed_at = holdpoint_now() WHERE id = $1`, ticket.ID, w.calls.Instance)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Errorf("the call is %s, %s", c.Status, c.Message)
	}
	if n := len(w.source.Arguments()); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestForgottenSendIsNotRepeated: a failover loses the commits of a call that was already sent.
func TestForgottenSendIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	ticket := w.submit("files__write", `{"n":1}`)
	check(t, w.decide(ticket.ID, true))
	w.waitForEnd(ticket.ID)
	w.db.Exec(`UPDATE calls SET status = 'approved', claimed_by = NULL, claimed_at = NULL, finished_at = NULL, result = NULL WHERE id = $1`, ticket.ID)
	w.waitForUnknown(ticket.ID)
	if n := len(w.source.Arguments()); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestForgottenResumeIsNotRepeated does the same for a call that waited for a connection.
func TestForgottenResumeIsNotRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	w.source.Require(notConnected)
	ticket := w.submit("open__echo", `{}`)
	w.source.Require(nil)
	if c := w.waitForEnd(ticket.ID); c.Status != call.Succeeded {
		t.Fatalf("the call is %s, %s", c.Status, c.Message)
	}
	w.db.Exec(`UPDATE call_connections SET ended_at = NULL, deadline = holdpoint_now() + interval '1 hour' WHERE call_id = $1`, ticket.ID)
	w.db.Exec(`UPDATE calls SET status = 'needs_connection', claimed_by = NULL, finished_at = NULL, result = NULL WHERE id = $1`, ticket.ID)
	w.waitForUnknown(ticket.ID)
	if n := len(w.source.Arguments()); n != 1 {
		t.Errorf("%d calls arrived", n)
	}
}

// waitForUnknown waits until the database has the call as unknown. It polls because a waiter may still get the outcome that the
// test removed.
func (w *world) waitForUnknown(id uuid.UUID) {
	w.t.Helper()
	eventually.Holds(w.t, "the call is unknown, with a possible effect", func() bool {
		c, err := w.calls.Get(w.t.Context(), call.Viewer{}, id)
		check(w.t, err)
		return c.Status == call.Unknown && c.Effect == tool.EffectPossible
	})
}

// TestForgottenOutcomeIsUnknown: a failover loses the outcome of a call that this process sent.
func TestForgottenOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	direct, gated := w.submit("open__echo", `{}`), w.submit("files__write", `{"n":1}`)
	check(t, w.decide(gated.ID, true))
	for _, id := range []uuid.UUID{direct.ID, gated.ID} {
		w.waitForEnd(id)
		w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2, finished_at = NULL, result = NULL, effect = NULL WHERE id = $1`, id, w.calls.Instance)
		for { // the send may finish shortly after the outcome is announced
			check(t, w.calls.Recover(t.Context()))
			if c, err := w.calls.Get(t.Context(), call.Viewer{}, id); err != nil || c.Status != call.Executing {
				check(t, err)
				break
			}
		}
		if c := w.waitForEnd(id); c.Status != call.Unknown || c.Effect != tool.EffectPossible {
			t.Errorf("the call is %s, %s: %s", c.Status, c.Effect, c.Message)
		}
	}
	if n := len(w.source.Arguments()); n != 2 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestStartAfterRestore: calls that a backup has as approved or executing may have been sent after it was taken.
func TestStartAfterRestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	approved, executing, parked := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`), w.submit("files__write", `{"n":3}`)
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = ANY($1)`, []uuid.UUID{approved.ID, executing.ID})
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = gen_random_uuid() WHERE id = $1`, executing.ID)
	w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, approved.ID)
	w.startOn(w.db.DB, true)
	for id, want := range map[uuid.UUID]call.Status{approved.ID: call.Unknown, executing.ID: call.Unknown, parked.ID: call.Parked} {
		if c, err := w.calls.Get(t.Context(), call.Viewer{}, id); err != nil || c.Status != want {
			t.Errorf("a call is %s, want %s; %v", c.Status, want, err)
		}
	}
}

// TestRestoredCopyIsRecognized: a start on a database whose mark was copied treats it as restored, without being told. A start on the database in
// use, even if its files were rewritten, does not.
func TestRestoredCopyIsRecognized(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		copying  string
		restored bool
	}{
		"in use":           {`SELECT 1`, false},
		"table rewritten":  {`VACUUM FULL database_mark`, false},
		"rows copied":      {`CREATE TABLE mark_copy AS SELECT * FROM database_mark; TRUNCATE database_mark; INSERT INTO database_mark SELECT * FROM mark_copy; DROP TABLE mark_copy`, true},
		"table copied":     {`ALTER TABLE database_mark RENAME TO mark_copy; CREATE TABLE database_mark (LIKE mark_copy INCLUDING ALL); INSERT INTO database_mark SELECT * FROM mark_copy; DROP TABLE mark_copy`, true},
		"of another place": {`UPDATE database_mark SET place = '7/' || place, writer = pg_current_xact_id()::text::bigint & 4294967295`, true},
		"without a mark":   {`TRUNCATE database_mark`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.registerSkills(time.Hour)
			approved, waiting, parked := w.submit("files__write", `{"n":1}`), w.submit("files__write", `{"n":2}`), w.submit("files__write", `{"n":3}`)
			w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now(), undo_until = holdpoint_now() + interval '1 day' WHERE call_id = $1`, approved.ID)
			w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, approved.ID)
			w.db.Exec(`UPDATE calls SET status = 'needs_connection' WHERE id = $1`, waiting.ID)
			for statement := range strings.SplitSeq(c.copying, "; ") {
				w.db.Exec(statement)
			}
			w.startOn(w.db.DB, false)
			want := map[uuid.UUID]call.Status{approved.ID: call.Approved, waiting.ID: call.NeedsConnection, parked.ID: call.Parked}
			if c.restored {
				want[approved.ID], want[waiting.ID] = call.Unknown, call.Unknown
			}
			for id, status := range want {
				if c, err := w.calls.Get(t.Context(), call.Viewer{}, id); err != nil || c.Status != status {
					t.Errorf("a call is %s, want %s; %v", c.Status, status, err)
				}
			}
			w.startOn(w.db.DB, false)
			if c, err := w.calls.Get(t.Context(), call.Viewer{}, parked.ID); err != nil || c.Status != call.Parked {
				t.Errorf("after another start the parked call is %s, %v", c.Status, err)
			}
		})
	}
}

// TestOutcomeThatNobodyFetched: an identical call made an hour after the first one ended is a new call.
func TestOutcomeThatNobodyFetched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.submit("files__write", `{"n":1}`)
	check(t, w.decide(first.ID, true))
	w.waitForEnd(first.ID)
	if again := w.submit("files__write", `{"n":1}`); again.ID != first.ID {
		t.Fatalf("a repeat after an undelivered outcome: %+v", again)
	}
	w.db.MoveClock("61 minutes")
	again := w.submit("files__write", `{"n":1}`)
	if again.ID == first.ID || again.Status != call.Parked {
		t.Errorf("an old outcome answers a new call: %+v", again)
	}
}

// TestApprovalLapses: an approved call is not sent after its approval has lapsed. By default, an approval is valid as long as the
// decision could take.
func TestApprovalLapses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout, validity time.Duration
		after             string
		lapses            bool
	}{
		"default":     {time.Minute, 0, "61 seconds", true},
		"shorter":     {time.Hour, time.Minute, "61 seconds", true},
		"longer":      {time.Minute, time.Hour, "61 seconds", false},
		"longer, too": {time.Minute, time.Hour, "61 minutes", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.registerValid(c.timeout, c.validity)
			ticket := w.submit("files__write", `{"n":1}`)
			w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now()`)
			approved, err := approval.Get(t.Context(), w.db.Pool(), ticket.ID)
			check(t, err)
			if want := approved.DecidedAt.Add(cmp.Or(c.validity, c.timeout)); approved.ApprovedUntil == nil || approved.ApprovedUntil.Sub(want).Abs() > time.Second {
				t.Errorf("approved until %v, want %v", approved.ApprovedUntil, want)
			}
			w.db.MoveClock(c.after)
			w.db.Exec(`UPDATE calls SET status = 'approved' WHERE id = $1`, ticket.ID)
			ended := w.waitForEnd(ticket.ID)
			if c.lapses && (ended.Status != call.Expired || ended.Code != call.CodeApprovalLapsed || !strings.Contains(ended.Explain(), "lapsed")) ||
				!c.lapses && ended.Status != call.Succeeded {
				t.Errorf("the call is %s, %s: %s", ended.Status, ended.Code, ended.Explain())
			}
			if n := len(w.source.Arguments()); n != 0 && c.lapses {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

// TestCancelUntilTheClaim: an approved call can be cancelled until a process claims it.
func TestCancelUntilTheClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	for n, cancel := range map[int]func(id uuid.UUID) error{
		1: func(id uuid.UUID) error {
			_, err := w.calls.Cancel(t.Context(), call.Viewer{}, w.reviewer, id)
			return err
		},
		2: func(id uuid.UUID) error {
			return w.calls.RequestCancel(t.Context(), call.Viewer{AgentID: w.agent.ID}, id)
		},
	} {
		ticket := w.submit("files__write", fmt.Sprintf(`{"n":%d}`, n))
		tx, err := w.db.Pool().Begin(t.Context())
		check(t, err)
		_, err = tx.Exec(t.Context(), `UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, ticket.ID)
		check(t, err)
		_, err = tx.Exec(t.Context(), `UPDATE calls SET status = 'approved' WHERE id = $1`, ticket.ID)
		check(t, err)
		_, err = tx.Exec(t.Context(), `INSERT INTO river_job (kind, queue, args, max_attempts, state, scheduled_at)
			VALUES ('call_execute', 'execute', jsonb_build_object('call_id', $1::uuid), 25, 'scheduled', now() + interval '1 hour')`, ticket.ID)
		check(t, err)
		check(t, tx.Commit(t.Context()))
		check(t, cancel(ticket.ID))
		c := w.waitForEnd(ticket.ID)
		if c.Status != call.Cancelled || c.Effect != tool.EffectNone {
			t.Errorf("the call is %s, %s", c.Status, c.Effect)
		}
		if got := w.db.Actions(ticket.ID); got != "call.parked call.cancelled" {
			t.Errorf("audit: %s", got)
		}
		if _, err := w.calls.Cancel(t.Context(), call.Viewer{}, w.reviewer, ticket.ID); !errors.Is(err, call.ErrState) {
			t.Errorf("cancelling twice: %v", err)
		}
	}
	if n := len(w.source.Arguments()); n != 0 {
		t.Errorf("%d calls arrived", n)
	}
}

// TestPeopleAreRecheckedBeforeSending: a call is not sent if its principal or reviewer was blocked, the reviewer lost the role,
// or the key or token used was revoked.
func TestPeopleAreRecheckedBeforeSending(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]struct {
		code string // empty if the call is sent
		do   func(w *world, people *standingPeople)
	}{
		"principal blocked": {call.CodePersonBlocked, func(w *world, p *standingPeople) {
			w.db.Exec(`UPDATE people SET blocked_at = holdpoint_now() WHERE id = $1`, p.principal)
		}},
		"reviewer blocked": {call.CodePersonBlocked, func(w *world, _ *standingPeople) {
			w.db.Exec(`UPDATE people SET blocked_at = holdpoint_now() WHERE id = $1`, w.reviewer)
		}},
		"key revoked": {call.CodeCredentialRevoked, func(w *world, p *standingPeople) {
			check(w.t, w.agents.RevokeKey(w.t.Context(), audit.System(), p.key.ID))
		}},
		"role lost": {call.CodeReviewerRemoved, func(w *world, _ *standingPeople) {
			w.db.Exec(`UPDATE people SET granted_roles = '{operator}' WHERE id = $1`, w.reviewer)
		}},
		"token of the session revoked": {call.CodeCredentialRevoked, func(w *world, p *standingPeople) {
			w.db.Exec(`UPDATE person_sessions SET method = 'token', token_id = $2 WHERE id = $1`, p.session, p.token)
			w.db.Exec(`UPDATE person_tokens SET revoked_at = holdpoint_now() WHERE id = $1`, p.token)
		}},
		"role by the groups": {"", func(w *world, _ *standingPeople) {
			w.db.Exec(`UPDATE people SET granted_roles = '{}', claimed_roles = '{reviewer}' WHERE id = $1`, w.reviewer)
		}},
		"signed out, and the token over": {"", func(w *world, p *standingPeople) {
			w.db.Exec(`UPDATE person_sessions SET revoked_at = holdpoint_now(), method = 'token', token_id = $2 WHERE id = $1`, p.session, p.token)
			w.db.Exec(`UPDATE person_tokens SET expires_at = holdpoint_now() WHERE id = $1`, p.token)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.registerSkills(time.Hour)
			p := w.standingPeople()
			sub := w.newSubmission("files__write", `{"n":1}`)
			sub.PrincipalID = p.principal
			ctx := audit.WithCredential(t.Context(), audit.Person(p.principal), audit.Credential{Kind: audit.AgentKey, ID: p.key.ID.String()})
			ticket, err := w.calls.Submit(ctx, sub)
			check(t, err)
			harm.do(w, p)
			waiting, err := w.calls.GetApproval(t.Context(), ticket.ID)
			check(t, err)
			ctx = audit.WithCredential(t.Context(), audit.Person(w.reviewer), audit.Credential{Kind: audit.BrowserSession, ID: p.session.String()})
			_, err = w.calls.Decide(ctx, call.Decision{CallID: ticket.ID, Approve: true, Digest: waiting.Approval.Digest.String(), By: w.reviewer})
			check(t, err)
			c := w.waitForEnd(ticket.ID)
			if harm.code == "" {
				if c.Status != call.Succeeded {
					t.Errorf("the call is %s, %s", c.Status, c.Code)
				}
				return
			}
			if c.Status != call.Denied || c.Code != harm.code {
				t.Errorf("the call is %s, %s", c.Status, c.Code)
			}
			if n := len(w.source.Arguments()); n != 0 {
				t.Errorf("%d calls arrived", n)
			}
		})
	}
}

// standingPeople are the people and credentials that a call depends on.
type standingPeople struct {
	principal, session, token uuid.UUID // session and token belong to the reviewer
	key                       agent.Key
}

// standingPeople makes the reviewer a signed-in member with the role.
func (w *world) standingPeople() *standingPeople {
	w.t.Helper()
	p := &standingPeople{principal: uuid.New(), session: uuid.New(), token: uuid.New()}
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, granted_roles) VALUES ($1, 'test', 'p', 'P', '{}'), ($2, 'test', 'r', 'R', '{reviewer}')`,
		p.principal, w.reviewer)
	w.db.Exec(`INSERT INTO person_tokens (id, person_id, secret_hash, hint, roles, agents) VALUES ($1, $2, '', '', '{reviewer}', '{}')`, p.token, w.reviewer)
	w.db.Exec(`INSERT INTO person_sessions (id, person_id, method, roles, client, expires_at) VALUES ($1, $2, 'oidc', '{}', '', holdpoint_now() + interval '1 hour')`,
		p.session, w.reviewer)
	var err error
	p.key, _, err = w.agents.CreateKey(w.t.Context(), audit.System(), w.agent.ID)
	check(w.t, err)
	return p
}

// TestClaimIsConfirmed: a process that was suspended does not send a call that another process took over.
func TestClaimIsConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registerSkills(time.Hour)
	var refused error
	w.source.Answer(func(r tool.CallRequest) (tool.Result, error) {
		w.db.Exec(`UPDATE calls SET status = 'unknown', finished_at = holdpoint_now() WHERE id = $1`, r.CallID)
		w.calls.Suspend()
		check(t, w.calls.Beat(t.Context())) // the heartbeat may run first after the suspension
		refused = r.Confirm(t.Context())
		return tool.Result{}, tool.NotConfirmed(refused, "tools/call")
	})
	ticket := w.submit("files__write", `{"n":1}`)
	check(t, w.decide(ticket.ID, true))
	eventually.Holds(w.t, "evidence", func() bool {
		c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
		check(t, err)
		return c.Late != nil
	})
	if !errors.Is(refused, call.ErrClaimLost) {
		t.Errorf("confirming a lost claim: %v", refused)
	}
	c, err := w.calls.Get(t.Context(), call.Viewer{}, ticket.ID)
	check(t, err)
	var late struct{ Effect tool.Effect }
	check(t, json.Unmarshal(c.Late, &late))
	if c.Status != call.Unknown || late.Effect != tool.EffectNone {
		t.Errorf("the call is %s; evidence: %s", c.Status, c.Late)
	}
}

// TestOpenCallsOfALargeTable: the search for open calls reads recent calls and stragglers, not the whole table.
func TestOpenCallsOfALargeTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillCalls(largeTable(t))
	old := w.submit("files__write", `{"n":1}`)
	check(t, w.newFigures().Count(t.Context()))
	w.db.Exec(`INSERT INTO call_stragglers VALUES ($1) ON CONFLICT DO NOTHING`, old.ID)
	w.db.Exec(`ANALYZE calls`)
	tx, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	from, err := call.OpenFrom(t.Context(), tx)
	check(t, err)
	check(t, tx.Rollback(t.Context()))
	var plan []struct{ Plan planNode }
	check(t, w.db.Pool().QueryRow(t.Context(), `EXPLAIN (ANALYZE, FORMAT JSON) `+call.ReadOpenSQL, from).Scan(&plan))
	if n := plan[0].Plan.countRows(); n > 100 {
		t.Errorf("the search for open calls reads %d rows", n)
	}
	silent := uuid.New()
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, old.ID)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2 WHERE id = $1`, old.ID, silent)
	w.db.Exec(`INSERT INTO instances (id) VALUES ($1)`, silent)
	if c := w.waitForEnd(old.ID); c.Status != call.Unknown {
		t.Errorf("the call of a silent instance is %s", c.Status)
	}
}

// planNode is a node of an EXPLAIN ANALYZE plan.
type planNode struct {
	Rows    int        `json:"Actual Rows"`
	Loops   int        `json:"Actual Loops"`
	Removed int        `json:"Rows Removed by Filter"`
	Plans   []planNode `json:"Plans"`
}

// countRows returns the number of rows that a node and its children read.
func (n *planNode) countRows() int {
	total := (n.Rows + n.Removed) * n.Loops
	for i := range n.Plans {
		total += n.Plans[i].countRows()
	}
	return total
}

// fillCalls inserts finished calls of the last few days.
func (w *world) fillCalls(n int) {
	w.t.Helper()
	const chunk = 200_000 // per statement, to stay below the timeout
	for from := 0; from < n; from += chunk {
		w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, gated, status, tool, exposed_name, pin, arguments, created_at, finished_at)
			SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3) || '8' || substr(md5(i::text), 4, 15))::uuid,
				$2, $2, 1, false, 'succeeded', 'echo', 'open__echo', sha256(''), '{}', at, at
			FROM (SELECT i, holdpoint_now() - interval '5 days' + i * interval '4 days' / $1::int AS at FROM generate_series($3::int + 1, $4::int) AS i) AS made`,
			n, w.agent.ID, from, min(from+chunk, n))
	}
}

// largeTable returns the number of calls in a large table: 6,000,000 in the nightly run.
func largeTable(t *testing.T) int {
	t.Helper()
	if text := os.Getenv("HOLDPOINT_LARGE"); text != "" {
		n, err := strconv.Atoi(text)
		check(t, err)
		return n
	}
	return 20_000
}
