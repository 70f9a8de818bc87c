// The dashboard's script updates pages when the server signals a change, counts down, and handles keys. Every page and form
// also works without it.

import { countDown, countUp, now, setClock } from "./clock.js";
import "./complete.js";
import { copy } from "./copy.js";
import { notify } from "./notify.js";
import { keepFocus, noteFocus, tellDone, tellNew, tellOutcome, words } from "./outcome.js";
import { announce, find, findAll, page, say, setPending, setStale } from "./page.js";
import { openPalette, setUpPalette } from "./palette.js";
import { hasLooked, readOn, showGate, toTop, watchReading } from "./read.js";
import { hold, letMove } from "./rows.js";
import { watchSearch } from "./seek.js";
import { live } from "./stream.js";

const wide = matchMedia("(width >= 64rem)");
const narrow = matchMedia("(width < 48rem)");

const call = () => find("#call[data-call]");
const queue = () => find("#queue");
const selectedRow = () => find("#rows > [data-hp-selected]");

// ---- updates

let lastState;
const person = document.body.dataset.person;

function onPulse(pulse) {
	setClock(pulse.now);
	setPending(pulse.pending);
	notify(pulse.pending);
	tellNew(pulse.pending);
	setStale(false);
	viewers = pulse.viewers ?? {};
	showViewers();
	const shown = find("[data-conversation]")?.dataset.conversation;
	const news = shown && pulse.news?.some((id) => id === shown || id === "*");
	if (pulse.state === lastState && !news) return;
	lastState = pulse.state;
	refresh();
}

// showViewers shows who else has each call on the screen.
let viewers;

function showViewers(root) {
	if (!viewers) return; // the server rendered them
	for (const mark of findAll("[data-viewers]", root)) {
		const others = (viewers[mark.closest("[data-call]").dataset.call] ?? []).filter((viewer) => viewer.person !== person);
		const names = others.map((viewer) => viewer.name).join(", ");
		const text = find("span", mark);
		mark.hidden = names === "";
		if (text.textContent.trim() !== names) text.textContent = names;
	}
}

// The next pulse updates the page, since changes may have been missed.
function onLost() {
	lastState = undefined;
	setStale(true);
}

const pace = 300; // ms between two updates
let due, renewed = -Infinity;
let listing = false; // the list of calls is being fetched
let isChosen = false; // the next list is one that the reader chose

function refresh() {
	if (due) return;
	due = setTimeout(() => {
		due = undefined;
		renewed = performance.now();
		if (!page.hasAttribute("data-paused")) renewParts("[data-hp-live]");
		renewCall();
	}, Math.max(0, renewed + pace - performance.now()));
}

// renewParts makes parts of the page fetch themselves again.
function renewParts(selector) {
	for (const part of findAll(selector)) htmx.trigger(part, "hp:refresh");
}

function renewCall() {
	const shown = call();
	if (loading) {
		missed = true;
		return;
	}
	if (failed && !isWriting()) {
		load(failed);
		return;
	}
	if (!shown?.hasAttribute("data-live") || shown.hasAttribute("data-hold") && remaining(shown) > 0) return;
	const url = new URL(shown.dataset.url, location.href);
	url.searchParams.set("known", shown.dataset.state); // the server sends nothing if this is current
	htmx.ajax("GET", url.pathname + url.search, { source: "#main", target: "#call", swap: "outerMorph" });
}

function remaining(shown) {
	const deadline = find("[data-deadline]", shown);
	return deadline ? Number(deadline.dataset.deadline) - now() : 0;
}

// The outcome of a running call is checked often at first, then less often.
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

// letGo updates a list that holds rows back.
const letGo = () => {
	if (find("#rows > .gone") || find("#fresh")?.hidden === false) refresh();
};

// ---- selection

// mark makes a row the selected one.
function mark(row) {
	for (const other of findAll("#rows > [data-hp-selected]")) other.removeAttribute("data-hp-selected");
	row.setAttribute("data-hp-selected", "");
	spot = findAll("#rows > .row").indexOf(row);
	undone = undefined;
}

// select asks for the call of a row first, and shows the selection while the call is on its way.
function select(row) {
	const link = find("a.open", row);
	if (wide.matches) load(link.getAttribute("href"));
	link.focus();
	mark(row);
}

let loading; // the newest load in progress
let missed = false; // whether a load or a form suppressed an update
let failed; // the address of the newest load, if it came while the database was unavailable

