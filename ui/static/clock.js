// The server's time, and countdowns.

import { announce, findAll, page, say } from "./page.js";

let offset = Number(page.dataset.now) - Date.now();

export const now = () => Date.now() + offset;

export function setClock(serverTime) {
	offset = serverTime - Date.now();
}

function left(ms) {
	const s = Math.ceil(ms / 1000);
	const part = (unit, of) => Math.floor((s % of) / unit);
	const time = { days: part(86400, Infinity), hours: part(3600, 86400), minutes: part(60, 3600), seconds: s % 60 };
	return say(s <= 0 ? "TimeUp" : time.days ? "Days" : time.hours ? "Hours" : time.minutes ? "Minutes" : "Seconds", time);
}

// countDown updates all countdowns. It calls over when the countdown of the call on the screen ends.
export function countDown(over) {
	for (const element of findAll("[data-deadline]")) {
		const ms = Number(element.dataset.deadline) - now();
		const text = left(ms);
		if (element.textContent !== text) element.textContent = text;
		element.classList.toggle("urgent", ms < 60000);
		if (element.closest("#call")) warn(element, ms, over);
	}
}

// warn announces the countdown of the call on the screen at 60 and 20 seconds, and calls over at its end.
function warn(element, ms, over) {
	const s = Math.ceil(ms / 1000);
	const step = s <= 0 ? 0 : s <= 20 ? 20 : s <= 60 ? 60 : -1;
	const said = element.dataset.hpSaid ?? String(step > 0 && s < step - 1 ? step : -1);
	element.dataset.hpSaid = said;
	if (step < 0 || said === String(step)) return;
	element.dataset.hpSaid = String(step);
	if (step === 0) over();
	else announce(say("AnnounceLeft", { n: step }));
}

const clock = new Intl.DateTimeFormat(page.lang, { dateStyle: "medium", timeStyle: "medium" });

export function localTimes() {
	for (const element of findAll("time[data-clock]")) {
		const text = clock.format(new Date(element.dateTime));
		if (element.textContent === text) continue;
		element.title = element.dateTime;
		element.textContent = text;
	}
}
