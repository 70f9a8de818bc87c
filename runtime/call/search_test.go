package call_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
)

// history returns the history of the world's calls.
func (w *world) history() *history.Service { return history.New(w.calls) }

// findAll searches all pages, and checks that no page is longer than requested.
func (w *world) findAll(f history.Filter) []uuid.UUID {
	w.t.Helper()
	var ids []uuid.UUID
	for {
		page, err := w.history().Search(w.t.Context(), f)
		check(w.t, err)
		if f.Limit > 0 && len(page.Calls) > f.Limit {
			w.t.Fatalf("%d calls on a page of %d", len(page.Calls), f.Limit)
		}
		for _, c := range page.Calls {
			ids = append(ids, c.ID)
		}
		if page.Next == uuid.Nil {
			break
		}
		f.Before = page.Next
	}
	if !slices.IsSortedFunc(ids, func(a, b uuid.UUID) int { return strings.Compare(b.String(), a.String()) }) {
		w.t.Errorf("want newest first: %v", ids)
	}
	return ids
}

// makeCall makes a call and, if it is not gated, waits until it has ended.
func (w *world) makeCall(name, arguments string, change ...func(*call.Submission)) uuid.UUID {
	w.t.Helper()
	sub := w.newSubmission(name, arguments)
	for _, f := range change {
		f(&sub)
	}
	ticket, err := w.calls.Submit(w.t.Context(), sub)
	check(w.t, err)
	if !ticket.Gated {
		w.waitForEnd(ticket.ID)
	}
	return ticket.ID
}

