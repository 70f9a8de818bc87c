package callback_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/receiver"
	"github.com/holdpoint/holdpoint/internal/secret"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
)

// isSigned reports whether a secret signed the request, by the library of Standard Webhooks.
func isSigned(t *testing.T, r received, secretText string) bool {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secretText)
	check(t, err)
	return hook.Verify(r.body, r.header) == nil
}

// TestEveryEndIsTold: every outcome of a call is reported.
func TestEveryEndIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	secretText := w.createCallback(w.billing, "ops", e.URL)
	want := map[uuid.UUID][]string{}
	expect := func(ticket call.Ticket, lines ...string) uuid.UUID {
		want[ticket.ID] = lines
		return ticket.ID
	}
	id := expect(w.submitCall(w.billing, "files__write", `{"n":1}`), "call.decided approved", "call.finished succeeded", "call.parked parked")
	w.decide(id, true)
	id = expect(w.submitCall(w.billing, "files__write", `{"n":2}`), "call.decided rejected rejected", "call.finished rejected rejected", "call.parked parked")
	w.decide(id, false)
	id = expect(w.submitCall(w.billing, "files__write", `{"n":3}`), "call.decided expired expired", "call.finished expired expired", "call.parked parked")
	w.db.Exec(`UPDATE approvals SET deadline = holdpoint_now() WHERE call_id = $1`, id)
	check(t, w.calls.Expire(t.Context(), id))
	id = expect(w.submitCall(w.billing, "files__write", `{"n":4}`), "call.decided cancelled cancelled", "call.finished cancelled cancelled", "call.parked parked")
	_, err := w.calls.Cancel(t.Context(), call.Viewer{}, uuid.Nil, id)
	check(t, err)
	expect(w.submitCall(w.billing, "open__write", `{"n":5}`), "call.finished succeeded")
	expect(w.submitCall(w.billing, "open__write", `{"n":"five"}`), "call.finished invalid invalid_arguments")
	id = expect(w.submitCall(w.billing, "files__write", `{"n":6}`), "call.finished unknown outcome_unknown", "call.parked parked")
	silent := uuid.New()
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, id)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2 WHERE id = $1`, id, silent)
	w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES ($1, holdpoint_now() - interval '20 seconds')`, silent)

	requests := e.awaitMessages(t, 16)
	for id, lines := range want {
		if got := eventsOf(t, requests, id); !slices.Equal(got, lines) {
			t.Errorf("told %q, want %q", got, lines)
		}
	}
	ids := map[string]bool{}
	for _, r := range requests {
		if !isSigned(t, r, secretText) {
			t.Errorf("not signed by the callback's secret: %s", r.body)
		}
		ids[r.header.Get("webhook-id")] = true
		p := r.payload(t)
		if p.Data.Agent != "billing" || !strings.HasSuffix(p.Data.Tool, "__write") || p.Data.ConversationID == nil || p.Timestamp.IsZero() {
			t.Errorf("payload %s", r.body)
		}
		if text := string(r.body); strings.Contains(text, `"n"`) || strings.Contains(text, "the-re") {
			t.Errorf("holds more than ids and status: %s", text)
		}
	}
	if len(requests) != 16 || len(ids) != 16 {
		t.Errorf("%d requests with %d ids, want 16 of each", len(requests), len(ids))
	}
	if c := w.getState(w.billing, "ops"); c.State() != "working" || c.SentAt == nil {
		t.Errorf("the callback is %s", c.State())
	}
}

