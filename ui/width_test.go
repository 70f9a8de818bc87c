package ui_test

import (
	"strings"
	"testing"

	"github.com/holdpoint/holdpoint/internal/browsertest"
)

// brokenWords returns the words of texts that continue on another line. Data may break anywhere, and words at a hyphen or a slash.
const brokenWords = `(() => {
	const found = new Set(), range = document.createRange();
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let node; (node = walker.nextNode());) {
		const parent = node.parentElement;
		if (parent.closest("bdi, code, pre, svg, script, noscript, textarea, .value, .source, .origin, .cut small") || !parent.checkVisibility()) continue;
		for (const word of node.data.matchAll(/[\p{L}\p{N}_’']{2,}/gu)) {
			range.setStart(node, word.index);
			range.setEnd(node, word.index + word[0].length);
			const tops = new Set([...range.getClientRects()].filter((box) => box.width > 0).map((box) => Math.round(box.top)));
			if (tops.size > 1) found.add(word[0] + " in <" + parent.localName + " class='" + parent.className + "'> of " + (parent.closest("[data-testid]")?.dataset.testid ?? "the page"));
		}
	}
	return [...found];
})()`

// leavingFrame returns the comparisons that are wider than their frame.
const leavingFrame = `[...document.querySelectorAll(".diff, .changes, .value, ins, del")].filter((one) => {
	const frame = one.closest(".part, .card, section");
	return frame && one.checkVisibility() && one.getBoundingClientRect().right > frame.getBoundingClientRect().right + 1 && !one.closest(".scroll");
}).map((one) => one.localName + "." + one.className)`

// cutInRows returns what a row of a list cuts without an ellipsis, such as a warning or a countdown.
const cutInRows = `[...document.querySelectorAll(".row .line > *")].filter((one) => one.checkVisibility() &&
	one.getBoundingClientRect().right > one.parentElement.getBoundingClientRect().right + 1).map((one) => one.outerHTML.slice(0, 160))`

// cutFields returns the selects and fields that cut the chosen option or the hint in them.
const cutFields = `(() => {
	const pen = document.createElement("canvas").getContext("2d"), arrow = 20;
	return [...document.querySelectorAll("select, input:placeholder-shown")].filter((one) => one.checkVisibility()).filter((one) => {
		const style = getComputedStyle(one), room = one.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
		pen.font = style.font;
		const select = one.localName === "select";
		return pen.measureText(select ? one.selectedOptions[0]?.text ?? "" : one.placeholder).width > room - (select ? arrow : 0) + 1;
	}).map((one) => one.name + ": " + (one.selectedOptions?.[0]?.text ?? one.placeholder));
})()`

// unaligned returns the lists of arguments whose names do not begin at one line, and the fields that are higher than the controls beside them.
const unaligned = `(() => {
	const box = (one) => one.getBoundingClientRect(), shown = (one) => one.checkVisibility();
	const lists = [...document.querySelectorAll("dl.fields")].filter((list) =>
		new Set([...list.querySelectorAll(":scope > .field > dt")].filter(shown).map((one) => Math.round(box(one).left))).size > 1);
	const controls = [...document.querySelectorAll(".pair, .ranges")].flatMap((row) => {
		const all = [...row.querySelectorAll("button, select, input:not([type=checkbox], [type=radio])")].filter(shown);
		return all.filter((one) => one.localName !== "button" && all.some((other) => Math.abs(box(one).bottom - box(other).bottom) < 4 && box(one).height > box(other).height + 1.5));
	});
	return [...lists, ...controls].map((one) => one.outerHTML.slice(0, 160));
})()`

// fitsEveryWidth fails the test if the page that was entered scrolls sideways at some width, breaks a word by letter, lets a
// comparison leave its frame, cuts something in a row or in a field, or has unaligned rows or controls.
func fitsEveryWidth(t *testing.T, w *walker, s scene) {
	t.Helper()
	for _, width := range []int{320, 390, 768, 1280, 1920} {
		w.page.Become(browsertest.Options{Width: width, Height: 900})
		if wide := browsertest.Eval[float64](w.page, "document.scrollingElement.scrollWidth - innerWidth"); wide > 1 { // one pixel is rounding
			t.Errorf("%s, %d px: the page is %v pixels too wide", s.name, width, wide)
		}
		if words := browsertest.Eval[[]string](w.page, brokenWords); len(words) > 0 {
			t.Errorf("%s, %d px: broken words:\n\t%s", s.name, width, strings.Join(words, "\n\t"))
		}
		if cut := browsertest.Eval[[]string](w.page, cutFields); len(cut) > 0 && width >= 390 {
			t.Errorf("%s, %d px: cut in a field: %q", s.name, width, cut)
		}
		if crooked := browsertest.Eval[[]string](w.page, unaligned); len(crooked) > 0 {
			t.Errorf("%s, %d px: not aligned:\n\t%s", s.name, width, strings.Join(crooked, "\n\t"))
		}
		if out := browsertest.Eval[[]string](w.page, leavingFrame); len(out) > 0 {
			t.Errorf("%s, %d px: outside of their frame: %v", s.name, width, out)
		}
		if cut := browsertest.Eval[[]string](w.page, cutInRows); len(cut) > 0 {
			t.Errorf("%s, %d px: cut in a row: %v", s.name, width, cut)
		}
	}
}