func wantIDs(t *testing.T, what string, got []uuid.UUID, want ...uuid.UUID) {
	t.Helper()
	want = slices.Clone(want)
	slices.SortFunc(want, func(a, b uuid.UUID) int { return strings.Compare(b.String(), a.String()) })
	if !slices.Equal(got, want) {
		t.Errorf("%s: found %v, want %v", what, got, want)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"agents":[{"name":"clerk","skills":[{"skill":"files"},{"skill":"open"}]}]}`)
	clerk, err := w.agents.AgentByName(t.Context(), "clerk")
	check(t, err)
	paula := uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'test', 'paula', 'paula')`, paula)
	conversation, err := w.catalog.StartConversation(t.Context(), clerk, paula, "2025-11-25", nil)
	check(t, err)

	echo := w.makeCall("open__echo", `{"n":1}`)
	write := w.makeCall("files__write", `{"n":2}`)
	approved := w.makeCall("files__write", `{"n":3}`)
	check(t, w.decide(approved, true))
	w.waitForEnd(approved)
	rejected := w.makeCall("files__write", `{"n":4}`)
	check(t, w.decide(rejected, false))
	hers := w.makeCall("files__write", `{"n":5}`, func(s *call.Submission) {
		s.Agent, s.PrincipalID, s.ConversationID = clerk, paula, conversation.ID
	})
	invalid := w.makeCall("files__write", `{"n":"no"}`)
	all := []uuid.UUID{echo, write, approved, rejected, hers, invalid}
	files, err := w.agents.SkillByName(t.Context(), "files")
	check(t, err)

	for name, tt := range map[string]struct {
		filter history.Filter
		want   []uuid.UUID
	}{
		"everything":             {history.Filter{}, all},
		"page by page":           {history.Filter{Limit: 1}, all},
		"scanned page by page":   {history.Filter{Limit: 1, Statuses: call.AllStatuses()}, all},
		"agent":                  {history.Filter{Agents: []uuid.UUID{clerk.ID}}, []uuid.UUID{hers}},
		"agents":                 {history.Filter{Agents: []uuid.UUID{clerk.ID, w.agent.ID}}, all},
		"no agent":               {history.Filter{Agents: []uuid.UUID{}}, nil},
		"skill":                  {history.Filter{Skills: []uuid.UUID{files.ID}}, []uuid.UUID{write, approved, rejected, hers, invalid}},
		"tool":                   {history.Filter{Tool: "echo"}, []uuid.UUID{echo}},
		"tool as the agent says": {history.Filter{Tool: "open__echo"}, []uuid.UUID{echo}},
		"no such tool":           {history.Filter{Tool: "ech_"}, nil},
		"principal":              {history.Filter{People: []uuid.UUID{paula}}, []uuid.UUID{hers}},
		"decider":                {history.Filter{People: []uuid.UUID{w.reviewer}}, []uuid.UUID{approved, rejected}},
		"people":                 {history.Filter{People: []uuid.UUID{w.reviewer, paula}}, []uuid.UUID{approved, rejected, hers}},
		"outcome":                {history.Filter{Statuses: []call.Status{call.Rejected}}, []uuid.UUID{rejected}},
		"outcomes":               {history.Filter{Statuses: []call.Status{call.Rejected, call.Invalid, call.Parked}}, []uuid.UUID{rejected, invalid, hers, write}},
		"conversation":           {history.Filter{Conversation: conversation.ID}, []uuid.UUID{hers}},
		"text":                   {history.Filter{Text: `"n":"`}, []uuid.UUID{invalid}},
		"part of a tool's name":  {history.Filter{Text: "RITE"}, []uuid.UUID{write, approved, rejected, hers, invalid}},
		"decision":               {history.Filter{Decisions: []approval.Status{approval.Approved}}, []uuid.UUID{approved}},
		"decisions":              {history.Filter{Decisions: []approval.Status{approval.Approved, approval.Rejected}}, []uuid.UUID{approved, rejected}},
		"high risk":              {history.Filter{Risks: []agent.Risk{agent.RiskMarked}}, nil},
		"standard risk":          {history.Filter{Risks: []agent.Risk{agent.RiskStandard}, Limit: 2}, all},
		"all at once": {history.Filter{
			Agents: []uuid.UUID{w.agent.ID}, Skills: []uuid.UUID{files.ID}, Tool: "write", People: []uuid.UUID{w.reviewer},
			Statuses: []call.Status{call.Succeeded}, Text: `3`,
		}, []uuid.UUID{approved}},
		"older than":      {history.Filter{Before: approved, Limit: 1}, []uuid.UUID{echo, write}},
		"viewer":          {history.Filter{Viewer: call.Viewer{AgentID: clerk.ID, PrincipalID: paula}}, []uuid.UUID{hers}},
		"viewer, nobody":  {history.Filter{Viewer: call.Viewer{AgentID: clerk.ID}}, nil},
		"viewer, another": {history.Filter{Viewer: call.Viewer{AgentID: w.agent.ID}, Agents: []uuid.UUID{clerk.ID}}, nil},
	} {
		wantIDs(t, name, w.findAll(tt.filter), tt.want...)
	}
}

// Calls that a viewer may not see match no filter, and no cursor reveals them.
func TestSearchTellsViewersNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	paula := uuid.New()
	hers := w.makeCall("files__write", `{"n":5}`, func(s *call.Submission) { s.PrincipalID = paula })
	c, err := w.calls.Get(t.Context(), call.Viewer{}, hers)
	check(t, err)
	w.fillHistory(30_000, `{"n":5}`) // of the same agent for other principals
	w.db.Exec(`UPDATE calls SET principal_id = gen_random_uuid() WHERE id <> $1`, hers)
	for _, viewer := range []call.Viewer{{AgentID: w.agent.ID}, {AgentID: w.agent.ID, PrincipalID: uuid.New()}, {AgentID: uuid.New(), PrincipalID: paula}} {
		for name, f := range map[string]history.Filter{
			"none": {}, "agent": {Agents: []uuid.UUID{w.agent.ID}}, "skill": {Skills: []uuid.UUID{c.SkillID}}, "tool": {Tool: "write"},
			"person": {People: []uuid.UUID{paula}}, "status": {Statuses: []call.Status{call.Parked}}, "conversation": {Conversation: c.ConversationID},
			"text": {Text: "n"}, "time": {From: c.CreatedAt.Add(-time.Hour), To: c.CreatedAt.Add(time.Hour)}, "limit": {Limit: 1, Text: "5"},
		} {
			f.Viewer = viewer
			if page, err := w.history().Search(t.Context(), f); err != nil || len(page.Calls) != 0 || page.Next != uuid.Nil || page.Stopped {
				t.Errorf("%+v, by %s: %d calls, next %s, %v", viewer, name, len(page.Calls), page.Next, err)
			}
		}
	}
}

func TestSearchByTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []uuid.UUID
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for day := range 5 {
		ids = append(ids, w.insertCall(start.AddDate(0, 0, day), "echo", `{}`))
	}
	for name, tt := range map[string]struct {
		from, to string
		want     []uuid.UUID
	}{
		"from a day on":     {"2026-03-04", "", ids[3:]},
		"up to a day":       {"", "2026-03-02", ids[:2]},
		"one day":           {"2026-03-03", "2026-03-03", ids[2:3]},
		"to the second":     {"2026-03-03T12:00:00Z", "2026-03-05T12:00:00Z", ids[2:4]},
		"in another zone":   {"2026-03-03T13:00:00+01:00", "2026-03-03T13:00:01+01:00", ids[2:3]},
		"without a zone":    {"2026-03-03T12:00", "2026-03-03 12:01", ids[2:3]},
		"the wrong way":     {"2026-03-05", "2026-03-02", nil},
		"before everything": {"", "1999-01-01", nil},
		"after everything":  {"9999-01-01", "", nil},
	} {
		f, err := w.history().ParseQuery(t.Context(), history.Query{From: tt.from, To: tt.to}, nil)
		check(t, err)
		wantIDs(t, name, w.findAll(f), tt.want...)
	}
}

func TestSearchText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	documents := map[string]string{
		"plain":     `{"path":"/srv/Shared/100%_sure.csv","who":"O'Brien"}`,
		"raw":       `{"café":"Ünïcode ЖУК 東京 😀"}`,
		"escaped":   `{"caf\u00e9":"\u00dcn\u00EFcode \u0416\u0423\u041a \u6771\u4eac \ud83d\ude00"}`,
		"ascii":     `{"cmd":"\u0072m -\u0072f \/srv\/shared"}`,
		"quotes":    `{"say":"\"hi\"\tC:\\temp\\x\nend"}`,
		"nul":       `{"x":"a\u0000b \u202e"}`,
		"lookalike": `{"k":"\u212a elvin"}`,
	}
	ids := map[string]uuid.UUID{}
	for name, document := range documents {
		ids[name] = w.makeCall("open__echo", document)
	}
	huge := w.makeCall("open__echo", `{"big":"`+strings.Repeat("x", 300_000)+` needle"}`)
	for text, want := range map[string][]string{
		"100%_sure":        {"plain"},
		"100%":             {"plain"},
		"1%0":              nil,
		"100__sure":        nil,
		"%":                {"plain"},
		"O'Brien":          {"plain"},
		"o'brien":          {"plain"},
		"' OR true --":     nil,
		"/srv/shared":      {"plain", "ascii"},
		`\/srv\/shared`:    {"ascii"},
		"café":             {"raw", "escaped"},
		"CAFÉ":             {"raw", "escaped"},
		"caf":              {"raw", "escaped"},
		`\u00e9`:           {"escaped"},
		`\U00E9`:           {"escaped"},
		"é":                {"raw", "escaped"},
		"ünïCODE":          {"raw", "escaped"},
		"жук":              {"raw", "escaped"},
		"東京":               {"raw", "escaped"},
		"😀":                {"raw", "escaped"},
		"rm -rf":           {"ascii"},
		"rm -rf /srv":      {"ascii"},
		`"hi"`:             {"quotes"},
		`\"hi\"`:           {"quotes"},
		`C:\temp`:          {"quotes"},
		`C:\\temp`:         {"quotes"},
		"x\nend":           {"quotes"},
		"\tC:":             {"quotes"},
		`x\nend`:           {"quotes"},
		"\u202e":           {"nul"},
		"a\x01b":           nil,
		"k elvin":          nil, // the Kelvin sign does not match k
		"\u212a elvin":     {"lookalike"},
		`{"path":`:         {"plain"},
		`"cmd":"rm`:        {"ascii"},
		"nothing of these": nil,
	} {
		f, err := w.history().ParseQuery(t.Context(), history.Query{Text: text}, nil)
		check(t, err)
		wanted := make([]uuid.UUID, len(want))
		for i, name := range want {
			wanted[i] = ids[name]
		}
		wantIDs(t, text, w.findAll(f), wanted...)
	}
	wantIDs(t, "in a large one", w.findAll(history.Filter{Text: "NEEDLE"}), huge)
	page, err := w.history().Search(t.Context(), history.Filter{Text: "needle"})
	check(t, err)
	if !page.Calls[0].Partial {
		t.Error("a list contains 300 KB of arguments")
	}
}