// TestReceiverIsDownForAWhile: a message is retried with the same id until it is accepted.
func TestReceiverIsDownForAWhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	secretText := w.createCallback(w.billing, "ops", e.URL)
	e.answerWith(http.StatusInternalServerError)
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	e.awaitMessages(t, 1)
	w.makeRetriesDue(1)
	e.awaitMessages(t, 2)
	e.answerWith(http.StatusFound, "Location", e.URL+"/elsewhere")
	w.makeRetriesDue(1)
	e.awaitMessages(t, 3)
	eventually.Holds(t, "the third attempt is noted", func() bool { return w.listDeliveries(w.billing, "ops")[0].Attempts == 3 })
	if c := w.getState(w.billing, "ops"); c.State() != "failing" || c.Error != "answered HTTP 302, a redirect, which is not followed" || c.Waiting != 1 {
		t.Errorf("the callback is %s: %s; %d wait", c.State(), c.Error, c.Waiting)
	}
	e.answerWith(http.StatusOK)
	w.makeRetriesDue(1)
	requests := e.awaitMessages(t, 4)
	for _, r := range requests {
		if r.header.Get("webhook-id") != requests[0].header.Get("webhook-id") || string(r.body) != string(requests[0].body) || !isSigned(t, r, secretText) {
			t.Errorf("another message, or not signed: %s %s", r.header.Get("webhook-id"), r.body)
		}
	}
	eventually.Holds(t, "the message is delivered", func() bool { return w.listDeliveries(w.billing, "ops")[0].State == "delivered" })
	d := w.listDeliveries(w.billing, "ops")[0]
	if d.ID.String() != requests[0].header.Get("webhook-id") || d.Attempts != 4 || len(d.Log) != 4 || d.Error != "" {
		t.Fatalf("delivery %+v", d)
	}
	for i, status := range []int{200, 302, 500, 500} {
		if a := d.Log[i]; a.HTTPStatus != status || (a.Error == "") != (status == 200) || a.At.IsZero() {
			t.Errorf("attempt %d: %+v", a.Number, a)
		}
	}
	if c := w.getState(w.billing, "ops"); c.State() != "working" || c.Waiting != 0 {
		t.Errorf("the callback is %s: %s; %d wait", c.State(), c.Error, c.Waiting)
	}
}

// TestGivesUpAfterItsLastAttempt: after that, an operator can send the message again.
func TestGivesUpAfterItsLastAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	w.createCallback(w.billing, "ops", e.URL)
	e.answerWith(http.StatusBadRequest)
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	e.awaitMessages(t, 1)
	w.db.Exec(`UPDATE river_job SET max_attempts = 2 WHERE kind = 'callback_deliver'`)
	w.makeRetriesDue(1)
	eventually.Holds(t, "the message is given up", func() bool { return w.listDeliveries(w.billing, "ops")[0].State == "failed" })
	d := w.listDeliveries(w.billing, "ops")[0]
	if d.Attempts != 2 || d.Error != "answered HTTP 400" {
		t.Errorf("delivery %+v", d)
	}
	e.answerWith(http.StatusOK)
	d, err := w.callbacks.Resend(t.Context(), audit.Person(w.operator), w.billing, "ops", d.ID)
	check(t, err)
	if d.State != "waiting" {
		t.Errorf("a message that is sent again is %s", d.State)
	}
	requests := e.awaitMessages(t, 3)
	if requests[2].header.Get("webhook-id") != requests[0].header.Get("webhook-id") {
		t.Error("it was sent again with another id")
	}
	eventually.Holds(t, "the message is delivered", func() bool { return w.listDeliveries(w.billing, "ops")[0].State == "delivered" })
	if _, err := w.callbacks.Resend(t.Context(), audit.System(), w.billing, "ops", uuid.New()); !errors.Is(err, callback.ErrNotFound) {
		t.Errorf("an unknown message: %v", err)
	}
	if _, err := w.callbacks.Resend(t.Context(), audit.System(), w.support, "ops", d.ID); !errors.Is(err, callback.ErrNotFound) {
		t.Errorf("another agent's: %v", err)
	}
}

// postponeDeadlines keeps parked calls from expiring, which would send further messages, when the clock moves.
func (w *world) postponeDeadlines() {
	w.t.Helper()
	w.db.Exec(`UPDATE approvals SET deadline = deadline + interval '30 days' WHERE status = 'pending'`)
}

