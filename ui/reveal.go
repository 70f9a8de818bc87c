package ui

import (
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/tool"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// reveal shows the secrets among a call's arguments, on its page or as text, after that was recorded.
// The answer is no redirect: no address shows them to whoever comes back to it.
func (u *UI) reveal(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	subject, err := u.subject(r.Context(), access, id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	hidden := subject.secrets().Count(subject.call.Arguments)
	if hidden == 0 {
		http.Redirect(w, r, formatOf(r).url(callURL(id)), http.StatusSeeOther)
		return
	}
	asText := r.PostFormValue("as") == "text"
	form := "page"
	if asText {
		form = "text"
	}
	if err := u.cfg.Calls.Revealed(r.Context(), id, access.Person.ID, hidden, form); err != nil {
		u.fail(w, r, err)
		return
	}
	if asText {
		sendText(w, "arguments", id, subject.call.Arguments)
		return
	}
	u.answerWithCall(w, r, http.StatusOK, shown{reveal: true, draft: clean(r.PostFormValue(reasonField))})
}

// secrets are the values among the call's arguments that are hidden until somebody asks.
func (s *subject) secrets() *hostile.Secrets {
	if s.definition == nil {
		return hostile.SecretsOf(nil)
	}
	return hostile.SecretsOf(s.definition.InputSchema)
}

// redacted are the call's arguments as anybody who may see the call sees them.
func (s *subject) redacted() []byte {
	text, _ := s.secrets().Redacted(s.call.Arguments)
	return text
}

// brief are the limits of a line about the call.
func (s *subject) brief() hostile.Limits {
	l := hostile.Brief()
	l.Secrets = s.secrets()
	return l
}

// briefOf are the limits of a line about a call of this tool.
func briefOf(d tool.Definition) hostile.Limits {
	l := hostile.Brief()
	l.Secrets = hostile.SecretsOf(d.InputSchema)
	return l
}
