package ui

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/runtime/model"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// spoken are the limits of what is said in a conversation: people read it all, but for what is very long.
func spoken() hostile.Limits {
	l := hostile.Folded()
	l.Lines, l.Runes, l.HeadLines, l.HeadRunes, l.TailLines, l.TailRunes = 120, 8000, 80, 6000, 12, 800
	return l
}

// beside are the limits of what stands beside a call that somebody decides about.
func beside() hostile.Limits {
	l := hostile.Folded()
	l.Lines, l.Runes, l.HeadLines, l.HeadRunes, l.TailLines, l.TailRunes = 12, 900, 7, 600, 3, 200
	return l
}

// transcript turns entries of a conversation into what is shown of them.
type transcript struct {
	talk   *talk
	names  map[uuid.UUID]string          // of people
	calls  map[uuid.UUID]*view.CallEntry // by id
	tools  map[uuid.UUID]string          // what calls called, as the agent calls it
	told   map[uuid.UUID]string          // what the model was told of a call, where none was made
	last   int64                         // the last reply that wants calls
	closed bool                          // of that reply's calls the model was told
}

func (u *UI) presentTalk(ctx context.Context, t *talk, now time.Time) (view.Conversation, error) {
	entries, err := u.cfg.Converse.EntriesBefore(ctx, converse.Viewer{}, t.ID, t.before, entriesPage)
	if err != nil {
		return view.Conversation{}, err
	}
	v, err := u.talkHead(ctx, t)
	if err != nil {
		return v, err
	}
	script, err := u.transcript(ctx, t, entries, now)
	if err != nil {
		return v, err
	}
	for i := range entries {
		if e, shown := script.entry(&entries[i]); shown {
			v.Entries = append(v.Entries, e)
		}
	}
	if len(entries) > 0 && entries[0].Seq > 1 {
		v.Pages.Older = t.windowURL(entries[0].Seq, "")
	}
	if t.before > 0 {
		v.Pages.Newest = conversationURL(t.ID)
		return v, nil
	}
	for i := range t.Pending {
		v.Talk.Pending = append(v.Talk.Pending, script.said(&t.Pending[i], 0))
	}
	if t.draft.Text != "" {
		draft := hostile.Fold(t.draft.Text, spoken())
		v.Talk.Draft = &draft
	}
	return v, nil
}

// talkHead is what stands above the transcript.
func (u *UI) talkHead(ctx context.Context, t *talk) (view.Conversation, error) {
	rows, err := u.conversationRows(ctx, []catalog.Conversation{*t.base})
	if err != nil {
		return view.Conversation{}, err
	}
	c, row := t.base, rows[0]
	v := view.Conversation{
		ID: c.ID.String(), Name: c.Name, Agent: row.Agent, AgentID: shortID(c.AgentID),
		Principal: row.Principal, PersonID: shortID(c.PrincipalID), Status: talkBadge(&t.Conversation),
		Counts: row.Counts, Calls: row.Calls, CallsURL: "/calls?conversation=" + c.ID.String(), Facts: conversationFacts(c),
		Talk: &view.Talk{
			Words: talkWords(&t.Conversation), Working: working(&t.Conversation), Ended: t.Status == converse.Ended, Totals: totals(&t.Conversation),
			URL: conversationURL(c.ID), Speaks: t.speaks, Silent: t.silent,
		},
	}
	if t.ForkedFrom != uuid.Nil {
		v.Facts = append(v.Facts, view.Fact{Name: "Forked from", Text: t.ForkedFrom.String(), URL: conversationURL(t.ForkedFrom)})
	}
	if t.Depth > 0 {
		v.Facts = append(v.Facts, view.Fact{Name: "Agents before it", Text: strconv.Itoa(t.Depth) + ", each asked by the one before"})
	}
	for _, p := range c.Problems {
		v.Problems = append(v.Problems, view.SkillProblem(p))
	}
	v.Catalogue, v.Tools = presentCatalogue(c.Catalog)
	return v, nil
}

