package ui

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// talk is a conversation that Holdpoint runs itself, and how somebody looks at it.
type talk struct {
	converse.Conversation
	base   *catalog.Conversation
	agent  string // its name
	draft  converse.Draft
	before int64  // only entries before this one are shown; 0: the latest
	speaks bool   // the reader may speak
	silent string // why not
}

// talkOf reads a conversation for a request. converse.ErrNotFound: it is none that Holdpoint runs itself.
func (u *UI) talkOf(r *http.Request) (*talk, error) {
	ctx := r.Context()
	base, err := u.conversation(r)
	if err != nil {
		return nil, err
	}
	t := &talk{base: base}
	if t.Conversation, err = u.cfg.Converse.Get(ctx, converse.Viewer{}, base.ID); err != nil {
		return nil, err
	}
	names, err := u.cfg.Agents.Names(ctx, []uuid.UUID{t.AgentID})
	if err != nil {
		return nil, err
	}
	t.agent = names[t.AgentID]
	access, _ := login.Access(ctx)
	if err := u.mayTalk(ctx, access, t); err != nil {
		return nil, err
	}
	if t.before = windowOf(r, t.Seq); t.before == 0 && t.Status == converse.Running {
		t.draft, err = u.cfg.Converse.Draft(ctx, t.ID)
	}
	return t, err
}

// viewer is the reader as one of the conversation's own.
func (t *talk) viewer(access identity.Access) converse.Viewer {
	if access.MayActAs(t.agent) {
		return converse.Viewer{AgentID: t.AgentID, PrincipalID: access.Person.ID}
	}
	return converse.Viewer{}
}

// mayTalk finds out whether the reader may speak in the conversation, and if not, why.
func (u *UI) mayTalk(ctx context.Context, access identity.Access, t *talk) error {
	switch {
	case t.Status == converse.Ended:
		t.silent = "It has ended, and takes no more messages."
	case t.PrincipalID == uuid.Nil:
		t.silent = "You look at it. Only clients of the agent itself speak in it: it is held on nobody’s behalf."
	case t.PrincipalID != access.Person.ID:
		names, err := u.names(ctx, t.PrincipalID)
		if err != nil {
			return err
		}
		t.silent = "You look at it. Only " + personName(t.PrincipalID, names) + " speaks in it."
	case !access.MayActAs(t.agent):
		t.silent = "You held this conversation, but may not act as its agent any more."
	}
	t.speaks = t.PrincipalID == access.Person.ID && access.MayActAs(t.agent)
	return nil
}

// entryParameter asks for the part of a conversation in which an entry is.
const entryParameter = "entry"

// windowOf is the entry before which those are that a request wants to see; 0: the latest. What cannot be read is as if it were not said.
func windowOf(r *http.Request, last int64) int64 {
	before, err := strconv.ParseInt(r.URL.Query().Get(pageParameter), 10, 64)
	if at, atErr := strconv.ParseInt(r.URL.Query().Get(entryParameter), 10, 64); atErr == nil && at > 0 && at <= last-entriesPage {
		before, err = at+entriesPage/2, nil
	}
	if err != nil || before <= 0 || before > last {
		return 0
	}
	return before
}

// entryURL is where an entry of a conversation is shown.
func entryURL(conversation uuid.UUID, seq int64) string {
	number := strconv.FormatInt(seq, 10)
	return conversationURL(conversation) + "?" + entryParameter + "=" + number + "#entry-" + number
}

// windowURL is the address of a part of a conversation.
func (t *talk) windowURL(before int64, known string) string {
	url := conversationURL(t.ID)
	separator := "?"
	if before > 0 {
		url += separator + pageParameter + "=" + strconv.FormatInt(before, 10)
		separator = "&"
	}
	if known != "" {
		url += separator + "known=" + known
	}
	return url
}

// talkState differs when what is shown of a conversation does, but for countdowns.
func (u *UI) talkState(ctx context.Context, t *talk) (string, error) {
	calls, err := u.cfg.Calls.ConversationState(ctx, t.ID, uuid.Nil, entriesPage)
	if err != nil {
		return "", err
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, calls, t.Seq, t.Status, t.Stopping, t.OpenCalls, t.Turns, t.speaks, len(t.base.Problems), t.draft.Step, t.draft.Text)
	for i := range t.Pending {
		fmt.Fprint(sum, t.Pending[i].ID)
	}
	if t.base.Catalog != nil {
		fmt.Fprint(sum, t.base.Catalog.Digest())
	}
	return strconv.FormatUint(sum.Sum64(), 36), nil
}

