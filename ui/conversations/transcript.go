package conversations

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// messageLimits returns the limits of messages and replies. Only very long ones are cut.
func messageLimits() hostile.Limits {
	l := hostile.Folded()
	l.Lines, l.Runes, l.HeadLines, l.HeadRunes, l.TailLines, l.TailRunes = 120, 8000, 80, 6000, 12, 800
	return l
}

// transcript presents the entries of a conversation.
type transcript struct {
	talk   *talk
	names  map[uuid.UUID]string     // of people
	calls  map[uuid.UUID]*CallEntry // by id
	tools  map[uuid.UUID]string     // names of the called tools, as the agent knows them
	told   map[uuid.UUID]string     // results that the model got
	last   int64                    // the last reply that requests calls
	closed bool                     // the model got the results of that reply's calls
}

func (h *TalkHandler) presentTalk(ctx context.Context, t *talk, now time.Time) (Conversation, error) {
	entries, err := h.converse.EntriesBefore(ctx, converse.Viewer{}, t.ID, t.before, entriesPage)
	if err != nil {
		return Conversation{}, err
	}
	v, err := h.talkHead(ctx, t)
	if err != nil {
		return v, err
	}
	script, err := h.readTranscript(ctx, t, entries, now)
	if err != nil {
		return v, err
	}
	for i := range entries {
		if e, shown := script.presentEntry(&entries[i]); shown {
			v.Entries = append(v.Entries, e)
		}
	}
	if len(entries) > 0 && entries[0].Seq > 1 {
		v.Pages.Older = t.windowURL(entries[0].Seq, "")
	}
	if t.before > 0 {
		v.Pages.Newest = present.ConversationURL(t.ID)
		return v, nil
	}
	for i := range t.Pending {
		v.Talk.Pending = append(v.Talk.Pending, script.presentMessage(&t.Pending[i], 0))
	}
	if t.draft.Text != "" {
		draft := hostile.Fold(t.draft.Text, messageLimits())
		v.Talk.Draft = &draft
	}
	return v, nil
}

// talkHead reads the head of the page, above the transcript.
func (h *TalkHandler) talkHead(ctx context.Context, t *talk) (Conversation, error) {
	rows, err := h.reader.conversationRows(ctx, []catalog.Conversation{*t.base})
	if err != nil {
		return Conversation{}, err
	}
	c, row := t.base, rows[0]
	v := Conversation{
		ID: c.ID.String(), Title: row.Title, Name: c.Name, Agent: row.Agent, AgentID: present.ShortID(c.AgentID),
		Principal: row.Principal, PersonID: present.ShortID(c.PrincipalID), Status: talkBadge(&t.Conversation),
		Counts: row.Counts, Calls: row.Calls, CallsURL: "/calls?conversation=" + c.ID.String(), Facts: conversationFacts(c),
		Talk: &Talk{
			Words: describeState(&t.Conversation), Working: isWorking(&t.Conversation), Ended: t.Status == converse.Ended, Totals: describeTotals(&t.Conversation),
			URL: present.ConversationURL(c.ID), Speaks: t.speaks, Silent: t.silent,
		},
	}
	if t.ForkedFrom != uuid.Nil {
		v.Facts = append(v.Facts, view.Fact{Name: text.ConversationForkedFrom(), Text: text.Literal(t.ForkedFrom.String()), URL: present.ConversationURL(t.ForkedFrom)})
	}
	if t.Depth > 0 {
		v.Facts = append(v.Facts, view.Fact{Name: text.ConversationDepth(), Text: text.ConversationDepthText(t.Depth)})
	}
	for _, p := range c.Problems {
		v.Problems = append(v.Problems, SkillProblem(p))
	}
	v.Catalogue, v.Tools = presentCatalogue(c.Catalog)
	return v, nil
}

// isWorking reports whether a turn is running.
func isWorking(c *converse.Conversation) bool {
	return c.Status != converse.Idle && c.Status != converse.Ended
}

