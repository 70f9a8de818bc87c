// Search within a long value. Matches are highlighted without a change of the page. A match counts as seen like everything else: while it is
// on the screen.

import { find, say } from "./page.js";
import { scroller, view } from "./read.js";

const most = 5000; // matches that are marked
let at = 0;

// fold makes upper and lower case equal, unless that would move the characters after it.
const fold = (text) => text.toLowerCase().length === text.length ? text.toLowerCase() : text;

// seek returns the matches in the value after a field, as pairs of a text node and an offset for both ends. Chips are no part of the value,
// so that an invisible character hides no match.
function seek(field) {
	const nodes = [], wanted = fold(field.value), found = [];
	let value = field.parentElement;
	while (!value.matches(".value")) value = value.nextElementSibling;
	const walker = document.createTreeWalker(value, NodeFilter.SHOW_TEXT);
	let text = "";
	for (let node; (node = walker.nextNode());) {
		if (node.parentElement.closest(".chip, .cut")) continue;
		nodes.push([text.length, node]);
		text += fold(node.data);
	}
	let from = 0;
	const locate = (place) => {
		while (from + 1 < nodes.length && nodes[from + 1][0] <= place) from++;
		return [nodes[from][1], place - nodes[from][0]];
	};
	for (let i = text.indexOf(wanted); wanted && i >= 0; i = text.indexOf(wanted, i + wanted.length)) {
		const [startContainer, startOffset] = locate(i), [endContainer, last] = locate(i + wanted.length - 1);
		found.push({ startContainer, startOffset, endContainer, endOffset: last + 1 });
	}
	return found;
}

// show marks the matches, and scrolls to one of them.
function show(field, step) {
	const found = seek(field), output = find("output", field.parentElement);
	at = step && found.length ? (at + step + found.length) % found.length : 0;
	output.textContent = found.length ? say("Match", { i: at + 1, n: found.length }) : field.value && say("NoMatch");
	globalThis.CSS.highlights?.set("match", new Highlight(...found.slice(0, most).map((one) => new StaticRange(one))));
	globalThis.CSS.highlights?.delete("here");
	if (!found.length) return;
	const range = document.createRange(), one = found[at];
	range.setStart(one.startContainer, one.startOffset);
	range.setEnd(one.endContainer, one.endOffset);
	globalThis.CSS.highlights?.set("here", new Highlight(range));
	const box = range.getBoundingClientRect(), { top, bottom } = view();
	if (box.top < top || box.bottom > bottom) scroller().scrollBy({ top: box.top - top - 100, behavior: "instant" });
}

export function watchSearch() {
	document.addEventListener("input", ({ target }) => target.matches("[data-seek]") && show(target, 0));
	document.addEventListener("keydown", (event) => {
		if (event.key !== "Enter" || !event.target.matches("[data-seek]")) return;
		event.preventDefault();
		show(event.target, event.shiftKey ? -1 : 1);
	});
}
