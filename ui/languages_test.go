package ui_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
	"github.com/holdpoint/holdpoint/internal/identity"
	"github.com/holdpoint/holdpoint/ui/shell"
	"github.com/holdpoint/holdpoint/ui/text"
	"github.com/holdpoint/holdpoint/ui/text/section"
)

// readWords lists what people read on the page: its texts and the attributes that are read.
const readWords = `(() => {
	const words = [document.title];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		if (!walker.currentNode.parentElement.closest("script, style, noscript, template, pre, code, bdi, textarea")) words.push(walker.currentNode.data);
	}
	for (const name of ["aria-label", "aria-description", "title", "placeholder", "alt"]) {
		for (const element of document.querySelectorAll("[" + name + "]")) words.push(element.getAttribute(name));
	}
	return words.join("\n");
})()`

// tooWide returns the elements that make the page wider than its window, and the labels that are wider than their boxes or, being
// squeezed, very high.
const tooWide = `(() => {
	const width = document.documentElement.clientWidth, box = (e) => e.getBoundingClientRect(), shown = (e) => e.checkVisibility();
	const wide = document.documentElement.scrollWidth <= width ? [] : [...document.querySelectorAll("body *")].filter((e) => shown(e) && box(e).right > width + 1);
	const labels = [...document.querySelectorAll("button, .entry, .badge, .tabs a")].filter((e) => shown(e) && (box(e).height > 90 ||
		[...e.querySelectorAll("span:not(.sr)")].some((s) => shown(s) && (box(s).right > box(e).right + 1 || box(s).left < box(e).left - 1)) || e.scrollWidth > e.clientWidth + 1));
	return [...wide.slice(0, 4), ...labels].map((e) => e.outerHTML.slice(0, 160));
})()`

// TestLanguagesInTheBrowser: pages are whole in each language: they fit, and nothing of the catalog is left in English.
func TestLanguagesInTheBrowser(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 0, asUsual)
	address, err := url.Parse(h.server.URL)
	check(t, err)
	w := h.walker()
	names := []string{
		"queue", "queue-grouped", "queue-views", "queue-call", "call-confirm", "call-edit", "call-request", "call-parked", "call-destructive", "call-high-risk", "call-proposed", "call-secret",
		"call-suspicious", "call-changed", "call-done", "call-unknown", "call-needs-connection", "call-executing", "calls-like", "calls", "audit", "audit-filters", "insights", "insights-tools",
		"conversations", "conversation", "talk-waiting", "skills", "skill", "skill-edit", "skill-tool", "skill-api", "connections", "connection", "import-operations",
		"import-new", "import-credentials", "talk-new", "talk-ended", "talk-looked-at", "calls-filtered", "search", "palette", "agents", "agent", "agent-edit", "agent-assign", "agent-delete", "callback", "callback-new", "rules", "rule", "policies", "policy", "grants", "grant", "grant-new", "plans", "plan", "members", "member", "settings", "not-found", "sign-in", "keys",
	}
	scenes := slices.DeleteFunc(h.scenes(), func(s scene) bool { return !slices.Contains(names, s.name) })
	if len(scenes) != len(names) {
		t.Errorf("%d of %d scenes are visited", len(scenes), len(names))
	}
	for _, language := range text.Languages()[1:] {
		left := untranslated(t, language.Tag)
		for _, s := range scenes {
			h.visitorFor(s.who).client.Jar.SetCookies(address, []*http.Cookie{{Name: shell.LanguageCookie, Value: language.Tag}})
		}
		w.is = "?"
		for _, s := range scenes {
			w.become(looks()[0])
			w.enter(s)
			if got := browsertest.Eval[string](w.page, "document.documentElement.lang"); got != language.Tag {
				t.Errorf("%s: the page is in %q, want %q", s.name, got, language.Tag)
			}
			words := browsertest.Eval[string](w.page, readWords)
			for _, english := range left {
				if strings.Contains(words, english) {
					t.Errorf("%s, %s: %q is English", s.name, language.Tag, english)
				}
			}
			for _, l := range []look{{"wide", browsertest.Options{}}, {"phone", browsertest.Phone()}} {
				w.become(l)
				w.page.Screenshot(language.Tag + "-" + s.name + "-" + l.name)
				if found := slices.Concat(browsertest.Eval[[]string](w.page, tooWide), browsertest.Eval[[]string](w.page, cutInRows), browsertest.Eval[[]string](w.page, cutFields)); len(found) > 0 {
					t.Errorf("%s, %s, %s: too wide: %s", s.name, language.Tag, l.name, strings.Join(found, "\n\t"))
				}
			}
		}
	}
}

// untranslated returns the pieces of English texts that are not part of any text of a language, other than short ones.
func untranslated(t *testing.T, language string) []string {
	t.Helper()
	const short = 12
	var list []string
	translations := strings.Join(readPieces(t, language), "\n")
	for _, piece := range readPieces(t, "en") {
		if utf8.RuneCountInString(piece) > short && !strings.Contains(translations, piece) {
			list = append(list, piece)
		}
	}
	return list
}

// readPieces returns the texts of a language, between their arguments.
func readPieces(t *testing.T, language string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("text", language, "*.yaml"))
	check(t, err)
	var pieces []string
	for _, name := range names {
		content, err := os.ReadFile(name)
		check(t, err)
		texts, err := section.Read(content)
		check(t, err)
		for i := range texts {
			for _, form := range texts[i].Forms {
				for _, part := range form.Parts {
					pieces = append(pieces, strings.TrimSpace(part.Literal))
				}
			}
		}
	}
	return pieces
}

// Amounts have the separators of the reader's language. The bytes of a value stay as they are.
func TestAmountsInEachLanguage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sendApproved("files__save_csv", `{"filename":"a","amount":1000.5,"currency":"EUR"}`, `{"filename":"b","amount":1100,"currency":"EUR"}`,
		`{"filename":"c","amount":1200.25,"currency":"EUR"}`)
	id := w.submit(uuid.Nil, "files__save_csv", `{"filename":"d","amount":9284.50,"currency":"EUR"}`)
	v := w.signedIn("ana", identity.Reviewer)
	address, err := url.Parse(w.server.URL)
	check(t, err)
	for language, want := range map[string][]string{
		"en": {"EUR 9,284.50", "EUR 1,000.5 to EUR 1,200.25"}, "de": {"EUR 9.284,50", "EUR 1.000,5 bis EUR 1.200,25"}, "ja": {"EUR 9,284.50", "EUR 1,000.5〜EUR 1,200.25"},
	} {
		v.client.Jar.SetCookies(address, []*http.Cookie{{Name: shell.LanguageCookie, Value: language}})
		shown := v.get(callPath(id)).find("arguments").Text()
		for _, text := range append(want, "9284.50") {
			if !strings.Contains(shown, text) {
				t.Errorf("%s: no %q in %s", language, text, shown)
			}
		}
	}
}