// Stored bytes that intake no longer accepts do not break a search.
func TestSearchHostileBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var ids []uuid.UUID
	for _, document := range []string{"{\"x\":\"needle \xff\xfe\"}", "\x00needle", `{"x":"\uD800 needle \u12`, `needle \`, ""} {
		id := w.insertCall(time.Now(), "echo", `{}`)
		w.db.Exec(`UPDATE calls SET arguments = $2 WHERE id = $1`, id, []byte(document))
		ids = append(ids, id)
	}
	wantIDs(t, "needle", w.findAll(history.Filter{Text: "needle"}), ids[:4]...)
	wantIDs(t, "needle and an accent", w.findAll(history.Filter{Text: "needlé"}))
}

// The agent's original arguments also find an edited call.
func TestSearchEditedArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.makeCall("open__echo", `{"to":"everybody"}`)
	w.db.Exec(`UPDATE calls SET submitted = arguments, arguments = '{"to":"nobody"}' WHERE id = $1`, id)
	wantIDs(t, "as sent", w.findAll(history.Filter{Text: "nobody"}), id)
	wantIDs(t, "as given", w.findAll(history.Filter{Text: "Everybody"}), id)
	wantIDs(t, "neither", w.findAll(history.Filter{Text: "somebody"}))
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.insertCall(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), "echo", `{"text":"a needle"}`)
	w.fillHistory(history.MaxTextSearched+10_000, `{"text":"hay"}`)
	page, err := w.history().Search(t.Context(), history.Filter{Text: "needle"})
	check(t, err)
	if len(page.Calls) != 0 || !page.Stopped || page.Next == uuid.Nil {
		t.Fatalf("the first search found %d calls, stopped: %v, next %s", len(page.Calls), page.Stopped, page.Next)
	}
	wantIDs(t, "going on", w.findAll(history.Filter{Text: "needle"}), old)
	wantIDs(t, "narrowed by time", w.findAll(history.Filter{Text: "needle", To: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)}), old)
	page, err = w.history().Search(t.Context(), history.Filter{Text: "hay", Limit: 3})
	check(t, err)
	if len(page.Calls) != 3 || page.Stopped || page.Next != page.Calls[2].ID {
		t.Errorf("a common text: %d calls, stopped: %v", len(page.Calls), page.Stopped)
	}
	wantIDs(t, "without text it looks further", w.findAll(history.Filter{Tool: "echo", To: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)}), old)
}

// A search counts the bytes of large arguments before it reads them.
func TestSearchReadsBoundedBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.insertCall(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), "echo", `{"text":"a needle"}`)
	w.fillHistory(history.MaxTextBytes>>20+80, `{}`)
	w.db.Exec(`UPDATE calls SET arguments = convert_to('{"x":"' || repeat('y', 1024 * 1024) || '"}', 'UTF8') WHERE id <> $1`, old)
	page, err := w.history().Search(t.Context(), history.Filter{Text: "needle"})
	check(t, err)
	if len(page.Calls) != 0 || !page.Stopped {
		t.Errorf("%d calls, stopped: %v", len(page.Calls), page.Stopped)
	}
	wantIDs(t, "going on", w.findAll(history.Filter{Text: "needle"}), old)
}

func TestSearchThatTakesTooLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.makeCall("open__echo", `{}`)
	// A locked table blocks the statement, as long as that takes.
	tx, err := w.db.Pool().Begin(t.Context())
	check(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	check(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE calls IN ACCESS EXCLUSIVE MODE`)
	check(t, err)
	if _, err := w.history().Search(t.Context(), history.Filter{}); !errors.Is(err, history.ErrTooBroad) {
		t.Errorf("a search that waits: %v", err)
	}
}

