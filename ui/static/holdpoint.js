// The dashboard's own script: it renews what is on the screen when the server says that
// something changed, counts down, and makes keys work. Nothing depends on it: without it
// every page and every form works by itself.

import { countDown, localTimes, now, setClock } from "./clock.js";
import { notify } from "./notify.js";
import { announce, find, findAll, page, say, setPending, setStale } from "./page.js";
import { hold, letMove } from "./rows.js";
import { live } from "./stream.js";

const wide = matchMedia("(width >= 64rem)");

const call = () => find("#call[data-call]");
const queue = () => find("#queue");
const selectedRow = () => find("#rows > [data-hp-selected]");

// ---- renewing what is on the screen

let lastState;
const person = document.body.dataset.person;

function onPulse(pulse) {
	setClock(pulse.now);
	setPending(pulse.pending);
	notify(pulse.pending);
	setStale(false);
	const shown = find("[data-conversation]")?.dataset.conversation;
	const news = shown && pulse.news?.some((id) => id === shown || id === "*");
	if (pulse.state === lastState && !news) return;
	lastState = pulse.state;
	refresh();
}

// What changed while nothing was heard is looked for at the next pulse.
function onLost() {
	lastState = undefined;
	setStale(true);
}

const pace = 300; // ms between two renewals
let due, renewed = -Infinity;

function refresh() {
	if (due) return;
	due = setTimeout(() => {
		due = undefined;
		renewed = performance.now();
		if (!page.hasAttribute("data-paused")) renewParts("[data-hp-live]");
		renewCall();
	}, Math.max(0, renewed + pace - performance.now()));
}

// renewParts has parts of the page fetch themselves anew.
function renewParts(selector) {
	for (const part of findAll(selector)) htmx.trigger(part, "hp:refresh");
}

function renewCall() {
	const shown = call();
	if (loading) {
		missed = true; // another call is on its way; this one must not come in between
		return;
	}
	if (!shown?.hasAttribute("data-live") || shown.hasAttribute("data-hold") && remaining(shown) > 0) return;
	const url = new URL(shown.dataset.url, location.href);
	url.searchParams.set("known", shown.dataset.state); // nothing comes back if it is still that
	htmx.ajax("GET", url.pathname + url.search, { source: "#main", target: "#call", swap: "outerMorph" });
}

function remaining(shown) {
	const deadline = find("[data-deadline]", shown);
	return deadline ? Number(deadline.dataset.deadline) - now() : 0;
}

// While a call runs, its outcome is near: look at it often, then less often.
let glance, wait;

function watchOutcome() {
	const shown = call();
	clearTimeout(glance);
	if (!shown?.hasAttribute("data-live") || shown.dataset.phase === "parked") {
		wait = 250;
		return;
	}
	glance = setTimeout(renewCall, wait);
	wait = Math.min(wait * 1.5, 3000);
}

// letGo renews a list that holds something back when nobody points at it any more.
const letGo = () => {
	if (find("#rows > .gone") || find("#fresh")?.hidden === false) refresh();
};

// ---- selection: the pane follows it

function select(row) {
	for (const other of findAll("#rows > [data-hp-selected]")) other.removeAttribute("data-hp-selected");
	row.setAttribute("data-hp-selected", "");
	if (wide.matches) load(find("a.open", row).getAttribute("href"));
}

let loading, missed; // the newest load, while it is under way; whether a renewal was left out for it

// load shows another call, or this one otherwise. Into the pane: #call may be replaced meanwhile, by the answer to what was
// sent about the call before, and what was asked for on its behalf would be dropped.
async function load(url) {
	const mine = loading = {};
	const to = find("#pane") ? { target: "#pane", swap: "innerHTML" } : { target: "#call", swap: "outerHTML" };
	await htmx.ajax("GET", url, { source: "#main", ...to }).catch(() => {});
	if (loading !== mine) return;
	loading = undefined;
	if (missed) renewCall();
	missed = false;
}

function move(step) {
	const rows = findAll("#rows > li");
	if (rows.length === 0) return;
	const at = rows.findIndex((row) => row === selectedRow());
	const row = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)];
	find("a.open", row).focus();
	select(row);
}

// ---- acting: only on what is on the screen, and not in the moment it changed

const settling = 400; // ms
let shownAs, changedAt = 0, arming;

function noteChange() {
	const shown = call();
	const as = shown ? [shown.dataset.call, shown.dataset.digest, shown.dataset.step, shown.dataset.edited].join() : ",,,";
	if (as === shownAs) return;
	shownAs = as;
	look();
	(find("#problems") ?? find("#edit [name]:not([type=hidden])"))?.focus();
	changedAt = performance.now();
	page.removeAttribute("data-armed");
	clearTimeout(arming);
	arming = setTimeout(arm, settling);
}

// On a slow machine htmx takes the call's buttons over after the pause. Until then they would send the browser to another page.
const isTakenOver = () => !find("#call [hx-post]:not([data-htmx-powered])");

