// The command palette: a dialog with a search field. Its results come from the server's page of the search.

import { announce, find, findAll, say } from "./page.js";

const dialog = find("#palette");
const field = () => find("input", dialog);
const hits = () => findAll("a", dialog);
let actions, due, busy, stale;

// openPalette opens the dialog. The live region moves into it, because the page behind a dialog is silent.
export function openPalette() {
	if (!dialog || find("dialog[open]")) return;
	dialog.append(find("#announce"));
	dialog.showModal();
	field().select();
	search();
}

// search shows the results for the text. It makes one request at a time, because htmx drops others.
async function search() {
	clearTimeout(due);
	due = undefined;
	stale = true;
	if (busy) return;
	let text;
	for (busy = true; stale && dialog.open;) {
		stale = false;
		text = field().value;
		const query = new URLSearchParams({ q: text, call: find("#call[data-call]")?.dataset.call ?? "" });
		await htmx.ajax("GET", `/search?${query}`, { source: "#palette", target: "#hits", swap: "innerHTML" }).catch(() => {});
	}
	busy = false;
	if (!dialog.open || due) return; // another search follows
	dialog.dataset.q = text; // the text of these results
	if (text) announce(say("Found", { n: hits().length }));
}

// step moves the focus between the field and the results.
function step(by) {
	const all = [field(), ...hits()];
	all[Math.max(0, Math.min(all.length - 1, all.indexOf(document.activeElement) + by))]?.focus();
}

function onKey(event) {
	if (event.key === "ArrowDown" || event.key === "ArrowUp") {
		event.preventDefault();
		step(event.key === "ArrowDown" ? 1 : -1);
	} else if (event.key === "Enter" && event.target === field() && !event.isComposing) {
		event.preventDefault();
		if (!due && !busy) hits()[0]?.click(); // never a result of an earlier text
	} else if (event.key.length === 1 && event.target !== field() && event.target.matches("a") && !event.ctrlKey && !event.metaKey && !event.altKey) {
		field().focus(); // the key types there
	}
}

// setUpPalette connects the dialog with the actions of the page. An action returns false if its link is to be opened instead.
export function setUpPalette(known) {
	if (!dialog) return;
	actions = known;
	dialog.addEventListener("keydown", onKey);
	dialog.addEventListener("input", () => {
		clearTimeout(due);
		due = setTimeout(search, 150);
	});
	dialog.addEventListener("close", () => document.body.append(find("#announce")));
	document.addEventListener("click", (event) => {
		if (event.ctrlKey || event.metaKey || event.shiftKey) return;
		if (event.target.closest("header a[href='/search']")) {
			event.preventDefault();
			openPalette();
		}
		const hit = event.target.closest("a[data-do]");
		if (!hit) return;
		dialog.close();
		if (actions[hit.dataset.do]?.(hit) !== false) event.preventDefault();
	});
	document.addEventListener("keydown", (event) => {
		if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
		event.preventDefault();
		if (dialog.open) dialog.close();
		else openPalette();
	});
}
