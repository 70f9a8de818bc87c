package conversations

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/catalog"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// talk is a conversation that Holdpoint runs itself, with the view of a reader.
type talk struct {
	converse.Conversation
	base   *catalog.Conversation
	agent  string // its name
	draft  converse.Draft
	before int64        // only entries before this one are shown; 0: the latest
	speaks bool         // the reader may write
	silent text.Message // why the reader may not write
}

// talkOf reads the conversation of a request. If another program holds it, the error is converse.ErrNotFound.
func (h *TalkHandler) talkOf(r *http.Request) (*talk, error) {
	ctx := r.Context()
	base, err := h.reader.readConversation(r)
	if err != nil {
		return nil, err
	}
	t := &talk{base: base}
	if t.Conversation, err = h.converse.Get(ctx, converse.Viewer{}, base.ID); err != nil {
		return nil, err
	}
	names, err := h.agents.Names(ctx, []uuid.UUID{t.AgentID})
	if err != nil {
		return nil, err
	}
	t.agent = names[t.AgentID]
	access, _ := login.Access(ctx)
	if err := h.mayTalk(ctx, access, t); err != nil {
		return nil, err
	}
	if t.before = windowOf(r, t.Seq); t.before == 0 && t.Status == converse.Running {
		t.draft, err = h.converse.Draft(ctx, t.ID)
	}
	return t, err
}

// asViewer returns the reader as a viewer of the conversation.
func (t *talk) asViewer(access identity.Access) converse.Viewer {
	if access.MayActAs(t.agent) {
		return converse.Viewer{AgentID: t.AgentID, PrincipalID: access.Person.ID}
	}
	return converse.Viewer{}
}

// mayTalk sets whether the reader may write, or why not.
func (h *TalkHandler) mayTalk(ctx context.Context, access identity.Access, t *talk) error {
	switch {
	case t.Status == converse.Ended:
		t.silent = text.ConversationSilentEnded()
	case t.PrincipalID == uuid.Nil:
		t.silent = text.ConversationSilentClient()
	case t.PrincipalID != access.Person.ID:
		names, err := h.Names(ctx, t.PrincipalID)
		if err != nil {
			return err
		}
		t.silent = text.ConversationSilentOther(view.Printable(present.PersonName(t.PrincipalID, names)))
	case !access.MayActAs(t.agent):
		t.silent = text.ConversationSilentRevoked()
	}
	t.speaks = t.PrincipalID == access.Person.ID && access.MayActAs(t.agent)
	return nil
}

// windowOf returns the entry that ends the requested part of a conversation; 0 is the latest part. It ignores an invalid value.
func windowOf(r *http.Request, last int64) int64 {
	before, err := strconv.ParseInt(r.URL.Query().Get(shell.PageParameter), 10, 64)
	if at, atErr := strconv.ParseInt(r.URL.Query().Get(present.EntryParameter), 10, 64); atErr == nil && at > 0 && at <= last-entriesPage {
		before, err = at+entriesPage/2, nil
	}
	if err != nil || before <= 0 || before > last {
		return 0
	}
	return before
}

// windowURL returns the address of a part of a conversation.
func (t *talk) windowURL(before int64, known string) string {
	url := present.ConversationURL(t.ID)
	separator := "?"
	if before > 0 {
		url += separator + shell.PageParameter + "=" + strconv.FormatInt(before, 10)
		separator = "&"
	}
	if known != "" {
		url += separator + "known=" + known
	}
	return url
}

