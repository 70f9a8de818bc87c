package ui

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

const conversationsPage = 50

func conversationURL(id uuid.UUID) string { return "/conversations/" + id.String() }

// showConversations lists those with calls under way, then all, newest first.
func (u *UI) showConversations(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c, err := u.conversationCriteria(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	filter, err := u.conversationFilter(r, c)
	if err != nil && !c.refused(err) {
		u.fail(w, r, err)
		return
	}
	var page view.Conversations
	if err == nil {
		err = u.fillConversations(ctx, c, filter, &page)
	} else {
		err = nil
	}
	pulse, pulseErr := u.cfg.Calls.Pulse(ctx)
	if err == nil {
		err = pulseErr
	}
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(ctx)
	talkative, err := u.talkative(r, access)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	page.Search, page.MayStart = c.form, len(talkative) > 0
	u.render(w, r, c.status(), view.ConversationsPage(u.page(r, view.SectionConversations, "Conversations", pulse), page))
}

func (u *UI) conversationCriteria(r *http.Request) (*criteria, error) {
	c := criteriaOf(r, "agent", "person")
	agents, err := u.agentNames(r.Context())
	if err != nil {
		return nil, err
	}
	people, err := u.peopleNames(r.Context())
	if err != nil {
		return nil, err
	}
	c.field(view.Criterion{Name: "agent", Label: "Agent", Options: agents})
	c.field(view.Criterion{Name: "person", Label: "On behalf of", Options: people})
	return c, nil
}

func (u *UI) conversationFilter(r *http.Request, c *criteria) (catalog.ConversationFilter, error) {
	var reader query.Reader
	filter := catalog.ConversationFilter{
		Agents:     reader.Names(r.Context(), "agent", c.get("agent"), u.cfg.Agents.AgentsNamed, true),
		Principals: reader.Names(r.Context(), "person", c.get("person"), u.cfg.Identity.Named, true),
		Before:     reader.ID(pageParameter, r.URL.Query().Get(pageParameter)),
	}
	return filter, reader.Err()
}

func (u *UI) fillConversations(ctx context.Context, c *criteria, filter catalog.ConversationFilter, page *view.Conversations) error {
	found, next, err := u.cfg.Catalog.Conversations(ctx, filter, conversationsPage)
	if err != nil {
		return err
	}
	first := filter.Before == uuid.Nil
	page.Pages = c.pages(first, "", nil)
	if next != uuid.Nil {
		page.Pages = c.pages(first, next.String(), nil)
	}
	if page.Rows, err = u.conversationRows(ctx, found); err != nil || !first {
		return err
	}
	if filter.IDs, err = u.cfg.Calls.LiveConversations(ctx); err != nil || len(filter.IDs) == 0 {
		return err
	}
	live, _, err := u.cfg.Catalog.Conversations(ctx, filter, conversationsPage)
	if err != nil {
		return err
	}
	page.Live, err = u.conversationRows(ctx, live)
	return err
}

func (u *UI) conversationRows(ctx context.Context, list []catalog.Conversation) ([]view.ConversationRow, error) {
	ids, agents, people := make([]uuid.UUID, len(list)), make([]uuid.UUID, len(list)), make([]uuid.UUID, len(list))
	for i := range list {
		ids[i], agents[i], people[i] = list[i].ID, list[i].AgentID, list[i].PrincipalID
	}
	tallies, err := u.cfg.Calls.Tallies(ctx, ids)
	if err != nil {
		return nil, err
	}
	agentNames, err := u.cfg.Agents.Names(ctx, agents)
	if err != nil {
		return nil, err
	}
	names, err := u.names(ctx, people...)
	if err != nil {
		return nil, err
	}
	talks, err := u.cfg.Converse.States(ctx, ids)
	if err != nil {
		return nil, err
	}
	rows := make([]view.ConversationRow, len(list))
	for i := range list {
		c, tally := &list[i], tallies[list[i].ID]
		rows[i] = view.ConversationRow{
			ID: shortID(c.ID), URL: conversationURL(c.ID), Name: c.Name, Agent: agentNames[c.AgentID],
			Principal: personName(c.PrincipalID, names), Started: c.CreatedAt, Ended: c.EndedAt != nil,
			Counts: countsOf(tally), Calls: tallyWords(tally),
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

// countsOf are how many calls stand how, in the order of their life.
func countsOf(t call.Tally) []view.Count {
	var counts []view.Count
	for _, status := range call.AllStatuses() {
		if n := t.Counts[status]; n > 0 {
			counts = append(counts, view.Count{N: strconv.Itoa(n), Badge: statusBadge(status)})
		}
	}
	return counts
}

// tallyWords say what the counts leave out.
func tallyWords(t call.Tally) string {
	switch {
	case t.Calls == 0:
		return "no calls"
	case t.Calls >= call.Tallied:
		return "of the last " + strconv.Itoa(call.Tallied)
	}
	return ""
}
