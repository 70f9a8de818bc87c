package review

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/shell"
)

// DownloadArguments gives the bytes as they are stored, but for secrets: those are revealed first.
func (h *CallHandler) DownloadArguments(w http.ResponseWriter, r *http.Request) {
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
	shell.SendText(w, "arguments", id, subject.redactArguments())
}

// DownloadResult sends the bytes of the server's answer.
func (h *CallHandler) DownloadResult(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	c, err := h.calls.Get(r.Context(), call.Viewer{}, id)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	shell.SendText(w, "result", id, c.Result)
}

// DownloadFile sends the content of an attached file and logs it.
func (h *CallHandler) DownloadFile(w http.ResponseWriter, r *http.Request) {
	id, err := shell.CallID(r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	fileID, err := uuid.Parse(r.PathValue("file"))
	if err != nil {
		h.Fail(w, r, shell.ErrNoID)
		return
	}
	opened, err := h.calls.OpenFile(r.Context(), call.Viewer{}, shell.Actor(r), id, fileID)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.calls.Files.Send(w, r, opened)
}
