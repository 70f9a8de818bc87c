package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/eventually"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/tool"
)

// two declares two skills and an agent that has both.
const two = `{"skills":[{"name":"files","transport":"http","url":"http://h/f"},{"name":"mail","transport":"http","url":"http://h/m"}],
	"agents":[{"name":"billing","skills":[{"skill":"files"},{"skill":"mail"}]}]}`

func twoSkills(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.source.tools["files"] = []string{"write", "read"}
	w.source.tools["mail"] = []string{"send"}
	w.registry.ApplyJSON(two)
	return w
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	c, got := w.startConversation("billing")
	if want := []string{"files__read", "files__write", "mail__send"}; !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
	entry, ok := c.Catalog.Lookup("mail__send")
	if !ok || entry.Skill != "mail" || entry.Tool.Name != "send" || entry.SkillRevision != 1 || entry.Tool.Pin().IsZero() {
		t.Errorf("entry %+v", entry)
	}
	if len(c.Problems) != 0 {
		t.Errorf("problems %v", c.Problems)
	}
	again, _ := w.startConversation("billing")
	if again.Catalog != c.Catalog || w.db.Count("catalogues") != 1 {
		t.Error("equal catalogs are not shared")
	}
	if n := w.source.lists.Load(); n != 2 {
		t.Errorf("the servers were asked %d times", n)
	}
	other := w.start(0)
	same, err := other.Conversation(t.Context(), c.AgentID, uuid.Nil, c.ID)
	if err != nil || same.Catalog.Digest() != c.Catalog.Digest() || !slices.Equal(toolNames(same), got) {
		t.Errorf("in another process: %+v, %v", same, err)
	}
	if n := w.source.lists.Load(); n != 2 {
		t.Errorf("another process asked the servers: %d", n)
	}
}

func TestBrokenSkillIsAProblemOfItsOwn(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	w.source.broken["files"] = &tool.Failure{Kind: tool.ProtocolFailure, Message: "answered HTML \x00 <b>"}
	c, got := w.startConversation("billing")
	if !slices.Equal(got, []string{"mail__send"}) {
		t.Errorf("tools %v", got)
	}
	if len(c.Problems) != 1 || c.Problems[0].Skill != "files" || c.Problems[0].Kind != "protocol" ||
		!strings.Contains(c.Problems[0].Error, "HTML") {
		t.Errorf("problems %+v", c.Problems)
	}
	list, _, err := w.Conversations(t.Context(), catalog.ConversationFilter{AgentID: c.AgentID}, 0)
	if err != nil || len(list) != 1 || len(list[0].Problems) != 1 {
		t.Errorf("stored: %+v, %v", list, err)
	}
	w.startConversation("billing")
	if n := w.source.lists.Load(); n != 2 {
		t.Errorf("a broken server is asked again at once: %d", n)
	}
}

func TestSlowSkillDelaysWithinBounds(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	w.source.hanging["files"] = true
	p := w.start(2 * time.Second) // mail is known and needs none of it
	mail, err := p.agents.SkillByName(t.Context(), "mail")
	check(t, err)
	_, server, err := p.agents.Skill(t.Context(), mail.ID)
	check(t, err)
	_, err = p.discovery.List(t.Context(), server, false) // known, so that only files is slow
	check(t, err)
	c, err := p.StartConversation(t.Context(), w.registry.Agent("billing"), uuid.Nil, "", nil)
	check(t, err)
	if !slices.Equal(toolNames(c), []string{"mail__send"}) || len(c.Problems) != 1 || c.Problems[0].Kind != "transport" {
		t.Errorf("tools %v, problems %+v", toolNames(c), c.Problems)
	}
}

