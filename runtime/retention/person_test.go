package retention_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/lifetime"
	"github.com/holdpoint/holdpoint/runtime/retention"
)

// work starts the jobs of a service.
func (w *world) work(s *retention.Service) {
	w.t.Helper()
	queue := w.db.NewQueue(slog.New(slog.DiscardHandler), uuid.New(), map[string]int{river.QueueDefault: 2}, s)
	s.Start(queue)
	check(w.t, queue.Start(context.Background()))
	w.t.Cleanup(func() { check(w.t, queue.Stop(context.Background())) })
}

// erase erases Vera's data and waits for the end.
func (w *world) erase(s *retention.Service, by uuid.UUID) retention.Erasure {
	w.t.Helper()
	_, err := s.Erase(w.t.Context(), audit.Person(by), w.vera)
	check(w.t, err)
	var e retention.Erasure
	eventually.Holds(w.t, "the erasure ends", func() bool {
		e, err = s.ReadErasure(w.t.Context(), w.vera)
		check(w.t, err)
		return e.FinishedAt != nil
	})
	return e
}

// fillVera inserts everything that is stored about a person.
func (w *world) fillVera() (ended, open uuid.UUID) {
	w.t.Helper()
	ended, open = w.addCall(w.ago(day), w.ago(day)), w.addCall(w.ago(day), w.ago(day), "status = 'parked', finished_at = NULL")
	talk, file := idAt(w.ago(day)), idAt(w.ago(day))
	w.db.Exec(`INSERT INTO conversations (id, agent_id, principal_id, name) VALUES ($1, $2, $3, 'my holiday')`, talk, w.agent, w.vera)
	w.db.Exec(`INSERT INTO loops (conversation_id, agent_id, principal_id, status) VALUES ($1, $2, $3, 'idle')`, talk, w.agent, w.vera)
	w.db.Exec(`INSERT INTO loop_entries (conversation_id, seq, kind, data) VALUES ($1, 1, 'user', '{"text":"I am Vera"}')`, talk)
	w.db.Exec(`INSERT INTO files (id, agent_id, principal_id, filename, content_type, size, upload_hash, upload_until, uploaded_at, object, sha256, attached_at)
		VALUES ($1, $2, $3, 'vera.pdf', '', 1, $4, $5, $5, 'o', '\x00', $5)`, file, w.agent, w.vera, file[:], w.now)
	w.db.Exec(`INSERT INTO plans (id, agent_id, principal_id, title, calls, deadline) VALUES ($1, $2, $3, 'for Vera', '[{"arguments":{"to":"vera"}}]', $4)`, uuid.New(), w.agent, w.vera, w.now)
	w.db.Exec(`INSERT INTO person_sessions (id, person_id, method, client, expires_at) VALUES ($1, $2, 'oidc', 'Vera''s browser', $3)`, uuid.New(), w.vera, w.now.Add(day))
	w.db.Exec(`INSERT INTO person_tokens (id, person_id, secret_hash, hint, roles, agents) VALUES ($1, $2, 'h', 'hp_abc', '{}', '{}')`, uuid.New(), w.vera)
	w.db.Exec(`INSERT INTO push_subscriptions (id, person_id, endpoint_hash, sealed, client) VALUES ($1, $2, 'h', 's', 'Vera''s phone')`, uuid.New(), w.vera)
	w.db.Exec(`INSERT INTO grants (id, agent_id, principal_id, skill_id, tool, pin, arguments, call_id, granted_by, needs_second, ends_at)
		VALUES ($1, $2, $3, $1, 'write', '', '[{"argument":"/to","kind":"exact","values":["vera@home.test"]}]', $1, $1, false, $4)`, uuid.New(), w.agent, w.vera, w.now.Add(day))
	w.db.Exec(`INSERT INTO queue_views (person_id, name, query) VALUES ($1, 'mine', '')`, w.vera)
	w.db.Exec(`INSERT INTO absences (id, person_id, starts_at, ends_at) VALUES ($1, $2, $3, $4)`, uuid.New(), w.vera, w.now, w.now.Add(day))
	w.db.Exec(`INSERT INTO delegations (id, team, person_id, ends_at) VALUES ($1, 'vera''s', $2, $3)`, uuid.New(), w.vera, w.now.Add(day))
	w.db.Exec(`INSERT INTO shifts (team, number, starts_at, ends_at, label, names, people) VALUES ('ops', (SELECT count(*) FROM shifts), $1, $2, 'Vera', '[["vera@example.test"]]', ARRAY[$3::uuid])`,
		w.now, w.now.Add(day), w.vera)
	w.db.Exec(`INSERT INTO invitations (id, secret_hash, hint, name, roles, agents, expires_at, redeemed_by) VALUES ($1, 'i', 'i', 'Vera', '{}', '{}', $2, $3)`, uuid.New(), w.now, w.vera)
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, action, data) SELECT id, 'system', 'invitation.created', '{"name":"Vera","roles":[]}' FROM invitations`)
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, action, data) VALUES ($1, 'system', 'person.created', '{"issuer":"https://idp.test","subject":"vera"}')`, w.vera)
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, actor_id, action, data) VALUES ($1, 'person', $1, 'session.signed_in', '{"method":"oidc","client":"Vera''s browser"}')`, w.vera)
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, actor_id, action, data) VALUES ($1, 'person', $2, 'call.file_opened', '{"file":"f","filename":"vera.pdf"}'),
		($1, 'person', $2, 'approval.edit_proposed', '{"digest":"d","edited":["vera_smith"],"note":"corrected"}')`, ended, uuid.New())
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, actor_id, action, data) VALUES ($1, 'person', $2, 'resource.read', '{"uri":"file:///home/vera","skill":"files"}'),
		($1, 'person', $2, 'prompt.got', '{"prompt":"vera_prompt","skill":"files"}'), ($1, 'person', $2, 'skill.tried', '{"url":"https://a.test?q=vera","tool":"t"}')`, talk, w.vera)
	w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, actor_id, action, data) VALUES ($1, 'person', $1, 'calls.exported', '{"format":"csv","filter":{"text":"vera","tool":"t"}}'),
		($1, 'person', $1, 'token.created', '{"token":"t","hint":"hp_abc"}')`, w.vera)
	w.db.Exec(`UPDATE people SET blocked_at = holdpoint_now() WHERE id = $1`, w.vera)
	return ended, open
}

