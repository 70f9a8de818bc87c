// Completion in the field of a condition: names of fields, their values, and functions. The words are in a list that the server sends with each
// check of the form.

import { announce, find, findAll, say } from "./page.js";

const shown = 8; // words at once
let field, list, from;

const options = () => findAll("[role=option]", list);
const chosen = () => find("[aria-selected=true]", list);

// findWords returns the words that can follow the text before the caret, and where the word begins.
function findWords(text) {
	const words = findAll(`#${field.dataset.complete} option`).map((one) => ({ word: one.value, label: one.label, ...one.dataset }));
	const compared = /([\w.`-]+)\s*(?:[!=]=|\bin\s*\[(?:[^\]]*,)?)\s*("[^"]*)?$/.exec(text);
	const values = words.filter(({ word, of }) => of && of === compared?.[1] && word.startsWith(compared[2] ?? "") && word !== compared[2]);
	if (values.length) return [values, text.length - (compared[2] ?? "").length];
	const [path] = /[\w`][\w.`-]*$/.exec(text) ?? [];
	if (!path || (text.split('"').length + text.split("'").length) % 2) return [[]]; // within quotes
	const begins = (word, part) => word !== part && word.toLowerCase().startsWith(part.toLowerCase());
	const names = words.filter(({ word, of, call }) => !of && call !== "member" && !word.includes("[") && begins(word, path));
	if (names.length) return [names, text.length - path.length];
	const [, part] = /\.(\w*)$/.exec(path) ?? [];
	return part === undefined ? [[]] : [words.filter(({ word, call }) => call === "member" && begins(word, part)), text.length - part.length];
}

function close() {
	list?.remove();
	list = undefined;
	field?.removeAttribute("aria-activedescendant");
}

function open(words) {
	close();
	if (!words.length) return;
	list = document.createElement("ul");
	list.id = "completions";
	list.className = "hits card";
	list.role = "listbox";
	list.dataset.testid = "completions";
	for (const [i, { word, label, call }] of words.slice(0, shown).entries()) {
		const option = document.createElement("li"), code = document.createElement("code"), note = document.createElement("small");
		option.id = `completion-${i}`;
		option.role = "option";
		option.dataset.word = call === undefined ? word : `${word}(`;
		code.textContent = word;
		note.textContent = ` ${label}`;
		option.append(code, note);
		list.append(option);
	}
	field.setAttribute("aria-controls", list.id);
	field.after(list);
	announce(say("Found", { n: list.childElementCount }));
}

function choose(chosen) {
	for (const option of options()) {
		option.setAttribute("aria-selected", option === chosen);
		option.className = option === chosen ? "badge info" : "";
	}
	if (chosen) field.setAttribute("aria-activedescendant", chosen.id);
	else field.removeAttribute("aria-activedescendant");
}

function accept({ dataset }) {
	field.setRangeText(dataset.word, from, field.selectionStart, "end");
	close();
	field.dispatchEvent(new Event("input", { bubbles: true }));
}

function onKey(event) {
	if (!list || event.target !== field || event.isComposing) return;
	const all = options(), at = all.indexOf(chosen());
	if (event.key === "ArrowDown") choose(all[at + 1]);
	else if (event.key === "ArrowUp") choose(all.at(at < 0 ? -1 : at - 1 < 0 ? all.length : at - 1));
	else if (event.key === "Escape") close();
	else if ((event.key === "Enter" || event.key === "Tab") && chosen()) accept(chosen());
	else return;
	event.preventDefault();
}

document.addEventListener("input", ({ target }) => {
	if (!target.dataset.complete) return;
	field = target;
	const [words, start] = findWords(field.value.slice(0, field.selectionStart));
	from = start;
	open(words);
});
document.addEventListener("keydown", onKey, true);
document.addEventListener("focusout", ({ target }) => target === field && close());
document.addEventListener("pointerdown", (event) => {
	const option = event.target.closest("#completions > li");
	if (!option) return;
	event.preventDefault(); // the field keeps the focus
	accept(option);
});
