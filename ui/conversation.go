package ui

import (
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
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	entriesPage         = 100 // calls at a time
	conversationRenewal = 5   // seconds, without JavaScript
	toolsShown          = 50  // of a skill
)

// showConversation shows one conversation, or, of what is on the screen, what changed.
func (u *UI) showConversation(w http.ResponseWriter, r *http.Request) {
	t, err := u.talkOf(r)
	switch {
	case err == nil:
		u.showTalk(w, r, t, http.StatusOK, view.SayForm{})
	case errors.Is(err, converse.ErrNotFound):
		u.showCallsOf(w, r)
	case errors.Is(err, agent.ErrNotFound):
		u.noConversation(w, r)
	default:
		u.fail(w, r, err)
	}
}

// showCallsOf shows the calls of a conversation, of which nobody here hears anything else.
func (u *UI) showCallsOf(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	found, err := u.conversation(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	before, err := cursor(r)
	if err != nil {
		before = uuid.Nil
	}
	state, err := u.conversationState(ctx, found, before)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) && r.URL.Query().Get("known") == state {
		w.WriteHeader(http.StatusNoContent) // it is on the screen
		return
	}
	pulse, err := u.cfg.Calls.Pulse(ctx)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	presented, err := u.presentConversation(ctx, found, before, pulse.Now)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	presented.URL = entriesURL(found.ID, before, state)
	if partOnly(r) {
		u.render(w, r, http.StatusOK, view.ConversationPart(presented))
		return
	}
	page := u.page(r, view.SectionConversations, "Conversation of "+presented.Agent, pulse)
	if presented.Poll {
		page.RefreshAfter = conversationRenewal
	}
	u.render(w, r, http.StatusOK, view.ConversationPage(page, presented, nil))
}

func (u *UI) conversation(r *http.Request) (*catalog.Conversation, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return nil, agent.ErrNotFound
	}
	return u.cfg.Catalog.ReadConversation(r.Context(), id)
}

// entriesURL is the address of a page of a conversation, and what is known of it.
func entriesURL(id, before uuid.UUID, known string) string {
	values := url.Values{}
	if before != uuid.Nil {
		values.Set(pageParameter, before.String())
	}
	if known != "" {
		values.Set("known", known)
	}
	if len(values) == 0 {
		return conversationURL(id)
	}
	return conversationURL(id) + "?" + values.Encode()
}

