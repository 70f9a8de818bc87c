// Finds the sections that have all words of the search field. Sections with a word in their heading come first.
const root = document.currentScript.dataset.root;
const field = document.getElementById("search");
const found = document.getElementById("found");
const page = document.getElementById("page");

function findSections(words) {
  const scored = [];
  for (const section of sections) {
    const heading = (section.title + " " + section.heading).toLowerCase();
    const text = section.text.toLowerCase();
    if (words.every((word) => heading.includes(word) || text.includes(word))) {
      scored.push([words.filter((word) => heading.includes(word)).length, section]);
    }
  }
  return scored.sort((a, b) => b[0] - a[0]).slice(0, 30).map((entry) => entry[1]);
}

function excerpt(text, word) {
  const at = Math.max(text.toLowerCase().indexOf(word) - 60, 0);
  return (at > 0 ? "…" : "") + text.slice(at, at + 180) + (text.length > at + 180 ? "…" : "");
}

function showFound() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  page.hidden = words.length > 0;
  found.replaceChildren();
  const list = words.length > 0 ? findSections(words) : [];
  for (const section of list) {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = root + section.page;
    link.textContent = section.title === section.heading ? section.title : section.title + " › " + section.heading;
    link.addEventListener("click", () => { field.value = ""; showFound(); });
    const text = document.createElement("p");
    text.textContent = excerpt(section.text, words[0]);
    item.append(link, text);
    found.append(item);
  }
  if (words.length > 0 && list.length === 0) {
    const none = document.createElement("li");
    none.textContent = "No section has all of these words.";
    found.append(none);
  }
}

field.addEventListener("input", showFound);
field.form.addEventListener("submit", (event) => {
  event.preventDefault();
  found.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
});
showFound();