// load shows a call, and tells the server that it is on the screen. It swaps the pane and not #call, because the response to an
// earlier form may replace #call meanwhile, and htmx would then drop this response.
async function load(address) {
	owed = failed = undefined;
	find("#hint").hidden = true;
	const mine = loading = { address };
	const url = new URL(address, location.href);
	const to = find("#pane") ? { target: "#pane", swap: "innerHTML" } : { target: "#call", swap: "outerHTML" };
	url.searchParams.set("look", "1");
	noteLook(url.pathname.split("/")[2]);
	await htmx.ajax("GET", url.pathname + url.search, { source: "#main", ...to }).catch(() => {});
	if (loading !== mine) return;
	loading = undefined;
	catchUp();
}

// catchUp fetches an update that was suppressed.
function catchUp() {
	if (!missed) return;
	missed = false;
	renewCall();
}

let spot; // the place of the last selected row, which may have left the list
let owed; // the arguments of a move that found no row while the list was being updated

// isListDue reports whether the list is being updated: other parts of the page may know of calls before it shows them.
const isListDue = () => due ? !page.hasAttribute("data-paused") : listing;

// move selects the next row (1) or the one before (-1) of a pending call. If leave is true, or the call of the selected row is no
// longer pending, it turns around at the end of the list. A move that finds no row waits for an update of the list that is due.
function move(step, leave = false) {
	owed = undefined;
	const isGone = (row) => row.classList.contains("gone");
	const rows = findAll("#rows > .row");
	const at = rows.indexOf(selectedRow());
	const here = at >= 0 ? at : spot === undefined ? (step > 0 ? -1 : Infinity) : spot - .5;
	const ahead = (direction) => {
		const open = rows.filter((row, i) => !isGone(row) && (i - here) * direction > 0 && !(leave && row.hasAttribute("data-voted")));
		return open.at(direction > 0 ? 0 : -1);
	};
	const { call: id, phase } = call()?.dataset ?? {};
	const isDecided = at >= 0 && rows[at].dataset.call === id && phase !== "parked"; // the list may not show it yet
	const row = ahead(step) ?? (leave || at < 0 || isGone(rows[at]) || isDecided ? ahead(-step) : undefined);
	if (!row) {
		if (queue() && isListDue()) owed = [step, leave];
		return;
	}
	select(row);
}

// advance opens the next call after a decision. It goes by the response to the decision's form, because an update may have shown
// the decision before. The response to a form that decided nothing, or too late, stays on the screen.
function advance({ request, response, text }) {
	if (request.method !== "POST" || response.status !== 200) return;
	const [, id] = /^\/calls\/([^/]+)\/(?:approve|reject)$/.exec(new URL(request.action, location.href).pathname) ?? [];
	const [, phase] = /data-phase="(\w+)"/.exec(text) ?? [];
	if (!id || !phase || phase === "parked" && !/<article[^>]* data-voted/.test(text)) return; // a vote leads on too
	const [, until] = /data-undo="(\d+)"/.exec(text) ?? [];
	if (until) offerUndo(id, Number(until));
	if (wide.matches && queue()?.hasAttribute("data-advance") && (selectedRow() ?? call())?.dataset.call === id) move(1, true);
	else hasNext = !queue() && !until && /<article[^>]* data-advance/.test(text);
}

let hasNext; // on a page without the queue, another call is pending after a decision

// openNext opens the next call on a page without the queue. It waits for the swap of the decided call, which it replaces.
async function openNext() {
	hasNext = false;
	await load(find("#call [data-next]")?.getAttribute("href") ?? "/next");
	if (call()) history.replaceState(null, "", call().dataset.url);
	else location.assign("/");
}

// ---- undo: the last approval can be taken back for some seconds, whatever is on the screen by then

let undoable; // {id, until}
let undoing; // the same, until the server responds
let tooLate = false; // the time to undo the last approval is over
let undone; // the call that was taken back, until the list shows it again
let undoneAt; // what was on the screen when the reader took it back

const undoneRow = () => `#rows > [data-call="${undone}"]:not(.gone)`;

function markUndone() {
	const row = find(undoneRow());
	if (!row) return;
	mark(row);
	if (!isWriting()) find("a.open", row).focus();
}

