package review

import (
	"net/http"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
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

// noteLook records that the reader has a pending call on the screen, if the page's script says so with the request for it.
func (h *CallHandler) noteLook(r *http.Request, access identity.Access, s *subject) error {
	if r.URL.Query().Get("look") == "" || !shell.PartOnly(r) || r.Method != http.MethodGet || s.approval == nil || s.approval.Status != approval.Pending {
		return nil
	}
	return h.presence.Seen(r.Context(), s.call.ID, access.Person.ID)
}