// TestReceiverAsksToWait: an earlier job sends nothing.
func TestReceiverAsksToWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	w.createCallback(w.billing, "ops", e.URL)
	e.answerWith(http.StatusServiceUnavailable, "Retry-After", "300")
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	e.awaitMessages(t, 1)
	w.makeRetriesDue(1)
	eventually.Holds(t, "the job is put off", func() bool {
		return w.text(`SELECT (count(*) = 1)::text FROM river_job WHERE kind = 'callback_deliver' AND state = 'scheduled'
			AND scheduled_at > now() + interval '4 minutes'`) == "true"
	})
	e.answerWith(http.StatusOK)
	w.postponeDeadlines()
	w.db.Exec(`UPDATE clock_offset SET value = interval '6 minutes'`)
	w.db.Exec(`UPDATE river_job SET state = 'available', scheduled_at = now() WHERE kind = 'callback_deliver' AND state = 'scheduled'`)
	if got := e.awaitMessages(t, 2); len(got) != 2 {
		t.Errorf("%d requests", len(got))
	}
}

// TestRotation: both secrets sign during the grace period, then only the new one.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	first := w.createCallback(w.billing, "ops", e.URL)
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(first, "whsec_"))
	if err != nil || len(raw) != 32 || !strings.HasPrefix(first, "whsec_") {
		t.Errorf("secret %q, %v", first, err)
	}
	by := audit.Person(w.operator)
	rotated, second, err := w.callbacks.Rotate(t.Context(), by, w.billing, "ops", callback.DefaultGrace)
	check(t, err)
	if rotated.EarlierUntil == nil || second == first {
		t.Fatalf("rotated: %+v", rotated)
	}
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	r := e.awaitMessages(t, 1)[0]
	if !isSigned(t, r, first) || !isSigned(t, r, second) || len(strings.Fields(r.header.Get("webhook-signature"))) != 2 {
		t.Errorf("within the grace period: %s", r.header.Get("webhook-signature"))
	}
	w.postponeDeadlines()
	w.db.Exec(`UPDATE clock_offset SET value = interval '25 hours'`)
	w.submitCall(w.billing, "files__write", `{"n":2}`)
	if r = e.awaitMessages(t, 2)[1]; isSigned(t, r, first) || !isSigned(t, r, second) {
		t.Errorf("after it: %s", r.header.Get("webhook-signature"))
	}
	_, third, err := w.callbacks.Rotate(t.Context(), by, w.billing, "ops", 0)
	check(t, err)
	w.submitCall(w.billing, "files__write", `{"n":3}`)
	if r = e.awaitMessages(t, 3)[2]; isSigned(t, r, second) || !isSigned(t, r, third) {
		t.Errorf("without a grace period: %s", r.header.Get("webhook-signature"))
	}
	for range 3 {
		_, _, err = w.callbacks.Rotate(t.Context(), by, w.billing, "ops", time.Hour)
		check(t, err)
	}
	var wrong *fault.InvalidError
	for _, grace := range []time.Duration{time.Hour, -time.Second, 8 * 24 * time.Hour} {
		if _, _, err = w.callbacks.Rotate(t.Context(), by, w.billing, "ops", grace); !errors.As(err, &wrong) || wrong.Fields[0].Name != "grace_seconds" {
			t.Errorf("grace %s: %v", grace, err)
		}
	}
	w.db.Exec(`UPDATE clock_offset SET value = interval '100 hours'`)
	check(t, w.callbacks.Tidy(t.Context()))
	if n := w.text(`SELECT count(*)::text FROM callback_secrets`); n != "1" {
		t.Errorf("%s secrets are kept, want the present one", n)
	}
}

