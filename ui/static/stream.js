// The stream of changes. All tabs share one, because a browser opens only a few connections to a server.

// stream keeps an EventSource open and passes its messages to tell.
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
		source.addEventListener("end", () => {
			source.close(); // or it connects again without a session
			tell({ kind: "end" });
		});
		source.addEventListener("error", () => {
			tell({ kind: "stale" });
			if (source.readyState === EventSource.CLOSED) setTimeout(open, 3000);
		});
	};
	open();
}

let first = false;

// leads reports whether this tab has the stream.
export const leads = () => first;

// live calls heard with each pulse, lost when pulses stop, and over when the session has ended.
export function live(heard, lost, over) {
	const channel = new BroadcastChannel("holdpoint-live");
	let last;
	const take = (message) => {
		if (message.kind === "pulse") heard(message.pulse);
		else if (message.kind === "stale") lost();
		else if (message.kind === "end") over();
	};
	const tell = (message) => {
		last = message;
		channel.postMessage(message);
		take(message);
	};
	channel.onmessage = ({ data }) => {
		if (data.kind !== "hello") take(data);
		else if (first && last) channel.postMessage(last);
	};
	if (!navigator.locks) {
		stream(take);
		return;
	}
	channel.postMessage({ kind: "hello" });
	navigator.locks.request("holdpoint-live", () => {
		first = true;
		stream(tell);
		return new Promise(() => {}); // held until the tab closes
	});
}