function offerUndo(id, until) {
	undoable = { id, until };
	tooLate = false;
	find("#undo span").textContent = say("Undoable", { call: find(`#rows [data-call="${id}"] .tool`)?.textContent.trim() ?? id.slice(-6) });
	countUndo();
}

function countUndo() {
	const seconds = Math.ceil(((undoable?.until ?? 0) - now()) / 1000);
	if (undoable && seconds <= 0) {
		undoable = undefined;
		tooLate = true;
	}
	find("#undo").hidden = !undoable;
	if (undoable) find("#undo .left").textContent = say("Seconds", { seconds });
}

async function undo() {
	if (tooLate) announce(say("UndoTooLate"));
	if (!undoable) return;
	const { id } = undoing = undoable;
	undoable = owed = undefined;
	countUndo();
	noteChange();
	undoneAt = shownAs;
	const to = find("#pane") && wide.matches ? { target: "#pane", swap: "innerHTML" } : { target: "#call", swap: "outerHTML" };
	await htmx.ajax("POST", `/calls/${id}/undo`, { source: "#undo", ...to }).catch(() => {}); // #main would abort it for the next load
}

// keepUnsent says that a form may not have arrived. An undo is offered again.
function keepUnsent(element) {
	setUnsent(true);
	if (element?.id !== "undo") return;
	undoable ??= undoing;
	countUndo();
}

// hasMovedOn reports whether the response to an undo would replace another call, or a text that the reader writes.
function hasMovedOn() {
	noteChange();
	return loading || shownAs !== undoneAt || isWriting();
}

// ---- actions: only on the call on the screen, and not right after it changed

const settling = 400; // ms
let shownAs, changedAt = 0, arming;

function noteChange() {
	const shown = call();
	const { call: id, digest, step, edited, url, revealed } = shown?.dataset ?? {};
	const as = [id, digest, step, edited, url, revealed].join();
	if (as === shownAs) return;
	shownAs = as;
	if (shown && shown.dataset.call !== lookedAt) look();
	(find("#problems") ?? find("#edit [name]:not([type=hidden])"))?.focus();
	changedAt = performance.now();
	page.removeAttribute("data-armed");
	clearTimeout(arming);
	arming = setTimeout(arm, settling);
}

// On a slow machine, htmx takes over the buttons of a call after the pause. Until then they would load another page.
const isTakenOver = () => !find("#call [hx-post]:not([data-htmx-powered])");

function arm() {
	if (isTakenOver() && hasLooked()) page.setAttribute("data-armed", shownAs);
	else arming = setTimeout(arm, settling);
}

// settled checks for a change itself, because htmx reports a swap with a delay.
function settled() {
	noteChange();
	return performance.now() - changedAt >= settling && isTakenOver() && hasLooked();
}

function armed() {
	const shown = call();
	if (!shown?.dataset.digest || !settled()) return false;
	if (!queue()) return true;
	const row = selectedRow();
	return row !== null && row.dataset.digest === shown.dataset.digest && !row.classList.contains("gone");
}

function act(name) {
	if (lacksCall() || !armed()) return;
	const button = find(`#call [data-act="${name}"]`);
	if (button) button.click();
	else hint(say("NotHere"));
}

// lacksCall says what to do if a key acts on a call and none is on the screen.
function lacksCall() {
	if (!queue() || call() || loading) return false;
	hint(say(find("#rows > .row:not(.gone)") ? "OpenFirst" : "NonePending"));
	return true;
}

let hinting;

// hint announces a text and shows it for a while.
function hint(text) {
	announce(text);
	show(text);
}

function show(text) {
	const line = find("#hint");
	line.textContent = text;
	line.hidden = false;
	clearTimeout(hinting);
	hinting = setTimeout(() => { line.hidden = true; }, 4000);
}

// ---- conversations: keep the reader at the end, and keep the typed message

const talkKey = `holdpoint-draft-${person}-${location.pathname}`;
let following;

const toEnd = () => scrollTo(0, document.scrollingElement.scrollHeight);

function openTalk() {
	const message = find("#message");
	if (message) message.value ||= sessionStorage.getItem(talkKey) ?? "";
	if (!find("#say")) return;
	sessionStorage.removeItem(talkKey.replace(/[^/]*$/, "new")); // it started this conversation
	if (!location.hash.startsWith("#entry")) toEnd();
}

// ---- presence: tell the server which call is on the screen

