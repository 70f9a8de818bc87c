package ui

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/converse"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// talkRoutes are about conversations that Holdpoint runs itself. Everybody who sees conversations sees them; who speaks in
// one is whom it is held for.
func (u *UI) talkRoutes() []Route {
	return []Route{
		{"GET /conversations/new", both(), u.newTalk},
		{"POST /conversations/new", both(), u.startTalk},
		{"GET /conversations/{id}/entries/{seq}", both(), u.showEntry},
		{"POST /conversations/{id}/messages", both(), u.say},
		{"POST /conversations/{id}/stop", both(), u.stopTalk},
		{"POST /conversations/{id}/close", both(), u.closeTalk},
		{"POST /conversations/{id}/fork", both(), u.fork},
	}
}

// messageField is the form's field for what is said.
const messageField = "message"

// message is what was typed, as it is kept when it cannot be sent.
func message(r *http.Request) string {
	return strings.ReplaceAll(r.PostFormValue(messageField), "\r\n", "\n")
}

// say sends a message. What was typed is kept when it cannot be sent.
func (u *UI) say(w http.ResponseWriter, r *http.Request) {
	t, err := u.talkOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	text := message(r)
	_, err = u.cfg.Converse.SayOnce(r.Context(), t.viewer(access), t.ID, text, formKey(r))
	status, why, known := talkFailure(err)
	switch {
	case err == nil && partOnly(r):
		u.sayAgain(w, r, t, http.StatusOK, view.SayForm{})
	case err == nil:
		http.Redirect(w, r, conversationURL(t.ID), http.StatusSeeOther)
	case known && !errors.Is(err, converse.ErrReadOnly):
		u.sayAgain(w, r, t, status, view.SayForm{Draft: clean(text), Error: "Nothing was sent. " + why.Text})
	default:
		u.fail(w, r, err)
	}
}

// formKey names one form, which may arrive more than once; empty: nobody knows which.
func formKey(r *http.Request) string {
	key, err := uuid.Parse(r.PostFormValue("key"))
	if err != nil {
		return ""
	}
	return key.String()
}

// openingKey names a form with what it says: one that somebody goes back to, to say something else, is another.
func openingKey(r *http.Request) string {
	key, err := uuid.Parse(r.PostFormValue("key"))
	if err != nil {
		return ""
	}
	return uuid.NewSHA1(key, []byte(message(r))).String()
}

// sayAgain shows the form once more: within the page that is there, or with the page around it. Where nothing more can be
// said, what was typed is shown for whoever wants to keep it.
func (u *UI) sayAgain(w http.ResponseWriter, r *http.Request, t *talk, status int, f view.SayForm) {
	if !partOnly(r) {
		u.showTalk(w, r, t, status, f)
		return
	}
	if form := u.sayForm(t, &view.Talk{}, f); form != nil {
		u.render(w, r, status, view.SayPart(*form))
		return
	}
	u.fail(w, r, converse.ErrReadOnly)
}

// stopTalk stops what is under way. That it has ended by itself is as well.
func (u *UI) stopTalk(w http.ResponseWriter, r *http.Request) {
	t, err := u.talkOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	err = u.cfg.Converse.Stop(r.Context(), t.viewer(access), actor(r), t.ID)
	if err != nil && !errors.Is(err, converse.ErrIdle) && !errors.Is(err, converse.ErrEnded) {
		u.fail(w, r, err)
		return
	}
	if !partOnly(r) {
		http.Redirect(w, r, conversationURL(t.ID), http.StatusSeeOther)
		return
	}
	if t, err = u.talkOf(r); err != nil {
		u.fail(w, r, err)
		return
	}
	u.showTalk(w, r, t, http.StatusOK, view.SayForm{})
}

// closeTalk ends a conversation, after a second step.
func (u *UI) closeTalk(w http.ResponseWriter, r *http.Request) {
	t, err := u.talkOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	switch {
	case !t.speaks:
		u.fail(w, r, converse.ErrReadOnly)
	case r.PostFormValue("confirmed") == "":
		pulse, err := u.cfg.Calls.Pulse(r.Context())
		if err != nil {
			u.fail(w, r, err)
			return
		}
		page := u.page(r, view.SectionConversations, "Close a conversation", pulse)
		u.render(w, r, http.StatusOK, view.ClosePage(page, conversationURL(t.ID), t.agent))
	default:
		err := u.cfg.Converse.End(r.Context(), t.viewer(access), actor(r), t.ID)
		if err != nil && !errors.Is(err, converse.ErrEnded) {
			u.fail(w, r, err)
			return
		}
		http.Redirect(w, r, conversationURL(t.ID), http.StatusSeeOther)
	}
}

