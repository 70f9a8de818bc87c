package call_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/retention"
)

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"files__write", "open__write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			sub := w.newSubmission(name, `{"n":1}`)
			sub.IdempotencyKey = "k"
			first, err := w.calls.Submit(t.Context(), sub)
			check(t, err)
			if first.Gated {
				check(t, w.decide(first.ID, true))
			}
			w.waitForEnd(first.ID)
			check(t, w.calls.MarkDelivered(t.Context(), first.ID))
			if again, err := w.calls.Submit(t.Context(), sub); err != nil || again.ID != first.ID || !again.Attached || again.Status != call.Succeeded {
				t.Fatalf("a repeat after delivery: %+v, %v", again, err)
			}
			other := w.newSubmission(name, `{"n":2}`)
			other.IdempotencyKey = "k"
			if _, err := w.calls.Submit(t.Context(), other); !errors.Is(err, call.ErrKeyReused) {
				t.Fatalf("the key with other arguments: %v", err)
			}
			w.db.MoveClock("23 hours 59 minutes")
			if again, err := w.calls.Submit(t.Context(), sub); err != nil || again.ID != first.ID {
				t.Fatalf("a repeat within the TTL: %+v, %v", again, err)
			}
			w.db.MoveClock("24 hours 1 minute")
			other.Entry = w.newSubmission(name, `{"n":2}`).Entry
			fresh, err := w.calls.Submit(t.Context(), other)
			if err != nil || fresh.ID == first.ID || fresh.Attached {
				t.Fatalf("the key after the TTL: %+v, %v", fresh, err)
			}
		})
	}
}

// A key belongs to one agent, principal and tool.
func TestIdempotencyKeyScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	keyed := func(name string, principal uuid.UUID) call.Ticket {
		sub := w.newSubmission(name, `{"n":1}`)
		sub.IdempotencyKey, sub.PrincipalID = "k", principal
		ticket, err := w.calls.Submit(t.Context(), sub)
		check(t, err)
		return ticket
	}
	person := uuid.New()
	seen := map[uuid.UUID]bool{}
	for _, ticket := range []call.Ticket{
		keyed("files__write", uuid.Nil), keyed("files__write", person), keyed("files__echo", uuid.Nil),
		keyed("open__write", uuid.Nil), keyed("open__write", person),
	} {
		if ticket.Attached || seen[ticket.ID] {
			t.Errorf("%+v attached to another call", ticket)
		}
		seen[ticket.ID] = true
	}
}

// A repeat is found by the agent's arguments, not by the reviewer's edit.
func TestKeyGoesByWhatWasMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sub := w.newSubmission("files__write", `{"n":1,"url":"a"}`)
	sub.Made = []byte(`{"n":1,"file":"f"}`)
	first, err := w.calls.Submit(t.Context(), sub)
	check(t, err)
	again := w.newSubmission("files__write", `{"n":1,"url":"b"}`)
	again.Made = sub.Made
	if second, err := w.calls.Submit(t.Context(), again); err != nil || second.ID != first.ID || !second.Attached {
		t.Fatalf("%+v, %v", second, err)
	}
}

// A repeat gets the outcome of the executed call, even if the call would be refused now.
func TestRepeatOfWhatWouldBeRefusedNow(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"files__write": "", "files__write with a key": "k", "open__write with a key": "k"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tool, _, _ := strings.Cut(name, " ")
			skill, _, _ := strings.Cut(tool, "__")
			sub := w.newSubmission(tool, `{"n":1}`)
			sub.IdempotencyKey = key
			first, err := w.calls.Submit(t.Context(), sub)
			check(t, err)
			if first.Gated {
				check(t, w.decide(first.ID, true))
			}
			w.waitForEnd(first.ID)
			w.registry.ApplyJSON(`{"skills":[{"name":"` + skill + `","transport":"http","url":"http://127.0.0.1:1/` + skill + `","tools":{"write":{"enabled":false}}}]}`)
			if again, err := w.calls.Submit(t.Context(), sub); err != nil || again.ID != first.ID || !again.Attached || again.Status != call.Succeeded {
				t.Errorf("%+v, %v", again, err)
			}
			other := w.submissionOf(&sub, `{"n":2}`)
			if denied, err := w.calls.Submit(t.Context(), other); err != nil || denied.ID == first.ID || denied.Status != call.Denied {
				t.Errorf("other arguments: %+v, %v", denied, err)
			}
			w.db.MoveClock("25 hours")
			check(t, w.calls.MarkDelivered(t.Context(), first.ID))
			if late, err := w.calls.Submit(t.Context(), sub); err != nil || late.ID == first.ID || late.Status != call.Denied {
				t.Errorf("after delivery, or the TTL: %+v, %v", late, err)
			}
		})
	}
}

// submissionOf returns sub with other arguments.
func (w *world) submissionOf(sub *call.Submission, arguments string) call.Submission {
	w.t.Helper()
	other := *sub
	clean, err := call.CleanArguments([]byte(arguments))
	check(w.t, err)
	other.Arguments = clean
	return other
}

// The result of a call was deleted, because its person was erased, while its idempotency key is still held: a repeat says so and sends nothing.
func TestRepeatOfCallWithoutContent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"files__write", "open__write"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			vera := uuid.New()
			w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'https://idp.test', 'vera', 'Vera')`, vera)
			sub := w.newSubmission(name, `{"n":1}`)
			sub.IdempotencyKey, sub.PrincipalID = "k", vera
			first, err := w.calls.Submit(t.Context(), sub)
			check(t, err)
			if first.Gated {
				check(t, w.decide(first.ID, true))
			}
			w.waitForEnd(first.ID)
			check(t, w.calls.MarkDelivered(t.Context(), first.ID))
			w.db.Exec(`UPDATE people SET blocked_at = holdpoint_now() WHERE id = $1`, vera)
			s, err := retention.New(retention.Config{Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
			check(t, err)
			queue := w.db.NewQueue(slog.New(slog.DiscardHandler), uuid.New(), map[string]int{river.QueueDefault: 1}, s)
			s.Start(queue)
			check(t, queue.Start(context.WithoutCancel(t.Context())))
			defer func() { check(t, queue.Stop(context.WithoutCancel(t.Context()))) }()
			_, err = s.Erase(t.Context(), audit.System(), vera)
			check(t, err)
			eventually.Holds(t, "the erasure ends", func() bool {
				e, err := s.ReadErasure(t.Context(), vera)
				check(t, err)
				return e.FinishedAt != nil
			})
			again, err := w.calls.Submit(t.Context(), sub)
			if err != nil || again.ID != first.ID || !again.Attached || again.Status != call.Succeeded {
				t.Fatalf("a repeat: %+v, %v", again, err)
			}
			got := w.waitForEnd(again.ID)
			if got.ContentDeletedAt == nil || got.Result != nil || string(got.Arguments) != "{}" || !strings.Contains(got.Explain(), "Its result was deleted") {
				t.Errorf("%+v: %s", got, got.Explain())
			}
			if sent := w.source.Arguments(); len(sent) != 1 {
				t.Errorf("sent %v", sent)
			}
		})
	}
}
