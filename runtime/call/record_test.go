package call_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// published records the events that a service publishes.
type published struct {
	mu    sync.Mutex
	lines map[uuid.UUID][]string
}

func (o *published) publish(batch *pgx.Batch, condition string, list []call.Happening) error {
	for _, h := range list {
		batch.Queue(`SELECT c.id, c.status, coalesce(c.code, ''), c.tool, c.agent_id FROM (SELECT $1::uuid AS subject_id) e
			JOIN (`+call.CallFacts+`) c ON c.id = e.subject_id WHERE `+condition, h.CallID).Query(func(rows pgx.Rows) error {
			var id, agentID uuid.UUID
			var status, code, name string
			_, err := pgx.ForEachRow(rows, []any{&id, &status, &code, &name, &agentID}, func() error {
				if h.AgentID != uuid.Nil && h.AgentID != agentID {
					return fmt.Errorf("the event of call %s names agent %s, want %s", id, h.AgentID, agentID)
				}
				o.mu.Lock()
				defer o.mu.Unlock()
				o.lines[id] = append(o.lines[id], strings.TrimSuffix(strings.TrimPrefix(string(h.Kind), "call.")+" "+status+" "+code, " "))
				return nil
			})
			return err
		})
	}
	return nil
}

func (o *published) linesOf(id uuid.UUID) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.lines[id])
}

// TestEveryPathIsTold: each transition publishes its event once, in its transaction.
func TestEveryPathIsTold(t *testing.T) {
	t.Parallel()
	heard := &published{lines: map[uuid.UUID][]string{}}
	w := newWorld(t, func(_ *world, c *call.Config) { c.Publish = heard.publish })
	want := map[uuid.UUID][]string{}
	expect := func(ticket call.Ticket, lines ...string) uuid.UUID {
		want[ticket.ID] = lines
		return ticket.ID
	}

	id := expect(w.submit("files__write", `{"n":1}`), "parked parked", "decided approved", "finished succeeded")
	check(t, w.decide(id, true))
	w.waitForEnd(id)

	id = expect(w.submit("files__write", `{"n":2}`), "parked parked", "decided rejected rejected", "finished rejected rejected")
	check(t, w.decide(id, false))

	id = expect(w.submit("files__write", `{"n":3}`), "parked parked", "decided cancelled cancelled", "finished cancelled cancelled")
	_, err := w.calls.Cancel(t.Context(), call.Viewer{}, uuid.Nil, id)
	check(t, err)

	expired := expect(w.submit("files__write", `{"n":4}`), "parked parked", "decided expired expired", "finished expired expired")
	w.db.Exec(`UPDATE approvals SET deadline = holdpoint_now() WHERE call_id = $1`, expired)
	check(t, w.calls.Expire(t.Context(), expired))

	id = expect(w.submit("open__write", `{"n":5}`), "finished succeeded")
	w.waitForEnd(id)
	expect(w.submit("open__write", `{"n":"five"}`), "finished invalid invalid_arguments")

	w.source.Answer(func(tool.CallRequest) (tool.Result, error) {
		return tool.Result{}, &tool.Failure{Kind: tool.TransportFailure, Effect: tool.EffectPossible, Message: "gone"}
	})
	id = expect(w.submit("open__write", `{"n":6}`), "finished failed transport")
	w.waitForEnd(id)

	// One differs from the approved call right before it is sent.
	id = expect(w.submit("files__write", `{"n":7}`), "parked parked", "decided approved", "finished denied envelope_changed")
	w.db.Exec(`UPDATE calls SET arguments = '{"n":70}' WHERE id = $1`, id)
	check(t, w.decide(id, true))
	w.waitForEnd(id)

	// An instance goes silent with a call in flight.
	id = expect(w.submit("files__write", `{"n":8}`), "parked parked", "finished unknown outcome_unknown")
	silent := uuid.New()
	w.db.Exec(`UPDATE approvals SET status = 'approved', decided_at = holdpoint_now() WHERE call_id = $1`, id)
	w.db.Exec(`UPDATE calls SET status = 'executing', claimed_by = $2 WHERE id = $1`, id, silent)
	w.db.Exec(`INSERT INTO instances (id, heartbeat_at) VALUES ($1, holdpoint_now() - interval '20 seconds')`, silent)
	w.waitForEnd(id)

	// Two calls wait for a connection: one is cancelled, one goes on to the reviewers.
	w.source.Require(notConnected)
	id = expect(w.submit("files__write", `{"n":9}`), "finished cancelled cancelled")
	_, err = w.calls.Cancel(t.Context(), call.Viewer{}, uuid.Nil, id)
	check(t, err)
	resumed := expect(w.submit("files__write", `{"n":10}`), "parked parked")
	w.source.Require(nil)
	w.waitForStatus(resumed, call.Parked)

	for id, lines := range want {
		if got := heard.linesOf(id); !slices.Equal(got, lines) {
			t.Errorf("published %q, want %q; audit: %s", got, lines, w.db.Actions(id))
		}
	}
}
