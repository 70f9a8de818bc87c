package conversations

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/fault"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// messageField is the form's field for the message.
const messageField = "message"

// typedMessage returns the message of a form.
func typedMessage(r *http.Request) string {
	return strings.ReplaceAll(r.PostFormValue(messageField), "\r\n", "\n")
}

// Say sends a message. If it cannot be sent, the form shows it again.
func (h *TalkHandler) Say(w http.ResponseWriter, r *http.Request) {
	t, err := h.talkOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	said := typedMessage(r)
	_, err = h.converse.SayOnce(r.Context(), t.asViewer(access), t.ID, said, formKey(r))
	status, why, known := ExplainError(r, err)
	switch {
	case err == nil && shell.PartOnly(r):
		h.sayAgain(w, r, t, http.StatusOK, SayForm{})
	case err == nil:
		shell.Redirect(w, r, present.ConversationURL(t.ID))
	case known && !errors.Is(err, converse.ErrReadOnly):
		h.sayAgain(w, r, t, status, SayForm{Draft: shell.Clean(said), Error: text.ConversationNothingSent(why.Text)})
	default:
		h.Fail(w, r, err)
	}
}

// formKey identifies a form, which may arrive more than once; "": unknown.
func formKey(r *http.Request) string {
	key, err := uuid.Parse(r.PostFormValue("key"))
	if err != nil {
		return ""
	}
	return key.String()
}

// openingKey identifies a form together with its message: the same form with another message starts another conversation.
func openingKey(r *http.Request) string {
	key, err := uuid.Parse(r.PostFormValue("key"))
	if err != nil {
		return ""
	}
	return uuid.NewSHA1(key, []byte(typedMessage(r))).String()
}

// sayAgain shows the form again, alone or with its page. If the conversation has ended, it shows the message so that the reader can keep
// it.
func (h *TalkHandler) sayAgain(w http.ResponseWriter, r *http.Request, t *talk, status int, f SayForm) {
	if !shell.PartOnly(r) {
		h.showTalk(w, r, t, status, f)
		return
	}
	if form := h.sayForm(t, &Talk{}, f); form != nil {
		h.Render(w, r, status, SayPart(*form))
		return
	}
	h.Fail(w, r, converse.ErrReadOnly)
}

// StopTalk stops the current turn. It is no error if the turn has ended by itself.
func (h *TalkHandler) StopTalk(w http.ResponseWriter, r *http.Request) {
	t, err := h.talkOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	err = h.converse.Stop(r.Context(), t.asViewer(access), shell.Actor(r), t.ID)
	if err != nil && !errors.Is(err, converse.ErrIdle) && !errors.Is(err, converse.ErrEnded) {
		h.Fail(w, r, err)
		return
	}
	if !shell.PartOnly(r) {
		shell.Redirect(w, r, present.ConversationURL(t.ID))
		return
	}
	if t, err = h.talkOf(r); err != nil {
		h.Fail(w, r, err)
		return
	}
	h.showTalk(w, r, t, http.StatusOK, SayForm{})
}

// CloseTalk ends a conversation after confirmation.
func (h *TalkHandler) CloseTalk(w http.ResponseWriter, r *http.Request) {
	t, err := h.talkOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	switch {
	case !t.speaks:
		h.Fail(w, r, converse.ErrReadOnly)
	case r.PostFormValue("confirmed") == "":
		pulse, err := h.calls.ReadPulse(r.Context())
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		page := h.Page(r, view.SectionConversations, text.ConversationCloseTitle(), pulse)
		h.Render(w, r, http.StatusOK, ClosePage(page, present.ConversationURL(t.ID), t.agent))
	default:
		err := h.converse.End(r.Context(), t.asViewer(access), shell.Actor(r), t.ID)
		if err != nil && !errors.Is(err, converse.ErrEnded) {
			h.Fail(w, r, err)
			return
		}
		shell.RedirectDone(w, r, present.ConversationURL(t.ID), shell.ConversationClosed)
	}
}

// Fork starts another conversation with the entries up to one.
func (h *TalkHandler) Fork(w http.ResponseWriter, r *http.Request) {
	t, err := h.talkOf(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	seq, err := strconv.ParseInt(r.PostFormValue("seq"), 10, 64)
	if err != nil {
		seq = 0 // none
	}
	made, err := h.converse.Fork(r.Context(), t.asViewer(access), shell.Actor(r), t.ID, seq, "")
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.Redirect(w, r, present.ConversationURL(made.ID))
}

// NewTalk shows the form that starts a conversation.
func (h *TalkHandler) NewTalk(w http.ResponseWriter, r *http.Request) {
	h.answerWithNewTalk(w, r, http.StatusOK, NewTalk{Agent: r.URL.Query().Get("agent")})
}

func (h *TalkHandler) answerWithNewTalk(w http.ResponseWriter, r *http.Request, status int, n NewTalk) {
	access, _ := login.Access(r.Context())
	agents, err := h.readTalkAgents(r, access)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	for i := range agents {
		n.Agents = append(n.Agents, agents[i].Name)
	}
	pulse, err := h.calls.ReadPulse(r.Context())
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	n.Note = h.principalNote()
	n.Key = uuid.NewString()
	h.Render(w, r, status, NewTalkPage(h.Page(r, view.SectionConversations, text.ConversationStartTitle(), pulse), n))
}

// maxTalkAgents bounds the agents that a form offers.
const maxTalkAgents = 1000

// readTalkAgents returns the agents with a model that the person may act as.
func (h *TalkHandler) readTalkAgents(r *http.Request, access identity.Access) ([]agent.Agent, error) {
	var list []agent.Agent
	if len(access.Agents) == 0 {
		return nil, nil
	}
	for after := ""; ; {
		found, next, err := h.agents.Agents(r.Context(), after, maxTalkAgents)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if shell.MayStart(access, &found[i]) {
				list = append(list, found[i])
			}
		}
		if after = next; after == "" || len(list) >= maxTalkAgents {
			return list, nil
		}
	}
}

// StartTalk starts a conversation on behalf of the sender of the form.
func (h *TalkHandler) StartTalk(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	n := NewTalk{Agent: r.PostFormValue("agent"), Draft: shell.Clean(typedMessage(r))}
	agents, err := h.readTalkAgents(r, access)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	at := slices.IndexFunc(agents, func(a agent.Agent) bool { return a.Name == n.Agent })
	if at < 0 {
		n.Error = text.ConversationChooseAgent()
		h.answerWithNewTalk(w, r, http.StatusUnprocessableEntity, n)
		return
	}
	if strings.TrimSpace(typedMessage(r)) == "" {
		n.Error = text.ConversationWriteMessage()
		h.answerWithNewTalk(w, r, http.StatusUnprocessableEntity, n)
		return
	}
	made, err := h.converse.Begin(r.Context(), converse.Opening{Agent: &agents[at], Principal: access.Person.ID, Message: typedMessage(r), Key: openingKey(r)})
	var invalid *fault.InvalidError
	switch {
	case errors.As(err, &invalid):
		n.Error = text.ConversationNotStarted(invalid.Fields[0].Expected)
		h.answerWithNewTalk(w, r, http.StatusUnprocessableEntity, n)
	case err != nil:
		h.Fail(w, r, err)
	default:
		shell.Redirect(w, r, present.ConversationURL(made.ID))
	}
}