// dump returns all rows of all tables about people as text.
func (w *world) dump() string {
	w.t.Helper()
	var all strings.Builder
	for _, table := range []string{
		"people", "calls", "approvals", "approval_comments", "call_questions", "call_facts", "conversations", "loop_entries", "files", "call_files",
		"person_sessions", "person_tokens", "push_subscriptions", "queue_views", "grants", "plans", "invitations", "audit_events", "person_erasures",
		"absences", "delegations", "shifts",
	} {
		rows, _ := w.db.Pool().Query(w.t.Context(), `SELECT t::text FROM `+table+` t`)
		for rows.Next() {
			var text string
			check(w.t, rows.Scan(&text))
			all.WriteString(table + " " + text + "\n")
		}
		check(w.t, rows.Err())
	}
	return all.String()
}

func TestErasure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ended, open := w.fillVera()
	s, olga := w.service(lifetime.Ages{}), uuid.New()
	w.work(s)
	e := w.erase(s, olga)
	if e.Left["open_calls"] != 1 || e.Left["held_account"] != 0 || !strings.HasPrefix(e.Pseudonym, "erased-") {
		t.Errorf("%+v", e)
	}
	for kind, n := range map[string]int64{"calls": 1, "conversations": 1, "files": 1, "comments": 2, "decisions": 2, "grants": 1, "sessions": 1, "tokens": 1, "accounts": 1, "plans": 1} {
		if e.Erased[kind] != n {
			t.Errorf("erased %d %s, want %d", e.Erased[kind], kind, n)
		}
	}
	if w.hasContent(ended) || !w.hasContent(open) {
		t.Error("the wrong contents were erased")
	}
	if n := w.db.Count(`approvals WHERE status = 'approved' AND decided_by = '` + w.vera.String() + `' AND note = 'fine'`); n != 2 {
		t.Errorf("%d decisions", n)
	}
	w.db.Exec(`UPDATE calls SET status = 'expired', finished_at = holdpoint_now() WHERE id = $1`, open)
	if again := w.erase(s, olga); len(again.Left) != 0 || again.Pseudonym != e.Pseudonym || w.hasContent(open) {
		t.Errorf("%+v", again)
	}
	for line := range strings.Lines(w.dump()) {
		for _, trace := range []string{"Vera", "vera", "10.0.0.1", "secret\"", "I know", "hp_abc", "my holiday"} {
			if strings.Contains(line, trace) {
				t.Errorf("%q is left: %s", trace, line)
			}
		}
	}
	for action, left := range map[string]string{
		"call.file_opened": `{"file": "f"}`, "approval.edit_proposed": `{"note": "corrected", "digest": "d"}`, "resource.read": `{"skill": "files"}`,
		"calls.exported": `{"filter": {"tool": "t"}, "format": "csv"}`, "token.created": `{"token": "t"}`, "skill.tried": `{"tool": "t"}`,
	} {
		if w.db.Count(`audit_events WHERE action = '`+action+`' AND data = '`+left+`'`) != 1 {
			t.Errorf("%s does not have %s", action, left)
		}
	}
	if got := w.db.Actions(w.vera); got != "person.created session.signed_in calls.exported token.created person.erased person.erased person.erased person.erased" {
		t.Errorf("events: %s", got)
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Subject: w.vera})
	check(t, err)
	if last := events[0]; last.Actor != audit.Person(olga) || !strings.Contains(string(last.Raw), e.Pseudonym) {
		t.Errorf("%+v", last)
	}
}

