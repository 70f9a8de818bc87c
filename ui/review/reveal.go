package review

import (
	"net/http"

	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Reveal shows the secrets among a call's arguments, on its page or as text, after that was recorded.
// The answer is no redirect: no address shows them to whoever comes back to it.
func (h *CallHandler) Reveal(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	subject, err := h.reader.subject(r.Context(), access, id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	hidden := subject.secrets().Count(subject.call.Arguments)
	if hidden == 0 {
		shell.Redirect(w, r, formatOf(r).url(present.CallURL(id)))
		return
	}
	asText := r.PostFormValue("as") == "text"
	form := "page"
	if asText {
		form = "text"
	}
	if err := h.calls.RecordReveal(r.Context(), id, access.Person.ID, hidden, form); err != nil {
		h.Fail(w, r, err)
		return
	}
	if asText {
		shell.SendText(w, "arguments", id, subject.call.Arguments)
		return
	}
	h.answerWithCall(w, r, http.StatusOK, shown{reveal: true, draft: shell.Clean(r.PostFormValue(reasonField))})
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
