// Announcements of outcomes, and where the focus goes afterwards.

import { announce, find, findAll, say } from "./page.js";

export const words = (element) => element?.innerText.replace(/\s+/g, " ").trim();
const kept = new Map(); // the call on the screen at the last look

// tellOutcome announces a change of the call on the screen: its status and who decided, a notice, its deadline, or who works on it.
// answered: the change is the response to a form, whose notice is announced although another call was on the screen before.
export function tellOutcome(answered) {
	const call = find("#call[data-call]");
	const id = call?.dataset.call, before = kept.get(id);
	const deadline = Number(find(".state [data-deadline]", call ?? undefined)?.dataset.deadline ?? 0);
	const now = { phase: words(find("#call .state .badge")), notice: words(find("#call > .notice:first-child p")), deadline };
	now.holder = find("#call [data-team]") ? words(find("#call [data-holder]")) ?? "" : before?.holder; // hidden beside another form
	kept.clear();
	if (!id) return;
	kept.set(id, now);
	if (now.notice && (before ? now.notice !== before.notice : answered)) announce(now.notice);
	if (!before) return;
	if (now.phase !== before.phase) announce([now.phase, words(find("#call .call-head .decision"))].filter(Boolean).join(". "));
	else if (now.deadline > before.deadline && before.deadline) announce(say("MoreTime"));
	else if (before.holder !== undefined && now.holder !== before.holder) announce(now.holder || say("Released"));
}

// tellDone announces the notice of an action that led to this page, and moves the focus to it.
export function tellDone() {
	const url = new URL(location.href);
	if (!url.searchParams.has("done")) return;
	url.searchParams.delete("done"); // another load would repeat it
	history.replaceState(history.state, "", url);
	const notice = findAll("main .notice").find((one) => !one.hasAttribute("data-standing"));
	if (!notice) return;
	notice.tabIndex = -1;
	notice.focus();
	announce(words(notice));
}

let waiting, due;

// tellNew announces that more calls and plans wait, at most every two seconds.
export function tellNew(n) {
	if (n > waiting) due ??= setTimeout(() => {
		due = undefined;
		if (waiting) announce(say("Pending", { n: waiting }));
	}, 2000);
	waiting = n;
}

let lost;

// noteFocus notes whether the focus is in the call that a swap replaces, or nowhere before the response to a form. keepFocus moves it on if
// it was lost.
export function noteFocus(answered) {
	const at = document.activeElement;
	lost = find("#call")?.contains(at) || answered && at === document.body;
}

export function keepFocus() {
	if (lost && document.activeElement === document.body) (find("#call [data-next]") ?? find("#decide [data-act=back]") ?? find("#sentence"))?.focus({ preventScroll: true });
	lost = false;
}
