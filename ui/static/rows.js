// The list never moves the row under the pointer or focus.

import { find, findAll, say } from "./page.js";

const hovers = matchMedia("(hover: hover)");

let release = false;

// letMove lets the next update move all rows.
export function letMove() {
	release = true;
}

const lingers = 2000; // ms that a row stays after its call is no longer pending

// hold changes an update so that the rows down to the one under the pointer or focus stay in place: it counts new rows above
// and turns removed rows gray. It calls again when a row has been gray for long enough. Gray rows above the pointer stay longer,
// so that no row moves under it.
export function hold(arriving, again) {
	const rows = findAll("#rows > li");
	const incoming = new Map([...find("#rows", arriving)?.children ?? []].map((row) => [row.id, row]));
	const isOver = (row) => row.dataset.call && !incoming.has(row.id) && performance.now() - (row.dataset.hpGone ?? Infinity) >= lingers;
	const hovered = release || !hovers.matches ? -1 : rows.findLastIndex((row) => row.matches(":hover"));
	const held = release ? -1 : rows.findLastIndex((row, at) => at <= hovered || !isOver(row) &&
		(row.contains(document.activeElement) || row.hasAttribute("data-hp-selected") && !incoming.has(row.id)));
	release = false;
	if (held < 0) return;
	const list = find("#rows", arriving) ?? emptyList(arriving);
	const kept = rows.slice(0, held + 1).filter((row, at) => at <= hovered || !isOver(row)).map((row) => incoming.get(row.id) ?? goneRow(row, again));
	const keptIDs = new Set(kept.map((row) => row.id));
	const known = new Set(rows.map((row) => row.id));
	const order = [...incoming.values()];
	const limit = order.findLastIndex((row) => keptIDs.has(row.id));
	const after = order.filter((row, at) => !keptIDs.has(row.id) && (known.has(row.id) || at > limit));
	const back = order.filter((row, at) => row.dataset.call && !known.has(row.id) && at < limit).length;
	list.replaceChildren(...kept, ...after);
	const chip = find("#fresh", arriving);
	chip.hidden = back === 0;
	chip.textContent = say("NewCalls", { n: back });
}

function emptyList(arriving) {
	const list = document.createElement("ol");
	list.className = "rows";
	list.id = "rows";
	find(".empty", arriving).replaceWith(list);
	return list;
}

function goneRow(row, again) {
	const gone = row.cloneNode(true);
	if (!row.dataset.call) return gone; // the heading of a group
	if (!row.dataset.hpGone) {
		gone.dataset.hpGone = row.dataset.hpGone = performance.now();
		setTimeout(again, lingers);
	}
	gone.classList.add("gone");
	const timer = find("[data-deadline]", gone);
	if (timer) {
		timer.removeAttribute("data-deadline");
		timer.classList.remove("urgent");
		timer.textContent = say("Gone");
	}
	return gone;
}
