package call_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// Only the outcomes of auto-approved calls without an idempotency key may be committed before they are on disk.
func TestAsyncOutcomes(t *testing.T) {
	t.Parallel()
	for _, async := range []bool{false, true} {
		w := newWorld(t, func(_ *world, c *call.Config) { c.AsyncOutcomes = async })
		_, err := w.db.Pool().Exec(t.Context(), `CREATE TABLE commits (call_id uuid, mode text);
			CREATE FUNCTION note_commit() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN INSERT INTO commits VALUES (NEW.id, current_setting('synchronous_commit')); RETURN NEW; END $$;
			CREATE TRIGGER note_commit AFTER UPDATE ON calls FOR EACH ROW WHEN (NEW.finished_at IS NOT NULL) EXECUTE FUNCTION note_commit()`)
		check(t, err)
		t.Cleanup(func() { // the database is lent to other tests
			_, err := w.db.Pool().Exec(context.WithoutCancel(t.Context()), `DROP FUNCTION note_commit CASCADE; DROP TABLE commits`)
			check(t, err)
		})
		wantMode := func(what string, id uuid.UUID, want string) {
			t.Helper()
			if c := w.waitForEnd(id); c.Status != call.Succeeded {
				t.Fatalf("%s: it is %s", what, c.Status)
			}
			var mode string
			check(t, w.db.Pool().QueryRow(t.Context(), `SELECT mode FROM commits WHERE call_id = $1`, id).Scan(&mode))
			if mode != want {
				t.Errorf("%s, asynchronous outcomes %t: synchronous_commit is %s, want %s", what, async, mode, want)
			}
		}
		direct := map[bool]string{false: "on", true: "off"}[async]
		wantMode("an auto-approved call", w.submit("open__write", `{"n":1}`).ID, direct)
		gated := w.submit("files__write", `{"n":1}`).ID
		check(t, w.decide(gated, true))
		wantMode("a gated call", gated, "on")
		keyed := w.newSubmission("open__write", `{"n":1}`)
		keyed.IdempotencyKey = "k"
		ticket, err := w.calls.Submit(t.Context(), keyed)
		check(t, err)
		wantMode("a call with an idempotency key", ticket.ID, "on")
		wantMode("the next auto-approved call", w.submit("open__write", `{"n":2}`).ID, direct)
	}
}