func talkBadge(c *converse.Conversation) view.Badge {
	switch {
	case c.Status == converse.Ended:
		return view.Badge{Word: text.ConversationEnded(), Icon: "good", Level: view.Quiet}
	case c.Status == converse.Idle:
		return view.Badge{Word: text.ConversationIdle(), Icon: "conversations", Level: view.Quiet}
	case c.Stopping:
		return view.Badge{Word: text.ConversationStopping(), Icon: "running", Level: view.Warn}
	case c.Status == converse.Waiting:
		return view.Badge{Word: text.ConversationWaitsForCalls(), Icon: "expired", Level: view.Info}
	}
	return view.Badge{Word: text.ConversationWorking(), Icon: "running", Level: view.Info}
}

// describeState describes the state of a conversation.
func describeState(c *converse.Conversation) text.Message {
	switch {
	case c.Status == converse.Ended:
		return describeEnd(c.Code)
	case c.Status == converse.Idle:
		return text.ConversationWaitingForMessage()
	case c.Stopping:
		return text.ConversationStopped()
	case c.Status == converse.Waiting:
		return text.ConversationWaitingForCalls(c.OpenCalls)
	case c.Status == converse.Running:
		return text.ConversationModelWorks()
	}
	return text.ConversationModelNext()
}

func describeEnd(code string) text.Message {
	switch code {
	case converse.CodeClosed:
		return text.ConversationEndClosed()
	case converse.CodeTurnLimit:
		return text.ConversationEndTurns()
	case converse.CodeTokenLimit:
		return text.ConversationEndTokens()
	case converse.CodeCostLimit:
		return text.ConversationEndCost()
	case converse.CodeTimeLimit:
		return text.ConversationEndTime()
	case converse.CodeNoModel:
		return text.ConversationEndNoModel()
	}
	return text.ConversationEndOther(code)
}

// describeTotals counts the turns, tokens and cost of a conversation.
func describeTotals(c *converse.Conversation) text.Message {
	requests, cost := text.ConversationRequests(c.Turns), text.Message{}
	if c.Cost > 0 {
		cost = text.ConversationCost(text.Decimal(c.Cost, -1))
	}
	return text.Join(" · ", requests, describeTokens(c.InputTokens, c.OutputTokens), cost)
}

func describeTokens(input, output int64) text.Message {
	return text.ConversationTokens(text.ConversationInputTokens(int(input)), text.ConversationOutputTokens(int(output)))
}

// readTranscript reads the names and calls that the entries refer to.
func (h *TalkHandler) readTranscript(ctx context.Context, t *talk, entries []converse.Entry, now time.Time) (*transcript, error) {
	s := &transcript{talk: t, calls: map[uuid.UUID]*CallEntry{}, tools: map[uuid.UUID]string{}, told: map[uuid.UUID]string{}}
	people := []uuid.UUID{t.PrincipalID}
	var ids []uuid.UUID
	for i := range entries {
		switch e := &entries[i]; {
		case e.User != nil:
			people = append(people, e.User.By)
		case e.Notice != nil:
			people = append(people, e.Notice.By)
		case e.Assistant != nil:
			for _, c := range e.Assistant.Calls {
				ids = append(ids, c.ID)
				s.tools[c.ID] = c.Name
				s.last, s.closed = e.Seq, false
			}
		case e.Tools != nil:
			s.closed = true
			for _, r := range e.Tools.Results {
				ids = append(ids, r.CallID)
				s.told[r.CallID] = r.Text
			}
		}
	}
	for i := range t.Pending {
		people = append(people, t.Pending[i].By)
	}
	var err error
	if s.names, err = h.Names(ctx, people...); err != nil {
		return nil, err
	}
	return s, h.transcriptCalls(ctx, s, ids, now)
}

func (h *TalkHandler) transcriptCalls(ctx context.Context, s *transcript, ids []uuid.UUID, now time.Time) error {
	known, err := h.calls.ListCalls(ctx, ids)
	if err != nil {
		return err
	}
	list := make([]call.Call, 0, len(known))
	for _, c := range known {
		list = append(list, c)
		s.tools[c.ID] = c.ExposedName
	}
	entries, err := h.reader.readEntries(ctx, list, now)
	for _, e := range entries {
		if id, parseErr := uuid.Parse(e.Call.ID); parseErr == nil {
			s.calls[id] = e.Call
		}
	}
	return err
}

