package ui_test

import (
	"slices"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// obscured focuses each focusable element from a position where the bar of actions hides it, and returns the elements that stay
// hidden. Elements in the bar do not move the page.
const obscured = `(() => {
	const found = [];
	const bar = document.querySelector(".actions");
	const pane = bar.closest(".pane");
	const scroller = pane && getComputedStyle(pane).overflowY === "auto" ? pane : document.scrollingElement;
	const name = (e) => e.outerHTML.slice(0, 80);
	const shown = (e) => e.checkVisibility({ contentVisibilityAuto: true }) && e.getClientRects().length > 0;
	const all = [...document.querySelectorAll("main :is(a[href], button, input:not([type=hidden]), select, textarea, summary)")].filter(shown);
	const end = () => (scroller === document.scrollingElement ? innerHeight : scroller.getBoundingClientRect().bottom);
	for (const e of all) {
		if (bar.contains(e) || !scroller.contains(e)) continue;
		document.activeElement?.blur();
		scroller.scrollTop += e.getBoundingClientRect().bottom - end();
		e.focus();
		const is = e.getBoundingClientRect(), at = bar.getBoundingClientRect();
		const room = at.top - (scroller === document.scrollingElement ? 0 : scroller.getBoundingClientRect().top);
		const hidden = Math.min(is.bottom, at.bottom) - Math.max(is.top, at.top);
		if (hidden > 1 && (is.height < room || is.top > at.top - 20)) found.push(Math.round(hidden) + " px hidden: " + name(e));
	}
	for (const e of bar.querySelectorAll("button, select, textarea, a[href]")) {
		document.activeElement?.blur();
		scroller.scrollTop = 0;
		e.focus();
		const at = e.getBoundingClientRect();
		if (scroller.scrollTop > 1) found.push("moves the page by " + Math.round(scroller.scrollTop) + " px: " + name(e));
		if (at.top < 0 || at.bottom > innerHeight + 1) found.push("out of sight in the bar: " + name(e));
	}
	return found;
})()`

// wide makes all text wider, as other fonts may.
const wide = `(() => {
	const sheet = new CSSStyleSheet();
	sheet.replaceSync("* { letter-spacing: .12em; line-height: 1.8 }");
	document.adoptedStyleSheets = [sheet];
	return true;
})()`

// hasBar reports whether the scene has a bar of actions that stays on the screen.
func hasBar(s scene) bool {
	return s.who == "" && slices.Contains([]string{
		"queue-call", "call-confirm", "call-edit", "call-edit-json", "call-parked", "call-long", "call-secret", "call-proposed", "calls-like",
	}, s.name)
}

// obscuresNoFocus fails the test if the bar of actions of the page that was entered hides the focused element (WCAG 2.4.11), in any font.
func obscuresNoFocus(t *testing.T, w *walker, s scene) {
	t.Helper()
	for _, l := range looks() {
		if l.options.Touch && s.name == "queue-call" {
			continue // on a phone the call has its own page
		}
		w.become(l)
		for _, text := range []string{"", wide} {
			if text != "" {
				browsertest.Eval[bool](w.page, text)
			}
			for _, found := range browsertest.Eval[[]string](w.page, obscured) {
				t.Errorf("%s, %s, wide %v: %s", s.name, l.name, text != "", found)
			}
		}
		browsertest.Eval[bool](w.page, `(document.adoptedStyleSheets = [], true)`)
	}
}
