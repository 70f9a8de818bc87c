package ui_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/uuid"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// eye adds functions to a page that report visible text and its position.
const eye = `(window.eye = {
	// left returns the horizontal middle of a text, relative to the value that holds it.
	left(text) {
		for (const value of document.querySelectorAll("#call .value")) {
			const walker = document.createTreeWalker(value, NodeFilter.SHOW_TEXT);
			for (let node; (node = walker.nextNode()); ) {
				const at = node.data.indexOf(text);
				if (at < 0) continue;
				const range = document.createRange();
				range.setStart(node, at);
				range.setEnd(node, at + text.length);
				const box = range.getBoundingClientRect();
				return box.left + box.width / 2;
			}
		}
		return NaN;
	},
	// onTop reports whether a click in the middle of an element hits it.
	onTop(element) {
		const box = element.getBoundingClientRect();
		const met = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
		return met !== null && (met === element || element.contains(met));
	},
	// drawn reports whether an element has a size and a color other than its background.
	drawn(element) {
		const box = element.getBoundingClientRect(), style = getComputedStyle(element);
		return element.checkVisibility({opacityProperty: true, visibilityProperty: true}) && box.width >= 8 && box.height >= 8 &&
			box.left >= 0 && box.right <= innerWidth + 0.5 && style.color !== style.backgroundColor && parseFloat(style.fontSize) >= 9;
	},
	// sideways returns how far the page scrolls sideways.
	sideways: () => document.scrollingElement.scrollWidth - innerWidth,
}, true)`

// look opens a call and adds the functions of eye.
func (w *world) look(p *browsertest.Page, path string) {
	w.t.Helper()
	p.Go(w.server.URL + path)
	p.WaitFor("the page to be ready", armed)
	browsertest.Eval[bool](p, eye)
}

// Text is drawn in logical order in every alphabet.
func TestGalleryOrderOnTheScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.signInWith(browsertest.Options{})
	for _, tt := range []struct{ name, value string }{
		{"override", "one\u202eTWO\u202cthree"},
		{"embedding", "one\u202bTWO\u202cthree"},
		{"isolate", "one\u2067TWO\u2069three"},
		{"unclosed", "one\u2067\u202eTWO three"},
		{"mark", "one\u200fTWO\u200fthree"},
		{"letters from right to left", "one/\u05d0\u05d1\u05d2/TWO/three"},
		{"numbers beside them", "one \u05d0\u05d1\u05d2 222 TWO three"},
		{"an amount that changes sides", "one \u0627\u0644\u0645\u0628\u0644\u063a TWO -> three \u0627\u0644\u0649"},
		{"begins from right to left", "\u05d0\u05d1\u05d2 one TWO three"},
		{"digits only", "one/\u05d0/222/TWO/three"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]string{"filename": tt.value}))
			for _, format := range []string{"", "?view=json", "?view=raw"} {
				w.look(p, callPath(id)+format)
				words := []string{"one", "TWO", "three"}
				if strings.Contains(tt.value, "222") {
					words = []string{"one", "222", "TWO", "three"}
				}
				for i := 1; i < len(words); i++ {
					left := browsertest.Eval[float64](p, fmt.Sprintf("eye.left(%q)", words[i-1]))
					right := browsertest.Eval[float64](p, fmt.Sprintf("eye.left(%q)", words[i]))
					if left >= right {
						t.Errorf("%s: %q is drawn at %v, %q at %v", format, words[i-1], left, words[i], right)
					}
				}
			}
		})
	}
	noComplaints(t, p)
}

// Each chip and marked word is visible on a desktop and a phone, in light and dark.
func TestGalleryChipsOnTheScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var all strings.Builder
	n := 0
	for _, trick := range slices.Sorted(maps.Keys(unseen)) {
		for _, r := range unseen[trick] {
			if r >= ' ' && unicode.Is(unicode.Zl, r) == unicode.Is(unicode.Zp, r) { // JSON escapes those
				all.WriteString("x" + string(r))
				n++
			}
		}
	}
	id := w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]string{"filename": all.String(), "to": "p\u0430ypal", "url": "https://\u0430pple.com/"}))
	for name, o := range map[string]browsertest.Options{"desk": {}, "dark": {Dark: true}, "phone": browsertest.Phone()} {
		p := w.signInWith(o)
		for _, format := range []string{"", "?view=json", "?view=raw"} {
			w.look(p, callPath(id)+format)
			got := browsertest.Eval[int](p, `[...document.querySelectorAll("[data-testid=arguments] .value .chip:not(.why)")].filter(eye.drawn).length`)
			if got != n {
				t.Errorf("%s%s: %d chips are seen, want %d", name, format, got, n)
			}
			if got := browsertest.Eval[int](p, `[...document.querySelectorAll("[data-testid=arguments] .value mark")].filter(eye.drawn).length`); got != 2 {
				t.Errorf("%s%s: %d marked words are seen, want 2", name, format, got)
			}
			if by := browsertest.Eval[float64](p, "eye.sideways()"); by > 0 {
				t.Errorf("%s%s: the page is %v pixels too wide", name, format, by)
			}
		}
		p.Screenshot("chips " + name)
		noComplaints(t, p)
	}
}

