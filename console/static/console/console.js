// Live parts, keys, and fields that complete, for every page of the console. All pages work without this file.
"use strict";

// Makes a part of the page like its new version. Only differences are changed, so focus, selection and scrolling stay.
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

// A stream of the console. The mark says whether it is open. A browser reconnects after the end of a stream. Each update has its
// age, which the browser counts on, so an old page says within seconds that it is old. After a refusal, such as 503 while
// PostgreSQL is away, no browser reconnects, so the page does.
const PATIENCE_MS = 3000, REFUSED_MS = 3000;
function follow(address, events) {
  let source, last = "";
  const mark = document.querySelector(".live-mark");
  const say = (text, away) => {
    if (!mark) return;
    mark.hidden = false;
    mark.textContent = text;
    mark.classList.toggle("away", away);
  };
  let drawn = { at: performance.now(), next: 2000, ts: Date.now() }, away = null;
  const age = () => {
    const old = performance.now() - drawn.at, late = old > drawn.next + PATIENCE_MS;
    const seconds = Math.round(old / 1000), state = `as of ${new Date(drawn.ts).toISOString().slice(11, 19)}, ${seconds} s ago`;
    if (away === null && !late) return;  // the first connection is being made
    if (away || late) say(`${away ? "not connected" : "not updated"}, ${state}`, true);
    else say(old > 5000 ? `live, ${seconds} s old` : "live", false);
    document.body.classList.toggle("stale", late);
  };
  setInterval(age, 1000);
  events.drawn = ({ ts, age_ms, next_ms }) => {
    drawn = { at: performance.now() - age_ms, next: next_ms, ts };
    age();
  };
  const open = () => {
    source?.close();
    source = new EventSource(last ? `${address}&lastEventId=${encodeURIComponent(last)}` : address);
    source.onopen = () => { away = false; age(); };
    source.onerror = () => {
      away = true;
      age();
      if (source.readyState === EventSource.CLOSED) setTimeout(open, REFUSED_MS);
    };
    for (const [name, heard] of Object.entries(events)) {
      source.addEventListener(name, (event) => {
        last = event.lastEventId;
        heard(JSON.parse(event.data), event.data);
      });
    }
  };
  open();
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => event.persisted && open()); // the browser kept the page, and someone came back to it
}

// One cross in all charts of the page: the values of each at the same time. A finger or a mouse moves it.
let crossed = null; // how far from the left, from 0 to 1
function cross() {
  for (const chart of document.querySelectorAll(".chart")) {
    const points = chart.querySelectorAll(".points rect"), line = chart.querySelector(".cross"), output = chart.querySelector("output");
    if (!points.length) continue;
    const point = crossed === null ? null : points[Math.round(crossed * (points.length - 1))];
    if (!point) line.removeAttribute("x1");
    for (const end of point ? ["x1", "x2"] : []) line.setAttribute(end, Number(point.getAttribute("x")) + Number(point.getAttribute("width")) / 2);
    output.textContent = point ? point.textContent : "";
  }
}
for (const kind of ["pointermove", "pointerdown"]) {
  addEventListener(kind, (event) => {
    const plot = event.target.closest?.(".chart .plot");
    if (!plot && crossed === null) return;
    const box = plot?.getBoundingClientRect();
    crossed = plot ? Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) : null;
    cross();
  });
}

for (const clock of document.querySelectorAll("[data-clock]")) {
  const tick = () => (clock.textContent = `${new Date().toISOString().slice(11, 19)} UTC`);
  setInterval(tick, 1000);
  tick();
}

for (const part of document.querySelectorAll("[data-live]")) {
  const address = "/admin/stream/" + part.dataset.live.split("/").map(encodeURIComponent).join("/");
  follow(address, {
    part: ({ body }) => {
      const fresh = document.createElement("div");
      fresh.innerHTML = body;
      morphChildren(part, fresh);
      cross();
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
  field.addEventListener("input", async ({ inputType }) => {
    const typed = field.value;
    // Whether one of the list was chosen: a typed name may continue, as `orders` to `orders-audit`. Some browsers say no type.
    const isChosen = [undefined, "insertReplacementText"].includes(inputType);
    if (isChosen && urls.has(typed) && field.type === "search") {
      location.href = urls.get(typed);
      return;
    }
    asked = typed;
    const answer = await fetch(`${field.dataset.complete}?q=${encodeURIComponent(typed)}`);
    if (!answer.ok || answer.redirected || asked !== typed) return; // redirected: to the login
    const { found } = await answer.json();
    urls = new Map(found.map(({ name, url }) => [name, url]));
    list.replaceChildren(...found.map(({ name }) => Object.assign(document.createElement("option"), { value: name })));
  });
}

// The keys of the dialog that "?" opens (base_site.html).
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
  const search = () => {
    document.querySelector(".find input")?.focus();
    event.preventDefault();
  };
  if ((event.ctrlKey || event.metaKey) && event.key === "k") search();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const chosen = () => rows().find((row) => row.getAttribute("aria-selected") === "true");
  if (event.key === "/") search();
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (event.key === "j") walk(1);
  else if (event.key === "k") walk(-1);
  else if (event.key === "Enter" && event.target === document.body) chosen()?.querySelector("a")?.click();
});

// A list that is wider than the page can be scrolled by keys, too.
for (const results of document.querySelectorAll("#changelist .results")) {
  results.tabIndex = 0;
  results.setAttribute("role", "region");
  results.setAttribute("aria-label", "List");
}
