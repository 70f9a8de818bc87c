package ui_test

import (
	"net/url"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// walker visits the scenes of a house in one browser.
type walker struct {
	house *house
	page  *browsertest.Page
	is    string // who is signed in
	heard int    // number of page complaints already checked
}

func (h *house) walker() *walker {
	h.t.Helper()
	p := browsertest.New(h.t, browsertest.Options{})
	p.SetTimeZone("UTC")
	return &walker{house: h, page: p, is: "?"}
}

// enter opens a scene as its visitor.
func (w *walker) enter(s scene) {
	w.house.t.Helper()
	if s.who != w.is {
		w.page.Go("about:blank") // ends the previous page before the identity changes
		address, err := url.Parse(w.house.server.URL)
		check(w.house.t, err)
		w.page.SetCookies(w.house.server.URL, w.house.visitorFor(s.who).client.Jar.Cookies(address))
		w.is = s.who
	}
	if !w.house.opened.IsZero() {
		w.house.setClockBack(0) // or calls expire while a slow machine looks at others
	}
	w.page.Go(w.house.server.URL + s.path)
	w.page.WaitFor(s.name+": its script", `document.documentElement.hasAttribute("data-ready")`)
	if s.ready != "" {
		w.page.Wait(s.ready)
	}
	if s.do != nil {
		s.do(w.page)
	}
}

// looks returns the color schemes and widths to check.
func looks() []look {
	return []look{{"light", browsertest.Options{}}, {"dark", browsertest.Options{Dark: true}}, {"phone", browsertest.Phone()}}
}

// become switches the page to a look and waits until its colors have settled.
func (w *walker) become(l look) {
	w.house.t.Helper()
	w.page.Become(l.options)
	w.page.WaitFor("the page to come to rest", "document.getAnimations().every(a => a.playState !== 'running')")
}

type look struct {
	name    string
	options browsertest.Options
}

// emptyHouse returns a house without any activity.
func emptyHouse(t *testing.T) *house {
	t.Helper()
	h := &house{world: newWorld(t), say: asUsual, visitors: map[string]*visitor{}}
	h.maren = h.withToken(maren, identity.Reviewer, identity.Operator)
	return h
}

// emptyScenes returns the pages of a house without any activity.
func (h *house) emptyScenes() []scene {
	return []scene{
		{name: "queue-empty", path: "/", ready: "empty"},
		{name: "talk-new-empty", path: "/conversations/new", ready: "empty"},
		{name: "calls-empty", path: "/calls", ready: "log"},
		{name: "connections-empty", path: "/connections", ready: "empty"},
	}
}

// move continues in another house.
func (w *walker) move(h *house) { w.house, w.is = h, "?" }