// To the identity provider, an erased person is the same one as before. To Holdpoint, it is a new person, whom no block and no role concerns.
func TestErasedPersonSignsInAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillVera()
	w.db.Exec(`UPDATE people SET granted_roles = '{operator}' WHERE id = $1`, w.vera)
	people, err := identity.New(identity.Config{Pool: w.db.Pool(), Logger: slog.New(slog.DiscardHandler), Now: time.Now})
	check(t, err)
	claims := identity.Claims{Issuer: "https://idp.test", Subject: "vera", Name: "Vera"}
	signIn := func() error {
		_, err := people.SignIn(t.Context(), claims, identity.NewSession{Lifetime: time.Hour})
		return err
	}
	if err := signIn(); !errors.Is(err, identity.ErrBlocked) {
		t.Errorf("before the erasure: %v", err)
	}
	s := w.service(lifetime.Ages{})
	w.work(s)
	e := w.erase(s, uuid.New())
	if err := signIn(); !errors.Is(err, identity.ErrNoRole) {
		t.Errorf("without a role of the provider: %v", err)
	}
	claims.Roles = []identity.Role{identity.Reviewer}
	check(t, signIn())
	if w.db.Count(`people WHERE subject = 'vera' AND blocked_at IS NULL AND granted_roles = '{}' AND id <> '`+w.vera.String()+`'`) != 1 ||
		w.db.Count(`people WHERE subject = '`+e.Pseudonym+`' AND blocked_at IS NOT NULL AND id = '`+w.vera.String()+`'`) != 1 || w.db.Count("person_links") != 0 {
		t.Error("the old and the new person are not two")
	}
}

func TestErasureLeavesWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ended, _ := w.fillVera()
	s := w.service(lifetime.Ages{})
	w.work(s)
	hold, err := s.Holds.Set(t.Context(), audit.System(), legalhold.Hold{AgentID: w.agent, Reason: "case 1"})
	check(t, err)
	before := w.db.Count("audit_events WHERE address IS NOT NULL")
	e := w.erase(s, uuid.New())
	if e.Left["held_calls"] != 2 || e.Left["held_conversations"] != 1 || e.Left["held_files"] != 1 || e.Left["held_decisions"] != 4 || e.Left["held_account"] != 1 {
		t.Errorf("%+v", e)
	}
	if !w.hasContent(ended) || w.db.Count("people WHERE name = 'Vera'") != 1 || w.db.Count("audit_events WHERE address IS NOT NULL") != before {
		t.Error("held rows were changed")
	}
	if w.db.Count("person_sessions")+w.db.Count("push_subscriptions") != 0 {
		t.Error("credentials are left")
	}
	_, err = s.Holds.Lift(t.Context(), audit.System(), hold.ID, "over")
	check(t, err)
	if e := w.erase(s, uuid.New()); e.Left["held_account"] != 0 || w.hasContent(ended) || w.db.Count("people WHERE name = 'Vera'") != 0 {
		t.Errorf("%+v", e)
	}
}

// Each batch begins where the one before ended, and changes no more rows than a batch may have.
func TestErasureIsInBatches(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), context.WithoutCancel(t.Context())
	const calls, size = 40, 2
	for range calls {
		w.addCall(w.ago(day), w.ago(day))
	}
	w.db.Exec(`INSERT INTO approval_comments (call_id, number, person_id, text) SELECT (SELECT call_id FROM approvals ORDER BY call_id LIMIT 1), n, $1, 'I know' FROM generate_series(2, 5) n`, w.vera)
	w.db.Exec(`UPDATE people SET blocked_at = holdpoint_now() WHERE id = $1`, w.vera)
	seen, last := map[string]bool{}, map[string]int{}
	s := w.service(lifetime.Ages{}, func(c *retention.Config) {
		c.BatchSize = size
		c.AfterBatch = func(kind string) {
			if kind != "erasure" {
				return
			}
			var position string
			check(t, w.db.Pool().QueryRow(ctx, `SELECT step || ' ' || coalesce(cursor, '') || ' ' || (finished_at IS NOT NULL) FROM person_erasures`).Scan(&position))
			if seen[position] {
				t.Errorf("a batch left the position at %s", position)
			}
			seen[position] = true
			for from, most := range map[string]int{
				"calls WHERE content_deleted_at IS NULL": size, "approvals WHERE decided_address IS NOT NULL": size,
				"approval_comments WHERE text <> '[erased]'": 5, // of one call
			} {
				var left int
				check(t, w.db.Pool().QueryRow(ctx, `SELECT count(*) FROM `+from).Scan(&left))
				if before, ok := last[from]; ok && before-left > most {
					t.Errorf("a batch changed %d of %s", before-left, from)
				}
				last[from] = left
			}
		}
	})
	w.work(s)
	if e := w.erase(s, uuid.New()); e.Erased["decisions"] != calls || e.Erased["comments"] != calls+4 || e.Erased["calls"] != calls {
		t.Errorf("%+v", e)
	}
}

