package ui

import (
	"net/http"

	"github.com/holdpoint/holdpoint/runtime/call"
)

// downloadArguments gives the bytes as they are stored.
func (u *UI) downloadArguments(w http.ResponseWriter, r *http.Request) {
	u.download(w, r, "arguments", func(c *call.Call) []byte { return c.Arguments })
}

// downloadResult gives the bytes that the server answered with.
func (u *UI) downloadResult(w http.ResponseWriter, r *http.Request) {
	u.download(w, r, "result", func(c *call.Call) []byte { return c.Result })
}

// download hands out text from outside so that no browser takes it for anything else: as a
// plain text file, which is saved and not shown.
func (u *UI) download(w http.ResponseWriter, r *http.Request, name string, content func(*call.Call) []byte) {
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
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+"-"+id.String()+`.txt"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	_, _ = w.Write(content(&c)) // the client may be gone
}
