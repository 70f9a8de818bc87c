package ui

import "net/http"

// confirm shows the second step of an approval, or goes back from it. It changes nothing.
func (u *UI) confirm(w http.ResponseWriter, r *http.Request) {
	note, complaint := reason(r, reasonField)
	how := shown{draft: note, err: complaint, confirm: r.PostFormValue("back") == "" && complaint == ""}
	if text := r.PostFormValue(editedField); text != "" {
		subject, ok := u.decidable(w, r)
		if !ok {
			return
		}
		edited, problems := u.checked(r.Context(), subject, []byte(text))
		if how.edited = edited; len(problems) > 0 {
			how.confirm = false
			how.err = "The edited arguments are no longer what the tool takes. Edit them again."
		}
	}
	u.answerWithCall(w, r, http.StatusOK, how)
}