// showTalk shows a conversation that Holdpoint runs itself, or, of what is on the screen, what changed.
func (u *UI) showTalk(w http.ResponseWriter, r *http.Request, t *talk, status int, say view.SayForm) {
	ctx := r.Context()
	state, err := u.talkState(ctx, t)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	if partOnly(r) && r.Method == http.MethodGet && r.URL.Query().Get("known") == state {
		w.WriteHeader(http.StatusNoContent) // it is on the screen
		return
	}
	pulse, err := u.cfg.Calls.Pulse(ctx)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	presented, err := u.presentTalk(ctx, t, pulse.Now)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	presented.URL = t.windowURL(t.before, state)
	if partOnly(r) {
		u.render(w, r, status, view.ConversationPart(presented))
		return
	}
	page := u.page(r, view.SectionConversations, "Conversation of "+presented.Agent, pulse)
	say.Hold = say.Hold || r.URL.Query().Get("hold") != "" || say.Error != ""
	if presented.Talk.Working && !say.Hold {
		page.RefreshAfter = conversationRenewal
	}
	u.render(w, r, status, view.ConversationPage(page, presented, u.sayForm(t, presented.Talk, say)))
}

// sayForm is where the reader writes; nil where they do not.
func (u *UI) sayForm(t *talk, stands *view.Talk, f view.SayForm) *view.SayForm {
	if !t.speaks || t.before > 0 {
		return nil
	}
	if t.Status == converse.Ended {
		if f.Draft == "" {
			return nil
		}
		f.Lost = &view.Notice{Level: view.Warn, Title: "Not sent.", Text: t.silent, Draft: f.Draft}
	}
	f.URL, f.Key, f.Note, f.Renew = conversationURL(t.ID), uuid.NewString(), u.principalNote(), stands.Working
	return &f
}

// principalNote says to whoever speaks what that means for them.
func (u *UI) principalNote() string {
	if u.cfg.Calls.AllowSelfApproval {
		return "Its calls are made on your behalf. You may decide about them yourself on this server."
	}
	return "Its calls are made on your behalf, so somebody else has to decide about those that need it."
}

// showEntry gives the whole text of a message or a reply.
func (u *UI) showEntry(w http.ResponseWriter, r *http.Request) {
	t, err := u.talkOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if err != nil || seq < 1 {
		u.fail(w, r, converse.ErrNotFound)
		return
	}
	list, err := u.cfg.Converse.Entries(r.Context(), converse.Viewer{}, t.ID, seq-1, 1)
	switch {
	case err != nil:
		u.fail(w, r, err)
	case len(list) == 1 && list[0].User != nil:
		sendText(w, "message-"+r.PathValue("seq"), t.ID, []byte(list[0].User.Text))
	case len(list) == 1 && list[0].Assistant != nil:
		sendText(w, "reply-"+r.PathValue("seq"), t.ID, []byte(list[0].Assistant.Text()))
	default:
		u.fail(w, r, converse.ErrNotFound)
	}
}

// talkFailure is what fail says of conversations; false when the error is another.
func talkFailure(err error) (status int, n view.Notice, ok bool) {
	n.Level = view.Danger
	var invalid *converse.InvalidError
	switch {
	case errors.Is(err, converse.ErrNotFound):
		status, n.Title, n.Text = http.StatusNotFound, "Not found", "There is no such conversation, or no such entry in it."
	case errors.Is(err, converse.ErrReadOnly):
		status, n.Title, n.Text = http.StatusForbidden, "Not your conversation", "You may look at it. Only whom it is held for speaks in it."
	case errors.Is(err, converse.ErrEnded):
		status, n.Title, n.Text = http.StatusConflict, "It has ended", "The conversation takes no more messages. You can fork it, and go on there."
	case errors.Is(err, converse.ErrNoModel):
		status, n.Title, n.Text = http.StatusConflict, "No model", "The agent has no model any more, so nobody would answer."
	case errors.Is(err, converse.ErrKeyReused):
		status, n.Title, n.Text = http.StatusConflict, "Sent already", "This form sent another message before. Look at what you wrote, and send it again."
	case errors.As(err, &invalid):
		status, n.Title, n.Text = http.StatusUnprocessableEntity, "That is not possible", "Expected "+invalid.Expected+"."
	default:
		return 0, n, false
	}
	return status, n, true
}

// noConversation answers that there is none.
func (u *UI) noConversation(w http.ResponseWriter, r *http.Request) {
	n := view.Notice{Title: "No such conversation", Text: "There is no conversation at this address."}
	u.render(w, r, http.StatusNotFound, view.MessagePage(u.page(r, view.SectionConversations, n.Title, approval.Pulse{Now: u.cfg.Now()}), n))
}