// conversationState differs when what is shown of a conversation does, but for countdowns.
func (u *UI) conversationState(ctx context.Context, c *catalog.Conversation, before uuid.UUID) (string, error) {
	calls, err := u.cfg.Calls.ConversationState(ctx, c.ID, before, entriesPage)
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

func (u *UI) presentConversation(ctx context.Context, c *catalog.Conversation, before uuid.UUID, now time.Time) (view.Conversation, error) {
	found, err := u.cfg.Calls.Search(ctx, call.Filter{Conversation: c.ID, Before: before, Limit: entriesPage})
	if err != nil {
		return view.Conversation{}, err
	}
	rows, err := u.conversationRows(ctx, []catalog.Conversation{*c})
	if err != nil {
		return view.Conversation{}, err
	}
	row := rows[0]
	v := view.Conversation{
		ID: c.ID.String(), Name: c.Name, Agent: row.Agent, AgentID: shortID(c.AgentID),
		Principal: row.Principal, PersonID: shortID(c.PrincipalID), Status: conversationBadge(c), Poll: c.EndedAt == nil,
		Counts: row.Counts, Calls: row.Calls, CallsURL: "/calls?conversation=" + c.ID.String(), Facts: conversationFacts(c),
	}
	if v.Entries, err = u.entries(ctx, found.Calls, now); err != nil {
		return view.Conversation{}, err
	}
	for i := range found.Calls {
		v.Poll = v.Poll || !found.Calls[i].Status.Final()
	}
	if found.Next != uuid.Nil {
		v.Pages.Older = entriesURL(c.ID, found.Next, "")
	}
	if before != uuid.Nil {
		v.Pages.Newest = conversationURL(c.ID)
	}
	for _, p := range c.Problems {
		v.Problems = append(v.Problems, view.SkillProblem(p))
	}
	v.Catalogue, v.Tools = presentCatalogue(c.Catalog)
	return v, nil
}

func conversationBadge(c *catalog.Conversation) view.Badge {
	if c.EndedAt != nil {
		return view.Badge{Word: "Ended", Icon: "good", Level: view.Quiet}
	}
	return view.Badge{Word: "Open", Icon: "running", Level: view.Info}
}

func conversationFacts(c *catalog.Conversation) []view.Fact {
	facts := []view.Fact{
		{Name: "Conversation", Text: c.ID.String(), Code: true},
		{Name: "Agent", Text: c.AgentID.String(), Code: true},
	}
	if c.PrincipalID != uuid.Nil {
		facts = append(facts, view.Fact{Name: "On behalf of", Text: c.PrincipalID.String(), Code: true})
	}
	if c.ProtocolVersion != "" {
		facts = append(facts, view.Fact{Name: "MCP version", Text: c.ProtocolVersion})
	}
	facts = append(facts, view.Fact{Name: "Started", Time: &c.CreatedAt})
	if c.EndedAt != nil {
		facts = append(facts, view.Fact{Name: "Ended", Time: c.EndedAt})
	}
	return facts
}

// presentCatalogue lists what was offered, skill by skill; entries come sorted by skill.
func presentCatalogue(c *catalog.Catalog) ([]view.CatalogueSkill, int) {
	if c == nil {
		return nil, 0
	}
	var list []view.CatalogueSkill
	for i := range c.Entries {
		e := &c.Entries[i]
		if len(list) == 0 || list[len(list)-1].Skill != e.Skill {
			list = append(list, view.CatalogueSkill{Skill: e.Skill})
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

// entries are calls in the order in which they were made.
func (u *UI) entries(ctx context.Context, calls []call.Call, now time.Time) ([]view.Entry, error) {
	facts, err := u.callFacts(ctx, calls)
	if err != nil {
		return nil, err
	}
	entries := make([]view.Entry, 0, len(calls))
	for _, c := range slices.Backward(calls) {
		fields := hostile.Decisive(c.Arguments, rowArguments, briefOf(facts.definitions[c.Pin]))
		e := view.CallEntry{
			ID: c.ID.String(), URL: callURL(c.ID), At: c.CreatedAt, Status: statusBadge(c.Status), Skill: c.Skill, Tool: c.Tool,
			Decisive: fields.List, More: fields.More, Outcome: entryOutcome(&c, facts),
		}
		if a, ok := facts.approvals[c.ID]; ok {
			e.Decision = presentDecision(a, facts.names)
			switch {
			case a.Status == approval.Pending:
				left := countdown(a.Deadline, now)
				e.Left = &left
			case a.Status == approval.Expired && c.Status == call.Parked: // and not yet written
				e.Status = statusBadge(call.Expired)
			}
		}
		entries = append(entries, view.Entry{Call: &e})
	}
	return entries, nil
}

// entryOutcome says in short what became of a call, beyond its status and its decision.
func entryOutcome(c *call.Call, facts callFacts) string {
	_, gated := facts.approvals[c.ID]
	switch c.Status {
	case call.Parked, call.Rejected:
		return ""
	case call.Expired, call.Cancelled:
		if gated && facts.approvals[c.ID].Status != approval.Approved {
			return ""
		}
	case call.NeedsConnection:
		return "It waits until somebody connects its skill."
	default:
	}
	words := outcomeWords(c)
	if c.Resolution != nil {
		words += " An operator found out: " + resolutionWords(c.Resolution.Outcome) + "."
	}
	return words
}
