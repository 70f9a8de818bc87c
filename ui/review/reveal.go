package review

import (
	"net/http"

	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// Reveal shows the secrets in a call's arguments on its page or as text, and logs it first. It does not redirect, so that no URL shows the
// secrets later.
func (h *CallHandler) Reveal(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	subject, err := h.reader.readSubject(r.Context(), access, id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	hidden := subject.hidden
	if hidden == 0 {
		shell.Redirect(w, r, formatOf(r).callURL(present.CallURL(id)))
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

// redactArguments returns the call's arguments without secrets.
func (s *subject) redactArguments() []byte {
	return hostile.Redact(s.call.Arguments, s.secrets)
}