// TestGone: a receiver that answers 410 Gone gets no more messages.
// If several messages were in flight, one of them disables the callback, with one audit event.
func TestGoneWhileSeveralAreUnderWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortenTimeout)
	var arrived atomic.Int32
	both := make(chan struct{})
	gone := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 2 {
			close(both)
		}
		select {
		case <-both:
		case <-r.Context().Done(): // too late: it is sent again
		}
		rw.WriteHeader(http.StatusGone)
	}))
	defer gone.Close()
	w.createCallback(w.billing, "ops", gone.URL)
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	w.submitCall(w.billing, "files__write", `{"n":2}`)
	eventually.Holds(t, "both were answered, and one disables the callback", func() bool {
		log := w.listDeliveries(w.billing, "ops")
		return len(log) == 2 && log[0].Attempts > 0 && log[1].Attempts > 0 && w.getState(w.billing, "ops").DisabledReason == callback.ByReceiver
	})
	c := w.getState(w.billing, "ops")
	if c.DisabledReason != callback.ByReceiver || strings.Count(w.db.Actions(c.ID), "callback.disabled") != 1 {
		t.Errorf("%s: %s", c.DisabledReason, w.db.Actions(c.ID))
	}
}

// Of two concurrent rotations, one secret stays valid and the other expires.
func TestRotationsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createCallback(w.billing, "ops", "https://ops.example/hook")
	tx, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `SELECT FROM callback_secrets FOR UPDATE`)
	check(t, err)
	rotated := make(chan error, 2)
	for range 2 {
		go func() {
			_, _, err := w.callbacks.Rotate(t.Context(), audit.Person(w.operator), w.billing, "ops", time.Hour)
			rotated <- err
		}()
	}
	eventually.Holds(t, "both wait", func() bool {
		return w.text(`SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`) == "2"
	})
	check(t, tx.Commit(t.Context()))
	check(t, errors.Join(<-rotated, <-rotated))
	if got := w.text(`SELECT count(*) FILTER (WHERE expires_at IS NULL) || ' of ' || count(*) FROM callback_secrets`); got != "1 of 3" {
		t.Errorf("present secrets: %s", got)
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	w.createCallback(w.billing, "ops", e.URL)
	e.answerWith(http.StatusGone)
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	eventually.Holds(t, "the callback is disabled", func() bool { return w.getState(w.billing, "ops").State() == "disabled" })
	c := w.getState(w.billing, "ops")
	if c.DisabledReason != callback.ByReceiver || w.listDeliveries(w.billing, "ops")[0].State != "failed" {
		t.Errorf("%+v", c)
	}
	w.submitCall(w.billing, "files__write", `{"n":2}`)
	if n := len(w.listDeliveries(w.billing, "ops")); n != 1 {
		t.Errorf("%d messages, want none for a callback that is disabled", n)
	}
	by := audit.Person(w.operator)
	if _, err := w.callbacks.Resend(t.Context(), by, w.billing, "ops", w.listDeliveries(w.billing, "ops")[0].ID); !errors.Is(err, callback.ErrDisabled) {
		t.Errorf("resend: %v", err)
	}
	e.answerWith(http.StatusOK)
	d, err := w.callbacks.Test(t.Context(), by, w.billing, "ops")
	check(t, err)
	if d.State != "delivered" || d.Type != callback.TypeTest {
		t.Errorf("test: %+v", d)
	}
	check(t, w.callbacks.Enable(t.Context(), by, w.billing, "ops"))
	id := w.submitCall(w.billing, "files__write", `{"n":3}`).ID
	eventually.Holds(t, "calls are told of again", func() bool { return len(eventsOf(t, e.listReceived(), id)) == 1 })
	if got := w.db.Actions(c.ID); got != "callback.created callback.disabled callback.tested callback.enabled" {
		t.Errorf("audit: %s", got)
	}
}

