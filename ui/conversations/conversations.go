package conversations

import (
	"context"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/query"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

const conversationsPage = 50

// ShowConversations lists the conversations with open calls, and then all, newest first.
func (h *Handler) ShowConversations(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c, err := h.conversationCriteria(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	filter, err := h.conversationFilter(r, c)
	if err != nil && !c.Refused(err) {
		h.Fail(w, r, err)
		return
	}
	var page Conversations
	if err == nil {
		err = h.fillConversations(ctx, c, filter, &page)
	} else {
		err = nil
	}
	pulse, pulseErr := h.calls.ReadPulse(ctx)
	if err == nil {
		err = pulseErr
	}
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(ctx)
	talkative, err := h.talks.readTalkAgents(r, access)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page.Search, page.MayStart = c.Form, len(talkative) > 0
	h.Render(w, r, c.Status(), ConversationsPage(h.Page(r, view.SectionConversations, text.ConversationTitle(), pulse), page))
}

func (h *Handler) conversationCriteria(r *http.Request) (*shell.Criteria, error) {
	c := shell.CriteriaOf(r, "agent", "person")
	agents, err := h.suggest.AgentNames(r.Context())
	if err != nil {
		return nil, err
	}
	people, err := h.suggest.PeopleNames(r.Context())
	if err != nil {
		return nil, err
	}
	c.Field(view.Criterion{Name: "agent", Label: text.ConversationAgent(), Options: agents})
	c.Field(view.Criterion{Name: "person", Label: text.ConversationPrincipal(), Options: people})
	return c, nil
}

func (h *Handler) conversationFilter(r *http.Request, c *shell.Criteria) (catalog.ConversationFilter, error) {
	var reader query.Reader
	filter := catalog.ConversationFilter{
		Agents:     reader.Names(r.Context(), "agent", c.Get("agent"), h.agents.AgentsNamed, true),
		Principals: reader.Names(r.Context(), "person", c.Get("person"), h.identity.Named, true),
		Before:     reader.ID(shell.PageParameter, r.URL.Query().Get(shell.PageParameter)),
	}
	return filter, reader.Err()
}

func (h *Handler) fillConversations(ctx context.Context, c *shell.Criteria, filter catalog.ConversationFilter, page *Conversations) error {
	found, next, err := h.catalog.Conversations(ctx, filter, conversationsPage)
	if err != nil {
		return err
	}
	first := filter.Before == uuid.Nil
	page.Pages = c.Pages(first, "", nil)
	if next != uuid.Nil {
		page.Pages = c.Pages(first, next.String(), nil)
	}
	if page.Rows, err = h.reader.conversationRows(ctx, found); err != nil || !first {
		return err
	}
	if filter.IDs, err = h.history.ListLiveConversations(ctx); err != nil || len(filter.IDs) == 0 {
		return err
	}
	live, _, err := h.catalog.Conversations(ctx, filter, conversationsPage)
	if err != nil {
		return err
	}
	page.Live, err = h.reader.conversationRows(ctx, live)
	return err
}

// countsOf returns the number of calls in each status, in the order of a call's life.
func countsOf(t history.Tally) []Count {
	var counts []Count
	for _, status := range call.AllStatuses() {
		if n := t.Counts[status]; n > 0 {
			counts = append(counts, Count{N: strconv.Itoa(n), Badge: present.StatusBadge(status)})
		}
	}
	return counts
}

// describeTally says which calls the counts cover.
func describeTally(t history.Tally) text.Message {
	switch {
	case t.Calls == 0:
		return text.ConversationNoCallsShort()
	case t.Calls >= history.Tallied:
		return text.ConversationLast(history.Tallied)
	}
	return text.Message{}
}