let looked = 0, lookedAt; // when the server was told last, and about which call

function noteLook(id) {
	looked = performance.now();
	lookedAt = id;
}

function look() {
	const shown = call();
	if (!shown || document.hidden || shown.dataset.phase !== "parked") return;
	noteLook(shown.dataset.call);
	fetch(`/calls/${shown.dataset.call}/seen`, { method: "POST" }).catch(() => {});
}

// ---- drafts: typed text is never lost

const draftKey = (shown) => `holdpoint-draft-${person}-${shown.dataset.call}`;
const editKey = (shown) => `holdpoint-edit-${person}-${shown.dataset.call}`;
const commentKey = (shown) => `holdpoint-comment-${person}-${shown.dataset.call}`;
const unsent = new Map(); // reasons that came too late, by draftKey

// forget removes the drafts of this tab, which may hold secrets.
function forget(except) {
	for (const key of Object.keys(sessionStorage)) {
		if (/^holdpoint-(draft|edit|comment)-/.test(key) && !(except && key.includes(`-${except}-`))) sessionStorage.removeItem(key);
	}
}

// Signing out removes the drafts of all tabs.
const signedOut = new BroadcastChannel("holdpoint-signed-out");
signedOut.onmessage = () => forget();
document.addEventListener("submit", ({ target }) => {
	if (!/^\/(settings\/)?sign-out/.test(target.getAttribute("action"))) return;
	forget();
	signedOut.postMessage(true);
});
if (person) forget(person);

// forgetComment removes the draft of a comment that was added.
function forgetComment() {
	if (!call()) return;
	sessionStorage.removeItem(commentKey(call()));
	const comment = find("#comment");
	if (comment) comment.value = "";
}

// decided removes the drafts of a call that is no longer pending, and keeps an unsent reason to show it.
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
	if (event.target.id === "comment") sessionStorage.setItem(commentKey(call()), event.target.value);
	if (event.target.form?.id === "edit") sessionStorage.setItem(editKey(call()), JSON.stringify([...new FormData(event.target.form)]));
}

// restoreEdit fills a new editor with its draft.
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
	const comment = find("#comment", shown);
	if (comment) comment.value ||= sessionStorage.getItem(commentKey(shown)) ?? "";
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
const isWriting = () => typing(document.activeElement) && find("#call")?.contains(document.activeElement);
const keysOn = () => localStorage.getItem("holdpoint-keys") !== "off";

function escape(event) {
	if (typing(event.target)) event.target.blur();
	else if (call()?.hasAttribute("data-hold")) find("#call [data-act=back]") ? act("back") : load(call().dataset.url);
	else if (!queue() && call()) location.assign("/");
}

let astray = -Infinity; // when a key was ignored as part of a text that no field took

// type moves the focus to a field of the call on the screen. If the call is too new for that, the text that follows must not act on it
// letter by letter: its keys are ignored up to the next pause.
function type(event, selector) {
	const field = find(selector);
	if (!field) return;
	event.preventDefault();
	if (armed()) return field.focus();
	astray = performance.now();
	hint(say("TooEarly"));
}

function isAstray() {
	if (performance.now() - astray > 1500) return false;
	astray = performance.now();
	return true;
}

const keys = {
	j: () => move(1),
	k: () => move(-1),
	a: () => act("approve"),
	r: (event) => {
		if (lacksCall()) return;
		askReason();
		type(event, "#reason");
	},
	m: () => act("claim"),
	l: () => find("#call [data-act=grant]")?.click(),
	u: undo,
	e: () => act("edit"),
	h: () => act("extend"),
	c: () => find("#call [data-act=conversation]")?.click(),
	n: (event) => {
		const fresh = find("#fresh:not([hidden])");
		if (fresh) fresh.click();
		else type(event, "#comment");
	},
	p: pause,
	"/": (event) => {
		const field = find("main [type=search]");
		event.preventDefault();
		if (field) field.focus();
		else openPalette();
	},
	g: () => { going = performance.now(); },
	"?": () => find("#keys")?.showModal(),
};

// g and a letter open a page.
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

// rejectTyped sends the reason. The focus leaves its field, or the next key would be typed there while the response is on its way.
function rejectTyped() {
	if (!armed()) return;
	act("reject");
	find("#sentence").focus({ preventScroll: true });
}

