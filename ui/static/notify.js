// One notification about all pending calls and plans while no page of the dashboard is visible. Only the page with the stream shows it.

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
		return; // on phones, only a service worker may notify
	}
	shown.onclose = ({ target }) => {
		if (shown === target) shown = undefined; // not its replacement
	};
	shown.onclick = () => {
		focus();
		if (location.pathname !== "/") location.assign("/");
	};
}

// notify takes the number of pending calls and plans.
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
