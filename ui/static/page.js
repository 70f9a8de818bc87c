// Functions that all scripts use.

export const find = (selector, root = document) => root.querySelector(selector);
export const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];
export const page = document.documentElement;

const texts = JSON.parse(find("[name=texts]").content);
const plurals = new Intl.PluralRules(page.lang);

// say returns a text of the catalog with its arguments; n selects the plural form.
export function say(name, args = {}) {
	const text = texts[name][plurals.select(args.n)] ?? texts[name].other;
	return text.replace(/{(\w+)[^}]*}/g, (_, argument) => args[argument].toLocaleString(page.lang));
}

// announce makes screen readers say a text. Each text stays for a while, so that none replaces another before it was said.
export function announce(text) {
	const line = document.createElement("span");
	line.textContent = `${text} `;
	find("#announce").append(line);
	setTimeout(() => line.remove(), 10000);
}

// setPending shows the number of pending calls and plans in the menu, the title and the icon.
export function setPending(n) {
	const count = find("#pending");
	if (!count) return;
	count.textContent = n.toLocaleString(page.lang);
	count.hidden = n === 0;
	const title = document.title.replace(/^\([\d.,]+\) /, "");
	document.title = n > 0 ? `(${n.toLocaleString(page.lang)}) ${title}` : title;
	const icon = find("#favicon");
	const href = n > 0 ? icon.dataset.waiting : icon.dataset.quiet;
	if (icon.getAttribute("href") !== href) icon.setAttribute("href", href);
}

// setStale shows whether live updates are interrupted.
export function setStale(stale) {
	find("#stale").hidden = !stale;
	page.toggleAttribute("data-live", !stale);
}
