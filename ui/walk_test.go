package ui_test

import (
	"net/url"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
)

// walker goes through the scenes of a house in one browser.
type walker struct {
	house *house
	page  *browsertest.Page
	is    string // who is signed in
	heard int    // how much of what the pages complained about was looked at
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
		w.page.Go("about:blank") // nothing of the page before asks for anything as somebody else
		address, err := url.Parse(w.house.server.URL)
		check(w.house.t, err)
		w.page.SetCookies(w.house.server.URL, w.house.visitorFor(s.who).client.Jar.Cookies(address))
		w.is = s.who
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

// looks are the ways in which everything is looked at.
func looks() []look {
	return []look{{"light", browsertest.Options{}}, {"dark", browsertest.Options{Dark: true}}, {"phone", browsertest.Phone()}}
}

// become looks at the page in another way, once its colours have come to rest.
func (w *walker) become(l look) {
	w.house.t.Helper()
	w.page.Become(l.options)
	w.page.WaitFor("the page to come to rest", "document.getAnimations().every(a => a.playState !== 'running')")
}

type look struct {
	name    string
	options browsertest.Options
}

// emptyHouse is one in which nothing happened yet.
func emptyHouse(t *testing.T) *house {
	t.Helper()
	h := &house{world: newWorld(t), say: asUsual, visitors: map[string]*visitor{}}
	h.maren = h.withToken(maren, identity.Reviewer, identity.Operator)
	return h
}

// emptyScenes are the pages of a house in which nothing happened yet.
func (h *house) emptyScenes() []scene {
	return []scene{
		{name: "queue-empty", path: "/", ready: "empty"},
		{name: "talk-new-empty", path: "/conversations/new", ready: "empty"},
		{name: "calls-empty", path: "/calls", ready: "log"},
		{name: "connections-empty", path: "/connections", ready: "empty"},
	}
}

// move goes on in another house.
func (w *walker) move(h *house) { w.house, w.is = h, "?" }