// working reports whether something happens by itself.
func working(c *converse.Conversation) bool {
	return c.Status != converse.Idle && c.Status != converse.Ended
}

func talkBadge(c *converse.Conversation) view.Badge {
	switch {
	case c.Status == converse.Ended:
		return view.Badge{Word: "Ended", Icon: "good", Level: view.Quiet}
	case c.Status == converse.Idle:
		return view.Badge{Word: "Idle", Icon: "conversations", Level: view.Quiet}
	case c.Stopping:
		return view.Badge{Word: "Stopping", Icon: "running", Level: view.Warn}
	case c.Status == converse.Waiting:
		return view.Badge{Word: "Waits for calls", Icon: "expired", Level: view.Info}
	}
	return view.Badge{Word: "Working", Icon: "running", Level: view.Info}
}

// talkWords say what a conversation does or waits for.
func talkWords(c *converse.Conversation) string {
	switch {
	case c.Status == converse.Ended:
		return endWords(c.Code)
	case c.Status == converse.Idle:
		return "It waits for a message."
	case c.Stopping:
		return "It was stopped. What was approved already is waited for."
	case c.Status == converse.Waiting:
		return "It waits for " + plural(c.OpenCalls, "call", "calls") + " to end. Nothing runs meanwhile."
	case c.Status == converse.Running:
		return "The model is at work."
	}
	return "The model is about to be asked."
}

func endWords(code string) string {
	switch code {
	case converse.CodeClosed:
		return "It was closed."
	case converse.CodeTurnLimit:
		return "It ended: the model was asked as often as the agent’s limit allows."
	case converse.CodeTokenLimit:
		return "It ended: it took as many tokens as the agent’s limit allows."
	case converse.CodeCostLimit:
		return "It ended: it cost as much as the agent’s limit allows."
	case converse.CodeTimeLimit:
		return "It ended: it lasted as long as the agent’s limit allows."
	case converse.CodeNoModel:
		return "It ended: the agent has no model any more."
	}
	return "It ended (" + code + ")."
}

// totals are what a conversation took so far.
func totals(c *converse.Conversation) string {
	words := plural(c.Turns, "request", "requests") + " to the model · " + tokens(c.InputTokens, c.OutputTokens)
	if c.Cost > 0 {
		words += " · cost " + strconv.FormatFloat(c.Cost, 'f', 4, 64)
	}
	return words
}

func tokens(sent, answered int64) string {
	return plural(int(sent), "token", "tokens") + " sent, " + plural(int(answered), "token", "tokens") + " answered"
}

// transcript reads what is said about entries besides themselves.
func (u *UI) transcript(ctx context.Context, t *talk, entries []converse.Entry, now time.Time) (*transcript, error) {
	s := &transcript{talk: t, calls: map[uuid.UUID]*view.CallEntry{}, tools: map[uuid.UUID]string{}, told: map[uuid.UUID]string{}}
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
	if s.names, err = u.names(ctx, people...); err != nil {
		return nil, err
	}
	return s, u.transcriptCalls(ctx, s, ids, now)
}

func (u *UI) transcriptCalls(ctx context.Context, s *transcript, ids []uuid.UUID, now time.Time) error {
	known, err := u.cfg.Calls.Listed(ctx, ids)
	if err != nil {
		return err
	}
	list := make([]call.Call, 0, len(known))
	for _, c := range known {
		list = append(list, c)
		s.tools[c.ID] = c.ExposedName
	}
	entries, err := u.entries(ctx, list, now)
	for _, e := range entries {
		if id, parseErr := uuid.Parse(e.Call.ID); parseErr == nil {
			s.calls[id] = e.Call
		}
	}
	return err
}

