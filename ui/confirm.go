package ui

import "net/http"

// confirm shows the second step of an approval, or goes back from it. It changes nothing.
func (u *UI) confirm(w http.ResponseWriter, r *http.Request) {
	note, complaint := reason(r, reasonField)
	u.answerWithCall(w, r, http.StatusOK, shown{
		draft: note, err: complaint, confirm: r.PostFormValue("back") == "" && complaint == "",
	})
}
