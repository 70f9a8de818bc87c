package rule

import (
	"context"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval/condition"
)

// Call is a call, as far as the memory of rules distinguishes it from others.
type Call struct {
	Subject
	ID           uuid.UUID
	Principal    string // empty: none
	Conversation string // empty: none
	Arguments    json.RawMessage
	Deleted      bool // the arguments were deleted
	// At is when an earlier call was sent, and when the judged one was made.
	At time.Time
}

// Covers reports whether an earlier call is in a group of the judged one.
func (c *Call) Covers(of string, earlier *Call) bool {
	switch of {
	case condition.OfAgent:
		return earlier.Agent == c.Agent
	case condition.OfPrincipal:
		return c.Principal != "" && earlier.Principal == c.Principal
	case condition.OfTool:
		return earlier.Skill == c.Skill && earlier.Tool == c.Tool
	}
	return true
}

// NoPrincipal is the reason why a condition fails that asks about the calls of a person for a call without one.
const NoPrincipal = "the call has no principal whose earlier calls could be counted"

// NoConversation is the reason why after fails for a call without a conversation.
const NoConversation = "after: the call belongs to no conversation"

// FitsTool reports whether a query of [condition.After] is about a tool.
func FitsTool(q condition.Query, skill, tool string) bool {
	if wantedSkill, name, both := strings.Cut(q.Tool, "/"); both {
		return wantedSkill == skill && name == tool
	}
	return q.Tool == tool
}

// History answers what conditions ask about calls in memory: the examples of a test, and the recorded calls of a replay. It is not safe for concurrent
// use. It is fast if calls are judged in the order of time, or in the opposite one.
type History struct {
	calls   []Call // by time
	windows map[windowKey]*window
	tools   map[string]map[[2]string]time.Time // when a conversation sent the first call of a skill's tool
}

// NewHistory makes a history of calls that were sent.
func NewHistory(sent []Call) *History {
	slices.SortStableFunc(sent, func(a, b Call) int { return a.At.Compare(b.At) })
	h := &History{sent, map[windowKey]*window{}, map[string]map[[2]string]time.Time{}}
	for i := range sent {
		h.NoteTool(sent[i].Conversation, sent[i].Skill, sent[i].Tool, sent[i].At)
	}
	return h
}

// NoteTool adds to what [condition.After] sees: a conversation sent a call of a tool at this time.
func (h *History) NoteTool(conversation, skill, tool string, at time.Time) {
	tools, key := h.tools[conversation], [2]string{skill, tool}
	if tools == nil {
		tools = map[[2]string]time.Time{}
		h.tools[conversation] = tools
	}
	if first, known := tools[key]; !known || at.Before(first) {
		tools[key] = at
	}
}

// hasSent reports whether the conversation of a call sent one of the query's tool before it.
func (h *History) hasSent(q condition.Query, judged *Call) bool {
	for tool, at := range h.tools[judged.Conversation] {
		if FitsTool(q, tool[0], tool[1]) && at.Before(judged.At) {
			return true
		}
	}
	return false
}

// windowKey identifies the calls that count for a query of a rule about one kind of judged calls.
type windowKey struct {
	rule    string
	program *condition.Program
	query   condition.Query
	group   string
}

// window is the part of a history within the window of a query, and their tally.
type window struct {
	calls    []*Call
	shares   []condition.Share
	tally    *condition.Tally
	from, to int // those that tally has
}

// Remember answers what the conditions of rules ask about the calls before the judged one.
func (h *History) Remember(ctx context.Context, p *Prepared, in *condition.Input, judged *Call) Memory {
	memory := Memory{}
	for _, ask := range p.FindAsks(ctx, in) {
		memory[ask.Rule.Name] = h.answer(ask, judged)
	}
	return memory
}

// answer answers all queries of a condition about the judged call.
func (h *History) answer(ask Ask, judged *Call) condition.Answers {
	answers := condition.Answers{}
	for _, q := range ask.Program.Queries() {
		switch {
		case q.Function == condition.After && judged.Conversation == "":
			answers[q] = condition.AnswerError(NoConversation)
		case q.Function == condition.After:
			answers[q] = condition.AnswerYes(h.hasSent(q, judged))
		case q.Of == condition.OfPrincipal && judged.Principal == "":
			answers[q] = condition.AnswerError(NoPrincipal)
		default:
			answers[q] = h.window(ask, q, judged).answer(q, judged)
		}
	}
	return answers
}

func (h *History) window(ask Ask, q condition.Query, judged *Call) *window {
	key := windowKey{rule: ask.Rule.Name, program: ask.Program, query: q}
	switch q.Of {
	case condition.OfAgent:
		key.group = judged.Agent
	case condition.OfPrincipal:
		key.group = judged.Principal
	case condition.OfTool:
		key.group = judged.Skill + "/" + judged.Tool
	}
	w := h.windows[key]
	if w == nil {
		w = &window{tally: ask.Program.NewTally(q)}
		for i := range h.calls {
			if c := &h.calls[i]; ask.Rule.Covers(c.Subject) && judged.Covers(q.Of, c) {
				w.calls = append(w.calls, c)
				if c.Deleted {
					w.shares = append(w.shares, w.tally.DeletedShare())
				} else {
					w.shares = append(w.shares, w.tally.Read(c.Arguments))
				}
			}
		}
		h.windows[key] = w
	}
	return w
}

// answer moves the window to the time of the judged call.
func (w *window) answer(q condition.Query, judged *Call) condition.Answer {
	find := func(t time.Time) int {
		return sort.Search(len(w.calls), func(i int) bool { return !w.calls[i].At.Before(t) })
	}
	from, to := find(judged.At.Add(-q.Window)), find(judged.At)
	if from >= w.to || to <= w.from {
		for ; w.from < w.to; w.from++ {
			w.tally.Remove(w.shares[w.from])
		}
		w.from, w.to = from, from
	}
	for ; w.from > from; w.from-- {
		w.tally.Add(w.shares[w.from-1])
	}
	for ; w.to < to; w.to++ {
		w.tally.Add(w.shares[w.to])
	}
	for ; w.from < from; w.from++ {
		w.tally.Remove(w.shares[w.from])
	}
	for ; w.to > to; w.to-- {
		w.tally.Remove(w.shares[w.to-1])
	}
	for i := w.to - 1; i >= w.from && i >= w.to-nearby; i-- {
		if w.calls[i].ID == judged.ID && judged.ID != uuid.Nil {
			w.tally.Remove(w.shares[i])
			defer w.tally.Add(w.shares[i])
		}
	}
	if q.Function == condition.Distinct {
		own := w.tally.ReadOwn(judged.Arguments)
		w.tally.Add(own)
		defer w.tally.Remove(own)
	}
	return w.tally.Answer()
}

// nearby is the number of calls before the judged one among which it is itself, if clocks moved while it was recorded.
const nearby = 10