// paula is the id of the only person.
type paula uuid.UUID

func (p paula) Named(_ context.Context, name string) ([]uuid.UUID, error) {
	if name != "paula" {
		return nil, nil
	}
	return []uuid.UUID{uuid.UUID(p)}, nil
}

func (p paula) NamesContaining(_ context.Context, text string) ([]uuid.UUID, error) {
	const name = "paula"
	if !strings.Contains(name, strings.ToLower(text)) {
		return nil, nil
	}
	return []uuid.UUID{uuid.UUID(p)}, nil
}

func TestParseQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	person := uuid.New()
	people := paula(person)
	_, err := w.agents.Apply(t.Context(), audit.System(), agent.Spec{Agents: []agent.AgentSpec{{Name: "gone"}}}, false)
	check(t, err)
	gone, err := w.agents.AgentByName(t.Context(), "gone")
	check(t, err)
	check(t, w.agents.DeleteAgent(t.Context(), audit.System(), gone.ID))
	f, err := w.history().ParseQuery(t.Context(), history.Query{Agent: "gone", Person: "paula", Statuses: []string{"parked", "denied"}}, people)
	check(t, err)
	if !slices.Equal(f.Agents, []uuid.UUID{gone.ID}) || !slices.Equal(f.People, []uuid.UUID{person}) || len(f.Statuses) != 2 {
		t.Errorf("got %+v", f)
	}
	if f, err = w.history().ParseQuery(t.Context(), history.Query{Agent: w.agent.ID.String()}, people); err != nil || !slices.Equal(f.Agents, []uuid.UUID{w.agent.ID}) {
		t.Errorf("an agent by its id: %+v, %v", f, err)
	}
	for name, tt := range map[string]struct {
		query  history.Query
		fields string
	}{
		"agent":        {history.Query{Agent: "nobody"}, "agent"},
		"odd agent":    {history.Query{Agent: "no\x00body"}, "agent"},
		"skill":        {history.Query{Skill: "nothing"}, "skill"},
		"person":       {history.Query{Person: "nobody"}, "person"},
		"status":       {history.Query{Statuses: []string{"parked", "lost"}}, "status"},
		"times":        {history.Query{From: "yesterday", To: "2026-02-30"}, "from to"},
		"conversation": {history.Query{Conversation: "x"}, "conversation"},
		"decision":     {history.Query{Decisions: []string{"pending"}}, "decision"},
		"risk":         {history.Query{Risks: []string{"low"}}, "risk"},
		"no text":      {history.Query{Text: "\xff", Tool: "a\x00"}, "tool text"},
		"long text":    {history.Query{Text: strings.Repeat("é", 201)}, "text"},
	} {
		_, err := w.history().ParseQuery(t.Context(), tt.query, people)
		var wrong *fault.InvalidError
		if !errors.As(err, &wrong) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		fields := make([]string, len(wrong.Fields))
		for i, field := range wrong.Fields {
			fields[i] = field.Name
		}
		if got := strings.Join(fields, " "); got != tt.fields {
			t.Errorf("%s: error %s", name, got)
		}
	}
	if f, err := w.history().ParseQuery(t.Context(), history.Query{Skill: "nothing"}, nil); err != nil || len(w.findAll(f)) != 0 || f.Skills == nil {
		t.Errorf("an unknown skill: %v, want no error and no calls", err)
	}
	if _, err := w.history().ParseQuery(t.Context(), history.Query{Person: "paula"}, nil); err == nil {
		t.Error("a search by a member's name succeeds, want an error")
	}
}

