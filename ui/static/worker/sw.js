// The service worker shows pending calls and plans while no page of the dashboard is open. Its messages are encrypted for this browser. It
// handles no requests. The server adds the constants language and texts.

const summary = "calls";
const plurals = new Intl.PluralRules(language);

// say returns a text of the catalog with its arguments; n selects the plural form.
function say(name, args = {}) {
	const text = texts[name][plurals.select(args.n)] ?? texts[name].other;
	return text.replace(/{(\w+)[^}]*}/g, (_, argument) => args[argument].toLocaleString(language));
}

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("push", (event) => event.waitUntil(take(event.data.json())));

self.addEventListener("notificationclick", (event) => {
	event.notification.close();
	event.waitUntil(open(event.notification.data ?? "/"));
});

// A browser may replace its subscription.
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

const show = (title, options) => self.registration.showNotification(title, options);

const name = (kind, call, team) => say({
	escalated: team ? "PushEscalatedTo" : "PushEscalated", no_reviewer: "PushNoReviewer", unmeetable: "PushUnmeetable", asked: "PushAsked", planned: "PushPlanned", broke_glass: "PushBrokeGlass",
	guard_lost: "PushGuardLost", bypassed: "PushBypassed",
}[kind] ?? "PushParked", { call, team });

// take shows a notification for each new pending call and closes those of calls that are no longer pending. Browsers update a worker some
// time after the server. So messages have a title for workers that expect one, and this worker shows the title of a message without a kind.
async function take({ show: calls, more, ended, waiting }) {
	for (const { id, kind, call: names, gate, team, title, until } of calls) {
		const call = gate ? say("PushGate", { call: names }) : names;
		const time = new Date(until).toLocaleTimeString(language, { hour: "2-digit", minute: "2-digit" });
		const data = ["guard_lost", "bypassed"].includes(kind) ? "/guards" : `/${kind === "planned" ? "plans" : "calls"}/${id}`;
		await show(kind ? name(kind, call, team) : title, { tag: id, data, renotify: true, body: until ? say("Until", { time }) : "" });
	}
	const shown = await self.registration.getNotifications();
	for (const one of shown) if (ended.includes(one.tag)) one.close();
	const left = shown.filter((one) => !ended.includes(one.tag));
	const total = left.find((one) => one.tag === summary);
	if (more > 0 || total && waiting > left.length - 1) {
		await show(say("Pending", { n: waiting }), { tag: summary, silent: more === 0 });
	} else if (total && waiting > 0) {
		total.close();
	}
	if (waiting === 0 && left.length === (total ? 1 : 0)) await leave(total);
}

// leave says that no calls are pending: browsers want a notification for each message, unless a page is visible.
async function leave(total) {
	const pages = await self.clients.matchAll({ type: "window" });
	if (pages.some((page) => page.visibilityState === "visible")) total?.close();
	else await show(say("NonePending"), { tag: summary, silent: true });
}

async function open(path) {
	const pages = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
	const page = pages.find((one) => new URL(one.url).pathname === path);
	await (page ? page.focus() : self.clients.openWindow(path));
}

async function renew({ oldSubscription, newSubscription }) {
	const options = oldSubscription?.options;
	const subscription = newSubscription ?? (options && await self.registration.pushManager.subscribe(options));
	if (!subscription) return;
	const { endpoint, keys } = subscription.toJSON();
	await fetch("/settings/push", { method: "POST", body: new URLSearchParams({ endpoint, ...keys }) });
}