// TestAgentsAreApart: a callback gets only its own agent's calls, and other agents' calls cost nothing.
func TestAgentsAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, other, second := newEndpoint(t), newEndpoint(t), newEndpoint(t)
	w.createCallback(w.billing, "ops", mine.URL)
	w.createCallback(w.billing, "second", second.URL)
	w.createCallback(w.support, "ops", other.URL)
	a, b := w.submitCall(w.billing, "files__write", `{"n":1}`).ID, w.submitCall(w.support, "files__write", `{"n":1}`).ID
	for _, tt := range []struct {
		e    *endpoint
		id   uuid.UUID
		name string
	}{{mine, a, "billing"}, {second, a, "billing"}, {other, b, "support"}} {
		r := tt.e.awaitMessages(t, 1)
		if p := r[0].payload(t); len(r) != 1 || p.Data.Agent != tt.name || *p.Data.CallID != tt.id {
			t.Errorf("%s: %d requests, the first %s", tt.name, len(r), r[0].body)
		}
	}
	check(t, w.callbacks.Delete(t.Context(), audit.System(), w.support, "ops"))
	eventually.Holds(t, "nothing is added for agents without callbacks", func() bool {
		batch := &pgx.Batch{}
		check(t, w.callbacks.Publish(batch, "true", []call.Happening{{CallID: b, AgentID: w.support.ID, Kind: call.HappenedDecided}}))
		return batch.Len() == 0
	})
	w.decide(b, false)
	if len(other.listReceived()) != 1 {
		t.Error("a deleted callback was told of a call")
	}
	check(t, w.agents.DeleteAgent(t.Context(), audit.System(), w.billing.ID))
	if n := w.text(`SELECT (SELECT count(*) FROM callbacks) || ' ' || (SELECT count(*) FROM callback_deliveries) || ' ' || (SELECT count(*) FROM callback_secrets)`); n != "0 0 0" {
		t.Errorf("callbacks, messages and secrets of a deleted agent: %s", n)
	}
}

// TestNothingSecretIsKept: no secret is stored or logged in clear.
func TestNothingSecretIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	secretText := w.createCallback(w.billing, "ops", e.URL+"/hushhush?key=hushhush")
	e.Close() // connection errors name the address
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	w.makeRetriesDue(1)
	d, err := w.callbacks.Test(t.Context(), audit.System(), w.billing, "ops")
	check(t, err)
	if d.State != "failed" || len(d.Log) != 1 || d.Log[0].Error != receiver.ErrUndelivered.Error() || !strings.Contains(w.logs.String(), "connection refused") {
		t.Errorf("test: %+v", d)
	}
	_, another, err := w.callbacks.Rotate(t.Context(), audit.System(), w.billing, "ops", time.Hour)
	check(t, err)
	var dump strings.Builder
	dump.WriteString(w.logs.String())
	for _, table := range []string{"callbacks", "callback_secrets", "callback_deliveries", "callback_attempts", "river_job", "audit_events"} {
		dump.WriteString(w.text(`SELECT coalesce(string_agg(to_jsonb(t)::text, E'\n'), '') FROM ` + table + ` t`))
	}
	for _, hidden := range []string{"hushhush", secretText, strings.TrimPrefix(secretText, "whsec_"), another, "whsec_"} {
		if strings.Contains(dump.String(), hidden) {
			t.Errorf("%q is logged or kept in clear", hidden)
		}
	}
	if !strings.Contains(dump.String(), "callback.created") || !strings.Contains(dump.String(), "callback.secret_rotated") {
		t.Error("the audit does not tell of changes")
	}
}

// TestProcessDiesAfterCommit: another process sends the messages of a killed process, with or without a job.
func TestProcessDiesAfterCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	w.createCallback(w.billing, "ops", e.URL)
	// This process makes calls and sends no messages: only its transactions remain.
	dead := w.service(time.Now)
	id := w.submitCall(w.billing, "open__write", `{"n":1}`).ID
	e.awaitMessages(t, 1)
	w.inTx(func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		if err := dead.Publish(batch, "true", []call.Happening{{CallID: id, AgentID: w.billing.ID, Kind: call.HappenedFinished}}); err != nil {
			return err
		}
		// No process gets its notification.
		if err := tx.SendBatch(t.Context(), batch).Close(); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), `UNLISTEN *`)
		return err
	})
	e.awaitMessages(t, 2)
	if got := eventsOf(t, e.listReceived(), id); !slices.Equal(got, []string{"call.finished succeeded", "call.finished succeeded"}) {
		t.Errorf("told %q", got)
	}
	// A message that is rolled back is not sent.
	stop := errors.New("rolled back")
	err := pgx.BeginFunc(t.Context(), w.db.Pool(), func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		check(t, dead.Publish(batch, "true", []call.Happening{{CallID: id, AgentID: w.billing.ID, Kind: call.HappenedDecided}}))
		check(t, tx.SendBatch(t.Context(), batch).Close())
		return stop
	})
	if !errors.Is(err, stop) || len(w.listDeliveries(w.billing, "ops")) != 2 {
		t.Errorf("%v; %d messages", err, len(w.listDeliveries(w.billing, "ops")))
	}
}