// A server that hangs delays one conversation. Later ones have the accepted definitions at once, until it answers.
func TestHangingSkillDelaysOneConversation(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	_, all := w.startConversation("billing")
	p := w.start(3 * time.Second)
	w.source.set(func() { w.source.hanging["files"] = true })
	start := func() *catalog.Conversation {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c, err := p.StartConversation(ctx, w.registry.Agent("billing"), uuid.Nil, "", nil)
		check(t, err)
		return c
	}
	first := start()
	if !slices.Equal(toolNames(first), all) || len(first.Problems) != 1 || first.Problems[0].Kind != "transport" {
		t.Fatalf("while the server hangs: tools %v, want %v; problems %+v", toolNames(first), all, first.Problems)
	}
	asked := w.source.lists.Load()
	p.SetListTimeout(time.Hour) // the next ones would hang if they waited
	for range 3 {
		if c := start(); !slices.Equal(toolNames(c), all) || len(c.Problems) != 1 {
			t.Fatalf("tools %v, problems %+v", toolNames(c), c.Problems)
		}
	}
	if n := w.source.lists.Load(); n != asked {
		t.Errorf("the server was asked %d more times while it had a request", n-asked)
	}
	w.source.set(func() { delete(w.source.hanging, "files") })
	files, err := p.agents.SkillByName(t.Context(), "files")
	check(t, err)
	p.discovery.ListChanged(files.ID)                                 // else the request that hangs is waited for
	eventually.Succeeds(t, 2*time.Minute, "the skill", func() error { // a conversation starts the listing
		if c := start(); len(c.Problems) != 0 {
			return fmt.Errorf("problems %+v", c.Problems)
		}
		return nil
	})
}

// A listing from before the server hung does not make conversations wait for the server again.
func TestHangingUncachedSkillDelaysOneConversation(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	w.source.uncached = true
	w.startConversation("billing") // accepts the definitions
	p := w.start(3 * time.Second)
	start := func() *catalog.Conversation {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // shorter than the listing that hangs
		defer cancel()
		c, err := p.StartConversation(ctx, w.registry.Agent("billing"), uuid.Nil, "", nil)
		check(t, err)
		return c
	}
	all := toolNames(start())
	w.source.set(func() { w.source.hanging["files"] = true })
	if first := start(); !slices.Equal(toolNames(first), all) || len(first.Problems) != 1 {
		t.Fatalf("while the server hangs: tools %v, problems %+v", toolNames(first), first.Problems)
	}
	p.SetListTimeout(time.Hour) // the next ones would hang if they waited
	for range 3 {
		if c := start(); !slices.Equal(toolNames(c), all) {
			t.Fatalf("tools %v, problems %+v", toolNames(c), c.Problems)
		}
	}
}

// A skill that could not be listed joins the conversation once it recovers.
func TestRecoveredSkillComesBack(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	w.source.broken["files"] = errors.New("refused")
	c, _ := w.startConversation("billing")
	w.source.set(func() { delete(w.source.broken, "files") })
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		w.clock.Forward(11 * time.Second) // until the failure is forgotten
		c, err := w.Conversation(t.Context(), c.AgentID, uuid.Nil, c.ID)
		check(t, err)
		if len(c.Catalog.Entries) == 3 && len(c.Problems) == 0 {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("tools %v, problems %+v", toolNames(c), c.Problems)
		default:
		}
	}
}

