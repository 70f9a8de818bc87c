package review

import (
	"net/http"

	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// Seen records that the reader has the call on the screen. It does not change the call.
func (h *CallHandler) Seen(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	access, _ := login.Access(r.Context())
	if err := h.presence.Seen(r.Context(), id, access.Person.ID); err != nil {
		h.Fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