function onKey(event) {
	if (event.defaultPrevented || event.isComposing || find("dialog[open]")) return;
	if (event.key === "Escape") return escape(event);
	if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && /^(reason|message|comment)$/.test(event.target.id)) {
		event.preventDefault();
		if (event.repeat) return;
		if (event.target.id === "reason") rejectTyped();
		else if (event.target.id === "comment") find("button", event.target.form).click(); // its form would load another page
		else event.target.form.requestSubmit();
		return;
	}
	if (!keysOn() || typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
	if (event.repeat && event.key !== "j" && event.key !== "k" || isAstray()) return;
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
	if (button?.hasAttribute("data-unread") && readOn()) {
		event.preventDefault();
		event.stopImmediatePropagation();
		return;
	}
	if (event.target.closest("#undo-last")) return undo();
	if (button?.dataset.act === "reject" && narrow.matches && askReason()) {
		event.preventDefault();
		event.stopImmediatePropagation();
		find("#reason").focus();
		return;
	}
	if (event.target.closest("#fresh")) {
		letMove();
		refresh();
		return;
	}
	if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
	const row = event.target.closest("#rows > .row");
	const inner = event.target.closest("a[data-hp-within]");
	if (row && wide.matches && event.detail > 0) {
		event.preventDefault();
		select(row);
	} else if (inner && queue() && call()) {
		event.preventDefault();
		load(inner.getAttribute("href"));
	} else if (event.target.closest("[data-next]") && queue() && wide.matches) {
		event.preventDefault();
		move(1, true);
	}
}

// askReason shows the field for the reason, which the bar of a phone lacks until it is wanted. It reports false if it was there.
function askReason() {
	const form = find("#decide:not([data-hp-asked])");
	form?.setAttribute("data-hp-asked", "");
	return form && find("#reason", form);
}

// The choices above the list apply at once.
function onChange({ target }) {
	const form = target.closest("#choose");
	if (!form) return;
	const chosen = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
	const url = chosen.size ? `/?${chosen}` : "/";
	letMove();
	history.replaceState(null, "", url);
	queue().setAttribute("hx-get", url); // the live updates too
	isChosen = true;
	htmx.trigger(queue(), "hp:refresh");
}

// afterChange brings the page, or the part of it that changed, up to date with a change, which may be the response to a form. The functions
// that read the layout come first, because it is computed again after each write.
function afterChange(answered = false, part = document) {
	noteChange();
	tellOutcome(answered);
	showGate();
	countDown(refresh, part);
	countUp(part);
	restoreDraft();
	if (find("#reason")?.value || find("#decide .error")) askReason();
	restoreEdit();
	showViewers(part);
	watchOutcome();
}

let changed; // the selector of the part of the page that a swap changes; undefined: all of it
let answered = false; // the response to a form is being swapped; another swap may end first, and finds its notice

// A sign-in leads back to the call on the screen.
const place = () => new URL(call()?.dataset.url ?? location.href, location.href).href;

// A request without a response may have arrived or not. The page says so, since a button without any effect is worse.
const setUnsent = (unsent) => { find("#unsent").hidden = !unsent; };