func TestAssignmentsShapeTheCatalog(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		skills   string // of the agent
		tools    []string
		problems []string
	}{
		"all":       {`[{"skill":"files"},{"skill":"mail"}]`, []string{"files__read", "files__write", "mail__send"}, nil},
		"none":      {`[]`, []string{}, nil},
		"only":      {`[{"skill":"files","tools":["read"]}]`, []string{"files__read"}, nil},
		"missing":   {`[{"skill":"files","tools":["read","rm"]}]`, []string{"files__read"}, []string{"files tool_missing"}},
		"prefix":    {`[{"skill":"files","prefix":"f"}]`, []string{"f__read", "f__write"}, nil},
		"no prefix": {`[{"skill":"files","prefix":""}]`, []string{"read", "write"}, nil},
		"same prefix": {
			`[{"skill":"files","prefix":"x"},{"skill":"twin","prefix":"x"}]`,
			[]string{"x__write", "x__other"},
			[]string{"files collision", "twin collision"},
		},
		"unprefixed twins": {
			`[{"skill":"files","prefix":""},{"skill":"twin","prefix":""}]`,
			[]string{"write", "other"},
			[]string{"files collision", "twin collision"},
		},
		"impostor": {
			`[{"skill":"files"},{"skill":"impostor","prefix":""}]`,
			[]string{"files__read", "files__write"},
			[]string{"impostor collision", "impostor collision"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := twoSkills(t)
			w.source.tools["twin"] = []string{"read", "other"}
			w.source.tools["impostor"] = []string{"files__read", "holdpoint_await"}
			w.registry.ApplyJSON(`{"skills":[{"name":"twin","transport":"http","url":"http://h/t"},
				{"name":"impostor","transport":"http","url":"http://h/i"}],
				"agents":[{"name":"billing","skills":` + tc.skills + `}]}`)
			c, got := w.startConversation("billing")
			if !slices.Equal(got, tc.tools) {
				t.Errorf("tools %v, want %v", got, tc.tools)
			}
			var problems []string
			for _, p := range c.Problems {
				problems = append(problems, p.Skill+" "+p.Kind)
			}
			if !slices.Equal(problems, tc.problems) {
				t.Errorf("problems %v, want %v", c.Problems, tc.problems)
			}
		})
	}
}

func TestOperatorsActRebuildsTheCatalog(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	c, _ := w.startConversation("billing")
	look := func() *catalog.Conversation {
		t.Helper()
		now, err := w.Conversation(t.Context(), c.AgentID, uuid.Nil, c.ID)
		check(t, err)
		return now
	}
	if look().Catalog != c.Catalog {
		t.Error("nothing happened, and the catalog is another")
	}
	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/f","tools":{"write":{"enabled":false}}}]}`)
	if got := toolNames(look()); !slices.Equal(got, []string{"files__read", "mail__send"}) {
		t.Errorf("a tool was switched off: %v", got)
	}
	w.registry.ApplyJSON(`{"agents":[{"name":"billing","skills":[{"skill":"mail"}]}]}`)
	if got := toolNames(look()); !slices.Equal(got, []string{"mail__send"}) {
		t.Errorf("a skill was taken away: %v", got)
	}
	// A change of the server's tools does not affect a running conversation.
	w.source.set(func() { w.source.tools["mail"] = []string{"send", "purge"} })
	mail, err := w.agents.SkillByName(t.Context(), "mail")
	check(t, err)
	w.discovery.ListChanged(mail.ID)
	_, got := w.startConversation("billing")
	if !slices.Equal(got, []string{"mail__purge", "mail__send"}) {
		t.Errorf("a new conversation: %v", got)
	}
	if got := toolNames(look()); !slices.Equal(got, []string{"mail__send"}) {
		t.Errorf("the running one: %v", got)
	}
	entry, err := w.discovery.Status(t.Context(), mail.ID, "purge")
	check(t, err)
	check(t, w.agents.AcceptTool(t.Context(), audit.System(), mail.ID, "purge", entry.Current))
	if got := toolNames(look()); !slices.Equal(got, []string{"mail__purge", "mail__send"}) {
		t.Errorf("after the operator accepted: %v", got)
	}
	check(t, w.agents.RefuseTool(t.Context(), audit.System(), mail.ID, "purge", entry.Current))
	if got := toolNames(look()); !slices.Equal(got, []string{"mail__send"}) {
		t.Errorf("after the operator refused: %v", got)
	}
	if _, got := w.startConversation("billing"); !slices.Equal(got, []string{"mail__send"}) {
		t.Errorf("a new conversation after that: %v", got)
	}
	if n := w.db.Count(`audit_events WHERE action = 'conversation.relisted'`); n != 4 {
		t.Errorf("%d events", n)
	}
}

func TestChangesReachOtherProcesses(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	c, _ := w.startConversation("billing")
	there := w.start(0)
	dropped := there.registry.Listen()
	look := func() []string {
		t.Helper()
		seen, err := there.Conversation(t.Context(), c.AgentID, uuid.Nil, c.ID)
		check(t, err)
		return toolNames(seen)
	}
	if got := look(); len(got) != 3 {
		t.Fatalf("tools %v", got)
	}
	w.registry.ApplyJSON(`{"skills":[{"name":"files","transport":"http","url":"http://h/f","tools":{"write":{"enabled":false}}}]}`)
	<-dropped
	if got := look(); !slices.Equal(got, []string{"files__read", "mail__send"}) {
		t.Errorf("tools %v", got)
	}
}

