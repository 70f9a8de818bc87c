package retention_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/holdpoint/holdpoint/internal/leaktest"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/internal/worldtest"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/retention"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(leaktest.Patient(m)) }

var check = worldtest.Check

const day = lifetime.Day

// world is a database with rows of one agent and one person. Ages are relative to its clock, which does not move.
type world struct {
	t     *testing.T
	db    *worldtest.DB
	agent uuid.UUID
	vera  uuid.UUID
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, db: worldtest.NewDB(t), agent: uuid.New(), vera: uuid.New()}
	check(t, w.db.Pool().QueryRow(t.Context(), `SELECT holdpoint_now()`).Scan(&w.now))
	w.db.Exec(`INSERT INTO agents (id, name, wait_budget_ms) VALUES ($1, 'billing', 1000)`, w.agent)
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name, email, created_at) VALUES ($1, 'https://idp.test', 'vera', 'Vera', 'vera@example.test', $2)`, w.vera, w.ago(900*day))
	w.db.Exec(`INSERT INTO call_counting (until) VALUES ($1)`, w.now.Add(-time.Hour))
	return w
}

func (w *world) ago(age time.Duration) time.Time { return w.now.Add(-age) }

// service makes a service that deletes by ages.
func (w *world) service(ages lifetime.Ages, change ...func(*retention.Config)) *retention.Service {
	w.t.Helper()
	cfg := retention.Config{Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now, Ages: ages}
	for _, f := range change {
		f(&cfg)
	}
	s, err := retention.New(cfg)
	check(w.t, err)
	return s
}

// run deletes by ages and returns the numbers of deleted rows.
func (w *world) run(ages lifetime.Ages) retention.Counts {
	w.t.Helper()
	deleted, err := w.service(ages).Run(w.t.Context())
	check(w.t, err)
	return deleted
}

// idAt returns an id of a time.
func idAt(at time.Time) uuid.UUID {
	id, first := uuid.Must(uuid.NewV7()), call.FirstID(at)
	copy(id[:6], first[:6])
	return id
}

// addCall inserts a succeeded call of the agent for Vera, with everything that can belong to a call.
func (w *world) addCall(made, ended time.Time, changes ...string) uuid.UUID {
	w.t.Helper()
	id := idAt(made)
	w.db.Exec(`INSERT INTO calls (id, agent_id, principal_id, skill_id, skill_revision, created_at, finished_at, gated, status, tool, exposed_name, pin, arguments,
			submitted, result, message, caller)
		VALUES ($1, $2, $3, $4, 1, $5, $6, true, 'succeeded', 'write', 'write', sha256('x'), '{"secret":1}', '{"secret":0}', '{"content":[]}', 'secret', '{}')`,
		id, w.agent, w.vera, uuid.New(), made, ended)
	w.db.Exec(`INSERT INTO approvals (call_id, digest, deadline, status, rule, agent_id, skill_id, tool, decided_at, decided_by, decided_address, created_at, note)
		VALUES ($1, 'd', $3, 'approved', 'gated', $2, $4, 'write', $3, $5, '10.0.0.1', $3, 'fine')`, id, w.agent, made, uuid.New(), w.vera)
	w.db.Exec(`INSERT INTO approval_comments (call_id, number, person_id, text) VALUES ($1, 1, $2, 'I know this one')`, id, w.vera)
	w.db.Exec(`INSERT INTO call_questions (call_id, number, key, method, params, status, answer) VALUES ($1, 1, 'k', 'elicitation/create', '{"secret":2}', 'answered', '{}')`, id)
	w.db.Exec(`INSERT INTO call_facts (call_id, agent_id, skill_id, tool, added_at, facts) VALUES ($1, $2, $3, 'write', $4, '{}')`, id, w.agent, uuid.New(), made)
	w.db.Exec(`INSERT INTO audit_events (at, subject_id, actor_kind, actor_id, action, address) VALUES ($1, $2, 'person', $3, 'call.parked', '10.0.0.1')`, made, id, w.vera)
	for _, change := range changes {
		w.db.Exec(`UPDATE calls SET `+change+` WHERE id = $1`, id)
	}
	return id
}

// hasContent reports whether a call has its arguments and its result.
func (w *world) hasContent(id uuid.UUID) bool {
	w.t.Helper()
	return w.db.Count(`calls WHERE id = '`+id.String()+`' AND content_deleted_at IS NULL AND arguments = '{"secret":1}' AND result IS NOT NULL`) == 1
}

func (w *world) exists(id uuid.UUID) bool {
	w.t.Helper()
	return w.db.Count(`calls WHERE id = '`+id.String()+`'`) == 1
}
