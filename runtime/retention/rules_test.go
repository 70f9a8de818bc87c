package retention_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/legalhold"
	"github.com/holdpoint/holdpoint/internal/lifetime"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	attach := func(calls []uuid.UUID, at time.Time) uuid.UUID {
		file := idAt(at)
		w.db.Exec(`INSERT INTO files (id, agent_id, principal_id, filename, content_type, size, upload_hash, upload_until, created_at, uploaded_at, object, sha256, attached_at)
			VALUES ($1, $2, $3, 'report.pdf', 'application/pdf', 1, $4, $5, $5, $5, $6, '\x00', $5)`, file, w.agent, w.vera, file[:], at, file.String())
		for _, c := range calls {
			w.db.Exec(`INSERT INTO call_files (call_id, position, file_id, filename, content_type, sha256, capability_hash) VALUES ($1, 0, $2, 'report.pdf', '', '\x00', '\x00')`, c, file)
		}
		return file
	}
	old, young := w.addCall(w.ago(40*day), w.ago(40*day)), w.addCall(w.ago(10*day), w.ago(10*day))
	open := w.addCall(w.ago(40*day), w.ago(40*day), "status = 'parked', finished_at = NULL")
	attach([]uuid.UUID{old}, w.ago(40*day))
	shared := attach([]uuid.UUID{w.addCall(w.ago(40*day), w.ago(40*day)), young}, w.ago(20*day-time.Minute))
	needed := attach([]uuid.UUID{open}, w.ago(40*day))
	expired := attach([]uuid.UUID{w.addCall(w.ago(20*day), w.ago(20*day))}, w.ago(20*day+time.Minute))
	if deleted := w.run(lifetime.Ages{Content: 30 * day, Files: 20 * day}); deleted["content"] != 2 || deleted["files"] != 1 {
		t.Errorf("deleted %v", deleted)
	}
	if n := w.db.Count("files"); n != 3 {
		t.Errorf("%d files: the one without a call goes, the others stay", n)
	}
	for file, stored := range map[uuid.UUID]bool{shared: true, needed: true, expired: false} {
		if got := w.db.Count(`files WHERE id = '`+file.String()+`' AND content_deleted_at IS NULL AND object <> ''`) == 1; got != stored {
			t.Errorf("stored: %v, want %v", got, stored)
		}
	}
	if w.db.Count("call_files") != 3 {
		t.Error("references are missing")
	}
}

func TestConversations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func(made time.Time, ended *time.Time) uuid.UUID {
		id := idAt(made)
		w.db.Exec(`INSERT INTO conversations (id, agent_id, principal_id, created_at, ended_at) VALUES ($1, $2, $3, $4, $5)`, id, w.agent, w.vera, made, ended)
		return id
	}
	at := func(age time.Duration) *time.Time { return new(w.ago(age)) }
	gone := map[string]uuid.UUID{
		"ended long ago":   begin(w.ago(50*day), at(30*day+time.Minute)),
		"without a call":   begin(w.ago(30*day+time.Minute), nil),
		"idle, with calls": begin(w.ago(90*day), nil),
		"idle loop":        begin(w.ago(50*day), nil),
	}
	kept := map[string]uuid.UUID{
		"ended lately":    begin(w.ago(50*day), at(30*day-time.Minute)),
		"young":           begin(w.ago(30*day-time.Minute), nil),
		"recent call":     begin(w.ago(90*day), nil),
		"open call":       begin(w.ago(90*day), nil),
		"waiting loop":    begin(w.ago(90*day), nil),
		"loop of lately":  begin(w.ago(90*day), nil),
		"ended, new call": begin(w.ago(90*day), at(80*day)),
	}
	in := func(c uuid.UUID, age time.Duration, changes ...string) {
		w.addCall(w.ago(age), w.ago(age), append(changes, "conversation_id = '"+c.String()+"'")...)
	}
	in(gone["idle, with calls"], 31*day)
	in(kept["recent call"], 29*day)
	in(kept["open call"], 60*day, "status = 'parked', finished_at = NULL")
	in(kept["ended, new call"], 2*day)
	for id, status := range map[uuid.UUID]string{gone["idle loop"]: "idle", kept["waiting loop"]: "waiting", kept["loop of lately"]: "idle"} {
		moved := w.ago(31 * day)
		if id == kept["loop of lately"] {
			moved = w.ago(29 * day)
		}
		w.db.Exec(`INSERT INTO loops (conversation_id, agent_id, principal_id, status, moved_at) VALUES ($1, $2, $3, $4, $5)`, id, w.agent, w.vera, status, moved)
		w.db.Exec(`INSERT INTO loop_entries (conversation_id, seq, kind, data) VALUES ($1, 1, 'user', '{}')`, id)
		w.db.Exec(`INSERT INTO loop_calls (call_id, conversation_id, seq) VALUES ($1, $2, 1)`, uuid.New(), id)
	}
	if deleted := w.run(lifetime.Ages{Conversations: 30 * day}); deleted["conversations"] != int64(len(gone)) {
		t.Errorf("deleted %v", deleted)
	}
	for name, id := range gone {
		if w.db.Count(`conversations WHERE id = '`+id.String()+`'`) != 0 {
			t.Errorf("%s: is left", name)
		}
	}
	for name, id := range kept {
		if w.db.Count(`conversations WHERE id = '`+id.String()+`'`) != 1 {
			t.Errorf("%s: is gone", name)
		}
	}
	if w.db.Count("loops") != 2 || w.db.Count("loop_entries") != 2 || w.db.Count("loop_calls") != 2 || w.db.Count("calls") != 4 {
		t.Error("more or less than the parts of the conversations was deleted")
	}
}

