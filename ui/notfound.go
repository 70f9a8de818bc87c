package ui

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/ui/view"
)

// unknown says that something of the registry is not at the request's address, and what became of it where that is known.
func (u *UI) unknown(r *http.Request) view.Notice {
	noun := map[string]string{"/skills": "skill", "/agents": "agent", "/conversations": "conversation"}[firstPart(r.URL.Path)]
	if noun == "" {
		return view.Notice{Level: view.Danger, Title: "Not found", Text: "What this is about is not here, or not any more."}
	}
	n := view.Notice{Level: view.Danger, Title: "No such " + noun, Text: "There is no " + noun + " at this address."}
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return n
	}
	names, err := u.cfg.Agents.Names(r.Context(), []uuid.UUID{id})
	if name := names[id]; err == nil && name != "" {
		if u.deleted(r, noun, id) {
			n.Title, n.Text = "Deleted", "The "+noun+" "+name+" was deleted. What was recorded of it stays."
			if mayEdit(r) {
				n.URL, n.Word = "/audit?subject="+id.String(), "What happened to it"
			}
		}
	}
	return n
}

// deleted reports whether the thing itself, and not something within it, is what is no longer there.
func (u *UI) deleted(r *http.Request, noun string, id uuid.UUID) bool {
	var err error
	if noun == "skill" {
		_, _, err = u.cfg.Agents.FreshSkill(r.Context(), id)
	} else {
		_, err = u.cfg.Agents.AgentByID(r.Context(), id)
	}
	return err != nil
}

// nowhere answers at an address that nothing is at. It needs no sign-in: it says the same to everybody.
func (u *UI) nowhere(w http.ResponseWriter, r *http.Request) {
	u.render(w, r, http.StatusNotFound, view.MessagePage(u.barePage(r, "Not found"), view.Notice{
		Level: view.Danger, Title: "Not found", Text: "There is no page at this address.",
	}))
}

// orNowhere serves pages, and says in a page too that there is none. What the mux answers to a method that a page does not
// take stays as it is.
func (u *UI) orNowhere(pages *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler, pattern := pages.Handler(r)
		if pattern != "" {
			pages.ServeHTTP(w, r)
			return
		}
		answer := &statusOnly{header: http.Header{}}
		if handler.ServeHTTP(answer, r); answer.status == http.StatusNotFound {
			u.nowhere(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// statusOnly takes the status of an answer, and drops the rest.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(b []byte) (int, error) { return len(b), nil }