// entry is one of the transcript; false for what is shown elsewhere: how calls stand is seen where they were made.
func (s *transcript) entry(e *converse.Entry) (view.Entry, bool) {
	v := view.Entry{ID: strconv.FormatInt(e.Seq, 10), At: e.At}
	switch e.Kind {
	case converse.KindUser:
		said := s.said(e.User, e.Seq)
		v.Said, v.Fork = &said, s.talk.speaks
	case converse.KindAssistant:
		v.Reply = s.reply(e)
		v.Fork = s.talk.speaks && (e.Seq != s.last || s.closed || s.talk.before > 0)
	case converse.KindTools:
		for i := range e.Tools.Results {
			v.Told = append(v.Told, s.toldOf(&e.Tools.Results[i]))
		}
	case converse.KindNotice:
		v.News = &view.Remark{Text: e.Notice.Text, By: personName(e.Notice.By, s.names)}
	default:
		return v, false
	}
	return v, true
}

// said is a message; seq 0: it is no entry yet.
func (s *transcript) said(m *converse.Message, seq int64) view.Said {
	v := view.Said{By: personName(m.By, s.names), Text: view.Quote{Text: hostile.Fold(m.Text, spoken())}}
	if seq > 0 {
		v.Text.URL = s.textURL(seq)
	}
	if m.Asked != uuid.Nil {
		v.Asked = callURL(m.Asked)
	}
	if m.FilesOf != uuid.Nil {
		v.FilesURL = callURL(m.FilesOf)
	}
	for _, f := range m.Files {
		v.Files = append(v.Files, view.File{Name: f.Name, Type: f.MediaType, Bytes: int(f.Size)})
	}
	return v
}

func (s *transcript) textURL(seq int64) string {
	return conversationURL(s.talk.ID) + "/entries/" + strconv.FormatInt(seq, 10)
}

func (s *transcript) reply(e *converse.Entry) *view.Reply {
	r := e.Assistant
	v := &view.Reply{Agent: s.talk.agent, Model: r.Model, Usage: tokens(r.Usage.InputTokens, r.Usage.OutputTokens)}
	if r.Usage.Estimated {
		v.Usage = "about " + v.Usage
	}
	switch r.Stop {
	case model.StopMaxTokens:
		v.Usage += " · cut"
	case model.StopRefusal:
		v.Usage += " · would not answer"
	default:
	}
	if text := r.Text(); text != "" {
		v.Text = &view.Quote{Text: hostile.Fold(text, spoken()), URL: s.textURL(e.Seq)}
	}
	for i := range r.Calls {
		v.Calls = append(v.Calls, s.made(&r.Calls[i]))
	}
	return v
}

// made is a call that a reply wants, or why there is none.
func (s *transcript) made(m *converse.MadeCall) view.MadeCall {
	v := view.MadeCall{Name: m.Name, Call: s.calls[m.ID]}
	switch {
	case v.Call != nil:
	case m.Builtin != nil:
		v.Text, v.Own = "The model read on in a long result. This is no call.", true
	case m.Refused != "":
		v.Text = m.Refused
	case s.told[m.ID] != "":
		v.Text = s.told[m.ID]
	default:
		v.Text, v.Own = "It is about to be made.", true
	}
	return v
}

func (s *transcript) toldOf(r *converse.Result) view.Told {
	v := view.Told{Name: cmp.Or(s.tools[r.CallID], "a tool"), Failed: r.IsError, Text: hostile.Fold(r.Text, hostile.Folded())}
	if s.calls[r.CallID] != nil {
		v.URL = callURL(r.CallID)
	}
	if n := len(r.Images); n > 0 {
		v.Images = "With " + plural(n, "image", "images") + " of the result, if the model sees any."
	}
	return v
}

// ledTo is what led to a call; nil when Holdpoint did not hear it.
func (u *UI) ledTo(ctx context.Context, c *call.Call) (*view.Led, error) {
	said, err := u.cfg.Converse.Context(ctx, c.ID)
	if errors.Is(err, converse.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	v := &view.Led{URL: entryURL(said.ConversationID, said.Seq), At: said.MessageAt}
	if said.Reason != "" {
		reason := hostile.Fold(said.Reason, beside())
		v.Reason = &reason
	}
	if m := said.Message; m != nil {
		names, err := u.names(ctx, m.By)
		if err != nil {
			return nil, err
		}
		text := hostile.Fold(m.Text, beside())
		v.By, v.Said = personName(m.By, names), &text
	}
	return v, nil
}
