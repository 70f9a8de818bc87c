package history

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/call/history"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

const (
	historyPage      = 50
	historyArguments = 1 // in a row
)

func callCriteria() []string {
	return []string{"text", "agent", "skill", "tool", "person", "status", "decision", "risk", "from", "to", "conversation"}
}

// historyCriteria reads the form of calls.
func (h *CallsHandler) historyCriteria(r *http.Request) (*shell.Criteria, error) {
	ctx := r.Context()
	c := shell.CriteriaOf(r, callCriteria()...)
	agents, err := h.suggest.AgentNames(ctx)
	if err != nil {
		return nil, err
	}
	skills, err := h.suggest.SkillNames(ctx)
	if err != nil {
		return nil, err
	}
	people, err := h.suggest.PeopleNames(ctx)
	if err != nil {
		return nil, err
	}
	c.Form.Text = &view.Criterion{
		Name: "text", Label: text.HistoryTextCriterion(), Kind: "search", Value: c.Get("text"), Hint: text.HistoryTextHint(),
	}
	c.Field(view.Criterion{Name: "agent", Label: text.HistoryAgent(), Options: agents})
	c.Field(view.Criterion{Name: "skill", Label: text.HistorySkill(), Options: skills})
	c.Field(view.Criterion{Name: "tool", Label: text.HistoryTool()})
	c.Field(view.Criterion{Name: "person", Label: text.HistoryPerson(), Hint: text.HistoryPersonHint(), Options: people})
	c.Times()
	if c.Get("conversation") != "" {
		c.Field(view.Criterion{Name: "conversation", Label: text.HistoryConversation()})
	}
	addChoices(c, text.SearchOutcome(), "status", call.AllStatuses(), present.StatusBadge)
	addChoices(c, text.SearchDecision(), "decision", history.AllDecisions(), decisionBadge)
	addChoices(c, text.SearchRisk(), "risk", history.AllRisks(), present.RiskBadge)
	return c, nil
}

// addChoices adds a criterion that takes several values.
func addChoices[T ~string](c *shell.Criteria, label text.Message, name string, values []T, badge func(T) view.Badge) {
	boxes := view.Boxes{Label: label}
	for _, value := range values {
		boxes.Boxes = append(boxes.Boxes, view.Box{
			Name: name, Value: string(value), Badge: badge(value), Chosen: slices.Contains(c.Values[name], string(value)),
		})
	}
	c.Form.Choices = append(c.Form.Choices, boxes)
}

func decisionBadge(s approval.Status) view.Badge {
	d := present.Decision(approval.Approval{Status: s}, nil)
	icon := map[approval.Status]string{approval.Approved: "good", approval.Rejected: "rejected", approval.Expired: "expired"}[s]
	return view.Badge{Word: d.Word, Icon: icon, Level: d.Level}
}

// callFilter reads the criteria of a search.
func (h *CallsHandler) callFilter(ctx context.Context, c *shell.Criteria) (history.Filter, error) {
	filter, err := h.history.ParseQuery(ctx, history.Query{
		Agent: c.Get("agent"), Skill: c.Get("skill"), Tool: c.Get("tool"), Person: c.Get("person"), Statuses: c.Values["status"],
		Decisions: c.Values["decision"], Risks: c.Values["risk"],
		From: c.Get("from"), To: c.Get("to"), Zone: c.Zone, Conversation: c.Get("conversation"), Text: c.Get("text"),
	}, h.identity)
	filter.HideSecrets = true
	return filter, err
}

// ShowHistory lists calls, newest first.
func (h *CallsHandler) ShowHistory(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	c, err := h.historyCriteria(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	filter, err := h.callFilter(ctx, c)
	if err == nil {
		filter.Before, err = shell.Cursor(r)
	}
	filter.Limit = historyPage
	var found history.Found
	if err == nil {
		found, err = h.history.Search(ctx, filter)
	}
	if err != nil && !c.Refused(err) {
		h.Fail(w, r, err)
		return
	}
	pulse, err := h.calls.ReadPulse(ctx)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	page := History{Pages: callPages(c, found, filter.Before), Exports: exportLinks(c)}
	if page.Rows, err = h.historyRows(ctx, found.Calls, pulse.Now); err != nil {
		h.Fail(w, r, err)
		return
	}
	page.Search = c.Form
	h.Render(w, r, c.Status(), HistoryPage(h.Page(r, view.SectionCalls, text.HistoryTitle(), pulse), page))
}

// callPages links to newer and older calls.
func callPages(c *shell.Criteria, found history.Found, before uuid.UUID) view.Pages {
	if found.Next == uuid.Nil {
		return c.Pages(before == uuid.Nil, "", nil)
	}
	var searched *time.Time
	if found.Stopped {
		searched = shell.TimeOf(found.Next)
	}
	return c.Pages(before == uuid.Nil, found.Next.String(), searched)
}

// exportLinks are the exports of the calls that the criteria select; none if the criteria are invalid.
func exportLinks(c *shell.Criteria) []view.Link {
	if c.Err != nil {
		return nil
	}
	path := c.Path + "/export"
	return []view.Link{{URL: c.URL(path, "format", "csv"), Word: text.Literal("CSV")}, {URL: c.URL(path, "format", "jsonl"), Word: text.Literal("JSON Lines")}}
}

func (h *CallsHandler) historyRows(ctx context.Context, calls []call.Call, now time.Time) ([]view.HistoryRow, error) {
	facts, err := h.facts.Read(ctx, calls)
	if err != nil {
		return nil, err
	}
	rows := make([]view.HistoryRow, len(calls))
	for i := range calls {
		c := &calls[i]
		rows[i] = view.HistoryRow{
			URL: present.CallURL(c.ID), Status: present.StatusBadge(c.Status), Skill: c.Skill, Tool: c.Tool, Agent: c.Agent,
			Decisive:  hostile.Decisive(c.Arguments, historyArguments, present.BriefOf(facts.Secrets[c.ID])).List,
			Principal: present.PersonName(c.PrincipalID, facts.Names), At: c.CreatedAt,
		}
		if a, ok := facts.Approvals[c.ID]; ok {
			rows[i].DecidedBy, rows[i].Waited = present.PersonName(a.DecidedBy, facts.Names), describeWait(a, now)
		}
	}
	return rows, nil
}

// describeWait says how long an approval waited for its decision, or has been waiting.
func describeWait(a approval.Approval, now time.Time) text.Message {
	end := now
	switch {
	case a.DecidedAt != nil:
		end = *a.DecidedAt
	case a.Status != approval.Pending:
		end = a.Deadline
	}
	took := end.Sub(a.CreatedAt).Truncate(time.Second)
	switch {
	case took < time.Second && a.Status != approval.Pending:
		return text.HistoryWaitedLittle()
	case took < time.Second:
		return text.HistoryWaitingSince()
	case a.Status == approval.Pending:
		return text.HistoryWaiting(present.FormatDuration(took))
	}
	return text.HistoryWaited(present.FormatDuration(took))
}
