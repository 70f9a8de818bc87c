package history

import (
	"time"

	"github.com/holdpoint/holdpoint/internal/audit"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/view"
	"github.com/holdpoint/holdpoint/ui/view/hostile"
)

// History is a page of calls.
type History struct {
	Search  view.Search
	Rows    []view.HistoryRow
	Pages   view.Pages
	Exports []view.Link
}

// Audit is a page of events.
type Audit struct {
	Search view.Search
	Rows   []AuditRow
	Pages  view.Pages
	Export string
}

// AuditRow is one event.
type AuditRow struct {
	ID      string
	At      time.Time
	Action  audit.Action
	Actor   Party
	Via     text.Message // the actor's credential and address; empty: not known
	Subject Party
	Data    *hostile.Pretty // nil: there is none
}

// Party is the actor or the subject of an event.
type Party struct {
	Kind        text.Message // shown if the name is not known
	Name        string       // from outside; empty: not known
	ID          string       // empty: none
	Short       string       // its end
	URL         string       // of its page; empty: it has none
	Events      string       // URL of all events by it, or about it
	EventsLabel text.Message
}
