package ui_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// axe is the script of axe-core, which finds accessibility problems.
func axe(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "e2e", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("axe-core is not installed; run `task setup` (npm ci in e2e): %v", err)
	}
	return string(source)
}

// barrier is a rule that a page breaks.
type barrier struct {
	Rule  string   `json:"rule"`
	Help  string   `json:"help"`
	Where []string `json:"where"`
}

// barriers runs axe on the current page with its WCAG 2.2 AA and best-practice rules, or only the color rules.
func barriers(p *browsertest.Page, onlyColours bool) []barrier {
	options := `{resultTypes: ["violations"]}`
	if onlyColours {
		options = `{resultTypes: ["violations"], runOnly: ["color-contrast", "link-in-text-block"]}`
	}
	return browsertest.EvalAsync[[]barrier](p, `axe.run(document, `+options+`).then(found => found.violations.map(v => ({
		rule: v.id, help: v.help,
		where: v.nodes.slice(0, 5).map(n => n.target.join(" ") + ": " + (n.any[0] ?? n.all[0] ?? n.none[0])?.message),
	})))`)
}

// TestPages looks at each page in all respects that take a browser, because a visit takes longer than a look.
func TestPages(t *testing.T) {
	t.Parallel()
	source := axe(t)
	full, empty := newHouse(t, 0, asUsual), emptyHouse(t)
	w := full.walker()
	obscured := 0
	for _, s := range full.scenes() {
		w.become(looks()[0])
		w.enter(s)
		fitsEveryWidth(t, w, s)
		noBarriers(t, w, source, s)
		if s.name == "callback" {
			keepsButtonsWhole(t, w)
		}
		if hasBar(s) {
			obscured++
			w.become(looks()[0])
			w.enter(s) // the other looks may have moved it
			obscuresNoFocus(t, w, s)
		}
	}
	if obscured < 9 {
		t.Errorf("only %d pages with a bar were looked at", obscured)
	}
	w.move(empty)
	for _, s := range empty.emptyScenes() {
		w.become(looks()[0])
		w.enter(s)
		fitsEveryWidth(t, w, s)
		noBarriers(t, w, source, s)
	}
	// The check itself works: it finds a button without a name.
	browsertest.Eval[bool](w.page, `document.querySelector("main").append(document.createElement("button")), true`)
	if found := barriers(w.page, false); len(found) != 1 || found[0].Rule != "button-name" {
		t.Errorf("of a button without a name it says %v", found)
	}
}

// noBarriers fails the test if the page that was entered has accessibility problems: light, dark or on a phone.
func noBarriers(t *testing.T, w *walker, source string, s scene) {
	t.Helper()
	browsertest.Eval[bool](w.page, source+"; true")
	for _, look := range looks() {
		w.become(look)
		for _, b := range barriers(w.page, look.options.Dark) {
			t.Errorf("%s, %s: %s (%s)\n\t%s", s.name, look.name, b.Help, b.Rule, strings.Join(b.Where, "\n\t"))
		}
		if wide := browsertest.Eval[float64](w.page, "document.scrollingElement.scrollWidth - innerWidth"); wide > 0 {
			t.Errorf("%s, %s: the page is %v pixels wider than its window", s.name, look.name, wide)
		}
	}
	complaints := w.page.Complaints()
	if n := len(complaints) - w.heard; n > 0 && !s.said {
		t.Errorf("%s: the page complained: %s", s.name, fmt.Sprint(complaints[w.heard:]))
	}
	w.heard = len(complaints)
}