document.addEventListener("htmx:config:request", ({ detail }) => { detail.ctx.request.headers["HX-Current-URL"] = place(); });
document.addEventListener("htmx:before:request", ({ detail }) => {
	if (detail.ctx.sourceElement.id !== "queue") return;
	listing = true;
	if (isChosen) detail.ctx.request.headers["HP-Chosen"] = "true";
	isChosen = false;
});
// While the database is unavailable, the screen stays as it is. The first pulse afterwards updates it.
document.addEventListener("htmx:before:response", (event) => {
	const { request, response, sourceElement } = event.detail.ctx;
	if (response.status !== 503 || !response.headers.has("Retry-After")) return;
	event.preventDefault();
	lastState = undefined;
	if (request.method === "POST") return keepUnsent(sourceElement);
	if (loading && sourceElement.id === "main") failed = loading.address;
	setStale(true);
});
document.addEventListener("htmx:after:request", ({ detail }) => {
	advance(detail.ctx);
	const [, id] = /^\/calls\/([^/]+)\/undo$/.exec(new URL(detail.ctx.request.action, location.href).pathname) ?? [];
	if (!id || detail.ctx.response.status !== 200) return;
	undone = id;
	announce(say("Undone"));
});
document.addEventListener("htmx:finally:request", ({ detail }) => {
	if (detail.ctx.request.method === "POST") catchUp();
	if (detail.ctx.sourceElement.id !== "queue") return;
	listing = false;
	if (owed) move(...owed);
});
document.addEventListener("htmx:error", ({ detail }) => {
	if (detail.ctx?.request.method === "POST") keepUnsent(detail.ctx.sourceElement);
});
document.addEventListener("htmx:before:swap", (event) => {
	const { detail } = event;
	// While a form is on its way, an update of a pending call waits: it would keep the form's button, and htmx drops clicks on it until the response.
	if (!loading && detail.ctx.sourceElement.id === "main" && find("#call [hx-post].htmx-request") && detail.tasks.some(({ fragment }) => find("#call[data-phase=parked]", fragment))) {
		event.preventDefault();
		missed = true;
		return;
	}
	if (detail.ctx.sourceElement.id === "undo" && hasMovedOn()) {
		event.preventDefault();
		if (detail.ctx.response.status === 200) show(say("Undone"));
		else hint(words(find("#call > .notice:first-child p, .message h1", detail.tasks[0].fragment)));
		undone = undefined;
		setUnsent(false);
		refresh();
		return;
	}
	noteFocus(detail.ctx.request.method === "POST");
	answered ||= detail.ctx.request.method === "POST";
	following = find("#say") && scrollY + innerHeight > document.scrollingElement.scrollHeight - 120;
	for (const task of detail.tasks) {
		if (task.target?.id !== "queue") continue;
		if (find(undoneRow(), task.fragment)) letMove(); // the keys act on it once it is in the list
		hold(task.fragment, letGo);
	}
	changed = detail.tasks.every(({ target }) => target?.closest?.("#pane, #call")) ? "#call" : undefined;
});
document.addEventListener("htmx:after:swap", ({ detail }) => {
	afterChange(answered, changed && find(changed) || document);
	if (following) toEnd();
	markUndone();
	keepFocus();
	if (detail.ctx.request.method !== "POST") return;
	answered = false;
	setUnsent(false);
	if (/\/comments$/.test(detail.ctx.request.action) && !find("#comment-problem")) forgetComment();
	if (call() && (call().dataset.phase !== "parked" || detail.ctx.sourceElement.id === "undo")) toTop();
	if (hasNext) openNext();
	if (find("#message")?.value === "") sessionStorage.removeItem(talkKey);
	refresh();
});
document.addEventListener("click", onClick, true);
document.addEventListener("keydown", onKey);
document.addEventListener("input", keepDraft);
document.addEventListener("change", onChange);
// A browser shows only the line with the caret of a text area, which may leave the rest below the bar of actions.
document.addEventListener("focusin", ({ target }) => target.id === "comment" && target.scrollIntoView({ block: "nearest" }));
document.addEventListener("focusout", () => setTimeout(letGo));
document.addEventListener("pointerout", (event) => {
	if (event.target.closest?.("#rows > .row") && !event.relatedTarget?.closest?.("#rows")) letGo();
});

for (const box of findAll(".keys-on")) {
	box.checked = keysOn();
	box.addEventListener("change", () => {
		localStorage.setItem("holdpoint-keys", box.checked ? "on" : "off");
		for (const other of findAll(".keys-on")) other.checked = box.checked;
	});
}

setUpPalette({
	next: () => queue() && wide.matches ? move(1, true) : false,
	copy: (hit) => copy(hit.dataset.copy),
	pause: () => queue() ? pause() : false,
	theme: () => {
		const now = page.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
		const other = now === "dark" ? "light" : "dark";
		page.dataset.theme = other;
		find("[name=color-scheme]").content = other;
		fetch("/settings/theme", { method: "POST", body: new URLSearchParams({ theme: other }) }).catch(() => {});
	},
});
afterChange();
openTalk();
tellDone();
if (document.body.hasAttribute("data-signed-in")) {
	watchReading();
	watchSearch();
	setInterval(() => {
		countUp();
		countUndo();
		countDown(refresh);
		if (performance.now() - looked > 10000) look();
	}, 1000);
	// Some parts change without a pulse. They are polled while the page is visible.
	setInterval(() => document.hidden || renewParts("[data-poll]"), 3000);
	live(onPulse, onLost, () => queue() && call() ? location.assign(place()) : location.reload());
}
page.setAttribute("data-ready", "");