// Only what nothing refers to goes, and only if it is old.
func TestCatalogsAndDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	define := func(name string, age time.Duration) {
		w.db.Exec(`INSERT INTO tool_definitions (pin, definition, first_seen) VALUES (sha256($1::text::bytea), '{}', $2)`, name, w.ago(age))
	}
	for _, name := range []string{"current", "accepted", "of a catalog", "of a call", "unused"} {
		define(name, 31*day)
	}
	define("young", 29*day)
	skill := uuid.New()
	w.db.Exec(`INSERT INTO skills (id, name, transport, settings, approval_timeout_ms, call_timeout_ms) VALUES ($1, 'files', 'http', '{}', 1, 1)`, skill)
	w.db.Exec(`INSERT INTO skill_tools (skill_id, name, current_pin, accepted_pin) VALUES ($1, 'write', sha256('current'), sha256('accepted'))`, skill)
	w.addCall(w.now, w.now, "pin = sha256('of a call')")
	catalog := func(name, pin string, age time.Duration) {
		w.db.Exec(`INSERT INTO catalogues (digest, entries, created_at) VALUES (sha256($1::text::bytea), json_build_array(json_build_object('pin', encode(sha256($2::text::bytea), 'hex'))), $3)`,
			name, pin, w.ago(age))
	}
	catalog("used", "of a catalog", 40*day)
	catalog("unused", "current", 31*day)
	catalog("young", "current", 29*day)
	w.db.Exec(`INSERT INTO catalogues (digest, entries, created_at) VALUES ('of an older version', '[]', NULL)`)
	w.db.Exec(`INSERT INTO conversations (id, agent_id, catalogue_digest) VALUES ($1, $2, sha256('used'))`, uuid.New(), w.agent)
	deleted := w.run(lifetime.DefaultAges())
	if deleted["catalogs"] != 1 || deleted["definitions"] != 1 {
		t.Errorf("deleted %v", deleted)
	}
	if w.db.Count("catalogues WHERE digest = sha256('unused')")+w.db.Count("tool_definitions WHERE pin = sha256('unused')") != 0 {
		t.Error("unused rows are left")
	}
	w.db.MoveClock("31 days")
	if deleted := w.run(lifetime.DefaultAges()); deleted["catalogs"] != 2 || deleted["definitions"] != 1 || w.db.Count("catalogues") != 1 {
		t.Errorf("deleted %v", deleted)
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	count := func(at time.Time) {
		hour := at.Truncate(time.Hour)
		w.db.Exec(`INSERT INTO call_counts (hour, agent_id, skill_id, status, failure, calls) VALUES ($1, $2, $3, 'succeeded', '', 1)`, hour, w.agent, uuid.New())
		for level := range 3 {
			agent := w.agent
			if level == 2 {
				agent = uuid.Nil
			}
			w.db.Exec(`INSERT INTO call_tool_counts (level, since, skill_id, tool, agent_id, status, calls, last) VALUES ($1, $2, $3, 'write', $4, 'succeeded', 1, $2)`, level, hour, uuid.New(), agent)
		}
	}
	count(w.ago(102 * day))
	count(w.ago(100*day - time.Hour))
	count(w.ago(300 * day))
	holds := legalhold.Service{Pool: w.db.Pool()}
	hold, err := holds.Set(t.Context(), audit.System(), legalhold.Hold{AgentID: w.agent, From: new(w.ago(301 * day)), To: new(w.ago(299 * day)), Reason: "case 1"})
	check(t, err)
	if deleted := w.run(lifetime.Ages{Counts: 100 * day}); deleted["counts"] != 4 || w.db.Count("call_tool_counts") != 6 {
		t.Errorf("deleted %v", deleted)
	}
	_, err = holds.Lift(t.Context(), audit.System(), hold.ID, "over")
	check(t, err)
	if deleted := w.run(lifetime.Ages{Counts: 100 * day}); deleted["counts"] != 4 {
		t.Errorf("deleted %v", deleted)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.addCall(w.ago(366*day), w.ago(366*day))
	w.addCall(w.ago(364*day), w.ago(364*day))
	w.addCall(w.ago(400*day), w.ago(400*day), "status = 'parked', finished_at = NULL") // its events say who made it
	if deleted := w.run(lifetime.Ages{Events: 365 * day}); deleted["events"] != 1 {
		t.Errorf("deleted %v", deleted)
	}
	if n := w.db.Count("audit_events WHERE action = 'call.parked'"); n != 2 {
		t.Errorf("%d events", n)
	}
}

// A hold keeps rows of an agent, of a range of time, or of both, until it is lifted.
func TestLegalHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hold func(w *world) legalhold.Hold
		kept [2]bool // the old call of the agent, and that of another agent
	}{
		"agent": {func(w *world) legalhold.Hold { return legalhold.Hold{AgentID: w.agent} }, [2]bool{true, false}},
		"range": {func(w *world) legalhold.Hold {
			return legalhold.Hold{From: new(w.ago(41 * day)), To: new(w.ago(39 * day))}
		}, [2]bool{true, true}},
		"agent and range": {func(w *world) legalhold.Hold {
			return legalhold.Hold{AgentID: w.agent, To: new(w.ago(39 * day))}
		}, [2]bool{true, false}},
		"later range":   {func(w *world) legalhold.Hold { return legalhold.Hold{From: new(w.ago(39 * day))} }, [2]bool{}},
		"earlier range": {func(w *world) legalhold.Hold { return legalhold.Hold{To: new(w.ago(40*day + time.Second))} }, [2]bool{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			calls := [2]uuid.UUID{w.addCall(w.ago(40*day), w.ago(40*day)), w.addCall(w.ago(40*day), w.ago(40*day), "agent_id = gen_random_uuid()")}
			s := w.service(lifetime.Ages{Content: 30 * day, Calls: 35 * day, Events: 35 * day})
			asked := c.hold(w)
			asked.Reason = "case 1"
			hold, err := s.Holds.Set(t.Context(), audit.Person(w.vera), asked)
			check(t, err)
			_, err = s.Run(t.Context())
			check(t, err)
			events := 0
			for i, id := range calls {
				if w.exists(id) != c.kept[i] || w.hasContent(id) != c.kept[i] {
					t.Errorf("call %d: exists: %v, want %v", i, w.exists(id), c.kept[i])
				}
				if c.kept[i] {
					events++
				}
			}
			if n := w.db.Count("audit_events WHERE action = 'call.parked'"); n != events {
				t.Errorf("%d events, want %d", n, events)
			}
			_, err = s.Holds.Lift(t.Context(), audit.Person(w.vera), hold.ID, "it was settled")
			check(t, err)
			_, err = s.Run(t.Context())
			check(t, err)
			if w.exists(calls[0]) || w.exists(calls[1]) || w.db.Count("audit_events WHERE action = 'call.parked'") != 0 {
				t.Error("rows are left after the hold was lifted")
			}
			if got := w.db.Actions(hold.ID); got != "legal_hold.set legal_hold.lifted" {
				t.Errorf("events: %s", got)
			}
		})
	}
}