// talkState returns a text that changes with the page of a conversation, except for countdowns.
func (h *TalkHandler) talkState(ctx context.Context, t *talk) (string, error) {
	calls, err := h.history.ConversationState(ctx, t.ID, uuid.Nil, entriesPage)
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

// showTalk shows a conversation that Holdpoint runs itself, or only its part that renews itself.
func (h *TalkHandler) showTalk(w http.ResponseWriter, r *http.Request, t *talk, status int, say SayForm) {
	ctx := r.Context()
	state, err := h.talkState(ctx, t)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	if shell.PartOnly(r) && r.Method == http.MethodGet && r.URL.Query().Get("known") == state {
		w.WriteHeader(http.StatusNoContent) // the page is current
		return
	}
	pulse, err := h.calls.ReadPulse(ctx)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	presented, err := h.presentTalk(ctx, t, pulse.Now)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	presented.URL = t.windowURL(t.before, state)
	if shell.PartOnly(r) {
		h.Render(w, r, status, ConversationPart(presented))
		return
	}
	page := h.Page(r, view.SectionConversations, text.Literal(view.Printable(presented.Title)), pulse)
	say.Hold = say.Hold || r.URL.Query().Get("hold") != "" || !say.Error.IsZero()
	if presented.Talk.Working && !say.Hold {
		page.RefreshAfter = conversationRenewal
	}
	h.Render(w, r, status, ConversationPage(page, presented, h.sayForm(t, presented.Talk, say)))
}

// sayForm returns the form for a message, or nil if the reader may not write.
func (h *TalkHandler) sayForm(t *talk, stands *Talk, f SayForm) *SayForm {
	if !t.speaks || t.before > 0 {
		return nil
	}
	if t.Status == converse.Ended {
		if f.Draft == "" {
			return nil
		}
		f.Lost = &view.Notice{Level: view.Warn, Title: text.ConversationNotSent(), Text: t.silent, Draft: f.Draft}
	}
	f.URL, f.Key, f.Note, f.Renew = present.ConversationURL(t.ID), uuid.NewString(), h.principalNote(), stands.Working
	return &f
}

// principalNote says who decides the calls of a conversation.
func (h *TalkHandler) principalNote() text.Message {
	if h.calls.AllowSelfApproval {
		return text.ConversationSelfApproval()
	}
	return text.ConversationOtherApproval()
}

// ShowEntry sends the whole text of a message or reply.
func (h *TalkHandler) ShowEntry(w http.ResponseWriter, r *http.Request) {
	t, err := h.talkOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	seq, err := strconv.ParseInt(r.PathValue("seq"), 10, 64)
	if err != nil || seq < 1 {
		h.Fail(w, r, converse.ErrNotFound)
		return
	}
	list, err := h.converse.Entries(r.Context(), converse.Viewer{}, t.ID, seq-1, 1)
	switch {
	case err != nil:
		h.Fail(w, r, err)
	case len(list) == 1 && list[0].User != nil:
		shell.SendText(w, "message-"+r.PathValue("seq"), t.ID, []byte(list[0].User.Text))
	case len(list) == 1 && list[0].Assistant != nil:
		shell.SendText(w, "reply-"+r.PathValue("seq"), t.ID, []byte(list[0].Assistant.Text()))
	default:
		h.Fail(w, r, converse.ErrNotFound)
	}
}

// ExplainError explains errors about conversations.
func ExplainError(_ *http.Request, err error) (status int, n view.Notice, ok bool) {
	n.Level = view.Danger
	var invalid *fault.InvalidError
	switch {
	case errors.Is(err, converse.ErrNotFound):
		status, n.Title, n.Text = http.StatusNotFound, text.ConversationNotFound(), text.ConversationNotFoundText()
	case errors.Is(err, converse.ErrReadOnly):
		status, n.Title, n.Text = http.StatusForbidden, text.ConversationNotYours(), text.ConversationNotYoursText()
	case errors.Is(err, converse.ErrEnded):
		status, n.Title, n.Text = http.StatusConflict, text.ConversationHasEnded(), text.ConversationHasEndedText()
	case errors.Is(err, converse.ErrNoModel):
		status, n.Title, n.Text = http.StatusConflict, text.ConversationNoModel(), text.ConversationNoModelText()
	case errors.Is(err, converse.ErrKeyReused):
		status, n.Title, n.Text = http.StatusConflict, text.ConversationSentBefore(), text.ConversationSentBeforeText()
	case errors.As(err, &invalid):
		status, n.Title, n.Text = http.StatusUnprocessableEntity, text.ConversationInvalid(), text.ConversationInvalidText(invalid.Fields[0].Name, invalid.Fields[0].Expected)
	default:
		return 0, n, false
	}
	return status, n, true
}

// answerNotFound answers that the conversation does not exist.
func (h *TalkHandler) answerNotFound(w http.ResponseWriter, r *http.Request) {
	n := view.Notice{Title: text.ConversationNoSuch(), Text: text.ConversationNoAddress()}
	h.Render(w, r, http.StatusNotFound, view.MessagePage(h.Page(r, view.SectionConversations, n.Title, approval.Pulse{Now: h.Now()}), n))
}
