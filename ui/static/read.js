// The read gate: a call can be approved once all of its arguments were on the screen. A part counts if it was there at two looks in a
// row, so that a part that only flies past does not count.

import { find, findAll, say } from "./page.js";

const pace = 200; // ms between two looks
const slack = 3; // px that rounding and borders may hide
const reads = new Map(); // by the shown call: the parts that were on the screen, as fractions of the height, by strip
const times = new Map(); // by call: ms on the screen

let shown, before = new Map(), looks = 0, lookedAt = 0;

const keyOf = (call) => [call.dataset.call, call.dataset.digest, call.dataset.edited, call.dataset.url].join();
const elements = () => findAll("#call [data-read]");
const nameOf = (element, i) => element.id || String(i);

// scroller returns the element that scrolls the call: the pane, or the page.
export function scroller() {
	const pane = find("#pane");
	return pane && getComputedStyle(pane).overflowY === "auto" && pane.checkVisibility() ? pane : document.scrollingElement;
}

// view returns the edges of the part of the window that shows the call, above the bar of actions.
export function view() {
	const outer = scroller(), isPage = outer === document.scrollingElement;
	const { offsetTop, offsetLeft, width, height } = visualViewport;
	const box = isPage ? { top: offsetTop, bottom: offsetTop + height, left: offsetLeft } : outer.getBoundingClientRect();
	const bar = find("#call .actions");
	const fixed = bar && getComputedStyle(bar).position === "sticky";
	const field = find("#call .seek:focus-within"); // it covers what is behind it
	return { left: box.left, width: isPage ? width : outer.clientWidth, top: Math.max(0, box.top, field?.getBoundingClientRect().bottom ?? 0), bottom: Math.min(innerHeight, box.bottom, fixed ? bar.getBoundingClientRect().top : Infinity) };
}

// strips returns an element as one strip from its top to its bottom, or as several if it is wider than the window: they are read one by one.
function strips(element, i, window) {
	const box = element.getBoundingClientRect(), width = Math.max(box.width, element.scrollWidth);
	const n = width > window.width + slack ? Math.ceil(2 * width / window.width) : 1;
	return Array.from({ length: n }, (_, at) => ({ name: [nameOf(element, i), at, n].join(), box, left: box.left + at * width / n, right: box.left + (at + 1) * width / n }));
}

// isBeside reports whether a strip is in part left or right of the window.
const isBeside = ({ left, right }, window) => left < window.left - slack || right > window.left + window.width + slack;

// onScreen returns the part of a strip in the window, as fractions of its height. The borders of a value may stay outside.
function onScreen(strip, window) {
	const { box } = strip;
	if (box.height === 0 || isBeside(strip, window)) return undefined;
	const from = Math.max(0, (window.top - box.top) / box.height), to = Math.min(1, (window.bottom - box.top) / box.height);
	return to > from ? [from, to] : undefined;
}

// join adds a part to disjoint parts.
function join(parts, [from, to]) {
	const apart = parts.filter(([a, b]) => b < from || a > to);
	for (const [a, b] of parts) {
		if (b < from || a > to) continue;
		from = Math.min(a, from);
		to = Math.max(b, to);
	}
	return [...apart, [from, to]].sort((a, b) => a[0] - b[0]);
}

// unreadFrom returns where the unread part of a strip begins, as a fraction, or undefined if all was read.
function unreadFrom(parts, height) {
	let end = 0;
	for (const [from, to] of parts) {
		if ((from - end) * height > slack) return end;
		end = Math.max(end, to);
	}
	return (1 - end) * height > slack ? end : undefined;
}

// state returns the unread height of each element, and its first unread strip.
function state() {
	const call = find("#call[data-call]"), window = view();
	const known = reads.get(call && keyOf(call)) ?? new Map();
	return elements().map((element, i) => {
		const all = strips(element, i, window).map((strip) => {
			const parts = known.get(strip.name) ?? [], { height } = strip.box;
			const from = height > 0 || element.hasAttribute("data-hidden") ? unreadFrom(parts, height || 1) : undefined;
			const read = parts.reduce((sum, [a, b]) => sum + b - a, 0);
			return { strip, from, left: (1 - read) * height };
		});
		return { ...all.find((one) => one.from !== undefined), left: all.reduce((sum, one) => sum + one.left, 0) };
	});
}

// look notes the parts on the screen now.
function look() {
	const call = find("#call[data-call]");
	const key = call?.dataset.phase === "parked" ? keyOf(call) : undefined;
	const now = performance.now();
	if (!key || document.hidden || find("dialog[open]")) {
		shown = undefined;
		return;
	}
	if (key !== shown) [shown, before, looks] = [key, new Map(), 0];
	else times.set(call.dataset.call, (times.get(call.dataset.call) ?? 0) + Math.min(now - lookedAt, 2 * pace));
	lookedAt = now;
	looks++;
	const known = reads.get(key) ?? new Map();
	reads.set(key, known);
	const window = view(), seen = new Map();
	for (const strip of elements().flatMap((element, i) => element.hasAttribute("data-hidden") ? [] : strips(element, i, window))) {
		const { name } = strip, part = onScreen(strip, window), earlier = before.get(name);
		if (!part) continue;
		seen.set(name, part);
		const both = earlier && [Math.max(part[0], earlier[0]), Math.min(part[1], earlier[1])];
		if (both && both[1] > both[0]) known.set(name, join(known.get(name) ?? [], both));
	}
	before = seen;
	showGate();
}

// hasLooked reports whether everything on the screen had time to count.
export const hasLooked = () => looks >= 2 || !find("#call [data-read]");

// showGate says on the button how much is unread, and keeps the figures that go with the decision.
export function showGate() {
	const button = find("#call [data-gate]");
	if (!button) return;
	const all = state(), unread = all.filter((one) => one.from !== undefined);
	const lines = Math.max(1, Math.round(unread.reduce((sum, one) => sum + one.left, 0) / 20));
	const words = unread.length > 0 ? say("MoreLines", { n: lines }) :
		Number(button.dataset.gate) > 0 ? say("SeenUnusual", { n: all.length, unusual: Number(button.dataset.gate) }) : say("Seen", { n: all.length });
	button.toggleAttribute("data-unread", unread.length > 0);
	const note = find("small", button);
	if (note.textContent !== words) note.textContent = words;
	const call = find("#call");
	fill("seen", `${all.length - unread.length}/${all.length}`);
	fill("shown", Math.round(times.get(call.dataset.call) ?? 0));
}

function fill(name, value) {
	const input = find(`#decide [name=${name}]`);
	if (input && input.value !== String(value)) input.value = value;
}

// readOn scrolls to the first unread part. It reports false if everything was read.
export function readOn() {
	const next = state().find((one) => one.from !== undefined);
	if (!next) return false;
	const { strip, from } = next, { box } = strip, window = view();
	scroller().scrollBy({ top: box.top + from * box.height - window.top - 24, left: isBeside(strip, window) ? strip.left - window.left : 0, behavior: "instant" });
	return true;
}

// toTop scrolls back to the beginning of a call that was decided.
export const toTop = () => scroller().scrollTo({ top: 0, left: 0, behavior: "instant" });

export const watchReading = () => setInterval(look, pace);