// A text finds the names of a call's tool, skill, agent and people, if the reader may know them.
func TestSearchByNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.registry.ApplyJSON(`{"agents":[{"name":"clerk","skills":[{"skill":"files"},{"skill":"open"}]}]}`)
	clerk, err := w.agents.AgentByName(t.Context(), "clerk")
	check(t, err)
	person := uuid.New()
	w.db.Exec(`INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'test', 'paula', 'paula')`, person)
	echo := w.makeCall("open__echo", `{"n":1}`)
	hers := w.makeCall("files__write", `{"n":2}`, func(s *call.Submission) { s.Agent, s.PrincipalID = clerk, person })
	write := w.makeCall("files__write", `{"n":3}`)
	w.db.Exec(`UPDATE approvals SET decided_by = $1, status = 'approved', decided_at = now() WHERE call_id = $2`, person, write)
	for text, want := range map[string][]uuid.UUID{
		"Paul": {hers, write}, "CLER": {hers}, "ope": {echo}, "file": {hers, write}, "ech": {echo}, `"n":3`: {write}, "nothing": nil,
	} {
		f, err := w.history().ParseQuery(t.Context(), history.Query{Text: text}, paula(person))
		check(t, err)
		wantIDs(t, text, w.findAll(f), want...)
	}
	f, err := w.history().ParseQuery(t.Context(), history.Query{Text: "paul"}, nil)
	check(t, err)
	wantIDs(t, "a person's name, for agents", w.findAll(f))
}

// A text does not find values that readers do not see, and a risk is that of the tool's settings.
func TestSearchByToolFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.source.Offer(writeTool, `{"name":"echo","inputSchema":{"type":"object","properties":{"password":{}}}}`)
	seen, hidden := w.makeCall("open__echo", `{"note":"hunter2"}`), w.makeCall("open__echo", `{"password":"hunter2"}`)
	wantIDs(t, "all", w.findAll(history.Filter{Text: "hunter"}), seen, hidden)
	wantIDs(t, "what readers see", w.findAll(history.Filter{Text: "hunter", HideSecrets: true}), seen)
	wantIDs(t, "the name of a hidden value", w.findAll(history.Filter{Text: "passw", HideSecrets: true}), hidden)
	write := w.makeCall("files__write", `{"n":1}`)
	w.secondReviewers("", map[string]agent.ToolSettings{"write": {Risk: agent.RiskHigh}})
	wantIDs(t, "high risk", w.findAll(history.Filter{Risks: []agent.Risk{agent.RiskMarked}, Limit: 1}), write)
	wantIDs(t, "other risks", w.findAll(history.Filter{Risks: []agent.Risk{agent.RiskDestructive, agent.RiskStandard}, Limit: 1}), seen, hidden)
}

// insertCall stores a finished call with this time.
func (w *world) insertCall(at time.Time, tool, arguments string) uuid.UUID {
	w.t.Helper()
	var id uuid.UUID
	check(w.t, w.db.Pool().QueryRow(w.t.Context(), `INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, finished_at, gated, status,
			tool, exposed_name, pin, arguments, result)
		SELECT (lpad(to_hex((extract(epoch FROM $1::timestamptz) * 1000)::bigint), 12, '0') || '7000' || '8' || substr(md5(random()::text), 1, 15))::uuid,
			$2, id, 1, $1, $1, false, 'succeeded', $3, 'open__' || $3, sha256(''), $4, '{"content":[]}' FROM skills WHERE name = 'open'
		RETURNING id`, at, w.agent.ID, tool, []byte(arguments)).Scan(&id))
	return id
}

// fillHistory stores many calls of the year 2025.
func (w *world) fillHistory(n int, arguments string) {
	w.t.Helper()
	w.db.Exec(`INSERT INTO calls (id, agent_id, skill_id, skill_revision, created_at, gated, status, tool, exposed_name, pin, arguments, result)
		SELECT (lpad(to_hex(1735700000000 + n), 12, '0') || '7000' || '8000' || lpad(to_hex(n), 12, '0'))::uuid, $2, skills.id, 1,
			to_timestamp(1735700000 + n / 1000.0), false, 'succeeded', 'write', 'open__write', sha256(''), $3, '{"content":[]}'
		FROM skills, generate_series(1, $1::bigint) AS n WHERE skills.name = 'open'`, n, w.agent.ID, []byte(arguments))
	w.db.Exec(`ANALYZE calls`)
}