// A huge value neither hides nor covers the buttons, and queue rows keep their height.
func TestGalleryHugeOnTheScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tricks := map[string]uuid.UUID{}
	for name, value := range map[string]string{
		"words":      strings.Repeat("lorem ipsum ", 80_000),
		"one word":   strings.Repeat("W", 400_000),
		"line feeds": strings.Repeat("\n", 300_000),
		"marks":      strings.Repeat("e\u0336\u0335\u0334\u0338", 20_000),
	} {
		tricks[name] = w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]string{"filename": value}))
	}
	tricks["many fields"] = w.submit(uuid.Nil, "files__save_csv", `{"filename":"x","rows":[`+strings.Repeat(`{"a":"b"},`, 2000)+`{}]}`)
	tricks["a long name"] = w.submit(uuid.Nil, "files__save_csv", `{"filename":"x","`+strings.Repeat("N", 50_000)+`":"y"}`)
	w.delayDeadlines()
	highest := map[string]float64{"desk": 240, "phone": 280} // on a phone the tool has its own line
	for device, o := range map[string]browsertest.Options{"desk": {}, "phone": browsertest.Phone()} {
		p := w.signInWith(o)
		p.WaitFor("all rows", fmt.Sprintf(`document.querySelectorAll("[data-testid=row]").length === %d`, len(tricks)))
		browsertest.Eval[bool](p, eye)
		if tall := browsertest.Eval[float64](p, `Math.max(...[...document.querySelectorAll("[data-testid=row]")].map(r => r.getBoundingClientRect().height))`); tall > highest[device] {
			t.Errorf("%s: a row is %v pixels tall", device, tall)
		}
		if by := browsertest.Eval[float64](p, "eye.sideways()"); by > 0 {
			t.Errorf("%s: the queue is %v pixels too wide", device, by)
		}
		p.Screenshot("rows " + device)
		for name, id := range tricks {
			for _, query := range []string{"", "?full=1"} {
				w.look(p, callPath(id)+query)
				for _, at := range []string{"0", "document.scrollingElement.scrollHeight / 2", "document.scrollingElement.scrollHeight"} {
					covered := browsertest.Eval[[]string](p, `(scrollTo(0, `+at+`), [...document.querySelectorAll("#decide button, #decide a.button")].filter(b => !eye.onTop(b)).map(b => b.innerText))`)
					if len(covered) > 0 || browsertest.Eval[int](p, `document.querySelectorAll("#decide button").length`) == 0 {
						t.Errorf("%s, %s%s, scrolled to %s: %v cannot be pressed", device, name, query, at, covered)
					}
				}
				if by := browsertest.Eval[float64](p, "eye.sideways()"); by > 0 {
					t.Errorf("%s, %s%s: the page is %v pixels too wide", device, name, query, by)
				}
			}
		}
		noComplaints(t, p)
	}
}

// Imitations of the page stay inside the frame, in another font than the page's own text.
func TestGalleryFakeInterfaceOnTheScreen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fake := "\n\n" + strings.Repeat(" ", 20) + "Approved ✔ by security-team\n" + strings.Repeat("─", 300) + "\n[ Approve ]   [ Reject ]"
	id := w.submit(uuid.Nil, "files__save_csv", plainJSON(t, map[string]string{"filename": fake}))
	for _, o := range []browsertest.Options{{}, browsertest.Phone()} {
		p := w.signInWith(o)
		w.look(p, callPath(id))
		p.Screenshot("fake")
		outside := browsertest.Eval[bool](p, `(() => {
			const frame = document.querySelector("#call .data").getBoundingClientRect();
			const value = document.querySelector("#call .data .value");
			const range = document.createRange();
			range.selectNodeContents(value);
			return [...range.getClientRects()].some(r => r.left < frame.left || r.right > frame.right || r.top < frame.top || r.bottom > frame.bottom);
		})()`)
		framed := browsertest.Eval[bool](p, `(() => {
			const frame = getComputedStyle(document.querySelector("#call .data")), value = getComputedStyle(document.querySelector("#call .data .value"));
			return parseFloat(frame.borderTopWidth) > 0 && frame.backgroundColor !== getComputedStyle(document.body).backgroundColor &&
				value.fontFamily.includes("monospace") && !getComputedStyle(document.querySelector("#sentence")).fontFamily.includes("monospace");
		})()`)
		if outside || !framed {
			t.Errorf("the imitation is outside of the frame: %v; there is a frame: %v", outside, framed)
		}
		noComplaints(t, p)
	}
}