function arm() {
	if (isTakenOver()) page.setAttribute("data-armed", shownAs);
	else arming = setTimeout(arm, settling);
}

// A change is noticed at the latest by whoever wants to act: htmx tells of it only a moment after it was made.
function settled() {
	noteChange();
	return performance.now() - changedAt >= settling && isTakenOver();
}

function armed() {
	const shown = call();
	if (!shown?.dataset.digest || !settled()) return false;
	if (!queue()) return true;
	const row = selectedRow();
	return row !== null && row.dataset.digest === shown.dataset.digest && !row.classList.contains("gone");
}

function act(name) {
	if (!armed()) return;
	const button = find(`#call [data-act="${name}"]`);
	if (button) button.click();
	else announce(say("NotHere"));
}

// ---- conversations: who reads the end of one stays there, and what is being written to an agent is kept

const talkKey = `holdpoint-draft-${person}-${location.pathname}`;
let following;

const toEnd = () => scrollTo(0, document.scrollingElement.scrollHeight);

function openTalk() {
	const message = find("#message");
	if (message) message.value ||= sessionStorage.getItem(talkKey) ?? "";
	if (!find("#say")) return;
	sessionStorage.removeItem(talkKey.replace(/[^/]*$/, "new")); // it began this one
	if (!location.hash.startsWith("#entry")) toEnd();
}

// ---- presence: others are told who has which call on the screen

let looked = 0;

function look() {
	const shown = call();
	if (!shown || document.hidden || shown.dataset.phase !== "parked") return;
	looked = performance.now();
	fetch(`/calls/${shown.dataset.call}/seen`, { method: "POST" }).catch(() => {});
}

// ---- drafts: what was typed is never lost

const draftKey = (shown) => `holdpoint-draft-${person}-${shown.dataset.call}`;
const editKey = (shown) => `holdpoint-edit-${person}-${shown.dataset.call}`;
const unsent = new Map(); // reasons that came too late, by draftKey, as long as this page is there

// forget removes what was typed in this tab; edited arguments may hold secrets.
function forget(except) {
	for (const key of Object.keys(sessionStorage)) {
		if (/^holdpoint-(draft|edit)-/.test(key) && !(except && key.includes(`-${except}-`))) sessionStorage.removeItem(key);
	}
}

// Whoever signs out does so in all tabs.
const signedOut = new BroadcastChannel("holdpoint-signed-out");
signedOut.onmessage = () => forget();
document.addEventListener("submit", ({ target }) => {
	if (!/^\/(settings\/)?sign-out/.test(target.getAttribute("action"))) return;
	forget();
	signedOut.postMessage(true);
});
if (person) forget(person);

// decided keeps nothing of a call that nobody can decide about any more, but for a reason that is still to be shown.
function decided(shown) {
	const draft = sessionStorage.getItem(draftKey(shown));
	if (draft) unsent.set(draftKey(shown), draft);
	sessionStorage.removeItem(draftKey(shown));
	sessionStorage.removeItem(editKey(shown));
}

function keepDraft(event) {
	if (event.target.id === "message") sessionStorage.setItem(talkKey, event.target.value);
	if (!call()) return;
	if (event.target.id === "reason") sessionStorage.setItem(draftKey(call()), event.target.value);
	if (event.target.form?.id === "edit") sessionStorage.setItem(editKey(call()), JSON.stringify([...new FormData(event.target.form)]));
}

// restoreEdit fills an editor that was just opened with what was typed into it before.
function restoreEdit() {
	const form = find("#edit");
	const kept = form && sessionStorage.getItem(editKey(call()));
	if (!kept || find("#problems")) return;
	const values = new Map(JSON.parse(kept));
	for (const field of form.elements) {
		if (field.type === "hidden" || !field.name) continue;
		if (field.type === "checkbox") field.checked = values.has(field.name);
		else if (values.has(field.name)) field.value = values.get(field.name);
	}
}

function restoreDraft() {
	const shown = call();
	if (!shown) return;
	if (shown.dataset.phase !== "parked") decided(shown);
	const draft = unsent.get(draftKey(shown)) ?? sessionStorage.getItem(draftKey(shown));
	const reason = find("#reason", shown);
	if (!draft || find("[data-testid=draft]", shown)) return;
	if (reason) reason.value ||= draft;
	else if (shown.dataset.phase === "parked") return;
	else if (find(".decision .note", shown)?.textContent.trim() === draft.trim()) unsent.delete(draftKey(shown));
	else if (shown.dataset.phase !== "approved" && shown.dataset.phase !== "executing") showDraft(shown, draft);
}

function showDraft(shown, draft) {
	const label = document.createElement("label");
	const text = document.createElement("textarea");
	label.className = "draft";
	text.readOnly = true;
	text.value = draft;
	text.dataset.testid = "draft";
	label.append(say("Unsent"), text);
	find(".call-head", shown).append(label);
}

// ---- keys

const typing = (element) => element.matches?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
const keysOn = () => localStorage.getItem("holdpoint-keys") !== "off";