// An erasure that is interrupted is continued where it was.
func TestErasureIsResumed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillVera()
	for range 300 {
		w.db.Exec(`INSERT INTO audit_events (subject_id, actor_kind, actor_id, action, address) VALUES ($1, 'person', $1, 'session.created', '10.0.0.1')`, w.vera)
	}
	var batches atomic.Int64
	broken := w.service(lifetime.Ages{}, func(c *retention.Config) {
		c.BatchSize = 2
		c.AfterBatch = func(kind string) {
			if n := batches.Add(1); kind == "erasure" && n%20 == 0 {
				panic("killed") // River tries the job again
			}
		}
	})
	w.work(broken)
	_, err := broken.Erase(t.Context(), audit.System(), w.vera)
	check(t, err)
	eventually.Holds(t, "the erasure ends", func() bool {
		w.db.Exec(`UPDATE river_job SET scheduled_at = now() - interval '1 second', state = 'available' WHERE state = 'retryable'`)
		e, err := broken.ReadErasure(t.Context(), w.vera)
		check(t, err)
		return e.FinishedAt != nil
	})
	if w.db.Count("audit_events WHERE address IS NOT NULL") != 0 || batches.Load() < 6 {
		t.Errorf("addresses are left after %d batches", batches.Load())
	}
}

// Operators read in a table what an erasure leaves in the audit log. It has all actions.
func TestTableOfErasureHasAllActions(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/operating.md")
	check(t, err)
	code, err := os.ReadFile("../../internal/audit/action.go")
	check(t, err)
	_, table, _ := strings.Cut(string(page), "| audit action |")
	table, _, _ = strings.Cut(table, "\n\n")
	named := map[string]bool{}
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, found := range regexp.MustCompile("`([a-z_]+[.][a-z_*]+)`").FindAllStringSubmatch(cell, -1) {
			named[found[1]] = true
		}
	}
	actions := regexp.MustCompile(`Action = "([a-z_.]+)"`).FindAllSubmatch(code, -1)
	for _, found := range actions {
		action := string(found[1])
		if noun, _, _ := strings.Cut(action, "."); !named[action] && !named[noun+".*"] {
			t.Errorf("docs/operating.md does not say what an erasure removes from %s", action)
		}
	}
	if len(actions) < 90 {
		t.Errorf("%d actions", len(actions))
	}
}

func TestErasureNeedsBlockedPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.service(lifetime.Ages{})
	w.work(s)
	if _, err := s.Erase(t.Context(), audit.System(), w.vera); err == nil || !strings.Contains(err.Error(), "block the person first") {
		t.Errorf("erased: %v", err)
	}
	if _, err := s.Erase(t.Context(), audit.System(), uuid.New()); err == nil {
		t.Error("erased an unknown person")
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fillVera()
	olga := uuid.New()
	s := w.service(lifetime.Ages{})
	write, err := s.Export(t.Context(), audit.Person(olga), w.vera)
	check(t, err)
	var out bytes.Buffer
	check(t, write(t.Context(), &out))
	var exported map[string][]map[string]any
	if err := json.Unmarshal(out.Bytes(), &exported); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	for section, n := range map[string]int{
		"person": 1, "sessions": 1, "tokens": 1, "push_subscriptions": 1, "queue_views": 1, "invitations": 1, "absences": 1, "delegations": 1, "shifts": 1, "decisions": 2, "comments": 2, "calls": 2, "files": 1,
		"conversations": 1, "messages": 1, "events": 10,
	} {
		if len(exported[section]) != n {
			t.Errorf("%d %s, want %d", len(exported[section]), section, n)
		}
	}
	if exported["person"][0]["email"] != "vera@example.test" || exported["calls"][0]["arguments"] != `{"secret":1}` || strings.Contains(out.String(), "secret_hash") {
		t.Errorf("%s", out.String())
	}
	events, err := audit.List(t.Context(), w.db.Pool(), audit.Filter{Action: audit.PersonExported})
	check(t, err)
	if len(events) != 1 || events[0].Actor != audit.Person(olga) || strings.Contains(string(events[0].Raw), "era\"") {
		t.Errorf("%+v", events)
	}
	if _, err := s.Export(t.Context(), audit.Person(olga), uuid.New()); err == nil {
		t.Error("exported an unknown person")
	}
}
