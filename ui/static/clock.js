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

// countDown updates the countdowns of a part of the page. It calls over when the countdown of the call on the screen ends.
export function countDown(over, part) {
	for (const element of findAll("[data-deadline]", part)) {
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

const minute = 60000, hour = 60 * minute, day = 24 * hour;

// ago says how long ago a time was; nothing if it is to come or more than a week ago.
function ago(ms) {
	if (ms < -minute || ms >= 7 * day) return;
	const unit = ms < hour ? minute : ms < day ? hour : day;
	return say(ms < minute ? "JustNow" : ms < hour ? "MinutesAgo" : ms < day ? "HoursAgo" : "DaysAgo", { n: Math.floor(ms / unit) });
}

// countUp updates the times of a part of the page that are relative to now.
export function countUp(part) {
	for (const element of findAll("time[data-clock]", part)) {
		const text = ago(now() - Date.parse(element.dateTime));
		if (text && element.textContent !== text) element.textContent = text;
	}
}

// The server shows times in the zone of this cookie.
const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;
if (zone) document.cookie = `holdpoint_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