func TestDeletedAgentsConversationsEnd(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	c, _ := w.startConversation("billing")
	w.registry.ApplyJSON(`{"agents":[{"name":"other"}]}`)
	other, _ := w.startConversation("other")
	check(t, w.agents.DeleteAgent(t.Context(), audit.System(), c.AgentID))
	if _, err := w.Conversation(t.Context(), c.AgentID, uuid.Nil, c.ID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("error %v", err)
	}
	ended, err := w.ReadConversation(t.Context(), c.ID)
	if err != nil || ended.EndedAt == nil || !slices.Equal(toolNames(ended), toolNames(c)) {
		t.Errorf("%+v, %v", ended, err)
	}
	if open, err := w.ReadConversation(t.Context(), other.ID); err != nil || open.EndedAt != nil {
		t.Errorf("another agent's: %+v, %v", open, err)
	}
}

// insertPerson inserts a person and returns the id.
func (w *world) insertPerson(name string) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	_, err := w.db.Pool().Exec(w.t.Context(), `INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'x', $2, $2)`, id, name)
	check(w.t, err)
	return id
}

func TestConversationsAreOnesOwn(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	ctx := t.Context()
	w.registry.ApplyJSON(`{"agents":[{"name":"other","skills":[{"skill":"files"}]}]}`)
	vera, otto := w.insertPerson("Vera"), w.insertPerson("Otto")
	billing, other := w.registry.Agent("billing"), w.registry.Agent("other")
	c, err := w.StartConversation(ctx, billing, vera, "2025-11-25", nil)
	check(t, err)
	for name, who := range map[string][2]uuid.UUID{
		"no principal": {billing.ID, uuid.Nil}, "another principal": {billing.ID, otto},
		"another agent": {other.ID, vera}, "nobody": {uuid.Nil, uuid.Nil},
	} {
		if _, err := w.Conversation(ctx, who[0], who[1], c.ID); !errors.Is(err, agent.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
		if err := w.EndConversation(ctx, who[0], who[1], c.ID); !errors.Is(err, agent.ErrNotFound) {
			t.Errorf("%s ends it: %v", name, err)
		}
	}
	found, err := w.Conversation(ctx, billing.ID, vera, c.ID)
	if err != nil || found.PrincipalID != vera || found.ProtocolVersion != "2025-11-25" {
		t.Errorf("%+v, %v", found, err)
	}
	check(t, w.EndConversation(ctx, billing.ID, vera, c.ID))
	if _, err := w.Conversation(ctx, billing.ID, vera, c.ID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("ended: %v", err)
	}
	events, err := audit.List(ctx, w.db.Pool(), audit.Filter{Subject: c.ID})
	if err != nil || len(events) != 2 || events[0].Action != "conversation.ended" || events[1].Actor != audit.Person(vera) {
		t.Errorf("audit %+v, %v", events, err)
	}
}

func TestNamedConversation(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	ctx := t.Context()
	billing, vera := w.registry.Agent("billing"), w.insertPerson("Vera")
	named := func(p process, principal uuid.UUID, name string) uuid.UUID {
		t.Helper()
		c, err := p.NamedConversation(ctx, billing, principal, name, "2026-07-28", []byte(`{"name":"x"}`))
		if err != nil {
			t.Error(err)
			return uuid.Nil
		}
		return c.ID
	}
	processes := []process{w.process, w.start(0), w.start(0)}
	ids := make([]uuid.UUID, 12)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { ids[i] = named(processes[i%len(processes)], uuid.Nil, "day:2026-11-20") })
	}
	all.Wait()
	if len(slices.Compact(ids)) != 1 || w.db.Count("conversations") != 1 {
		t.Errorf("conversations %v", ids)
	}
	if n := w.db.Count(`audit_events WHERE action = 'conversation.started'`); n != 1 {
		t.Errorf("%d events", n)
	}
	if named(w.process, vera, "day:2026-11-20") == ids[0] {
		t.Error("another principal has the same conversation")
	}
	if named(w.process, uuid.Nil, "day:2026-11-21") == ids[0] {
		t.Error("the next day has the same conversation")
	}
	check(t, w.EndConversation(ctx, billing.ID, uuid.Nil, ids[0]))
	if named(w.process, uuid.Nil, "day:2026-11-20") == ids[0] {
		t.Error("an ended conversation was given out")
	}
	for _, bad := range []string{"", "a\x00", strings.Repeat("x", 1000)} {
		var invalid *fault.InvalidError
		if _, err := w.NamedConversation(ctx, billing, uuid.Nil, bad, "", nil); !errors.As(err, &invalid) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

func TestHostileClientInfo(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	for _, client := range []string{`{"name":"\u0000"}`, `{`, `"` + strings.Repeat("x", 10_000) + `"`, "{\"a\":\"\xff\"}", ``} {
		_, err := w.StartConversation(t.Context(), w.registry.Agent("billing"), uuid.Nil, "\x00\xff", []byte(client))
		if err != nil {
			t.Errorf("%.20q: %v", client, err)
		}
	}
}

func TestConversationsOfMany(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	var ids []uuid.UUID
	for range 3 {
		c, _ := w.startConversation("billing")
		ids = append(ids, c.ID)
	}
	first, next, err := w.Conversations(t.Context(), catalog.ConversationFilter{AgentID: w.registry.Agent("billing").ID}, 2)
	if err != nil || len(first) != 2 || first[0].ID != ids[2] || next != ids[1] {
		t.Errorf("%v, %v, %v", first, next, err)
	}
	rest, end, err := w.Conversations(t.Context(), catalog.ConversationFilter{Before: next}, 2)
	if err != nil || len(rest) != 1 || rest[0].ID != ids[0] || end != uuid.Nil {
		t.Errorf("%v, %v, %v", rest, end, err)
	}
}

func TestConversationsOfOnePrincipal(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	a := w.registry.Agent("billing")
	ana := uuid.New()
	_, err := w.db.Pool().Exec(t.Context(), `INSERT INTO people (id, issuer, subject, name) VALUES ($1, 'holdpoint', 'ana', 'ana')`, ana)
	check(t, err)
	own := map[uuid.UUID][]uuid.UUID{}
	for _, principal := range []uuid.UUID{ana, uuid.Nil, ana, uuid.Nil, uuid.Nil} {
		c, err := w.StartConversation(t.Context(), a, principal, "", nil)
		check(t, err)
		own[principal] = append(own[principal], c.ID)
	}
	for principal, want := range own {
		filter := catalog.ConversationFilter{AgentID: a.ID, Principal: &principal}
		var got []uuid.UUID
		for i := len(want); i > 0; i-- {
			page, next, err := w.Conversations(t.Context(), filter, 1)
			check(t, err)
			if len(page) != 1 || (next != uuid.Nil) != (i > 1) || (next != uuid.Nil && next != page[0].ID) {
				t.Fatalf("%d conversations, next %s", len(page), next)
			}
			got, filter.Before = append(got, page[0].ID), next
		}
		if slices.Reverse(got); !slices.Equal(got, want) {
			t.Errorf("principal %s: %v, want %v", principal, got, want)
		}
	}
}

// A catalog that no conversation had was deleted by age while this process still has it in memory: it is stored again.
func TestDeletedCatalogIsStoredAgain(t *testing.T) {
	t.Parallel()
	w := twoSkills(t)
	_, tools := w.startConversation("billing")
	w.db.Exec(`DELETE FROM conversations`)
	w.db.Exec(`DELETE FROM catalogues`)
	if _, again := w.startConversation("billing"); !slices.Equal(again, tools) || w.db.Count("catalogues") != 1 {
		t.Errorf("tools %v, %d catalogs", again, w.db.Count("catalogues"))
	}
}