// TestUnsoundCallbacksAreRefused: errors name the field and contain no URL.
func TestUnsoundCallbacksAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createCallback(w.billing, "ops", "https://ops.example/hook")
	trusting, err := callback.New(callback.Config{
		Pool: w.db.Pool(), Box: w.box, Logger: w.logs.Logger(0), Now: time.Now, TrustedHosts: []string{"inside.example"},
	})
	check(t, err)
	t.Cleanup(trusting.Close)
	for name, tt := range map[string]struct {
		s     *callback.Service
		name  string
		url   string
		field string // empty: it is valid
	}{
		"no name":        {w.callbacks, "", "https://ops.example/hushhush", "name"},
		"bad name":       {w.callbacks, "Ops!", "https://ops.example/hushhush", "name"},
		"taken name":     {w.callbacks, "ops", "https://ops.example/hushhush", "name"},
		"no URL":         {w.callbacks, "a", "", "url"},
		"not a URL":      {w.callbacks, "a", "hushhush", "url"},
		"user name":      {w.callbacks, "a", "https://me:hushhush@ops.example/", "url"},
		"fragment":       {w.callbacks, "a", "https://ops.example/#hushhush", "url"},
		"http":           {w.callbacks, "a", "http://ops.example/hushhush", "url"},
		"other scheme":   {w.callbacks, "a", "ftp://ops.example/hushhush", "url"},
		"long":           {w.callbacks, "a", "https://ops.example/" + strings.Repeat("hushhush", 400), "url"},
		"this machine":   {w.callbacks, "b", "https://localhost:9/hushhush", "url"},
		"loopback IP":    {w.callbacks, "b", "https://[::1]:9/hushhush", "url"},
		"private IP":     {w.callbacks, "b", "https://10.0.0.7/hushhush", "url"},
		"trusted IP":     {w.callbacks, "b", "http://127.0.0.1:9/x", ""},
		"trusted host":   {trusting, "d", "http://inside.example/x", ""},
		"untrusted host": {trusting, "e", "http://outside.example/hushhush", "url"},
	} {
		_, _, err := tt.s.Create(t.Context(), audit.System(), w.billing, callback.NewCallback{Name: tt.name, URL: tt.url})
		var wrong *fault.InvalidError
		switch {
		case tt.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.field != "" && (!errors.As(err, &wrong) || wrong.Fields[0].Name != tt.field || strings.Contains(err.Error(), "hushhush")):
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.callbacks.Disable(t.Context(), audit.System(), w.support, "ops"); !errors.Is(err, callback.ErrNotFound) {
		t.Errorf("another agent's: %v", err)
	}
}

// TestLogIsBounded: the newest messages are kept.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createCallback(w.billing, "ops", "https://ops.example/hook")
	w.createCallback(w.support, "ops", "https://ops.example/hook")
	fill := func(id uuid.UUID, n int, state, age string) {
		w.db.Exec(`INSERT INTO callback_deliveries (id, callback_id, type, state, at)
			SELECT gen_random_uuid(), $1, 'call.finished', $3, holdpoint_now() - $4::text::interval FROM generate_series(1, $2)`, id, n, state, age)
	}
	busy, calm := w.getState(w.billing, "ops").ID, w.getState(w.support, "ops").ID
	fill(busy, 1200, "delivered", "1 day")
	fill(busy, 10_050, "pending", "1 day")
	fill(calm, 10, "failed", "1 day")
	fill(calm, 5, "failed", "31 days")
	fill(calm, 2, "pending", "4 days")
	fill(uuid.New(), 3, "delivered", "1 day")
	check(t, w.callbacks.Tidy(t.Context()))
	got := w.text(`SELECT string_agg(state || ' ' || n, ', ' ORDER BY callback_id = $1, state) FROM
		(SELECT callback_id, state, count(*) AS n FROM callback_deliveries GROUP BY 1, 2) AS s`, busy)
	if got != "failed 12, delivered 950, failed 50, pending 10000" {
		t.Errorf("kept: %s", got)
	}
}

