// The list never moves the row under the pointer or focus.

import { find, findAll, say } from "./page.js";

const hovers = matchMedia("(hover: hover)");

let release = false;

// letMove lets the next update move all rows.
export function letMove() {
	release = true;
}

const lingers = 5000; // ms that the row of the call on the screen stays after the call is no longer pending

// hold changes an update so that the rows down to the one under the pointer or focus stay in place: it counts new rows above
// and turns removed rows gray. It calls again when a row has been gray for long enough.
export function hold(arriving, again) {
	const rows = findAll("#rows > li");
	const incoming = new Map([...find("#rows", arriving)?.children ?? []].map((row) => [row.id, row]));
	const lingering = (row) => row.hasAttribute("data-hp-selected") && !incoming.has(row.id) &&
		performance.now() - (row.dataset.hpGone ?? performance.now()) < lingers;
	const held = release ? -1 : rows.findLastIndex((row) =>
		row.contains(document.activeElement) || hovers.matches && row.matches(":hover") || lingering(row));
	release = false;
	if (held < 0) return;
	const list = find("#rows", arriving) ?? emptyList(arriving);
	const kept = rows.slice(0, held + 1).map((row) => incoming.get(row.id) ?? goneRow(row, again));
	const keptIDs = new Set(kept.map((row) => row.id));
	const known = new Set(rows.map((row) => row.id));
	const limit = deadlineOf(kept.at(-1));
	const after = [...incoming.values()].filter((row) =>
		!keptIDs.has(row.id) && (known.has(row.id) || deadlineOf(row) >= limit));
	const back = incoming.size - after.length - kept.filter((row) => incoming.has(row.id)).length;
	list.replaceChildren(...kept, ...after);
	const chip = find("#fresh", arriving);
	chip.hidden = back === 0;
	chip.textContent = say("NewCalls", { n: back });
}

function deadlineOf(row) {
	const timer = find("[data-deadline], [data-was]", row);
	return Number(timer.dataset.deadline ?? timer.dataset.was);
}

function emptyList(arriving) {
	const list = document.createElement("ol");
	list.className = "rows";
	list.id = "rows";
	find(".empty", arriving).replaceWith(list);
	return list;
}

function goneRow(row, again) {
	if (!row.dataset.hpGone) {
		row.dataset.hpGone = performance.now();
		setTimeout(again, lingers);
	}
	const gone = row.cloneNode(true);
	gone.classList.add("gone");
	const timer = find("[data-deadline]", gone);
	if (timer) {
		timer.dataset.was = timer.dataset.deadline;
		timer.removeAttribute("data-deadline");
		timer.classList.remove("urgent");
		timer.textContent = say("Gone");
	}
	return gone;
}