// A hold that comes into force waits for the batch that is under way, and no later batch deletes what it covers.
func TestHoldWaitsForBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.addCall(w.ago(40*day), w.ago(40*day))
	tx, err := w.db.Pool().BeginTx(t.Context(), pgx.TxOptions{})
	check(t, err)
	_, err = legalhold.Guard(t.Context(), tx)
	check(t, err)
	s := w.service(lifetime.Ages{Content: 30 * day})
	set := make(chan error, 1)
	go func() {
		_, err := s.Holds.Set(t.Context(), audit.System(), legalhold.Hold{AgentID: w.agent, Reason: "case 1"})
		set <- err
	}()
	for w.db.Count("pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 0 {
		select {
		case err := <-set:
			t.Fatalf("did not wait: %v", err)
		default:
		}
	}
	check(t, tx.Rollback(t.Context()))
	check(t, <-set)
	if _, err := s.Run(t.Context()); err != nil || !w.hasContent(id) {
		t.Errorf("a held call lost its content: %v", err)
	}
}

func TestHoldsAreChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := legalhold.Service{Pool: w.db.Pool()}
	for name, h := range map[string]legalhold.Hold{
		"no bounds": {Reason: "x"}, "no reason": {AgentID: w.agent, Reason: " \n"},
		"empty range": {From: &w.now, To: &w.now, Reason: "x"},
	} {
		if _, err := s.Set(t.Context(), audit.System(), h); err == nil {
			t.Errorf("%s: was set", name)
		}
	}
	if _, err := s.Lift(t.Context(), audit.System(), uuid.New(), "x"); err == nil {
		t.Error("lifted an unknown hold")
	}
}

// Grants go with the contents of calls, an age after their end or their revocation.
func TestGrantsByAge(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, g := range []struct {
		ends    time.Duration // ago
		revoked *time.Time
	}{{10 * day, nil}, {2 * day, nil}, {-10 * day, new(w.ago(10 * day))}, {-10 * day, nil}} {
		w.db.Exec(`INSERT INTO grants (id, agent_id, skill_id, tool, pin, arguments, call_id, granted_by, needs_second, ends_at, revoked_at)
			VALUES ($1, $2, $1, 'write', '', '[]', $1, $1, false, $3, $4)`, uuid.New(), w.agent, w.ago(g.ends), g.revoked)
	}
	deleted, err := w.service(lifetime.Ages{Content: 5 * day}).Run(t.Context())
	check(t, err)
	if deleted["grants"] != 2 || w.db.Count("grants") != 2 {
		t.Errorf("deleted %v, %d are left", deleted, w.db.Count("grants"))
	}
}
