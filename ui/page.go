package ui

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/a-h/templ"
	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/runtime/agent"
	"github.com/holdpoint/holdpoint/runtime/call"
	"github.com/holdpoint/holdpoint/runtime/callback"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/view"
)

// barePage is a page that nobody needs to be signed in for.
func (u *UI) barePage(r *http.Request, title string) view.Page {
	return view.Page{Title: title, Assets: u.assetURLs, Theme: themeOf(r), Now: u.cfg.Now()}
}

// page is a page for whoever is signed in. The time is the database's, by which deadlines go.
func (u *UI) page(r *http.Request, section view.Section, title string, pulse approval.Pulse) view.Page {
	p := u.barePage(r, title)
	p.Section, p.Pending, p.Now = section, pulse.Pending, pulse.Now
	if access, ok := login.Access(r.Context()); ok {
		p.Person = &view.Person{ID: access.Person.ID.String(), Name: access.Person.Name, Roles: roleWords(access), Operator: access.Has(identity.Operator)}
		p.Notices = u.announcements(r.Context(), access)
	}
	return p
}

// announcements are what the reader is told on every page.
func (u *UI) announcements(ctx context.Context, access identity.Access) []view.Notice {
	known, err := u.cfg.Identity.Announcements(ctx)
	if err != nil {
		u.log.Warn("reading announcements", "error", err)
		return nil
	}
	var notices []view.Notice
	if known.First != nil {
		notices = append(notices, view.Notice{
			Level: view.Warn, Title: "There is no second operator.",
			Text: printable(known.First.Name) + " took their roles by the bootstrap token. An invitation under Members makes a second operator.",
		})
	}
	if end, ok := known.Ends[access.Person.ID]; ok {
		notices = append(notices, view.Notice{
			Level: view.Warn, Title: "A personal token of yours ends soon.",
			Text: "It ends on " + end.UTC().Format("2006-01-02 15:04") + " UTC. Make a new one under Settings.",
		})
	}
	return notices
}

func roleWords(access identity.Access) string {
	words := make([]string, len(access.Roles))
	for i, role := range access.Roles {
		words[i] = string(role)
	}
	return strings.Join(words, ", ")
}

// partOnly reports whether the request is for a part of a page that is on the screen.
func partOnly(r *http.Request) bool { return r.Header.Get("HX-Request") == "true" }

func (u *UI) render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	var err error
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		// What an attacker can put into a page lies beside nothing secret, so that
		// its compressed length betrays nothing.
		h.Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		err = u.renderZipped(r.Context(), w, page)
	} else {
		w.WriteHeader(status)
		err = page.Render(r.Context(), w)
	}
	if err != nil && r.Context().Err() == nil {
		u.log.Warn("writing a page", "path", r.URL.Path, "error", err)
	}
}

// renderZipped compresses as fast as can be: pages are small, and many dashboards ask for them at the same moment.
func (u *UI) renderZipped(ctx context.Context, w io.Writer, page templ.Component) error {
	zipped, _ := u.zippers.Get().(*gzip.Writer)
	if zipped == nil {
		var err error
		if zipped, err = gzip.NewWriterLevel(w, gzip.BestSpeed); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
	} else {
		zipped.Reset(w)
	}
	defer u.zippers.Put(zipped)
	return errors.Join(page.Render(ctx, zipped), zipped.Close())
}

// fail answers with what went wrong, in words for people; the log has the rest.
func (u *UI) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody reads the answer
	}
	status, n := http.StatusInternalServerError, view.Notice{
		Level: view.Danger, Title: "That did not work",
		Text: "Something failed here, and nothing was decided. Try again; the server's log says more.",
	}
	switch {
	case errors.Is(err, call.ErrNotFound), errors.Is(err, approval.ErrNotFound), errors.Is(err, errNoID):
		status = http.StatusNotFound
		n.Title, n.Text = "No such call", "There is no call at this address, or none that you may see."
	case errors.Is(err, errForbidden):
		status = http.StatusForbidden
		n.Title, n.Text = "Not with your role", "You may look at calls. What you tried takes another role."
	case errors.Is(err, callback.ErrNotFound):
		status, n = http.StatusNotFound, view.Notice{Level: view.Danger, Title: "No such callback", Text: "The agent has no callback of this name, or no longer; or no such message."}
	case errors.Is(err, agent.ErrNotFound):
		status, n = http.StatusNotFound, u.unknown(r)
	default:
		if known, notice, ok := formFailure(err); ok {
			status, n = known, notice
			break
		}
		if known, notice, ok := connectionFailure(err); ok {
			status, n = known, notice
			break
		}
		if known, notice, ok := memberFailure(err); ok {
			status, n = known, notice
			break
		}
		if known, notice, ok := talkFailure(err); ok {
			status, n = known, notice
			break
		}
		u.log.Error("dashboard", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	u.render(w, r, status, view.MessagePage(u.page(r, "", n.Title, approval.Pulse{Now: u.cfg.Now()}), n))
}

var (
	errNoID      = errors.New("not the id of a call")
	errForbidden = errors.New("the role does not allow this")
)

func callID(r *http.Request) (uuid.UUID, error) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return uuid.Nil, errNoID
	}
	return id, nil
}

// names returns what people are called, by id.
func (u *UI) names(ctx context.Context, ids ...uuid.UUID) (map[uuid.UUID]string, error) {
	people, err := u.people(ctx, ids...)
	return displayNames(people), err
}

// people returns the people of those ids that are known.
func (u *UI) people(ctx context.Context, ids ...uuid.UUID) (map[uuid.UUID]identity.Person, error) {
	known := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if id != uuid.Nil {
			known = append(known, id)
		}
	}
	if len(known) == 0 {
		return nil, nil
	}
	return u.cfg.Identity.People(ctx, known)
}

func displayNames(people map[uuid.UUID]identity.Person) map[uuid.UUID]string {
	names := make(map[uuid.UUID]string, len(people))
	for id, person := range people {
		names[id] = person.Name
		if person.Issuer != identity.LocalIssuer || person.Subject != person.Name {
			names[id] += " (" + person.Subject + " at " + person.Issuer + ")"
		}
	}
	return names
}