// A message that is sent again has all retries, however old it is.
func TestOldMessageIsSentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	w.createCallback(w.billing, "ops", e.URL)
	w.submitCall(w.billing, "files__write", `{"n":1}`)
	e.awaitMessages(t, 1)
	eventually.Holds(t, "it was taken", func() bool { return w.listDeliveries(w.billing, "ops")[0].State == "delivered" })
	w.db.Exec(`UPDATE callback_deliveries SET at = at - interval '5 days'`)
	w.db.Exec(`UPDATE callback_attempts SET at = at - interval '5 days'`)
	id := w.listDeliveries(w.billing, "ops")[0].ID
	e.answerWith(http.StatusInternalServerError)
	resent, err := w.callbacks.Resend(t.Context(), audit.Person(w.operator), w.billing, "ops", id)
	check(t, err)
	check(t, w.callbacks.Tidy(t.Context())) // before or after the attempt
	if state := w.listDeliveries(w.billing, "ops")[0].State; resent.State != "waiting" || state != "waiting" {
		t.Errorf("before it failed: %s, %s", resent.State, state)
	}
	e.awaitMessages(t, 2)
	eventually.Holds(t, "it failed once", func() bool { return w.listDeliveries(w.billing, "ops")[0].Attempts == 2 })
	check(t, w.callbacks.Tidy(t.Context()))
	e.answerWith(http.StatusOK)
	w.makeRetriesDue(1)
	e.awaitMessages(t, 3)
	eventually.Holds(t, "it was taken again", func() bool { return w.listDeliveries(w.billing, "ops")[0].State == "delivered" })
}

func TestDeliveriesArePaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	w.createCallback(w.billing, "ops", e.URL)
	for range 3 {
		if _, err := w.callbacks.Test(t.Context(), audit.System(), w.billing, "ops"); err != nil {
			t.Fatal(err)
		}
	}
	id := w.getState(w.billing, "ops").ID
	first, next, err := w.callbacks.Deliveries(t.Context(), id, 0, 2)
	check(t, err)
	rest, end, err := w.callbacks.Deliveries(t.Context(), id, next, 2)
	check(t, err)
	if len(first) != 2 || len(rest) != 1 || next == 0 || end != 0 || first[1].ID == rest[0].ID {
		t.Errorf("%d, then %d; cursors %d and %d", len(first), len(rest), next, end)
	}
	if p := e.listReceived()[0].payload(t); p.Type != "callback.test" || p.Data.CallID != nil || p.Data.Agent != "billing" {
		t.Errorf("a test is %s", e.listReceived()[0].body)
	}
}

