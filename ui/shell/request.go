package shell

import (
	"errors"
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/login"
)

// Clean removes bytes that the database cannot store as text.
func Clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, ""), "\x00", "")
}

// SendText sends text from outside as a plain text download, so that no browser interprets it.
func SendText(w http.ResponseWriter, name string, id uuid.UUID, content []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="`+name+"-"+id.String()+`.txt"`)
	h.Set("Content-Security-Policy", "default-src 'none'; sandbox; frame-ancestors 'none'")
	_, _ = w.Write(content) // the client may be gone
}

// Actor returns the signed-in person for the audit log.
func Actor(r *http.Request) audit.Actor {
	access, _ := login.Access(r.Context())
	return audit.Person(access.Person.ID)
}

// Redirect leads from a form to a page. A path that is not on this server leads to the queue.
func Redirect(w http.ResponseWriter, r *http.Request, path string) {
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") || strings.HasPrefix(path, `/\`) {
		path = "/"
	}
	http.Redirect(w, r, path, http.StatusSeeOther)
}

// PartOnly reports whether the request is for a part of a page.
func PartOnly(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

// ErrNoID means that the address has no valid ID of a call.
var ErrNoID = errors.New("not the id of a call")

// CallID reads the ID of the call from the request's path.
func CallID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return uuid.Nil, ErrNoID
	}
	return id, nil
}

// MayEdit reports whether the signed-in person may change skills and agents.
func MayEdit(r *http.Request) bool {
	access, _ := login.Access(r.Context())
	return access.Has(identity.Operator)
}
