// The dashboard's own script: it renews what is on the screen when the server says that
// something changed, counts down, and makes keys work. Nothing depends on it: without it
// every page and every form works by itself.

const find = (selector, root = document) => root.querySelector(selector);
const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
const page = document.documentElement;
const wide = matchMedia("(width >= 64rem)");
const hovers = matchMedia("(hover: hover)");

const call = () => find("#call[data-call]");
const queue = () => find("#queue");
const selectedRow = () => find("#rows > [data-hp-selected]");

// ---- time, by the server's clock

let offset = Number(page.dataset.now) - Date.now();
const now = () => Date.now() + offset;

function left(ms) {
	const s = Math.max(0, Math.ceil(ms / 1000));
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
	return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function countDown() {
	for (const element of findAll("[data-deadline]")) {
		const ms = Number(element.dataset.deadline) - now();
		const text = ms > 0 ? left(ms) : "time is up";
		if (element.textContent !== text) element.textContent = text;
		element.classList.toggle("urgent", ms < 60000);
		if (element.closest("#call")) warn(element, ms);
	}
}

// warn announces the countdown of the call on the screen at 60 and 20 seconds
// only, and looks at the call again when its time is up.
function warn(element, ms) {
	const s = Math.ceil(ms / 1000);
	const step = s <= 0 ? 0 : s <= 20 ? 20 : s <= 60 ? 60 : -1;
	const said = element.dataset.hpSaid ?? String(step > 0 && s < step - 1 ? step : -1);
	element.dataset.hpSaid = said;
	if (step < 0 || said === String(step)) return;
	element.dataset.hpSaid = String(step);
	if (step === 0) refresh();
	else announce(`${step} seconds left to decide`);
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localTimes() {
	for (const element of findAll("time[data-clock]")) {
		const text = clock.format(new Date(element.dateTime));
		if (element.textContent === text) continue;
		element.title = element.dateTime;
		element.textContent = text;
	}
}

function announce(text) {
	find("#announce").textContent = text;
}

// ---- live: one stream for all tabs of a browser

let lastState;

function onPulse(pulse) {
	offset = pulse.now - Date.now();
	setPending(pulse.pending);
	setStale(false);
	if (pulse.state === lastState) return;
	lastState = pulse.state;
	refresh();
}

function setPending(n) {
	const count = find("#pending");
	if (!count) return;
	count.textContent = n.toLocaleString("en");
	count.hidden = n === 0;
	const title = document.title.replace(/^\([\d,]+\) /, "");
	document.title = n > 0 ? `(${n.toLocaleString("en")}) ${title}` : title;
	const icon = find("#favicon");
	const href = n > 0 ? icon.dataset.waiting : icon.dataset.quiet;
	if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

function setStale(stale) {
	find("#stale").hidden = !stale;
	page.toggleAttribute("data-live", !stale);
}

// stream keeps an EventSource open and tells what it says to every tab.
function stream(tell) {
	let source, silence;
	const expectMore = () => {
		clearTimeout(silence);
		silence = setTimeout(() => tell({ kind: "stale" }), 40000);
	};
	const open = () => {
		source = new EventSource("/events");
		source.addEventListener("pulse", (event) => {
			expectMore();
			tell({ kind: "pulse", pulse: JSON.parse(event.data) });
		});
		source.addEventListener("end", () => tell({ kind: "end" }));
		source.addEventListener("error", () => {
			tell({ kind: "stale" });
			if (source.readyState === EventSource.CLOSED) setTimeout(open, 3000);
		});
	};
	open();
}

function live() {
	const channel = new BroadcastChannel("holdpoint-live");
	let last, leads = false;
	const take = (message) => {
		if (message.kind === "pulse") onPulse(message.pulse);
		else if (message.kind === "stale") setStale(true);
		else if (message.kind === "end") location.reload();
	};
	const tell = (message) => {
		last = message;
		channel.postMessage(message);
		take(message);
	};
	channel.onmessage = ({ data }) => {
		if (data.kind !== "hello") take(data);
		else if (leads && last) channel.postMessage(last);
	};
	if (!navigator.locks) {
		stream(take);
		return;
	}
	channel.postMessage({ kind: "hello" });
	navigator.locks.request("holdpoint-live", () => {
		leads = true;
		stream(tell);
		return new Promise(() => {}); // as long as this tab is there
	});
}

// ---- renewing what is on the screen

const pace = 300; // ms between two renewals
let due, renewed = -Infinity;

function refresh() {
	if (due) return;
	due = setTimeout(() => {
		due = undefined;
		renewed = performance.now();
		if (queue()) htmx.trigger(queue(), "hp:refresh");
		renewCall();
	}, Math.max(0, renewed + pace - performance.now()));
}

function renewCall() {
	const shown = call();
	if (!shown?.hasAttribute("data-live") || shown.dataset.step === "confirm" && remaining(shown) > 0) return;
	htmx.ajax("GET", shown.dataset.url, { source: "#main", target: "#call", swap: "outerMorph" });
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

// ---- the list never moves what somebody points at

let release = false;

// hold changes what arrives so that the rows down to the one under the pointer or
// focus stay where they are: new ones above it are counted, gone ones turn grey.
function hold(arriving) {
	const rows = findAll("#rows > li");
	const held = release ? -1 : rows.findLastIndex((row) =>
		row.contains(document.activeElement) || hovers.matches && row.matches(":hover"));
	release = false;
	if (held < 0) return;
	const list = find("#rows", arriving) ?? emptyList(arriving);
	const incoming = new Map([...list.children].map((row) => [row.id, row]));
	const kept = rows.slice(0, held + 1).map((row) => incoming.get(row.id) ?? goneRow(row));
	const keptIDs = new Set(kept.map((row) => row.id));
	const known = new Set(rows.map((row) => row.id));
	const limit = deadlineOf(kept.at(-1));
	const after = [...incoming.values()].filter((row) =>
		!keptIDs.has(row.id) && (known.has(row.id) || deadlineOf(row) >= limit));
	const back = incoming.size - after.length - kept.filter((row) => incoming.has(row.id)).length;
	list.replaceChildren(...kept, ...after);
	const chip = find("#fresh", arriving);
	chip.hidden = back === 0;
	chip.textContent = `${back} new`;
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

function goneRow(row) {
	const gone = row.cloneNode(true);
	gone.classList.add("gone");
	const timer = find("[data-deadline]", gone);
	if (timer) {
		timer.dataset.was = timer.dataset.deadline;
		timer.removeAttribute("data-deadline");
		timer.classList.remove("urgent");
		timer.textContent = "no longer waiting";
	}
	return gone;
}

const letGo = () => {
	if (find("#rows > .gone") || find("#fresh")?.hidden === false) refresh();
};

// ---- selection: the pane follows it

function select(row) {
	for (const other of findAll("#rows > [data-hp-selected]")) other.removeAttribute("data-hp-selected");
	row.setAttribute("data-hp-selected", "");
	if (wide.matches) load(find("a.open", row).getAttribute("href"));
}

function load(url) {
	htmx.ajax("GET", url, { source: "#main", target: "#call", swap: "outerHTML" });
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
	const as = shown ? [shown.dataset.call, shown.dataset.digest, shown.dataset.step].join() : "";
	if (as === shownAs) return;
	shownAs = as;
	changedAt = performance.now();
	page.removeAttribute("data-armed");
	clearTimeout(arming);
	arming = setTimeout(() => page.setAttribute("data-armed", ""), settling);
}

const settled = () => performance.now() - changedAt >= settling;

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
	else announce(`Nothing to ${name} here`);
}

// ---- drafts: a typed reason is never lost

const draftKey = (shown) => `holdpoint-draft-${shown.dataset.call}`;

function keepDraft(event) {
	if (event.target.id === "reason" && call()) sessionStorage.setItem(draftKey(call()), event.target.value);
}

function restoreDraft() {
	const shown = call();
	if (!shown) return;
	const draft = sessionStorage.getItem(draftKey(shown));
	const reason = find("#reason", shown);
	if (!draft || find("[data-testid=draft]", shown)) return;
	if (reason) reason.value ||= draft;
	else if (shown.dataset.phase === "parked") return;
	else if (find(".decision .note", shown)?.textContent.trim() === draft.trim()) sessionStorage.removeItem(draftKey(shown));
	else if (shown.dataset.phase !== "approved" && shown.dataset.phase !== "executing") showDraft(shown, draft);
}

function showDraft(shown, draft) {
	const label = document.createElement("label");
	const text = document.createElement("textarea");
	label.className = "draft";
	text.readOnly = true;
	text.value = draft;
	text.dataset.testid = "draft";
	label.append("What you had written was not sent:", text);
	find(".call-head", shown).append(label);
}

// ---- keys

const typing = (element) => element.matches?.("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]");
const keysOn = () => localStorage.getItem("holdpoint-keys") !== "off";

function escape(event) {
	if (typing(event.target)) event.target.blur();
	else if (call()?.dataset.step === "confirm") act("back");
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
	n: () => find("#fresh:not([hidden])")?.click(),
	"?": () => find("#keys")?.showModal(),
};

function onKey(event) {
	if (event.defaultPrevented || event.isComposing || find("dialog[open]")) return;
	if (event.key === "Escape") return escape(event);
	if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "reason") {
		event.preventDefault();
		if (!event.repeat) act("reject");
		return;
	}
	if (!keysOn() || typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
	if (event.repeat && event.key !== "j" && event.key !== "k") return;
	keys[event.key]?.(event);
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
		release = true;
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
	countDown();
	localTimes();
	restoreDraft();
	watchOutcome();
}

document.addEventListener("htmx:before:swap", ({ detail }) => {
	for (const task of detail.tasks) if (task.target?.id === "queue") hold(task.fragment);
});
document.addEventListener("htmx:after:swap", ({ detail }) => {
	afterChange();
	if (detail.ctx.request.method === "POST") refresh();
});
document.addEventListener("click", onClick, true);
document.addEventListener("keydown", onKey);
document.addEventListener("input", keepDraft);
document.addEventListener("focusout", () => setTimeout(letGo));
document.addEventListener("pointerout", (event) => {
	if (event.target.closest?.("#rows > li") && !event.relatedTarget?.closest?.("#rows")) letGo();
});

const keysBox = find("#keys-on");
if (keysBox) {
	keysBox.checked = keysOn();
	keysBox.addEventListener("change", () => localStorage.setItem("holdpoint-keys", keysBox.checked ? "on" : "off"));
}

afterChange();
if (document.body.hasAttribute("data-signed-in")) {
	setInterval(countDown, 1000);
	live();
}
page.setAttribute("data-ready", "");