// TestReseal: after a rotation of the keyset, all secrets are sealed again and work.
func TestReseal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	secretText := w.createCallback(w.billing, "ops", e.URL)
	_, err := secret.ChangeFile(t.Context(), w.keyFile, secret.Change{Edit: (*secret.Keys).Rotate})
	check(t, err)
	rotated, err := secret.Open(secret.Config{File: w.keyFile})
	check(t, err)
	next, err := callback.New(callback.Config{Pool: w.db.Pool(), Box: rotated, Logger: w.logs.Logger(0), Now: time.Now, TrustedHosts: []string{"127.0.0.1"}})
	check(t, err)
	t.Cleanup(next.Close)
	for _, want := range []int{2, 0} { // the URL and the secret
		w.inTx(func(tx pgx.Tx) error {
			n, err := next.Reseal(t.Context(), tx)
			if n != want {
				t.Errorf("%d rows, want %d", n, want)
			}
			return err
		})
	}
	d, err := next.Test(t.Context(), audit.System(), w.billing, "ops")
	check(t, err)
	if d.State != "delivered" || !isSigned(t, e.listReceived()[0], secretText) {
		t.Errorf("after it: %+v", d)
	}
	another, err := secret.Open(secret.Config{File: filepath.Join(t.TempDir(), "key.json")})
	check(t, err)
	stranger, err := callback.New(callback.Config{Pool: w.db.Pool(), Box: another, Logger: w.logs.Logger(0), Now: time.Now})
	check(t, err)
	t.Cleanup(stranger.Close)
	if d, err = stranger.Test(t.Context(), audit.System(), w.billing, "ops"); err != nil || d.State != "failed" || !strings.Contains(d.Error, "cannot be decrypted") {
		t.Errorf("with another keyset: %+v, %v", d, err)
	}
}

// TestCrowdOfOneCallback: a slow receiver takes some of a process's slots, others get the rest.
func TestCrowdOfOneCallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, shortenTimeout)
	release := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	t.Cleanup(hanging.Close)
	t.Cleanup(func() { close(release) })
	e := newEndpoint(t)
	w.createCallback(w.billing, "hangs", hanging.URL)
	w.createCallback(w.support, "ops", e.URL)
	for n := range 12 {
		w.submitCall(w.billing, "files__write", fmt.Sprintf(`{"n":%d}`, n))
	}
	w.submitCall(w.support, "files__write", `{"n":1}`)
	e.awaitMessages(t, 1)
	eventually.Holds(t, "an attempt times out", func() bool { return w.getState(w.billing, "hangs").Error == receiver.ErrUndelivered.Error() })
}

// An untrusted receiver with http or on this machine gets nothing. One that is older than this rule
// shows the error before anything is sent. Errors do not tell whether a port is open.
func TestReceiversThatAreNotTrusted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := newEndpoint(t)
	silent := newEndpoint(t)
	silent.Close()
	w.createCallback(w.billing, "open", e.URL)
	w.createCallback(w.billing, "closed", silent.URL)
	errorOf := func(s *callback.Service, name string) string {
		t.Helper()
		d, err := s.Test(t.Context(), audit.System(), w.billing, name)
		check(t, err)
		return d.Error
	}
	if got := errorOf(w.callbacks, "closed"); got != receiver.ErrUndelivered.Error() {
		t.Errorf("trusted and not there: %q", got)
	}
	w.text(`WITH slow AS (UPDATE callback_attempts SET duration_ms = 5000 RETURNING 1) SELECT count(*)::text FROM slow`)
	log, _, err := w.callbacks.Deliveries(t.Context(), w.getState(w.billing, "closed").ID, 0, 0)
	check(t, err)
	if len(log) != 1 || len(log[0].Log) != 1 || log[0].Log[0].Duration != 0 {
		t.Errorf("the log tells how long no answer took: %+v", log)
	}
	received := len(e.listReceived())
	upgraded := w.service(time.Now, func(c *callback.Config) { c.TrustedHosts = nil })
	c, err := upgraded.Callback(t.Context(), w.billing.ID, "open")
	check(t, err)
	if c.State() != "failing" || c.Error != receiver.ErrInsecure.Error() || !strings.Contains(c.Error, "--trusted-hosts") {
		t.Errorf("before anything is sent: %s, %q", c.State(), c.Error)
	}
	open, closed := errorOf(upgraded, "open"), errorOf(upgraded, "closed")
	if open != closed || open != receiver.ErrInsecure.Error() {
		t.Errorf("an open port %q, a closed one %q", open, closed)
	}
	if len(e.listReceived()) != received {
		t.Error("a host that is not trusted was sent a message")
	}
}
