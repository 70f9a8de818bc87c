// The notification of an open page: one, about all calls that wait, while nobody looks at any page of
// the dashboard. Only the page that leads shows it.

import { say } from "./page.js";
import { leads } from "./stream.js";

const name = "holdpoint-notify";
const watched = new BroadcastChannel(name);
let last, shown, seen, due;

const look = watched.onmessage = () => {
	seen = true;
	shown?.close();
};

function show(silent) {
	try {
		shown = new Notification(say("Pending", { n: last }), { tag: name, silent });
	} catch {
		return; // on phones only a service worker may
	}
	shown.onclose = ({ target }) => {
		if (shown === target) shown = undefined; // and not another one that took its place
	};
	shown.onclick = () => {
		focus();
		if (location.pathname !== "/") location.assign("/");
	};
}

// notify is told how many calls wait.
export function notify(n) {
	const before = last;
	last = n;
	if (!document.hidden) {
		watched.postMessage(0);
		look();
	} else if (n < before && shown) {
		if (n) show(true);
		else shown.close();
	} else if (n > before && leads() && localStorage.getItem(name) === "open") {
		seen = false;
		clearTimeout(due);
		due = setTimeout(() => seen || last && show(), 500);
	}
}

document.addEventListener("visibilitychange", () => document.hidden || notify(last));
