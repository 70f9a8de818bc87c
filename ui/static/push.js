// The choice on the page of settings how this browser notifies: never, while a page is open (notify.js), or by push (sw.js).

import { find, findAll, say } from "./page.js";

const name = "holdpoint-notify";
const box = find("#notify");
const worker = navigator.serviceWorker;
const file = "/sw.js";
const policy = window.trustedTypes?.createPolicy("holdpoint", { createScriptURL: () => file });

async function send(path, fields) {
	const answer = await fetch("/settings/push" + path, { method: "POST", body: new URLSearchParams(fields) });
	if (!answer.ok || answer.redirected) throw Error(answer.status === 422 ? await answer.text() : say("PushFailed"));
}

const subscription = async () => (await worker?.getRegistration())?.pushManager?.getSubscription();

async function end() {
	const old = await subscription();
	if (!old) return;
	await send("/end", { endpoint: old.endpoint });
	await old.unsubscribe();
}

async function begin() {
	if (!worker || !window.PushManager) throw Error(say("PushUnsupported"));
	await worker.register(policy?.createScriptURL("") ?? file);
	const { pushManager } = await worker.ready;
	const { endpoint, keys } = (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: box.dataset.key })).toJSON();
	await send("", { endpoint, ...keys });
}

async function choose({ target }) {
	const chosen = target.value;
	tell(chosen === "push" ? say("PushRegistering") : "");
	if (chosen && await Notification.requestPermission() !== "granted") throw Error(say("NotifyDenied"));
	await end();
	if (chosen === "push") await begin();
	localStorage.setItem(name, chosen);
	location.reload();
}

const mark = async (endpoint) =>
	[...new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(endpoint))).slice(0, 8)]
		.map((byte) => byte.toString(16).padStart(2, "0")).join("");

// Safari on iOS pushes only to an installed app.
const isIOS = /iPhone|iPad|iPod/.test(navigator.userAgent) || navigator.platform === "MacIntel" && navigator.maxTouchPoints > 1;
find("#notify-ios").hidden = !isIOS || navigator.standalone === true || matchMedia("(display-mode: standalone)").matches;

async function begun() {
	if (!window.isSecureContext) throw Error(say("NotifyInsecure"));
	if (!window.Notification) throw Error(say("NotifyUnsupported"));
	const own = find(`[data-mark="${await mark((await subscription())?.endpoint)}"]`);
	if (own) find(".here", own).hidden = false;
	const kept = localStorage.getItem(name) ?? "";
	const now = kept !== "push" || own ? kept : "";
	for (const input of findAll("input", box)) {
		input.checked = input.value === now;
		input.onchange = (event) => choose(event).catch(fail);
	}
	box.disabled = false;
}

const tell = (text) => find("#notify-says").textContent = text;
const fail = (error) => tell(error.message);

begun().catch(fail);
