package conversations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	entriesPage         = 100 // calls on a page
	conversationRenewal = 5   // seconds, without JavaScript
	toolsShown          = 50  // of a skill
)

// ShowConversation shows a conversation, or only its part that renews itself.
func (h *Handler) ShowConversation(w http.ResponseWriter, r *http.Request) {
	t, err := h.talks.talkOf(r)
	switch {
	case err == nil:
		h.talks.showTalk(w, r, t, http.StatusOK, SayForm{})
	case errors.Is(err, converse.ErrNotFound):
		h.showCallsOf(w, r)
	case errors.Is(err, agent.ErrNotFound):
		h.talks.answerNotFound(w, r)
	default:
		h.Fail(w, r, err)
	}
}

// showCallsOf shows the calls of a conversation that another program holds.
func (h *Handler) showCallsOf(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	found, err := h.reader.readConversation(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	before, err := shell.Cursor(r)
	if err != nil {
		before = uuid.Nil
	}
	state, err := h.reader.conversationState(ctx, found, before)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if shell.PartOnly(r) && r.URL.Query().Get("known") == state {
		w.WriteHeader(http.StatusNoContent) // the page is current
		return
	}
	pulse, err := h.calls.ReadPulse(ctx)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	presented, err := h.reader.presentConversation(ctx, found, before, pulse.Now)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	presented.URL = entriesURL(found.ID, before, state)
	if shell.PartOnly(r) {
		h.Render(w, r, http.StatusOK, ConversationPart(presented))
		return
	}
	page := h.Page(r, view.SectionConversations, text.Literal(view.Printable(presented.Title)), pulse)
	if presented.Poll {
		page.RefreshAfter = conversationRenewal
	}
	h.Render(w, r, http.StatusOK, ConversationPage(page, presented, nil))
}

func (h *reader) readConversation(r *http.Request) (*catalog.Conversation, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	return h.catalog.ReadConversation(r.Context(), id)
}

// entriesURL returns the address of a page of a conversation. known is the state on the screen.
func entriesURL(id, before uuid.UUID, known string) string {
	values := url.Values{}
	if before != uuid.Nil {
		values.Set(shell.PageParameter, before.String())
	}
	if known != "" {
		values.Set("known", known)
	}
	if len(values) == 0 {
		return present.ConversationURL(id)
	}
	return present.ConversationURL(id) + "?" + values.Encode()
}

// conversationState returns a text that changes with the page of a conversation, except for countdowns.
func (h *reader) conversationState(ctx context.Context, c *catalog.Conversation, before uuid.UUID) (string, error) {
	calls, err := h.history.ConversationState(ctx, c.ID, before, entriesPage)
	if err != nil {
		return "", err
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, calls, c.EndedAt != nil, len(c.Problems))
	if c.Catalog != nil {
		fmt.Fprint(sum, c.Catalog.Digest())
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

func (h *reader) presentConversation(ctx context.Context, c *catalog.Conversation, before uuid.UUID, now time.Time) (Conversation, error) {
	found, err := h.history.Search(ctx, history.Filter{Conversation: c.ID, Before: before, Limit: entriesPage})
	if err != nil {
		return Conversation{}, err
	}
	rows, err := h.conversationRows(ctx, []catalog.Conversation{*c})
	if err != nil {
		return Conversation{}, err
	}
	row := rows[0]
	v := Conversation{
		ID: c.ID.String(), Title: row.Title, Name: c.Name, Agent: row.Agent, AgentID: present.ShortID(c.AgentID),
		Principal: row.Principal, PersonID: present.ShortID(c.PrincipalID), Status: conversationBadge(c), Poll: c.EndedAt == nil,
		Counts: row.Counts, Calls: row.Calls, CallsURL: "/calls?conversation=" + c.ID.String(), Facts: conversationFacts(c),
	}
	if v.Entries, err = h.readEntries(ctx, found.Calls, now); err != nil {
		return Conversation{}, err
	}
	for i := range found.Calls {
		v.Poll = v.Poll || !found.Calls[i].Status.Final()
	}
	if found.Next != uuid.Nil {
		v.Pages.Older = entriesURL(c.ID, found.Next, "")
	}
	if before != uuid.Nil {
		v.Pages.Newest = present.ConversationURL(c.ID)
	}
	for _, p := range c.Problems {
		v.Problems = append(v.Problems, SkillProblem(p))
	}
	v.Catalogue, v.Tools = presentCatalogue(c.Catalog)
	return v, nil
}

func conversationBadge(c *catalog.Conversation) view.Badge {
	if c.EndedAt != nil {
		return view.Badge{Word: text.ConversationEnded(), Icon: "good", Level: view.Quiet}
	}
	return view.Badge{Word: text.ConversationOpen(), Icon: "running", Level: view.Info}
}

func conversationFacts(c *catalog.Conversation) []view.Fact {
	facts := []view.Fact{
		{Name: text.ConversationOne(), Text: text.Literal(c.ID.String()), Code: true},
		{Name: text.ConversationAgent(), Text: text.Literal(c.AgentID.String()), Code: true},
	}
	if c.PrincipalID != uuid.Nil {
		facts = append(facts, view.Fact{Name: text.ConversationPrincipal(), Text: text.Literal(c.PrincipalID.String()), Code: true})
	}
	if c.ProtocolVersion != "" {
		facts = append(facts, view.Fact{Name: text.ConversationProtocolVersion(), Text: text.Literal(c.ProtocolVersion)})
	}
	facts = append(facts, view.Fact{Name: text.ConversationStarted(), Time: &c.CreatedAt})
	if c.EndedAt != nil {
		facts = append(facts, view.Fact{Name: text.ConversationEnded(), Time: c.EndedAt})
	}
	return facts
}

// presentCatalogue lists the offered tools by skill. The entries of a catalog are sorted by skill.
func presentCatalogue(c *catalog.Catalog) ([]CatalogueSkill, int) {
	if c == nil {
		return nil, 0
	}
	var list []CatalogueSkill
	for i := range c.Entries {
		e := &c.Entries[i]
		if len(list) == 0 || list[len(list)-1].Skill != e.Skill {
			list = append(list, CatalogueSkill{Skill: e.Skill})
		}
		last := &list[len(list)-1]
		if len(last.Tools) < toolsShown {
			last.Tools = append(last.Tools, e.Name)
		} else {
			last.More++
		}
	}
	return list, len(c.Entries)
}

// readEntries presents calls in the order in which they were made.
func (h *reader) readEntries(ctx context.Context, calls []call.Call, now time.Time) ([]Entry, error) {
	facts, err := h.facts.Read(ctx, calls)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(calls))
	for _, c := range slices.Backward(calls) {
		fields := hostile.Decisive(c.Arguments, present.RowArguments, present.BriefOf(facts.Secrets[c.ID]))
		e := CallEntry{
			ID: c.ID.String(), URL: present.CallURL(c.ID), At: c.CreatedAt, Status: present.StatusBadge(c.Status), Skill: c.Skill, Tool: c.Tool,
			Decisive: fields.List, More: fields.More, Outcome: entryOutcome(&c, facts),
		}
		if a, ok := facts.Approvals[c.ID]; ok {
			e.Decision = present.Decision(a, facts.Names)
			switch {
			case a.Status == approval.Pending:
				left := present.Countdown(a.Deadline, now)
				e.Left = &left
			case a.Status == approval.Expired && c.Status == call.Parked: // the status of the call follows
				e.Status = present.StatusBadge(call.Expired)
			}
		}
		entries = append(entries, Entry{Call: &e})
	}
	return entries, nil
}

// entryOutcome describes the outcome of a call, unless its status and decision say it.
func entryOutcome(c *call.Call, facts shell.CallFacts) text.Message {
	_, gated := facts.Approvals[c.ID]
	switch c.Status {
	case call.Parked, call.Rejected:
		return text.Message{}
	case call.Expired, call.Cancelled:
		if gated && facts.Approvals[c.ID].Status != approval.Approved {
			return text.Message{}
		}
	case call.NeedsConnection:
		return text.CallNeedsConnection()
	default:
	}
	outcome := present.DescribeOutcome(c)
	if c.Resolution != nil {
		outcome = text.Join(" ", outcome, text.CallResolvedAs(present.DescribeResolution(c.Resolution.Outcome)))
	}
	return outcome
}

func (h *reader) conversationRows(ctx context.Context, list []catalog.Conversation) ([]ConversationRow, error) {
	ids, agents, people := make([]uuid.UUID, len(list)), make([]uuid.UUID, len(list)), make([]uuid.UUID, len(list))
	for i := range list {
		ids[i], agents[i], people[i] = list[i].ID, list[i].AgentID, list[i].PrincipalID
	}
	tallies, err := h.history.TallyConversations(ctx, ids)
	if err != nil {
		return nil, err
	}
	agentNames, err := h.agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	names, err := h.Names(ctx, people...)
	if err != nil {
		return nil, err
	}
	talks, err := h.converse.States(ctx, ids)
	if err != nil {
		return nil, err
	}
	titles, err := h.converse.Titles(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]ConversationRow, len(list))
	for i := range list {
		c, tally := &list[i], tallies[list[i].ID]
		rows[i] = ConversationRow{
			ID: present.ShortID(c.ID), URL: present.ConversationURL(c.ID), Agent: agentNames[c.AgentID],
			Title: cmp.Or(titles[c.ID], c.Label(agentNames[c.AgentID], view.FormatTime(ctx, c.CreatedAt).In(ctx))), Name: c.Name,
			Principal: present.PersonName(c.PrincipalID, names), Started: c.CreatedAt, Ended: c.EndedAt != nil,
			Counts: countsOf(tally), Calls: describeTally(tally),
		}
		if tally.Calls > 0 {
			rows[i].Last = &tally.Last
		}
		if t, ok := talks[c.ID]; ok {
			badge := talkBadge(&t)
			rows[i].Talk = &badge
		}
	}
	return rows, nil
}