// fork begins another conversation with what was said up to an entry.
func (u *UI) fork(w http.ResponseWriter, r *http.Request) {
	t, err := u.talkOf(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	seq, err := strconv.ParseInt(r.PostFormValue("seq"), 10, 64)
	if err != nil {
		seq = 0 // none
	}
	made, err := u.cfg.Converse.Fork(r.Context(), t.viewer(access), actor(r), t.ID, seq, "")
	if err != nil {
		u.fail(w, r, err)
		return
	}
	http.Redirect(w, r, conversationURL(made.ID), http.StatusSeeOther)
}

// newTalk asks for the first message of a conversation.
func (u *UI) newTalk(w http.ResponseWriter, r *http.Request) {
	u.answerWithNewTalk(w, r, http.StatusOK, view.NewTalk{Agent: r.URL.Query().Get("agent")})
}

func (u *UI) answerWithNewTalk(w http.ResponseWriter, r *http.Request, status int, n view.NewTalk) {
	access, _ := login.Access(r.Context())
	agents, err := u.talkative(r, access)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	for i := range agents {
		n.Agents = append(n.Agents, agents[i].Name)
	}
	pulse, err := u.cfg.Calls.Pulse(r.Context())
	if err != nil {
		u.fail(w, r, err)
		return
	}
	n.Note = u.principalNote()
	n.Key = uuid.NewString()
	u.render(w, r, status, view.NewTalkPage(u.page(r, view.SectionConversations, "Start a conversation", pulse), n))
}

// maxTalkative bounds how many agents a form offers.
const maxTalkative = 1000

// talkative are the agents that the person may act as and that have a model.
func (u *UI) talkative(r *http.Request, access identity.Access) ([]agent.Agent, error) {
	var list []agent.Agent
	if len(access.Agents) == 0 {
		return nil, nil
	}
	for after := ""; ; {
		found, next, err := u.cfg.Agents.Agents(r.Context(), after, maxTalkative)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if mayStart(access, &found[i]) {
				list = append(list, found[i])
			}
		}
		if after = next; after == "" || len(list) >= maxTalkative {
			return list, nil
		}
	}
}

// mayStart reports whether the person may start a conversation with the agent.
func mayStart(access identity.Access, a *agent.Agent) bool {
	return a.Model != nil && access.MayActAs(a.Name)
}

// startTalk starts a conversation on behalf of whoever sent the form.
func (u *UI) startTalk(w http.ResponseWriter, r *http.Request) {
	access, _ := login.Access(r.Context())
	n := view.NewTalk{Agent: r.PostFormValue("agent"), Draft: clean(message(r))}
	agents, err := u.talkative(r, access)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	at := slices.IndexFunc(agents, func(a agent.Agent) bool { return a.Name == n.Agent })
	if at < 0 {
		n.Error = "Choose an agent that you may act as and that has a model."
		u.answerWithNewTalk(w, r, http.StatusUnprocessableEntity, n)
		return
	}
	if strings.TrimSpace(message(r)) == "" {
		n.Error = "Nothing was started. Write what the agent is to do."
		u.answerWithNewTalk(w, r, http.StatusUnprocessableEntity, n)
		return
	}
	made, err := u.cfg.Converse.Begin(r.Context(), converse.Opening{Agent: &agents[at], Principal: access.Person.ID, Message: message(r), Key: openingKey(r)})
	var invalid *converse.InvalidError
	switch {
	case errors.As(err, &invalid):
		n.Error = "Nothing was started. Expected " + invalid.Expected + "."
		u.answerWithNewTalk(w, r, http.StatusUnprocessableEntity, n)
	case err != nil:
		u.fail(w, r, err)
	default:
		http.Redirect(w, r, conversationURL(made.ID), http.StatusSeeOther)
	}
}