// presentEntry presents an entry, or returns false if the page shows it elsewhere: a call's status is shown with the reply that requested it.
func (s *transcript) presentEntry(e *converse.Entry) (Entry, bool) {
	v := Entry{ID: strconv.FormatInt(e.Seq, 10), At: e.At}
	switch e.Kind {
	case converse.KindUser:
		said := s.presentMessage(e.User, e.Seq)
		v.Said, v.Fork = &said, s.talk.speaks
	case converse.KindAssistant:
		v.Reply = s.presentReply(e)
		v.Fork = s.talk.speaks && (e.Seq != s.last || s.closed || s.talk.before > 0)
	case converse.KindTools:
		for i := range e.Tools.Results {
			v.Told = append(v.Told, s.presentResult(&e.Tools.Results[i]))
		}
	case converse.KindNotice:
		v.News = &Remark{Text: e.Notice.Text, By: present.PersonName(e.Notice.By, s.names)}
	default:
		return v, false
	}
	return v, true
}

// presentMessage presents a message. seq is 0 if it is no entry yet.
func (s *transcript) presentMessage(m *converse.Message, seq int64) Said {
	v := Said{By: present.PersonName(m.By, s.names), Text: Quote{Text: hostile.Fold(m.Text, messageLimits())}}
	if seq > 0 {
		v.Text.URL = s.textURL(seq)
	}
	if m.Asked != uuid.Nil {
		v.Asked = present.CallURL(m.Asked)
	}
	if m.FilesOf != uuid.Nil {
		v.FilesURL = present.CallURL(m.FilesOf)
	}
	for _, f := range m.Files {
		v.Files = append(v.Files, view.File{Name: f.Name, Type: f.MediaType, Bytes: int(f.Size)})
	}
	return v
}

func (s *transcript) textURL(seq int64) string {
	return present.ConversationURL(s.talk.ID) + "/entries/" + strconv.FormatInt(seq, 10)
}

func (s *transcript) presentReply(e *converse.Entry) *Reply {
	r := e.Assistant
	v := &Reply{Agent: s.talk.agent, Model: r.Model, Usage: describeTokens(r.Usage.InputTokens, r.Usage.OutputTokens)}
	if r.Usage.Estimated {
		v.Usage = text.ConversationEstimated(v.Usage)
	}
	switch r.Stop {
	case model.StopMaxTokens:
		v.Usage = text.Join(" · ", v.Usage, text.ConversationCutReply())
	case model.StopRefusal:
		v.Usage = text.Join(" · ", v.Usage, text.ConversationRefusal())
	default:
	}
	if reply := r.Text(); reply != "" {
		v.Text = &Quote{Text: hostile.Fold(reply, messageLimits()), URL: s.textURL(e.Seq)}
	}
	for i := range r.Calls {
		v.Calls = append(v.Calls, s.presentMadeCall(&r.Calls[i]))
	}
	return v
}

// presentMadeCall presents a call requested by a reply, or the reason why it was not made.
func (s *transcript) presentMadeCall(m *converse.MadeCall) MadeCall {
	v := MadeCall{Name: m.Name, Call: s.calls[m.ID]}
	switch {
	case v.Call != nil:
	case m.Builtin != nil:
		v.Text = text.ConversationReadOn()
	case m.Refused != "":
		v.Refusal = m.Refused
	case s.told[m.ID] != "":
		v.Refusal = s.told[m.ID]
	default:
		v.Text = text.ConversationMadeNext()
	}
	return v
}

func (s *transcript) presentResult(r *converse.Result) Told {
	v := Told{Name: cmp.Or(s.tools[r.CallID], r.CallID.String()), Failed: r.IsError, Text: hostile.Fold(r.Text, hostile.Folded())}
	if s.calls[r.CallID] != nil {
		v.URL = present.CallURL(r.CallID)
	}
	if n := len(r.Images); n > 0 {
		v.Images = text.ConversationImages(n)
	}
	return v
}
