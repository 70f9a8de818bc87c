// Buttons that copy an id, a digest, a key, a command or a link.

import { announce, find, say } from "./page.js";

// copy puts a text into the clipboard. A browser without one selects the text in an element instead.
export async function copy(text, shown) {
	try {
		await navigator.clipboard.writeText(text);
		announce(say("Copied"));
	} catch {
		if (!shown) return announce(say("NotHere"));
		getSelection().selectAllChildren(shown);
		announce(say("Selected"));
	}
}

document.addEventListener("click", ({ target }) => {
	const button = target.closest?.("button[data-copy]");
	if (button) copy(button.dataset.copy, find("code", button.previousElementSibling) ?? button.previousElementSibling);
});