function escape(event) {
	if (typing(event.target)) event.target.blur();
	else if (call()?.hasAttribute("data-hold")) find("#call [data-act=back]") ? act("back") : load(call().dataset.url);
	else if (!queue() && call()) location.assign("/");
}

const keys = {
	j: () => move(1),
	k: () => move(-1),
	a: () => act("approve"),
	r: (event) => {
		const reason = find("#reason");
		if (!reason || !armed()) return;
		event.preventDefault();
		reason.focus();
	},
	e: () => act("edit"),
	h: () => act("extend"),
	c: () => find("#call [data-act=conversation]")?.click(),
	n: () => find("#fresh:not([hidden])")?.click(),
	p: pause,
	"/": (event) => {
		const field = find("[type=search]");
		event.preventDefault();
		if (field) field.focus();
		else location.assign("/calls#search");
	},
	g: () => { going = performance.now(); },
	"?": () => find("#keys")?.showModal(),
};

// g and then a letter goes to a page.
const places = { q: "/", c: "/conversations", l: "/calls", s: "/skills" };
let going = -Infinity;

function go(event) {
	const place = performance.now() - going < 1500 && places[event.key];
	going = -Infinity;
	if (place) location.assign(place);
	return place;
}

function pause() {
	if (!queue()) return;
	const paused = page.toggleAttribute("data-paused");
	announce(say(paused ? "Paused" : "Resumed"));
	if (!paused) refresh();
}

function onKey(event) {
	if (event.defaultPrevented || event.isComposing || find("dialog[open]")) return;
	if (event.key === "Escape") return escape(event);
	if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && /^(reason|message)$/.test(event.target.id)) {
		event.preventDefault();
		if (event.repeat) return;
		if (event.target.id === "reason") act("reject");
		else event.target.form.requestSubmit();
		return;
	}
	if (!keysOn() || typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
	if (event.repeat && event.key !== "j" && event.key !== "k") return;
	if (!go(event)) keys[event.key]?.(event);
}

// ---- wiring

function onClick(event) {
	const button = event.target.closest("[data-act]");
	if (button && !settled()) {
		event.preventDefault();
		event.stopImmediatePropagation();
		return;
	}
	if (event.target.closest("#fresh")) {
		letMove();
		refresh();
		return;
	}
	if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
	const row = event.target.closest("#rows > li");
	const inner = event.target.closest("a[data-hp-within]");
	if (row && wide.matches && event.detail > 0) {
		event.preventDefault();
		find("a.open", row).focus();
		select(row);
	} else if (inner && queue() && call()) {
		event.preventDefault();
		load(inner.getAttribute("href"));
	}
}

function afterChange() {
	noteChange();
	countDown(refresh);
	localTimes();
	restoreDraft();
	restoreEdit();
	watchOutcome();
}

// Whoever has to sign in again comes back to the call that is on the screen.
const place = () => new URL(call()?.dataset.url ?? location.href, location.href).href;

// What was sent and had no answer may have arrived, or not: nothing is worse than a button that does nothing.
const setUnsent = (unsent) => { find("#unsent").hidden = !unsent; };

document.addEventListener("htmx:config:request", ({ detail }) => { detail.ctx.request.headers["HX-Current-URL"] = place(); });
document.addEventListener("htmx:error", ({ detail }) => {
	if (detail.ctx?.request.method === "POST") setUnsent(true);
});
document.addEventListener("htmx:before:swap", ({ detail }) => {
	following = find("#say") && scrollY + innerHeight > document.scrollingElement.scrollHeight - 120;
	for (const task of detail.tasks) if (task.target?.id === "queue") hold(task.fragment, letGo);
});
document.addEventListener("htmx:after:swap", ({ detail }) => {
	afterChange();
	if (following) toEnd();
	if (detail.ctx.request.method !== "POST") return;
	setUnsent(false);
	if (find("#message")?.value === "") sessionStorage.removeItem(talkKey);
	refresh();
});
document.addEventListener("click", onClick, true);
document.addEventListener("keydown", onKey);
document.addEventListener("input", keepDraft);
document.addEventListener("focusout", () => setTimeout(letGo));
document.addEventListener("pointerout", (event) => {
	if (event.target.closest?.("#rows > li") && !event.relatedTarget?.closest?.("#rows")) letGo();
});

for (const box of findAll(".keys-on")) {
	box.checked = keysOn();
	box.addEventListener("change", () => {
		localStorage.setItem("holdpoint-keys", box.checked ? "on" : "off");
		for (const other of findAll(".keys-on")) other.checked = box.checked;
	});
}

afterChange();
openTalk();
if (document.body.hasAttribute("data-signed-in")) {
	setInterval(() => {
		countDown(refresh);
		if (performance.now() - looked > 10000) look();
	}, 1000);
	// What changes without a pulse is asked for while somebody looks.
	setInterval(() => document.hidden || renewParts("[data-poll]"), 3000);
	live(onPulse, onLost, () => queue() && call() ? location.assign(place()) : location.reload());
}
page.setAttribute("data-ready", "");
