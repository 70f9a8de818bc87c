package ui

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/ui/login"
)

// downloadArguments gives the bytes as they are stored, but for secrets: those are revealed first.
func (u *UI) downloadArguments(w http.ResponseWriter, r *http.Request) {
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
	sendText(w, "arguments", id, subject.redacted())
}

// downloadResult gives the bytes that the server answered with.
func (u *UI) downloadResult(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	c, err := u.cfg.Calls.Get(r.Context(), call.Viewer{}, id)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	sendText(w, "result", id, c.Result)
}

// downloadFile gives the content of what is attached to a call, which is noted.
func (u *UI) downloadFile(w http.ResponseWriter, r *http.Request) {
	id, err := callID(r)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	fileID, err := uuid.Parse(r.PathValue("file"))
	if err != nil {
		u.fail(w, r, errNoID)
		return
	}
	opened, err := u.cfg.Calls.OpenFile(r.Context(), call.Viewer{}, actor(r), id, fileID)
	if err != nil {
		u.fail(w, r, err)
		return
	}
	u.cfg.Calls.Files.Send(w, r, opened)
}

// sendText hands out text from outside so that no browser takes it for anything else: as a
// plain text file, which is saved and not shown.
func sendText(w http.ResponseWriter, name string, id uuid.UUID, content []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+"-"+id.String()+`.txt"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	_, _ = w.Write(content) // the client may be gone
}
