package shell

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/a-h/templ"

	"github.com/holdpoint/holdpoint/approval"
	"github.com/holdpoint/holdpoint/internal/dualcontrol"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/internal/inbound"
	"github.com/holdpoint/holdpoint/ui/login"
	"github.com/holdpoint/holdpoint/ui/present"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
)

// BarePage returns a page that needs no sign-in.
func (sh *Shell) BarePage(r *http.Request, title text.Message) view.Page {
	return view.Page{Title: title, Assets: sh.assetURLs, Theme: ThemeOf(r), Now: sh.Now()}
}

// Page returns a page for the signed-in person. Its time is the database's, like deadlines.
func (sh *Shell) Page(r *http.Request, section view.Section, title text.Message, pulse approval.Pulse) view.Page {
	p := sh.BarePage(r, title)
	p.Section, p.Pending, p.Now = section, pulse.CountUndecided(), pulse.Now
	if access, ok := login.Access(r.Context()); ok {
		p.Person = &view.Person{ID: access.Person.ID.String(), Name: access.Person.Name, Roles: present.RoleList(access.Roles), Operator: access.Has(identity.Operator), Changes: sh.identity.HasDualControl()}
		p.Notices = sh.readNotices(r.Context(), access)
		if r.Method == http.MethodGet {
			p.Done = Done(r.URL.Query().Get(doneParameter)).notice()
		}
	}
	return p
}

// readNotices returns the notices that every page shows the reader.
func (sh *Shell) readNotices(ctx context.Context, access identity.Access) []view.Notice {
	known, err := sh.identity.Announcements(ctx)
	if err != nil {
		sh.Log.Warn("reading announcements", "error", err)
		return nil
	}
	var notices []view.Notice
	if known.First != nil {
		notices = append(notices, view.Notice{
			Level: view.Warn, Standing: true, Title: text.PageOneOperator(), Text: text.PageOneOperatorHelp(view.Printable(known.First.Name)),
		})
	}
	if known.Changes > 0 && access.Has(identity.Operator) {
		notices = append(notices, view.Notice{Level: view.Info, Standing: true, Title: text.ChangesWaiting(known.Changes)})
	}
	if end, ok := known.Ends[access.Person.ID]; ok {
		notices = append(notices, view.Notice{
			Level: view.Warn, Standing: true, Title: text.PageTokenExpires(), Text: text.PageTokenExpiresHelp(view.FormatTime(ctx, end)),
		})
	}
	return notices
}

// Render answers with a page, compressed if the browser takes that.
func (sh *Shell) Render(w http.ResponseWriter, r *http.Request, status int, page templ.Component) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	var err error
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		// No page holds a secret beside text from an attacker, so the compressed length reveals nothing.
		h.Set("Content-Encoding", "gzip")
		w.WriteHeader(status)
		err = sh.renderZipped(r.Context(), w, page)
	} else {
		w.WriteHeader(status)
		err = page.Render(r.Context(), w)
	}
	if err != nil && r.Context().Err() == nil {
		sh.Log.Warn("writing a page", "path", r.URL.Path, "error", err)
	}
}

// renderZipped uses the fastest compression: pages are small, and many dashboards fetch them at the same moment.
func (sh *Shell) renderZipped(ctx context.Context, w io.Writer, page templ.Component) error {
	zipped, _ := sh.zippers.Get().(*gzip.Writer)
	if zipped == nil {
		var err error
		if zipped, err = gzip.NewWriterLevel(w, gzip.BestSpeed); err != nil {
			return fmt.Errorf("compress: %w", err)
		}
	} else {
		zipped.Reset(w)
	}
	defer sh.zippers.Put(zipped)
	return errors.Join(page.Render(ctx, zipped), zipped.Close())
}

// Fail answers with a page that explains an error. Only errors that no [Explainer] knows go to the log.
func (sh *Shell) Fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // the client is gone
	}
	if waits, ok := errors.AsType[*dualcontrol.WaitsError](err); ok { // the change is stored, and has a page
		Redirect(w, r, present.ChangeURL(waits.Change.ID)+"?"+doneParameter+"="+ChangeProposed)
		return
	}
	status, n := http.StatusInternalServerError, view.Notice{
		Level: view.Danger, Title: text.PageFailed(), Text: text.PageFailedHelp(),
	}
	known := false
	for _, explain := range sh.explain {
		if s, notice, ok := explain(r, err); ok {
			status, n, known = s, notice, true
			break
		}
	}
	if !known {
		if status = inbound.FailureStatus(w.Header(), err); status == http.StatusServiceUnavailable {
			n.Title, n.Text = text.PageUnavailable(), text.PageUnavailableHelp()
		}
		sh.Log.Error("dashboard", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	sh.Render(w, r, status, view.MessagePage(sh.Page(r, "", n.Title, approval.Pulse{Now: sh.Now()}), n))
}
