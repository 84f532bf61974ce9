// What every page of the console does: live parts, keys, and fields that complete. Without it the pages show all the same.
"use strict";

// Bring what is shown to what it should be, changing only what differs: focus, selection and scrolling stay.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) {
    old.replaceWith(fresh.cloneNode(true));
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) return;
  for (const { name } of [...old.attributes]) {
    // Whether a fold is open, and which row is chosen, is for who looks at it to say.
    if (!fresh.hasAttribute(name) && name !== "open" && name !== "aria-selected") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, fresh);
}

function morphChildren(old, fresh) {
  const before = [...old.childNodes], after = [...fresh.childNodes];
  after.forEach((each, place) => (place < before.length ? morph(before[place], each) : old.append(each.cloneNode(true))));
  before.slice(after.length).forEach((each) => each.remove());
}

// A stream of the console. The mark says whether it lives; the browser comes again by itself when it ends.
function follow(address, events) {
  const source = new EventSource(address);
  const mark = document.querySelector(".live-mark");
  const say = (text, away) => {
    if (!mark) return;
    mark.hidden = false;
    mark.textContent = text;
    mark.classList.toggle("away", away);
  };
  source.onopen = () => say("live", false);
  source.onerror = () => say("not connected, trying again", true);
  for (const [name, heard] of Object.entries(events)) source.addEventListener(name, (event) => heard(JSON.parse(event.data)));
  addEventListener("pagehide", () => source.close());
  return source;
}

for (const part of document.querySelectorAll("[data-live]")) {
  const address = "/admin/stream/" + part.dataset.live.split("/").map(encodeURIComponent).join("/");
  follow(address, {
    part: ({ body }) => {
      const fresh = document.createElement("div");
      fresh.innerHTML = body;
      morphChildren(part, fresh);
    },
  });
}

// Fields that complete: the server knows the names.
for (const field of document.querySelectorAll("[data-complete]")) {
  let list = document.getElementById(field.getAttribute("list"));
  if (!list) {
    list = Object.assign(document.createElement("datalist"), { id: `names-for-${field.id}` });
    field.after(list);
    field.setAttribute("list", list.id);
  }
  let urls = new Map(), asked = "";
  field.addEventListener("input", async () => {
    const typed = field.value;
    if (urls.has(typed) && field.type === "search") {
      location.href = urls.get(typed); // one of the list was chosen
      return;
    }
    asked = typed;
    const answer = await fetch(`${field.dataset.complete}?q=${encodeURIComponent(typed)}`);
    if (!answer.ok || asked !== typed) return;
    const { topics } = await answer.json();
    urls = new Map(topics.map(({ name, url }) => [name, url]));
    list.replaceChildren(...topics.map(({ name }) => Object.assign(document.createElement("option"), { value: name })));
  });
}

// Where the pages' names do not fit, the one that is open is in sight.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// "/" goes to the search, "j" and "k" walk the first list, Enter opens what is chosen.
const rows = () => [...document.querySelectorAll("[data-list] tbody tr, #result_list tbody tr")];
function walk(step) {
  const all = rows(), at = all.findIndex((row) => row.getAttribute("aria-selected") === "true");
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  if (!next) return;
  all.forEach((row) => row.removeAttribute("aria-selected"));
  next.setAttribute("aria-selected", "true");
  next.scrollIntoView({ block: "nearest" });
}
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const chosen = () => rows().find((row) => row.getAttribute("aria-selected") === "true");
  if (event.key === "/") {
    document.querySelector(".find input")?.focus();
    event.preventDefault();
  } else if (event.key === "j") walk(1);
  else if (event.key === "k") walk(-1);
  else if (event.key === "Enter" && event.target === document.body) chosen()?.querySelector("a")?.click();
});

// A list that is wider than the page can be scrolled by keys, too.
for (const results of document.querySelectorAll("#changelist .results")) {
  results.tabIndex = 0;
  results.setAttribute("role", "region");
  results.setAttribute("aria-label", "List");
}
