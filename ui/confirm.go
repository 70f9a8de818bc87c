package ui

import "net/http"

// confirm shows the second step of an approval, or goes back from it. It changes nothing.
func (u *UI) confirm(w http.ResponseWriter, r *http.Request) {
	note, complaint := reason(r, reasonField)
	how := shown{draft: note, err: complaint, confirm: r.PostFormValue("back") == "" && complaint == ""}
	valid, ok := u.carryEdit(w, r, &how)
	if !ok {
		return
	}
	how.confirm = how.confirm && valid
	u.answerWithCall(w, r, http.StatusOK, how)
}
